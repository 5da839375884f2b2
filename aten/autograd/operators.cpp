#include "aten/autograd/operators.h"

#include "aten/autograd/stand_in.h"
#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "torchgen_out/aten/arithmetic_ops.h"
#include "torchgen_out/aten/comparison_ops.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/factory_ops.h"
#include "torchgen_out/aten/reduction_ops.h"
#include "torchgen_out/aten/unary_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::autograd::operators {

Tensor add(const Tensor& a, const Tensor& b) { return ops::add_Tensor::call(a, b); }
void add_inplace(Tensor& a, const Tensor& b) { ops::add__Tensor::call(a, b); }
Tensor sum_dims(const Tensor& t, IntArrayRef dims, bool keepdim) {
  return ops::sum_dim_IntList::call(t, dims, keepdim, std::nullopt);
}
Tensor clone(const Tensor& t) { return ops::clone::call(t); }
Tensor clone_contiguous(const Tensor& t) { return ops::clone::call(t, MemoryFormat::Contiguous); }
Tensor ones_like(const Tensor& t) { return ops::ones_like::call(t); }
Tensor detached_in_python(const Tensor& t) {
  const ExcludeKeys below(DispatchKey::Autograd);
  Tensor alias = ops::detach::call(t);
  check(alias.impl() != t.impl(),
        "detach: expected __torch_dispatch__ to return another tensor, got its argument");
  // Its version is that of the memory of the elements.
  if (answers_in_python(alias) && !alias.storage()->data() && !t.storage()->data())
    alias.impl()->set_storage(t.storage());
  return alias;
}
Tensor as_strided(const Tensor& t, IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset) {
  return ops::as_strided::call(t, sizes, strides, storage_offset);
}
Tensor conj_view(const Tensor& t) { return ops::_conj::call(t); }
Tensor neg_view(const Tensor& t) { return ops::_neg_view::call(t); }
Tensor view_as_real(const Tensor& t) { return ops::view_as_real::call(t); }
Tensor view_as_complex(const Tensor& t) { return ops::view_as_complex::call(t); }
void copy_inplace(Tensor& self, const Tensor& source) { ops::copy_::call(self, source); }
Tensor to_dtype(const Tensor& t, ScalarType dtype) { return ops::to_dtype::call(t, dtype); }
Tensor zeros_strided(const Tensor& like, IntArrayRef sizes, IntArrayRef strides) {
  const DispatchKeySet included(thread_state.included);
  if (stands_for_another(like) || included.has(DispatchKey::FuncTorch)) {
    if (strides == contiguous_strides(sizes)) return ops::new_zeros::call(like, sizes);
    const Tensor memory = ops::new_zeros::call(like, {extent_of(sizes, strides)});
    return ops::as_strided::call(memory, sizes, strides, 0);
  }
  Tensor zeros = empty_strided_tensor(sizes, strides, like.dtype(), like.device());
  if (!zeros.is_meta()) fill_with(zeros, 0);
  return zeros;
}
bool has_nan(const Tensor& t) {
  if (is_sparse(t)) return has_nan(sparse_parts("isnan", t).values);
  // The entries of a batch may differ.
  const bool is_batch = t.impl()->wrapper() && !t.storage()->data();
  if (t.is_meta() || is_batch) return false;
  const Tensor found = ops::any::call(ops::isnan::call(t));
  return (answers_in_python(found) ? ops::_local_scalar_dense::call(found) : item_of(found))
      .to_bool();
}

}  // namespace flambeau::autograd::operators
