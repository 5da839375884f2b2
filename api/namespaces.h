#pragma once
// The namespaces of C++ programs. They have no definitions of their own, so that libtorch may be
// loaded into the same process.
#include <concepts>

#include "api/autograd_fallback.h"
#include "api/borrowed.h"
#include "api/check.h"
#include "api/context.h"
#include "api/dispatch.h"
#include "api/dtype_questions.h"
#include "api/function.h"
#include "api/guards.h"
#include "api/library.h"
#include "api/operators.h"
#include "api/record_function.h"
#include "c10/core/small_vector.h"

namespace flambeau::api {

// for (const auto i : c10::irange(n)): the numbers have n's type.
template <typename T>
class IntegerRange {
 public:
  struct Iterator {
    T at;
    T operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator!=(Iterator o) const { return at < o.at; }
  };
  IntegerRange(T begin, T end) : begin_(begin), end_(end) {}
  Iterator begin() const { return {begin_}; }
  Iterator end() const { return {end_}; }

 private:
  T begin_, end_;
};
template <std::integral T>
IntegerRange<T> irange(T end) {
  return {T(0), end};
}
template <std::integral T, std::integral U>
IntegerRange<U> irange(T begin, U end) {
  return {static_cast<U>(begin), end};
}

inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }

// The parts as one text.
template <typename... Parts>
std::string str(const Parts&... parts) {
  return message_of(parts...);
}

using c10::Error;
using c10::intrusive_ptr;
using c10::make_intrusive;
using std::nullopt;
using std::optional;
using string_view = std::string_view;

namespace of_autograd {
using api::AutogradContext;
using api::AutoGradMode;
using api::backward;
using api::Function;
using api::grad;
using api::GradMode;
using api::variable_list;
using tensor_list = variable_list;
using Variable = Tensor;
}  // namespace of_autograd

namespace of_c10 {
using c10::SmallVector;
using of_jit::Stack;
using intrusive_ptr_target = CustomClassHolder;
template <typename T>
inline constexpr T pi = T(3.14159265358979323846);
}  // namespace of_c10

}  // namespace flambeau::api

namespace c10 {
using namespace flambeau::api;
using namespace flambeau::api::of_c10;
using flambeau::c10::complex;  // the type: at::complex is an operator
namespace impl {
using namespace flambeau::api::of_impl;
}  // namespace impl
}  // namespace c10
namespace at {
using namespace flambeau::api;
namespace indexing = flambeau::api::indexing;
}  // namespace at
namespace torch {
using namespace flambeau::api;
namespace indexing = flambeau::api::indexing;
namespace autograd {
using namespace flambeau::api::of_autograd;
}  // namespace autograd
namespace jit {
using flambeau::api::IValue;
using namespace flambeau::api::of_jit;
}  // namespace jit
}  // namespace torch

#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 13
#define TORCH_VERSION_PATCH 0
#define C10_LIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 1))
#define C10_UNLIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 0))
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#ifdef __CUDACC__
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define TORCH_API
#define C10_API
#define C10_EXPORT __attribute__((visibility("default")))
