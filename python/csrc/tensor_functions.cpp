// Functions of the module that make tensors or look at one: not operators, since they work on
// Python objects or on storages.
#include <cstring>
#include <vector>

#include "aten/core/factory.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/core/view.h"
#include "aten/transforms/layers.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/data.h"
#include "python/csrc/torch_dispatch.h"
#include "python/csrc/transforms.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

// tensor(data, dtype, device): the copying factory; options in Python.
PyObject* tensor_function(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *data, *dtype_object, *device_object;
    if (!PyArg_ParseTuple(args, "OOO", &data, &dtype_object, &device_object)) return nullptr;
    ScalarType dtype = ScalarType::Undefined;
    Device device;
    check_type(dtype_object == Py_None || scalar_type_from(dtype_object, &dtype),
               "tensor(): argument 'dtype' must be flambeau.dtype, not ",
               Py_TYPE(dtype_object)->tp_name);
    check_type(device_object == Py_None || device_from(device_object, &device),
               "tensor(): argument 'device' must be flambeau.device, not ",
               Py_TYPE(device_object)->tp_name);
    if (device_object == Py_None && !is_tensor(data)) device = default_device().value_or(device);
    const Tensor made = tensor_from_data(data, dtype, device_of_data(device));
    return wrap(transforms::lift_fresh(adopted_by_mode(made, device)));
  });
}

PyObject* set_size_class(PyObject*, PyObject* size_class) {
  if (!PyType_Check(size_class))
    return PyErr_Format(PyExc_TypeError, "_set_size_class: expected a class");
  size_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(size_class));
  Py_RETURN_NONE;
}

PyObject* as_subclass(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *source, *type;
    if (!PyArg_ParseTuple(args, "OO!", &source, &PyType_Type, &type)) return nullptr;
    check_type(is_tensor(source), "as_subclass: expected a Tensor, got ", Py_TYPE(source)->tp_name);
    check_type(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type),
               "as_subclass: expected a subclass of Tensor, got ",
               reinterpret_cast<PyTypeObject*>(type)->tp_name);
    return wrap_as(reinterpret_cast<PyTypeObject*>(type), alias_with_history(tensor_of(source)));
  });
}

DimVector dims_from(PyObject* o) {
  const Ref items = Ref::checked(PySequence_Fast(o, "expected a sequence"));
  DimVector out;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    out.push_back(integer_from(PySequence_Fast_GET_ITEM(items.get(), i)));
  return out;
}

// A tensor over part of another's storage, for unpickling.
PyObject* rebuild(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *storage, *dtype_object, *sizes, *strides;
    long long offset;
    if (!PyArg_ParseTuple(args, "OOOOL", &storage, &dtype_object, &sizes, &strides, &offset))
      return nullptr;
    ScalarType dtype;
    check_type(is_tensor(storage) && scalar_type_from(dtype_object, &dtype),
               "_rebuild: expected a storage and a dtype, got ", Py_TYPE(storage)->tp_name, " and ",
               Py_TYPE(dtype_object)->tp_name);
    const DimVector size = dims_from(sizes);
    const DimVector step = dims_from(strides);
    check(size.size() == step.size() && offset >= 0,
          "_rebuild: sizes and strides must have equal length");
    const int64_t extent = extent_of(size, step);
    const int64_t bytes = product_of("_rebuild", sum_of("_rebuild", offset, extent),
                                     static_cast<int64_t>(element_size(dtype)));
    const auto have = static_cast<int64_t>(tensor_of(storage).storage()->nbytes());
    check(extent == 0 || bytes <= have, "_rebuild: expected a tensor within the storage of ", have,
          " bytes, got one of ", bytes);
    Tensor out(make_intrusive<TensorImpl>(tensor_of(storage).storage(), dtype,
                                          tensor_of(storage).device()));
    out.impl()->set_geometry(size, step, offset);
    return wrap(std::move(out));
  });
}

// _make_wrapper(class, sizes, strides, offset, dtype, device): a tensor without memory, whose class
// answers for it by __torch_dispatch__.
PyObject* make_wrapper(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *type, *sizes, *strides, *dtype_object, *device_object;
    long long offset;
    if (!PyArg_ParseTuple(args, "O!OOLOO", &PyType_Type, &type, &sizes, &strides, &offset,
                          &dtype_object, &device_object)) {
      return nullptr;
    }
    ScalarType dtype;
    Device device;
    check_type(scalar_type_from(dtype_object, &dtype) && device_from(device_object, &device),
               "_make_wrapper_subclass: expected a dtype and a device, got ",
               Py_TYPE(dtype_object)->tp_name, " and ", Py_TYPE(device_object)->tp_name);
    const DimVector size = dims_from(sizes), step = dims_from(strides);
    for (const int64_t n : size)
      check(n >= 0, "_make_wrapper_subclass: expected sizes of at least 0, got ", n);
    check(size.size() == step.size() && offset >= 0,
          "_make_wrapper_subclass: expected as many strides as sizes and an offset of at least 0, "
          "got sizes ",
          size, ", strides ", step, " and offset ", offset);
    numel_of(size);
    Storage storage = make_intrusive<StorageImpl>(nullptr, 0, device, [](void*) {}, nullptr);
    Tensor out(make_intrusive<TensorImpl>(std::move(storage), dtype, device));
    out.impl()->set_geometry(size, step, offset);
    out.impl()->set_inference(thread_state.inference_mode);
    return wrap_as(reinterpret_cast<PyTypeObject*>(type), std::move(out));
  });
}

// _share_storage(target, source, views=0, offset=-1): the target shares the source's memory, as a
// result of __torch_dispatch__ must where the schema says so. Autograd then knows it as one of so
// many views, which begins `offset` elements after the storage does.
PyObject* share_storage(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *target, *source;
    int views = 0;
    long long offset = -1;
    if (!PyArg_ParseTuple(args, "O!O!|iL", tensor_type, &target, tensor_type, &source, &views,
                          &offset))
      return nullptr;
    const Tensor& t = tensor_of(target);
    const bool has_memory = t.storage()->data() != nullptr;
    const Storage& shared = tensor_of(source).storage();
    if (has_memory && !shared->data()) return wrap_none();  // the source holds its elements itself
    if (has_memory && t.storage()->data() != shared->data()) {
      const size_t end =
          (t.storage_offset() + extent_of(t.sizes(), t.strides())) * element_size(t.dtype());
      check(end <= shared->nbytes(), "_share_storage: expected a view of at most ",
            shared->nbytes(), " bytes, as its source has, got one of ", end);
    }
    t.impl()->set_storage(shared);
    if (offset >= 0 && !has_memory) t.impl()->set_geometry(t.sizes(), t.strides(), offset);
    const bool is_inference = tensor_of(source).impl()->is_inference();
    if (views > 0 && is_inference) t.impl()->set_inference(true);
    if (views > 0 && !is_inference && !thread_state.inference_mode && note_view)
      note_view(tensor_of(source), t, views > 1);
    return wrap_none();
  });
}

// The whole storage as a tensor of bytes.
PyObject* storage_bytes(PyObject*, PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (is_sparse(tensor_of(self)))
      fail(ErrorKind::NotImplemented, "Cannot access the storage of a sparse tensor: expected a ",
           "strided tensor, got a sparse one");
    check(!transforms::is_batched(tensor_of(self)),
          "Cannot access the storage of a tensor under vmap: expected an unbatched tensor, got a "
          "batched one");
    const Storage& storage = readable(self).storage();
    Tensor out(make_intrusive<TensorImpl>(storage, ScalarType::UInt8, tensor_of(self).device()));
    out.impl()->set_contiguous_sizes({static_cast<int64_t>(storage->nbytes())});
    return wrap(std::move(out));
  });
}

// Whether the next write to the tensor takes or copies memory that it shares with a lazy clone.
PyObject* is_cow_tensor(PyObject*, PyObject* self) {
  return guarded([&] {
    check_type(is_tensor(self), "_is_cow_tensor: expected a Tensor, got ", Py_TYPE(self)->tp_name);
    return wrap(readable(self).storage()->is_copy_on_write());
  });
}

using WeakStorage = weak_intrusive_ptr<StorageImpl>;

void release_weak_storage(PyObject* capsule) {
  delete static_cast<WeakStorage*>(PyCapsule_GetPointer(capsule, nullptr));
}

// A weak reference to the storage of a tensor, for StorageWeakRef.
PyObject* weak_storage(PyObject*, PyObject* self) {
  return guarded([&] {
    check_type(is_tensor(self), "StorageWeakRef: expected a storage, got ", Py_TYPE(self)->tp_name);
    auto weak = std::make_unique<WeakStorage>(readable(self).storage());
    PyObject* capsule =
        Ref::checked(PyCapsule_New(weak.get(), nullptr, release_weak_storage)).release();
    static_cast<void>(weak.release());
    return capsule;
  });
}

PyObject* weak_storage_expired(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const auto* weak = static_cast<WeakStorage*>(PyCapsule_GetPointer(capsule, nullptr));
    if (!weak) throw PythonError();
    return wrap(weak->expired());
  });
}

// How many tensors and nodes hold the memory of this one.
PyObject* storage_users(PyObject*, PyObject* self) {
  return guarded([&] { return PyLong_FromUnsignedLong(tensor_of(self).storage()->use_count()); });
}

// _free_memory(tensor): the tensor and all views of its storage lose their memory; reads of
// elements raise an error until _restore_memory.
PyObject* free_memory(PyObject*, PyObject* self) {
  return guarded([&] {
    check_type(is_tensor(self), "_free_memory: expected a Tensor, got ", Py_TYPE(self)->tp_name);
    tensor_of(self).storage()->resize(0);
    return wrap_none();
  });
}

// _restore_memory(tensor, nbytes): new memory, not initialised, after _free_memory. The version
// stays, since the caller fills in the same values. `nbytes` is the size that the storage had.
PyObject* restore_memory(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* self;
    long long nbytes;
    if (!PyArg_ParseTuple(args, "O!L", tensor_type, &self, &nbytes)) return nullptr;
    const Storage& storage = tensor_of(self).storage();
    check(nbytes >= 0 && storage->nbytes() == 0,
          "_restore_memory: expected a tensor without memory, got one with ", storage->nbytes(),
          " bytes");
    storage->resize(static_cast<size_t>(nbytes));
    return wrap_none();
  });
}

// Each object gets the other's tensor and attributes. Code that holds one of the tensors would
// get the other object for it afterwards, so nobody may.
PyObject* swap_tensors(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!", tensor_type, &a, tensor_type, &b)) return nullptr;
    for (PyObject* o : {a, b}) {
      const uint32_t users = tensor_of(o).impl()->use_count();
      check(users == 1, "swap_tensors: expected use_count 1, got ", users,
            ": a graph or a container of the runtime holds the tensor");
    }
    std::swap(mutable_tensor_of(a), mutable_tensor_of(b));
    std::swap(reinterpret_cast<TensorObject*>(a)->attributes,
              reinterpret_cast<TensorObject*>(b)->attributes);
    for (PyObject* o : {a, b}) {
      tensor_of(o).impl()->py_slot().object = o;
      if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
    }
    Py_RETURN_NONE;
  });
}

PyObject* result_type_of(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* operands[2];
    if (!PyArg_ParseTuple(args, "OO", &operands[0], &operands[1])) return nullptr;
    TypePromotion promotion;
    for (PyObject* o : operands) {
      check_type(is_tensor(o) || is_number(o), "result_type: expected a Tensor or a number, got ",
                 Py_TYPE(o)->tp_name);
      if (is_tensor(o)) {
        promotion.add(tensor_of(o));
      } else {
        promotion.add(scalar_from(o));
      }
    }
    return wrap(promotion.result());
  });
}

// _return_type(name, *fields): the type of results with these names.
PyObject* return_type_of(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    std::vector<const char*> texts;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const char* text = PyUnicode_AsUTF8(args[i]);
      if (!text) throw PythonError();
      texts.push_back(text);
    }
    check(count > 1, "_return_type: expected a name and fields, got ", count, " values");
    // The type keeps the fields' names for good.
    for (const char*& text : texts) text = strdup(text);
    PyTypeObject* type = make_return_type(texts[0], texts.data() + 1, static_cast<int>(count) - 1);
    return Py_NewRef(reinterpret_cast<PyObject*>(type));
  });
}

PyMethodDef functions[] = {
    {"tensor", tensor_function, METH_VARARGS, nullptr},
    {"_set_size_class", set_size_class, METH_O, nullptr},
    {"_as_subclass", as_subclass, METH_VARARGS, nullptr},
    {"_make_wrapper", make_wrapper, METH_VARARGS, nullptr},
    {"_share_storage", share_storage, METH_VARARGS, nullptr},
    {"_is_cow_tensor", is_cow_tensor, METH_O, nullptr},
    {"_weak_storage", weak_storage, METH_O, nullptr},
    {"_weak_storage_expired", weak_storage_expired, METH_O, nullptr},
    {"_rebuild", rebuild, METH_VARARGS, nullptr},
    {"_storage_bytes", storage_bytes, METH_O, nullptr},
    {"_storage_users", storage_users, METH_O, nullptr},
    {"_free_memory", free_memory, METH_O, nullptr},
    {"_restore_memory", restore_memory, METH_VARARGS, nullptr},
    {"_swap_tensors", swap_tensors, METH_VARARGS, nullptr},
    {"_result_type", result_type_of, METH_VARARGS, nullptr},
    {"_from_array_interface", from_array_interface, METH_O, nullptr},
    {"_from_dlpack_capsule", from_dlpack_capsule, METH_O, nullptr},
    {"_from_buffer", from_buffer, METH_VARARGS, nullptr},
    {"_return_type", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(return_type_of)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_tensor_functions(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
