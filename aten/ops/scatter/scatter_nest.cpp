#include "aten/ops/scatter/scatter_nest.h"

#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/tensor_text.h"

namespace flambeau::scatter {
namespace {

constexpr int64_t kColumns = 256;

// 0-dim tensors count as vectors of one element.
DimVector at_least_1d(IntArrayRef values) {
  return values.empty() ? DimVector{1} : DimVector(values);
}

bool fits(const DimVector& small, const DimVector& large, int64_t except) {
  for (size_t d = 0; d < small.size(); ++d) {
    if (static_cast<int64_t>(d) != except && small[d] > large[d]) return false;
  }
  return true;
}

}  // namespace

void check_arguments(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  const int64_t along = wrap_dim(dim, self.dim());
  const bool is_index = index.dtype() == ScalarType::Int64 || index.dtype() == ScalarType::Int32;
  check(index.numel() == 0 || is_index,
        WrongIndexDtype{"scatter()", "int64 or int32", index.dtype()});
  if (src.defined()) {
    check(src.dtype() == self.dtype(), "scatter(): expected src of dtype ", self.dtype(), ", got ",
          src.dtype());
  }
  if (index.numel() == 0) return;
  const DimVector sizes = at_least_1d(self.sizes()), places = at_least_1d(index.sizes());
  check(places.size() == sizes.size(), "scatter(): expected an index of ", sizes.size(),
        " dimensions, got ", index);
  if (!src.defined()) {
    check(fits(places, sizes, along),
          "scatter(): expected an index that fits into self in all dimensions but ", along,
          ", got ", index, " and ", self);
    return;
  }
  const DimVector sources = at_least_1d(src.sizes());
  check_index(src.dim() == 0 || sources.size() >= places.size(), "scatter(): expected src of ",
              places.size(), " dimensions, got ", src);
  check(places.size() == sources.size(), "scatter(): expected src of ", places.size(),
        " dimensions, got ", src);
  check(fits(places, sizes, along) && fits(places, sources, -1),
        "scatter(): expected an index that fits into src, and into self in all dimensions but ",
        along, ", got ", index, ", ", src, " and ", self);
}

void check_memory(const Tensor& self, const Tensor& index, const Tensor& src) {
  check(!has_internal_overlap(self), kWrittenTwice);
  const auto meets = [&](const Tensor& t) {
    if (!t.defined()) return false;
    const Overlap overlap = overlap_of(self, t);
    return overlap == Overlap::Full || overlap == Overlap::Partial;
  };
  check(!meets(index) && !meets(src), kReadAndWritten);
}

Nest::Nest(const Tensor& self, int64_t dim, const Tensor& index, IntArrayRef src_strides)
    : dim_(wrap_dim(dim, self.dim())) {
  const DimVector sizes = at_least_1d(index.sizes()), self_sizes = at_least_1d(self.sizes());
  const DimVector none(sizes.size(), 0);
  const DimVector strides[3] = {at_least_1d(self.strides()), at_least_1d(index.strides()),
                                src_strides.empty() ? none : DimVector(src_strides)};
  const auto offsets = [&](size_t d) {
    return Offsets{strides[0][d], strides[1][d], strides[2][d]};
  };
  const size_t along = static_cast<size_t>(dim_), last = sizes.size() - 1;
  const size_t across = along == last ? last - 1 : last;
  size_ = self_sizes[along];
  length_ = sizes[along];
  along_ = offsets(along);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d == along) continue;
    if (d == across) {
      columns_ = sizes[d];
      across_ = offsets(d);
      // Where `dim` is innermost a fiber is one run of memory, and blocks are single fibers.
      width_ = along == last ? 1 : std::min(columns_, kColumns);
      continue;
    }
    outer_ *= sizes[d];
    outer_sizes_.push_back(sizes[d]);
    for (int a = 0; a < 3; ++a) outer_strides_[a].push_back(strides[a][d]);
  }
}

Offsets Nest::start(int64_t outer, int64_t column) const {
  Offsets at{column * across_.self, column * across_.index, column * across_.src};
  for (size_t d = outer_sizes_.size(); d-- > 0;) {
    const int64_t i = outer % outer_sizes_[d];
    outer /= outer_sizes_[d];
    at.self += i * outer_strides_[0][d];
    at.index += i * outer_strides_[1][d];
    at.src += i * outer_strides_[2][d];
  }
  return at;
}

void Nest::fail_bounds(int64_t place) const {
  fail(ErrorKind::Runtime, OutOfBounds{place, dim_, size_});
}

}  // namespace flambeau::scatter
