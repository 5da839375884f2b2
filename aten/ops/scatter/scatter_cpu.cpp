// scatter, scatter_add and scatter_reduce on CPU.
// Formula: self[.., index[p], ..] combined with src[p] for every p. Repeated places are combined in
// the order of `index` along `dim`, so results are the same in every run. The mean of integers is
// floored.
// Accumulates in: half types are combined in float32 and rounded once; else the element type.
// NaN, infinity: amax and amin let NaN win; sums and products follow IEEE arithmetic.
// Error: n * eps of the sum of magnitudes; amax, amin and writes are exact.
// Source: by definition.
#include <limits>
#include <type_traits>

#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/cpu/order_key.h"
#include "aten/cpu/wrapping.h"
#include "aten/ops/scatter/scatter_nest.h"
#include "torchgen_out/aten/scatter_kernels.h"

namespace flambeau::ops {
namespace {

using scatter::Nest;

// The source's strides, as Nest wants them.
DimVector strides_of(const Tensor& src) {
  return src.dim() ? DimVector(src.strides()) : DimVector{1};
}

// Elements are moved, not computed with: the type matters only by its size.
void assign(const Tensor& self, int64_t dim, const Tensor& index, IntArrayRef src_strides,
            const void* src) {
  if (index.numel() == 0) return;
  const Tensor places = cast_tensor(index, ScalarType::Int64);
  dispatch_by_size(element_size(self.dtype()), "scatter", [&]<typename T>() {
    Nest(self, dim, places, src_strides)
        .run(self.data_as<T>(), places.data_as<int64_t>(), static_cast<const T*>(src),
             [](T& to, const T& from) { to = from; });
  });
}

struct Add {
  template <typename T>
  void operator()(T& to, const T& from) const {
    if constexpr (is_bool<T>) {
      to = to || from;
    } else {
      to = wrapping_sum(to, from);
    }
  }
};

struct Multiply {
  template <typename T>
  void operator()(T& to, const T& from) const {
    if constexpr (is_bool<T>) {
      to = to && from;
    } else {
      to = wrapping_product(to, from);
    }
  }
};

struct Maximum {
  template <typename T>
  void operator()(T& to, const T& from) const {
    to = order_key(from) > order_key(to) ? from : to;  // stored always: no branch to mispredict
  }
};

struct Minimum {
  template <typename T>
  void operator()(T& to, const T& from) const {
    to = reverse_key(from) > reverse_key(to) ? from : to;
  }
};

// self's dtype is src's, and no half type.
template <typename Combine>
void combine_same(const Tensor& self, int64_t dim, const Tensor& places, const Tensor& src) {
  const auto run = [&]<typename T>() {
    Nest(self, dim, places, strides_of(src))
        .run(self.data_as<T>(), places.data_as<int64_t>(), src.data_as<T>(), Combine());
  };
  if constexpr (std::is_same_v<Combine, Maximum> || std::is_same_v<Combine, Minimum>) {
    dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::UInt8, ScalarType::Int8,
                   ScalarType::Int16, ScalarType::Int32, ScalarType::Int64, ScalarType::Bool>(
        self.dtype(),
        std::is_same_v<Combine, Maximum> ? "scatter_gather_tensor_cpu_reduce_amax"
                                         : "scatter_gather_tensor_cpu_reduce_amin",
        run);
  } else {
    dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::UInt8, ScalarType::Int8,
                   ScalarType::Int16, ScalarType::Int32, ScalarType::Int64, ScalarType::Bool,
                   ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64,
                   ScalarType::Complex64, ScalarType::Complex128>(self.dtype(), "scatter_add", run);
  }
}

template <typename Combine>
void combine(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  if (index.numel() == 0) return;
  const Tensor places = cast_tensor(index, ScalarType::Int64);
  if (!is_reduced_floating_type(self.dtype())) return combine_same<Combine>(self, dim, places, src);
  const Tensor wide = cast_tensor(self, ScalarType::Float32);
  combine_same<Combine>(wide, dim, places, cast_tensor(src, ScalarType::Float32));
  copy_into(self, wide);
}

void assign_number(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  if (index.numel() == 0) return;
  const Tensor one = empty_tensor({}, self.dtype());
  fill_with(one, value);
  assign(self, dim, index, {}, one.data());
}

// What leaves any element as it is under `reduce`.
Scalar identity(std::string_view reduce, ScalarType dtype) {
  if (reduce == "sum" || reduce == "mean") return 0;
  if (reduce == "prod") return 1;
  const bool highest = reduce == "amin";
  if (is_floating_type(dtype)) return highest ? __builtin_inf() : -__builtin_inf();
  Scalar bound;
  dispatch_types<ScalarType::Float32, ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16,
                 ScalarType::Int32, ScalarType::Int64, ScalarType::Bool>(
      dtype,
      highest ? "scatter_gather_tensor_cpu_reduce_amin" : "scatter_gather_tensor_cpu_reduce_amax",
      [&]<typename T>() { bound = highest ? loops::highest<T>() : loops::lowest<T>(); });
  return bound;
}

// out <- out / counts, at least 1; integers are floored.
template <typename Count>
void divide(const Tensor& out, const Count* counts) {
  dispatch_types<ScalarType::Float32, ScalarType::Float64, ScalarType::UInt8, ScalarType::Int8,
                 ScalarType::Int16, ScalarType::Int32, ScalarType::Int64, ScalarType::Complex64,
                 ScalarType::Complex128>(
      out.dtype(), "scatter_gather_tensor_cpu_reduce_mean", [&]<typename T>() {
        T* values = out.data_as<T>();
        parallel_for(0, out.numel(), 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t n = std::max<int64_t>(counts[i], 1);
            if constexpr (std::is_integral_v<T>) {
              const int64_t sum = values[i], quotient = sum / n;
              values[i] = static_cast<T>(quotient - (sum % n < 0));
            } else {
              values[i] = values[i] / T(static_cast<loops::real_t<T>>(n));
            }
          }
        });
      });
}

// out <- out / how many elements were added at each place.
void divide_by_count(const Tensor& out, int64_t dim, const Tensor& index, bool include_self) {
  if (index.numel() == 0) return;
  const auto run = [&]<typename Count>(Count one) {
    const Tensor places = cast_tensor(index, ScalarType::Int64);
    const Tensor count = empty_tensor(out.sizes(), scalar_type_of<Count>);
    fill_with(count, include_self ? 1 : 0);
    Nest(count, dim, places, {})
        .run(count.data_as<Count>(), places.data_as<int64_t>(), &one, Add());
    divide(out, count.data_as<Count>());
  };
  // The counts are the larger part of the memory traffic.
  index.numel() < std::numeric_limits<int32_t>::max() ? run(int32_t{1}) : run(int64_t{1});
}

// `out` holds self, row-major, and is not a half type.
void reduce_into(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src,
                 std::string_view reduce, bool include_self) {
  if (!include_self) assign_number(out, dim, index, identity(reduce, out.dtype()));
  if (reduce == "prod") return combine<Multiply>(out, dim, index, src);
  if (reduce == "amax") return combine<Maximum>(out, dim, index, src);
  if (reduce == "amin") return combine<Minimum>(out, dim, index, src);
  combine<Add>(out, dim, index, src);
  if (reduce == "mean") divide_by_count(out, dim, index, include_self);
}

}  // namespace

void scatter_src_cpu(Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  scatter::check_arguments(self, dim, index, src);
  scatter::check_memory(self, index, src);
  assign(self, dim, index, strides_of(src), src.data());
}

void scatter_value_cpu(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  scatter::check_arguments(self, dim, index, Tensor());
  scatter::check_memory(self, index, Tensor());
  assign_number(self, dim, index, value);
}

void scatter_add_cpu(Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  scatter::check_arguments(self, dim, index, src);
  scatter::check_memory(self, index, src);
  combine<Add>(self, dim, index, src);
}

void scatter_reduce_cpu(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                        std::string_view reduce, bool include_self, Tensor& out) {
  if (!is_reduced_floating_type(self.dtype())) {
    copy_into(out, self);
    return reduce_into(out, dim, index, src, reduce, include_self);
  }
  const Tensor wide = empty_tensor(self.sizes(), ScalarType::Float32);
  copy_into(wide, self);
  reduce_into(wide, dim, index, cast_tensor(src, ScalarType::Float32), reduce, include_self);
  copy_into(out, wide);
}

}  // namespace flambeau::ops

namespace flambeau::shape {

void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                    std::string_view reduce, OutSpec* out) {
  check(reduce == "sum" || reduce == "prod" || reduce == "mean" || reduce == "amax" ||
            reduce == "amin",
        "scatter_reduce: expected amax, amin, mean, prod or sum as reduce, got ", reduce);
  scatter::check_arguments(self, dim, index, src);
  if (reduce == "mean" && self.dtype() == ScalarType::Bool) {
    fail_dtype("scatter_gather_tensor_cpu_reduce_mean", self.dtype());
  }
  like(self, out);
}

}  // namespace flambeau::shape
