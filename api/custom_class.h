#pragma once
// class_: classes of C++ whose objects operators take and Python holds.
#include "api/dispatcher.h"

namespace flambeau::api {

using flambeau::CustomClassHolder;

// A name and a default value of a parameter: torch::arg("x") = 3.
struct arg {
  explicit arg(std::string name) : name(std::move(name)) {}
  static arg none() { return arg("").as_none(); }
  template <typename T>
  arg& operator=(const T& value) {
    preset = text_of_default(value);
    return *this;
  }

  std::string name;
  std::optional<std::string> preset;  // as schemas spell it

 private:
  arg& as_none() {
    preset = "None";
    return *this;
  }
  static std::string text_of_default(std::nullopt_t) { return "None"; }
  static std::string text_of_default(const std::string& text) { return '"' + text + '"'; }
  static std::string text_of_default(const char* text) {
    return text_of_default(std::string(text));
  }
  static std::string text_of_default(bool value) { return value ? "True" : "False"; }
  template <typename T>
    requires std::is_arithmetic_v<T>
  static std::string text_of_default(T value) {
    std::string text = c10::text_of(c10::Scalar(value));
    return text;
  }
};

// The types of a constructor: torch::init<int64_t, std::string>(), or a function that returns the
// object.
template <typename... Args>
struct InitTypes {};
template <typename F>
struct InitFunction {
  F f;
};
template <typename... Args>
InitTypes<Args...> init() {
  return {};
}
template <typename F>
InitFunction<std::decay_t<F>> init(F&& f) {
  return {std::forward<F>(f)};
}

// "name(Type self, int x, int y=3) -> Tensor"; RuntimeError if names are given, but not for all
// parameters.
std::string method_schema(const std::string& name, const boxing::Signature& signature,
                          const std::vector<arg>& names, bool is_static);

template <typename C>
class class_ {
 public:
  static_assert(std::is_base_of_v<CustomClassHolder, C>,
                "class_: the class must have torch::CustomClassHolder as a public base");

  class_(const std::string& space, const std::string& name, const std::string& doc = "")
      : made_(&register_custom_class(text_of(kCustomClassPrefix, space, ".", name),
                                     std::type_index(typeid(C)))) {
    made_->doc = doc;
  }

  template <typename... Args>
  class_& def(InitTypes<Args...>, std::string = "", std::initializer_list<arg> names = {}) {
    return constructor([](Args... args) { return make_intrusive<C>(std::move(args)...); }, names);
  }
  template <typename F>
  class_& def(InitFunction<F> made, std::string = "", std::initializer_list<arg> names = {}) {
    return constructor(std::move(made.f), names);
  }
  // A member function, or a function that takes the object as intrusive_ptr<C> first.
  template <typename F>
  class_& def(const std::string& name, F f, std::string = "",
              std::initializer_list<arg> names = {}) {
    return add(name, as_function(f), names, false);
  }
  template <typename F>
  class_& def_static(const std::string& name, F f, std::string = "") {
    return add(name, std::move(f), {}, true);
  }
  template <typename T>
  class_& def_readwrite(const std::string& name, T C::* field) {
    const auto get = [field](const Object& self) -> T { return (*self).*field; };
    const auto set = [field](const Object& self, T value) { (*self).*field = std::move(value); };
    return def_property(name, get, set);
  }
  template <typename T>
  class_& def_readonly(const std::string& name, T C::* field) {
    return def_property(name, [field](const Object& self) -> T { return (*self).*field; });
  }
  template <typename G>
  class_& def_property(const std::string& name, G getter, std::string = "") {
    add(name + "_getter", as_function(getter), {}, false);
    made_->add_property(name, name + "_getter", "");
    return *this;
  }
  template <typename G, typename S>
    requires(!std::is_convertible_v<S, std::string>)
  class_& def_property(const std::string& name, G getter, S setter, std::string = "") {
    add(name + "_getter", as_function(getter), {}, false);
    add(name + "_setter", as_function(setter), {}, false);
    made_->add_property(name, name + "_getter", name + "_setter");
    return *this;
  }
  // The state is any value of a schema, or a tuple of such values.
  template <typename Get, typename Set>
  class_& def_pickle(Get get, Set set) {
    using State = std::remove_cvref_t<decltype(get(std::declval<const Object&>()))>;
    add("__getstate__", as_function(get), {}, false);
    return add("__setstate__", from_state<State>(std::move(set)), {}, true);
  }

 private:
  using Object = intrusive_ptr<C>;

  template <typename F>
  class_& constructor(F f, std::initializer_list<arg> names) {
    return add("__init__", std::move(f), names, true);
  }
  template <typename F>
  static F as_function(F f) {
    return f;
  }
  template <typename D, typename R, typename... Args>
  static auto as_function(R (D::*f)(Args...)) {
    return [f](const Object& self, Args... args) -> R {
      return (static_cast<D&>(*self).*f)(static_cast<Args&&>(args)...);
    };
  }
  template <typename D, typename R, typename... Args>
  static auto as_function(R (D::*f)(Args...) const) {
    return [f](const Object& self, Args... args) -> R {
      return (static_cast<const D&>(*self).*f)(static_cast<Args&&>(args)...);
    };
  }
  // A tuple is passed as its values.
  template <typename State>
  struct Parts {
    template <typename Set>
    static auto of(Set set) {
      return [set](State state) -> Object { return set(std::move(state)); };
    }
  };
  template <typename... Ts>
  struct Parts<std::tuple<Ts...>> {
    template <typename Set>
    static auto of(Set set) {
      return [set](Ts... parts) -> Object { return set(std::tuple<Ts...>(std::move(parts)...)); };
    }
  };
  template <typename State, typename Set>
  static auto from_state(Set set) {
    return Parts<State>::of(std::move(set));
  }

  template <typename F>
  class_& add(const std::string& name, F f, const std::vector<arg>& names, bool is_static) {
    using Call = boxing::Caller<typename boxing::FunctionType<F>::type>;
    made_->add(name, method_schema(name, Call::signature(), names, is_static), is_static,
               [f](Stack& stack) { Call::run(f, stack); });
    return *this;
  }

  CustomClass* made_;
};

// An object as a value, and back.
template <typename C, typename... Args>
IValue make_custom_class(Args&&... args) {
  return IValue(make_intrusive<C>(std::forward<Args>(args)...));
}

}  // namespace flambeau::api
