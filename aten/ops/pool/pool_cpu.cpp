// Pooling on CPU over the last 1 to 3 dimensions. Where a result is channels last its input is
// brought into that format, and all channels of a pixel are pooled at once.
// Formula: maxima: the largest element of each window and its index, flat within the spatial
// dimensions; ties go to the first. Means: the sum of a window / divisor.
// Accumulates in: means of the half types are summed in float32, those of float32 mostly in
// float64; maxima: none, values are moved.
// NaN, infinity: NaN wins in maxima, of several the last one; means follow IEEE arithmetic.
// Error: maxima are exact; means 2e-7 relative in float32, 1e-14 in float64, 4e-3 in bfloat16
// (test/ops/test_pool.py).
// Source: by definition.
#include <algorithm>
#include <iterator>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/loop_values.h"
#include "aten/core/memory_order.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/wrapping.h"
#include "aten/ops/pool/windows.h"
#include "torchgen_out/aten/pool_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(pool::MeanLoop, pool_mean)
FLAMBEAU_DECLARE_LOOPS(pool::ImageLoops, pool_images)
FLAMBEAU_DECLARE_LOOPS(pool::MaxLoop, pool_max)

namespace ops {
namespace {

using pool::Divisor;

pool::LoopType loop_type(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float32:
      return pool::kLoopFloat;
    case ScalarType::Float64:
      return pool::kLoopDouble;
    case ScalarType::Int64:
      return pool::kLoopInt64;
    default:
      fail_dtype("pool", dtype);
  }
}

const pool::ImageLoops& image_loops(ScalarType dtype) {
  static const LoopTable<pool::ImageLoops> table = FLAMBEAU_LOOP_TABLE(pool_images);
  return table[loop_type(dtype)];
}

// A tensor of images that loops fill in the type that they compute in.
class Images {
 public:
  Images(const Tensor& place, ScalarType compute)
      : place_(place),
        values_(place.dtype() == compute ? place : empty_like_tensor(place, compute)) {}
  void* data() const { return values_.data(); }
  const Tensor& values() const { return values_; }
  void deliver() const {
    if (!values_.is_same(place_)) copy_into(place_, values_);
  }

 private:
  Tensor place_, values_;
};

// Rows of windows of all images, in parallel. body(first row, last row, scratch of 16 bytes a
// channel).
template <typename Body>
void for_image_rows(const pool::Geometry& g, const Tensor& out, const Body& body) {
  const int64_t rows = static_cast<int64_t>(g.ranges[0].size() * g.ranges[1].size());
  const int64_t channels = out.size(1), cost = out.numel() / (out.size(0) * rows) * 16;
  parallel_for(0, out.size(0) * rows, cost, [&](int64_t first, int64_t last) {
    std::vector<double> scratch(static_cast<size_t>(2 * channels));
    body(first, last, scratch.data());
  });
}

// The type that loops over images compute maxima in: exact for all of its values.
ScalarType max_type(ScalarType dtype) {
  return is_floating_type(dtype) ? compute_type(dtype) : ScalarType::Int64;
}

void run_max_of_images(const pool::Geometry& g, const Tensor& self, const Tensor& out,
                       const Tensor& indices) {
  const ScalarType compute = max_type(self.dtype());
  const Tensor in = dense_in_format_of(cast_tensor(self, compute), out);
  const Images values(out, compute);
  const pool::Windows windows = g.windows();
  for_image_rows(g, out, [&](int64_t first, int64_t last, void* scratch) {
    image_loops(compute).max(windows, out.size(1), first, last, in.data(), values.data(),
                             indices.data_as<int64_t>(), scratch);
  });
  values.deliver();
}

// Dilated windows may step over the whole input.
bool is_empty(const pool::Range& range) { return range.begin >= range.end; }
bool has_empty_windows(const pool::Geometry& g) {
  return std::any_of(std::begin(g.ranges), std::end(g.ranges),
                     [](const auto& along) { return std::ranges::any_of(along, is_empty); });
}

// Places of loops over float32 images are int32, and every window has elements.
bool fits_image_loops(const pool::Geometry& g) {
  return g.in_size() < int64_t{1} << 31 && !has_empty_windows(g);
}

// Contiguous planes of floating types; half types are widened and narrowed, which is exact.
void run_max_of_planes(const pool::Geometry& g, const Tensor& self, const Tensor& out,
                       const Tensor& indices) {
  const ScalarType compute = compute_type(self.dtype());
  static const LoopTable<pool::MaxLoop> table = FLAMBEAU_LOOP_TABLE(pool_max);
  const pool::MaxLoop loop = table[loop_type(compute)];
  const Tensor in = cast_tensor(self, compute);
  const Tensor to = out.dtype() == compute ? out : empty_tensor(out.sizes(), compute);
  const auto bytes = static_cast<int64_t>(element_size(compute));
  const pool::Windows windows = g.windows();
  parallel_for(0, g.planes, g.in_size() * 2, [&](int64_t first, int64_t last) {
    std::vector<double> scratch(static_cast<size_t>(2 * (windows.in[2] + windows.counts[2])));
    loop(windows, last - first, static_cast<const char*>(in.data()) + first * g.in_size() * bytes,
         static_cast<char*>(to.data()) + first * g.out_size() * bytes,
         indices.data_as<int64_t>() + first * g.out_size(), scratch.data());
  });
  if (out.dtype() != compute) copy_into(out, to);
}

void run_max(const pool::Geometry& g, const Tensor& self, Tensor& out, Tensor& indices) {
  if (g.batched && is_channels_last_ordered(out)) {
    if (fits_image_loops(g)) return run_max_of_images(g, self, out, indices);
    Tensor values = empty_tensor(out.sizes(), out.dtype()),
           places = empty_tensor(out.sizes(), ScalarType::Int64);
    run_max(g, self, values, places);
    copy_into(out, values);
    return copy_into(indices, places);
  }
  const Tensor in = contiguous_tensor(self);
  const bool some_empty = has_empty_windows(g);
  const ScalarType compute = compute_type(in.dtype());
  const bool is_float = compute == ScalarType::Float32 || compute == ScalarType::Float64;
  if (is_float && fits_image_loops(g)) return run_max_of_planes(g, in, out, indices);
  dispatch_ordered(in.dtype(), "max_pool", [&]<typename T>() {
    parallel_for(0, g.planes, g.in_size() * 2, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        const T* plane = in.data_as<T>() + p * g.in_size();
        T* values = out.data_as<T>() + p * g.out_size();
        int64_t* places = indices.data_as<int64_t>() + p * g.out_size();
        pool::for_each_window(g, [&](int64_t o, const auto& a, const auto& b, const auto& c) {
          int64_t best = (a.begin * g.in[1] + b.begin) * g.in[2] + c.begin;
          pool::for_each_place(g, a, b, c, [&](int64_t i) {
            const bool better = pool::takes_place(plane[i], plane[best]);
            best ^= (best ^ i) & -static_cast<int64_t>(better);
          });
          const bool empty = some_empty && (is_empty(a) || is_empty(b) || is_empty(c));
          values[o] = empty ? loops::lowest<T>() : plane[best];
          places[o] = best;
        });
      }
    });
  });
}

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, float>, double, accumulate_t<T>>;

void run_mean_of_images(const pool::Geometry& g, const Divisor& divisor, const Tensor& self,
                        const Tensor& out) {
  const ScalarType compute = compute_type(self.dtype());
  const Tensor in = dense_in_format_of(cast_tensor(self, compute), out);
  const Images means(out, compute);
  const pool::Windows windows = g.windows();
  for_image_rows(g, out, [&](int64_t first, int64_t last, void* scratch) {
    image_loops(compute).mean(windows, divisor, out.size(1), first, last, in.data(), means.data(),
                              scratch);
  });
  means.deliver();
}

void run_mean(const pool::Geometry& g, const Divisor& divisor, const Tensor& self, Tensor& out) {
  const ScalarType compute = compute_type(self.dtype());
  if (g.batched && is_channels_last_ordered(out)) return run_mean_of_images(g, divisor, self, out);
  static const LoopTable<pool::MeanLoop> table = FLAMBEAU_LOOP_TABLE(pool_mean);
  const pool::MeanLoop loop = table[loop_type(compute)];
  const Tensor in = contiguous_tensor(cast_tensor(self, compute));
  const bool direct = out.dtype() == compute && out.is_contiguous();
  const Tensor to = direct ? out : empty_tensor(out.sizes(), compute);
  const auto width = static_cast<int64_t>(element_size(compute));
  const pool::Windows windows = g.windows();
  parallel_for(0, g.planes, g.in_size() * 2, [&](int64_t first, int64_t last) {
    std::vector<double> scratch(static_cast<size_t>(2 * g.in[2]));
    loop(windows, divisor, last - first,
         static_cast<const char*>(in.data()) + first * g.in_size() * width,
         static_cast<char*>(to.data()) + first * g.out_size() * width, scratch.data());
  });
  if (!direct) copy_into(out, to);
}

void run_mean_backward_of_images(const pool::Geometry& g, const Divisor& divisor,
                                 const Tensor& grad, const Tensor& grad_input) {
  const ScalarType compute = compute_type(grad.dtype());
  const pool::ImageLoops& loops = image_loops(compute);
  const Tensor in = dense_in_format_of(cast_tensor(grad, compute), grad_input);
  const Images target(grad_input, compute);
  fill_with(target.values(), Scalar(0));
  const pool::Windows windows = g.windows();
  const int64_t channels = grad_input.size(1), bytes = static_cast<int64_t>(element_size(compute));
  parallel_for(0, grad_input.size(0), g.in_size() * channels, [&](int64_t first, int64_t last) {
    std::vector<double> scratch(static_cast<size_t>(channels));
    for (int64_t n = first; n < last; ++n) {
      loops.spread(windows, divisor, channels,
                   static_cast<const char*>(in.data()) + n * g.out_size() * channels * bytes,
                   static_cast<char*>(target.data()) + n * g.in_size() * channels * bytes,
                   scratch.data());
    }
  });
  target.deliver();
}

void run_mean_backward(const pool::Geometry& g, const Divisor& divisor, const Tensor& grad,
                       Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  if (g.batched && is_channels_last_ordered(grad_input))
    return run_mean_backward_of_images(g, divisor, grad, grad_input);
  const Tensor in = contiguous_tensor(grad);
  fill_with(grad_input, Scalar(0));
  dispatch_floating(in.dtype(), "avg_pool_backward", [&]<typename T>() {
    parallel_for(0, g.planes, g.in_size() * 2, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        const T* values = in.data_as<T>() + p * g.out_size();
        T* plane = grad_input.data_as<T>() + p * g.in_size();
        pool::for_each_window(g, [&](int64_t o, const auto& a, const auto& b, const auto& c) {
          const auto share =
              static_cast<Sum<T>>(values[o]) / static_cast<Sum<T>>(divisor.of(a, b, c));
          pool::for_each_place(g, a, b, c,
                               [&](int64_t i) { plane[i] = static_cast<T>(plane[i] + share); });
        });
      }
    });
  });
}

IntArrayRef spatial(const Tensor& t, IntArrayRef like) {
  return t.sizes().slice(t.sizes().size() - like.size(), like.size());
}

}  // namespace

void max_pool_cpu(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                  IntArrayRef padding, IntArrayRef dilation, bool, Tensor& out, Tensor& indices) {
  if (out.numel() == 0) return;
  run_max(pool::fixed(self.sizes(), out.sizes(), kernel_size, stride, padding, dilation), self, out,
          indices);
}

void max_pool_backward_cpu(const Tensor& grad, const Tensor& indices, IntArrayRef input_size,
                           int64_t dims, Tensor& grad_input) {
  fill_with(grad_input, Scalar(0));
  if (grad.numel() == 0) return;
  const bool images = grad.dim() == dims + 2 && is_channels_last_ordered(grad_input);
  const Tensor from = dense_in_format_of(grad, grad_input),
               places = dense_in_format_of(indices, grad_input);
  int64_t volume = 1, windows = 1;  // of a plane
  for (int64_t d = grad.dim() - dims; d < grad.dim(); ++d) {
    volume *= input_size[static_cast<size_t>(d)];
    windows *= grad.size(d);
  }
  const int64_t inner = images ? grad.size(1) : 1, outer = grad.numel() / (windows * inner);
  dispatch_all(grad.dtype(), "max_pool_backward", [&]<typename T>() {
    parallel_for(0, outer, windows * inner * 2, [&](int64_t first, int64_t last) {
      const int64_t start = first * windows * inner;
      const T* values = from.data_as<T>() + start;
      const int64_t* place = places.data_as<int64_t>() + start;
      for (int64_t i = first * windows; i < last * windows; ++i) {
        T* plane = grad_input.data_as<T>() + i / windows * volume * inner;
        for (int64_t c = 0; c < inner; ++c, ++values, ++place) {
          check_index(*place >= 0 && *place < volume, "max_pool_backward: expected indices below ",
                      volume, ", got ", *place, ", which is out of bounds");
          T& to = plane[*place * inner + c];
          to = wrapping_sum(to, *values);
        }
      }
    });
  });
}

void adaptive_max_pool_cpu(const Tensor& self, IntArrayRef output_size, Tensor& out,
                           Tensor& indices) {
  if (out.numel() == 0) return;
  run_max(pool::adaptive(self.sizes(), output_size), self, out, indices);
}

void avg_pool_cpu(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                  IntArrayRef padding, bool, bool count_include_pad,
                  std::optional<int64_t> divisor_override, Tensor& out) {
  if (out.numel() == 0) return;
  const DimVector ones(kernel_size.size(), 1);
  const pool::Geometry g =
      pool::fixed(self.sizes(), spatial(out, kernel_size), kernel_size, stride, padding, ones);
  run_mean(g, {count_include_pad, divisor_override.value_or(0)}, self, out);
}

void avg_pool_backward_cpu(const Tensor& grad, IntArrayRef input_size, IntArrayRef kernel_size,
                           IntArrayRef stride, IntArrayRef padding, bool, bool count_include_pad,
                           std::optional<int64_t> divisor_override, Tensor& out) {
  const DimVector ones(kernel_size.size(), 1);
  const pool::Geometry g =
      pool::fixed(input_size, spatial(grad, kernel_size), kernel_size, stride, padding, ones);
  run_mean_backward(g, {count_include_pad, divisor_override.value_or(0)}, grad, out);
}

void adaptive_avg_pool_cpu(const Tensor& self, IntArrayRef output_size, Tensor& out) {
  if (out.numel() == 0) return;
  run_mean(pool::adaptive(self.sizes(), output_size), {}, self, out);
}

void adaptive_avg_pool_backward_cpu(const Tensor& grad, IntArrayRef input_size,
                                    IntArrayRef output_size, Tensor& out) {
  run_mean_backward(pool::adaptive(input_size, output_size), {}, grad, out);
}

}  // namespace ops

}  // namespace flambeau
