#pragma once
// The binding of autograd: methods of Tensor (autograd_methods, autograd_getset in tensor_type.h)
// and functions of the module.
#include "aten/autograd/engine.h"
#include "aten/autograd/hooks.h"
#include "aten/autograd/node.h"
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// Adds the autograd functions and types to the module.
void add_autograd(PyObject* module);
// A new tensor over the same storage, with the same place in the graph (an identity node if
// needed).
Tensor alias_with_history(const Tensor& t);

// --- Python code that the engine calls -----------------------------------------------------------

// A Python object that C++ keeps where the GIL may not be held when it dies.
class Held {
 public:
  explicit Held(PyObject* borrowed) : p_(Py_NewRef(borrowed)) {}
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  PyObject* get() const { return p_; }

 private:
  PyObject* p_;
};

// Takes a new reference; for null throws the Python error as one that may cross threads.
Ref carried(PyObject* owned);
intrusive_ptr<autograd::TensorHook> make_tensor_hook(PyObject* function);
intrusive_ptr<autograd::AccumulateHook> make_accumulate_hook(PyObject* function);
intrusive_ptr<autograd::PassHook> make_pass_hook(PyObject* function);
intrusive_ptr<autograd::NodePreHook> make_pre_hook(PyObject* function);
intrusive_ptr<autograd::NodePostHook> make_post_hook(PyObject* function);
// The function of a hook (borrowed); null if it is none of Python's.
PyObject* function_of(const autograd::TensorHook& hook);
PyObject* function_of(const autograd::AccumulateHook& hook);
PyObject* function_of(const autograd::NodePreHook& hook);
PyObject* function_of(const autograd::NodePostHook& hook);

// --- nodes ---------------------------------------------------------------------------------------

// Node, and what stands before the fields of a custom Function's context.
struct NodeObject {
  PyObject_HEAD intrusive_ptr<autograd::Node> node;  // of a node made in C++
  weak_intrusive_ptr<autograd::Node> owner;          // of a context: the node that owns it
};
extern PyTypeObject* node_type;
// The node behind a Node object; throws when it is gone.
intrusive_ptr<autograd::Node> node_of(PyObject* object);
// A new reference to the node's object; None for no node.
PyObject* wrap_node(const intrusive_ptr<autograd::Node>& node);
// The context that a custom Function's node owns (borrowed); null for any other node.
PyObject* context_of(autograd::Node& node);
void add_node_type(PyObject* module);

// What undoes the registration of a hook.
enum class HookPlace : uint8_t { Node, Leaf, Accumulate, Before, After };
PyObject* make_handle(HookPlace place, uint64_t id, const intrusive_ptr<autograd::Node>& node);
PyObject* make_handle(HookPlace place, uint64_t id, const Tensor& leaf);

// --- parts of the module -------------------------------------------------------------------------

// Tensor arguments: None stands for an undefined tensor.
std::vector<Tensor> tensors_from(PyObject* sequence, const char* what);
void add_autograd_modes(PyObject* module);
void add_custom_function(PyObject* module);
void add_saved_tensor_hooks(PyObject* module);

template <typename F>
PyCFunction as_cfunction(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

}  // namespace flambeau::python
