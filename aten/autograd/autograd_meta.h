#pragma once
// What autograd keeps on a tensor. A tensor without it needs no gradient and is not a tracked view.
#include <mutex>
#include <optional>
#include <thread>

#include "aten/autograd/node.h"

namespace flambeau::autograd {

struct ViewMeta;

// Rare attachments of a leaf, or of a tensor in forward mode.
struct MetaExtras {
  HookList<TensorHook> leaf_hooks;
  HookList<AccumulateHook> accumulate_hooks;
  Tensor tangent;
  std::optional<ScalarType> grad_dtype;  // Undefined: any
};

struct AutogradMeta : AutogradMetaBase {
  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes);

  Tensor grad;
  intrusive_ptr<Node> grad_fn;
  weak_intrusive_ptr<Node> accumulator;  // of a leaf; made on demand
  std::unique_ptr<MetaExtras> extras;
  ViewMeta* views = nullptr;  // views made before this tensor required a gradient
  uint32_t output_nr = 0;
  bool requires_grad = false;  // of a leaf, set by the user
  bool retains_grad = false;
  bool is_view = false;           // then this is a ViewMeta
  std::atomic<bool> busy{false};  // guards accumulator, views, and grad_fn of a view

  ~AutogradMeta() override;
  MetaExtras& make_extras() {
    if (!extras) extras = std::make_unique<MetaExtras>();
    return *extras;
  }
};

enum class ViewOrigin : uint8_t { Default, NoGrad, MultiOutput, Inference, CustomFunction };

struct ViewMeta final : AutogradMeta {
  Tensor base;  // never a view itself
  TensorImpl* self = nullptr;
  // Links in base's list of views, so that they learn when the base starts to require a gradient.
  ViewMeta* next = nullptr;
  ViewMeta** link = nullptr;  // under the base's lock: other threads link and unlink neighbours
  bool is_linked = false;     // the view's own, so that it needs no lock to see that it is not
  bool of_recorded = false;   // whether the tensor that it is a view of required a gradient
  uint32_t grad_version = 0;  // of the storage, when grad_fn was made
  ViewOrigin origin = ViewOrigin::Default;

  ~ViewMeta() override;
};

inline AutogradMeta* meta_of(const Tensor& t) {
  return static_cast<AutogradMeta*>(t.impl()->autograd_meta());
}
AutogradMeta& make_meta(const Tensor& t);

class MetaLock {
 public:
  explicit MetaLock(AutogradMeta& meta) : busy_(meta.busy) {
    while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  ~MetaLock() { busy_.store(false, std::memory_order_release); }
  MetaLock(const MetaLock&) = delete;
  MetaLock& operator=(const MetaLock&) = delete;

 private:
  std::atomic<bool>& busy_;
};

inline ViewMeta* view_meta_of(const Tensor& t) {
  AutogradMeta* meta = meta_of(t);
  return meta && meta->is_view ? static_cast<ViewMeta*>(meta) : nullptr;
}

}  // namespace flambeau::autograd
