#include "api/library.h"

#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "api/generated.h"

namespace flambeau::api {
namespace {

struct Place {
  KernelPlace place;
  c10::DispatchKey key;
};

Place place_of(std::optional<DispatchKey> key) {
  switch (key.value_or(DispatchKey::CatchAll)) {
    case DispatchKey::CPU:
      return {KernelPlace::Key, c10::DispatchKey::CPU};
    case DispatchKey::CUDA:
      return {KernelPlace::Key, c10::DispatchKey::CUDA};
    case DispatchKey::Meta:
      return {KernelPlace::Key, c10::DispatchKey::Meta};
    case DispatchKey::PrivateUse1:
      return {KernelPlace::Key, c10::DispatchKey::PrivateUse1};
    case DispatchKey::Autograd:
    case DispatchKey::AutogradCPU:
    case DispatchKey::AutogradCUDA:
    case DispatchKey::AutogradPrivateUse1:
    case DispatchKey::ADInplaceOrView:
      return {KernelPlace::Key, c10::DispatchKey::Autograd};
    case DispatchKey::Autocast:
    case DispatchKey::AutocastCPU:
    case DispatchKey::AutocastCUDA:
      return {KernelPlace::Key, c10::DispatchKey::Autocast};
    default:
      return {KernelPlace::Composite, c10::DispatchKey::CPU};
  }
}

std::vector<std::string> types_of(const std::vector<SchemaArgument>& declared) {
  std::vector<std::string> types;
  for (const SchemaArgument& a : declared) types.push_back(a.type);
  return types;
}

// "Tensor?" may be taken as "Tensor", which is undefined for None.
bool fits(const std::string& declared, const std::string& taken) {
  return declared == taken || declared == taken + "?" ||
         (declared == "Tensor?[]" && taken == "Tensor[]");
}

void check_types(const char* op, const char* what, const std::vector<std::string>& declared,
                 const std::vector<std::string>& taken) {
  bool ok = declared.size() == taken.size();
  for (size_t i = 0; ok && i < declared.size(); ++i) {
    const bool is_absent_tensor = declared[i] == "Tensor?" && taken[i] == "Tensor";
    ok = declared[i] == taken[i] || is_absent_tensor || fits(declared[i], taken[i]);
  }
  if (ok) return;
  const auto list = [](const std::vector<std::string>& types) {
    std::string text = "(";
    for (const std::string& t : types) text += (text.size() > 1 ? ", " : "") + t;
    return text + ")";
  };
  fail(ErrorKind::Runtime, op, ": expected a C++ function with ", what, " ", list(declared),
       " as the schema says, got ", list(taken));
}

// The kernels of aten's operators for an out-of-tree device. Never removed.
struct DeviceKernels {
  std::shared_mutex mutex;
  std::unordered_map<const OperatorEntry*, std::shared_ptr<StackKernel>> by_operator;
};
DeviceKernels& device_kernels() {
  static auto* const made = new DeviceKernels;
  return *made;
}

void run_for_device(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  std::shared_ptr<StackKernel> kernel;
  {
    DeviceKernels& all = device_kernels();
    const std::shared_lock lock(all.mutex);
    kernel = all.by_operator.at(&op);
  }
  (*kernel)(keys, stack);
}

void check_fits(const DefinedOperator& op, const boxing::Signature& signature) {
  check_types(op.name, "arguments", types_of(op.parsed_arguments), signature.arguments);
  check_types(op.name, "results", types_of(op.parsed_results), signature.results);
}

void check_fits(const DefinedOperator& op, const CppFunction& f) {
  if (!f.is_boxed) check_fits(op, f.signature);
}

std::string schema_of(const std::string& name, const boxing::Signature& signature) {
  std::string text = name + "(";
  for (size_t i = 0; i < signature.arguments.size(); ++i)
    text += text_of(i ? ", " : "", signature.arguments[i], " _", i);
  text += ") -> ";
  if (signature.results.size() == 1) return text + signature.results[0];
  text += "(";
  for (size_t i = 0; i < signature.results.size(); ++i)
    text += text_of(i ? ", " : "", signature.results[i]);
  return text + ")";
}

std::string without_namespace(const std::string& name) {
  const size_t colons = name.find("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

}  // namespace

OperatorsInit::OperatorsInit(const OperatorLibrary& library) {
  try {
    register_library(library);
  } catch (const std::exception& error) {
    keep_library_error(error.what());
  }
}

Library::Library(Kind kind, std::string ns, std::optional<DispatchKey> key)
    : kind_(kind), namespace_(std::move(ns)), key_(key) {
  static std::mutex mutex;
  static auto* const owned = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  check(kind != DEF || owned->insert(namespace_).second, "TORCH_LIBRARY(", namespace_,
        "): expected one block for the namespace (Only a single TORCH_LIBRARY can be used), got a ",
        "second one; use TORCH_LIBRARY_FRAGMENT for further definitions");
}

LibraryInit::LibraryInit(Library::Kind kind, const char* ns, std::optional<DispatchKey> key,
                         void (*block)(Library&)) {
  try {
    Library library(kind, ns, key);
    block(library);
  } catch (const std::exception& error) {
    keep_library_error(error.what());
  }
}

Library& Library::define(const std::string& schema) {
  check(kind_ != IMPL, "TORCH_LIBRARY_IMPL(", namespace_, "): expected kernels only, got a ",
        "definition: ", schema);
  define_operator(namespace_, schema);
  return *this;
}

Library& Library::define(const std::string& name_or_schema, CppFunction f) {
  const bool is_name = name_or_schema.find('(') == std::string::npos;
  check(kind_ != IMPL, "TORCH_LIBRARY_IMPL(", namespace_, "): expected kernels only, got a ",
        "definition: ", name_or_schema);
  DefinedOperator* const op = define_operator(
      namespace_,
      is_name ? schema_of(without_namespace(name_or_schema), f.signature) : name_or_schema);
  check_fits(*op, f.signature);
  const Place at = place_of(f.key ? f.key : key_);
  op->set(at.place, at.key, std::move(f.kernel));
  return *this;
}

Library& Library::implement(const std::string& name, CppFunction f) {
  const std::string full = text_of(namespace_, "::", without_namespace(name));
  const Place at = place_of(f.key ? f.key : key_);
  if (namespace_ == "aten" && at.place == KernelPlace::Key &&
      at.key == c10::DispatchKey::PrivateUse1)
    return implement_for_device(without_namespace(name), std::move(f));
  check(
      namespace_ != "aten", full,
      ": expected an operator outside of aten, got one of aten, whose kernels cannot be replaced");
  when_defined(full, [at, f = std::move(f)](DefinedOperator& op) {
    check_fits(op, f);
    op.set(at.place, at.key, f.kernel);
  });
  return *this;
}

Library& Library::implement_for_device(const std::string& name, CppFunction f) {
  auto* const op = const_cast<OperatorEntry*>(find_operator(name));
  check(op != nullptr, "TORCH_LIBRARY_IMPL(aten, PrivateUse1): expected an operator of aten, got '",
        name, "'");
  if (!f.is_boxed) {
    check_types(op->name, "arguments", types_of(schema_arguments(op->schema)),
                f.signature.arguments);
    check_types(op->name, "results", types_of(schema_results(op->schema)), f.signature.results);
  }
  {
    DeviceKernels& all = device_kernels();
    const std::lock_guard lock(all.mutex);
    all.by_operator[op] = std::make_shared<StackKernel>(std::move(f.kernel));
  }
  set_boxed_kernel(*op, c10::DispatchKey::PrivateUse1, run_for_device);
  return *this;
}

void OperatorHandle::check_signature(const boxing::Signature& signature) const {
  if (const DefinedOperator* const op = find_defined_operator(op_.name)) check_fits(*op, signature);
}

Dispatcher& Dispatcher::singleton() {
  static Dispatcher one;
  return one;
}

OperatorHandle Dispatcher::findSchemaOrThrow(const char* name, const char* overload) const {
  std::string full = name;
  if (full.starts_with("aten::")) full = full.substr(6);
  if (*overload) full += text_of(".", overload);
  const OperatorEntry* const op = find_operator(full);
  check(op != nullptr, "Could not find schema for ", name, ".", overload);
  return OperatorHandle(*op);
}

}  // namespace flambeau::api
