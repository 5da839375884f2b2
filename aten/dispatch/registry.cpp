#include <algorithm>
#include <atomic>
#include <mutex>

#include "aten/dispatch/boxing.h"
#include "aten/dispatch/defined_operator.h"
#include "aten/dispatch/fallbacks.h"
#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/operator_library.h"
#include "aten/dispatch/operator_traits.h"

namespace flambeau {
namespace {

std::vector<OperatorEntry*>& entries() {
  static auto* const all = new std::vector<OperatorEntry*>;
  return *all;
}

// Registration happens at load and from Python; calls never take this lock.
std::mutex& registration_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::atomic<BoxedKernel> fallbacks[kNumDispatchKeys];
std::atomic<BoxedKernel> default_fallbacks[kNumDispatchKeys];

template <typename T>
void publish(T& slot, T value) {
  __atomic_store_n(&slot, value, __ATOMIC_RELEASE);
}

// The table lives as long as the process, because calls read it without the lock.
void publish_boxed(OperatorEntry& op, DispatchKey key, BoxedKernel kernel) {
  if (!op.boxed && !kernel) return;
  if (!op.boxed) publish(op.boxed, new BoxedKernel[kNumDispatchKeys]());
  publish(op.boxed[static_cast<int>(key)], kernel);
}

bool by_name(const OperatorEntry* a, std::string_view name) { return a->name < name; }

}  // namespace

void register_operators(OperatorEntry* const* first, size_t count) {
  const std::lock_guard lock(registration_mutex());
  std::vector<OperatorEntry*>& all = entries();
  all.insert(all.end(), first, first + count);
  std::sort(all.begin(), all.end(), [](const OperatorEntry* a, const OperatorEntry* b) {
    return std::string_view(a->name) < b->name;
  });
  const auto twin = std::adjacent_find(all.begin(), all.end(), [](auto* a, auto* b) {
    return std::string_view(a->name) == b->name;
  });
  check(twin == all.end(), "operator ", twin == all.end() ? "" : (*twin)->name,
        " is registered twice");
}

const std::vector<OperatorEntry*>& all_operators() { return entries(); }

const OperatorEntry* find_operator(std::string_view name) {
  if (name.find("::") != std::string_view::npos) {
    if (const OperatorEntry* const op = find_library_operator(name)) return op;
    return find_defined_operator(name);
  }
  const std::vector<OperatorEntry*>& all = entries();
  const auto at = std::lower_bound(all.begin(), all.end(), name, by_name);
  return at != all.end() && name == (*at)->name ? *at : nullptr;
}

void set_boxed_fallback(DispatchKey key, BoxedKernel fallback) {
  fallbacks[static_cast<int>(key)].store(fallback, std::memory_order_release);
}

BoxedKernel boxed_fallback(DispatchKey key) {
  return fallbacks[static_cast<int>(key)].load(std::memory_order_acquire);
}

void set_default_fallback(DispatchKey key, BoxedKernel fallback) {
  default_fallbacks[static_cast<int>(key)].store(fallback, std::memory_order_release);
}

BoxedKernel default_fallback(DispatchKey key) {
  return default_fallbacks[static_cast<int>(key)].load(std::memory_order_acquire);
}

void set_kernel(OperatorEntry& op, DispatchKey key, void* unboxed) {
  const std::lock_guard lock(registration_mutex());
  publish(op.kernels[static_cast<int>(key)], unboxed);
  publish_boxed(op, key, nullptr);
}

void set_boxed_kernel(OperatorEntry& op, DispatchKey key, BoxedKernel kernel) {
  const std::lock_guard lock(registration_mutex());
  check(!kernel || op.boxing_adapter, op.name,
        ": expected an operator that can be boxed, got one that cannot");
  // A call that reads the adapter must find the boxed kernel, so a kernel is published before the
  // adapter and withdrawn after it.
  void* const adapter = kernel ? op.boxing_adapter : nullptr;
  if (!kernel) publish(op.kernels[static_cast<int>(key)], adapter);
  publish_boxed(op, key, kernel);
  if (kernel) publish(op.kernels[static_cast<int>(key)], adapter);
}

namespace {

BoxedKernel boxed_kernel_of(const OperatorEntry& op, int key) {
  if (const BoxedKernel kernel = op.boxed_at(key)) return kernel;
  if (op.kernel_at(key)) return nullptr;
  const BoxedKernel fallback = fallbacks[key].load(std::memory_order_acquire);
  return fallback ? fallback : default_fallbacks[key].load(std::memory_order_acquire);
}

// The outermost key that has a kernel or a fallback; -1 if there is none.
int runnable_key(const OperatorEntry& op, DispatchKeySet keys) {
  while (!keys.empty()) {
    const int key = keys.highest();
    if (op.kernel_at(key) || (op.boxing_adapter && boxed_kernel_of(op, key))) return key;
    keys = keys.below(static_cast<DispatchKey>(key));
  }
  return -1;
}

[[noreturn]] void fail_lookup(const OperatorEntry& op, DispatchKeySet keys) {
  const DispatchKeySet backends = keys & kBackendKeys;
  for (const DeviceType t : {DeviceType::CUDA, DeviceType::PrivateUse1}) {
    if (backends.has(backend_key(t)) && !has_allocator(t))
      fail_no_backend(t, ErrorKind::NotImplemented);
  }
  std::string supported;
  for (int key = 0; key < kNumDispatchKeys; ++key) {
    if (!op.kernels[key] || !kBackendKeys.has(static_cast<DispatchKey>(key))) continue;
    if (!supported.empty()) supported.append(", ");
    supported.append(name_of(static_cast<DispatchKey>(key)));
  }
  const char* backend =
      backends.empty() ? "(no backend)" : name_of(static_cast<DispatchKey>(backends.highest()));
  fail(ErrorKind::NotImplemented, "Could not run '", op.name, "' with arguments from the '",
       backend, "' backend: it has kernels for [", supported, "]");
}

}  // namespace

void fail_absent(const OperatorEntry& op) {
  fail(ErrorKind::Type, op.name,
       ": expected a Tensor for each argument that must be one, got None");
}

void* OperatorEntry::lookup_slow(DispatchKeySet keys) const {
  const int key = runnable_key(*this, keys);
  if (key < 0) fail_lookup(*this, keys);
  void* const kernel = kernel_at(key);
  return kernel ? kernel : boxing_adapter;
}

thread_local constinit const OperatorEntry* boxing::adapted = nullptr;

void boxing::check_results(const OperatorEntry& op, const Stack& stack, size_t expected) {
  check(stack.size() == expected, op.name, ": expected the boxed kernel to leave ", expected,
        " results, got ", stack.size());
}

void run_boxed(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const int key = runnable_key(op, keys);
  if (key < 0) fail_lookup(op, keys);
  if (const BoxedKernel kernel = boxed_kernel_of(op, key)) return kernel(op, keys, stack);
  // Another thread has put an unboxed kernel in the place of the boxed one since the call began.
  void* const kernel = op.kernel_at(key);
  check(kernel && kernel != op.boxing_adapter, op.name, ": expected a boxed kernel for ",
        name_of(static_cast<DispatchKey>(key)), ", got none");
  op.call_boxed(kernel, keys, stack);
}

namespace {

// The keys of the tensors; of the device argument if the operator takes no tensors.
DispatchKeySet keys_of_stack(const OperatorEntry& op, const Stack& stack) {
  DispatchKeySet tensors, device, layout;
  for (size_t i = 0; i < stack.size(); ++i) {
    const IValue::Payload& value = stack[i].payload();
    if (const auto* t = std::get_if<Tensor>(&value)) tensors = tensors | keys_of(*t);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
      tensors = tensors | keys_of(TensorList(*list));
    if (const auto* d = std::get_if<Device>(&value)) device = backend_key(d->type);
    if (const auto* l = std::get_if<Layout>(&value)) layout = keys_of(std::optional<Layout>(*l));
  }
  const bool has_tensors =
      op.traits && std::any_of(op.traits->arguments.begin(), op.traits->arguments.end(),
                               [](const ArgumentTraits& argument) {
                                 return argument.kind != ArgumentKind::Other;
                               });
  return keys_or_cpu((has_tensors ? tensors : device) | layout);
}

}  // namespace

void call_boxed(const OperatorEntry& op, Stack& stack) {
  redispatch_boxed(op, effective_keys(keys_of_stack(op, stack)), stack);
}

void call_boxed_at(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const int backend = (keys_of_stack(op, stack) & kBackendKeys).highest();
  check(!(keys & kBackendKeys).empty() && (keys & kBackendKeys).highest() == backend, op.name,
        ": expected dispatch keys with the backend of the arguments, ",
        name_of(static_cast<DispatchKey>(backend)), ", got keys without it");
  redispatch_boxed(op, keys, stack);
}

void redispatch_boxed(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  if (!op.call_boxed) return run_boxed(op, keys, stack);  // defined by a program
  op.call_boxed(op.lookup(keys), keys, stack);
}

}  // namespace flambeau
