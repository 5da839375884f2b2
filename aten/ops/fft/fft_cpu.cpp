// Discrete Fourier transforms on CPU, along several dimensions, one after the other. Any length:
// products of primes up to 50 take mixed-radix passes, the others Bluestein's algorithm.
// Formula: result[k] = scale * sum_j self[j] e^(-+2 pi i jk / n),  - forward, + backward.
// Accumulates in: the input's precision, with twiddles rounded from double.
// NaN, infinity: both spread over their sequence; empty tensors stay empty.
// Error: at most 4 eps log2(2 n) of the norm (8 where Bluestein's algorithm is used), tested
// against float128-like sums in test/ops/test_fft.py.
// Source: those of transform.h, row_transform.cpp, row_plan.h and loops/fft_loops.cpp.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/fft/transform.h"
#include "torchgen_out/aten/fft_kernels.h"

namespace flambeau {
namespace ops {
namespace {

using fft::Sequences;

Sequences sequences_of(IntArrayRef sizes, int64_t dim) {
  Sequences s{1, 1, 1};
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
    (d < dim ? s.outer : d == dim ? s.n : s.inner) *= sizes[static_cast<size_t>(d)];
  }
  return s;
}

template <typename F>
void dispatch_precision(ScalarType dtype, const F& f) {
  if (to_real_type(dtype) == ScalarType::Float64) {
    f.template operator()<double>();
  } else {
    f.template operator()<float>();
  }
}

template <typename T>
T* parts_of(const Tensor& t) {
  return static_cast<T*>(t.data());
}

// In place along all of `dims`; the scale goes into the first pass.
template <typename T>
void transform_dims(const T* from, T* out, IntArrayRef sizes, IntArrayRef dims, bool forward,
                    T scale) {
  for (const int64_t dim : dims) {
    fft::transform(from, out, sequences_of(sizes, dim), forward, scale);
    from = out;
    scale = T(1);
  }
}

int64_t product(IntArrayRef sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

// Parts of a tensor of complex T that are transformed along all dimensions, one after the other,
// while they are in the second-level cache; one part where that is too large.
struct Slabs {
  static constexpr int64_t kLargestBytes = 1 << 20;
  int64_t count = 1;
  DimVector sizes;

  Slabs(IntArrayRef whole, IntArrayRef dims, int64_t element_bytes) : sizes(whole) {
    const int64_t first = *std::min_element(dims.begin(), dims.end());
    for (int64_t d = 0; d < first; ++d) {
      count *= sizes[static_cast<size_t>(d)];
      sizes[static_cast<size_t>(d)] = 1;
    }
    if (dims.size() > 1 && count >= get_num_threads() &&
        product(sizes) * element_bytes <= kLargestBytes) {
      return;
    }
    count = 1;
    sizes = DimVector(whole);
  }
  // Elements of a slab whose dimension `dim` has `size` elements.
  int64_t numel(int64_t dim, int64_t size) const {
    return product(sizes) / sizes[static_cast<size_t>(dim)] * size;
  }
  // body(number) for each.
  template <typename Body>
  void each(const Body& body) const {
    if (count == 1) return body(int64_t{0});
    parallel_for(0, count, product(sizes) * 32, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }
};

// The second half of each sequence: the conjugates of the first, in reverse order.
template <typename T>
void mirror(const T* half, const Tensor& out, int64_t dim) {
  const Sequences s = sequences_of(out.sizes(), dim);
  const int64_t kept = s.n / 2 + 1;
  T* to = parts_of<T>(out);
  parallel_for(0, s.outer * s.n, 4 * s.inner, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t o = line / s.n, k = line % s.n;
      const T sign = k < kept ? T(1) : T(-1);
      const T* x = half + 2 * (o * kept + (k < kept ? k : s.n - k)) * s.inner;
      T* y = to + 2 * line * s.inner;
      for (int64_t j = 0; j < s.inner; ++j) {
        y[2 * j] = x[2 * j];
        y[2 * j + 1] = sign * x[2 * j + 1];
      }
    }
  });
}

DimVector wrapped(IntArrayRef dims, int64_t ndim) {
  DimVector result;
  for (const int64_t dim : dims) result.push_back(wrap_dim(dim, ndim));
  return result;
}

DimVector without_last(const DimVector& dims) {
  DimVector rest(dims);
  rest.pop_back();
  return rest;
}

// The first half of a transform of real numbers.
void transform_real_slabs(const Tensor& input, const DimVector& dims, double scale,
                          const Tensor& out) {
  const int64_t last = dims.back();
  dispatch_precision(input.dtype(), [&]<typename T>() {
    const Slabs slabs(out.sizes(), dims, 2 * sizeof(T));
    const int64_t part = 2 * product(slabs.sizes), real = slabs.numel(last, input.size(last));
    Sequences s = sequences_of(slabs.sizes, last);
    s.n = input.size(last);
    slabs.each([&](int64_t i) {
      T* const to = parts_of<T>(out) + i * part;
      fft::transform_real(parts_of<T>(input) + i * real, to, s, static_cast<T>(scale));
      transform_dims<T>(to, to, slabs.sizes, without_last(dims), true, T(1));
    });
  });
}

}  // namespace

void fft_c2c_cpu(const Tensor& self, IntArrayRef dim, double scale, bool forward, Tensor& out) {
  if (self.numel() == 0) return;
  if (dim.empty()) return copy_into(out, self);
  const Tensor input = contiguous_tensor(self);
  const DimVector dims = wrapped(dim, self.dim());
  dispatch_precision(self.dtype(), [&]<typename T>() {
    const Slabs slabs(out.sizes(), dims, 2 * sizeof(T));
    const int64_t part = 2 * product(slabs.sizes);
    slabs.each([&](int64_t i) {
      transform_dims<T>(parts_of<T>(input) + i * part, parts_of<T>(out) + i * part, slabs.sizes,
                        dims, forward, static_cast<T>(scale));
    });
  });
}

void fft_r2c_cpu(const Tensor& self, IntArrayRef dim, double scale, bool onesided, Tensor& out) {
  if (self.numel() == 0) return;
  const Tensor input = contiguous_tensor(self);
  const DimVector dims = wrapped(dim, self.dim());
  const int64_t last = dims.back();
  if (onesided) return transform_real_slabs(input, dims, scale, out);
  const Sequences s = sequences_of(self.sizes(), last);
  DimVector sizes(self.sizes());
  sizes[static_cast<size_t>(last)] = s.n / 2 + 1;
  const Tensor half = empty_tensor(sizes, out.dtype());
  dispatch_precision(self.dtype(), [&]<typename T>() {
    fft::transform_real(parts_of<T>(input), parts_of<T>(half), s, static_cast<T>(scale));
    mirror(parts_of<T>(half), out, last);
    transform_dims<T>(parts_of<T>(out), parts_of<T>(out), out.sizes(), without_last(dims), true,
                      T(1));
  });
}

void fft_c2r_cpu(const Tensor& self, IntArrayRef dim, double scale, int64_t /*last_dim_size*/,
                 Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor input = contiguous_tensor(self);
  const DimVector dims = wrapped(dim, self.dim()), others = without_last(dims);
  const int64_t last = dims.back();
  dispatch_precision(self.dtype(), [&]<typename T>() {
    const Slabs slabs(self.sizes(), dims, 2 * sizeof(T));
    const int64_t part = 2 * product(slabs.sizes), real = slabs.numel(last, out.size(last));
    Sequences s = sequences_of(slabs.sizes, last);
    s.n = out.size(last);
    slabs.each([&](int64_t i) {
      const T* from = parts_of<T>(input) + i * part;
      Tensor between;
      if (!others.empty()) {
        between = empty_tensor({product(slabs.sizes)}, self.dtype());
        transform_dims<T>(from, parts_of<T>(between), slabs.sizes, others, false, T(1));
        from = parts_of<T>(between);
      }
      fft::transform_to_real(from, parts_of<T>(out) + i * real, s, static_cast<T>(scale));
    });
  });
}

}  // namespace ops

namespace shape {

namespace {

void check_complex(const char* op, const Tensor& self) {
  check(self.dtype() == ScalarType::Complex64 || self.dtype() == ScalarType::Complex128, op,
        ": expected dtype complex64 or complex128, got ", self.dtype());
}

}  // namespace

void fft_c2c(const Tensor& self, OutSpec* out) {
  check_complex("_fft_c2c", self);
  like(self, out);
}

void fft_r2c(const Tensor& self, IntArrayRef dim, bool onesided, OutSpec* out) {
  check(self.dtype() == ScalarType::Float32 || self.dtype() == ScalarType::Float64,
        "_fft_r2c: expected dtype float32 or float64, got ", self.dtype());
  check(!dim.empty(), "_fft_r2c: expected at least one dimension, got none");
  like(self, to_complex_type(self.dtype()), out);
  const auto last = static_cast<size_t>(wrap_dim(dim.back(), self.dim()));
  if (onesided) out->sizes[last] = self.sizes()[last] / 2 + 1;
}

void fft_c2r(const Tensor& self, IntArrayRef dim, int64_t last_dim_size, OutSpec* out) {
  check_complex("_fft_c2r", self);
  check(!dim.empty(), "_fft_c2r: expected at least one dimension, got none");
  like(self, to_real_type(self.dtype()), out);
  const auto last = static_cast<size_t>(wrap_dim(dim.back(), self.dim()));
  check(last_dim_size / 2 + 1 == self.sizes()[last], "_fft_c2r: expected ", last_dim_size / 2 + 1,
        " elements for ", last_dim_size, " results, got ", self.sizes()[last]);
  out->sizes[last] = last_dim_size;
}

}  // namespace shape
}  // namespace flambeau
