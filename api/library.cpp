#include "api/library.h"

#include <map>
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
  std::optional<c10::DispatchKey> backend = std::nullopt;  // the only one that the kernel is for
  bool is_last = false;  // of a key that is below this one in PyTorch: other kernels come first
};

Place place_of(std::optional<DispatchKey> given) {
  const DispatchKey key = given.value_or(DispatchKey::CatchAll);
  switch (key) {
    case DispatchKey::CompositeImplicitAutograd:
    case DispatchKey::CompositeExplicitAutograd:
    case DispatchKey::CompositeExplicitAutogradNonFunctional:
    case DispatchKey::CatchAll:
      return {KernelPlace::Composite, c10::DispatchKey::CPU};
    default: {
      const std::optional<c10::DispatchKey> found = dispatcher_key(key);
      check(found.has_value(), "TORCH_LIBRARY_IMPL: expected a dispatch key of flambeau, got ",
            toString(key), ", which no call reaches");
      return {KernelPlace::Key, *found, backend_of_key(key), key == DispatchKey::ADInplaceOrView};
    }
  }
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

void run_for_device(const OperatorEntry& op, c10::DispatchKeySet keys, Stack& stack) {
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

// The kernel for one operator and one place.
StackKernel kernel_for(const OperatorEntry& op, const CppFunction& f, Place at) {
  if (f.is_fallthrough) {
    check(at.place == KernelPlace::Key, op.name,
          ": expected a dispatch key to fall through, got a kernel for all backends");
    return [&op, key = at.key](c10::DispatchKeySet keys, Stack& stack) {
      redispatch_boxed(op, keys.below(key), stack);
    };
  }
  if (!f.boxed_kernel) return f.kernel;
  return [&op, boxed = f.boxed_kernel](c10::DispatchKeySet keys, Stack& stack) {
    boxed(op, keys, stack);
  };
}

// The kernels of one operator for one key of the dispatcher: for each backend, or for all.
struct KernelsOfKey {
  std::optional<StackKernel> by_backend[kNumDispatchKeys];
  std::optional<StackKernel> others;
  std::optional<StackKernel> last;

  void run(const OperatorEntry& op, c10::DispatchKey key, c10::DispatchKeySet keys,
           Stack& stack) const {
    const c10::DispatchKeySet backends = keys & c10::kBackendKeys;
    const std::optional<StackKernel>& own =
        backends.empty() ? others : by_backend[backends.highest()];
    const std::optional<StackKernel>& chosen = own ? own : others ? others : last;
    if (chosen) return (*chosen)(keys, stack);
    redispatch_boxed(op, keys.below(key), stack);
  }
};

// Registers a kernel beside those for other backends. Blocks of libraries run one at a time, and
// calls keep the table that they found.
void set_kernel_at(DefinedOperator& op, Place at, StackKernel kernel) {
  if (at.place == KernelPlace::Composite) return op.set(at.place, at.key, std::move(kernel));
  static std::mutex mutex;
  static auto* const tables = new std::map<std::pair<std::string, int>, KernelsOfKey>;
  const std::lock_guard lock(mutex);
  KernelsOfKey& table = (*tables)[{op.full_name, static_cast<int>(at.key)}];
  (at.is_last   ? table.last
   : at.backend ? table.by_backend[static_cast<int>(*at.backend)]
                : table.others) = std::move(kernel);
  op.set(at.place, at.key, [&op, key = at.key, table](c10::DispatchKeySet keys, Stack& stack) {
    table.run(op, key, keys, stack);
  });
}

bool has_any_schema(const CppFunction& f) { return f.is_fallthrough || f.boxed_kernel; }

// The function of a fallback, which the dispatcher calls by a plain pointer. Never removed.
CppFunction::Boxed& device_fallback_of_program() {
  static auto* const made = new CppFunction::Boxed;
  return *made;
}
void run_fallback_of_program(const OperatorEntry& op, c10::DispatchKeySet keys, Stack& stack) {
  device_fallback_of_program()(op, keys, stack);
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
  check(!is_name || !has_any_schema(f), namespace_, "::", name_or_schema,
        ": expected a schema with a boxed function, got a name");
  DefinedOperator* const op = define_operator(
      namespace_,
      is_name ? schema_of(without_namespace(name_or_schema), f.signature) : name_or_schema);
  if (!has_any_schema(f)) check_fits(*op, f.signature);
  const Place at = place_of(f.key ? f.key : key_);
  set_kernel_at(*op, at, kernel_for(*op, f, at));
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
    if (!has_any_schema(f)) check_fits(op, f.signature);
    set_kernel_at(op, at, kernel_for(op, f, at));
  });
  return *this;
}

Library& Library::implement_for_device(const std::string& name, CppFunction f) {
  auto* const op = const_cast<OperatorEntry*>(find_operator(name));
  check(op != nullptr, "TORCH_LIBRARY_IMPL(aten, PrivateUse1): expected an operator of aten, got '",
        name, "'");
  check(
      !f.is_fallthrough, "aten::", name,
      ": expected a kernel for PrivateUse1, got a fallthrough, below which there is no other key");
  if (!f.boxed_kernel) {
    check_types(op->name, "arguments", types_of(schema_arguments(op->schema)),
                f.signature.arguments);
    check_types(op->name, "results", types_of(schema_results(op->schema)), f.signature.results);
  }
  {
    DeviceKernels& all = device_kernels();
    const std::lock_guard lock(all.mutex);
    all.by_operator[op] = std::make_shared<StackKernel>(
        kernel_for(*op, f, {KernelPlace::Key, c10::DispatchKey::PrivateUse1}));
  }
  set_boxed_kernel(*op, c10::DispatchKey::PrivateUse1, run_for_device);
  return *this;
}

Library& Library::fall_back(CppFunction f) {
  check(kind_ == IMPL && namespace_ == "_",
        "fallback: expected TORCH_LIBRARY_IMPL(_, key, m), got a ", "block of namespace ",
        namespace_);
  const Place at = place_of(key_);
  const bool is_of_device = at.place == KernelPlace::Key && at.key == c10::DispatchKey::PrivateUse1;
  if (f.is_fallthrough) {
    // Operators without a kernel for these keys are passed through anyway.
    const bool is_passed_through =
        at.place == KernelPlace::Key &&
        (at.key == c10::DispatchKey::Autograd || at.key == c10::DispatchKey::Autocast);
    check(is_passed_through,
          "fallback: expected a key of Autograd or Autocast to fall through, got ",
          toString(key_.value_or(DispatchKey::CatchAll)));
    return *this;
  }
  check(is_of_device && f.boxed_kernel,
        "fallback: expected a boxed function for PrivateUse1, or makeFallthrough() for Autograd, "
        "got ",
        f.boxed_kernel ? "one for " : "an unboxed function for ",
        toString(key_.value_or(DispatchKey::CatchAll)));
  device_fallback_of_program() = std::move(f.boxed_kernel);
  set_boxed_fallback(at.key, run_fallback_of_program);
  return *this;
}

}  // namespace flambeau::api
