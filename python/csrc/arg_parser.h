#pragma once
// Parses the arguments of generated functions: FASTCALL arguments against one or more signatures.
//
//   static const Param kParams[] = {{"input", ParamKind::Tensor}, {"alpha", ParamKind::Scalar,
//   ...}}; static const Signature kSignatures[] = {{"add(Tensor input, ...)", kParams, 3}}; static
//   constexpr Overloads kAdd = {"add", kSignatures, 1}; ParsedArgs p; switch (p.parse(kAdd, self,
//   args, nargs, kwnames)) { case 0: return wrap(ops::add::call(p.tensor(0), ...)); }
//
// With `self` (methods) the first parameter is taken from it. A TypeError lists every signature.
#include <optional>
#include <string_view>
#include <vector>

#include "python/csrc/tensor_type.h"

namespace flambeau::python {

enum class ParamKind : uint8_t {
  Tensor,
  TensorList,
  Scalar,
  ScalarList,
  Int,
  IntList,
  Float,
  FloatList,
  Bool,
  BoolList,
  String,
  ScalarType,
  Layout,
  Device,
  MemoryFormat,
  Generator,
  StringList,
  CustomObject,  // of a class that a library in C++ has registered
};

struct Param {
  const char* name;
  ParamKind kind;
  bool optional = false;     // None is a value
  bool has_default = false;  // may be left out
  bool keyword_only = false;
  int list_size = 0;            // of a sized list: one number stands for all
  bool optional_items = false;  // lists of tensors: None is an item
  bool numbers = false;         // a Python number may stand for the tensor
};

struct Signature {
  const char* text;
  const Param* params;
  int count;
};

struct Overloads {
  const char* name;
  const Signature* list;
  int count;
  const char* module = "";  // where Python finds the function: "_functions"; "": a method of Tensor
};

inline constexpr int kMaxArgs = 20;

// Lists by value, convertible to the references that operators take.
struct OptionalIntList {
  std::optional<DimVector> list;
  operator std::optional<IntArrayRef>() const {  // NOLINT(google-explicit-constructor)
    if (!list) return std::nullopt;
    return IntArrayRef(*list);
  }
};
template <typename T>
struct OptionalList {
  std::optional<SmallVector<T, 8>> list;
  operator std::optional<ArrayRef<T>>() const {  // NOLINT(google-explicit-constructor)
    if (!list) return std::nullopt;
    return ArrayRef<T>(*list);
  }
};

class ParsedArgs {
 public:
  // Index of the first signature that fits. Throws PythonError (TypeError) when none does, and
  // returns -1 when an argument's class overrides the call: then `result()` is what it returned.
  int parse(const Overloads& overloads, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
            PyObject* kwnames);
  PyObject* result() { return override_result_.release(); }
  // Whether the arguments fit the signature by its own names; __torch_function__ is not asked.
  bool parse_boxed(const Signature& signature, PyObject* const* args, Py_ssize_t nargs,
                   PyObject* kwnames);

  // Whether argument i was given (and is not None).
  bool has(int i) const { return values_[i] && values_[i] != Py_None; }
  PyObject* object(int i) const { return values_[i]; }

  // Accessors for parameters without default, or whose default is None or null.
  const Tensor& tensor(int i) const;  // undefined for None
  Tensor& mutable_tensor(int i) const;
  std::vector<Tensor> tensor_list(int i) const;
  Scalar scalar(int i) const;
  std::optional<Scalar> optional_scalar(int i) const;
  int64_t integer(int i) const;
  std::optional<int64_t> optional_integer(int i) const;
  DimVector int_list(int i) const;
  OptionalIntList optional_int_list(int i) const;
  double real(int i) const;
  std::optional<double> optional_real(int i) const;
  SmallVector<double, 8> real_list(int i) const;
  OptionalList<double> optional_real_list(int i) const;
  bool boolean(int i) const;
  std::optional<bool> optional_boolean(int i) const;
  SmallVector<bool, 8> bool_list(int i) const;
  std::vector<Scalar> scalar_list(int i) const;
  std::string_view string(int i) const;
  std::vector<std::string> string_list(int i) const;
  std::optional<std::string_view> optional_string(int i) const;
  ScalarType scalar_type(int i) const;
  std::optional<ScalarType> optional_scalar_type(int i) const;
  Layout layout(int) const { return Layout::Strided; }
  std::optional<Layout> optional_layout(int i) const;
  Device device(int i) const;
  std::optional<Device> optional_device(int i) const;
  MemoryFormat memory_format(int i) const;
  std::optional<MemoryFormat> optional_memory_format(int i) const;
  GeneratorImpl* generator(int i) const;

  // With a default for an argument that was left out.
  Scalar scalar_or(int i, const Scalar& value) const { return values_[i] ? scalar(i) : value; }
  int64_t integer_or(int i, int64_t value) const { return values_[i] ? integer(i) : value; }
  double real_or(int i, double value) const { return values_[i] ? real(i) : value; }
  bool boolean_or(int i, bool value) const { return values_[i] ? boolean(i) : value; }
  std::string_view string_or(int i, std::string_view value) const {
    return values_[i] ? string(i) : value;
  }
  DimVector int_list_or(int i, DimVector value) const { return values_[i] ? int_list(i) : value; }
  SmallVector<bool, 8> bool_list_or(int i, SmallVector<bool, 8> value) const {
    return values_[i] ? bool_list(i) : value;
  }
  ScalarType scalar_type_or(int i, ScalarType value) const {
    return values_[i] ? scalar_type(i) : value;
  }
  MemoryFormat memory_format_or(int i, MemoryFormat value) const {
    return values_[i] ? memory_format(i) : value;
  }

 private:
  bool match(const Signature& signature, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
             PyObject* kwnames, std::string* why, bool numbers = false);
  PyObject* as_tensor(PyObject* number);
  bool place_positional(const Signature& s, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        std::string* why);
  bool place_keywords(const Signature& s, PyObject* const* values, PyObject* kwnames,
                      std::string* why);

  PyObject* values_[kMaxArgs];
  const Signature* signature_ = nullptr;
  Ref gathered_;  // the tuple of separate ints: x.view(2, 3)
  Ref held_;      // a list of the tensors that numbers stand for
  Ref override_result_;
};

// --- results ------------------------------------------------------------------------------------

inline PyObject* wrap(bool value) { return Py_NewRef(value ? Py_True : Py_False); }
inline PyObject* wrap(int64_t value) { return PyLong_FromLongLong(value); }
inline PyObject* wrap(double value) { return PyFloat_FromDouble(value); }
PyObject* wrap(const Scalar& value);
// The only element of a tensor. Sparse tensors and those whose class answers for them are read by
// the operator `_local_scalar_dense`.
Scalar read_item(const Tensor& t);
PyObject* wrap(ScalarType value);
PyObject* wrap(const std::vector<Tensor>& list);  // a tuple
PyObject* wrap_sizes(IntArrayRef sizes);          // flambeau.Size
inline PyObject* wrap_none() { return Py_NewRef(Py_None); }

// A structseq type flambeau.return_types.<name> for operators with named results.
PyTypeObject* make_return_type(const char* name, const char* const* fields, int count);
PyObject* wrap_fields(PyTypeObject* type, PyObject** owned, int count);
template <typename... Ts>
PyObject* wrap(const std::tuple<Ts...>& results, PyTypeObject* named = nullptr) {
  PyObject* items[sizeof...(Ts)];
  int i = 0;
  std::apply([&](const auto&... r) { ((items[i++] = wrap(r)), ...); }, results);
  return wrap_fields(named, items, static_cast<int>(sizeof...(Ts)));
}

// --- conversions shared with handwritten bindings -----------------------------------------------
bool is_number(PyObject* o);        // Python or NumPy number, not a tensor
Scalar scalar_from(PyObject* o);    // also from a tensor with one element
int64_t integer_from(PyObject* o);  // also from an integer tensor with one element
bool exceeds_64_bits(PyObject* o);  // whether an int of Python is none of C++
bool scalar_type_from(PyObject* o, ScalarType* out);
bool device_from(PyObject* o, Device* out);  // Device object or string
bool memory_format_from(PyObject* o, MemoryFormat* out);
GeneratorImpl* generator_from(PyObject* o);  // null when it is none

}  // namespace flambeau::python
