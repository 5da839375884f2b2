// max, min, argmax and argmin along `dim` on CPU.
// Formula: the place of the first extremum. Values are read at that place.
// Accumulates in: none: values are moved.
// NaN, infinity: NaN is above all for both.
// Error: none: exact in every dtype.
// Source: by definition.
#include <algorithm>
#include <cstring>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/cpu/fibers.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/reduce_index/extremum_loops.h"
#include "torchgen_out/aten/reduce_index_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(extremum::Loops, extremum)

namespace ops {
namespace {

using extremum::kMaxColumns;

const extremum::Loops& loops_of(ScalarType dtype) {
  static const LoopTable<extremum::Loops> table = FLAMBEAU_LOOP_TABLE(extremum);
  return table[index_of(dtype)];
}

// One long fiber: parts are searched at once, then the winners among themselves, in order.
int64_t place_in_row(const Tensor& in, bool largest) {
  const int64_t n = in.numel(), item = static_cast<int64_t>(element_size(in.dtype()));
  const auto row = loops_of(in.dtype()).row[largest];
  const char* data = static_cast<const char*>(in.data());
  const int64_t parts = std::clamp<int64_t>(parts_worthwhile(n), 1, n),
                length = (n + parts - 1) / parts;
  if (parts == 1) return row(n, data);
  std::vector<int64_t> at(static_cast<size_t>((n + length - 1) / length));
  parallel_for(0, static_cast<int64_t>(at.size()), length, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * length;
      at[static_cast<size_t>(p)] = first + row(std::min(length, n - first), data + first * item);
    }
  });
  std::vector<char> winners(at.size() * static_cast<size_t>(item));
  for (size_t p = 0; p < at.size(); ++p) {
    std::memcpy(winners.data() + static_cast<int64_t>(p) * item, data + at[p] * item,
                static_cast<size_t>(item));
  }
  return at[static_cast<size_t>(row(static_cast<int64_t>(at.size()), winners.data()))];
}

// The places of all fibers of a row-major tensor, in row-major order.
void find_places(const Tensor& in, const FiberGrid& grid, bool largest, int64_t* at) {
  const extremum::Loops& loops = loops_of(in.dtype());
  const int64_t item = static_cast<int64_t>(element_size(in.dtype())), n = grid.size;
  const char* data = static_cast<const char*>(in.data());
  if (grid.fibers() == 1) {
    *at = place_in_row(in, largest);
  } else if (grid.inner == 1) {
    parallel_for(0, grid.outer, n, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) at[o] = loops.row[largest](n, data + o * n * item);
    });
  } else {
    const int64_t width = std::min(grid.inner, kMaxColumns),
                  blocks = (grid.inner + width - 1) / width;
    parallel_for(0, grid.outer * blocks, n * width, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t o = b / blocks, j = b % blocks * width;
        loops.columns[largest](n, grid.inner, std::min(width, grid.inner - j),
                               data + (o * n * grid.inner + j) * item, at + o * grid.inner + j);
      }
    });
  }
}

void extremum_with_place(const Tensor& self, int64_t dim, bool largest, Tensor& values,
                         Tensor& indices) {
  if (values.numel() == 0) return;
  const Tensor in = contiguous_tensor(self);
  const FiberGrid grid(in.sizes(), dim);
  int64_t* at = indices.data_as<int64_t>();
  find_places(in, grid, largest, at);
  dispatch_by_size(element_size(in.dtype()), "max", [&]<typename T>() {
    const T* from = in.data_as<T>();
    T* to = values.data_as<T>();
    for (int64_t o = 0; o < grid.outer; ++o) {
      const int64_t first = o * grid.inner;
      for (int64_t j = 0; j < grid.inner; ++j) {
        to[first + j] = from[(o * grid.size + at[first + j]) * grid.inner + j];
      }
    }
  });
}

void place_of_extremum(const Tensor& self, std::optional<int64_t> dim, bool largest, Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor in = contiguous_tensor(self);
  const FiberGrid grid = dim ? FiberGrid(in.sizes(), *dim) : FiberGrid(IntArrayRef(in.numel()), 0);
  find_places(in, grid, largest, out.data_as<int64_t>());
}

}  // namespace

void max_dim_cpu(const Tensor& self, int64_t dim, bool, Tensor& values_out, Tensor& indices_out) {
  extremum_with_place(self, dim, true, values_out, indices_out);
}

void min_dim_cpu(const Tensor& self, int64_t dim, bool, Tensor& values_out, Tensor& indices_out) {
  extremum_with_place(self, dim, false, values_out, indices_out);
}

void argmax_cpu(const Tensor& self, std::optional<int64_t> dim, bool, Tensor& out) {
  place_of_extremum(self, dim, true, out);
}

void argmin_cpu(const Tensor& self, std::optional<int64_t> dim, bool, Tensor& out) {
  place_of_extremum(self, dim, false, out);
}

}  // namespace ops

namespace shape {
namespace {

void check_dim(const char* op, const Tensor& self, int64_t dim) {
  const int64_t along = wrap_dim(dim, self.dim());
  check_index(self.dim() == 0 || self.size(along) > 0, EmptyReduction{op, along});
}

void with_place(const char* op, const Tensor& self, int64_t dim, bool keepdim, OutSpec* out) {
  check_dim(op, self, dim);
  check(!self.is_complex(), op, "(): expected real numbers, got ", self.dtype());
  reduced(self, dim, keepdim, out);
  out[1] = out[0];
  out[1].dtype = ScalarType::Int64;
}

void place(const char* op, const Tensor& self, std::optional<int64_t> dim, bool keepdim,
           OutSpec* out) {
  if (dim) wrap_dim(*dim, self.dim());
  check(!self.is_complex() && self.dtype() != ScalarType::Bool, op,
        "(): expected real numbers, got ", self.dtype());
  if (dim) {
    check_dim(op, self, *dim);
  } else {
    check_index(self.numel() > 0, op,
                "(): Expected reduction dim for an input without elements, got None as 'dim'");
  }
  dim ? reduced(self, *dim, keepdim, out) : reduced(self, std::nullopt, keepdim, out);
  out->dtype = ScalarType::Int64;
}

}  // namespace

void max_dim(const Tensor& self, int64_t dim, bool keepdim, OutSpec* out) {
  with_place("max", self, dim, keepdim, out);
}

void min_dim(const Tensor& self, int64_t dim, bool keepdim, OutSpec* out) {
  with_place("min", self, dim, keepdim, out);
}

void argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, OutSpec* out) {
  place("argmax", self, dim, keepdim, out);
}

void argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim, OutSpec* out) {
  place("argmin", self, dim, keepdim, out);
}

}  // namespace shape
}  // namespace flambeau
