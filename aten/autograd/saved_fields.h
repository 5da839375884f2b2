#pragma once
// What a node keeps for its backward, field by field: Node._saved_* in Python.
#include <variant>

#include "aten/autograd/saved_tensor.h"
#include "aten/core/factory.h"

namespace flambeau::autograd {

using SavedValue =
    std::variant<std::monostate, bool, int64_t, double, Scalar, std::string, DimVector,
                 SmallVector<double, 5>, SmallVector<bool, 5>, std::vector<Scalar>, ScalarType,
                 Device, Layout, MemoryFormat, Tensor>;

class SavedFields {
 public:
  virtual ~SavedFields() = default;
  virtual void show(const char* name, SavedTensor& tensor) = 0;
  virtual void show(const char* name, std::vector<SavedTensor>& tensors) = 0;
  virtual void show(const char* name, const SavedValue& value) = 0;
};

template <typename T>
SavedValue value_of(const T& value) {
  return SavedValue(value);
}
template <typename T>
SavedValue value_of(const std::optional<T>& value) {
  return value ? SavedValue(*value) : SavedValue();
}
// A number where the operator takes a tensor.
inline SavedValue number_of(const Scalar& value) {
  return SavedValue(scalar_tensor(value, value.dtype()));
}

}  // namespace flambeau::autograd
