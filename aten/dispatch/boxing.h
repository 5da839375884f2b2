#pragma once
// Between unboxed kernels and stacks, for one kernel signature: definitions, which generated files
// instantiate once for each signature. Others include signature.h.
#include <tuple>

#include "aten/dispatch/recording.h"
#include "aten/dispatch/signature.h"
#include "aten/dispatch/stack.h"

namespace flambeau {

// Runs the boxed kernel (or fallback) of the outermost key in `keys`.
void run_boxed(const OperatorEntry& op, DispatchKeySet keys, Stack& stack);
// Calls the operator as its generated function does, with the keys of its arguments and of the
// thread.
void call_boxed(const OperatorEntry& op, Stack& stack);
// The same with these keys instead, among them the backend that the arguments are on.
void call_boxed_at(const OperatorEntry& op, DispatchKeySet keys, Stack& stack);
// What a fallback does to go on: runs the kernel for `keys` (never empty) on the stack.
void redispatch_boxed(const OperatorEntry& op, DispatchKeySet keys, Stack& stack);

namespace boxing {

// RuntimeError unless a boxed kernel left as many results as the signature says.
void check_results(const OperatorEntry& op, const Stack& stack, size_t expected);

// How a C++ parameter type is put on the stack and read back. `view` may point into the IValue.
template <typename T>
struct Box;  // by value: int64_t, double, bool, enums, Device

template <typename T>
  requires std::is_arithmetic_v<T>
struct Box<T> {
  static IValue box(T v) { return IValue(Scalar(v)); }
  static T view(IValue& v) { return v.get<Scalar>().template to<T>(); }
};
template <typename T>
  requires(std::is_same_v<T, ScalarType> || std::is_same_v<T, Device> ||
           std::is_same_v<T, Layout> || std::is_same_v<T, MemoryFormat>)
struct Box<T> {
  static IValue box(T v) { return IValue(v); }
  static T view(IValue& v) { return v.get<T>(); }
};
template <>
struct Box<Tensor> {
  static IValue box(const Tensor& v) { return v.defined() ? IValue(v) : IValue(); }
  static const Tensor& view(IValue& v) {
    static const Tensor undefined;
    return v.is_none() ? undefined : v.get<Tensor>();
  }
};
template <>
struct Box<Tensor&> {
  static IValue box(Tensor& v) { return IValue(v); }
  static Tensor& view(IValue& v) { return v.get<Tensor>(); }
};
template <>
struct Box<Scalar> {
  static IValue box(const Scalar& v) { return IValue(v); }
  static const Scalar& view(IValue& v) { return v.get<Scalar>(); }
};
template <>
struct Box<std::string_view> {
  static IValue box(std::string_view v) { return IValue(std::string(v)); }
  static std::string_view view(IValue& v) { return v.get<std::string>(); }
};
template <>
struct Box<GeneratorImpl*> {
  static IValue box(GeneratorImpl* v) { return v ? IValue(Generator::share(v)) : IValue(); }
  static GeneratorImpl* view(IValue& v) { return v.is_none() ? nullptr : v.get<Generator>().get(); }
};
template <typename T>
  requires(!std::is_same_v<T, bool>)
struct Box<ArrayRef<T>> {
  static IValue box(ArrayRef<T> v) { return IValue(v.vec()); }
  static ArrayRef<T> view(IValue& v) { return v.get<std::vector<T>>(); }
};
// vector<bool> has no elements to point to: the bits are kept for the length of the call.
struct BoolArray {
  SmallVector<bool, 8> values;
  operator ArrayRef<bool>() const { return values; }  // NOLINT(google-explicit-constructor)
};
template <>
struct Box<ArrayRef<bool>> {
  static IValue box(ArrayRef<bool> v) { return IValue(std::vector<bool>(v.begin(), v.end())); }
  static BoolArray view(IValue& v) {
    BoolArray out;
    for (const bool bit : v.get<std::vector<bool>>()) out.values.push_back(bit);
    return out;
  }
};
template <typename T>
struct Box<std::vector<T>> {
  static IValue box(std::vector<T> v) { return IValue(std::move(v)); }
  static std::vector<T> view(IValue& v) { return v.get<std::vector<T>>(); }
};
template <typename T>
struct Box<std::optional<T>> {
  static IValue box(const std::optional<T>& v) { return v ? Box<T>::box(*v) : IValue(); }
  static std::optional<T> view(IValue& v) {
    if (v.is_none()) return std::nullopt;
    return std::optional<T>(Box<T>::view(v));
  }
};

// const T& and T share a box; Tensor& is an out or in-place argument.
template <typename P>
using Boxed = std::conditional_t<std::is_same_v<P, Tensor&>, Tensor&, std::remove_cvref_t<P>>;
template <typename P>
using BoxOf = Box<Boxed<P>>;

// One function per type, which all signatures call: inlined they are two thirds of the code.
template <typename T>
[[gnu::noinline]] void push_boxed(Stack& stack, const T& v) {
  stack.push(Box<T>::box(v));
}
template <typename T>
[[gnu::noinline]] decltype(auto) view_boxed(Stack& stack, size_t at) {
  return Box<T>::view(stack[at]);
}

// Results of an adapted call. A returned reference is the caller's own argument, not the stack's
// copy: the n-th reference among the results is the n-th mutable argument.
template <typename R>
struct Result {
  static void push(Stack& stack, R result) { stack.push(BoxOf<R>::box(static_cast<R&&>(result))); }
  static constexpr size_t kCount = 1;
  static R take(Stack& stack, size_t at, [[maybe_unused]] Tensor* const* mutable_args) {
    if constexpr (std::is_same_v<R, Tensor&>) {
      return *mutable_args[at];
    } else {
      return R(BoxOf<R>::view(stack[at]));
    }
  }
};
template <typename... Rs>
struct Result<std::tuple<Rs...>> {
  static void push(Stack& stack, std::tuple<Rs...> result) {
    std::apply([&](auto&... r) { (Result<Rs>::push(stack, static_cast<Rs&&>(r)), ...); }, result);
  }
  static constexpr size_t kCount = sizeof...(Rs);
  static std::tuple<Rs...> take(Stack& stack, size_t, Tensor* const* mutable_args) {
    return take_each(stack, mutable_args, std::index_sequence_for<Rs...>());
  }
  template <size_t... I>
  static std::tuple<Rs...> take_each(Stack& stack, Tensor* const* mutable_args,
                                     std::index_sequence<I...>) {
    return std::tuple<Rs...>(Result<Rs>::take(stack, I, mutable_args)...);
  }
};

template <typename P>
void note_mutable(Tensor**& next, P&& arg) {
  if constexpr (std::is_same_v<P, Tensor&>) *next++ = &arg;
}

template <typename R, typename... Args, size_t... I>
void call_with(R (*kernel)(DispatchKeySet, Args...), DispatchKeySet keys, Stack& stack,
               std::index_sequence<I...>) {
  if constexpr (std::is_void_v<R>) {
    kernel(keys, view_boxed<Boxed<Args>>(stack, I)...);
    stack.clear();
  } else {
    Stack results;
    Result<R>::push(results, kernel(keys, view_boxed<Boxed<Args>>(stack, I)...));
    stack = std::move(results);
  }
}

template <typename R, typename... Args>
void Signature<R (*)(DispatchKeySet, Args...)>::call(void* kernel, DispatchKeySet keys,
                                                     Stack& stack) {
  call_with(reinterpret_cast<Kernel>(kernel), keys, stack, std::index_sequence_for<Args...>());
}

// The log of a call that is to be recorded, if that needs no boxes: results are not recorded.
inline recording::Log* log_of_call(const OperatorEntry& op, DispatchKeySet keys) {
  if (keys.highest() != static_cast<int>(DispatchKey::Tracing)) return nullptr;
  recording::Log* const log = recording::current;
  const bool is_plain =
      log && !log->options.results && !op.boxed_at(static_cast<int>(DispatchKey::Tracing));
  return is_plain ? log : nullptr;
}

template <typename T>
bool holds_tensor(const T&) {
  return false;
}
inline bool holds_tensor(const Tensor& tensor) { return tensor.defined(); }
inline bool holds_tensor(TensorList) { return true; }
inline bool holds_tensor(const std::vector<Tensor>&) { return true; }
template <typename T>
bool holds_tensor(const std::optional<T>& value) {
  return value && holds_tensor(*value);
}

template <typename P, typename T>
void note_argument(recording::Log& log, const T& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    log.note(value);
  } else if constexpr (std::is_same_v<T, TensorList>) {
    log.note(value);
  } else {
    log.note(BoxOf<P>::box(value));
  }
}

template <typename R, typename... Args>
R Signature<R (*)(DispatchKeySet, Args...)>::boxed(DispatchKeySet keys, Args... args) {
  const OperatorEntry& op = *adapted;
  if (recording::Log* const log = log_of_call(op, keys)) {
    const int32_t event = log->begin(op, (holds_tensor(args) || ...));
    if (log->options.shapes) (note_argument<Args>(*log, args), ...);
    const DispatchKeySet rest = keys - recording::kKey;
    void* const kernel = op.lookup(rest);
    const recording::Scope scope(log, event);
    log->launch();
    return reinterpret_cast<Kernel>(kernel)(rest, static_cast<Args&&>(args)...);
  }
  Stack stack;
  (push_boxed<Boxed<Args>>(stack, args), ...);
  run_boxed(op, keys, stack);
  if constexpr (!std::is_void_v<R>) {
    check_results(op, stack, Result<R>::kCount);
    Tensor* mutable_args[sizeof...(Args) + 1];
    Tensor** next = mutable_args;
    (note_mutable<Args>(next, static_cast<Args&&>(args)), ...);
    return Result<R>::take(stack, 0, mutable_args);
  }
}

}  // namespace boxing
}  // namespace flambeau
