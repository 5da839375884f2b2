// Nodes of the backward graph as Python objects, and the handles of hooks. The object of a node
// that was made in C++ keeps the node alive; the node only knows its object while that lives. The
// object of a custom Function's node is its context, which the node owns.
#include <cstring>
#include <map>
#include <string>

#include "aten/autograd/accumulate_grad.h"
#include "aten/autograd/variable.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd_fields.h"
#include "python/csrc/cycles.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {

PyTypeObject* node_type;

namespace {

using autograd::Gradients;
using autograd::Node;

NodeObject* object_of(PyObject* o) { return reinterpret_cast<NodeObject*>(o); }

void let_go(NodeObject& object) {
  if (object.node && object.node->extras()) object.node->extras()->python_object = nullptr;
  object.node.reset();
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return OwnedObjects(visit, arg).show(object_of(self)->node);
}

int node_clear(PyObject* self) {
  if (is_sole_owner(object_of(self)->node)) let_go(*object_of(self));
  return 0;
}

void node_dealloc(PyObject* self) {
  NodeObject* object = object_of(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  let_go(*object);
  object->node.~intrusive_ptr();
  object->owner.~weak_intrusive_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* repr(PyObject* self) {
  const char* dot = std::strrchr(Py_TYPE(self)->tp_name, '.');
  return PyUnicode_FromFormat("<%s object at %p>", dot ? dot + 1 : Py_TYPE(self)->tp_name, self);
}
PyObject* name(PyObject* self, PyObject*) {
  return guarded([&] {
    // The name of a Function's context does not need its node.
    const bool is_context = !object_of(self)->node;
    return PyUnicode_FromString(is_context ? Py_TYPE(self)->tp_name : node_of(self)->name());
  });
}
PyObject* sequence_nr(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(node_of(self)->sequence_nr()); });
}

PyObject* get_next_functions(PyObject* self, void*) {
  return guarded([&] {
    const intrusive_ptr<Node> node = node_of(self);
    const auto n = static_cast<Py_ssize_t>(node->num_edges());
    Ref tuple = Ref::checked(PyTuple_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      const autograd::Edge& edge = node->edge(static_cast<size_t>(i));
      const Ref next = Ref::checked(wrap_node(edge.function));
      PyObject* pair = Py_BuildValue("(OI)", next.get(), edge.input_nr);
      if (!pair) throw PythonError();
      PyTuple_SET_ITEM(tuple.get(), i, pair);
    }
    return tuple.release();
  });
}

// (sizes, dtype, device) of what the node gets gradients for; None for outputs without one.
PyObject* get_output_info(PyObject* self, void*) {
  return guarded([&] {
    const intrusive_ptr<Node> node = node_of(self);
    Ref list = Ref::checked(PyList_New(static_cast<Py_ssize_t>(node->num_outputs())));
    for (size_t i = 0; i < node->num_outputs(); ++i) {
      const autograd::OutputMetadata& output = node->output(i);
      PyObject* item = Py_NewRef(Py_None);
      if (output.dtype != ScalarType::Undefined) {
        const Ref sizes = Ref::checked(wrap_sizes(output.sizes));
        const Ref dtype = Ref::checked(wrap(output.dtype));
        const Ref device = Ref::checked(wrap_device(output.device));
        Py_SETREF(item, PyTuple_Pack(3, sizes.get(), dtype.get(), device.get()));
      }
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
    }
    return list.release();
  });
}

PyObject* get_metadata(PyObject* self, void*) {
  return guarded([&] {
    autograd::NodeExtras& extras = node_of(self)->make_extras();
    if (!extras.metadata) extras.metadata = Ref::checked(PyDict_New()).release();
    return Py_NewRef(static_cast<PyObject*>(extras.metadata));
  });
}

PyObject* get_variable(PyObject* self, void*) {
  return guarded([&] {
    const intrusive_ptr<Node> node = node_of(self);
    return wrap(static_cast<autograd::AccumulateGrad&>(*node).variable());
  });
}

void check_callable(PyObject* function, const char* what) {
  check_type(PyCallable_Check(function), what, ": expected a callable, got ",
             Py_TYPE(function)->tp_name);
}

PyObject* register_hook(PyObject* self, PyObject* function) {
  return guarded([&] {
    check_callable(function, "register_hook");
    const intrusive_ptr<Node> node = node_of(self);
    const uint64_t id = node->make_extras().post_hooks.add(make_post_hook(function));
    return make_handle(HookPlace::After, id, node);
  });
}
PyObject* register_prehook(PyObject* self, PyObject* function) {
  return guarded([&] {
    check_callable(function, "register_prehook");
    const intrusive_ptr<Node> node = node_of(self);
    const uint64_t id = node->make_extras().pre_hooks.add(make_pre_hook(function));
    return make_handle(HookPlace::Before, id, node);
  });
}

// node(*gradients): its formula alone.
PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    check_type(!kwargs || PyDict_GET_SIZE(kwargs) == 0,
               "Node: expected no keyword arguments, got some");
    const intrusive_ptr<Node> node = node_of(self);
    Gradients grads;
    for (Tensor& t : tensors_from(args, "Node")) grads.push_back(std::move(t));
    check(grads.size() == node->num_outputs(), node->name(), ": expected ", node->num_outputs(),
          " gradients, got ", grads.size());
    const Gradients out = node->apply(std::move(grads));
    if (out.size() == 1) return wrap(out[0]);
    return wrap(std::vector<Tensor>(out.begin(), out.end()));
  });
}

// Fields that a node keeps are not attributes of its type: nodes of one name may keep different
// ones.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  const char* const text = PyUnicode_AsUTF8(name);
  const intrusive_ptr<Node> node =
      object_of(self)->node ? object_of(self)->node : object_of(self)->owner.lock();
  if (!text || *text != '_' || !node) return nullptr;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  found = guarded([&] { return saved_attribute(node, text); });
  if (found || PyErr_Occurred()) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  } else {
    PyErr_Restore(type, value, trace);
  }
  return found;
}

PyObject* list_attributes(PyObject* self, PyObject*) {
  return guarded([&] {
    const Ref base = Ref::checked(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__"));
    const Ref given = Ref::checked(PyObject_CallOneArg(base.get(), self));
    Ref list = Ref::checked(PySequence_List(given.get()));
    if (const intrusive_ptr<Node>& node = object_of(self)->node) add_saved_names(*node, list.get());
    return list.release();
  });
}

PyMethodDef methods[] = {
    {"__dir__", list_attributes, METH_NOARGS, nullptr},
    {"name", name, METH_NOARGS, "The node's name, such as MulBackward0."},
    {"_sequence_nr", sequence_nr, METH_NOARGS, nullptr},
    {"register_hook", register_hook, METH_O,
     "Call hook(grad_inputs, grad_outputs) after the node has run; a returned tuple replaces "
     "grad_inputs."},
    {"register_prehook", register_prehook, METH_O,
     "Call hook(grad_outputs) before the node runs; a returned tuple replaces grad_outputs."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef getset[] = {
    {"next_functions", get_next_functions, nullptr, "Pairs (node, which of its outputs).", nullptr},
    {"_output_info", get_output_info, nullptr, nullptr, nullptr},
    {"metadata", get_metadata, nullptr, "A dict for the user's notes on the node.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyGetSetDef accumulator_getset[] = {
    {"variable", get_variable, nullptr, "The leaf whose .grad the node adds to.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject* make_type(const char* name, PyType_Slot* slots, PyTypeObject* base, unsigned flags) {
  PyType_Spec spec = {name, sizeof(NodeObject), 0,
                      static_cast<unsigned>(Py_TPFLAGS_DEFAULT) | flags, slots};
  const Ref bases(base ? PyTuple_Pack(1, base) : nullptr);
  PyObject* type = Ref::checked(PyType_FromSpecWithBases(&spec, bases.get())).release();
  return reinterpret_cast<PyTypeObject*>(type);
}

// One type per name, so that type(grad_fn).__name__ tells what a node is.
PyTypeObject* type_for(const Node& node) {
  static std::map<std::string, PyTypeObject*, std::less<>> types;
  const auto known = types.find(std::string_view(node.name()));
  if (known != types.end()) return known->second;
  const auto made = types.emplace(node.name(), nullptr).first;
  static std::map<std::string, std::string> qualified;  // the spec keeps pointing to the text
  const std::string& text = qualified[made->first] = "flambeau.autograd.graph." + made->first;
  PyType_Slot slots[] = {{Py_tp_getset, accumulator_getset}, {0, nullptr}};
  PyType_Slot none[] = {{0, nullptr}};
  made->second = make_type(text.c_str(), node.accumulates() ? slots : none, node_type,
                           static_cast<unsigned>(Py_TPFLAGS_DISALLOW_INSTANTIATION));
  return made->second;
}

// --- handles -------------------------------------------------------------------------------------

struct HandleObject {
  PyObject_HEAD uint64_t id;
  HookPlace place;
  weak_intrusive_ptr<Node> node;
  weak_intrusive_ptr<TensorImpl> leaf;
};
PyTypeObject* handle_type;

HandleObject* handle_of(PyObject* o) { return reinterpret_cast<HandleObject*>(o); }

void remove_from_node(HandleObject& handle) {
  const intrusive_ptr<Node> node = handle.node.lock();
  autograd::NodeExtras* extras = node ? node->extras() : nullptr;
  if (!extras) return;
  switch (handle.place) {
    case HookPlace::Node:
      return extras->tensor_hooks.remove(handle.id);
    case HookPlace::Before:
      return extras->pre_hooks.remove(handle.id);
    default:
      return extras->post_hooks.remove(handle.id);
  }
}

void remove_from_leaf(HandleObject& handle) {
  const Tensor leaf(handle.leaf.lock());
  autograd::AutogradMeta* meta = leaf.defined() ? autograd::meta_of(leaf) : nullptr;
  if (!meta || !meta->extras) return;
  if (handle.place == HookPlace::Leaf) {
    meta->extras->leaf_hooks.remove(handle.id);
  } else {
    meta->extras->accumulate_hooks.remove(handle.id);
  }
}

PyObject* handle_remove(PyObject* self, PyObject*) {
  return guarded([&] {
    HandleObject& handle = *handle_of(self);
    const bool on_leaf = handle.place == HookPlace::Leaf || handle.place == HookPlace::Accumulate;
    on_leaf ? remove_from_leaf(handle) : remove_from_node(handle);
    return wrap_none();
  });
}
PyObject* handle_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* handle_exit(PyObject* self, PyObject*) { return handle_remove(self, nullptr); }
PyObject* handle_id(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(handle_of(self)->id);
}
void handle_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  handle_of(self)->node.~weak_intrusive_ptr();
  handle_of(self)->leaf.~weak_intrusive_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef handle_methods[] = {{"remove", handle_remove, METH_NOARGS, "Remove the hook."},
                                {"__enter__", handle_enter, METH_NOARGS, nullptr},
                                {"__exit__", handle_exit, METH_VARARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyGetSetDef handle_getset[] = {{"id", handle_id, nullptr, "The hook's number.", nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};

HandleObject& new_handle(HookPlace place, uint64_t id) {
  PyObject* self = Ref::checked(handle_type->tp_alloc(handle_type, 0)).release();
  HandleObject& handle = *handle_of(self);
  handle.id = id;
  handle.place = place;
  new (&handle.node) weak_intrusive_ptr<Node>();
  new (&handle.leaf) weak_intrusive_ptr<TensorImpl>();
  return handle;
}

void add_handle_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(handle_dealloc)},
                         {Py_tp_methods, handle_methods},
                         {Py_tp_getset, handle_getset},
                         {0, nullptr}};
  PyType_Spec spec = {"flambeau.utils.hooks.RemovableHandle", sizeof(HandleObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = Ref::checked(PyType_FromSpec(&spec)).release();
  handle_type = reinterpret_cast<PyTypeObject*>(type);
  checked(PyModule_AddObjectRef(module, "RemovableHandle", type));
}

}  // namespace

PyObject* make_handle(HookPlace place, uint64_t id, const intrusive_ptr<Node>& node) {
  HandleObject& handle = new_handle(place, id);
  handle.node = weak_intrusive_ptr<Node>(node);
  return reinterpret_cast<PyObject*>(&handle);
}

PyObject* make_handle(HookPlace place, uint64_t id, const Tensor& leaf) {
  HandleObject& handle = new_handle(place, id);
  handle.leaf = weak_intrusive_ptr<TensorImpl>(leaf.impl_ptr());
  return reinterpret_cast<PyObject*>(&handle);
}

intrusive_ptr<Node> node_of(PyObject* object) {
  const NodeObject* self = object_of(object);
  intrusive_ptr<Node> node = self->node ? self->node : self->owner.lock();
  check(static_cast<bool>(node),
        "Attribute of a custom Function's context: its node is gone or not "
        "made yet, as the forward pass has not ended or its outputs were freed.");
  return node;
}

PyObject* wrap_node(const intrusive_ptr<Node>& node) {
  if (!node) Py_RETURN_NONE;
  if (PyObject* context = context_of(*node)) return Py_NewRef(context);
  autograd::NodeExtras& extras = node->make_extras();
  if (extras.python_object) return Py_NewRef(static_cast<PyObject*>(extras.python_object));
  PyTypeObject* type = type_for(*node);
  PyObject* self = Ref::checked(type->tp_alloc(type, 0)).release();
  new (&object_of(self)->node) intrusive_ptr<Node>(node);
  new (&object_of(self)->owner) weak_intrusive_ptr<Node>();
  extras.python_object = self;
  return self;
}

const char node_doc[] =
    R"(Node of the graph: one recorded operation, the ``grad_fn`` of its outputs.

``next_functions`` holds the nodes that receive its gradients, with the number of the output. Attributes
named ``_saved_<name>`` give what the operation saved for backward.

Example:
    >>> x = flambeau.ones(1, requires_grad=True)
    >>> node = (x * x).exp().grad_fn
    >>> node.name(), node.next_functions[0][0].name()
    ('ExpBackward0', 'MulBackward0')
)";

void add_node_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(node_doc)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                         {Py_tp_call, reinterpret_cast<void*>(call)},
                         {Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getset},
                         {0, nullptr}};
  node_type = make_type("flambeau.autograd.graph.Node", slots, nullptr,
                        static_cast<unsigned>(Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC));
  checked(PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)));
  add_handle_type(module);
}

}  // namespace flambeau::python
