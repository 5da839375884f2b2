// Softmax, its gradient, and cumulative sums and products along a dimension.
// A group of items per fiber joins their parts in local memory; scans are an item per fiber.
#include "fibers.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;

constexpr const char* kFibers = R"cl(
typedef struct { Geometry outer; long size, steps[6]; } Fibers;
inline long start_of(const Fibers f, const long fiber, const int array) {
  long place = f.outer.offsets[array], rest = fiber;
  for (long d = f.outer.dims - 1; d >= 0; --d) {
    place += rest % f.outer.sizes[d] * f.outer.strides[array][d];
    rest /= f.outer.sizes[d];
  }
  return place;
}
)cl";

// Joins what the items of a group hold; all of them receive the result.
constexpr const char* kGroup = R"cl(
#define JOINED(x, result, text)                        \
  barrier(CLK_LOCAL_MEM_FENCE);                        \
  parts[get_local_id(0)] = x;                          \
  barrier(CLK_LOCAL_MEM_FENCE);                        \
  T result = parts[0];                                 \
  for (int k = 1; k < GROUP; ++k) {                    \
    const T a = result, b = parts[k];                  \
    result = text;                                     \
  }
)cl";

constexpr const char* kSoftmax = R"cl(
__kernel void run(const Fibers f, __global IN* out, __global const IN* in) {
  __local T parts[GROUP];
  const long to = start_of(f, get_group_id(0), 0), from = start_of(f, get_group_id(0), 1);
  T top = -INFINITY;
  for (long i = get_local_id(0); i < f.size; i += GROUP)
    top = maximum_of(top, (T)READ_IN(in, from + i * f.steps[1]));
  JOINED(top, highest, maximum_of(a, b))
  T sum = 0;
  for (long i = get_local_id(0); i < f.size; i += GROUP)
    sum += exp((T)READ_IN(in, from + i * f.steps[1]) - highest);
  JOINED(sum, total, a + b)
  for (long i = get_local_id(0); i < f.size; i += GROUP) {
    const T x = (T)READ_IN(in, from + i * f.steps[1]) - highest;
    WRITE_IN(out, to + i * f.steps[0], FINISH);
  }
}
)cl";

constexpr const char* kSoftmaxGradient = R"cl(
__kernel void run(const Fibers f, __global IN* out, __global const IN* grad,
                  __global const IN* result) {
  __local T parts[GROUP];
  const long fiber = get_group_id(0), to = start_of(f, fiber, 0);
  const long left = start_of(f, fiber, 1), right = start_of(f, fiber, 2);
  T sum = 0;
  for (long i = get_local_id(0); i < f.size; i += GROUP) {
    const T g = (T)READ_IN(grad, left + i * f.steps[1]);
    const T y = (T)READ_IN(result, right + i * f.steps[2]);
    sum += PART;
  }
  JOINED(sum, total, a + b)
  for (long i = get_local_id(0); i < f.size; i += GROUP) {
    const T g = (T)READ_IN(grad, left + i * f.steps[1]);
    const T y = (T)READ_IN(result, right + i * f.steps[2]);
    WRITE_IN(out, to + i * f.steps[0], FINISH);
  }
}
)cl";

constexpr const char* kScan = R"cl(
__kernel void run(const Fibers f, __global IN* out, __global const IN* in) {
  const long fiber = get_global_id(0);
  if (fiber >= f.outer.elements) return;
  const long to = start_of(f, fiber, 0), from = start_of(f, fiber, 1);
  T a = (T)READ_IN(in, from);
  WRITE_IN(out, to, a);
  for (long i = 1; i < f.size; ++i) {
    const T b = (T)READ_IN(in, from + i * f.steps[1]);
    a = (T)(COMBINE);
    WRITE_IN(out, to + i * f.steps[0], a);
  }
}
)cl";

// Runs a kernel over the fibers of tensors of one dtype; the first one is written.
bool launch(const char* name, const std::string& text, const std::vector<Tensor>& arrays,
            int64_t dim, bool uses_groups) {
  const auto fibers = Fibers::of(arrays, dim);
  if (!fibers) return false;
  if (fibers->outer.elements == 0 || fibers->size == 0) return true;
  Device& device = device_at(arrays[0].device().index);
  const int group = !uses_groups || fibers->outer.elements >= 1024 || fibers->size <= 64 ? 1 : 64;
  const ScalarType dtype = arrays[0].dtype();
  const std::string options = type_options(dtype, device) + array_options("IN", dtype, device) +
                              " -DGROUP=" + std::to_string(group);
  const cl_kernel kernel =
      device.kernel(name + options, prelude() + kFibers + kGroup + text, options);
  Launch call(device, kernel);
  call.value(*fibers);
  for (const Tensor& array : arrays) call.memory(device_memory(array));
  const auto items = static_cast<size_t>(group);
  const auto count = static_cast<size_t>(fibers->outer.elements);
  if (uses_groups) {
    call.run({count * items}, {items});
  } else {
    call.run({(count + 63) / 64 * 64}, {64});
  }
  return true;
}

bool has_kernels(const Tensor& t, bool only_floating) {
  return (!only_floating || is_floating_type(t.dtype())) &&
         has_real(t.dtype(), device_at(t.device().index));
}

}  // namespace

std::string fibers_text() { return kFibers; }

std::optional<int64_t> wrapped_dim(const Call& call, int64_t rank) {
  const int64_t dim = call.at("dim").get<Scalar>().to_int64(), count = std::max<int64_t>(rank, 1);
  if (dim < -count || dim >= count) return std::nullopt;
  return dim < 0 ? dim + count : dim;
}

std::optional<Fibers> Fibers::of(const std::vector<Tensor>& arrays, int64_t dim) {
  Fibers fibers;
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides(arrays.size());
  for (int64_t d = 0; d < arrays[0].dim(); ++d) {
    if (d == dim) continue;
    sizes.push_back(arrays[0].size(d));
    for (size_t k = 0; k < arrays.size(); ++k) strides[k].push_back(arrays[k].stride(d));
  }
  if (!coalesce(fibers.outer, sizes, strides)) return std::nullopt;
  for (size_t k = 0; k < arrays.size(); ++k) {
    fibers.outer.offsets[k] = arrays[k].storage_offset();
    fibers.steps[k] = arrays[k].dim() ? arrays[k].stride(dim) : 0;
  }
  if (arrays[0].dim()) fibers.size = arrays[0].size(dim);
  return fibers;
}

bool run_softmax(Call& call, bool is_log) {
  if (!is_here(call.at("self")) || call.target()) return false;
  const Tensor self = call.at("self").tensor();
  const auto dim = wrapped_dim(call, self.dim());
  if (!dim || !has_kernels(self, true)) return false;
  const Tensor spec = result_spec(call);
  if (spec.dtype() != self.dtype()) return false;
  Output output(call, spec, spec.dtype(), self.device());
  const std::string finish = is_log ? "x - log(total)" : "exp(x) / total";
  if (!launch(is_log ? "log_softmax " : "softmax ", "#define FINISH " + finish + "\n" + kSoftmax,
              {output.written, self}, *dim, true))
    return false;
  output.finish(call);
  return true;
}

bool run_softmax_gradient(Call& call, bool is_log) {
  if (!is_here(call.at("grad_output")) || !is_here(call.at("output")) || call.target())
    return false;
  const Tensor grad = call.at("grad_output").tensor(), result = call.at("output").tensor();
  const auto dim = wrapped_dim(call, result.dim());
  if (!dim || !has_kernels(result, true) || grad.dtype() != result.dtype() ||
      grad.device() != result.device())
    return false;
  const Tensor spec = result_spec(call);
  if (spec.dtype() != result.dtype() || grad.sizes() != result.sizes()) return false;
  Output output(call, spec, spec.dtype(), result.device());
  const std::string part = is_log ? "g" : "g * y";
  const std::string finish = is_log ? "g - exp(y) * total" : "(g - total) * y";
  if (!launch(is_log ? "log_softmax gradient " : "softmax gradient ",
              "#define PART " + part + "\n#define FINISH " + finish + "\n" + kSoftmaxGradient,
              {output.written, grad, result}, *dim, true))
    return false;
  output.finish(call);
  return true;
}

bool run_scan(Call& call, const char* combine) {
  if (!is_here(call.at("self"))) return false;
  const Tensor self = call.at("self").tensor();
  const auto dim = wrapped_dim(call, self.dim());
  const bool needs_floating = std::string(combine).find("_of") != std::string::npos;
  if (!dim || self.dtype() == ScalarType::Bool || !has_kernels(self, needs_floating)) return false;
  const Tensor spec = result_spec(call);
  if (spec.dtype() != self.dtype()) return false;
  Output output(call, spec, spec.dtype(), self.device());
  const std::string define = std::string("#define COMBINE ") + combine + "\n";
  if (!launch(combine, define + kScan, {output.written, self}, *dim, false)) return false;
  output.finish(call);
  return true;
}

}  // namespace flambeau_opencl
