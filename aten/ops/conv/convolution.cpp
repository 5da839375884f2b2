// Convolution as matrix products over unrolled windows: used for what oneDNN has no primitive for,
// and for all when it is not built in; half types are converted to float32 then. Sums are those of
// gemm::multiply.
#include "aten/ops/conv/convolution.h"

#include <cstring>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/memory_order.h"
#include "aten/core/shape.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/wrapping.h"
#include "aten/ops/matmul/gemm.h"

namespace flambeau::conv {
namespace {

// Spatial geometry padded to three dimensions, so that one loop nest serves all.
struct Windows {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  int64_t in_size = 1, out_size = 1, kernel_size = 1;

  explicit Windows(const Problem& p) {
    const int64_t shift = 3 - p.dims();
    for (int64_t d = 0; d < p.dims(); ++d) {
      const auto i = static_cast<size_t>(d);
      in[d + shift] = p.in[i];
      out[d + shift] = p.out[i];
      kernel[d + shift] = p.kernel[i];
      stride[d + shift] = p.stride[i];
      padding[d + shift] = p.padding[i];
      dilation[d + shift] = p.dilation[i];
    }
    for (int d = 0; d < 3; ++d) {
      in_size *= in[d];
      out_size *= out[d];
      kernel_size *= kernel[d];
    }
  }
  // The input coordinate that output `o` sees through kernel place `k`; outside [0, in): padding.
  int64_t source(int d, int64_t o, int64_t k) const {
    return o * stride[d] - padding[d] + k * dilation[d];
  }
  bool inside(int d, int64_t at) const { return at >= 0 && at < in[d]; }
};

// Calls visit(row, column, input offset) for every place of every window of one channel.
template <typename Visit>
void for_each_place(const Windows& w, Visit visit) {
  for (int64_t k = 0; k < w.kernel_size; ++k) {
    const int64_t k2 = k % w.kernel[2], k1 = k / w.kernel[2] % w.kernel[1],
                  k0 = k / w.kernel[2] / w.kernel[1];
    for (int64_t a = 0; a < w.out[0]; ++a) {
      const int64_t x = w.source(0, a, k0);
      if (!w.inside(0, x)) continue;
      for (int64_t b = 0; b < w.out[1]; ++b) {
        const int64_t y = w.source(1, b, k1);
        if (!w.inside(1, y)) continue;
        for (int64_t c = 0; c < w.out[2]; ++c) {
          const int64_t z = w.source(2, c, k2);
          if (w.inside(2, z))
            visit(k, (a * w.out[1] + b) * w.out[2] + c, (x * w.in[1] + y) * w.in[2] + z);
        }
      }
    }
  }
}

// (channels * kernel, out) <- windows of (channels, in)
template <typename T>
void unroll(const Windows& w, int64_t channels, const T* input, T* columns) {
  parallel_for(0, channels, w.kernel_size * w.out_size, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      T* rows = columns + c * w.kernel_size * w.out_size;
      std::memset(static_cast<void*>(rows), 0,
                  sizeof(T) * static_cast<size_t>(w.kernel_size * w.out_size));
      for_each_place(w, [&](int64_t k, int64_t o, int64_t i) {
        rows[k * w.out_size + o] = input[c * w.in_size + i];
      });
    }
  });
}

// (channels, in) <- sum over windows of (channels * kernel, out)
template <typename T>
void roll(const Windows& w, int64_t channels, const T* columns, T* input) {
  parallel_for(0, channels, w.kernel_size * w.out_size, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const T* rows = columns + c * w.kernel_size * w.out_size;
      T* plane = input + c * w.in_size;
      for (int64_t i = 0; i < w.in_size; ++i) plane[i] = T(0);
      for_each_place(w, [&](int64_t k, int64_t o, int64_t i) {
        plane[i] = wrapping_sum(plane[i], rows[k * w.out_size + o]);
      });
    }
  });
}

template <typename F>
void dispatch_conv(ScalarType dtype, F&& f) {
  dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Int64, ScalarType::Complex64,
                 ScalarType::Complex128, ScalarType::Int32>(dtype, "convolution",
                                                            static_cast<F&&>(f));
}

// The sizes of one group.
struct Group {
  Windows w;
  int64_t in, out, rows;  // channels in and out; rows of the unrolled windows
  explicit Group(const Problem& p)
      : w(p),
        in(p.in_channels / p.groups),
        out(p.out_channels / p.groups),
        rows(in * w.kernel_size) {}
};

gemm::Matrix row_major(const void* data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols, 1};
}

}  // namespace

bool is_channels_last(const Tensor& input, const Tensor& weight) {
  return is_channels_last_ordered(input) || is_channels_last_ordered(weight);
}

DimVector per_dimension(IntArrayRef list, int64_t dims) {
  if (list.size() != 1) return DimVector(list);
  DimVector all;
  for (int64_t d = 0; d < dims; ++d) all.push_back(list[0]);
  return all;
}

Problem problem_of(const Tensor& input, const Tensor& weight, const Tensor& output,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups) {
  const int64_t dims = input.dim() - 2;
  Problem p{input.size(0),
            input.size(1),
            weight.size(0),
            groups,
            {},
            {},
            {},
            per_dimension(stride, dims),
            per_dimension(padding, dims),
            per_dimension(dilation, dims),
            input.dtype()};
  for (int64_t d = 2; d < input.dim(); ++d) {
    p.in.push_back(input.size(d));
    p.out.push_back(output.size(d));
    p.kernel.push_back(weight.size(d));
  }
  p.channels_last = is_channels_last_ordered(input) || is_channels_last_ordered(output);
  p.weight_channels_last = is_channels_last_ordered(weight);
  return p;
}

namespace {

bool is_row_major(const Problem& p) { return !p.channels_last && !p.weight_channels_last; }

Problem in_row_major(Problem p) {
  p.channels_last = p.weight_channels_last = false;
  return p;
}

Tensor row_major_like(const Tensor& t) { return empty_tensor(t.sizes(), t.dtype()); }

}  // namespace

void forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output) {
  if (pointwise::forward(p, input, weight, bias, output)) return;
  if (onednn::forward(p, input, weight, bias, output)) return;
  if (is_reduced_floating_type(p.dtype)) return in_float::forward(p, input, weight, bias, output);
  if (!is_row_major(p)) {
    const Tensor out = row_major_like(output);
    forward(in_row_major(p), contiguous_tensor(input), contiguous_tensor(weight), bias, out);
    return copy_into(output, out);
  }
  dispatch_conv(p.dtype, [&]<typename T>() {
    const Group g(p);
    std::vector<T> columns(static_cast<size_t>(g.rows * g.w.out_size));
    for (int64_t i = 0; i < p.batch * p.groups; ++i) {
      unroll(g.w, g.in, input.data_as<T>() + i * g.in * g.w.in_size, columns.data());
      gemm::multiply(p.dtype,
                     row_major(weight.data_as<T>() + i % p.groups * g.out * g.rows, g.out, g.rows),
                     row_major(columns.data(), g.rows, g.w.out_size),
                     output.data_as<T>() + i * g.out * g.w.out_size, g.w.out_size, false);
    }
    if (!bias.defined()) return;
    T* out = output.data_as<T>();
    for (int64_t row = 0; row < p.batch * p.out_channels; ++row) {
      const T add = bias.data_as<T>()[row % p.out_channels];
      for (int64_t i = 0; i < g.w.out_size; ++i, ++out) *out = static_cast<T>(*out + add);
    }
  });
}

void backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input) {
  if (pointwise::backward_input(p, grad_output, weight, grad_input)) return;
  if (onednn::backward_input(p, grad_output, weight, grad_input)) return;
  if (is_reduced_floating_type(p.dtype))
    return in_float::backward_input(p, grad_output, weight, grad_input);
  if (!is_row_major(p)) {
    const Tensor out = row_major_like(grad_input);
    backward_input(in_row_major(p), contiguous_tensor(grad_output), contiguous_tensor(weight), out);
    return copy_into(grad_input, out);
  }
  dispatch_conv(p.dtype, [&]<typename T>() {
    const Group g(p);
    std::vector<T> columns(static_cast<size_t>(g.rows * g.w.out_size));
    for (int64_t i = 0; i < p.batch * p.groups; ++i) {
      const auto kernels =
          row_major(weight.data_as<T>() + i % p.groups * g.out * g.rows, g.out, g.rows);
      gemm::multiply(
          p.dtype, gemm::transposed(kernels),
          row_major(grad_output.data_as<T>() + i * g.out * g.w.out_size, g.out, g.w.out_size),
          columns.data(), g.w.out_size, false);
      roll(g.w, g.in, columns.data(), grad_input.data_as<T>() + i * g.in * g.w.in_size);
    }
  });
}

void backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight) {
  if (pointwise::backward_weight(p, grad_output, input, grad_weight)) return;
  if (onednn::backward_weight(p, grad_output, input, grad_weight)) return;
  if (is_reduced_floating_type(p.dtype))
    return in_float::backward_weight(p, grad_output, input, grad_weight);
  if (!is_row_major(p)) {
    const Tensor out = row_major_like(grad_weight);
    backward_weight(in_row_major(p), contiguous_tensor(grad_output), contiguous_tensor(input), out);
    return copy_into(grad_weight, out);
  }
  fill_with(grad_weight, Scalar(0));
  dispatch_conv(p.dtype, [&]<typename T>() {
    const Group g(p);
    std::vector<T> columns(static_cast<size_t>(g.rows * g.w.out_size));
    for (int64_t i = 0; i < p.batch * p.groups; ++i) {
      unroll(g.w, g.in, input.data_as<T>() + i * g.in * g.w.in_size, columns.data());
      gemm::multiply(
          p.dtype,
          row_major(grad_output.data_as<T>() + i * g.out * g.w.out_size, g.out, g.w.out_size),
          gemm::transposed(row_major(columns.data(), g.rows, g.w.out_size)),
          grad_weight.data_as<T>() + i % p.groups * g.out * g.rows, g.rows, true);
    }
  });
}

}  // namespace flambeau::conv
