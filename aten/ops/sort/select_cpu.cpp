// topk, kthvalue and median along `dim` on CPU. A few first elements are kept in a heap, else they
// are selected in linear time.
// Formula: the k first elements in order, the k-th smallest, the lower median, with their places.
// Of equal elements the first are chosen.
// Accumulates in: none: values are moved.
// NaN, infinity: NaN counts as largest; the median of a row with NaN is its first NaN.
// Error: none: exact.
// Source: by definition.
#include <algorithm>
#include <memory>

#include "aten/cpu/parallel.h"
#include "aten/ops/sort/entries.h"
#include "torchgen_out/aten/sort_kernels.h"

namespace flambeau::ops {
namespace {

template <typename F>
void dispatch_numbers(ScalarType dtype, const char* op, const F& f) {
  dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::Float16,
                 ScalarType::BFloat16, ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16,
                 ScalarType::Int32, ScalarType::Int64, ScalarType::UInt16, ScalarType::UInt32,
                 ScalarType::UInt64>(dtype, op, f);
}

// Whether one of n elements comes before an element with key `bound`.
template <bool kLargest, typename T>
bool any_before(const T* in, int64_t n, order_key_t<T> bound) {
  int any = 0;
  for (int64_t j = 0; j < n; ++j)
    any |= kLargest ? order_key(in[j]) > bound : order_key(in[j]) < bound;
  return any != 0;
}

// The k first entries of n elements as a heap, the last of them on top. Once the heap is full, most
// groups of elements are passed over by comparing keys alone.
template <bool kLargest, typename T, typename Entry>
void heap_of_first(int64_t n, const T* in, int64_t k, Entry* heap) {
  constexpr int64_t kGroup = 16;
  for (int64_t i = 0; i < k; ++i) heap[i] = Entry::of(sorting::key_of(in[i], kLargest), i);
  std::make_heap(heap, heap + k);
  auto bound = order_key(in[heap->place()]);
  for (int64_t begin = k; begin < n; begin += kGroup) {
    const int64_t end = std::min(begin + kGroup, n);
    if (end - begin == kGroup && !any_before<kLargest>(in + begin, kGroup, bound)) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (kLargest ? order_key(in[i]) <= bound : order_key(in[i]) >= bound) continue;
      std::pop_heap(heap, heap + k);
      heap[k - 1] = Entry::of(sorting::key_of(in[i], kLargest), i);
      std::push_heap(heap, heap + k);
      bound = order_key(in[heap->place()]);
    }
  }
}

// Above this share of the elements, selecting among all of them beats a heap.
bool heap_pays(int64_t k, int64_t n) { return 8 * k <= n; }

// The k first entries of n elements, in order, at the start of `kept`: room for k if heap_pays,
// else n.
template <typename T, typename Entry>
void keep_first(int64_t n, const T* in, int64_t k, bool largest, Entry* kept) {
  if (heap_pays(k, n)) {
    largest ? heap_of_first<true>(n, in, k, kept) : heap_of_first<false>(n, in, k, kept);
  } else {
    for (int64_t i = 0; i < n; ++i) kept[i] = Entry::of(sorting::key_of(in[i], largest), i);
    std::nth_element(kept, kept + k - 1, kept + n);
  }
  std::sort(kept, kept + k);
}

template <typename T, typename Entry>
void topk_row(int64_t n, const T* in, int64_t k, bool largest, Entry* kept, T* values,
              int64_t* places) {
  if (n <= sorting::kShortRow) {
    int64_t at[sorting::kShortRow];
    sorting::for_each_rank(n, in, largest, [&](int64_t i, int64_t rank) { at[rank] = i; });
    std::copy(at, at + k, places);
  } else {
    keep_first(n, in, k, largest, kept);
    for (int64_t i = 0; i < k; ++i) places[i] = kept[i].place();
  }
  for (int64_t i = 0; i < k; ++i) values[i] = in[places[i]];
}

// The place of the entry that has `rank` before it.
template <typename T, typename Entry>
int64_t place_of_rank(int64_t n, const T* in, int64_t rank, Entry* buffer) {
  if (n <= sorting::kShortRow) {
    int64_t place = 0;
    sorting::for_each_rank(n, in, false,
                           [&](int64_t i, int64_t r) { place = r == rank ? i : place; });
    return place;
  }
  for (int64_t i = 0; i < n; ++i) buffer[i] = Entry::of(sorting::key_of(in[i], false), i);
  std::nth_element(buffer, buffer + rank, buffer + n);
  return buffer[rank].place();
}

template <typename T>
int64_t first_nan(int64_t n, const T* in) {
  if constexpr (!is_whole<T>) {
    for (int64_t i = 0; i < n; ++i) {
      if (in[i] != in[i]) return i;
    }
  }
  return n;
}

// `rank` of each row, or its first NaN if `nan_wins`.
void select_rank(const char* op, const Tensor& self, int64_t dim, int64_t rank, bool nan_wins,
                 Tensor& values, Tensor& indices) {
  if (values.numel() == 0) return;
  const Tensor in = contiguous_tensor(sorting::dim_last(self, dim));
  const int64_t n = in.dim() ? in.size(-1) : 1;
  dispatch_numbers(in.dtype(), op, [&]<typename T>() {
    sorting::with_entry<T>(n, [&]<typename Entry>() {
      parallel_for(0, values.numel(), n * 8, [&](int64_t begin, int64_t end) {
        const std::unique_ptr<Entry[]> buffer(new Entry[static_cast<size_t>(n)]);
        for (int64_t row = begin; row < end; ++row) {
          const T* from = in.data_as<T>() + row * n;
          int64_t place = nan_wins ? first_nan(n, from) : n;
          if (place == n) place = place_of_rank(n, from, rank, buffer.get());
          values.data_as<T>()[row] = from[place];
          indices.data_as<int64_t>()[row] = place;
        }
      });
    });
  });
}

}  // namespace

void topk_cpu(const Tensor& self, int64_t k, int64_t dim, bool largest, bool, Tensor& values_out,
              Tensor& indices_out) {
  if (values_out.numel() == 0) return;
  if (self.dim() == 0) {  // k may be 0, yet the element is returned
    copy_into(values_out, self);
    return fill_with(indices_out, 0);
  }
  const Tensor in = contiguous_tensor(sorting::dim_last(self, dim));
  const sorting::RowsOut values(values_out, dim), places(indices_out, dim);
  const int64_t n = in.size(-1), capacity = heap_pays(k, n) ? k : n;
  dispatch_numbers(in.dtype(), "topk", [&]<typename T>() {
    sorting::with_entry<T>(n, [&]<typename Entry>() {
      parallel_for(0, in.numel() / n, n * 4, [&](int64_t begin, int64_t end) {
        const std::unique_ptr<Entry[]> kept(new Entry[static_cast<size_t>(capacity)]);
        for (int64_t row = begin; row < end; ++row) {
          topk_row(n, in.data_as<T>() + row * n, k, largest, kept.get(), values.data<T>() + row * k,
                   places.data<int64_t>() + row * k);
        }
      });
    });
  });
  values.commit();
  places.commit();
}

void kthvalue_cpu(const Tensor& self, int64_t k, int64_t dim, bool, Tensor& values_out,
                  Tensor& indices_out) {
  select_rank("kthvalue_cpu", self, dim, k - 1, false, values_out, indices_out);
}

void median_dim_cpu(const Tensor& self, int64_t dim, bool, Tensor& values_out,
                    Tensor& indices_out) {
  const int64_t n = self.dim() ? self.size(dim) : 1;
  select_rank("median_out", self, dim, (n - 1) / 2, true, values_out, indices_out);
}

}  // namespace flambeau::ops
