#pragma once
// A tensor kept by a node for its backward. It remembers the version it was saved at, and an output
// of its own node is kept without its history, so that no reference cycle arises.
#include "aten/autograd/node.h"

namespace flambeau::autograd {

// User code that packs a tensor when it is saved and unpacks it when it is needed.
struct SavedTensorHook : RefCounted {
  // Called once, at saving time. `unpack` then gives the tensor back, as often as asked.
  virtual void pack(const Tensor& tensor) = 0;
  virtual Tensor unpack() = 0;
};
// Makes the hook of a tensor that is being saved; null: no hooks are active on this thread.
using SavedTensorHookFactory = intrusive_ptr<SavedTensorHook> (*)();
extern thread_local constinit SavedTensorHookFactory saved_tensor_hook_factory;

class SavedTensor {
 public:
  SavedTensor() = default;
  // `is_output`: the tensor is an output of the node that saves it; call after set_history.
  // `inplace_on_view`: it is also a view that the node changed in place, after rebase_history.
  explicit SavedTensor(const Tensor& tensor, bool is_output = false, bool inplace_on_view = false) {
    save(tensor, is_output, inplace_on_view);
  }
  // The same for one that holds nothing yet.
  void save(const Tensor& tensor, bool is_output = false, bool inplace_on_view = false);

  // The tensor, for a computation in `owner`. Fails if it was freed or changed in place since.
  // An output has its history only where it can be asked for: while a graph is recorded, or `shown`
  // to code of the user's.
  Tensor unpack(Node& owner, bool shown = false) const;
  void reset();
  bool is_released() const { return released_; }
  // Whether there was no tensor to save.
  bool is_none() const { return !released_ && !data_.defined() && !hook_; }
  // Replaces the packing of this one tensor (Node._raw_saved_*.register_hooks).
  void set_hook(intrusive_ptr<SavedTensorHook> hook);

 private:
  void check_version(const Node& owner) const;
  Tensor with_history(Tensor data, Node& owner) const;

  Tensor data_;
  intrusive_ptr<SavedTensorHook> hook_;
  intrusive_ptr<Node> grad_fn_;            // of a packed input: data_ is gone then
  weak_intrusive_ptr<Node> view_grad_fn_;  // of an output that is a view changed in place
  uint32_t version_ = 0;
  uint32_t output_nr_ = 0;
  bool is_output_ = false;
  bool is_leaf_ = false;
  bool is_rebased_view_ = false;
  bool requires_grad_ = false;
  bool released_ = false;
};

}  // namespace flambeau::autograd
