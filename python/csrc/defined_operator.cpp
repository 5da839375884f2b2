#include "python/csrc/defined_operator.h"

#include <algorithm>

#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"

namespace flambeau::python {
namespace {

bool is_plain_item(const ValueType& type, PyObject* value) {
  switch (type.kind) {
    case ValueKind::Tensor:
      return is_tensor(value);
    case ValueKind::Integer:
      return PyLong_CheckExact(value) && !exceeds_64_bits(value);
    case ValueKind::Real:
      return PyFloat_CheckExact(value);
    case ValueKind::Complex:
      return PyComplex_CheckExact(value);
    case ValueKind::Boolean:
      return PyBool_Check(value);
    case ValueKind::Text:
      return PyUnicode_CheckExact(value);
    case ValueKind::Number:
      return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
             PyComplex_CheckExact(value);
    case ValueKind::Other:
      return checked(PyObject_IsInstance(value, type.classes.get())) == 1;
  }
  return false;
}

// --- what a kernel writes to --------------------------------------------------------------------

// A new version for each tensor in a written argument: of operators that `custom_op` defines in any
// case, also for a tensor that an operator inside writes to, else where no operator has written.
class Versions {
 public:
  Versions(const DefinedOperator& op, bool is_custom, PyObject* const* values) {
    for (size_t i = 0; i < op.parameters.size(); ++i) {
      if (!op.parameters[i].is_written) continue;
      visit_tensor_values(values[i], [&](const Tensor& t) {
        if (t.impl()->is_inference()) return;
        if (is_custom) return t.impl()->bump_version();
        before_.emplace_back(t, t.impl()->version());
      });
    }
  }
  void raise() const {
    for (const auto& [tensor, version] : before_) {
      if (tensor.impl()->version() == version) tensor.impl()->bump_version();
    }
  }

 private:
  std::vector<std::pair<Tensor, uint32_t>> before_;
};

// --- results ------------------------------------------------------------------------------------

[[noreturn]] void fail_result(const DefinedOperator& op, const ValueType& type, PyObject* value) {
  fail(ErrorKind::Runtime, op.name, ": expected the kernel to return a ",
       type.is_list ? "list of " : "", kKindNames[static_cast<size_t>(type.kind)], ", got ",
       Py_TYPE(value)->tp_name, " (unable to cast)");
}

// A number of NumPy or of a tensor with one element as Python's own; null where it is none.
Ref number_as(ValueKind kind, PyObject* value) {
  const bool is_one = is_tensor(value) && tensor_of(value).numel() == 1;
  if (!is_one && !is_number(value)) return Ref();
  const Ref held = is_one ? carried(wrap(read_item(tensor_of(value)))) : Ref::share(value);
  if (kind == ValueKind::Real && !PyComplex_Check(held.get()))
    return carried(PyNumber_Float(held.get()));
  if (kind == ValueKind::Complex) {
    auto* const type = reinterpret_cast<PyObject*>(&PyComplex_Type);
    return carried(PyObject_CallOneArg(type, held.get()));
  }
  if (!PyIndex_Check(held.get())) return Ref();
  if (kind == ValueKind::Integer) return carried(PyNumber_Index(held.get()));
  if (kind == ValueKind::Boolean) return Ref(wrap(checked(PyObject_IsTrue(held.get())) == 1));
  return Ref();
}

// The value as a caller receives it: integers become floats, tuples lists.
Ref result_as(const DefinedOperator& op, const ValueType& type, PyObject* value) {
  if (value == Py_None && type.kind == ValueKind::Tensor && !type.is_list) return Ref::share(value);
  if (is_plain(type, value)) return Ref::share(value);
  if (type.is_list && PyTuple_Check(value)) {
    Ref list = carried(PySequence_List(value));
    if (is_plain(type, list.get())) return list;
  }
  if (Ref number = type.is_list ? Ref() : number_as(type.kind, value)) return number;
  fail_result(op, type, value);
}

Ref results_as(const DefinedOperator& op, Ref result) {
  const size_t count = op.results.size();
  if (count == 1) return result_as(op, op.results[0], result.get());
  if (count == 0) {
    check(result.get() == Py_None, op.name, ": expected the kernel to return None, got ",
          Py_TYPE(result.get())->tp_name, ", as the schema has no results");
    return result;
  }
  check_type(PyTuple_Check(result.get()) || PyList_Check(result.get()), op.name,
             ": expected the kernel to return a tuple of ", count, " results, got ",
             Py_TYPE(result.get())->tp_name);
  // A tuple of their own: conversions run Python code, which may change a list of results.
  const Ref items = carried(PySequence_Tuple(result.get()));
  const auto given = static_cast<size_t>(PyTuple_GET_SIZE(items.get()));
  check(given == count, op.name, ": expected the kernel to return ", count, " results, got ",
        given);
  Ref tuple = carried(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    PyObject* const item = PyTuple_GET_ITEM(items.get(), at);
    PyTuple_SET_ITEM(tuple.get(), at, result_as(op, op.results[i], item).release());
  }
  return tuple;
}

// --- memory -------------------------------------------------------------------------------------

bool shares_memory(const Tensor& a, const Tensor& b) {
  if (a.impl() == b.impl()) return true;
  if (a.impl()->wrapper() || b.impl()->wrapper()) return false;  // no memory of its own
  if (!a.storage() || !b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  return a.storage()->data() && a.storage()->data() == b.storage()->data();
}

void check_unaliased(const DefinedOperator& op, PyObject* const* values, PyObject* result) {
  std::vector<Tensor> seen;
  for (size_t i = 0; i < op.parameters.size(); ++i)
    visit_tensor_values(values[i], [&](const Tensor& t) { seen.push_back(t); });
  visit_tensor_values(result, [&](const Tensor& t) {
    const bool is_shared = std::any_of(
        seen.begin(), seen.end(), [&](const Tensor& other) { return shares_memory(t, other); });
    check(
        !is_shared, op.name,
        ": expected results with memory of their own, got one that shares memory with an argument "
        "or another result; clone it");
    seen.push_back(t);
  });
}

// --- arguments ----------------------------------------------------------------------------------

bool is_preset(const DefinedParameter& parameter, PyObject* value) {
  PyObject* const preset = parameter.preset.get();
  if (!preset || value == preset) return preset != nullptr;
  return Py_TYPE(value) == Py_TYPE(preset) &&
         checked(PyObject_RichCompareBool(value, preset, Py_EQ)) == 1;
}

// Kernels may lack the last parameters of the schema: values that are the default are left out.
Ref call_with(const DefinedOperator& op, PyObject* function, PyObject* const* values) {
  size_t given = op.places;
  while (given > 0 && is_preset(op.parameters[given - 1], values[given - 1])) --given;
  SmallVector<PyObject*, 16> passed;
  for (size_t i = 0; i < given; ++i) passed.push_back(values[i]);
  if (op.places == op.parameters.size())
    return carried(PyObject_Vectorcall(function, passed.data(), given, nullptr));
  const Ref names = carried(PyList_New(0));
  for (size_t i = op.places; i < op.parameters.size(); ++i) {
    if (is_preset(op.parameters[i], values[i])) continue;
    passed.push_back(values[i]);
    checked(PyList_Append(names.get(), op.parameters[i].name.get()));
  }
  const Ref keywords = carried(PyList_AsTuple(names.get()));
  return carried(PyObject_Vectorcall(function, passed.data(), given, keywords.get()));
}

}  // namespace

bool is_plain(const ValueType& type, PyObject* value) {
  if (value == Py_None) return type.optional;
  if (!type.is_list) return is_plain_item(type, value);
  if (!PyList_CheckExact(value)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) {
    PyObject* const item = PyList_GET_ITEM(value, i);
    if (item == Py_None ? !type.optional_items : !is_plain_item(type, item)) return false;
  }
  return true;
}

Ref run_kernel(const DefinedOperator& op, PyObject* function, bool is_unaliased,
               PyObject* const* values) {
  const Ref kept = Ref::share(function);  // it may be replaced while it runs
  const Versions versions(op, is_unaliased, values);
  Ref result = call_with(op, function, values);
  versions.raise();
  result = results_as(op, std::move(result));
  if (is_unaliased) check_unaliased(op, values, result.get());
  return result;
}

}  // namespace flambeau::python
