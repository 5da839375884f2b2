// Matrix products by tiles of 16 x 16 in local memory. Operands may have any strides; sums are kept
// in the compute type, in the order of k.
#include "kernels.h"

namespace flambeau_opencl {
namespace {

constexpr const char* kMultiply = R"cl(
typedef struct { long m, n, k, a[3], b[3], c[3], offsets[3]; } Product;
#define TILE 16
__kernel void run(const Product p, __global const IN* a, __global const IN* b, __global IN* c) {
  __local T left[TILE][TILE], right[TILE][TILE];
  const int i = get_local_id(1), j = get_local_id(0);
  const long row = get_group_id(1) * TILE + i, column = get_group_id(0) * TILE + j;
  const long batch = get_global_id(2);
  a += p.offsets[0] + batch * p.a[0];
  b += p.offsets[1] + batch * p.b[0];
  T sum = 0;
  for (long at = 0; at < p.k; at += TILE) {
    left[i][j] = row < p.m && at + j < p.k ? (T)READ_IN(a, row * p.a[1] + (at + j) * p.a[2]) : (T)0;
    right[i][j] = at + i < p.k && column < p.n ? (T)READ_IN(b, (at + i) * p.b[1] + column * p.b[2]) : (T)0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = 0; s < TILE; ++s) sum = fma(left[i][s], right[s][j], sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (row < p.m && column < p.n)
    WRITE_IN(c, p.offsets[2] + batch * p.c[0] + row * p.c[1] + column * p.c[2], sum);
}
)cl";

struct Product {
  int64_t m, n, k, a[3], b[3], c[3], offsets[3];
};

void set_strides(int64_t (&to)[3], const Tensor& t) {
  const bool is_batched = t.dim() == 3;
  to[0] = is_batched ? t.stride(0) : 0;
  to[1] = t.stride(-2);
  to[2] = t.stride(-1);
}

}  // namespace

bool multiply(const Tensor& a, const Tensor& b, const Tensor& out) {
  Device& device = device_at(out.device().index);
  const bool fits = is_floating_type(out.dtype()) && !type_name(out.dtype(), device).empty();
  if (!fits || a.dtype() != out.dtype() || b.dtype() != out.dtype()) return false;
  if (out.numel() == 0) return true;
  Product p{a.size(-2),
            b.size(-1),
            a.size(-1),
            {},
            {},
            {},
            {a.storage_offset(), b.storage_offset(), out.storage_offset()}};
  set_strides(p.a, a);
  set_strides(p.b, b);
  set_strides(p.c, out);
  const std::string options =
      type_options(out.dtype(), device) + array_options("IN", out.dtype(), device);
  const cl_kernel kernel = device.kernel("multiply " + options, prelude() + kMultiply, options);
  const auto up = [](int64_t n) { return (static_cast<size_t>(n) + 15) / 16 * 16; };
  const auto batches = static_cast<size_t>(out.dim() == 3 ? out.size(0) : 1);
  Launch(device, kernel)
      .value(p)
      .memory(flambeau::api::device_memory(a))
      .memory(flambeau::api::device_memory(b))
      .memory(flambeau::api::device_memory(out))
      .run({up(p.n), up(p.m), batches}, {16, 16, 1});
  return true;
}

}  // namespace flambeau_opencl
