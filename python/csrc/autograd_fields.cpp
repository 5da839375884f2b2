// What the nodes of the backward graph keep, as attributes: node._saved_<name> is the value,
// unpacked; node._raw_saved_<name> a SavedTensor, whose hooks can be set. Fields are read while no
// pass runs the node, and copied, since a pass in another thread may free them.
#include "python/csrc/autograd_fields.h"

#include <functional>

#include "aten/autograd/saved_fields.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

using autograd::Node;
using autograd::SavedFields;
using autograd::SavedTensor;
using autograd::SavedValue;
using SavedList = std::vector<SavedTensor>;

constexpr std::string_view kValue = "_saved_", kRaw = "_raw_saved_";

// Calls a function with each field of a node, while no pass runs it.
template <typename F>
class Fields final : public SavedFields {
 public:
  explicit Fields(F function) : function_(std::move(function)) {}
  void show(const char* name, SavedTensor& tensor) override { function_(name, tensor); }
  void show(const char* name, SavedList& tensors) override { function_(name, tensors); }
  void show(const char* name, const SavedValue& value) override { function_(name, value); }

 private:
  F function_;
};

// Holds a node as a pass does, unless this thread is running it already (a hook of its tensors).
class Hold {
 public:
  explicit Hold(Node& node) : node_(autograd::running_node.node == &node ? nullptr : &node) {
    if (!node_) return;
    const WithoutGil released;  // the pass that runs the node may want it
    node_->lock();
  }
  ~Hold() {
    if (node_) node_->unlock();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Node* node_;
};

template <typename F>
void each_field(Node& node, F function) {
  const Hold hold(node);
  Fields<F> fields(std::move(function));
  node.show_saved(fields);
}

// --- values --------------------------------------------------------------------------------------

// PyTorch shows integers of nodes as unsigned ones.
PyObject* unsigned_of(int64_t value) {
  return PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(value));
}

template <typename List, typename F>
PyObject* tuple_of(const List& list, F&& wrap_item) {
  Ref tuple = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(list.size())));
  Py_ssize_t i = 0;
  for (auto&& item : list)
    PyTuple_SET_ITEM(tuple.get(), i++, Ref::checked(wrap_item(item)).release());
  return tuple.release();
}

struct ValueWrapper {
  PyObject* operator()(std::monostate) const { return wrap_none(); }
  PyObject* operator()(int64_t value) const { return unsigned_of(value); }
  PyObject* operator()(bool value) const { return wrap(value); }
  PyObject* operator()(double value) const { return wrap(value); }
  PyObject* operator()(const Scalar& value) const { return wrap(value); }
  PyObject* operator()(ScalarType value) const { return wrap(value); }
  PyObject* operator()(Device value) const { return wrap_device(value); }
  PyObject* operator()(Layout value) const { return wrap_layout(value); }
  PyObject* operator()(MemoryFormat value) const { return wrap_memory_format(value); }
  PyObject* operator()(const Tensor& value) const { return wrap(value); }
  PyObject* operator()(const std::string& value) const {
    return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
  }
  PyObject* operator()(const DimVector& list) const { return tuple_of(list, unsigned_of); }
  template <typename List>
  PyObject* operator()(const List& list) const {
    return tuple_of(list, [](const auto& item) { return wrap(item); });
  }
};

PyObject* unpacked(const SavedTensor& saved, Node& node) {
  const Tensor tensor = saved.unpack(node);
  return tensor.defined() ? wrap(tensor) : wrap_none();
}

PyObject* value_of_field(Node& node, std::string_view wanted) {
  std::function<PyObject*()> read;
  each_field(node, [&]<typename T>(const char* name, const T& field) {
    if (wanted != name) return;
    if constexpr (std::is_same_v<T, SavedTensor>) {
      read = [&node, field] { return unpacked(field, node); };
    } else if constexpr (std::is_same_v<T, SavedList>) {
      read = [&node, field] {
        return tuple_of(field, [&](const SavedTensor& t) { return unpacked(t, node); });
      };
    } else {
      read = [field] { return std::visit(ValueWrapper(), field); };
    }
  });
  return read ? read() : nullptr;
}

// --- raw tensors ---------------------------------------------------------------------------------

// A place in a node: the field, and which tensor of a list.
struct SavedObject {
  PyObject_HEAD intrusive_ptr<Node> node;
  const char* field;  // of the generated code
  size_t index;
};
PyTypeObject* saved_type;

SavedObject& saved_of(PyObject* o) { return *reinterpret_cast<SavedObject*>(o); }

PyObject* new_saved(const intrusive_ptr<Node>& node, const char* field, size_t index) {
  PyObject* self = Ref::checked(saved_type->tp_alloc(saved_type, 0)).release();
  new (&saved_of(self).node) intrusive_ptr<Node>(node);
  saved_of(self).field = field;
  saved_of(self).index = index;
  return self;
}

void saved_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  saved_of(self).node.~intrusive_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* raw_field(const intrusive_ptr<Node>& node, std::string_view wanted) {
  const char* field = nullptr;
  bool is_list = false;
  size_t count = 0;
  each_field(*node, [&]<typename T>(const char* name, const T& saved) {
    if (wanted != name || std::is_same_v<T, SavedValue>) return;
    field = name;
    if constexpr (std::is_same_v<T, SavedList>) {
      is_list = true;
      count = saved.size();
    }
  });
  if (!field) return nullptr;
  if (!is_list) return new_saved(node, field, 0);
  std::vector<size_t> places(count);
  for (size_t i = 0; i < count; ++i) places[i] = i;
  return tuple_of(places, [&](size_t i) { return new_saved(node, field, i); });
}

// Calls a function with the saved tensor that the object stands for, unless it is gone.
template <typename F>
void with_saved(const SavedObject& place, F&& function) {
  each_field(*place.node, [&]<typename T>(const char* name, T& saved) {
    if (name != place.field) return;
    if constexpr (std::is_same_v<T, SavedTensor>) {
      function(saved);
    } else if constexpr (std::is_same_v<T, SavedList>) {
      if (place.index < saved.size()) function(saved[place.index]);
    }
  });
}

PyObject* register_hooks(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO:register_hooks", &pack, &unpack)) return nullptr;
    check_type(PyCallable_Check(pack) && PyCallable_Check(unpack),
               "register_hooks: expected two callables, got ", Py_TYPE(pack)->tp_name, " and ",
               Py_TYPE(unpack)->tp_name);
    const SavedObject& place = saved_of(self);
    SavedTensor saved;
    bool is_there = false;
    with_saved(place, [&](const SavedTensor& t) {
      saved = t;
      is_there = !t.is_released();
    });
    check(is_there,
          "register_hooks: Calling register_hooks on a saved tensor after it has been freed: pass "
          "retain_graph=True to the pass before");
    check(!saved.is_none(),
          "register_hooks: Calling register_hooks on a saved tensor with value None is forbidden");
    saved.set_hook(make_saved_hook(pack, unpack));  // calls pack: without the node's lock
    with_saved(place, [&](SavedTensor& t) {
      if (!t.is_released()) std::swap(t, saved);
    });
    return wrap_none();
  });
}

PyObject* refuse_instance(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError,
                  "SavedTensor: Trying to create a SavedTensor object from Python is forbidden: "
                  "nodes make them");
  return nullptr;
}

PyMethodDef saved_methods[] = {
    {"register_hooks", register_hooks, METH_VARARGS,
     "Keep pack(tensor) for the tensor from now on, and take unpack(of that) for it in backward."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* saved_attribute(const intrusive_ptr<Node>& node, std::string_view name) {
  if (name.starts_with(kValue)) return value_of_field(*node, name.substr(kValue.size()));
  if (name.starts_with(kRaw)) return raw_field(node, name.substr(kRaw.size()));
  return nullptr;
}

void add_saved_names(Node& node, PyObject* list) {
  each_field(node, [&]<typename T>(const char* name, const T&) {
    const auto add = [&](std::string_view prefix) {
      const std::string whole = std::string(prefix) + name;
      const Ref text = Ref::checked(PyUnicode_FromString(whole.c_str()));
      checked(PyList_Append(list, text.get()));
    };
    add(kValue);
    if (!std::is_same_v<T, SavedValue>) add(kRaw);
  });
}

void add_saved_tensor_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(saved_dealloc)},
                         {Py_tp_new, reinterpret_cast<void*>(refuse_instance)},
                         {Py_tp_methods, saved_methods},
                         {0, nullptr}};
  PyType_Spec spec = {"flambeau.autograd.graph.SavedTensor", sizeof(SavedObject), 0,
                      Py_TPFLAGS_DEFAULT, slots};
  saved_type = reinterpret_cast<PyTypeObject*>(Ref::checked(PyType_FromSpec(&spec)).release());
  checked(PyModule_AddObjectRef(module, "SavedTensor", reinterpret_cast<PyObject*>(saved_type)));
}

}  // namespace flambeau::python
