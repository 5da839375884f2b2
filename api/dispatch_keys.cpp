#include "api/dispatch_keys.h"

#include <ostream>
#include <utility>

#include "c10/core/check.h"

namespace flambeau::api {
namespace {

using Key = c10::DispatchKey;

struct Row {
  DispatchKey key;
  const char* name;
  std::optional<Key> dispatcher;
  std::optional<Key> backend = std::nullopt;  // of a key that PyTorch has per backend
};
constexpr Row kRows[] = {
    {DispatchKey::Undefined, "Undefined", std::nullopt},
    {DispatchKey::CPU, "CPU", Key::CPU},
    {DispatchKey::CUDA, "CUDA", Key::CUDA},
    {DispatchKey::Meta, "Meta", Key::Meta},
    {DispatchKey::PrivateUse1, "PrivateUse1", Key::PrivateUse1},
    {DispatchKey::SparseCPU, "SparseCPU", c10::kSparseKey},
    {DispatchKey::Python, "Python", Key::BackendMode},
    {DispatchKey::Conjugate, "Conjugate", Key::Conjugate},
    {DispatchKey::Negative, "Negative", Key::Negative},
    {DispatchKey::FuncTorchBatched, "FuncTorchBatched", Key::FuncTorchBack},
    {DispatchKey::AutogradCPU, "AutogradCPU", Key::Autograd, Key::CPU},
    {DispatchKey::AutogradCUDA, "AutogradCUDA", Key::Autograd, Key::CUDA},
    {DispatchKey::AutogradMeta, "AutogradMeta", Key::Autograd, Key::Meta},
    {DispatchKey::AutogradPrivateUse1, "AutogradPrivateUse1", Key::Autograd, Key::PrivateUse1},
    {DispatchKey::Autograd, "Autograd", Key::Autograd},
    {DispatchKey::AutogradFunctionality, "AutogradFunctionality", Key::Autograd},
    {DispatchKey::ADInplaceOrView, "ADInplaceOrView", Key::Autograd},
    {DispatchKey::AutocastCPU, "AutocastCPU", Key::Autocast, Key::CPU},
    {DispatchKey::AutocastCUDA, "AutocastCUDA", Key::Autocast, Key::CUDA},
    {DispatchKey::AutocastPrivateUse1, "AutocastPrivateUse1", Key::Autocast, Key::PrivateUse1},
    {DispatchKey::Autocast, "Autocast", Key::Autocast},
    {DispatchKey::AutocastFunctionality, "AutocastFunctionality", Key::Autocast},
    {DispatchKey::Functionalize, "Functionalize", Key::Functionalize},
    {DispatchKey::FuncTorchDynamicLayerFrontMode, "FuncTorchDynamicLayerFrontMode", Key::FuncTorch},
    {DispatchKey::CompositeImplicitAutograd, "CompositeImplicitAutograd", std::nullopt},
    {DispatchKey::CompositeExplicitAutograd, "CompositeExplicitAutograd", std::nullopt},
    {DispatchKey::CompositeExplicitAutogradNonFunctional, "CompositeExplicitAutogradNonFunctional",
     std::nullopt},
    {DispatchKey::CatchAll, "CatchAll", std::nullopt},
    {DispatchKey::BackendSelect, "BackendSelect", std::nullopt},
    {DispatchKey::Tracer, "Tracer", std::nullopt},
    {DispatchKey::MPS, "MPS", std::nullopt},
    {DispatchKey::XPU, "XPU", std::nullopt},
    {DispatchKey::HPU, "HPU", std::nullopt},
    {DispatchKey::QuantizedCPU, "QuantizedCPU", std::nullopt},
    {DispatchKey::NestedTensorCPU, "NestedTensorCPU", std::nullopt},
};

const Row& row_of(DispatchKey key) {
  for (const Row& row : kRows) {
    if (row.key == key) return row;
  }
  return kRows[0];
}

}  // namespace

const char* toString(DispatchKey key) { return row_of(key).name; }
std::ostream& operator<<(std::ostream& out, DispatchKey key) { return out << toString(key); }
std::optional<c10::DispatchKey> dispatcher_key(DispatchKey key) { return row_of(key).dispatcher; }
std::optional<c10::DispatchKey> backend_of_key(DispatchKey key) {
  return key == DispatchKey::Autocast ? Key::CUDA : row_of(key).backend;
}

DispatchKeySet::DispatchKeySet(FullAfter, DispatchKey key) {
  const std::optional<Key> found = dispatcher_key(key);
  check(found.has_value(), "DispatchKeySet: expected a key that calls reach, got ", toString(key));
  keys_ = c10::DispatchKeySet(DispatchKeySet(FULL)).below(*found);
}

bool DispatchKeySet::has(DispatchKey key) const {
  const Row& row = row_of(key);
  return row.dispatcher && keys_.has(*row.dispatcher) && (!row.backend || keys_.has(*row.backend));
}
DispatchKeySet DispatchKeySet::add(DispatchKey key) const {
  const std::optional<Key> found = dispatcher_key(key);
  return found ? DispatchKeySet(keys_ | *found) : *this;
}
DispatchKeySet DispatchKeySet::remove(DispatchKey key) const {
  const std::optional<Key> found = dispatcher_key(key);
  return found ? DispatchKeySet(keys_ - c10::DispatchKeySet(*found)) : *this;
}

DispatchKey DispatchKeySet::highestPriorityTypeId() const {
  if (keys_.empty()) return DispatchKey::Undefined;
  const auto highest = static_cast<Key>(keys_.highest());
  // Rows with a backend come before those without.
  for (const Row& row : kRows) {
    if (row.dispatcher == highest && (!row.backend || keys_.has(*row.backend))) return row.key;
  }
  return DispatchKey::Undefined;
}

std::string toString(DispatchKeySet keys) {
  std::string text = "DispatchKeySet(";
  while (!keys.empty()) {
    const auto highest = static_cast<Key>(c10::DispatchKeySet(keys).highest());
    const DispatchKey named = keys.highestPriorityTypeId();
    if (!text.ends_with('(')) text += ", ";
    text += named == DispatchKey::Undefined ? c10::name_of(highest) : toString(named);
    keys = keys - DispatchKeySet(c10::DispatchKeySet(highest));
  }
  return text + ")";
}
std::ostream& operator<<(std::ostream& out, DispatchKeySet keys) { return out << toString(keys); }

namespace of_impl {

bool tls_is_dispatch_key_excluded(DispatchKey key) {
  return tls_local_dispatch_key_set().excluded_.has_any(DispatchKeySet(key));
}
bool tls_is_dispatch_key_included(DispatchKey key) {
  return tls_local_dispatch_key_set().included_.has_any(DispatchKeySet(key));
}
void tls_set_dispatch_key_excluded(DispatchKey key, bool excluded) {
  const DispatchKeySet now = tls_local_dispatch_key_set().excluded_;
  c10::thread_state.excluded = (excluded ? now.add(key) : now.remove(key)).raw_repr();
}
void tls_set_dispatch_key_included(DispatchKey key, bool included) {
  const DispatchKeySet now = tls_local_dispatch_key_set().included_;
  c10::thread_state.included = (included ? now.add(key) : now.remove(key)).raw_repr();
}

}  // namespace of_impl
}  // namespace flambeau::api
