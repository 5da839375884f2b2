#pragma once
// TORCH_LIBRARY: operators that a program defines, and kernels for them.
#include "api/boxing.h"
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/defined_operator.h"
#include "aten/dispatch/extension_messages.h"

namespace flambeau::api {

// Keys under the names that C++ programs use; several names mean one key of the dispatcher.
enum class DispatchKey : uint8_t {
  Undefined,
  CPU,
  CUDA,
  Meta,
  PrivateUse1,
  Autograd,
  AutogradCPU,
  AutogradCUDA,
  AutogradPrivateUse1,
  ADInplaceOrView,
  Autocast,
  AutocastCPU,
  AutocastCUDA,
  CompositeImplicitAutograd,
  CompositeExplicitAutograd,
  CompositeExplicitAutogradNonFunctional,
  CatchAll,
};

// A kernel with the types that it takes and gives back.
struct CppFunction {
  StackKernel kernel;
  boxing::Signature signature;
  std::optional<DispatchKey> key;

  template <typename F>
    requires(!std::is_base_of_v<CppFunction, std::decay_t<F>>)
  CppFunction(F f) {  // NOLINT(google-explicit-constructor)
    using Call = boxing::Caller<typename boxing::FunctionType<F>::type>;
    signature = Call::signature();
    kernel = [f](DispatchKeySet, Stack& stack) { Call::run(f, stack); };
  }
  // A kernel for operators of any schema: it replaces the arguments on the stack by the results.
  static CppFunction boxed(StackKernel f) {
    CppFunction made([] {});
    made.kernel = std::move(f);
    made.is_boxed = true;
    return made;
  }
  bool is_boxed = false;
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

 private:
  Library& define(const std::string& schema);
  Library& define(const std::string& name_or_schema, CppFunction f);
  Library& implement(const std::string& name, CppFunction f);
  Library& implement_for_device(const std::string& name, CppFunction f);

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

// --- calls of operators by their name -----------------------------------------------------------

template <typename F>
class TypedOperatorHandle;
template <typename R, typename... Args>
class TypedOperatorHandle<R(Args...)> {
 public:
  explicit TypedOperatorHandle(const OperatorEntry& op) : op_(op) {}
  R call(Args... args) const {
    Stack stack;
    boxing::Caller<R(Args...)>::box(stack, args...);
    call_boxed(op_, stack);
    if constexpr (std::is_lvalue_reference_v<R>) {
      return first_of<R>(args...);
    } else if constexpr (!std::is_void_v<R>) {
      return boxing::Results<R>::take(stack);
    }
  }

 private:
  template <typename Ref, typename First, typename... Rest>
  static Ref first_of(First& first, Rest&... rest) {
    if constexpr (std::is_same_v<Ref, First&>) {
      return first;
    } else {
      return first_of<Ref>(rest...);
    }
  }
  const OperatorEntry& op_;
};

class OperatorHandle {
 public:
  explicit OperatorHandle(const OperatorEntry& op) : op_(op) {}
  template <typename F>
  TypedOperatorHandle<F> typed() const {
    check_signature(boxing::Caller<F>::signature());
    return TypedOperatorHandle<F>(op_);
  }
  const OperatorEntry& entry() const { return op_; }

 private:
  void check_signature(const boxing::Signature& signature) const;
  const OperatorEntry& op_;
};

class Dispatcher {
 public:
  static Dispatcher& singleton();
  // RuntimeError if there is no such operator.
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const;
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
