#include "python/csrc/arg_parser.h"

#include <cstring>

#include "aten/core/factory.h"
#include "python/csrc/custom_object.h"
#include "python/csrc/data.h"
#include "python/csrc/generated.h"
#include "python/csrc/torch_function.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

bool is_integer(PyObject* o) {
  if (PyLong_Check(o)) return !PyBool_Check(o);
  if (PyFloat_Check(o) || PyUnicode_Check(o) || PyTuple_Check(o) || PyList_Check(o)) return false;
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    return t.dim() == 0 && is_integral_type(t.dtype(), false);
  }
  return PyIndex_Check(o);
}
bool is_real(PyObject* o) {
  if (PyFloat_Check(o) || PyLong_Check(o)) return true;
  if (is_tensor(o)) return tensor_of(o).dim() == 0 && !tensor_of(o).is_complex();
  return PyNumber_Check(o) && !PyComplex_Check(o) && !PyUnicode_Check(o) && is_number(o);
}

// Items of a list or tuple, borrowed; null when `o` is neither.
PyObject** items_of(PyObject* o, Py_ssize_t* count) {
  if (!PyList_Check(o) && !PyTuple_Check(o)) return nullptr;
  *count = PySequence_Fast_GET_SIZE(o);
  return PySequence_Fast_ITEMS(o);
}
template <typename F>
bool all_items(PyObject* o, F fits) {
  Py_ssize_t n = 0;
  PyObject** items = items_of(o, &n);
  if (!items && n == 0 && !PyTuple_Check(o) && !PyList_Check(o)) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!fits(items[i])) return false;
  }
  return true;
}

double checked_double(PyObject* o) {
  const double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred()) throw PythonError();
  return value;
}

bool is_dtype(PyObject* o) {
  ScalarType unused;
  return scalar_type_from(o, &unused);
}

// A number is the index of an accelerator: device_from refuses it where there is none.
bool is_device(PyObject* o) {
  return PyObject_TypeCheck(o, device_type) || PyUnicode_Check(o) ||
         (PyLong_Check(o) && !PyBool_Check(o));
}

bool fits_list(const Param& p, PyObject* o) {
  switch (p.kind) {
    case ParamKind::TensorList:
      return all_items(
          o, [&](PyObject* i) { return is_tensor(i) || (p.optional_items && i == Py_None); });
    case ParamKind::ScalarList:
      return all_items(o, [](PyObject* i) { return is_number(i); });
    case ParamKind::IntList:
      return (p.list_size > 0 && is_integer(o)) || all_items(o, is_integer);
    case ParamKind::FloatList:
      return (p.list_size > 0 && is_real(o)) || all_items(o, is_real);
    case ParamKind::BoolList:
      return all_items(o, [](PyObject* i) { return PyBool_Check(i); }) &&
             (p.list_size == 0 || PySequence_Fast_GET_SIZE(o) == p.list_size);
    default:
      return all_items(o, [](PyObject* i) { return PyUnicode_Check(i); });
  }
}

bool fits(const Param& p, PyObject* o) {
  if (o == Py_None && p.optional) return true;
  switch (p.kind) {
    case ParamKind::Tensor:
      return is_tensor(o);
    case ParamKind::Scalar:
      return is_number(o) || (is_tensor(o) && tensor_of(o).dim() == 0);
    case ParamKind::Int:
      return is_integer(o);
    case ParamKind::Float:
      return is_real(o);
    case ParamKind::Bool:
      return PyBool_Check(o);
    case ParamKind::String:
      return PyUnicode_Check(o);
    case ParamKind::ScalarType:
      return is_dtype(o);
    case ParamKind::Layout:
      return PyObject_TypeCheck(o, layout_type);
    case ParamKind::Device:
      return is_device(o);
    case ParamKind::MemoryFormat:
      return PyObject_TypeCheck(o, memory_format_type);
    case ParamKind::Generator:
      return PyObject_TypeCheck(o, generator_type);
    case ParamKind::CustomObject:
      return is_custom_object(o);
    default:
      return fits_list(p, o);
  }
}

bool same_name(PyObject* keyword, const char* name) {
  return PyUnicode_CompareWithASCIIString(keyword, name) == 0;
}

int find_by_name(const Signature& s, PyObject* keyword) {
  for (int i = 0; i < s.count; ++i) {
    if (same_name(keyword, s.params[i].name)) return i;
  }
  return -1;
}

// Keywords that PyTorch takes for parameters of other names: those of programs written for NumPy,
// and `other` of copy_, which its schema calls `src`.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "input"},   {"a", "input"},
    {"x1", "input"}, {"x2", "other"},         {"other", "src"},
};

int find_param(const Signature& s, PyObject* keyword) {
  if (const int found = find_by_name(s, keyword); found >= 0) return found;
  for (const auto& [other, name] : kOtherNames) {
    if (!same_name(keyword, other)) continue;
    for (int i = 0; i < s.count; ++i) {
      if (std::strcmp(s.params[i].name, name) == 0) return i;
    }
  }
  return -1;
}

std::string shown_type(PyObject* o) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) {
    const char* name = std::strrchr(Py_TYPE(o)->tp_name, '.');
    return name ? name + 1 : Py_TYPE(o)->tp_name;
  }
  std::string out = PyTuple_Check(o) ? "tuple of (" : "list of [";
  Py_ssize_t n = 0;
  PyObject** items = items_of(o, &n);
  for (Py_ssize_t i = 0; i < n && i < 4; ++i) out += (i ? ", " : "") + shown_type(items[i]);
  if (n > 4) out += ", ...";
  return out + (PyTuple_Check(o) ? ")" : "]");
}

[[noreturn]] void fail_arguments(const Overloads& overloads, PyObject* const* args,
                                 Py_ssize_t nargs, PyObject* kwnames, const std::string& why) {
  std::string got;
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < nargs + keywords; ++i) {
    if (i) got += ", ";
    if (i >= nargs)
      got += std::string(PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i - nargs))) + "=";
    got += shown_type(args[i]);
  }
  std::string message = text_of(overloads.name, "(): ");
  if (overloads.count == 1) {
    message += text_of(why, "\n    expected: ", overloads.list[0].text, "\n    got: (", got, ")");
  } else {
    message += text_of("invalid combination of arguments: got (", got, "), expected one of:");
    for (int i = 0; i < overloads.count; ++i) message += text_of("\n * ", overloads.list[i].text);
  }
  PyErr_SetString(PyExc_TypeError, message.c_str());
  throw PythonError();
}

Ref call_overriding(const Overloads& overloads, PyObject* self, PyObject* const* args,
                    Py_ssize_t nargs, PyObject* kwnames) {
  if (!self)
    return Ref(call_override({overloads.name, false, overloads.module}, args, nargs, kwnames));
  std::vector<PyObject*> all = {self};
  all.insert(all.end(), args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  return Ref(call_override({overloads.name, true, ""}, all.data(), nargs + 1, kwnames));
}

}  // namespace

// --- matching ------------------------------------------------------------------------------------

bool ParsedArgs::match(const Signature& s, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                       PyObject* kwnames, std::string* why, bool numbers) {
  for (int i = 0; i < s.count; ++i) values_[i] = nullptr;
  gathered_ = Ref();
  if (!place_positional(s, self, args, nargs, why)) return false;
  if (kwnames && !place_keywords(s, args + nargs, kwnames, why)) return false;
  for (int i = 0; i < s.count; ++i) {
    const Param& p = s.params[i];
    if (!values_[i]) {
      if (p.has_default) continue;
      if (why) *why = text_of("missing required argument '", p.name, "'");
      return false;
    }
    if (numbers && p.numbers && is_number(values_[i])) values_[i] = as_tensor(values_[i]);
    if (!fits(p, values_[i])) {
      if (why)
        *why = text_of("argument '", p.name, "' has the wrong type ", shown_type(values_[i]));
      return false;
    }
    // None for a list that is empty by default.
    if (values_[i] == Py_None && p.kind == ParamKind::IntList && p.has_default)
      values_[i] = nullptr;
  }
  signature_ = &s;
  return true;
}

PyObject* ParsedArgs::as_tensor(PyObject* number) {
  if (!held_) held_ = Ref::checked(PyList_New(0));
  const Ref tensor = Ref::checked(wrap(wrapped_number_tensor(scalar_from(number))));
  if (PyList_Append(held_.get(), tensor.get()) < 0) throw PythonError();
  return tensor.get();  // the list keeps it
}

bool ParsedArgs::place_positional(const Signature& s, PyObject* self, PyObject* const* args,
                                  Py_ssize_t nargs, std::string* why) {
  int next = 0;
  if (self) values_[next++] = self;
  int positional = next;
  while (positional < s.count && !s.params[positional].keyword_only) ++positional;
  Py_ssize_t taken = 0;
  // x.view(2, 3): the only positional parameter is a list of ints, given as separate ints.
  const bool gathers = nargs > 0 && next < positional &&
                       s.params[next].kind == ParamKind::IntList && is_integer(args[0]) &&
                       (nargs > 1 || s.params[next].list_size == 0) &&
                       nargs > positional - next - 1;
  if (gathers && next + 1 >= positional) {
    gathered_ = Ref::checked(PyTuple_New(nargs));
    for (; taken < nargs; ++taken) PyTuple_SET_ITEM(gathered_.get(), taken, Py_NewRef(args[taken]));
    values_[next++] = gathered_.get();
  }
  if (nargs - taken > positional - next) {
    if (why)
      *why = text_of("takes at most ", int64_t{positional}, " positional arguments, got ",
                     int64_t{nargs + (self != nullptr)});
    return false;
  }
  for (; taken < nargs; ++taken) values_[next++] = args[taken];
  return true;
}

bool ParsedArgs::place_keywords(const Signature& s, PyObject* const* values, PyObject* kwnames,
                                std::string* why) {
  const Py_ssize_t count = PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(kwnames, k);
    const int i = find_param(s, keyword);
    if (i < 0 || values_[i]) {
      if (why) {
        *why = text_of(
            i < 0 ? "got an unexpected keyword argument '" : "got multiple values for argument '",
            PyUnicode_AsUTF8(keyword), "'");
      }
      return false;
    }
    values_[i] = values[k];
  }
  return true;
}

int ParsedArgs::parse(const Overloads& overloads, PyObject* self, PyObject* const* args,
                      Py_ssize_t nargs, PyObject* kwnames) {
  const Py_ssize_t given = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  bool overridden = mode_in_force() || (self && !is_exact_tensor(self) && overrides(self));
  for (Py_ssize_t i = 0; i < given; ++i) {
    PyObject* o = args[i];
    if (!is_exact_tensor(o) && !PyLong_CheckExact(o) && !PyFloat_CheckExact(o))
      overridden |= holds_override(o);
  }
  if (overridden && is_handed_over()) {
    override_result_ = call_overriding(overloads, self, args, nargs, kwnames);
    return -1;
  }
  std::string why;
  for (int i = 0; i < overloads.count; ++i) {
    if (match(overloads.list[i], self, args, nargs, kwnames, overloads.count == 1 ? &why : nullptr))
      return i;
  }
  // Only now, so that a number goes to an overload that takes numbers where there is one.
  for (int i = 0; i < overloads.count; ++i) {
    if (match(overloads.list[i], self, args, nargs, kwnames, nullptr, true)) return i;
  }
  fail_arguments(overloads, args, nargs, kwnames, why);
}

bool ParsedArgs::parse_boxed(const Signature& s, PyObject* const* args, Py_ssize_t nargs,
                             PyObject* kwnames) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
    if (find_by_name(s, PyTuple_GET_ITEM(kwnames, k)) < 0) return false;
  }
  return match(s, nullptr, args, nargs, kwnames, nullptr, true) && !gathered_;
}

// --- accessors -----------------------------------------------------------------------------------

const Tensor& ParsedArgs::tensor(int i) const {
  static const Tensor undefined;
  return has(i) ? tensor_of(values_[i]) : undefined;
}
Tensor& ParsedArgs::mutable_tensor(int i) const { return mutable_tensor_of(values_[i]); }

std::vector<Tensor> ParsedArgs::tensor_list(int i) const {
  std::vector<Tensor> out;
  if (!has(i)) return out;
  Py_ssize_t n = 0;
  PyObject** items = items_of(values_[i], &n);
  out.reserve(static_cast<size_t>(n));
  for (Py_ssize_t k = 0; k < n; ++k)
    out.push_back(items[k] == Py_None ? Tensor() : tensor_of(items[k]));
  return out;
}

Scalar ParsedArgs::scalar(int i) const { return scalar_from(values_[i]); }
std::optional<Scalar> ParsedArgs::optional_scalar(int i) const {
  return has(i) ? std::optional<Scalar>(scalar(i)) : std::nullopt;
}
int64_t ParsedArgs::integer(int i) const { return integer_from(values_[i]); }
std::optional<int64_t> ParsedArgs::optional_integer(int i) const {
  return has(i) ? std::optional<int64_t>(integer(i)) : std::nullopt;
}

DimVector ParsedArgs::int_list(int i) const {
  DimVector out;
  if (!has(i)) return out;
  Py_ssize_t n = 0;
  PyObject** items = items_of(values_[i], &n);
  if (!items && !PyTuple_Check(values_[i]) && !PyList_Check(values_[i])) {
    out.resize(static_cast<size_t>(std::max(signature_->params[i].list_size, 1)),
               integer_from(values_[i]));
    return out;
  }
  out.reserve(static_cast<size_t>(n));
  for (Py_ssize_t k = 0; k < n; ++k) {
    if (exceeds_64_bits(items[k])) [[unlikely]] {
      fail(ErrorKind::Type, "argument '", signature_->params[i].name,
           "' failed to unpack the object at pos ", k + 1,
           ": expected an integer of 64 bits, got a larger one");
    }
    out.push_back(integer_from(items[k]));
  }
  return out;
}
OptionalIntList ParsedArgs::optional_int_list(int i) const {
  if (!has(i)) return {};
  return {int_list(i)};
}

double ParsedArgs::real(int i) const {
  PyObject* const o = values_[i];
  return exceeds_64_bits(o) ? checked_double(o) : scalar_from(o).to_double();
}
std::optional<double> ParsedArgs::optional_real(int i) const {
  return has(i) ? std::optional<double>(real(i)) : std::nullopt;
}
SmallVector<double, 8> ParsedArgs::real_list(int i) const {
  SmallVector<double, 8> out;
  Py_ssize_t n = 0;
  if (!has(i)) return out;
  PyObject** items = items_of(values_[i], &n);
  if (!items && is_real(values_[i])) out.push_back(real(i));
  for (Py_ssize_t k = 0; k < n; ++k) out.push_back(scalar_from(items[k]).to_double());
  return out;
}
OptionalList<double> ParsedArgs::optional_real_list(int i) const {
  if (!has(i)) return {};
  return {real_list(i)};
}

bool ParsedArgs::boolean(int i) const { return values_[i] == Py_True; }
std::optional<bool> ParsedArgs::optional_boolean(int i) const {
  return has(i) ? std::optional<bool>(boolean(i)) : std::nullopt;
}
SmallVector<bool, 8> ParsedArgs::bool_list(int i) const {
  SmallVector<bool, 8> out;
  Py_ssize_t n = 0;
  PyObject** items = has(i) ? items_of(values_[i], &n) : nullptr;
  for (Py_ssize_t k = 0; k < n; ++k) out.push_back(items[k] == Py_True);
  return out;
}
std::vector<Scalar> ParsedArgs::scalar_list(int i) const {
  std::vector<Scalar> out;
  Py_ssize_t n = 0;
  PyObject** items = has(i) ? items_of(values_[i], &n) : nullptr;
  for (Py_ssize_t k = 0; k < n; ++k) out.push_back(scalar_from(items[k]));
  return out;
}

std::string_view ParsedArgs::string(int i) const {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(values_[i], &size);
  if (!text) throw PythonError();
  return {text, static_cast<size_t>(size)};
}
std::vector<std::string> ParsedArgs::string_list(int i) const {
  std::vector<std::string> out;
  Py_ssize_t n = 0;
  PyObject** const items = has(i) ? items_of(values_[i], &n) : nullptr;
  for (Py_ssize_t k = 0; k < n; ++k) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(items[k], &size);
    if (!text) throw PythonError();
    out.emplace_back(text, static_cast<size_t>(size));
  }
  return out;
}
std::optional<std::string_view> ParsedArgs::optional_string(int i) const {
  return has(i) ? std::optional<std::string_view>(string(i)) : std::nullopt;
}
ScalarType ParsedArgs::scalar_type(int i) const {
  ScalarType out = ScalarType::Undefined;
  scalar_type_from(values_[i], &out);
  return out;
}
std::optional<ScalarType> ParsedArgs::optional_scalar_type(int i) const {
  return has(i) ? std::optional<ScalarType>(scalar_type(i)) : std::nullopt;
}
std::optional<Layout> ParsedArgs::optional_layout(int i) const {
  if (!has(i)) return std::nullopt;
  const Layout given = reinterpret_cast<LayoutObject*>(object(i))->value;
  if (given != Layout::Strided && given != Layout::SparseCoo) {
    fail(ErrorKind::NotImplemented, "expected layout strided or sparse_coo, got a compressed ",
         "sparse layout (csr, csc, bsr, bsc), for which there are no tensors; to_sparse() returns "
         "sparse_coo");
  }
  return given;
}
Device ParsedArgs::device(int i) const {
  Device out;
  device_from(values_[i], &out);
  return out;
}
MemoryFormat ParsedArgs::memory_format(int i) const {
  MemoryFormat out = MemoryFormat::Contiguous;
  memory_format_from(values_[i], &out);
  return out;
}
std::optional<MemoryFormat> ParsedArgs::optional_memory_format(int i) const {
  return has(i) ? std::optional<MemoryFormat>(memory_format(i)) : std::nullopt;
}
GeneratorImpl* ParsedArgs::generator(int i) const {
  return has(i) ? generator_from(values_[i]) : nullptr;
}

}  // namespace flambeau::python
