#pragma once
// A sparse tensor as rows: one for each position of the sparse dimensions, of the dense sizes.
#include <vector>

#include "aten/core/sparse.h"

namespace flambeau::sparse {

Tensor int64_tensor(const std::vector<int64_t>& values, IntArrayRef sizes);
// [positions, dense sizes...] of a tensor of these sizes; the positions must have been counted by
// sparse_positions before.
DimVector row_sizes(IntArrayRef sizes, int64_t sparse_dim);
// Adds values to the rows at these positions, into `rows` itself unless they are bools: those join
// by or, in a new tensor.
Tensor add_rows(const Tensor& rows, const Tensor& at, const Tensor& values);
// Parts of the same sizes with no entry.
SparseParts no_entries(const SparseParts& like, ScalarType dtype);
// Another tensor over the same elements, without history.
Tensor alias_of(const Tensor& t);

}  // namespace flambeau::sparse
