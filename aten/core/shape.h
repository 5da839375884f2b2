#pragma once
// Arithmetic on sizes and dims, with the key phrases that users match on.
#include <optional>

#include "aten/core/tensor.h"

namespace flambeau {

// Result of broadcasting; RuntimeError "shapes do not broadcast: ...".
DimVector broadcast_sizes(IntArrayRef a, IntArrayRef b);
bool is_broadcastable_to(IntArrayRef from, IntArrayRef to);
// dim in [-ndim, ndim) -> [0, ndim); 0-dim tensors accept -1 and 0. IndexError "Dimension out of
// range: ...".
int64_t wrap_dim(int64_t dim, int64_t ndim);
// Wraps all, RuntimeError "dim 1 appears multiple times ..." on a repeat; the result as a mask.
uint64_t dim_mask(IntArrayRef dims, int64_t ndim);
int64_t numel_of(IntArrayRef sizes);  // RuntimeError on negative sizes or overflow
// Elements from the first to the last of (sizes, strides), 0 if there is none. RuntimeError on
// negative sizes or strides, or overflow.
int64_t extent_of(IntArrayRef sizes, IntArrayRef strides);
// a * b, a + b and a - b, RuntimeError "<what>: integer overflow" where they do not fit.
int64_t product_of(const char* what, int64_t a, int64_t b);
int64_t sum_of(const char* what, int64_t a, int64_t b);
int64_t difference_of(const char* what, int64_t a, int64_t b);
// How far a window of `kernel` elements, `dilation` apart, moves along `in` elements with padding:
// in + 2 padding - dilation (kernel - 1) - 1, negative where it does not fit. RuntimeError where
// the sum of any of these would overflow.
int64_t window_room(const char* what, int64_t in, int64_t kernel, int64_t padding,
                    int64_t dilation);
DimVector contiguous_strides(IntArrayRef sizes);
DimVector channels_last_strides(IntArrayRef sizes);
// Replaces one -1 and checks the element count: RuntimeError "... invalid for input of size 5".
DimVector infer_size(IntArrayRef shape, int64_t numel);
// Strides with which storage of (sizes, strides) can be seen as `shape`; nullopt when it needs a
// copy.
std::optional<DimVector> view_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef shape);
// Sizes after reducing `mask` dims.
DimVector reduced_sizes(IntArrayRef sizes, uint64_t mask, bool keepdim);

// Whether two tensors may share bytes / whether one tensor's elements alias each other.
enum class Overlap { No, Full, Partial, TooHard };
Overlap overlap_of(const Tensor& a, const Tensor& b);
bool has_internal_overlap(const Tensor& t);

}  // namespace flambeau
