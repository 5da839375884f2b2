// Normalisation over any dimensions, scaled and shifted, and its gradients. A group of items per
// statistic joins its parts in local memory; weights broadcast by strides of 0.
#include <torchgen_out/aten/arithmetic_ops.h>

#include "call.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;

constexpr const char* kGroups = R"cl(
inline long place_in(const Geometry g, const long i, const int array) {
  long place = g.offsets[array], rest = i;
  for (long d = g.dims - 1; d >= 0; --d) {
    place += rest % g.sizes[d] * g.strides[array][d];
    rest /= g.sizes[d];
  }
  return place;
}
// Adds up what the items of a group hold; all of them receive the sum.
inline T joined(__local T* parts, const T x) {
  barrier(CLK_LOCAL_MEM_FENCE);
  parts[get_local_id(0)] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  T sum = 0;
  for (int k = 0; k < GROUP; ++k) sum += parts[k];
  return sum;
}
#define EACH(i) for (long i = get_local_id(0); i < inner.elements; i += GROUP)
)cl";

// Arrays: output, input, weight, bias. What the rounding of the mean leaves out is found from the
// deviations and taken off as well (Chan, Golub & LeVeque 1983).
constexpr const char* kForward = R"cl(
__kernel void run(const Geometry outer, const Geometry inner, __global IN* out, __global const IN* in,
                  __global const T* weight, __global const T* bias, __global T* center,
                  __global T* variance, const T eps) {
  __local T parts[GROUP];
  const long g = get_group_id(0), to = place_in(outer, g, 0), from = place_in(outer, g, 1);
  const long w = place_in(outer, g, 2), b = place_in(outer, g, 3);
  const T n = (T)inner.elements;
  T sum = 0, rest = 0, square = 0;
  EACH(i) sum += (T)READ_IN(in, from + place_in(inner, i, 1));
  const T mean = joined(parts, sum) / n;
  EACH(i) {
    const T d = (T)READ_IN(in, from + place_in(inner, i, 1)) - mean;
    rest += d;
    square += d * d;
  }
  const T error = joined(parts, rest) / n;
  const T spread = joined(parts, square) / n - error * error;
  const T scale = 1 / sqrt(spread + eps);
  EACH(i) {
    T x = ((T)READ_IN(in, from + place_in(inner, i, 1)) - mean - error) * scale;
    if (HAS_WEIGHT) x *= weight[w + place_in(inner, i, 2)];
    if (HAS_BIAS) x += bias[b + place_in(inner, i, 3)];
    WRITE_IN(out, to + place_in(inner, i, 0), x);
  }
  if (get_local_id(0) == 0) {
    center[g] = mean + error;
    variance[g] = spread;
  }
}
)cl";

// Arrays: the input's gradient, the output's, input, weight.
constexpr const char* kInputGradient = R"cl(
__kernel void run(const Geometry outer, const Geometry inner, __global IN* out, __global const IN* grad,
                  __global const IN* in, __global const T* weight, __global const T* center,
                  __global const T* variance, const T eps) {
  __local T parts[GROUP];
  const long g = get_group_id(0), to = place_in(outer, g, 0), from = place_in(outer, g, 1);
  const long at = place_in(outer, g, 2), w = place_in(outer, g, 3);
  const T n = (T)inner.elements, s = 1 / sqrt(variance[g] + eps), mean = center[g];
  T sum = 0, product = 0;
#define H(i) ((T)READ_IN(grad, from + place_in(inner, i, 1)) * \
              (HAS_WEIGHT ? weight[w + place_in(inner, i, 3)] : (T)1))
#define X(i) (((T)READ_IN(in, at + place_in(inner, i, 2)) - mean) * s)
  EACH(i) {
    const T h = H(i);
    sum += h;
    product += h * X(i);
  }
  const T total = joined(parts, sum) / n, along = joined(parts, product) / n;
  EACH(i) WRITE_IN(out, to + place_in(inner, i, 0), s * (H(i) - total - X(i) * along));
}
)cl";

// Arrays: the output's gradient, input, center, variance. A group of items per weight.
constexpr const char* kWeightGradient = R"cl(
__kernel void run(const Geometry outer, const Geometry inner, __global const IN* grad,
                  __global const IN* in, __global const T* center, __global const T* variance,
                  __global T* grad_weight, __global T* grad_bias, const T eps) {
  __local T parts[GROUP];
  const long g = get_group_id(0), from = place_in(outer, g, 0), at = place_in(outer, g, 1);
  const long c = place_in(outer, g, 2), v = place_in(outer, g, 3);
  T sum = 0, product = 0;
  EACH(i) {
    const T h = (T)READ_IN(grad, from + place_in(inner, i, 0));
    const T d = (T)READ_IN(in, at + place_in(inner, i, 1)) - center[c + place_in(inner, i, 2)];
    sum += h;
    product += h * d / sqrt(variance[v + place_in(inner, i, 3)] + eps);
  }
  const T total = joined(parts, sum), along = joined(parts, product);
  if (get_local_id(0) == 0) {
    grad_weight[g] = along;
    grad_bias[g] = total;
  }
}
)cl";

// Arrays: the result, the gradient of the normalised elements, those elements.
constexpr const char* kNormalGradient = R"cl(
__kernel void run(const Geometry outer, const Geometry inner, __global IN* out, __global const IN* grad,
                  __global const IN* normal, __global const T* variance, __global const T* grad_variance,
                  const T eps) {
  __local T parts[GROUP];
  const long g = get_group_id(0), to = place_in(outer, g, 0), from = place_in(outer, g, 1);
  const long at = place_in(outer, g, 2);
  const T n = (T)inner.elements, s = 1 / sqrt(variance[g] + eps);
  T sum = 0, product = 0;
  EACH(i) {
    const T h = (T)READ_IN(grad, from + place_in(inner, i, 1));
    sum += h;
    product += h * (T)READ_IN(normal, at + place_in(inner, i, 2));
  }
  const T total = joined(parts, sum) / n, along = joined(parts, product) / n;
  const T more = HAS_WEIGHT ? 2 * grad_variance[g] / (s * n) : (T)0;
  EACH(i) {
    const T x = (T)READ_IN(normal, at + place_in(inner, i, 2));
    const T h = (T)READ_IN(grad, from + place_in(inner, i, 1));
    WRITE_IN(out, to + place_in(inner, i, 0), s * (h - total - x * along) + more * x);
  }
}
)cl";

ScalarType compute_of(ScalarType dtype) {
  return is_reduced_floating_type(dtype) ? ScalarType::Float32 : dtype;
}

// `dims` of the call as flags; nothing where one is out of range.
std::optional<std::vector<bool>> flags_of(const Call& call, int64_t rank) {
  std::vector<bool> found(static_cast<size_t>(rank), false);
  for (const int64_t d : call.at("dim").get<std::vector<int64_t>>()) {
    if (d < -rank || d >= rank) return std::nullopt;
    found[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  }
  return found;
}

// Loops over the dimensions that are not flagged, and within each over those that are.
struct Groups {
  Geometry outer, inner;

  // Arrays broadcast to `sizes`.
  static std::optional<Groups> of(IntArrayRef sizes, const std::vector<bool>& flags,
                                  const std::vector<Tensor>& arrays) {
    Groups g;
    std::vector<int64_t> lengths[2];
    std::vector<std::vector<int64_t>> steps[2];
    for (auto& s : steps) s.resize(arrays.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      lengths[flags[d]].push_back(sizes[d]);
      for (size_t k = 0; k < arrays.size(); ++k) {
        const int64_t at =
            static_cast<int64_t>(d) - (static_cast<int64_t>(sizes.size()) - arrays[k].dim());
        const bool varies = at >= 0 && arrays[k].size(at) != 1;
        if (varies && arrays[k].size(at) != sizes[d]) return std::nullopt;
        steps[flags[d]][k].push_back(varies ? arrays[k].stride(at) : 0);
      }
    }
    for (size_t k = 0; k < arrays.size(); ++k) g.outer.offsets[k] = arrays[k].storage_offset();
    const bool fits =
        coalesce(g.outer, lengths[0], steps[0]) && coalesce(g.inner, lengths[1], steps[1]);
    return fits ? std::optional(g) : std::nullopt;
  }
};

void launch(const char* name, const char* text, const Groups& g, ScalarType dtype, bool weight,
            bool bias, const std::vector<Tensor>& arrays, double eps) {
  if (g.outer.elements == 0) return;
  Device& device = device_at(arrays[0].device().index);
  const int group = g.outer.elements >= 1024 || g.inner.elements <= 64 ? 1 : 64;
  const std::string options = type_options(dtype, device) + array_options("IN", dtype, device) +
                              " -DGROUP=" + std::to_string(group) +
                              " -DHAS_WEIGHT=" + std::to_string(weight) +
                              " -DHAS_BIAS=" + std::to_string(bias);
  const cl_kernel kernel = device.kernel(name + options, prelude() + kGroups + text, options);
  Launch call(device, kernel);
  call.value(g.outer).value(g.inner);
  for (const Tensor& array : arrays) call.memory(device_memory(array));
  const Constant least(Scalar(eps), compute_of(dtype));
  call.bytes(least.bytes, least.size);
  const auto items = static_cast<size_t>(group);
  call.run({static_cast<size_t>(g.outer.elements) * items}, {items});
}

// Floating tensors of one device, which has kernels for them; tensors may be absent.
bool are_possible(const Call& call, std::initializer_list<const char*> names) {
  const Tensor first =
      call.at(*names.begin()).is_none() ? Tensor() : call.at(*names.begin()).tensor();
  for (const char* name : names) {
    const IValue& v = call.at(name);
    if (v.is_none() && first.defined()) continue;
    if (!is_here(v) || v.tensor().device() != first.device()) return false;
    const ScalarType dtype = v.tensor().dtype();
    if (!is_floating_type(dtype) || type_name(dtype, device_at(first.device().index)).empty())
      return false;
  }
  return !call.target();
}

// A tensor of the call in the compute type; without elements where it is absent.
Tensor computed(const Call& call, const char* name, ScalarType dtype, const Tensor& instead) {
  return call.at(name).is_none() ? instead : in_dtype(call.at(name).tensor(), dtype);
}

// The same numbers for each group, in the order of the loops.
Tensor statistics(const Tensor& t, ScalarType dtype) { return from_start(in_dtype(t, dtype)); }

Tensor like(const Tensor& spec, ScalarType dtype, const Tensor& on) {
  return flambeau::empty_strided_tensor(spec.sizes(), spec.strides(), dtype, on.device());
}

bool normalize(Call& call, bool is_affine) {
  if (!are_possible(call, is_affine ? std::initializer_list<const char*>{"input", "weight", "bias"}
                                    : std::initializer_list<const char*>{"input"}))
    return false;
  const Tensor in = call.at("input").tensor();
  const auto flags = flags_of(call, in.dim());
  if (!flags) return false;
  const Stack specs = results_on_meta(call);
  const ScalarType compute = compute_of(in.dtype());
  const Tensor none = flambeau::empty_tensor(std::vector<int64_t>{1}, compute, in.device());
  const Tensor weight = is_affine ? computed(call, "weight", compute, none) : none;
  const Tensor bias = is_affine ? computed(call, "bias", compute, none) : none;
  const Tensor out = like(specs[0].tensor(), in.dtype(), in);
  const auto groups = Groups::of(in.sizes(), *flags, {out, in, weight, bias});
  if (!groups) return false;
  const Tensor center = flambeau::empty_tensor(specs[1].tensor().sizes(), compute, in.device());
  const Tensor spread = flambeau::empty_tensor(specs[1].tensor().sizes(), compute, in.device());
  launch("normalize ", kForward, *groups, in.dtype(), is_affine && !weight.is_same(none),
         is_affine && !bias.is_same(none), {out, in, weight, bias, center, spread},
         call.at("eps").get<Scalar>().to_double());
  const IValue results[] = {IValue(out), IValue(in_dtype(center, specs[1].tensor().dtype())),
                            IValue(in_dtype(spread, specs[2].tensor().dtype()))};
  call.stack.clear();
  for (const IValue& result : results) call.stack.push(result);
  return true;
}

}  // namespace

bool run_normalize_over(Call& call) { return normalize(call, false); }
bool run_normalize_affine(Call& call) { return normalize(call, true); }

bool run_normalize_over_backward(Call& call) {
  if (!are_possible(call, {"grad_normal", "grad_variance", "normal", "variance"})) return false;
  const Tensor grad = call.at("grad_normal").tensor();
  const Tensor normal = in_dtype(call.at("normal").tensor(), grad.dtype());
  const auto flags = flags_of(call, grad.dim());
  if (!flags) return false;
  const Tensor spec = result_spec(call);
  const ScalarType compute = compute_of(grad.dtype());
  const Tensor out = like(spec, grad.dtype(), grad);
  const auto groups = Groups::of(grad.sizes(), *flags, {out, grad, normal});
  if (!groups || spec.dtype() != grad.dtype()) return false;
  const Tensor variance = statistics(call.at("variance").tensor(), compute);
  const bool has_more = !call.at("grad_variance").is_none();
  const Tensor more = has_more ? statistics(call.at("grad_variance").tensor(), compute) : variance;
  launch("normalize gradient ", kNormalGradient, *groups, grad.dtype(), has_more, false,
         {out, grad, normal, variance, more}, call.at("eps").get<Scalar>().to_double());
  call.stack.clear();
  call.stack.push(IValue(out));
  return true;
}

namespace {

// Sums for weight and bias; false: they do not have one shape that the kernel can group by.
bool add_weight_gradients(const Call& call, const Stack& specs, const Tensor& grad,
                          const Tensor& in, const Tensor& center, const Tensor& variance,
                          std::vector<IValue>& results) {
  const IValue weight = call.at("weight"), bias = call.at("bias");
  if (weight.is_none() && bias.is_none()) return true;
  const Tensor model = (weight.is_none() ? bias : weight).tensor();
  if (!weight.is_none() && !bias.is_none() && bias.tensor().sizes() != model.sizes()) return false;
  std::vector<bool> flags;
  for (int64_t d = 0; d < in.dim(); ++d) {
    const int64_t at = d - (in.dim() - model.dim());
    flags.push_back(at < 0 || model.size(at) != in.size(d));
  }
  const auto groups = Groups::of(in.sizes(), flags, {grad, in, center, variance});
  if (!groups || groups->outer.elements != model.numel()) return false;
  const ScalarType compute = center.dtype();
  const Tensor scale = flambeau::empty_tensor(model.sizes(), compute, in.device());
  const Tensor shift = flambeau::empty_tensor(model.sizes(), compute, in.device());
  launch("weight gradient ", kWeightGradient, *groups, in.dtype(), true, true,
         {grad, in, center, variance, scale, shift}, call.at("eps").get<Scalar>().to_double());
  for (const size_t k : {size_t{1}, size_t{2}}) {
    if (specs[k].is_none() || !specs[k].tensor().defined()) continue;
    results[k] = IValue(in_dtype(k == 1 ? scale : shift, specs[k].tensor().dtype()));
  }
  return true;
}

}  // namespace

bool run_normalize_affine_gradients(Call& call) {
  if (!are_possible(call, {"grad_output", "input", "center", "variance", "weight", "bias"}))
    return false;
  const Tensor in = call.at("input").tensor();
  const Tensor grad = in_dtype(call.at("grad_output").tensor(), in.dtype());
  const auto flags = flags_of(call, in.dim());
  if (!flags || grad.sizes() != in.sizes()) return false;
  const Stack specs = results_on_meta(call);
  const ScalarType compute = compute_of(in.dtype());
  const Tensor center = statistics(call.at("center").tensor(), compute);
  const Tensor variance = statistics(call.at("variance").tensor(), compute);
  const auto wanted = call.at("wanted").get<std::vector<bool>>();
  std::vector<IValue> results(3);
  if ((wanted[1] || wanted[2]) &&
      !add_weight_gradients(call, specs, grad, in, center, variance, results))
    return false;
  if (wanted[0]) {
    const Tensor out = like(specs[0].tensor(), in.dtype(), in);
    const Tensor weight = computed(call, "weight", compute, center);
    const bool has_weight = !call.at("weight").is_none();
    const Tensor& scale = has_weight ? weight : center;
    const auto groups = has_weight ? Groups::of(in.sizes(), *flags, {out, grad, in, scale})
                                   : Groups::of(in.sizes(), *flags, {out, grad, in});
    if (!groups) return false;
    launch("input gradient ", kInputGradient, *groups, in.dtype(), has_weight, false,
           {out, grad, in, scale, center, variance}, call.at("eps").get<Scalar>().to_double());
    results[0] = IValue(out);
  }
  call.stack.clear();
  for (IValue& result : results) call.stack.push(std::move(result));
  return true;
}

bool run_track_statistic(Call& call) {
  if (!are_possible(call, {"running", "value"})) return false;
  const Tensor running = call.at("running").tensor();
  if (running.sizes() != call.at("value").tensor().sizes()) return false;
  const Tensor value = in_dtype(call.at("value").tensor(), running.dtype());
  const Tensor moved =
      flambeau::ops::lerp_Scalar::call(running, value, call.at("momentum").get<Scalar>());
  Tensor written = running;
  flambeau::copy_into(written, moved);
  running.impl()->bump_version();
  call.stack.clear();
  call.stack.push(IValue(moved));
  return true;
}

}  // namespace flambeau_opencl
