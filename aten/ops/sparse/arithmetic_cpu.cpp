// Arithmetic and copies of sparse tensors on CPU: sums of the entries, values scaled, cast and
// copied.
// Formula: add: the entries of self and of alpha * other, one after the other, added up where both
// are coalesced; mul: values at the entries of self times those of other at the same places; div,
// neg and conj: value by value.
// Accumulates in: the dtype, that of the operators on the values.
// NaN, infinity: values follow IEEE arithmetic; elements without an entry stay 0.
// Error: that of the operators on the values: 1 rounding each.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/core/tensor_text.h"
#include "aten/ops/sparse/rows.h"
#include "torchgen_out/aten/arithmetic_ops.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/index_ops.h"
#include "torchgen_out/aten/join_ops.h"
#include "torchgen_out/aten/reduction_ops.h"
#include "torchgen_out/aten/sparse_kernels.h"
#include "torchgen_out/aten/sparse_ops.h"
#include "torchgen_out/aten/unary_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::ops {
namespace {

Tensor with_values(const char* op, const Tensor& self, const Tensor& values) {
  const SparseParts parts = sparse_parts(op, self);
  return make_sparse(op, self.sizes(), {parts.indices, values, parts.is_coalesced});
}

void check_same_sizes(const char* op, const Tensor& self, const Tensor& other) {
  check(self.sizes() == other.sizes(), op, ": expected sizes that match, which do not broadcast ",
        "where one is sparse, got ", self, " and ", other);
}

Tensor scaled(const Tensor& values, const Scalar& alpha) {
  return alpha.equals(int64_t{1}) ? values : mul_Scalar::call(values, alpha);
}

void check_alpha(const char* op, const Scalar& alpha, ScalarType dtype) {
  check(alpha.is_integral(true) || !is_integral_type(dtype, true), op,
        ": expected an integer alpha for integer inputs, got ", alpha);
  check(!alpha.is_complex() || is_complex_type(dtype), op,
        ": expected a real alpha for real inputs, got ", alpha);
}

Tensor add_entries(const char* op, const Tensor& self, const Tensor& other, const Scalar& alpha) {
  check_same_sizes(op, self, other);
  const SparseParts a = sparse_parts(op, self);
  const SparseParts b = sparse_parts(op, other);
  check(a.sparse_dim() == b.sparse_dim(), op, ": expected equal numbers of sparse dimensions, got ",
        a.sparse_dim(), " and ", b.sparse_dim());
  const ScalarType dtype = promote_types(self.dtype(), other.dtype());
  check_alpha(op, alpha, dtype);
  const Tensor indices[] = {a.indices, b.indices};
  const Tensor values[] = {to_dtype::call(a.values, dtype),
                           to_dtype::call(scaled(to_dtype::call(b.values, dtype), alpha), dtype)};
  const Tensor sum =
      make_sparse(op, self.sizes(), {cat::call(indices, 1), cat::call(values, 0), false});
  return a.is_coalesced && b.is_coalesced ? _coalesce::call(sum) : sum;
}

// dense += alpha * entries, where `dense` is row-major.
void add_into_dense(const char* op, const Tensor& dense, const Tensor& entries,
                    const Scalar& alpha) {
  check_same_sizes(op, dense, entries);
  check_alpha(op, alpha, promote_types(dense.dtype(), entries.dtype()));
  const SparseParts parts = sparse_parts(op, entries);
  const std::vector<int64_t> positions = sparse_positions(op, parts.indices, entries.sizes());
  const DimVector sizes = sparse::row_sizes(entries.sizes(), parts.sparse_dim());
  const Tensor rows = reshape::call(sparse::alias_of(dense), sizes);
  const Tensor values = scaled(to_dtype::call(parts.values, dense.dtype()), alpha);
  const Tensor sums = sparse::add_rows(rows, sparse::int64_tensor(positions, {parts.count()}),
                                       to_dtype::call(values, dense.dtype()));
  if (sums.storage() != dense.storage()) copy_into(dense, reshape::call(sums, dense.sizes()));
}

Tensor add_mixed(const char* op, const Tensor& dense, const Tensor& entries, const Scalar& alpha) {
  const ScalarType dtype = promote_types(dense.dtype(), entries.dtype());
  const Tensor sum = empty_tensor(dense.sizes(), dtype);
  copy_into(sum, dense);
  add_into_dense(op, sum, entries, alpha);
  return sum;
}

void check_writable(const char* op, const Tensor& self) {
  check(!sparse_parts(op, self).is_piece, op,
        ": expected a tensor that is not a view of a sparse tensor, got a view: its entries are ",
        "copies, so a write would not change the base; clone() it first");
}

bool is_number(const Tensor& t) { return !is_sparse(t) && t.dim() == 0; }

// The elements of a strided operand at the entries, in the shape that broadcasts to their values.
// Sparse dimensions along which the operand is repeated are left out, so that nothing is expanded.
Tensor factors_of(const Tensor& other, const Tensor& indices, int64_t ndim) {
  const int64_t lead = indices.size(0), missing = ndim - other.dim();
  if (missing >= lead) return other;
  std::vector<Tensor> rows;
  for (int64_t d = missing; d < lead; ++d) {
    const Tensor row = select_int::call(indices, 0, d);
    const bool repeats = other.size(d - missing) == 1;
    rows.push_back(repeats ? zeros_tensor(row.sizes(), ScalarType::Int64) : row);
  }
  return _sparse_gather::call(other, _stack::call(rows, 0));
}

void check_broadcasts(const char* op, const Tensor& self, const Tensor& other) {
  bool fits = other.dim() <= self.dim();
  for (int64_t d = 1; fits && d <= other.dim(); ++d)
    fits = other.size(-d) == 1 || other.size(-d) == self.size(-d);
  check(fits, op,
        ": expected a strided tensor that broadcasts to the sizes of the sparse one, got ", self,
        " and ", other);
}

Tensor mul_entries(const Tensor& self, const Tensor& other) {
  check_same_sizes("mul", self, other);
  const Tensor sorted = _coalesce::call(self);
  const SparseParts parts = sparse_parts("mul", sorted);
  const Tensor factors = _sparse_gather::call(other, parts.indices);
  return with_values("mul", sorted, mul_Tensor::call(parts.values, factors));
}

}  // namespace

Tensor add_sparse_cpu(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  if (is_sparse(self) && is_sparse(other)) return add_entries("add", self, other, alpha);
  if (is_sparse(other)) return add_mixed("add", self, other, alpha);
  check(!is_number(other), "add: expected another tensor of the sizes of a sparse one, got ",
        other);
  check_alpha("add", alpha, promote_types(self.dtype(), other.dtype()));
  return add_mixed("add", scaled(other, alpha), self, Scalar(int64_t{1}));
}

void add_inplace_sparse_cpu(Tensor& self, const Tensor& other, const Scalar& alpha) {
  if (is_sparse(self)) return store_result("add_", self, add_sparse_cpu(self, other, alpha));
  check(can_cast(other.dtype(), self.dtype()), "add_: result type ", other.dtype(),
        " can't be cast to the type of self, ", self.dtype());
  if (self.is_contiguous() && !self.is_conj() && !self.is_neg())
    return add_into_dense("add_", self, other, alpha);
  copy_into(self, add_mixed("add_", self, other, alpha));
}

Tensor sub_sparse_cpu(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return add_sparse_cpu(self, neg::call(other), alpha);
}

void sub_inplace_sparse_cpu(Tensor& self, const Tensor& other, const Scalar& alpha) {
  add_inplace_sparse_cpu(self, neg::call(other), alpha);
}

Tensor mul_sparse_cpu(const Tensor& self, const Tensor& other) {
  if (!is_sparse(self) || (is_sparse(other) && other.dim() == 0 && self.dim() > 0))
    return mul_sparse_cpu(other, self);
  if (is_sparse(other)) return mul_entries(self, other);
  const SparseParts parts = sparse_parts("mul", self);
  if (is_number(other)) return with_values("mul", self, mul_Tensor::call(parts.values, other));
  check_broadcasts("mul", self, other);
  sparse_positions("mul", parts.indices, self.sizes());
  const Tensor factors = factors_of(other, parts.indices, self.dim());
  return with_values("mul", self, mul_Tensor::call(parts.values, factors));
}

void mul_inplace_sparse_cpu(Tensor& self, const Tensor& other) {
  const Tensor product = mul_sparse_cpu(self, other);
  if (is_sparse(self)) return store_result("mul_", self, product);
  check_same_sizes("mul_", self, product);
  copy_into(self, _to_dense::call(product));
}

Tensor div_sparse_cpu(const Tensor& self, const Tensor& other) {
  check(is_sparse(self) && is_number(other), "div: expected a sparse tensor divided by a number, ",
        "got ", self, " and ", other);
  return with_values("div", self, div_Tensor::call(sparse_parts("div", self).values, other));
}

Tensor neg_sparse_cpu(const Tensor& self) {
  return with_values("neg", self, neg::call(sparse_parts("neg", self).values));
}

Tensor conj_sparse_cpu(const Tensor& self) {
  const Tensor values = sparse_parts("conj", self).values;
  return with_values("conj", self, resolve_conj::call(conj::call(values)));
}

// --- copies -------------------------------------------------------------------------------------

Tensor clone_sparse_cpu(const Tensor& self, std::optional<MemoryFormat>) {
  const SparseParts parts = sparse_parts("clone", self);
  return make_sparse("clone", self.sizes(),
                     {clone::call(parts.indices), clone::call(parts.values), parts.is_coalesced});
}

Tensor alias_sparse_cpu(const Tensor& self) {
  sparse_parts("detach", self);
  Tensor alias = sparse::alias_of(self);
  alias.impl()->add_keys(kSparseKey);
  return alias;
}

Tensor to_copy_sparse_cpu(const Tensor& self, std::optional<ScalarType> dtype,
                          std::optional<Layout>, std::optional<Device> device, std::optional<bool>,
                          bool, std::optional<MemoryFormat>) {
  check(!device || device->is_cpu(), "to: expected device cpu for a sparse tensor, got ",
        device.value_or(Device()));
  const SparseParts parts = sparse_parts("to", self);
  const Tensor values = to_dtype::call(parts.values, dtype.value_or(self.dtype()), false, true);
  return make_sparse("to", self.sizes(), {clone::call(parts.indices), values, parts.is_coalesced});
}

void copy_sparse_cpu(Tensor& self, const Tensor& src, bool) {
  check(is_sparse(self) && is_sparse(src), "copy_: expected both tensors to be sparse, got ",
        "layouts that differ; to_dense() and to_sparse() convert");
  check_writable("copy_", self);
  store_result("copy_", self, clone_sparse_cpu(src, {}));
}

void zero_sparse_cpu(Tensor& self) {
  check_writable("zero_", self);
  const SparseParts parts = sparse_parts("zero_", self);
  set_sparse_parts("zero_", self, self.sizes(), sparse::no_entries(parts, self.dtype()));
}

Tensor zeros_sparse_cpu(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<Layout>,
                        std::optional<Device> device, std::optional<bool>) {
  check(!device || device->is_cpu(), "zeros: expected device cpu for a sparse tensor, got ",
        device.value_or(Device()));
  check(std::all_of(size.begin(), size.end(), [](int64_t n) { return n >= 0; }),
        "zeros: expected non-negative sizes, got ", size);
  const Tensor indices = empty_tensor({static_cast<int64_t>(size.size()), 0}, ScalarType::Int64);
  const Tensor values = empty_tensor({0}, dtype.value_or(default_dtype()));
  return make_sparse("zeros", size, {indices, values, true});
}

Tensor empty_sparse_cpu(IntArrayRef size, std::optional<ScalarType> dtype,
                        std::optional<Layout> layout, std::optional<Device> device,
                        std::optional<bool> pin_memory, std::optional<MemoryFormat>) {
  return zeros_sparse_cpu(size, dtype, layout, device, pin_memory);
}

Tensor zeros_like_sparse_cpu(const Tensor& self, std::optional<ScalarType> dtype,
                             std::optional<Layout> layout, std::optional<Device> device,
                             std::optional<bool>, std::optional<MemoryFormat>) {
  const ScalarType type = dtype.value_or(self.dtype());
  const Device where = device.value_or(self.device());
  if (layout == Layout::Strided) return zeros_tensor(self.sizes(), type, where);
  check(where.is_cpu(), "zeros_like: expected device cpu for a sparse tensor, got ", where);
  if (!is_sparse(self)) return zeros_sparse_cpu(self.sizes(), type, layout, where, {});
  const SparseParts parts = sparse_parts("zeros_like", self);
  return make_sparse("zeros_like", self.sizes(), sparse::no_entries(parts, type));
}

}  // namespace flambeau::ops
