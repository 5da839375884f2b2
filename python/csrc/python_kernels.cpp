// Kernels written in Python. Each key at which an operator has such kernels gets one boxed kernel,
// which looks for the registration that applies, and runs the operator's own kernel if none does.
//
// A tensor has the key Autograd only while it is recorded, but a Python kernel for Autograd serves
// all tensors. The boxed kernels of backends therefore ask for it first.
#include "python/csrc/python_kernels.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>

#include "aten/dispatch/fallbacks.h"
#include "aten/dispatch/operator_traits.h"
#include "aten/transforms/autocast.h"
#include "python/csrc/autograd.h"
#include "python/csrc/boxed_effects.h"
#include "python/csrc/generated.h"
#include "python/csrc/native_stack.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

// What a kernel is registered for. Autograd and autocast have kernels per backend, or for all.
enum class Purpose : uint8_t { Key, Autograd, Autocast, Explicit, Implicit };
constexpr int kAnyBackend = -1;
struct Place {
  Purpose purpose;
  int key;  // of Key: the dispatch key; of Autograd and Autocast: the backend or kAnyBackend
  auto operator<=>(const Place&) const = default;
};

struct Registration {
  int64_t id;
  PyObject* function;  // owned; None for no effect (a fallthrough)
  bool with_keys;      // the function's first argument is the key set
};

struct OwnKernel {
  void* unboxed = nullptr;
  BoxedKernel boxed = nullptr;
};

// Everything about one operator; never destroyed, because threads may be in its kernels.
struct Interposed {
  std::map<Place, std::vector<Registration>> registered;  // the last one is active; under the GIL
  OwnKernel own[kNumDispatchKeys];                        // written before the key is taken over
  uint64_t taken = 0;                                     // the keys
  bool is_composite = false;  // the operator's own kernels only call other operators
};

std::unordered_map<const OperatorEntry*, std::unique_ptr<Interposed>>& table() {
  static auto* const all =
      new std::unordered_map<const OperatorEntry*, std::unique_ptr<Interposed>>();
  return *all;
}
PyObject* fallbacks[kNumDispatchKeys];  // functions, owned
int64_t last_id = 0;
thread_local constinit const OperatorEntry* redispatched = nullptr;

OwnKernel current(const OperatorEntry& op, int key) {
  return {op.kernel_at(key), op.boxed_at(key)};
}

bool has_own(const Interposed& all, const OperatorEntry& op, int key) {
  const OwnKernel own = (all.taken >> key) & 1 ? all.own[key] : current(op, key);
  return own.unboxed || own.boxed;
}

void run_own(int key, const OwnKernel& own, const OperatorEntry& op, DispatchKeySet keys,
             Stack& stack) {
  if (own.boxed) return own.boxed(op, keys, stack);
  if (own.unboxed) return op.call_boxed(own.unboxed, keys, stack);
  if (const BoxedKernel fallback = boxed_fallback(static_cast<DispatchKey>(key)))
    return fallback(op, keys, stack);
  const DispatchKeySet rest = keys.below(static_cast<DispatchKey>(key));
  if (rest.empty()) {
    fail(ErrorKind::NotImplemented, "Could not run '", op.name, "' with arguments from the '",
         name_of(static_cast<DispatchKey>(key)), "' backend: it has no kernel");
  }
  redispatch_boxed(op, rest, stack);
}

// --- the registration that applies ---------------------------------------------------------------

struct Found {
  Ref function;
  bool with_keys = false;
  Purpose purpose = Purpose::Key;
};

class Search {
 public:
  Search(const OperatorEntry& op, int key, DispatchKeySet keys) : op_(op), key_(key), keys_(keys) {
    const DispatchKeySet backends = keys & kBackendKeys;
    backend_ = backends.empty() ? kAnyBackend : backends.highest();
    is_passed_on_ = std::exchange(redispatched, nullptr) == &op;
  }

  Found run() {
    look_in(op_);
    const OperatorEntry* const other = op_.traits ? op_.traits->tensor_form : nullptr;
    if (!found_.function && other) look_in(*other);
    return std::move(found_);
  }

 private:
  bool at(const Interposed& all, Purpose purpose, int key) {
    const auto place = all.registered.find({purpose, key});
    if (place == all.registered.end() || place->second.empty()) return false;
    const Registration& last = place->second.back();
    if (last.function == Py_None) return false;
    found_ = {Ref::share(last.function), last.with_keys, purpose};
    return true;
  }
  bool at_backend(const Interposed& all, Purpose purpose) {
    return at(all, purpose, backend_) || at(all, purpose, kAnyBackend);
  }
  bool asks_autograd() const {
    if (key_ == static_cast<int>(DispatchKey::Autograd)) return true;
    const DispatchKeySet excluded(thread_state.excluded);
    return !is_passed_on_ && !excluded.has(DispatchKey::Autograd) &&
           !keys_.has(DispatchKey::Autograd);
  }
  void look_in(const OperatorEntry& op) {
    const auto entry = table().find(&op);
    if (entry == table().end()) return;
    const Interposed& all = *entry->second;
    const bool is_backend = kBackendKeys.has(static_cast<DispatchKey>(key_));
    const bool is_autograd = key_ == static_cast<int>(DispatchKey::Autograd);
    if (key_ == static_cast<int>(DispatchKey::Autocast)) {
      at_backend(all, Purpose::Autocast);
      return;
    }
    if ((is_backend || is_autograd) && asks_autograd() && at_backend(all, Purpose::Autograd))
      return;
    if (at(all, Purpose::Key, key_)) return;
    const bool is_free = all.is_composite || !has_own(all, op, key_);
    if (is_backend && is_free && at(all, Purpose::Explicit, kAnyBackend)) return;
    if ((is_backend || is_autograd) && is_free) at(all, Purpose::Implicit, kAnyBackend);
  }

  const OperatorEntry& op_;
  int key_, backend_;
  DispatchKeySet keys_;
  bool is_passed_on_;
  Found found_;
};

bool autocast_applies(DispatchKeySet keys) {
  const DeviceType device = keys.has(DispatchKey::CUDA) ? DeviceType::CUDA : DeviceType::CPU;
  return autocast::is_supported(device) && autocast::is_enabled(device);
}

// --- calls ---------------------------------------------------------------------------------------

Ref with_first(Ref first, const Ref& rest) {
  const Py_ssize_t count = PyTuple_GET_SIZE(rest.get());
  Ref all = carried(PyTuple_New(count + 1));
  PyTuple_SET_ITEM(all.get(), 0, first.release());
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(rest.get(), i)));
  return all;
}

void call_python(const Found& kernel, const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const BoxedSchema& schema = boxed_schema(op);
  const WriteCounts writes(stack, schema);
  const FreshResults fresh(stack);
  check_native_stack();
  PythonArguments arguments = python_arguments(stack, schema);
  if (kernel.with_keys) {
    const bool records = kernel.purpose == Purpose::Autograd;
    const DispatchKeySet shown = records ? keys | DispatchKey::Autograd : keys;
    arguments.positional =
        with_first(carried(PyLong_FromUnsignedLongLong(shown.bits())), arguments.positional);
  }
  // Autograd's own wrapper excludes its key as well; here it may not have been on the way.
  const bool is_below = kernel.purpose == Purpose::Key || kernel.purpose == Purpose::Explicit;
  const ExcludeKeys below(is_below ? DispatchKeySet(DispatchKey::Autograd) : DispatchKeySet());
  const Ref result = carried(
      PyObject_Call(kernel.function.get(), arguments.positional.get(), arguments.named.get()));
  writes.raise();
  replace_by_result(result.get(), op, stack, "the kernel");
  if (is_below) fresh.check_all(stack, op, "the kernel");
}

// The boxed kernel of every operator that has Python kernels at this key.
template <int key>
void interposed(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  OwnKernel own;
  {
    const WithGil gil;
    const bool is_on = key != static_cast<int>(DispatchKey::Autocast) || autocast_applies(keys);
    const Found found = is_on ? Search(op, key, keys).run() : Found();
    if (found.function) return call_python(found, op, keys, stack);
    own = table().at(&op)->own[key];
  }
  run_own(key, own, op, keys, stack);
}

// The fallback of the key, where a program has registered one.
template <int key>
void fall_back(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const WithGil gil;
  const Ref function = Ref::share(fallbacks[key]);
  if (!function) {
    fail(ErrorKind::NotImplemented, op.name, ": expected a fallback for ",
         name_of(static_cast<DispatchKey>(key)), ", got one that has been removed");
  }
  check_native_stack();
  const BoxedSchema& schema = boxed_schema(op);
  const WriteCounts writes(stack, schema);
  PythonArguments arguments = python_arguments(stack, schema);
  const Ref name = carried(PyUnicode_FromString(op.name));
  const Ref bits = carried(PyLong_FromUnsignedLongLong(keys.bits()));
  const Ref leading = with_first(bits, arguments.positional);
  const Ref positional = with_first(name, leading);
  const ExcludeKeys below(DispatchKey::Autograd);
  const Ref result =
      carried(PyObject_Call(function.get(), positional.get(), arguments.named.get()));
  writes.raise();
  replace_by_result(result.get(), op, stack, "the fallback");
}

template <int... key>
constexpr std::array<BoxedKernel, sizeof...(key)> kernels_of(std::integer_sequence<int, key...>) {
  return {interposed<key>...};
}
template <int... key>
constexpr std::array<BoxedKernel, sizeof...(key)> fallbacks_of(std::integer_sequence<int, key...>) {
  return {fall_back<key>...};
}
constexpr auto kInterposed = kernels_of(std::make_integer_sequence<int, kNumDispatchKeys>());
constexpr auto kFallbacks = fallbacks_of(std::make_integer_sequence<int, kNumDispatchKeys>());

// --- registration --------------------------------------------------------------------------------

Interposed& interposed_of(const OperatorEntry& op) {
  std::unique_ptr<Interposed>& all = table()[&op];
  if (!all) {
    all = std::make_unique<Interposed>();
    all->is_composite = is_transparent(op);
  }
  return *all;
}

// The keys at which a kernel of this place must be looked for.
uint64_t keys_of(const Interposed& all, const OperatorEntry& op, Place place) {
  const uint64_t autograd = DispatchKeySet(DispatchKey::Autograd).bits();
  if (place.purpose == Purpose::Key) return uint64_t{1} << place.key;
  if (place.purpose == Purpose::Autocast) return DispatchKeySet(DispatchKey::Autocast).bits();
  uint64_t keys = place.purpose == Purpose::Explicit ? 0 : autograd;
  for (int key = 0; key < kNumDispatchKeys; ++key) {
    if (!kBackendKeys.has(static_cast<DispatchKey>(key))) continue;
    const bool has_kernel = has_own(all, op, key);
    const bool is_asked =
        place.purpose == Purpose::Autograd ? has_kernel : all.is_composite || !has_kernel;
    if (is_asked) keys |= uint64_t{1} << key;
  }
  return keys;
}

void take_over(OperatorEntry& op, Interposed& all, uint64_t keys) {
  for (int key = 0; key < kNumDispatchKeys; ++key) {
    if (!((keys & ~all.taken) >> key & 1)) continue;
    all.own[key] = current(op, key);
    all.taken |= uint64_t{1} << key;
    set_boxed_kernel(op, static_cast<DispatchKey>(key), kInterposed[static_cast<size_t>(key)]);
  }
}

void give_back(OperatorEntry& op, Interposed& all, uint64_t keys) {
  for (int key = 0; key < kNumDispatchKeys; ++key) {
    if (!((all.taken & ~keys) >> key & 1)) continue;
    const OwnKernel own = all.own[key];
    all.taken &= ~(uint64_t{1} << key);
    if (own.boxed) {
      set_boxed_kernel(op, static_cast<DispatchKey>(key), own.boxed);
    } else {
      set_kernel(op, static_cast<DispatchKey>(key), own.unboxed);
    }
  }
}

// Takes over the keys at which the operator or its form for tensors has kernels, and no others.
void refresh(OperatorEntry& op) {
  Interposed& all = interposed_of(op);
  uint64_t keys = 0;
  const auto add = [&](const OperatorEntry& of) {
    const auto entry = table().find(&of);
    if (entry == table().end()) return;
    for (const auto& [place, registrations] : entry->second->registered) {
      if (!registrations.empty()) keys |= keys_of(all, op, place);
    }
  };
  add(op);
  if (op.traits && op.traits->tensor_form) add(*op.traits->tensor_form);
  take_over(op, all, keys);
  give_back(op, all, keys);
}

void refresh_forms(OperatorEntry& changed) {
  refresh(changed);
  for (OperatorEntry* op : all_operators()) {
    if (op->traits && op->traits->tensor_form == &changed && op != &changed) refresh(*op);
  }
}

OperatorEntry& entry_of(PyObject* name) {
  const char* const text = PyUnicode_AsUTF8(name);
  if (!text) throw PythonError();
  for (OperatorEntry* op : all_operators()) {
    if (std::string_view(op->name) == text) return *op;
  }
  fail(ErrorKind::Runtime, "ops: expected an operator that is defined, got aten::", text,
       ", which does not exist");
}
int key_from(PyObject* o) {
  const int64_t key = integer_from(o);
  check_value(key >= 0 && key < kNumDispatchKeys, "DispatchKey: expected the number of a key, got ",
              key);
  return static_cast<int>(key);
}

// --- functions of _C -----------------------------------------------------------------------------

// _add_kernel(operator, purpose, key, function, with_keys) -> number for _remove_kernel.
PyObject* add_kernel(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject *name, *function;
    int purpose, key, with_keys;
    if (!PyArg_ParseTuple(given, "UiiOp", &name, &purpose, &key, &function, &with_keys))
      return nullptr;
    check_value(purpose >= 0 && purpose <= static_cast<int>(Purpose::Implicit),
                "_add_kernel: expected a purpose, got ", int64_t{purpose});
    const bool is_key = static_cast<Purpose>(purpose) == Purpose::Key;
    check_value(key >= (is_key ? 0 : kAnyBackend) && key < kNumDispatchKeys,
                "_add_kernel: expected a dispatch key, got ", int64_t{key});
    OperatorEntry& op = entry_of(name);
    check(op.boxing_adapter != nullptr, op.name,
          ": expected an operator that can be boxed, got one that cannot");
    Interposed& all = interposed_of(op);
    all.registered[{static_cast<Purpose>(purpose), key}].push_back(
        {++last_id, Py_NewRef(function), with_keys != 0});
    refresh_forms(op);
    return PyLong_FromLongLong(last_id);
  });
}

// _remove_kernel(operator, number): nothing if it is gone.
PyObject* remove_kernel(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject* name;
    long long id;
    if (!PyArg_ParseTuple(given, "UL", &name, &id)) return nullptr;
    OperatorEntry& op = entry_of(name);
    Ref removed;  // released at the end: its finalizer may run Python code
    for (auto& [place, registrations] : interposed_of(op).registered) {
      const auto at = std::find_if(registrations.begin(), registrations.end(),
                                   [&](const Registration& r) { return r.id == id; });
      if (at == registrations.end()) continue;
      removed = Ref(at->function);
      registrations.erase(at);
      break;
    }
    refresh_forms(op);
    return wrap_none();
  });
}

// A kernel of an operator as it was when it was asked for.
struct Kept {
  const OperatorEntry* op;
  int key;
  OwnKernel own;
  Found python;
};
constexpr const char* kKeptName = "flambeau.kernel";

// _kernel_at(operator, key): what _call_kernel calls; None if the key has no kernel.
PyObject* kernel_at(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject *name, *number;
    if (!PyArg_ParseTuple(given, "UO", &name, &number)) return nullptr;
    const OperatorEntry& op = entry_of(name);
    const int key = key_from(number);
    Kept kept = {&op, key, current(op, key), {}};
    const auto entry = table().find(&op);
    if (entry != table().end() && entry->second->taken >> key & 1) {
      const Redispatched plain(&op);  // the kernel of the key itself, not that for Autograd
      kept.python = Search(op, key, DispatchKeySet(static_cast<DispatchKey>(key))).run();
      kept.own = entry->second->own[key];
    }
    if (!kept.python.function && !kept.own.unboxed && !kept.own.boxed) return wrap_none();
    return PyCapsule_New(new Kept(kept), kKeptName, [](PyObject* capsule) {
      delete static_cast<Kept*>(PyCapsule_GetPointer(capsule, kKeptName));
    });
  });
}

// _call_kernel(kernel, args, kwargs, keys); NotImplemented for arguments that the schema refuses.
PyObject* call_kernel(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject *capsule, *args, *kwargs;
    unsigned long long bits;
    if (!PyArg_ParseTuple(given, "OO!O!K", &capsule, &PyTuple_Type, &args, &PyDict_Type, &kwargs,
                          &bits))
      return nullptr;
    auto* const kept = static_cast<Kept*>(PyCapsule_GetPointer(capsule, kKeptName));
    if (!kept) return nullptr;
    Stack stack;
    if (!stack_from(*kept->op, args, kwargs, &stack)) Py_RETURN_NOTIMPLEMENTED;
    const DispatchKeySet keys = DispatchKeySet(bits) | static_cast<DispatchKey>(kept->key);
    if (kept->python.function) {
      call_python(kept->python, *kept->op, keys, stack);
    } else {
      run_own(kept->key, kept->own, *kept->op, keys, stack);
    }
    return python_result(stack, *kept->op).release();
  });
}

// _set_fallback(key, function): None removes it.
PyObject* set_fallback(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    PyObject *number, *function;
    if (!PyArg_ParseTuple(given, "OO", &number, &function)) return nullptr;
    const int key = key_from(number);
    const bool removes = function == Py_None;
    check(removes || !boxed_fallback(static_cast<DispatchKey>(key)),
          "Library.fallback: expected a key without a fallback (multiple backend fallbacks are not "
          "possible), got ",
          name_of(static_cast<DispatchKey>(key)));
    const Ref before(std::exchange(fallbacks[key], removes ? nullptr : Py_NewRef(function)));
    set_boxed_fallback(static_cast<DispatchKey>(key),
                       removes ? nullptr : kFallbacks[static_cast<size_t>(key)]);
    return wrap_none();
  });
}
PyObject* has_fallback(PyObject*, PyObject* number) {
  return guarded(
      [&] { return wrap(boxed_fallback(static_cast<DispatchKey>(key_from(number))) != nullptr); });
}

// _kernel_keys(operator): the keys that have a kernel now, and whether one kernel made of other
// operators serves all.
PyObject* kernel_keys(PyObject*, PyObject* name) {
  return guarded([&] {
    const OperatorEntry& op = entry_of(name);
    uint64_t keys = 0;
    for (int key = 0; key < kNumDispatchKeys; ++key) {
      const OwnKernel own = current(op, key);
      if (own.unboxed || own.boxed) keys |= uint64_t{1} << key;
    }
    const auto entry = table().find(&op);
    const bool is_composite =
        entry == table().end() ? is_transparent(op) : entry->second->is_composite;
    return Py_BuildValue("KN", static_cast<unsigned long long>(keys), wrap(is_composite));
  });
}

// _cast_devices(operator): the devices whose autocast casts its arguments.
PyObject* cast_devices(PyObject*, PyObject* name) {
  return guarded([&] {
    const OperatorEntry& op = entry_of(name);
    Ref devices = Ref::checked(PyList_New(0));
    for (const DeviceType device : {DeviceType::CPU, DeviceType::CUDA}) {
      if (!autocast::casts(op, device)) continue;
      const Ref name_of_key = Ref::checked(PyUnicode_FromString(name_of(backend_key(device))));
      checked(PyList_Append(devices.get(), name_of_key.get()));
    }
    return devices.release();
  });
}

PyMethodDef functions[] = {{"_add_kernel", add_kernel, METH_VARARGS, nullptr},
                           {"_remove_kernel", remove_kernel, METH_VARARGS, nullptr},
                           {"_kernel_at", kernel_at, METH_VARARGS, nullptr},
                           {"_call_kernel", call_kernel, METH_VARARGS, nullptr},
                           {"_set_fallback", set_fallback, METH_VARARGS, nullptr},
                           {"_has_fallback", has_fallback, METH_O, nullptr},
                           {"_cast_devices", cast_devices, METH_O, nullptr},
                           {"_kernel_keys", kernel_keys, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

Redispatched::Redispatched(const OperatorEntry* op) : outer_(redispatched) {
  if (op) redispatched = op;
}
Redispatched::~Redispatched() { redispatched = outer_; }

void add_python_kernels(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
