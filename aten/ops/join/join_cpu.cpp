// cat and stack on CPU. The result is a matrix of `rows` (the dimensions before `dim`); each part
// fills a run of bytes in every row, or, when it is strided or its runs are too short to repay a
// memcpy, one strided copy.
// Formula: out[.., offset(part) + i, ..] = part[.., i, ..] along `dim`.
// Accumulates in: none: values are moved.
// NaN, infinity: both are moved as any value.
// Error: none: exact in every dtype.
// Source: by definition.
#include <cstring>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/memory_order.h"
#include "aten/core/shape.h"
#include "aten/cpu/parallel.h"
#include "torchgen_out/aten/join_kernels.h"

namespace flambeau::ops {
namespace {

// Whether one memcpy per row serves: a single row that is worth several threads goes through
// copy_into, and so do short runs, for which a loop over strided elements is faster.
bool repays_runs(int64_t rows, int64_t bytes) {
  return rows > 1 ? bytes > 16 : bytes < kSerialCost * 4;
}

// A part that lies gapless: `bytes` of it belong in each row, `start` bytes into the row.
struct Run {
  const char* data;
  int64_t bytes;
  int64_t start;
};

void copy_runs(const std::vector<Run>& runs, int64_t rows, int64_t row_bytes, char* out) {
  parallel_for(0, rows, row_bytes / 4 + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      char* const to = out + row * row_bytes;
      for (const Run& run : runs) {
        std::memcpy(to + run.start, run.data + row * run.bytes, static_cast<size_t>(run.bytes));
      }
    }
  });
}

// The columns of the result's rows that begin with `first`.
Tensor columns_of(const Tensor& result, int64_t first, IntArrayRef sizes, IntArrayRef strides,
                  int64_t stride_along) {
  return plain_view(result, {sizes, strides, result.storage_offset() + first * stride_along});
}

// `along`: the dimension of `result`; `stacks`: parts lack it.
void join(TensorList parts, size_t along, bool stacks, Tensor& result) {
  if (result.numel() == 0) return;
  const bool by_runs = result.is_contiguous();
  const auto item = static_cast<int64_t>(element_size(result.dtype()));
  const int64_t step = result.strides()[along];
  int64_t rows = 1;
  for (size_t d = 0; d < along; ++d) rows *= result.sizes()[d];
  DimVector strides(result.strides());
  if (stacks) strides.erase(along);
  std::vector<Run> runs;
  int64_t first = 0;
  for (const Tensor& part : parts) {
    const int64_t width = stacks ? 1 : part.sizes()[along];
    const int64_t bytes = by_runs ? part.numel() / rows * item : 0;
    if (part.numel() == 0) continue;
    const bool as_it_is = part.is_contiguous() && part.dtype() == result.dtype();
    if (by_runs && as_it_is && repays_runs(rows, bytes)) {
      runs.push_back({static_cast<const char*>(part.data()), bytes, first * step * item});
    } else {
      copy_into(columns_of(result, first, part.sizes(), strides, step), part);
    }
    first += width;
  }
  if (runs.empty()) return;
  copy_runs(runs, rows, result.numel() / rows * item, static_cast<char*>(result.data()));
}

}  // namespace

void cat_cpu(TensorList tensors, IntArrayRef, int64_t dim, Tensor& result) {
  dim = wrap_dim(dim, result.dim());
  if (!is_channels_last_ordered(result)) {
    return join(tensors, static_cast<size_t>(dim), false, result);
  }
  std::vector<Tensor> parts;  // seen in the order of memory, in which their runs are long
  for (const Tensor& t : tensors) parts.push_back(channels_to_back(t));
  Tensor whole = channels_to_back(result);
  join(parts, static_cast<size_t>(dim_with_channels_at_back(dim, result.dim())), false, whole);
}

void stack_cpu(TensorList tensors, int64_t dim, Tensor& result) {
  join(tensors, static_cast<size_t>(wrap_dim(dim, result.dim())), true, result);
}

}  // namespace flambeau::ops
