#include "python/csrc/aggregate_values.h"

#include "python/csrc/autograd.h"

namespace flambeau::python {
namespace {

bool tuple_from(PyObject* o, const AggregateType& type, IValue* out) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  // Of a list, a copy: an item may run code of the program, which may change the list.
  const Ref given = Ref::checked(PySequence_Tuple(o));
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(given.get()));
  if (count != type.members.size()) return false;
  std::vector<IValue> items(count);
  for (size_t i = 0; i < count; ++i) {
    PyObject* const item = PyTuple_GET_ITEM(given.get(), static_cast<Py_ssize_t>(i));
    if (!aggregate_from(item, type.members[i], &items[i])) return false;
  }
  *out = IValue(CustomObject(c10::make_intrusive<TupleValue>(std::move(items))));
  return true;
}

// "SymInt[2]" is "int[]" for C++.
std::string plain_type(std::string_view type) {
  return schema_results("f() -> (" + std::string(type) + ")").at(0).type;
}

bool dict_from(PyObject* o, const AggregateType& type, IValue* out) {
  if (!PyDict_Check(o)) return false;
  auto made =
      c10::make_intrusive<DictValue>(plain_type(type.members[0]), plain_type(type.members[1]));
  const Ref items = Ref::checked(PyDict_Items(o));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* const item = PyList_GET_ITEM(items.get(), i);
    IValue key, value;
    if (!aggregate_from(PyTuple_GET_ITEM(item, 0), type.members[0], &key) ||
        !aggregate_from(PyTuple_GET_ITEM(item, 1), type.members[1], &value))
      return false;
    made->insert(std::move(key), std::move(value));
  }
  *out = IValue(CustomObject(std::move(made)));
  return true;
}

Ref tuple_of(const TupleValue& value) {
  Ref tuple = carried(PyTuple_New(static_cast<Py_ssize_t>(value.size())));
  for (size_t i = 0; i < value.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     carried(wrap_value(value.items[i])).release());
  }
  return tuple;
}

Ref dict_of(const DictValue& value) {
  Ref dict = carried(PyDict_New());
  for (const auto& [key, item] : value.entries()) {
    const Ref its_key = carried(wrap_value(key)), its_item = carried(wrap_value(item));
    if (PyDict_SetItem(dict.get(), its_key.get(), its_item.get()) < 0) carried(nullptr);
  }
  return dict;
}

}  // namespace

bool aggregate_from(PyObject* o, std::string_view text, IValue* out) {
  const AggregateType type = aggregate_type(text);
  if (type.form != AggregateType::Form::Other && o == Py_None && type.is_optional) {
    *out = IValue();
    return true;
  }
  switch (type.form) {
    case AggregateType::Form::Tuple:
      return tuple_from(o, type, out);
    case AggregateType::Form::Dict:
      return dict_from(o, type, out);
    default:
      return item_from(o, text, out);
  }
}

Ref wrap_aggregate(const CustomObject& object) {
  if (const TupleValue* const tuple = tuple_in(object)) return tuple_of(*tuple);
  if (const DictValue* const dict = dict_in(object)) return dict_of(*dict);
  return Ref();
}

}  // namespace flambeau::python
