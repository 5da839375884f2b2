#pragma once
// An operator that a program has defined in Python: its parameters and results, and its kernels by
// device type.
#include <array>
#include <vector>

#include "aten/dispatch/boxing.h"
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

enum class ValueKind : uint8_t { Tensor, Integer, Real, Complex, Boolean, Text, Number, Other };
// The kinds as schemas and messages spell them, in the order of the enumeration.
inline constexpr std::array<const char*, 8> kKindNames = {
    "Tensor", "int", "float", "complex", "bool", "str", "number", "value of its type"};

struct ValueType {
  ValueKind kind = ValueKind::Other;
  bool optional = false, is_list = false, optional_items = false;
  Ref classes;  // of Other: what isinstance() takes
};
struct DefinedParameter {
  Ref name, preset;  // preset: null for a required argument
  ValueType type;
  bool keyword_only = false, is_written = false;
};

// What runs for tensors of a device type.
struct DefinedKernel {
  Ref function;  // null: not looked up yet
  Ref recorder;  // the class of autograd.Function; null: Python code records the derivative
  Ref setup;     // setup_context of the derivative, or null
  bool is_unaliased = false;  // results share no memory with arguments
  bool is_composite = false;  // Autograd records the operators inside
  bool casts = false;         // autocast does something
  bool is_wrapped = false;    // a kernel for Autograd comes first
};

struct DefinedOperator {
  std::string name;
  std::vector<DefinedParameter> parameters;  // positional ones first
  size_t places = 0;                         // how many are positional
  std::vector<ValueType> results;
  std::array<DefinedKernel, kNumDeviceTypes> kernels;
};

// Whether the value needs no conversion to be passed to a kernel.
bool is_plain(const ValueType& type, PyObject* value);

template <typename F>
void visit_tensor_values(PyObject* value, F&& visit) {
  if (is_tensor(value)) return visit(tensor_of(value));
  if (!PyList_Check(value) && !PyTuple_Check(value)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(value, i);
    if (is_tensor(item)) visit(tensor_of(item));
  }
}

// Calls a kernel with one value per parameter. Increments the versions of what it writes to and
// checks its results.
Ref run_kernel(const DefinedOperator& op, PyObject* function, bool is_unaliased,
               PyObject* const* values);

}  // namespace flambeau::python
