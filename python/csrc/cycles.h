#pragma once
// What Python objects own through C++: a tensor owns the hooks of its leaf and, unless others do as
// well, the graph behind it with the hooks, contexts and tensors in there. Python's collector of
// cycles sees only what tp_traverse shows it.
//
// An object may be shown only if all that holds it is what the owner holds, or it would be cleared
// while it is in use. So the walk counts: it goes through a tensor or node when it has met it as
// often as its use count says. While any thread is in C++ without the GIL counts may change, and
// nothing is shown.
#include <unordered_map>
#include <vector>

#include "aten/autograd/node.h"
#include "python/csrc/object.h"

namespace flambeau::python {

class OwnedObjects {
 public:
  OwnedObjects(visitproc visit, void* arg) : visit_(visit), arg_(arg) {}

  // Shows what the holder of this one reference owns. Not 0: the visitor wants no more.
  int show(const Tensor& held);
  int show(const intrusive_ptr<autograd::Node>& held);

 private:
  void meet(const Tensor& t);
  void meet(const intrusive_ptr<autograd::Node>& node);
  bool is_owned(const RefCounted& object);
  void look_into(TensorImpl& impl);
  void look_into(autograd::Node& node);
  template <typename Hook>
  void show_hooks(const autograd::HookList<Hook>& list);
  void show_object(void* object);
  int finish();

  visitproc visit_;
  void* arg_;
  int status_ = 0;
  int budget_ = 4096;  // tensors and nodes; what lies beyond is taken for used by others
  std::vector<TensorImpl*> tensors_;
  std::vector<autograd::Node*> nodes_;
  std::unordered_map<const RefCounted*, uint32_t> met_;
};

// Whether the collector may drop what the reference holds.
bool is_sole_owner(const Tensor& held);
bool is_sole_owner(const intrusive_ptr<autograd::Node>& held);

}  // namespace flambeau::python
