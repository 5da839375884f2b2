// Cumulative maximum and minimum along `dim` on CPU with the place of their last occurrence.
// Formula: values[i] = max(x[0..i]), or min; indices[i]: the last place of it. Values are read at
// the place.
// Accumulates in: none: values are moved.
// NaN, infinity: NaN wins and stays; later NaN move the place.
// Error: none: exact in every dtype.
// Source: by definition.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/cpu/fibers.h"
#include "aten/cpu/order_key.h"
#include "aten/cpu/parallel.h"
#include "torchgen_out/aten/scan_kernels.h"

namespace flambeau::ops {
namespace {

constexpr int64_t kColumns = 256;

template <bool kLargest, typename T>
order_key_t<T> rank(T value) {
  if constexpr (kLargest) {
    return order_key(value);
  } else {
    return reverse_key(value);
  }
}

// `count` neighbouring fibers from element `first` on.
template <bool kLargest, typename T>
void scan_block(const FiberGrid& grid, int64_t first, int64_t count, const T* in, T* values,
                int64_t* places) {
  order_key_t<T> best[kColumns];
  int64_t place[kColumns];
  for (int64_t i = 0; i < grid.size; ++i) {
    const int64_t at = first + i * grid.inner;
    for (int64_t j = 0; j < count; ++j) {
      const auto key = rank<kLargest>(in[at + j]);
      const bool wins = i == 0 || key >= best[j];
      best[j] = wins ? key : best[j];
      place[j] = wins ? i : place[j];
      places[at + j] = place[j];
      values[at + j] = in[first + place[j] * grid.inner + j];
    }
  }
}

// In long fibers new extrema are rare and a branch is predicted; in short ones it is not, and
// arithmetic is faster though each step waits for the one before.
constexpr int64_t kShortFiber = 64;

template <bool kLargest, typename T>
void scan_fiber(int64_t n, const T* in, T* values, int64_t* places) {
  auto best = rank<kLargest>(in[0]);
  int64_t place = 0;
  const auto write = [&](int64_t i) {
    places[i] = place;
    values[i] = in[place];
  };
  if (n <= kShortFiber) {
    for (int64_t i = 0; i < n; ++i) {
      const auto key = rank<kLargest>(in[i]);
      const int64_t wins = -static_cast<int64_t>(key >= best);
      best = std::max(best, key);
      place = (i & wins) | (place & ~wins);
      write(i);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto key = rank<kLargest>(in[i]);
    if (key >= best) {
      best = key;
      place = i;
    }
    write(i);
  }
}

template <bool kLargest>
void run(const char* op, const Tensor& self, int64_t dim, Tensor& values_out, Tensor& indices_out) {
  dispatch_ordered(self.dtype(), op, [&]<typename T>() {
    if (self.numel() == 0) return;
    const Tensor source = contiguous_tensor(self);
    const FiberGrid grid(source.sizes(), dim);
    const T* in = source.data_as<T>();
    T* values = values_out.data_as<T>();
    int64_t* places = indices_out.data_as<int64_t>();
    const int64_t n = grid.size, width = std::min(grid.inner, kColumns);
    const int64_t blocks = (grid.inner + width - 1) / width;
    parallel_for(0, grid.outer * blocks, n * width * 4, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        if (grid.inner == 1) {
          scan_fiber<kLargest>(n, in + b * n, values + b * n, places + b * n);
          continue;
        }
        const int64_t column = b % blocks * width, first = b / blocks * n * grid.inner + column;
        scan_block<kLargest>(grid, first, std::min(width, grid.inner - column), in, values, places);
      }
    });
  });
}

}  // namespace

void cummax_cpu(const Tensor& self, int64_t dim, Tensor& values_out, Tensor& indices_out) {
  run<true>("cummax_cpu", self, dim, values_out, indices_out);
}

void cummin_cpu(const Tensor& self, int64_t dim, Tensor& values_out, Tensor& indices_out) {
  run<false>("cummin_cpu", self, dim, values_out, indices_out);
}

}  // namespace flambeau::ops
