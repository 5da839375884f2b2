#pragma once
// TORCH_LIBRARY: operators that a program defines, and kernels for them.
#include "api/custom_class.h"
#include "aten/dispatch/extension_messages.h"

namespace flambeau::api {

// A kernel with the types that it takes and gives back.
struct CppFunction {
  // For operators of any schema.
  using Boxed = std::function<void(const OperatorEntry& op, DispatchKeySet keys, Stack& stack)>;

  StackKernel kernel;
  Boxed boxed_kernel;  // instead of `kernel` and `signature`
  boxing::Signature signature;
  std::optional<DispatchKey> key;
  bool is_fallthrough = false;

  // A function may take the call's dispatch keys before the arguments.
  template <typename F>
    requires(!std::is_base_of_v<CppFunction, std::decay_t<F>>)
  CppFunction(F f) {  // NOLINT(google-explicit-constructor)
    using Call = boxing::KeyedCaller<typename boxing::FunctionType<F>::type>;
    signature = Call::signature();
    kernel = [f](c10::DispatchKeySet keys, Stack& stack) { Call::run(f, keys, stack); };
  }
  // A kernel for operators of any schema: it replaces the arguments on the stack by the results.
  static CppFunction boxed(StackKernel f) {
    CppFunction made;
    made.boxed_kernel = [f = std::move(f)](const OperatorEntry&, DispatchKeySet keys,
                                           Stack& stack) { f(keys, stack); };
    return made;
  }
  static CppFunction of_operator(Boxed f) {
    CppFunction made;
    made.boxed_kernel = std::move(f);
    return made;
  }
  // The same as a function of the operator and its stack, with the keys between them or without.
  template <auto* f>
  static CppFunction makeFromBoxedFunction() {
    CppFunction made;
    made.boxed_kernel = [](const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
      of_jit::Stack values = public_stack(std::move(stack));
      if constexpr (requires { f(OperatorHandle(op), keys, &values); }) {
        f(OperatorHandle(op), keys, &values);
      } else {
        f(OperatorHandle(op), &values);
      }
      stack = library_stack(std::move(values));
    };
    return made;
  }
  // The next key's kernel runs instead.
  static CppFunction makeFallthrough() {
    CppFunction made;
    made.is_fallthrough = true;
    return made;
  }

 private:
  CppFunction() = default;
};
template <typename F>
CppFunction dispatch(DispatchKey key, F&& f) {
  CppFunction made(std::forward<F>(f));
  made.key = key;
  return made;
}

class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };

  Library(Kind kind, std::string ns, std::optional<DispatchKey> key = std::nullopt);
  Kind kind() const { return kind_; }
  const std::string& ns() const { return namespace_; }
  // With a schema, or a name alone, whose schema is that of the function.
  Library& def(const char* schema) & { return define(schema); }
  template <typename F>
  Library& def(const char* name_or_schema, F&& f) & {
    return define(name_or_schema, CppFunction(std::forward<F>(f)));
  }
  template <typename F>
  Library& impl(const char* name, F&& f) & {
    return implement(name, CppFunction(std::forward<F>(f)));
  }
  template <typename F>
  Library& impl(const char* name, DispatchKey key, F&& f) & {
    return implement(name, dispatch(key, std::forward<F>(f)));
  }
  template <typename F>
  Library& impl_UNBOXED(const char* name, F* f) & {
    return implement(name, CppFunction(f));
  }
  // A kernel for all operators without one for the block's key, in TORCH_LIBRARY_IMPL(_, key, m).
  template <typename F>
  Library& fallback(F&& f) & {
    return fall_back(CppFunction(std::forward<F>(f)));
  }
  // A class whose objects operators take and Python holds: flambeau.classes.<namespace>.<name>.
  template <typename C>
  api::class_<C> class_(const std::string& name, const std::string& doc = "") & {
    check(kind_ != IMPL, "TORCH_LIBRARY_IMPL(", namespace_,
          "): expected kernels only, got a class: ", name);
    return api::class_<C>(namespace_, name, doc);
  }

 private:
  Library& define(const std::string& schema);
  Library& define(const std::string& name_or_schema, CppFunction f);
  Library& implement(const std::string& name, CppFunction f);
  Library& implement_for_device(const std::string& name, CppFunction f);
  Library& fall_back(CppFunction f);

  Kind kind_;
  std::string namespace_;
  std::optional<DispatchKey> key_;
};

// Runs a library's block when the shared object is loaded. An exception would end the process
// there, so the message is kept until the loader asks for it.
struct LibraryInit {
  LibraryInit(Library::Kind kind, const char* ns, std::optional<DispatchKey> key,
              void (*block)(Library&));
};

}  // namespace flambeau::api

#define FLAMBEAU_CONCAT_2(a, b) a##b
#define FLAMBEAU_CONCAT(a, b) FLAMBEAU_CONCAT_2(a, b)
#define FLAMBEAU_LIBRARY(kind, ns, key, m, id)                                                   \
  static void FLAMBEAU_CONCAT(flambeau_library_##ns##_, id)(::flambeau::api::Library&);          \
  static const ::flambeau::api::LibraryInit FLAMBEAU_CONCAT(flambeau_init_##ns##_, id)(          \
      ::flambeau::api::Library::kind, #ns, key, &FLAMBEAU_CONCAT(flambeau_library_##ns##_, id)); \
  void FLAMBEAU_CONCAT(flambeau_library_##ns##_, id)([[maybe_unused]] ::flambeau::api::Library & m)
#define TORCH_LIBRARY(ns, m) FLAMBEAU_LIBRARY(DEF, ns, std::nullopt, m, __COUNTER__)
#define TORCH_LIBRARY_FRAGMENT(ns, m) FLAMBEAU_LIBRARY(FRAGMENT, ns, std::nullopt, m, __COUNTER__)
#define TORCH_LIBRARY_IMPL(ns, k, m) \
  FLAMBEAU_LIBRARY(IMPL, ns, ::flambeau::api::DispatchKey::k, m, __COUNTER__)
#define TORCH_FN(f) (&f)
#define TORCH_SELECTIVE_NAME(name) name
#define TORCH_SELECTIVE_SCHEMA(schema) schema
