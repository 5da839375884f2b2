// Pooling over windows of 1 to 3 dimensions, fixed or adaptive, and its gradients: an item per
// window, or per element of a mean's gradient. Gradients of maxima are an item per plane, because
// windows that overlap may share their maximum. Sums are kept in the compute type.
#include "call.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;

// As in the kernels; dimensions that the call lacks have the size 1. `divisor`: 0 where a window's
// size divides its sum.
struct Pool {
  int64_t planes = 1, in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1},
          stride[3] = {1, 1, 1}, padding[3] = {}, dilation[3] = {1, 1, 1}, adaptive = 0,
          include_padding = 1, divisor = 0;
};

constexpr const char* kPool = R"cl(
typedef struct {
  long planes, in[3], out[3], kernel_size[3], stride[3], padding[3], dilation[3], adaptive,
      include_padding, divisor;
} Pool;
// The elements of window `o` along a dimension: begin, begin + step, ... < end. `padded` counts
// the places of the window that are elements or padding.
typedef struct { long begin, end, step, padded; } Range;
inline Range range_of(const Pool p, const int d, const long o) {
  Range r;
  if (p.adaptive) {
    r.begin = o * p.in[d] / p.out[d];
    r.end = ((o + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
    r.step = 1;
    r.padded = r.end - r.begin;
    return r;
  }
  const long first = o * p.stride[d] - p.padding[d], step = p.dilation[d];
  r.begin = first < 0 ? first + (-first + step - 1) / step * step : first;
  r.end = min(first + step * (p.kernel_size[d] - 1) + 1, p.in[d]);
  r.step = step;
  r.padded = min(first + p.kernel_size[d], p.in[d] + p.padding[d]) - first;
  return r;
}
inline T divisor_of(const Pool p, const Range a, const Range b, const Range c) {
  if (p.divisor) return (T)p.divisor;
  if (p.include_padding) return (T)(a.padded * b.padded * c.padded);
  return (T)((a.end - a.begin) * (b.end - b.begin) * (c.end - c.begin));
}
#define WINDOW(i)                                                  \
  const Range c = range_of(p, 2, i % p.out[2]);                    \
  const Range b = range_of(p, 1, i / p.out[2] % p.out[1]);         \
  const Range a = range_of(p, 0, i / (p.out[2] * p.out[1]) % p.out[0]); \
  const long plane = i / (p.out[0] * p.out[1] * p.out[2]) * p.in[0] * p.in[1] * p.in[2];
#define EACH_PLACE                                 \
  for (long x = a.begin; x < a.end; x += a.step)   \
    for (long y = b.begin; y < b.end; y += b.step) \
      for (long z = c.begin; z < c.end; z += c.step)
#define PLACE(x, y, z) (((x) * p.in[1] + (y)) * p.in[2] + (z))
)cl";

// Of equal elements the first is taken, of NaNs the last; a window without elements is the lowest.
constexpr const char* kMax = R"cl(
__kernel void run(const Pool p, __global IN* out, __global long* places, __global const IN* in) {
  const long i = get_global_id(0);
  if (i >= p.planes * p.out[0] * p.out[1] * p.out[2]) return;
  WINDOW(i)
  long best = PLACE(a.begin, b.begin, c.begin);
  T top = LOWEST;
  int is_first = 1;
  EACH_PLACE {
    const T value = (T)READ_IN(in, plane + PLACE(x, y, z));
    if (is_first || value > top || value != value) {
      top = value;
      best = PLACE(x, y, z);
      is_first = 0;
    }
  }
  WRITE_IN(out, i, top);
  places[i] = best;
}
)cl";

constexpr const char* kMaxGradient = R"cl(
__kernel void run(const Pool p, __global IN* out, __global const IN* grad, __global const long* places) {
  const long plane = get_global_id(0);
  if (plane >= p.planes) return;
  const long size = p.in[0] * p.in[1] * p.in[2], windows = p.out[0] * p.out[1] * p.out[2];
  for (long i = 0; i < size; ++i) WRITE_IN(out, plane * size + i, (T)0);
  for (long i = plane * windows; i < (plane + 1) * windows; ++i) {
    const long to = places[i];
    if (to < 0 || to >= size) continue;  // outside of the plane there is nothing to write to
    WRITE_IN(out, plane * size + to, (T)READ_IN(out, plane * size + to) + (T)READ_IN(grad, i));
  }
}
)cl";

constexpr const char* kMean = R"cl(
__kernel void run(const Pool p, __global IN* out, __global const IN* in) {
  const long i = get_global_id(0);
  if (i >= p.planes * p.out[0] * p.out[1] * p.out[2]) return;
  WINDOW(i)
  T sum = 0;
  EACH_PLACE sum += (T)READ_IN(in, plane + PLACE(x, y, z));
  WRITE_IN(out, i, sum / divisor_of(p, a, b, c));
}
)cl";

constexpr const char* kMeanGradient = R"cl(
// The first and the last window along a dimension that hold element i.
inline long first_of(const Pool p, const int d, const long i) {
  if (p.adaptive) return i * p.out[d] / p.in[d];
  const long from = i + p.padding[d] - p.kernel_size[d] + 1;
  return from <= 0 ? 0 : (from + p.stride[d] - 1) / p.stride[d];
}
inline long last_of(const Pool p, const int d, const long i) {
  if (p.adaptive) return min(((i + 1) * p.out[d] - 1) / p.in[d], p.out[d] - 1);
  return min((i + p.padding[d]) / p.stride[d], p.out[d] - 1);
}
__kernel void run(const Pool p, __global IN* out, __global const IN* grad) {
  const long i = get_global_id(0), size = p.in[0] * p.in[1] * p.in[2];
  if (i >= p.planes * size) return;
  const long z = i % p.in[2], y = i / p.in[2] % p.in[1], x = i / (p.in[2] * p.in[1]) % p.in[0];
  const long plane = i / size * p.out[0] * p.out[1] * p.out[2];
  T sum = 0;
  for (long u = first_of(p, 0, x); u <= last_of(p, 0, x); ++u) {
    const Range a = range_of(p, 0, u);
    for (long v = first_of(p, 1, y); v <= last_of(p, 1, y); ++v) {
      const Range b = range_of(p, 1, v);
      for (long w = first_of(p, 2, z); w <= last_of(p, 2, z); ++w)
        sum += (T)READ_IN(grad, plane + (u * p.out[1] + v) * p.out[2] + w) /
               divisor_of(p, a, b, range_of(p, 2, w));
    }
  }
  WRITE_IN(out, i, sum);
}
)cl";

void set_last(int64_t (&to)[3], IntArrayRef values, size_t count) {
  for (size_t d = 0; d < count; ++d) to[3 - count + d] = values[values.size() - count + d];
}

void set_option(int64_t (&to)[3], const Call& call, const char* name, size_t count) {
  const auto& given = call.at(name).get<std::vector<int64_t>>();
  set_last(to, given, count);
}

// Planes of `in` elements, whose windows fill `out`, over the last `count` dimensions.
Pool pool_of(IntArrayRef in, IntArrayRef out, size_t count) {
  Pool p;
  for (size_t d = 0; d + count < in.size(); ++d) p.planes *= in[d];
  set_last(p.in, in, count);
  set_last(p.out, out, count);
  return p;
}

void set_windows(Pool& p, const Call& call, bool is_mean) {
  const size_t count = call.at("kernel_size").get<std::vector<int64_t>>().size();
  set_option(p.kernel, call, "kernel_size", count);
  set_option(p.stride, call, "stride", count);
  set_option(p.padding, call, "padding", count);
  if (!is_mean) return set_option(p.dilation, call, "dilation", count);
  p.include_padding = call.at("count_include_pad").get<Scalar>().to_bool();
  const IValue& divisor = call.at("divisor_override");
  if (!divisor.is_none()) p.divisor = divisor.get<Scalar>().to_int64();
}

size_t length_of(const Call& call, const char* name) {
  return call.at(name).get<std::vector<int64_t>>().size();
}

bool has_kernels(const Call& call, const char* name, bool only_floating) {
  if (!is_here(call.at(name))) return false;
  const Tensor& t = call.at(name).tensor();
  const bool fits = only_floating ? is_floating_type(t.dtype()) : t.dtype() != ScalarType::Bool;
  return fits && has_real(t.dtype(), device_at(t.device().index));
}

void launch(const char* name, const char* text, const Pool& p, const std::vector<Tensor>& arrays,
            int64_t items) {
  if (items == 0) return;
  const Tensor& out = arrays[0];
  Device& device = device_at(out.device().index);
  const std::string options =
      type_options(out.dtype(), device) + array_options("IN", out.dtype(), device);
  const cl_kernel kernel = device.kernel(name + options, prelude() + kPool + text, options);
  Launch call(device, kernel);
  call.value(p);
  for (const Tensor& array : arrays) call.memory(device_memory(array));
  call.run({(static_cast<size_t>(items) + 63) / 64 * 64}, {64});
}

bool run_max(Call& call, const char* sizes) {
  if (!has_kernels(call, "self", false)) return false;
  const Tensor self = from_start(call.at("self").tensor());
  const Stack specs = results_on_meta(call);
  const Tensor spec = specs[0].tensor();
  Pool p = pool_of(self.sizes(), spec.sizes(), length_of(call, sizes));
  p.adaptive = std::string(sizes) == "output_size";
  if (!p.adaptive) set_windows(p, call, false);
  const Tensor out = flambeau::empty_tensor(spec.sizes(), self.dtype(), self.device());
  const Tensor places = flambeau::empty_tensor(spec.sizes(), ScalarType::Int64, self.device());
  launch("max pool ", kMax, p, {out, places, self}, out.numel());
  call.stack.clear();
  call.stack.push(IValue(laid_out(out, spec)));
  call.stack.push(IValue(laid_out(places, specs[1].tensor())));
  return true;
}

// Means and their gradients. `given` is read; `is_back`: windows are spread over `input_size`.
bool run_means(Call& call, const char* given, const char* sizes, bool is_back) {
  if (!has_kernels(call, given, true)) return false;
  const Tensor from = from_start(call.at(given).tensor());
  const Tensor spec = result_spec(call);
  const size_t count = length_of(call, sizes);
  Pool p = is_back ? pool_of(spec.sizes(), from.sizes(), count)
                   : pool_of(from.sizes(), spec.sizes(), count);
  p.adaptive = std::string(sizes) == "output_size";
  if (!p.adaptive) set_windows(p, call, true);
  const Tensor out = flambeau::empty_tensor(spec.sizes(), from.dtype(), from.device());
  launch(is_back ? "mean pool gradient " : "mean pool ", is_back ? kMeanGradient : kMean, p,
         {out, from}, out.numel());
  call.stack.clear();
  call.stack.push(IValue(laid_out(out, spec)));
  return true;
}

}  // namespace

bool run_max_pool(Call& call) { return run_max(call, "kernel_size"); }
bool run_adaptive_max_pool(Call& call) { return run_max(call, "output_size"); }

bool run_max_pool_backward(Call& call) {
  if (!has_kernels(call, "grad_output", false) || !is_here(call.at("indices"))) return false;
  const Tensor grad = from_start(call.at("grad_output").tensor());
  const Tensor places = from_start(call.at("indices").tensor());
  if (places.device() != grad.device() || places.dtype() != ScalarType::Int64) return false;
  const Tensor spec = result_spec(call);
  const auto count = static_cast<size_t>(call.at("dims").get<Scalar>().to_int64());
  const Pool p = pool_of(spec.sizes(), grad.sizes(), count);
  const Tensor out = flambeau::empty_tensor(spec.sizes(), grad.dtype(), grad.device());
  launch("max pool gradient ", kMaxGradient, p, {out, grad, places}, out.numel() ? p.planes : 0);
  call.stack.clear();
  call.stack.push(IValue(laid_out(out, spec)));
  return true;
}

bool run_mean_pool(Call& call) { return run_means(call, "self", "kernel_size", false); }
bool run_adaptive_mean_pool(Call& call) { return run_means(call, "self", "output_size", false); }
bool run_mean_pool_backward(Call& call) {
  return run_means(call, "grad_output", "kernel_size", true);
}
bool run_adaptive_mean_pool_backward(Call& call) {
  return run_means(call, "grad_output", "output_size", true);
}

}  // namespace flambeau_opencl
