// Convolutions of images and their gradients: an item per element of the result, which sums over
// channels and window. Sums are kept in the compute type. Transposed ones and other ranks run on
// the CPU.
#include <torchgen_out/aten/arithmetic_ops.h>
#include <torchgen_out/aten/reduction_ops.h>
#include <torchgen_out/aten/view_ops.h>

#include "call.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;

// As in the kernels: sizes of input, result and window; groups; steps in both directions.
struct Window {
  int64_t images, channels, rows, columns, features, out_rows, out_columns, window_rows,
      window_columns, groups, stride[2], padding[2], dilation[2];
};

constexpr const char* kWindow = R"cl(
typedef struct {
  long images, channels, rows, columns, features, out_rows, out_columns, window_rows,
      window_columns, groups, stride[2], padding[2], dilation[2];
} Window;
// The place of the result that reads `at` through window element `k`; -1: there is none.
inline long reader(long at, long k, long stride, long padding, long dilation, long results) {
  const long from = at + padding - k * dilation;
  return from >= 0 && from % stride == 0 && from / stride < results ? from / stride : -1;
}
)cl";

constexpr const char* kForward = R"cl(
__kernel void run(const Window w, __global IN* out, __global const IN* in, __global const IN* weight) {
  const long i = get_global_id(0);
  if (i >= w.images * w.features * w.out_rows * w.out_columns) return;
  const long x = i % w.out_columns, y = i / w.out_columns % w.out_rows;
  const long f = i / (w.out_columns * w.out_rows) % w.features;
  const long n = i / (w.out_columns * w.out_rows * w.features);
  const long depth = w.channels / w.groups, first = f / (w.features / w.groups) * depth;
  T sum = 0;
  for (long c = 0; c < depth; ++c) {
    for (long r = 0; r < w.window_rows; ++r) {
      const long row = y * w.stride[0] - w.padding[0] + r * w.dilation[0];
      if (row < 0 || row >= w.rows) continue;
      for (long q = 0; q < w.window_columns; ++q) {
        const long column = x * w.stride[1] - w.padding[1] + q * w.dilation[1];
        if (column < 0 || column >= w.columns) continue;
        sum = fma((T)READ_IN(in, ((n * w.channels + first + c) * w.rows + row) * w.columns + column),
                  (T)READ_IN(weight, ((f * depth + c) * w.window_rows + r) * w.window_columns + q), sum);
      }
    }
  }
  WRITE_IN(out, i, sum);
}
)cl";

constexpr const char* kGradInput = R"cl(
__kernel void run(const Window w, __global IN* out, __global const IN* grad, __global const IN* weight) {
  const long i = get_global_id(0);
  if (i >= w.images * w.channels * w.rows * w.columns) return;
  const long column = i % w.columns, row = i / w.columns % w.rows;
  const long channel = i / (w.columns * w.rows) % w.channels;
  const long n = i / (w.columns * w.rows * w.channels);
  const long depth = w.channels / w.groups, members = w.features / w.groups;
  const long first = channel / depth * members, c = channel % depth;
  T sum = 0;
  for (long r = 0; r < w.window_rows; ++r) {
    const long y = reader(row, r, w.stride[0], w.padding[0], w.dilation[0], w.out_rows);
    if (y < 0) continue;
    for (long q = 0; q < w.window_columns; ++q) {
      const long x = reader(column, q, w.stride[1], w.padding[1], w.dilation[1], w.out_columns);
      if (x < 0) continue;
      for (long f = first; f < first + members; ++f) {
        sum = fma((T)READ_IN(grad, ((n * w.features + f) * w.out_rows + y) * w.out_columns + x),
                  (T)READ_IN(weight, ((f * depth + c) * w.window_rows + r) * w.window_columns + q), sum);
      }
    }
  }
  WRITE_IN(out, i, sum);
}
)cl";

constexpr const char* kGradWeight = R"cl(
__kernel void run(const Window w, __global IN* out, __global const IN* grad, __global const IN* in) {
  const long depth = w.channels / w.groups, i = get_global_id(0);
  if (i >= w.features * depth * w.window_rows * w.window_columns) return;
  const long q = i % w.window_columns, r = i / w.window_columns % w.window_rows;
  const long c = i / (w.window_columns * w.window_rows) % depth;
  const long f = i / (w.window_columns * w.window_rows * depth);
  const long channel = f / (w.features / w.groups) * depth + c;
  T sum = 0;
  for (long n = 0; n < w.images; ++n) {
    for (long y = 0; y < w.out_rows; ++y) {
      const long row = y * w.stride[0] - w.padding[0] + r * w.dilation[0];
      if (row < 0 || row >= w.rows) continue;
      for (long x = 0; x < w.out_columns; ++x) {
        const long column = x * w.stride[1] - w.padding[1] + q * w.dilation[1];
        if (column < 0 || column >= w.columns) continue;
        sum = fma((T)READ_IN(grad, ((n * w.features + f) * w.out_rows + y) * w.out_columns + x),
                  (T)READ_IN(in, ((n * w.channels + channel) * w.rows + row) * w.columns + column), sum);
      }
    }
  }
  WRITE_IN(out, i, sum);
}
)cl";

void set_pair(int64_t (&to)[2], const IValue& v) {
  const auto& given = v.get<std::vector<int64_t>>();
  to[0] = given[0];
  to[1] = given.size() > 1 ? given[1] : given[0];
}

// Images of one dtype on one device, and a window that is not transposed.
bool is_possible(const Call& call, const Tensor& like, std::initializer_list<const char*> names) {
  const Device& device = device_at(like.device().index);
  const bool has_type = is_floating_type(like.dtype()) && !type_name(like.dtype(), device).empty();
  if (!has_type || call.target() || call.at("transposed").get<Scalar>().to_bool()) return false;
  for (const char* name : names) {
    const IValue& v = call.at(name);
    if (!is_here(v) || v.tensor().dim() != 4) return false;
    const Tensor& t = v.tensor();
    if (t.device() != like.device() || t.dtype() != like.dtype() || t.numel() == 0) return false;
  }
  return true;
}

Window window_of(const Call& call, const Tensor& in, const Tensor& weight, IntArrayRef result) {
  Window w{in.size(0),
           in.size(1),
           in.size(2),
           in.size(3),
           result[1],
           result[2],
           result[3],
           weight.size(2),
           weight.size(3),
           call.at("groups").get<Scalar>().to_int64(),
           {},
           {},
           {}};
  set_pair(w.stride, call.at("stride"));
  set_pair(w.padding, call.at("padding"));
  set_pair(w.dilation, call.at("dilation"));
  return w;
}

Tensor computed(const char* name, const char* kernel, const Window& w, IntArrayRef sizes,
                const Tensor& left, const Tensor& right) {
  Device& device = device_at(left.device().index);
  const Tensor x = from_start(left), y = from_start(right);
  const Tensor out = flambeau::empty_tensor(sizes, left.dtype(), left.device());
  if (out.numel() == 0) return out;
  const std::string options =
      type_options(left.dtype(), device) + array_options("IN", left.dtype(), device);
  const cl_kernel made = device.kernel(name + options, prelude() + kWindow + kernel, options);
  Launch(device, made)
      .value(w)
      .memory(device_memory(out))
      .memory(device_memory(x))
      .memory(device_memory(y))
      .run({(static_cast<size_t>(out.numel()) + 63) / 64 * 64}, {64});
  return out;
}

}  // namespace

bool run_convolution(Call& call) {
  if (!is_here(call.at("input"))) return false;
  const Tensor in = call.at("input").tensor();
  if (!is_possible(call, in, {"input", "weight"})) return false;
  const IValue bias = call.at("bias");
  if (!bias.is_none() && (!is_here(bias) || bias.tensor().device() != in.device())) return false;
  const Tensor weight = call.at("weight").tensor();
  const Tensor spec = result_spec(call);
  const Window w = window_of(call, in, weight, spec.sizes());
  Tensor out = computed("convolution ", kForward, w, spec.sizes(), in, weight);
  if (!bias.is_none()) {
    const std::vector<int64_t> shape{1, w.features, 1, 1};
    out =
        flambeau::ops::add_Tensor::call(out, flambeau::ops::reshape::call(bias.tensor(), shape), 1);
  }
  call.stack.clear();
  call.stack.push(IValue(out));
  return true;
}

bool run_convolution_backward(Call& call) {
  if (!is_here(call.at("input"))) return false;
  const Tensor in = call.at("input").tensor();
  if (!is_possible(call, in, {"input", "weight", "grad_output"})) return false;
  const Tensor weight = call.at("weight").tensor(), grad = call.at("grad_output").tensor();
  const auto wanted = call.at("wanted").get<std::vector<bool>>();
  results_on_meta(call);
  const Window w = window_of(call, in, weight, grad.sizes());
  std::vector<IValue> results(3);
  if (wanted[0])
    results[0] = IValue(computed("grad input ", kGradInput, w, in.sizes(), grad, weight));
  if (wanted[1])
    results[1] = IValue(computed("grad weight ", kGradWeight, w, weight.sizes(), grad, in));
  if (wanted[2]) {
    const std::vector<int64_t> dims{0, 2, 3};
    results[2] =
        IValue(flambeau::ops::sum_dim_IntList::call(grad, IntArrayRef(dims), false, std::nullopt));
  }
  call.stack.clear();
  for (IValue& result : results) call.stack.push(std::move(result));
  return true;
}

}  // namespace flambeau_opencl
