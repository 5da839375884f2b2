#include "aten/ops/linalg/matrices.h"

#include "aten/core/messages.h"
#include "aten/core/tensor_text.h"

namespace flambeau::linalg {

void check_lapack_dtype(const char* op, const Tensor& t, ErrorKind integers) {
  if (!t.is_floating_point() && !t.is_complex()) {
    fail(integers, op, ": expected a floating or complex tensor, got ", pytorch_name_of(t.dtype()));
  }
  if (element_size(t.dtype()) < 4) {
    fail(ErrorKind::NotImplemented, op,
         ": expected float32, float64, complex64 or complex128 (Low precision dtypes are too "
         "coarse), got ",
         pytorch_name_of(t.dtype()));
  }
}

void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), op, ": expected inputs of one dtype, got ", a.dtype(), " and ",
        b.dtype());
  check(a.device() == b.device(), OtherDevice{op, a.device(), b.device()});
}

void check_matrices(const char* op, const Tensor& t, const char* name) {
  check(t.dim() >= 2, op, ": expected ", name, " of at least 2 dimensions, got ", t);
}

void check_square(const char* op, const Tensor& t, const char* name) {
  check_matrices(op, t, name);
  check(t.size(-1) == t.size(-2), op, ": expected ", name, " as batches of square matrices, got ",
        t.size(-2), " by ", t.size(-1));
}

void check_square_lapack(const char* op, const Tensor& t, const char* name, ErrorKind integers) {
  check_square(op, t, name);
  check_lapack_dtype(op, t, integers);
}

void check_info(const char* op, const Tensor& info, void (*reason)(std::string& text, int info)) {
  const int* values = info.data_as<int>();
  for (int64_t i = 0; i < info.numel(); ++i) {
    if (values[i] == 0) continue;
    std::string text = text_of(op, ": ");
    if (info.dim() > 0) text += text_of("(Batch element ", i, "): ");
    reason(text, values[i]);
    throw_error(ErrorKind::LinearAlgebra, std::move(text));
  }
}

void singular(std::string& text, int info) {
  text += text_of("the matrix is singular: diagonal element ", info, " is zero");
}
void not_positive_definite(std::string& text, int info) {
  text += text_of("the matrix is not positive-definite, from leading minor ", info, " on");
}
void not_converged(std::string& text, int info) {
  text += text_of(
      "failed to converge: the matrix may be ill-conditioned, or too many eigenvalues equal (error "
      "code: ",
      info, ")");
}

OutSpec by_columns(const Tensor& like, IntArrayRef batch, int64_t rows, int64_t columns) {
  OutSpec spec{batch_with(batch, {rows, columns}), {}, like.dtype(), like.device()};
  spec.strides = contiguous_strides(batch_with(batch, {columns, rows}));
  std::swap(spec.strides[batch.size()], spec.strides[batch.size() + 1]);
  return spec;
}

OutSpec by_rows(const Tensor& like, DimVector sizes, ScalarType dtype) {
  return {std::move(sizes), {}, dtype, like.device()};
}

BroadcastMatrices::BroadcastMatrices(const Tensor& t, IntArrayRef batch, int64_t last,
                                     bool may_transpose) {
  const size_t own = t.sizes().size() - static_cast<size_t>(last);
  transposed_ = last == 2 && may_transpose && t.is_contiguous() && t.stride(-1) == 1;
  data_ = last == 1 || transposed_ ? contiguous_tensor(t) : columns_of(t);
  leading_ = linalg::leading(last == 1 ? 1 : transposed_ ? t.size(-1) : t.size(-2));
  step_ = 1;
  for (const int64_t n : t.sizes().slice(own, static_cast<size_t>(last))) step_ *= n;
  if (t.sizes().slice(0, own) == batch) return;
  const int64_t count = numel_of(batch);
  offsets_.assign(static_cast<size_t>(count), 0);
  int64_t stride = step_, inner = 1;
  for (size_t d = 0; d < own; ++d) {  // from the last dimension
    const int64_t size = t.sizes()[own - 1 - d], wide = batch[batch.size() - 1 - d];
    if (size != 1) {
      for (int64_t i = 0; i < count; ++i)
        offsets_[static_cast<size_t>(i)] += (i / inner) % wide * stride;
    }
    stride *= size;
    inner *= wide;
  }
}

Tensor columns_of(const Tensor& t) {
  const OutSpec spec = by_columns(t, batch_of(t), t.size(-2), t.size(-1));
  if (t.strides() == spec.strides.ref()) return t;
  const Tensor copy = allocate(spec);
  copy_into(copy, t);
  return copy;
}

}  // namespace flambeau::linalg
