#pragma once
// Sparse tensors in coordinate format: element (indices[0, i], indices[1, i], ...) is values[i],
// and elements without an entry are 0. Their storage holds no memory but the two parts, so that
// aliases share them and no kernel can read an address. See docs/adr/0005-sparse-coo.md.
#include <vector>

#include "aten/core/tensor.h"

namespace flambeau {

inline bool is_sparse(const Tensor& t) { return t.layout() == Layout::SparseCoo; }

struct SparseParts {
  Tensor indices;     // int64 [sparse dimensions, entries]
  Tensor values;      // [entries, dense sizes...]
  bool is_coalesced;  // claimed: entries in ascending order without duplicates
  // Made by a view of dimensions: a write to it must change the tensor that it was taken from.
  bool is_piece = false;

  int64_t sparse_dim() const { return indices.size(0); }
  int64_t count() const { return indices.size(1); }
};

// RuntimeError unless `t` is sparse; `op` is the operator that the user called. By value: another
// thread may give the tensor other parts meanwhile.
SparseParts sparse_parts(const char* op, const Tensor& t);
// Checks shapes and dtypes of the parts, not the indices themselves. No autograd.
Tensor make_sparse(const char* op, IntArrayRef sizes, SparseParts parts);
// Gives `self` and its aliases other parts of the same dtype. Sizes may only change where there are
// no aliases, which have sizes of their own.
void set_sparse_parts(const char* op, const Tensor& self, IntArrayRef sizes, SparseParts parts);
// NotImplementedError where only an out= argument is sparse.
void require_sparse(const char* op, DispatchKeySet operands);
// Writes a result into `self` or an out= argument of the same layout, as in-place and out= forms
// do. No autograd, no version bump.
void store_result(const char* op, const Tensor& target, const Tensor& result);

// Row-major positions of the entries among the sparse dimensions of a tensor of these sizes.
// IndexError for an index out of range: indices share memory with tensors that users can write to.
std::vector<int64_t> sparse_positions(const char* op, const Tensor& indices, IntArrayRef sizes);

}  // namespace flambeau
