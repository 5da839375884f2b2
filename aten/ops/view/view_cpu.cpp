// The transposes of views on CPU, and copies in another order: triangles, flip, roll.
// Formula: transposes: zeros with a part filled, or sums where a view overlaps; copies: out[i] =
// self[moved i].
// Accumulates in: copies: none, values are moved; sums of overlapping parts are kept in the element
// type.
// NaN, infinity: both are moved; sums follow IEEE arithmetic.
// Error: copies are exact in every dtype; n overlapping elements: n eps of the sum of magnitudes.
// Source: by definition.
#include <algorithm>
#include <cstring>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/cpu/copy.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/wrapping.h"
#include "torchgen_out/aten/view_kernels.h"

namespace flambeau::ops {
namespace {

// Zeros in `result`, then `part` where `geometry` says.
void zeros_but(const Tensor& result, const ViewGeometry& geometry, const Tensor& part) {
  fill_with(result, 0);
  copy_into(plain_view(result, geometry), part);
}

// target[geometry] += source, one element after the other: places may repeat.
void add_at(void* target, IntArrayRef sizes, IntArrayRef strides, const Tensor& source) {
  const Tensor values = contiguous_tensor(source);
  dispatch_all(values.dtype(), "as_strided_backward", [&]<typename T>() {
    T* out = static_cast<T*>(target);
    const T* in = values.data_as<T>();
    DimVector index(sizes.size());
    int64_t offset = 0;
    for (int64_t i = 0; i < values.numel(); ++i) {
      out[offset] = wrapping_sum(out[offset], in[i]);
      for (size_t d = sizes.size(); d-- > 0;) {
        offset += strides[d];
        if (++index[d] < sizes[d]) break;
        offset -= sizes[d] * strides[d];
        index[d] = 0;
      }
    }
  });
}

int64_t last_of(IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  check(sizes.size() == strides.size(), LengthMismatch{sizes, strides});
  check(offset >= 0, "as_strided: expected a storage offset of 0 or more, got ", offset);
  return sum_of("as_strided", offset, extent_of(sizes, strides) - 1);
}

// A vector of zeros that holds the elements `first` .. `last` of a storage.
Tensor storage_window(int64_t first, int64_t last, const Tensor& model) {
  return zeros_tensor({last - first + 1}, model.dtype(), model.device());
}

}  // namespace

void select_backward_cpu(const Tensor& grad_output, IntArrayRef, int64_t dim, int64_t index,
                         Tensor& result) {
  zeros_but(result, view::select(result, dim, index), grad_output);
}

void slice_backward_cpu(const Tensor& grad_output, IntArrayRef, int64_t dim,
                        std::optional<int64_t> start, std::optional<int64_t> end, int64_t step,
                        Tensor& result) {
  zeros_but(result, view::slice(result, dim, start, end, step), grad_output);
}

void diagonal_backward_cpu(const Tensor& grad_output, IntArrayRef, int64_t offset, int64_t dim1,
                           int64_t dim2, Tensor& result) {
  zeros_but(result, view::diagonal(result, offset, dim1, dim2), grad_output);
}

void diag_embed_cpu(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2,
                    Tensor& result) {
  zeros_but(result, view::diagonal(result, offset, dim1, dim2), self);
}

void unfold_backward_cpu(const Tensor& grad_output, IntArrayRef, int64_t dimension, int64_t size,
                         int64_t step, Tensor& result) {
  const ViewGeometry windows = view::unfold(result, dimension, size, step);
  shape::check_grad_output("_unfold_backward", grad_output, windows.sizes);
  if (step >= size) return zeros_but(result, windows, grad_output);
  fill_with(result, 0);
  if (grad_output.numel() > 0) add_at(result.data(), windows.sizes, windows.strides, grad_output);
}

void split_backward_cpu(TensorList grad_outputs, IntArrayRef split_sizes, int64_t dim,
                        Tensor& result) {
  const std::vector<ViewGeometry> pieces = view::split_with_sizes(result, split_sizes, dim);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Tensor piece = plain_view(result, pieces[i]);
    grad_outputs[i].defined() ? copy_into(piece, grad_outputs[i]) : fill_with(piece, 0);
  }
}

void unbind_backward_cpu(TensorList grad_outputs, int64_t dim, Tensor& result) {
  const std::vector<ViewGeometry> slices = view::unbind(result, dim);
  for (size_t i = 0; i < slices.size(); ++i) {
    const Tensor slice = plain_view(result, slices[i]);
    grad_outputs[i].defined() ? copy_into(slice, grad_outputs[i]) : fill_with(slice, 0);
  }
}

void as_strided_copy_cpu(const Tensor& self, IntArrayRef self_strides, int64_t self_offset,
                         IntArrayRef size, IntArrayRef stride, int64_t storage_offset,
                         Tensor& result) {
  if (result.numel() == 0) return;
  const int64_t first = std::min(self_offset, storage_offset);
  const int64_t last = std::max(last_of(self.sizes(), self_strides, self_offset),
                                last_of(size, stride, storage_offset));
  const Tensor window = storage_window(first, last, self);
  copy_into(plain_view(window, {self.sizes(), self_strides, self_offset - first}), self);
  copy_into(result, plain_view(window, {size, stride, storage_offset - first}));
}

// Sums grad_output into a window of the storage, and reads it as `self` lies there. Where several
// elements of self share a place, each gets its share of that place's gradient.
void as_strided_backward_cpu(const Tensor& grad_output, IntArrayRef self_sizes,
                             IntArrayRef self_strides, int64_t self_offset, IntArrayRef stride,
                             int64_t storage_offset, Tensor& result) {
  if (grad_output.numel() == 0 || result.numel() == 0) return fill_with(result, 0);
  const int64_t first = std::min(self_offset, storage_offset);
  const int64_t last = std::max(last_of(self_sizes, self_strides, self_offset),
                                last_of(grad_output.sizes(), stride, storage_offset));
  const Tensor window = storage_window(first, last, grad_output);
  const auto item = static_cast<int64_t>(element_size(window.dtype()));
  char* base = static_cast<char*>(window.data());
  add_at(base + (storage_offset - first) * item, grad_output.sizes(), stride, grad_output);
  const ViewGeometry as_self{self_sizes, self_strides, self_offset - first};
  copy_into(result, plain_view(window, as_self));
  const Tensor shared = plain_view(window, as_self);
  if (shared.impl()->is_non_overlapping_and_dense()) return;
  fill_with(window, 0);
  const Tensor ones = empty_tensor(self_sizes, window.dtype());
  fill_with(ones, 1);
  add_at(base + (self_offset - first) * item, self_sizes, self_strides, ones);
  const Tensor count = contiguous_tensor(shared);
  dispatch_floating_complex(result.dtype(), "as_strided_backward", [&]<typename T>() {
    T* out = result.data_as<T>();
    const T* n = count.data_as<T>();
    for (int64_t i = 0; i < result.numel(); ++i) out[i] = static_cast<T>(out[i] / n[i]);
  });
}

namespace {

void triangle(const Tensor& self, int64_t diagonal, bool lower, Tensor& result) {
  if (self.numel() == 0) return;
  const Tensor in = contiguous_tensor(self);
  const int64_t rows = self.size(-2), columns = self.size(-1);
  const int64_t near = std::clamp<int64_t>(diagonal, -rows - 1, columns);  // all beyond are alike
  const auto item = static_cast<int64_t>(element_size(self.dtype()));
  const char* from = static_cast<const char*>(in.data());
  char* to = static_cast<char*>(result.data());
  parallel_for(0, self.numel() / columns, columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // [0, cut) is at or below the diagonal for the lower triangle, strictly below it for the
      // upper.
      const int64_t cut = std::clamp<int64_t>(row % rows + (lower ? 1 : 0) + near, 0, columns);
      const int64_t start = row * columns * item, middle = start + cut * item;
      const auto head = static_cast<size_t>(cut * item),
                 tail = static_cast<size_t>((columns - cut) * item);
      if (lower) {
        std::memcpy(to + start, from + start, head);
        std::memset(to + middle, 0, tail);
      } else {
        std::memset(to + start, 0, head);
        std::memcpy(to + middle, from + middle, tail);
      }
    }
  });
}

}  // namespace

void tril_cpu(const Tensor& self, int64_t diagonal, Tensor& result) {
  triangle(self, diagonal, true, result);
}

void triu_cpu(const Tensor& self, int64_t diagonal, Tensor& result) {
  triangle(self, diagonal, false, result);
}

void complex_cpu(const Tensor& real, const Tensor& imag, Tensor& result) {
  ViewGeometry part{DimVector(result.sizes()), DimVector(result.strides()),
                    result.storage_offset() * 2, real.dtype()};
  for (int64_t& stride : part.strides) stride *= 2;
  for (const Tensor* source : {&real, &imag}) {
    copy_into(plain_view(result, part), *source);
    ++part.storage_offset;
  }
}

void flip_cpu(const Tensor& self, IntArrayRef dims, Tensor& result) {
  if (self.numel() == 0) return;
  const uint64_t mask = dim_mask(dims, self.dim());
  const auto ndim = static_cast<size_t>(self.dim());
  const IntArrayRef sizes = self.sizes();
  DimVector strides(self.strides());
  int64_t start = 0;
  for (size_t d = 0; d < ndim; ++d) {
    if (!(mask >> d & 1)) continue;
    start += (sizes[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  const auto bytes = static_cast<int64_t>(element_size(self.dtype()));
  copy_strided(result, static_cast<const char*>(self.data()) + start * bytes, strides);
}

namespace {

template <typename T>
void roll_run(const T* from, int64_t n, int64_t head, T* to) {
  constexpr int64_t kShort = 32;  // elements that do not repay two calls
  if (n >= kShort) {
    std::memcpy(to + head, from, static_cast<size_t>(n - head) * sizeof(T));
    std::memcpy(to, from + n - head, static_cast<size_t>(head) * sizeof(T));
    return;
  }
  for (int64_t i = head; i < n; ++i) to[i] = from[i - head];
  for (int64_t i = 0; i < head; ++i) to[i] = from[n - head + i];
}

// result <- self shifted by `by` places along `dim`, both row-major: both parts of a run at once.
void roll_runs(const Tensor& self, int64_t by, int64_t dim, const Tensor& result) {
  int64_t inner = 1;
  for (int64_t d = dim + 1; d < self.dim(); ++d) inner *= self.size(d);
  const int64_t run = self.size(dim) * inner;
  dispatch_by_size(element_size(self.dtype()), "roll", [&]<typename T>() {
    const T* from = static_cast<const T*>(self.data());
    T* to = static_cast<T*>(result.data());
    parallel_for(0, self.numel() / run, run, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * run; i < end * run; i += run) {
        roll_run(from + i, run, by * inner, to + i);
      }
    });
  });
}

// result <- self shifted cyclically by sign * shift along `dim`.
void roll_dim(const Tensor& self, int64_t shift, int64_t sign, int64_t dim, const Tensor& result) {
  const int64_t size = self.dim() ? self.size(dim) : 1;
  if (size <= 1 || self.numel() == 0) return copy_into(result, self);
  const int64_t by = (sign * (shift % size) + size) % size;
  constexpr int64_t kManyRuns = 16;  // fewer long ones are divided within
  const bool dense = self.is_contiguous() && result.is_contiguous();
  if (dense && self.numel() >= kManyRuns * size * self.stride(dim)) {
    return roll_runs(self, by, dim, result);
  }
  const auto part = [&](const Tensor& t, int64_t begin, int64_t length) {
    return plain_view(t, view::narrow(t, dim, begin, length));
  };
  copy_into(part(result, by, size - by), part(self, 0, size - by));
  if (by > 0) copy_into(part(result, 0, by), part(self, size - by, by));
}

void roll_all(const Tensor& self, IntArrayRef shifts, IntArrayRef dims, int64_t sign,
              const Tensor& result) {
  if (dims.empty()) {
    const ViewGeometry flat{{self.numel()}, {1}, 0};
    const Tensor in = contiguous_tensor(self);
    ViewGeometry flat_in = flat, flat_out = flat;
    flat_in.storage_offset = in.storage_offset();
    flat_out.storage_offset = result.storage_offset();
    return roll_dim(plain_view(in, flat_in), shifts[0], sign, 0, plain_view(result, flat_out));
  }
  Tensor source = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool last = i + 1 == dims.size();
    const Tensor target = last ? result : empty_tensor(self.sizes(), self.dtype(), self.device());
    roll_dim(source, shifts[i], sign, wrap_dim(dims[i], self.dim()), target);
    source = target;
  }
}

}  // namespace

void roll_cpu(const Tensor& self, IntArrayRef shifts, IntArrayRef dims, Tensor& result) {
  roll_all(self, shifts, dims, 1, result);
}

void roll_back_cpu(const Tensor& self, IntArrayRef shifts, IntArrayRef dims, Tensor& result) {
  roll_all(self, shifts, dims, -1, result);
}

}  // namespace flambeau::ops
