#pragma once
// Operators by their names: schemas, typed and boxed calls, and the stacks of boxed calls.
#include <memory>

#include "api/dict.h"
#include "api/dispatch_keys.h"
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/defined_operator.h"

namespace flambeau::api {

// --- stacks --------------------------------------------------------------------------------------

namespace of_jit {

// Arguments in the order of the schema; a boxed kernel replaces them by the results.
using Stack = std::vector<IValue>;

template <typename... Values>
void push(Stack& stack, Values&&... values) {
  (stack.push_back(IValue(std::forward<Values>(values))), ...);
}
// RuntimeError for a stack with fewer values.
void check_holds(const Stack& stack, size_t count);
inline IValue pop(Stack& stack) {
  check_holds(stack, 1);
  IValue last = std::move(stack.back());
  stack.pop_back();
  return last;
}
inline std::vector<IValue> pop(Stack& stack, size_t count) {
  check_holds(stack, count);
  const auto first = stack.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<IValue> last(std::make_move_iterator(first), std::make_move_iterator(stack.end()));
  stack.erase(first, stack.end());
  return last;
}
template <typename T>
void pop(Stack& stack, T& value) {
  value = pop(stack).to<T>();
}
template <typename T, typename U, typename... Rest>
void pop(Stack& stack, T& first, U& second, Rest&... rest) {
  std::vector<IValue> last = pop(stack, 2 + sizeof...(Rest));
  size_t i = 0;
  first = last[i++].template to<T>();
  second = last[i++].template to<U>();
  ((rest = last[i++].template to<Rest>()), ...);
}
inline void drop(Stack& stack, size_t count) { pop(stack, count); }
// Value `i` of the last `count`.
inline IValue& peek(Stack& stack, size_t i, size_t count) {
  check_holds(stack, count);
  return stack[stack.size() - count + i];
}
inline const IValue& peek(const Stack& stack, size_t i, size_t count) {
  check_holds(stack, count);
  return stack[stack.size() - count + i];
}
inline ArrayRef<IValue> last(const Stack& stack, size_t count) {
  check_holds(stack, count);
  return {stack.data() + (stack.size() - count), count};
}

}  // namespace of_jit

// --- schemas -------------------------------------------------------------------------------------

struct OperatorName {
  std::string name;  // "ns::op"
  std::string overload_name;

  friend bool operator==(const OperatorName&, const OperatorName&) = default;
  friend std::ostream& operator<<(std::ostream& out, const OperatorName& name);
};

// One argument or result of a schema.
class Argument {
 public:
  struct TypeText {
    std::string text;
    const std::string& str() const { return text; }
  };
  struct AliasInfo {
    bool is_write;
    bool isWrite() const { return is_write; }
  };

  explicit Argument(const SchemaArgument& declared)
      : name_(declared.name), type_{declared.type}, alias_{declared.is_mutable} {}
  const std::string& name() const { return name_; }
  const TypeText* type() const { return &type_; }
  // Null for what the operator does not write to.
  const AliasInfo* alias_info() const { return alias_.is_write ? &alias_ : nullptr; }

 private:
  std::string name_;
  TypeText type_;
  AliasInfo alias_;
};

class FunctionSchema {
 public:
  explicit FunctionSchema(const OperatorEntry& op);
  const std::string& name() const { return name_.name; }
  const std::string& overload_name() const { return name_.overload_name; }
  const OperatorName& operator_name() const { return name_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  const std::vector<Argument>& returns() const { return returns_; }
  bool is_mutable() const;
  const std::string& text() const { return text_; }
  friend std::ostream& operator<<(std::ostream& out, const FunctionSchema& schema);

 private:
  OperatorName name_;
  std::string text_;
  std::vector<Argument> arguments_, returns_;
};

// --- calls ---------------------------------------------------------------------------------------

template <typename F>
class TypedOperatorHandle;
template <typename R, typename... Args>
class TypedOperatorHandle<R(Args...)> {
 public:
  explicit TypedOperatorHandle(const OperatorEntry& op) : op_(op) {}
  // With the keys of the arguments and of the thread.
  R call(Args... args) const {
    Stack stack;
    boxing::Caller<R(Args...)>::box(stack, args...);
    call_boxed(op_, stack);
    return result_of(stack, args...);
  }
  // With these keys: what a kernel does to go on.
  R redispatch(PassedKeys keys, Args... args) const {
    Stack stack;
    boxing::Caller<R(Args...)>::box(stack, args...);
    redispatch_boxed(op_, keys, stack);
    return result_of(stack, args...);
  }

 private:
  static R result_of(Stack& stack, Args&... args) {
    if constexpr (std::is_lvalue_reference_v<R>) {
      return first_of<R>(args...);
    } else if constexpr (!std::is_void_v<R>) {
      return boxing::Results<R>::take(stack);
    }
  }
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
  explicit OperatorHandle(const OperatorEntry& op) : op_(&op) {}
  // RuntimeError if the schema has other types.
  template <typename F>
  TypedOperatorHandle<F> typed() const {
    check_signature(boxing::Caller<F>::signature());
    return TypedOperatorHandle<F>(*op_);
  }
  // Read on first use and kept.
  const FunctionSchema& schema() const;
  const OperatorName& operator_name() const { return schema().operator_name(); }
  bool hasSchema() const { return true; }
  bool hasKernelForDispatchKey(DispatchKey key) const;
  void callBoxed(of_jit::Stack* stack) const;
  void callBoxed(of_jit::Stack& stack) const { callBoxed(&stack); }
  void redispatchBoxed(PassedKeys keys, of_jit::Stack* stack) const;
  const OperatorEntry& entry() const { return *op_; }
  friend bool operator==(const OperatorHandle& a, const OperatorHandle& b) {
    return a.op_ == b.op_;
  }

 private:
  void check_signature(const boxing::Signature& signature) const;
  const OperatorEntry* op_;
};

class Dispatcher {
 public:
  static Dispatcher& singleton();
  static Dispatcher& realSingleton() { return singleton(); }
  // RuntimeError if there is no such operator.
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const;
  std::optional<OperatorHandle> findSchema(const OperatorName& name) const;
  std::optional<OperatorHandle> findOp(const OperatorName& name) const { return findSchema(name); }
};

// RuntimeError unless a C++ function has these types.
void check_types(const char* op, const char* what, const std::vector<std::string>& declared,
                 const std::vector<std::string>& taken);
std::vector<std::string> types_of(const std::vector<SchemaArgument>& declared);

// Between public stacks and those of the library.
of_jit::Stack public_stack(flambeau::Stack stack);
flambeau::Stack library_stack(of_jit::Stack stack);

}  // namespace flambeau::api
