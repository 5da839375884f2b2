#pragma once
// Code that users attach to gradients and nodes. An id identifies a hook for its removal.
#include <vector>

#include "aten/autograd/gradients.h"

namespace flambeau::autograd {

// Sees the gradient of one tensor; returns its replacement, or an undefined tensor to keep it.
struct TensorHook : RefCounted {
  virtual Tensor call(const Tensor& grad) = 0;
};
// Sees the gradients that enter a node, before it runs, and may change them.
struct NodePreHook : RefCounted {
  virtual void call(Gradients& grads) = 0;
};
// Sees what a node returned for its inputs, and may change it.
struct NodePostHook : RefCounted {
  virtual void call(Gradients& grad_inputs, const Gradients& grad_outputs) = 0;
};
// Runs after a leaf's .grad has been updated.
struct AccumulateHook : RefCounted {
  virtual void call(const Tensor& variable) = 0;
};

template <typename Hook>
class HookList {
 public:
  struct Entry {
    uint64_t id;
    uint32_t output_nr;  // which output of the node the hook watches; 0 where that has no meaning
    intrusive_ptr<Hook> hook;
  };
  uint64_t add(intrusive_ptr<Hook> hook, uint32_t output_nr = 0) {
    entries_.push_back({next_id_, output_nr, std::move(hook)});
    return next_id_++;
  }
  void remove(uint64_t id) {
    std::erase_if(entries_, [id](const Entry& e) { return e.id == id; });
  }
  bool empty() const { return entries_.empty(); }
  // A copy, since a hook may remove itself while the list is walked.
  std::vector<Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  uint64_t next_id_ = 0;
};

}  // namespace flambeau::autograd
