#pragma once
// Tensors with known contents, and reading single elements without any driver.
#include "aten/core/factory.h"
#include "aten/core/view.h"

namespace flambeau::testing {

// Element `linear` (row-major over `sizes`) of `t` broadcast to `sizes`.
inline double value_at(const Tensor& t, int64_t linear, IntArrayRef sizes) {
  int64_t offset = 0;
  for (size_t back = 0; back < sizes.size(); ++back) {
    const size_t d = sizes.size() - 1 - back;
    const int64_t at = linear % sizes[d];
    linear /= sizes[d];
    if (back >= t.sizes().size()) continue;
    const size_t own = t.sizes().size() - 1 - back;
    if (t.sizes()[own] != 1) offset += at * t.strides()[own];
  }
  const char* base = static_cast<const char*>(t.data());
  return Scalar::load(t.dtype(), base + offset * static_cast<int64_t>(element_size(t.dtype())))
      .to_double();
}

inline Tensor counting(IntArrayRef sizes, ScalarType dtype, int64_t start) {
  Tensor t = empty_tensor(sizes, dtype);
  char* base = static_cast<char*>(t.data());
  for (int64_t i = 0; i < t.numel(); ++i) {
    Scalar((start + i * 7) % 50).store(dtype, base + i * static_cast<int64_t>(element_size(dtype)));
  }
  return t;
}

inline Tensor permuted(const Tensor& t, ArrayRef<int64_t> order) {
  ViewGeometry g;
  for (const int64_t d : order) {
    g.sizes.push_back(t.size(d));
    g.strides.push_back(t.stride(d));
  }
  return as_view(t, g);
}

}  // namespace flambeau::testing
