// Sums and maxima of rows of a matrix, for bags of embeddings and their gradients, on CPU.
// Formula:
//   sum_rows: result[target[i]] += scale[i] * self[index[i]]
//   max_rows: values[target[i]] = max(self[index[i]]), places[target[i]]: the index that won.
//   Of equal maxima the first one wins. A target that no row has is 0, with place -1. RuntimeError
//   for an index out of range. Targets in order, as those of bags are, share the work by target;
//   others by columns, so that sums do not depend on the number of threads.
// Accumulates in: the dtype; half types are summed in float32 and rounded once.
// NaN, infinity: sums follow IEEE arithmetic; as a maximum NaN wins only in the first row, as in
// PyTorch.
// Error: (n + 1) eps of the sum of magnitudes of n rows (test/ops/test_embedding.py); maxima are
// exact.
// Source: by definition.
#include <algorithm>
#include <numeric>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/loop_table.h"
#include "aten/core/shape_rules.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/embedding/row_loops.h"
#include "torchgen_out/aten/embedding_kernels.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(embedding::RowLoops, embedding_rows)

namespace ops {
namespace {

const embedding::RowLoops& row_loops(ScalarType type) {
  if (type != ScalarType::Float32 && type != ScalarType::Float64) {
    fail(ErrorKind::NotImplemented, "sums of rows: expected a real floating point dtype, got ",
         type);
  }
  static const LoopTable<embedding::RowLoops> table = FLAMBEAU_LOOP_TABLE(embedding_rows);
  return table[type == ScalarType::Float64];
}

void check_range(const char* what, const int64_t* index, int64_t n, int64_t size) {
  uint64_t outside = 0;  // its sign bit: whether one is
#pragma omp simd reduction(| : outside)
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<uint64_t>(index[i]);
    outside |= at | (static_cast<uint64_t>(size) - 1 - at);
  }
  for (int64_t i = 0; outside >> 63 && i < n; ++i) {
    check(index[i] >= 0 && index[i] < size, "embedding_bag: ", what,
          " out of range: expected 0 to ", size - 1, ", got ", index[i]);
  }
}

bool in_order(const int64_t* index, int64_t n) {
  uint64_t steps = 0;  // its sign bit: whether one goes back
#pragma omp simd reduction(| : steps)
  for (int64_t i = 1; i < n; ++i) steps |= static_cast<uint64_t>(index[i] - index[i - 1]);
  return !(steps >> 63);
}

// Everything that some targets or columns need.
class Rows {
 public:
  Rows(const Tensor& self, const Tensor& index, const Tensor& target, const Tensor& scale,
       const Tensor& sums)
      : rows_(contiguous_tensor(self)),
        index_(contiguous_tensor(cast_tensor(index, ScalarType::Int64))),
        target_(contiguous_tensor(cast_tensor(target, ScalarType::Int64))),
        scale_(scale.defined() ? contiguous_tensor(cast_tensor(scale, sums.dtype())) : scale),
        sums_(sums),
        loops_(row_loops(sums.dtype())),
        cast_(cast_loop(self.dtype(), sums.dtype())),
        bytes_(static_cast<int64_t>(element_size(sums.dtype()))),
        own_bytes_(static_cast<int64_t>(element_size(self.dtype()))),
        width_(self.size(1)),
        count_(index.numel()) {
    check_range("index", from(), count_, self.size(0));
    in_order_ = in_order(to(), count_);
    check_range("bag", to(), in_order_ ? std::min<int64_t>(count_, 1) : count_, sums.size(0));
    if (in_order_ && count_ > 0) check_range("bag", to() + count_ - 1, 1, sums.size(0));
  }
  void add_up() const {
    if (count_ > 0 && width_ > 0 && in_order_ && own_bytes_ == bytes_) return add_up_bags();
    fill_with(sums_, Scalar(0));
    if (count_ == 0 || width_ == 0) return;
    if (in_order_) {
      parallel_for(0, count_, width_,
                   [&](int64_t first, int64_t last) { by_targets(first, last); });
      return;
    }
    constexpr int64_t kColumns = 16;  // a cache line, or two
    parallel_for(0, (width_ + kColumns - 1) / kColumns, count_ * kColumns * 2,
                 [&](int64_t first, int64_t last) {
                   by_columns(first * kColumns, std::min(width_, last * kColumns));
                 });
  }
  // Of targets in order.
  void take_maxima(int64_t* places) const {
    check(in_order_, "_max_rows: expected targets in ascending order, got others");
    if (count_ == 0 || width_ == 0) return;
    parallel_for(0, count_, width_, [&](int64_t first, int64_t last) {
      std::vector<char> at(static_cast<size_t>(width_ * bytes_));
      last = boundary(last);
      for (int64_t i = boundary(first); i < last;) i = max_of_target(i, last, at.data(), places);
    });
  }

 private:
  static constexpr int64_t kBlock = 16;  // rows that are converted together
  const int64_t* from() const { return index_.data_as<int64_t>(); }
  const int64_t* to() const { return target_.data_as<int64_t>(); }
  const char* scale_at(int64_t i) const {
    return scale_.defined() ? static_cast<const char*>(scale_.data()) + i * bytes_ : nullptr;
  }
  // A target belongs to who has its first row.
  int64_t boundary(int64_t i) const {
    while (i > 0 && i < count_ && to()[i] == to()[i - 1]) ++i;
    return i;
  }
  void add_up_bags() const {
    const embedding::Bags bags{count_, width_, sums_.size(0), rows_.data(),
                               from(), to(),   scale_at(0),   sums_.data()};
    parallel_for(0, count_, width_, [&](int64_t first, int64_t last) {
      loops_.bags(bags, boundary(first), boundary(last));
    });
  }
  // How many indices `at` has: those of the bags that follow, too, if no block was converted.
  int64_t known_from(const int64_t* at, int64_t begin, int64_t n) const {
    return at == from() + begin ? count_ - begin : n;
  }
  // Where the rows of row i's target end. Bags are short: steps that double find most ends nearby.
  int64_t end_of(int64_t i, int64_t last) const {
    int64_t step = 1;
    while (i + step < last && to()[i + step] == to()[i]) step *= 2;
    const int64_t* const from = to() + i + step / 2;
    return std::upper_bound(from, to() + std::min(i + step, last), to()[i]) - to();
  }
  void by_targets(int64_t first, int64_t last) const {
    last = boundary(last);
    for (int64_t i = boundary(first); i < last;) {
      const int64_t end = end_of(i, last);
      char* const sum = static_cast<char*>(sums_.data()) + to()[i] * width_ * bytes_;
      each_block(i, end, 0, width_,
                 [&](const void* rows, const int64_t* at, int64_t begin, int64_t n) {
                   loops_.gather(n, known_from(at, begin, n), width_, rows, width_, at,
                                 scale_at(begin), sum);
                 });
      i = end;
    }
  }
  // That of row i, whose first row it is; `at` has room for its rows' numbers. Returns its end.
  int64_t max_of_target(int64_t i, int64_t last, char* at, int64_t* places) const {
    const int64_t end = end_of(i, last);
    char* const max = static_cast<char*>(sums_.data()) + to()[i] * width_ * bytes_;
    each_block(i, end, 0, width_,
               [&](const void* rows, const int64_t* named, int64_t begin, int64_t n) {
                 loops_.maxima(n, known_from(named, begin, n), width_, rows, width_, named,
                               begin - i, max, at);
               });
    int64_t* const place = places + to()[i] * width_;
    for (int64_t j = 0; j < width_; ++j) {
      const int64_t row = bytes_ == 4 ? reinterpret_cast<const int32_t*>(at)[j]
                                      : reinterpret_cast<const int64_t*>(at)[j];
      place[j] = from()[i + row];
    }
    return end;
  }
  void by_columns(int64_t begin, int64_t end) const {
    char* const sums = static_cast<char*>(sums_.data()) + begin * bytes_;
    each_block(
        0, count_, begin, end, [&](const void* rows, const int64_t* at, int64_t i, int64_t n) {
          const int64_t stride = at == from() + i ? width_ : end - begin;
          loops_.scatter(n, end - begin, rows, stride, at, to() + i, scale_at(i), sums, width_);
        });
  }
  // body(rows, indices into them, first, number): columns begin <= j < end of rows first <= i <
  // last, where they are if they need no conversion.
  template <typename Body>
  void each_block(int64_t first, int64_t last, int64_t begin, int64_t end, const Body& body) const {
    const char* const data = static_cast<const char*>(rows_.data()) + begin * own_bytes_;
    if (own_bytes_ == bytes_) return body(data, from() + first, first, last - first);
    const int64_t columns = end - begin;
    std::vector<char> buffer(static_cast<size_t>(kBlock * columns * bytes_));
    int64_t places[kBlock];
    std::iota(places, places + kBlock, 0);
    for (int64_t i = first; i < last; i += kBlock) {
      const int64_t n = std::min(kBlock, last - i);
      for (int64_t k = 0; k < n; ++k) {
        cast_(columns, data + from()[i + k] * width_ * own_bytes_, own_bytes_,
              buffer.data() + k * columns * bytes_, bytes_);
      }
      body(buffer.data(), places, i, n);
    }
  }

  Tensor rows_, index_, target_, scale_, sums_;
  const embedding::RowLoops& loops_;
  CastLoop cast_;
  int64_t bytes_, own_bytes_, width_, count_;
  bool in_order_;
};

}  // namespace

void sum_rows_cpu(const Tensor& self, const Tensor& index, const Tensor& target, int64_t,
                  const Tensor& scale, Tensor& result) {
  const ScalarType type = compute_type(result.dtype());
  const Tensor sums = type == result.dtype() ? result : empty_tensor(result.sizes(), type);
  Rows(self, index, target, scale, sums).add_up();
  if (type != result.dtype()) copy_into(result, sums);
}

void max_rows_cpu(const Tensor& self, const Tensor& index, const Tensor& target, int64_t,
                  Tensor& values, Tensor& places) {
  const ScalarType type = compute_type(values.dtype());
  const Tensor maxima = type == values.dtype() ? values : empty_tensor(values.sizes(), type);
  fill_with(maxima, Scalar(0));
  fill_with(places, Scalar(-1));
  Rows(self, index, target, Tensor(), maxima).take_maxima(places.data_as<int64_t>());
  if (type != values.dtype()) copy_into(values, maxima);
}

void bags_of_cpu(const Tensor& indices, const Tensor& offsets, int64_t bags, int64_t padding,
                 Tensor& bag, Tensor& sizes) {
  const Tensor starts = contiguous_tensor(cast_tensor(offsets, ScalarType::Int64)),
               named = contiguous_tensor(cast_tensor(indices, ScalarType::Int64));
  const int64_t count = named.numel();
  const int64_t* const index = named.data_as<int64_t>();
  std::vector<int64_t> begins(starts.data_as<int64_t>(),
                              starts.data_as<int64_t>() + starts.numel());
  if (!std::is_sorted(begins.begin(), begins.end())) std::sort(begins.begin(), begins.end());
  if (!begins.empty()) {
    check_index(begins.front() >= 0 && begins.back() <= count,
                "embedding_bag: expected offsets from 0 to ", count, ", got ", begins.front(),
                " to ", begins.back());
  }
  begins.resize(static_cast<size_t>(bags), count);
  const int64_t end = starts.numel() > bags ? starts.data_as<int64_t>()[bags] : count;
  check_index(count == 0 || (bags > 0 && end == count),
              "embedding_bag: expected bags that cover the ", count, " indices, got ", bags,
              " bags that end at ", end);
  int64_t* const to = bag.data_as<int64_t>();
  for (int64_t b = 0; b < bags; ++b) {
    const auto at = static_cast<size_t>(b);
    const int64_t first = begins[at], last = b + 1 < bags ? begins[at + 1] : count;
    std::fill(to + first, to + last, b);
    sizes.data_as<int64_t>()[b] =
        last - first - (padding < 0 ? 0 : std::count(index + first, index + last, padding));
  }
}

}  // namespace ops

namespace shape {

void sum_rows(const Tensor& self, const Tensor& index, const Tensor& target, int64_t rows,
              const Tensor& scale, OutSpec* out) {
  check(self.dim() == 2, "_sum_rows: expected a matrix, got shape ", self.sizes());
  check(rows >= 0, "_sum_rows: expected rows >= 0, got ", rows);
  for (const Tensor* t : {&index, &target, &scale}) {
    if (t == &scale && !scale.defined()) continue;
    check(t->dim() == 1 && t->numel() == index.numel(),
          "_sum_rows: expected vectors of one length, got ", index.sizes(), " and ", t->sizes());
  }
  sized(self, {rows, self.size(1)}, out);
}

void max_rows(const Tensor& self, const Tensor& index, const Tensor& target, int64_t rows,
              OutSpec* out) {
  check(self.dim() == 2, "_max_rows: expected a matrix, got shape ", self.sizes());
  check(rows >= 0, "_max_rows: expected rows >= 0, got ", rows);
  check(index.dim() == 1 && target.dim() == 1 && target.numel() == index.numel(),
        "_max_rows: expected vectors of one length, got ", index.sizes(), " and ", target.sizes());
  sized(self, {rows, self.size(1)}, out);
  sized(self, {rows, self.size(1)}, ScalarType::Int64, out + 1);
}

void bags_of(const Tensor& indices, int64_t bags, OutSpec* out) {
  check(bags >= 0, "_bags_of: expected bags >= 0, got ", bags);
  sized(indices, {indices.numel()}, ScalarType::Int64, out);
  sized(indices, {bags}, ScalarType::Int64, out + 1);
}

}  // namespace shape
}  // namespace flambeau
