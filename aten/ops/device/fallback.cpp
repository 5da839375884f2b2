// The kernel of every operator without one for an out-of-tree device: copies of the arguments on
// the CPU, the operator's CPU kernel, and copies of what it wrote and returned on the device.
// Tensors that share a storage there share one here, so views, in-place and out= forms, and
// arguments that overlap behave as on the device.
#include <cstring>
#include <map>
#include <mutex>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/cpu/device_copy.h"
#include "aten/cpu/generator.h"
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/defined_operator.h"
#include "aten/dispatch/device_fallback.h"
#include "aten/dispatch/fallbacks.h"
#include "aten/dispatch/operator_traits.h"
#include "c10/core/device_backend.h"

namespace flambeau {

namespace {

// --- tensors of the CPU for those of the device --------------------------------------------------

class Mirrors {
 public:
  // A CPU tensor with the elements of `t`.
  Tensor host(const Tensor& t) {
    const Storage& storage = mirror_of(t.storage());
    Tensor host = with_storage(t, storage, t.dtype(), DeviceType::CPU);
    host.impl()->set_wrapped_number(t.impl()->is_wrapped_number());
    if (t.numel()) download(t, static_cast<char*>(storage->data()) + span_of(t).offset);
    return host;
  }

  // A tensor of the device with the elements of a result, over the memory of an argument where the
  // result is a view of it.
  Tensor on_device(const Tensor& host, Device device) const {
    if (const Storage* const shared = original_of(host.storage()))
      return with_storage(host, *shared, host.dtype(), (*shared)->device());
    Tensor made = empty_strided_tensor(host.sizes(), host.strides(), host.dtype(), device);
    made.impl()->add_keys(host.keys() & kLazyKeys);
    made.impl()->set_wrapped_number(host.impl()->is_wrapped_number());
    if (host.numel()) upload(host.data(), made);
    return made;
  }

  // What the kernel made of a mutable argument.
  void write_back(const Tensor& host, const Tensor& original) const {
    TensorImpl& impl = *original.impl();
    const Storage* const shared = original_of(host.storage());
    if (!shared || *shared != original.storage()) {
      impl.shallow_copy_from(*on_device(host, original.device()).impl());
    } else {
      if ((*shared)->nbytes() != host.storage()->nbytes())
        (*shared)->resize(host.storage()->nbytes());
      impl.set_geometry(host.sizes(), host.strides(), host.storage_offset());
      if (host.numel()) upload(host.data(), original);
    }
    if (host.storage()->version() > 0) impl.bump_version();
  }

 private:
  struct Pair {
    Storage device, host;
  };

  static Tensor with_storage(const Tensor& like, const Storage& storage, ScalarType dtype,
                             Device device) {
    Tensor t(make_intrusive<TensorImpl>(storage, dtype, device));
    t.impl()->set_geometry(like.sizes(), like.strides(), like.storage_offset());
    t.impl()->add_keys(like.keys() & kLazyKeys);
    return t;
  }
  const Storage& mirror_of(const Storage& device) {
    for (const Pair& pair : pairs_) {
      if (pair.device == device) return pair.host;
    }
    pairs_.push_back({device, make_intrusive<StorageImpl>(device->nbytes(), DeviceType::CPU)});
    return pairs_.back().host;
  }
  const Storage* original_of(const Storage& host) const {
    for (const Pair& pair : pairs_) {
      if (pair.host == host) return &pair.device;
    }
    return nullptr;
  }

  std::vector<Pair> pairs_;
};

// --- the call ------------------------------------------------------------------------------------

// The types of the arguments, for what a stack does not say of absent values.
const std::vector<SchemaArgument>& arguments_of(const OperatorEntry& op) {
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<const OperatorEntry*, std::vector<SchemaArgument>>;
  const std::lock_guard lock(*mutex);
  const auto [at, is_new] = known->try_emplace(&op);
  if (is_new) at->second = schema_arguments(op.schema);
  return at->second;
}

class FallenCall {
 public:
  FallenCall(const OperatorEntry& op, Stack& stack) : op_(op), stack_(stack) {
    find_device();
    for (size_t i = 0; i < stack.size(); ++i) move_to_host(i);
  }

  void run() {
    const std::unique_lock<std::mutex> lock =
        drawn_from_ ? std::unique_lock(drawn_from_->mutex()) : std::unique_lock<std::mutex>();
    if (drawn_from_) draws_->set_state(drawn_from_->state());
    redispatch_boxed(op_, DispatchKey::CPU, stack_);
    if (drawn_from_) drawn_from_->set_state(draws_->state());
  }

  void return_results() {
    const bool has_effect = op_.traits && op_.traits->has_effect;
    for (const Moved& m : moved_) {
      if (m.is_mutable || has_effect) mirrors_.write_back(m.host, m.original);
    }
    for (size_t i = 0; i < stack_.size(); ++i) {
      auto& payload = stack_[i];
      if (payload.is_tensor()) {
        place(payload.get<Tensor>());
      } else if (std::holds_alternative<std::vector<Tensor>>(payload.payload())) {
        for (Tensor& t : payload.get<std::vector<Tensor>>()) place(t);
      }
    }
  }

 private:
  struct Moved {
    Tensor original, host;
    bool is_mutable;
  };

  // The device of the results: the one that is asked for, else the one of the tensors.
  void find_device() {
    for (size_t i = 0; i < stack_.size(); ++i) {
      if (auto* const device = std::get_if<Device>(&stack_[i].payload())) asked_for_ = *device;
      if (stack_[i].is_tensor()) note(stack_[i].tensor());
      if (auto* const list = std::get_if<std::vector<Tensor>>(&stack_[i].payload())) {
        for (const Tensor& t : *list) note(t);
      }
    }
    if (asked_for_.type == DeviceType::PrivateUse1) asked_for_ = c10::with_index(asked_for_);
    if (common_.type != DeviceType::PrivateUse1) common_ = asked_for_;
    if (asked_for_ == Device(DeviceType::Meta)) asked_for_ = common_;
  }
  void note(const Tensor& t) {
    if (!t.defined() || !is_private(t)) return;
    const bool fits = common_.type != DeviceType::PrivateUse1 || common_ == t.device();
    check(fits, OtherDevice{op_.name, common_, t.device()});
    common_ = t.device();
  }

  void move_to_host(size_t i) {
    const SchemaArgument& declared = arguments_of(op_)[i];
    if (declared.type.starts_with("Generator")) return choose_generator(i);
    if (auto* const device = std::get_if<Device>(&stack_[i].payload())) {
      if (device->type == DeviceType::PrivateUse1) stack_[i] = IValue(Device(DeviceType::CPU));
    } else if (stack_[i].is_tensor()) {
      replace(stack_[i].get<Tensor>(), declared);
    } else if (std::holds_alternative<std::vector<Tensor>>(stack_[i].payload())) {
      for (Tensor& t : stack_[i].get<std::vector<Tensor>>()) replace(t, declared);
    }
  }
  void replace(Tensor& t, const SchemaArgument& declared) {
    if (!t.defined()) return;
    if (!is_private(t)) {
      const bool is_index = declared.type == "Tensor?[]";  // may be elsewhere
      check(t.dim() == 0 || is_index, OtherDevice{op_.name, common_, t.device()});
      return;
    }
    for (const Moved& m : moved_) {
      if (m.original.is_same(t)) {
        t = Tensor(m.host);
        moved_.push_back({m.original, t, declared.is_mutable});
        return;
      }
    }
    moved_.push_back({t, mirrors_.host(t), declared.is_mutable});
    t = moved_.back().host;
  }
  // The CPU draws with the state of the device's generator.
  void choose_generator(size_t i) {
    auto* const given = std::get_if<Generator>(&stack_[i].payload());
    const Device device = given ? (*given)->device() : common_;
    check(device == common_, "expected a generator on device ", common_, ", got one on ", device);
    drawn_from_ =
        given ? static_cast<CpuGenerator*>(given->get()) : &default_device_generator(device);
    draws_ = make_intrusive<CpuGenerator>();
    stack_[i] = IValue(Generator(draws_));
  }

  void place(Tensor& t) const {
    if (!t.defined() || is_private(t) || t.is_meta()) return;
    for (const Moved& m : moved_) {
      if (m.host.is_same(t)) return void(t = m.original);
    }
    const Device device = asked_for_.type == DeviceType::Meta ? common_ : asked_for_;
    if (device.type != DeviceType::PrivateUse1) return;
    if (is_sparse(t))
      fail(ErrorKind::NotImplemented, op_.name, ": expected sparse tensors on the CPU, got device ",
           device);
    t = mirrors_.on_device(t, device);
  }

  const OperatorEntry& op_;
  Stack& stack_;
  Device common_ = DeviceType::Meta;  // none yet
  Device asked_for_ = DeviceType::Meta;
  Mirrors mirrors_;
  std::vector<Moved> moved_;
  CpuGenerator* drawn_from_ = nullptr;
  intrusive_ptr<CpuGenerator> draws_;
};

void run_on_cpu(const OperatorEntry& op, DispatchKeySet, Stack& stack) {
  if (!c10::private_backend()) fail_no_backend(DeviceType::PrivateUse1, ErrorKind::NotImplemented);
  announce_fallback(op);
  FallenCall call(op, stack);
  call.run();
  call.return_results();
}

[[maybe_unused]] const bool installed = [] {
  set_default_fallback(DispatchKey::PrivateUse1, run_on_cpu);
  return true;
}();

}  // namespace
}  // namespace flambeau
