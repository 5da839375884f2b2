#include "python/csrc/boxed_schema.h"

#include <charconv>
#include <unordered_map>

#include "aten/core/factory.h"
#include "aten/dispatch/custom_class.h"
#include "python/csrc/aggregate_values.h"
#include "python/csrc/autograd.h"
#include "python/csrc/custom_object.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

// --- the text of a schema -----------------------------------------------------------------------

struct KindName {
  std::string_view name;
  ParamKind one, list;
};
constexpr KindName kKinds[] = {
    {"Tensor", ParamKind::Tensor, ParamKind::TensorList},
    {"Scalar", ParamKind::Scalar, ParamKind::ScalarList},
    {"int", ParamKind::Int, ParamKind::IntList},
    {"SymInt", ParamKind::Int, ParamKind::IntList},
    {"float", ParamKind::Float, ParamKind::FloatList},
    {"bool", ParamKind::Bool, ParamKind::BoolList},
    {"str", ParamKind::String, ParamKind::StringList},
    {"ScalarType", ParamKind::ScalarType, ParamKind::ScalarType},
    {"Layout", ParamKind::Layout, ParamKind::Layout},
    {"Device", ParamKind::Device, ParamKind::Device},
    {"MemoryFormat", ParamKind::MemoryFormat, ParamKind::MemoryFormat},
    {"Generator", ParamKind::Generator, ParamKind::Generator},
};

template <typename T>
T number_from(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size(), "schema: expected a number, got ",
        text);
  return value;
}

int64_t integer_in(std::string_view text) {
  for (const auto& [name, value] : kNamedIntegers) {
    if (text == name) return value;
  }
  return number_from<int64_t>(text);
}

Scalar scalar_in(std::string_view text) {
  const bool is_integer = text.find_first_of(".en") == std::string_view::npos;
  return is_integer ? Scalar(number_from<int64_t>(text)) : Scalar(number_from<double>(text));
}

ScalarType dtype_in(std::string_view text) {
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const auto type = static_cast<ScalarType>(i);
    if (text == name_of(type)) return type;
  }
  fail(ErrorKind::Runtime, "schema: expected a dtype, got ", text);
}

std::vector<int64_t> integers_in(std::string_view text, int list_size) {
  std::vector<int64_t> values;
  if (!text.starts_with('[')) {
    values.assign(static_cast<size_t>(std::max(list_size, 1)), integer_in(text));
    return values;
  }
  for (const std::string_view item : schema_parts(text.substr(1, text.size() - 2)))
    values.push_back(integer_in(item));
  return values;
}

IValue default_of(const Param& param, std::string_view text) {
  if (text == "None") return IValue();
  switch (param.kind) {
    case ParamKind::Bool:
      return IValue(Scalar(text == "True"));
    case ParamKind::Int:
      return IValue(Scalar(integer_in(text)));
    case ParamKind::Float:
      return IValue(Scalar(number_from<double>(text)));
    case ParamKind::Scalar:
      return IValue(scalar_in(text));
    case ParamKind::IntList:
      return IValue(integers_in(text, param.list_size));
    case ParamKind::String:
      return IValue(std::string(text.substr(1, text.size() - 2)));
    case ParamKind::ScalarType:
      return IValue(dtype_in(text));
    case ParamKind::MemoryFormat:
      check(text == "contiguous_format", "schema: expected contiguous_format, got ", text);
      return IValue(MemoryFormat::Contiguous);
    default:
      fail(ErrorKind::Runtime, "schema: expected no default but None, got ", text);
  }
}

// "Tensor(a!)", "int[2]?", "Tensor?[]" as kinds; the name and the default are not part of it.
// Tuples and dictionaries become objects of C++ before they are parsed.
void read_type(std::string_view type, Param& param) {
  if (const AggregateType found = aggregate_type(type); found.form != AggregateType::Form::Other) {
    param.kind = ParamKind::CustomObject;
    param.optional = found.is_optional;
    return;
  }
  if (type.ends_with('?')) {
    param.optional = true;
    type.remove_suffix(1);
  }
  bool is_list = false;
  if (type.ends_with(']')) {
    const size_t open = type.rfind('[');
    const std::string_view size = type.substr(open + 1, type.size() - open - 2);
    param.list_size = size.empty() ? 0 : number_from<int>(size);
    type = type.substr(0, open);
    is_list = true;
  }
  if (type.ends_with('?')) {
    param.optional_items = true;
    type.remove_suffix(1);
  }
  if (const size_t alias = type.find('('); alias != std::string_view::npos)
    type = type.substr(0, alias);
  for (const KindName& kind : kKinds) {
    if (kind.name == type) {
      param.kind = is_list ? kind.list : kind.one;
      param.numbers = param.kind == ParamKind::Tensor;
      return;
    }
  }
  check(type.starts_with(kCustomClassPrefix) && !is_list, "schema: expected a type, got ", type);
  param.kind = ParamKind::CustomObject;
}

std::string aggregate_in(std::string_view type) {
  const bool is_one = aggregate_type(type).form != AggregateType::Form::Other;
  return is_one ? std::string(type) : std::string();
}

void read_param(std::string_view text, bool keyword_only, BoxedSchema& schema) {
  const size_t equals = text.find('=');
  const std::string_view declared = trimmed(text.substr(0, equals));
  const size_t space = declared.rfind(' ');
  Param param = {schema.names.emplace_back(declared.substr(space + 1)).c_str(), ParamKind::Tensor};
  const std::string_view type = declared.substr(0, space);
  read_type(type, param);
  param.keyword_only = keyword_only;
  param.has_default = equals != std::string_view::npos;
  schema.is_mutable.push_back(type.find('!') != std::string_view::npos);
  schema.defaults.push_back(param.has_default ? default_of(param, text.substr(equals + 1))
                                              : IValue());
  schema.aggregates.push_back(aggregate_in(type));
  schema.has_aggregates |= !schema.aggregates.back().empty();
  schema.has_mask |= param.kind == ParamKind::BoolList;
  schema.params.push_back(param);
}

void read_schema(const OperatorEntry& op, BoxedSchema& schema) {
  const std::string_view text = op.schema;
  const size_t open = text.find('('), arrow = text.rfind(") ->");
  bool keyword_only = false;
  for (const std::string_view part : schema_parts(text.substr(open + 1, arrow - open - 1))) {
    if (part == "*") {
      keyword_only = true;
    } else {
      read_param(part, keyword_only, schema);
    }
  }
  std::string_view results = trimmed(text.substr(arrow + 4));
  if (results.starts_with('(')) results = results.substr(1, results.size() - 2);
  for (const std::string_view part : schema_parts(results)) {
    Param result = {};
    const std::string_view type = part.substr(0, end_of_type(part));
    read_type(type, result);
    schema.results.push_back(
        {result.kind, part.find('!') != std::string_view::npos, aggregate_in(type)});
  }
  schema.signature = {op.schema, schema.params.data(), static_cast<int>(schema.params.size())};
}

// --- values -------------------------------------------------------------------------------------

template <typename T>
PyObject* list_of(const std::vector<T>& items) {
  Ref list = carried(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    const T item = items[i];
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), carried(wrap(item)).release());
  }
  return list.release();
}

PyObject* list_of_texts(const std::vector<std::string>& items) {
  Ref list = carried(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    Ref text = carried(
        PyUnicode_FromStringAndSize(items[i].data(), static_cast<Py_ssize_t>(items[i].size())));
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), text.release());
  }
  return list.release();
}

// Numbers that became tensors for dispatch are passed to Python as numbers.
PyObject* wrap_operand(const Tensor& t) {
  return t.defined() && t.impl()->is_wrapped_number() ? wrap(item_of(t)) : wrap(t);
}

struct ToPython {
  PyObject* operator()(std::monostate) const { return Py_NewRef(Py_None); }
  PyObject* operator()(const std::string& text) const {
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
  template <typename T>
  PyObject* operator()(const std::vector<T>& items) const {
    return list_of(items);
  }
  PyObject* operator()(const std::vector<std::string>& items) const { return list_of_texts(items); }
  PyObject* operator()(const CustomObject& object) const {
    if (Ref aggregate = wrap_aggregate(object)) return aggregate.release();
    return wrap_custom_object(object);
  }
  PyObject* operator()(const Tensor& t) const { return wrap_operand(t); }
  PyObject* operator()(Device device) const { return wrap_device(device); }
  PyObject* operator()(Layout layout) const { return wrap_layout(layout); }
  PyObject* operator()(MemoryFormat format) const { return wrap_memory_format(format); }
  PyObject* operator()(const Generator& generator) const { return wrap_generator(generator); }
  template <typename T>
  PyObject* operator()(const T& value) const {
    return wrap(value);
  }
};

bool is_same(const Scalar& a, const Scalar& b) {
  if (a.tag() != b.tag()) return false;
  return a.is_complex() ? a.to_complex() == b.to_complex() : a.to_double() == b.to_double();
}

struct IsSame {
  template <typename T, typename U>
  bool operator()(const T&, const U&) const {
    return false;
  }
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>> ||
                  std::is_same_v<T, std::vector<Scalar>> || std::is_same_v<T, Generator>) {
      return false;  // no schema has such a default
    } else if constexpr (std::is_same_v<T, Scalar>) {
      return is_same(a, b);
    } else {
      return a == b;
    }
  }
};

bool has_default_value(const IValue& value, const Param& param, const IValue& its_default) {
  return param.has_default && std::visit(IsSame(), value.payload(), its_default.payload());
}

template <typename T>
std::vector<T> vector_of(const auto& list) {
  return std::vector<T>(list.begin(), list.end());
}

IValue parsed_value(const ParsedArgs& args, int i, ParamKind kind) {
  switch (kind) {
    case ParamKind::Tensor:
      return IValue(args.tensor(i));
    case ParamKind::TensorList:
      return IValue(args.tensor_list(i));
    case ParamKind::Scalar:
      return IValue(args.scalar(i));
    case ParamKind::ScalarList:
      return IValue(args.scalar_list(i));
    case ParamKind::Int:
      return IValue(Scalar(args.integer(i)));
    case ParamKind::IntList:
      return IValue(vector_of<int64_t>(args.int_list(i)));
    case ParamKind::Float:
      return IValue(Scalar(args.real(i)));
    case ParamKind::FloatList:
      return IValue(vector_of<double>(args.real_list(i)));
    case ParamKind::Bool:
      return IValue(Scalar(args.boolean(i)));
    case ParamKind::BoolList:
      return IValue(vector_of<bool>(args.bool_list(i)));
    case ParamKind::String:
      return IValue(std::string(args.string(i)));
    case ParamKind::ScalarType:
      return IValue(args.scalar_type(i));
    case ParamKind::Layout:
      return IValue(*args.optional_layout(i));
    case ParamKind::Device:
      return IValue(args.device(i));
    case ParamKind::MemoryFormat:
      return IValue(args.memory_format(i));
    case ParamKind::Generator:
      return IValue(Generator::share(args.generator(i)));
    case ParamKind::StringList:
      return IValue(args.string_list(i));
    default:
      return IValue(custom_object_of(args.object(i)));
  }
}

// The arguments that were parsed against the schema's signature.
Stack stack_of(const ParsedArgs& args, const BoxedSchema& schema) {
  Stack stack;
  for (size_t i = 0; i < schema.params.size(); ++i) {
    const int at = static_cast<int>(i);
    const bool is_none = args.object(at) == Py_None;
    if (args.has(at)) {
      stack.push(parsed_value(args, at, schema.params[i].kind));
    } else {
      stack.push(is_none ? IValue() : schema.defaults[i]);
    }
  }
  return stack;
}

// The type of the tuple or dictionary that argument `i` of a call is for, by its name if it has
// one.
std::string_view aggregate_at(const BoxedSchema& schema, Py_ssize_t i, PyObject* name) {
  for (size_t at = 0; at < schema.params.size(); ++at) {
    const bool is_meant = name ? PyUnicode_CompareWithASCIIString(name, schema.params[at].name) == 0
                               : at == static_cast<size_t>(i);
    if (is_meant) return schema.aggregates[at];
  }
  return "";
}

// The function that returned a result, for messages.
struct Author {
  const OperatorEntry& op;
  const char* who;
};
[[noreturn]] void fail_result(PyObject* o, const Author& by, const char* expected) {
  fail(ErrorKind::Runtime, by.op.name, ": expected ", by.who, " to return ", expected, ", got ",
       Py_TYPE(o)->tp_name, " (unable to cast)");
}

IValue result_value(PyObject* o, const BoxedSchema::Result& result, const BoxedSchema& schema,
                    const Author& by) {
  switch (result.kind) {
    case ParamKind::Tensor:
      // C++ callers rely on a defined tensor.
      if (o == Py_None && (schema.has_mask || result.is_written)) return IValue();
      if (!is_tensor(o)) fail_result(o, by, "a Tensor");
      return IValue(tensor_of(o));
    case ParamKind::TensorList: {
      // Any iterable will do, such as a generator; a single tensor is not taken for its rows.
      if (is_tensor(o) || !PyObject_HasAttrString(o, "__iter__"))
        fail_result(o, by, "a list of Tensors");
      const Ref items = Ref::checked(PySequence_Fast(o, "expected a list of Tensors"));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        PyObject* const item = PySequence_Fast_GET_ITEM(items.get(), i);
        if (item != Py_None && !is_tensor(item)) fail_result(item, by, "a list of Tensors");
      }
      return IValue(tensors_from(items.get(), by.op.name));
    }
    case ParamKind::CustomObject:
      if (IValue value; !result.aggregate.empty()) {
        if (!aggregate_from(o, result.aggregate, &value))
          fail_result(o, by, result.aggregate.c_str());
        return value;
      }
      if (!is_custom_object(o)) fail_result(o, by, "an object of a class of C++");
      return IValue(custom_object_of(o));
    default:
      if (!is_number(o)) fail_result(o, by, "a number");
      return IValue(scalar_from(o));
  }
}

}  // namespace

const BoxedSchema& boxed_schema(const OperatorEntry& op) {
  // Grows with the operators that are called so; never destroyed, as threads may outlive it.
  static auto* const known = new std::unordered_map<const OperatorEntry*, BoxedSchema>();
  const auto found = known->find(&op);
  if (found != known->end()) return found->second;
  BoxedSchema schema;
  read_schema(op, schema);
  return known->emplace(&op, std::move(schema)).first->second;
}

PyObject* wrap_value(const IValue& value) { return std::visit(ToPython(), value.payload()); }

bool item_from(PyObject* o, std::string_view type, IValue* out) {
  static PyObject* const no_names = PyTuple_New(0);
  Param param = {"item", ParamKind::Tensor};
  read_type(type, param);
  param.numbers = false;
  ParsedArgs parsed;
  if (!parsed.parse_boxed({"", &param, 1}, &o, 1, no_names)) return false;
  *out = o == Py_None ? IValue() : parsed_value(parsed, 0, param.kind);
  return true;
}

bool stack_of_call(const BoxedSchema& schema, PyObject* const* values, Py_ssize_t positional,
                   PyObject* names, Stack* stack) {
  ParsedArgs parsed;
  if (!schema.has_aggregates) {
    if (!parsed.parse_boxed(schema.signature, values, positional, names)) return false;
    *stack = stack_of(parsed, schema);
    return true;
  }
  const Py_ssize_t count = positional + PyTuple_GET_SIZE(names);
  std::vector<PyObject*> given(values, values + count);
  std::vector<Ref> held;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const std::string_view type =
        aggregate_at(schema, i, i < positional ? nullptr : PyTuple_GET_ITEM(names, i - positional));
    if (type.empty()) continue;
    IValue value;
    if (!aggregate_from(given[static_cast<size_t>(i)], type, &value)) return false;
    if (value.is_none()) continue;
    held.push_back(carried(wrap_custom_object(value.get<CustomObject>())));
    given[static_cast<size_t>(i)] = held.back().get();
  }
  if (!parsed.parse_boxed(schema.signature, given.data(), positional, names)) return false;
  *stack = stack_of(parsed, schema);
  return true;
}

bool stack_from(const OperatorEntry& op, PyObject* args, PyObject* kwargs, Stack* stack) {
  const BoxedSchema& schema = boxed_schema(op);
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    values.push_back(PyTuple_GET_ITEM(args, i));
  const auto positional = static_cast<Py_ssize_t>(values.size());
  const Ref names = Ref::checked(PySequence_Tuple(kwargs));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
    values.push_back(PyDict_GetItemWithError(kwargs, PyTuple_GET_ITEM(names.get(), i)));
  return stack_of_call(schema, values.data(), positional, names.get(), stack);
}

PythonArguments python_arguments(const Stack& stack, const BoxedSchema& schema) {
  size_t places = 0;
  while (places < schema.params.size() && !schema.params[places].keyword_only) ++places;
  size_t given = places;
  while (given > 0 &&
         has_default_value(stack[given - 1], schema.params[given - 1], schema.defaults[given - 1]))
    --given;
  PythonArguments out = {carried(PyTuple_New(static_cast<Py_ssize_t>(given))),
                         carried(PyDict_New())};
  for (size_t i = 0; i < given; ++i) {
    PyTuple_SET_ITEM(out.positional.get(), static_cast<Py_ssize_t>(i),
                     carried(wrap_value(stack[i])).release());
  }
  for (size_t i = places; i < schema.params.size(); ++i) {
    if (has_default_value(stack[i], schema.params[i], schema.defaults[i])) continue;
    const Ref value = carried(wrap_value(stack[i]));
    if (PyDict_SetItemString(out.named.get(), schema.params[i].name, value.get()) < 0)
      carried(nullptr);
  }
  return out;
}

Ref python_result(const Stack& stack, const OperatorEntry& op) {
  if (stack.size() == 0) return Ref::share(Py_None);
  if (boxed_schema(op).results.size() == 1) return carried(wrap_value(stack[0]));
  Ref tuple = carried(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
  for (size_t i = 0; i < stack.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     carried(wrap_value(stack[i])).release());
  }
  return tuple;
}

void replace_by_result(PyObject* result, const OperatorEntry& op, Stack& stack, const char* who) {
  const BoxedSchema& schema = boxed_schema(op);
  const Author by = {op, who};
  const size_t count = schema.results.size();
  Stack results;
  if (count == 1) {
    IValue value = result_value(result, schema.results[0], schema, by);
    results.push(schema.results[0].is_written ? IValue() : std::move(value));
  } else if (count > 1) {
    const bool fits = (PyTuple_Check(result) || PyList_Check(result)) &&
                      static_cast<size_t>(PySequence_Fast_GET_SIZE(result)) == count;
    if (!fits) fail_result(result, by, text_of("a tuple of ", count, " results").c_str());
    for (size_t i = 0; i < count; ++i) {
      PyObject* const item = PySequence_Fast_GET_ITEM(result, static_cast<Py_ssize_t>(i));
      results.push(result_value(item, schema.results[i], schema, by));
    }
  }
  stack = std::move(results);
}

}  // namespace flambeau::python
