#pragma once
// C++ functions as boxed kernels: how each parameter type is read from a stack and each result put
// there, and how the type is called in a schema.
#include <string_view>

#include "api/dispatch_keys.h"
#include "api/value.h"
#include "aten/dispatch/custom_class.h"

namespace flambeau::api::boxing {

template <typename T>
struct Type;  // an unknown type: kernels take Tensors, numbers, texts and lists of them

// `Held` keeps what `pass` refers to.
template <typename Value, typename Stored>
struct ByValue {
  using Held = Value;
  static Value hold(flambeau::IValue& v) { return Value(v.get<Stored>()); }
  static flambeau::IValue box(const Value& v) { return flambeau::IValue(Stored(v)); }
};
template <typename T>
struct Number {
  using Held = T;
  static T hold(flambeau::IValue& v) { return v.get<c10::Scalar>().template to<T>(); }
  static flambeau::IValue box(T v) { return flambeau::IValue(c10::Scalar(v)); }
};
template <>
struct Type<int64_t> : Number<int64_t> {
  static constexpr std::string_view kName = "int";
};
template <>
struct Type<double> : Number<double> {
  static constexpr std::string_view kName = "float";
};
template <>
struct Type<bool> : Number<bool> {
  static constexpr std::string_view kName = "bool";
};
template <typename T>
  requires std::is_base_of_v<flambeau::Tensor, T>
struct Type<T> {
  static constexpr std::string_view kName = "Tensor";
  using Held = Tensor;
  static Tensor hold(flambeau::IValue& v) {
    return v.is_none() ? flambeau::Tensor() : v.get<flambeau::Tensor>();
  }
  static flambeau::IValue box(const flambeau::Tensor& v) {
    return v.defined() ? flambeau::IValue(v) : flambeau::IValue();
  }
};
template <typename T>
  requires std::is_base_of_v<c10::Scalar, T>
struct Type<T> : ByValue<T, c10::Scalar> {
  static constexpr std::string_view kName = "Scalar";
};
template <>
struct Type<std::string> : ByValue<std::string, std::string> {
  static constexpr std::string_view kName = "str";
};
template <>
struct Type<std::string_view> {
  static constexpr std::string_view kName = "str";
  using Held = std::string_view;
  static std::string_view hold(flambeau::IValue& v) { return v.get<std::string>(); }
  static flambeau::IValue box(std::string_view v) { return flambeau::IValue(std::string(v)); }
};
template <typename T>
  requires(std::is_same_v<T, c10::ScalarType> || std::is_same_v<T, ScalarType>)
struct Type<T> : ByValue<T, c10::ScalarType> {
  static constexpr std::string_view kName = "ScalarType";
};
template <typename T>
  requires std::is_base_of_v<c10::Device, T>
struct Type<T> : ByValue<T, c10::Device> {
  static constexpr std::string_view kName = "Device";
};
template <>
struct Type<Layout> : ByValue<Layout, Layout> {
  static constexpr std::string_view kName = "Layout";
};
template <>
struct Type<MemoryFormat> : ByValue<MemoryFormat, MemoryFormat> {
  static constexpr std::string_view kName = "MemoryFormat";
};
template <>
struct Type<Generator> : ByValue<Generator, Generator> {
  static constexpr std::string_view kName = "Generator";
};

template <typename T>
inline constexpr std::string_view kListName = "";
template <>
inline constexpr std::string_view kListName<int64_t> = "int[]";
template <>
inline constexpr std::string_view kListName<double> = "float[]";
template <>
inline constexpr std::string_view kListName<bool> = "bool[]";
template <>
inline constexpr std::string_view kListName<Tensor> = "Tensor[]";
template <>
inline constexpr std::string_view kListName<flambeau::Tensor> = "Tensor[]";
template <>
inline constexpr std::string_view kListName<std::string> = "str[]";
template <>
inline constexpr std::string_view kListName<std::optional<Tensor>> = "Tensor?[]";

template <typename T>
struct ListType {
  static constexpr bool kIsOfTensors =
      std::is_same_v<T, Tensor> || std::is_same_v<T, std::optional<Tensor>>;
  using Stored = std::conditional_t<kIsOfTensors, flambeau::Tensor, T>;
  static constexpr std::string_view kName = kListName<T>;
  using Held = std::vector<T>;
  static std::vector<T> hold(flambeau::IValue& v) {
    const auto& list = v.get<std::vector<Stored>>();
    if constexpr (std::is_same_v<T, std::optional<Tensor>>) {
      std::vector<T> items;
      for (const flambeau::Tensor& t : list) items.push_back(t.defined() ? T(t) : T());
      return items;
    } else {
      return std::vector<T>(list.begin(), list.end());
    }
  }
  template <typename Items>
  static flambeau::IValue box(const Items& v) {
    if constexpr (std::is_same_v<T, std::optional<Tensor>>) {
      std::vector<Stored> items;
      for (const T& t : v) items.push_back(t ? flambeau::Tensor(*t) : flambeau::Tensor());
      return flambeau::IValue(std::move(items));
    } else {
      return flambeau::IValue(std::vector<Stored>(v.begin(), v.end()));
    }
  }
};
template <typename T>
struct Type<std::vector<T>> : ListType<T> {};
template <typename T>
struct Type<ArrayRef<T>> : ListType<T> {};
template <typename T>
struct Type<List<T>> : ListType<T> {
  using Held = List<T>;
  static Held hold(flambeau::IValue& v) { return Held(ListType<T>::hold(v)); }
};

// Objects of classes that TORCH_LIBRARY registers.
template <typename T>
  requires std::is_base_of_v<CustomClassHolder, T>
struct Type<intrusive_ptr<T>> {
  using Held = intrusive_ptr<T>;
  static std::string name() {
    const CustomClass* const found = find_custom_class(std::type_index(typeid(T)));
    check(found != nullptr,
          "class_: expected the class to be registered before functions that take it, got ",
          typeid(T).name());
    return found->name;
  }
  static Held hold(flambeau::IValue& v) {
    auto* const object = dynamic_cast<T*>(v.get<CustomObject>().get());
    check(object != nullptr, "expected an object of ", name(), ", got one of another class");
    return Held::share(object);
  }
  static flambeau::IValue box(const Held& v) {
    return v ? flambeau::IValue(CustomObject(v)) : flambeau::IValue();
  }
};

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
struct Type<std::optional<T>> {
  using Held = std::optional<typename Type<T>::Held>;
  static Held hold(flambeau::IValue& v) { return v.is_none() ? Held() : Held(Type<T>::hold(v)); }
  static flambeau::IValue box(const std::optional<T>& v) {
    return v ? Type<T>::box(*v) : flambeau::IValue();
  }
};

// "Tensor?" and so on.
template <typename T>
std::string name_of_type();

// Any value, as tuples and dictionaries of any types hold it.
template <>
struct Type<IValue> {
  static constexpr std::string_view kName = "Any";
  using Held = IValue;
  static IValue hold(flambeau::IValue& v) { return v; }
  static flambeau::IValue box(const IValue& v) { return v; }
};
// A tuple as one value. Results of operators are tuples too, but of several values.
template <typename... Ts>
struct Type<std::tuple<Ts...>> {
  using Held = std::tuple<Ts...>;
  static std::string name() {
    std::string text;
    ((text += (text.empty() ? "(" : ", ") + name_of_type<Ts>()), ...);
    return text + ")";
  }
  static Held hold(flambeau::IValue& v) {
    const TupleValue* const found = tuple_in(v);
    check(found != nullptr && found->size() == sizeof...(Ts), "expected a tuple of ", sizeof...(Ts),
          " values, got ", found ? "one of another size" : IValue(v).tagKind());
    std::vector<flambeau::IValue> items = found->items;
    return hold_each(items, std::index_sequence_for<Ts...>());
  }
  static flambeau::IValue box(const Held& v) { return IValue(v); }

 private:
  template <size_t... I>
  static Held hold_each(std::vector<flambeau::IValue>& items, std::index_sequence<I...>) {
    return Held(pass_item<Ts>(items[I])...);
  }
  template <typename T>
  static T pass_item(flambeau::IValue& item) {
    return T(Type<T>::hold(item));
  }
};

template <typename T>
std::string name_of_type() {
  if constexpr (kIsOptional<T>) {
    return name_of_type<typename T::value_type>() + "?";
  } else if constexpr (requires { Type<T>::name(); }) {
    return Type<T>::name();
  } else {
    return std::string(Type<T>::kName);
  }
}

// Passes a held value on: a view of a list, the value itself otherwise.
template <typename P, typename Held>
decltype(auto) pass(Held& held) {
  using Plain = std::remove_cvref_t<P>;
  if constexpr (std::is_same_v<Plain, Held>) {
    if constexpr (std::is_lvalue_reference_v<P>) {
      return (held);
    } else {
      return Held(held);
    }
  } else if constexpr (kIsOptional<Plain>) {
    return held ? Plain(*held) : Plain();
  } else {
    return Plain(held);
  }
}

// --- results -------------------------------------------------------------------------------------

template <typename R>
struct Results {
  static void push(Stack& stack, R&& r) { stack.push(Type<std::remove_cvref_t<R>>::box(r)); }
  static std::remove_cvref_t<R> take(Stack& stack) {
    return Type<std::remove_cvref_t<R>>::hold(stack[0]);
  }
  static void name(std::vector<std::string>& names) {
    names.push_back(name_of_type<std::remove_cvref_t<R>>());
  }
};
template <typename... Rs>
struct Results<std::tuple<Rs...>> {
  static void push(Stack& stack, std::tuple<Rs...>&& r) {
    std::apply([&](auto&... each) { (stack.push(Type<std::remove_cvref_t<Rs>>::box(each)), ...); },
               r);
  }
  static std::tuple<std::remove_cvref_t<Rs>...> take(Stack& stack) {
    return take_each(stack, std::index_sequence_for<Rs...>());
  }
  template <size_t... I>
  static std::tuple<std::remove_cvref_t<Rs>...> take_each(Stack& stack, std::index_sequence<I...>) {
    return {Type<std::remove_cvref_t<Rs>>::hold(stack[I])...};
  }
  static void name(std::vector<std::string>& names) {
    (names.push_back(name_of_type<std::remove_cvref_t<Rs>>()), ...);
  }
};
template <>
struct Results<void> {
  static void name(std::vector<std::string>&) {}
};

// --- signatures ----------------------------------------------------------------------------------

struct Signature {
  std::vector<std::string> arguments, results;
};

template <typename F>
struct Caller;
template <typename R, typename... Args>
struct Caller<R(Args...)> {
  static Signature signature() {
    Signature s = {{name_of_type<std::remove_cvref_t<Args>>()...}, {}};
    Results<R>::name(s.results);
    return s;
  }
  template <typename F>
  static void run(const F& f, Stack& stack) {
    check(stack.size() == sizeof...(Args), "kernel: expected ", sizeof...(Args), " arguments, got ",
          stack.size());
    run_each(f, stack, std::index_sequence_for<Args...>());
  }
  // The other way round: boxes the arguments of a typed call.
  static void box(Stack& stack, const std::remove_cvref_t<Args>&... args) {
    (stack.push(Type<std::remove_cvref_t<Args>>::box(args)), ...);
  }

 private:
  template <typename F, size_t... I>
  static void run_each(const F& f, Stack& stack, std::index_sequence<I...>) {
    std::tuple<typename Type<std::remove_cvref_t<Args>>::Held...> held{
        Type<std::remove_cvref_t<Args>>::hold(stack[I])...};
    Stack results;
    if constexpr (std::is_void_v<R>) {
      f(pass<Args>(std::get<I>(held))...);
    } else {
      Results<R>::push(results, f(pass<Args>(std::get<I>(held))...));
    }
    stack = std::move(results);
  }
};

// The same for functions that may take the dispatch keys of the call first.
template <typename F>
struct KeyedCaller;
template <typename R, typename... Args>
struct KeyedCaller<R(Args...)> : Caller<R(Args...)> {
  template <typename F>
  static void run(const F& f, c10::DispatchKeySet, Stack& stack) {
    Caller<R(Args...)>::run(f, stack);
  }
};
template <typename R, typename... Args>
struct KeyedCaller<R(DispatchKeySet, Args...)> : Caller<R(Args...)> {
  template <typename F>
  static void run(const F& f, c10::DispatchKeySet keys, Stack& stack) {
    const auto with_keys = [&](Args... args) -> R { return f(keys, static_cast<Args&&>(args)...); };
    Caller<R(Args...)>::run(with_keys, stack);
  }
};

// The type of a function, a pointer to one, or an object with one operator().
template <typename F>
struct FunctionType : FunctionType<decltype(&F::operator())> {};
template <typename R, typename... Args>
struct FunctionType<R (*)(Args...)> {
  using type = R(Args...);
};
template <typename C, typename R, typename... Args>
struct FunctionType<R (C::*)(Args...)> {
  using type = R(Args...);
};
template <typename C, typename R, typename... Args>
struct FunctionType<R (C::*)(Args...) const> {
  using type = R(Args...);
};

}  // namespace flambeau::api::boxing

namespace flambeau::api {

template <typename T>
T IValue::to() const {
  flambeau::IValue copy = *this;
  auto held = boxing::Type<T>::hold(copy);
  return boxing::pass<T>(held);
}

}  // namespace flambeau::api
