#pragma once
// Shape rules that several families share. A rule fills one OutSpec per output and checks
// arguments.
#include <optional>

#include "aten/core/out_spec.h"

namespace flambeau::shape {

// Sizes, dtype and device of `self`, row-major.
void like(const Tensor& self, OutSpec* out);
void like(const Tensor& self, ScalarType dtype, OutSpec* out);
// The memory order of `self` as well, where it is dense.
void like_preserving(const Tensor& self, OutSpec* out);
// Sizes of `self`; dtype and device unless given. Memory order as asked, by default preserved where
// dense.
void like_with(const Tensor& self, std::optional<ScalarType> dtype, std::optional<Device> device,
               std::optional<MemoryFormat> memory_format, OutSpec* out);
// `size` on the device of `self`.
void sized(const Tensor& self, IntArrayRef size, OutSpec* out);
void sized(const Tensor& self, IntArrayRef size, ScalarType dtype, OutSpec* out);
// What every gradient operator that recomputes its forward's shape asks of grad_output:
// RuntimeError "<op>: Expected grad_output to have shape [2, 3], but got [3]".
void check_grad_output(const char* op, const Tensor& grad_output, IntArrayRef sizes);
// The factories: dtype and device default to the process's.
void factory(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<Device> device,
             OutSpec* out);
// `self` with the dimensions in `dim` reduced; null or empty: all of them.
void reduced(const Tensor& self, const std::optional<IntArrayRef>& dim, bool keepdim, OutSpec* out);
void reduced(const Tensor& self, int64_t dim, bool keepdim, OutSpec* out);
// Broadcast sizes and common dtype.
void broadcast(const Tensor& self, const Tensor& other, OutSpec* out);

}  // namespace flambeau::shape
