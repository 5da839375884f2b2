#pragma once
// Operators that programs define while they run, by TORCH_LIBRARY: entries of the dispatcher whose
// kernels are boxed. They live as long as the process, in a table of their own.
#include <deque>
#include <functional>
#include <string>

#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/operator_traits.h"
#include "aten/dispatch/stack.h"

namespace flambeau {

// Where a kernel can be registered: a key, or all backends, with a derivative of its own or not.
enum class KernelPlace : uint8_t { Key, Composite };

using StackKernel = std::function<void(DispatchKeySet keys, Stack& stack)>;

struct SchemaArgument {
  std::string type;  // without alias and size: "Tensor", "int[]", "Tensor?"
  std::string name;
  bool is_mutable;
};

struct DefinedOperator : OperatorEntry {
  std::string full_name;  // "ns::name.overload"
  std::string full_schema;
  std::vector<SchemaArgument> parsed_arguments;
  std::vector<SchemaArgument> parsed_results;

  // A kernel that another library has registered for this place is replaced.
  void set(KernelPlace place, DispatchKey key, StackKernel kernel);
  bool has_kernel(DispatchKey key) const { return static_cast<bool>(at_[index(key)]); }
  void run(DispatchKey key, DispatchKeySet keys, Stack& stack) const;

 private:
  friend DefinedOperator* define_operator(std::string_view space, std::string_view schema);
  static size_t index(DispatchKey key) { return static_cast<size_t>(key); }
  void publish();
  void make_traits();

  StackKernel at_[kNumDispatchKeys];
  StackKernel composite_;
  std::vector<ArgumentTraits> argument_traits_;
  std::vector<ResultTraits> result_traits_;
  OperatorTraits own_traits_ = {};
};

// The arguments and results in the text of a schema. RuntimeError for text that is not a schema.
std::vector<SchemaArgument> schema_arguments(std::string_view schema);
std::vector<SchemaArgument> schema_results(std::string_view schema);
// "name.overload(Tensor x, int n=1) -> Tensor" of a namespace. RuntimeError for text that is not a
// schema, and for a name that is defined already.
DefinedOperator* define_operator(std::string_view space, std::string_view schema);
// nullptr if there is none.
DefinedOperator* find_defined_operator(std::string_view name);
std::vector<DefinedOperator*> defined_operators();
// Calls `ready` once the operator is defined, which may be now.
void when_defined(const std::string& name, std::function<void(DefinedOperator&)> ready);

}  // namespace flambeau
