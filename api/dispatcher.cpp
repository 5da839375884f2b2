#include "api/dispatcher.h"

#include <map>
#include <mutex>
#include <ostream>

namespace flambeau::api {
namespace {

// "Tensor?" may be taken as "Tensor", which is undefined for None.
bool fits(const std::string& declared, const std::string& taken) {
  return declared == taken || declared == taken + "?" ||
         (declared == "Tensor?[]" && taken == "Tensor[]");
}

std::string entry_name(const OperatorName& name) {
  std::string full = name.name;
  if (full.starts_with("aten::")) full = full.substr(6);
  if (!name.overload_name.empty()) full += text_of(".", name.overload_name);
  return full;
}

}  // namespace

void of_jit::check_holds(const Stack& stack, size_t count) {
  check(stack.size() >= count, "stack: expected ", count, " values or more, got ", stack.size());
}

std::ostream& operator<<(std::ostream& out, const OperatorName& name) {
  out << name.name;
  return name.overload_name.empty() ? out : out << '.' << name.overload_name;
}

FunctionSchema::FunctionSchema(const OperatorEntry& op) : text_(op.schema) {
  const std::string full = op.name;
  const size_t colons = full.find("::"), begin = colons == std::string::npos ? 0 : colons + 2;
  const size_t dot = full.find('.', begin);
  name_.name = (begin ? "" : "aten::") + full.substr(0, dot);
  if (dot != std::string::npos) name_.overload_name = full.substr(dot + 1);
  if (!begin) text_ = "aten::" + text_;
  for (const SchemaArgument& a : schema_arguments(op.schema)) arguments_.emplace_back(a);
  for (const SchemaArgument& r : schema_results(op.schema))
    returns_.emplace_back(SchemaArgument{r.type, "", r.is_mutable});
}

bool FunctionSchema::is_mutable() const {
  for (const Argument& a : arguments_) {
    if (a.alias_info()) return true;
  }
  return false;
}

std::ostream& operator<<(std::ostream& out, const FunctionSchema& schema) {
  return out << schema.text();
}

std::vector<std::string> types_of(const std::vector<SchemaArgument>& declared) {
  std::vector<std::string> types;
  for (const SchemaArgument& a : declared) types.push_back(a.type);
  return types;
}

void check_types(const char* op, const char* what, const std::vector<std::string>& declared,
                 const std::vector<std::string>& taken) {
  bool ok = declared.size() == taken.size();
  for (size_t i = 0; ok && i < declared.size(); ++i) ok = fits(declared[i], taken[i]);
  if (ok) return;
  const auto list = [](const std::vector<std::string>& types) {
    std::string text = "(";
    for (const std::string& t : types) text += (text.size() > 1 ? ", " : "") + t;
    return text + ")";
  };
  fail(ErrorKind::Runtime, op, ": expected a C++ function with ", what, " ", list(declared),
       " as the schema says, got ", list(taken));
}

of_jit::Stack public_stack(flambeau::Stack stack) {
  of_jit::Stack values;
  for (size_t i = 0; i < stack.size(); ++i) values.emplace_back(std::move(stack[i]));
  return values;
}
flambeau::Stack library_stack(of_jit::Stack stack) {
  flambeau::Stack values;
  for (IValue& value : stack) values.push(std::move(value));
  return values;
}

const FunctionSchema& OperatorHandle::schema() const {
  static std::mutex mutex;
  static auto* const known = new std::map<const OperatorEntry*, FunctionSchema>;
  const std::lock_guard lock(mutex);
  return known->try_emplace(op_, *op_).first->second;
}

bool OperatorHandle::hasKernelForDispatchKey(DispatchKey key) const {
  const std::optional<c10::DispatchKey> found = dispatcher_key(key);
  if (!found) return false;
  const int at = static_cast<int>(*found);
  return op_->kernel_at(at) != nullptr;
}

void OperatorHandle::callBoxed(of_jit::Stack* stack) const {
  flambeau::Stack values = library_stack(std::move(*stack));
  call_boxed(*op_, values);
  *stack = public_stack(std::move(values));
}

void OperatorHandle::redispatchBoxed(PassedKeys keys, of_jit::Stack* stack) const {
  flambeau::Stack values = library_stack(std::move(*stack));
  redispatch_boxed(*op_, keys, values);
  *stack = public_stack(std::move(values));
}

void OperatorHandle::check_signature(const boxing::Signature& signature) const {
  check_types(op_->name, "arguments", types_of(schema_arguments(op_->schema)), signature.arguments);
  check_types(op_->name, "results", types_of(schema_results(op_->schema)), signature.results);
}

Dispatcher& Dispatcher::singleton() {
  static Dispatcher one;
  return one;
}

std::optional<OperatorHandle> Dispatcher::findSchema(const OperatorName& name) const {
  const OperatorEntry* const op = find_operator(entry_name(name));
  return op ? std::optional<OperatorHandle>(*op) : std::nullopt;
}

OperatorHandle Dispatcher::findSchemaOrThrow(const char* name, const char* overload) const {
  const std::optional<OperatorHandle> found = findSchema({name, overload});
  check(found.has_value(), "Could not find schema for ", name, ".", overload);
  return *found;
}

}  // namespace flambeau::api
