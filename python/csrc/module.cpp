// The extension module flambeau._C: types, generated tables, and the functions that are no
// operators.
#include <cstring>
#include <vector>

#include "aten/core/determinism.h"
#include "aten/core/factory.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/cpu/generator.h"
#include "aten/cpu/parallel.h"
#include "aten/dispatch/operator_entry.h"
#include "aten/transforms/layers.h"
#include "c10/core/allocator.h"
#include "c10/core/isa.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/checksum.h"
#include "python/csrc/data.h"
#include "python/csrc/gradient_lists.h"
#include "python/csrc/module_slots.h"
#include "python/csrc/numpy_types.h"
#include "python/csrc/torch_function.h"
#include "python/csrc/transforms.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
extern const char* const kSpecHash;  // spec_hash.cpp, which CMake makes

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
    return wrap(transforms::lift_fresh(tensor_from_data(data, dtype, device)));
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

// A tensor over part of another's storage, for unpickling.
PyObject* rebuild(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *storage, *dtype_object, *sizes, *strides;
    long long offset;
    if (!PyArg_ParseTuple(args, "OOOOL", &storage, &dtype_object, &sizes, &strides, &offset))
      return nullptr;
    ScalarType dtype;
    check_type(is_tensor(storage) && scalar_type_from(dtype_object, &dtype),
               "_rebuild: expected a storage and a dtype");
    const auto dims = [](PyObject* o) {
      const Ref items = Ref::checked(PySequence_Fast(o, "expected a sequence"));
      DimVector out;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        out.push_back(integer_from(PySequence_Fast_GET_ITEM(items.get(), i)));
      }
      return out;
    };
    const DimVector size = dims(sizes);
    const DimVector step = dims(strides);
    check(size.size() == step.size() && offset >= 0,
          "_rebuild: sizes and strides must have equal length");
    const int64_t extent = extent_of(size, step);
    const int64_t bytes = product_of("_rebuild", sum_of("_rebuild", offset, extent),
                                     static_cast<int64_t>(element_size(dtype)));
    const auto have = static_cast<int64_t>(tensor_of(storage).storage()->nbytes());
    check(extent == 0 || bytes <= have, "_rebuild: the geometry reaches beyond the storage of ",
          have, " bytes");
    Tensor out(make_intrusive<TensorImpl>(tensor_of(storage).storage(), dtype,
                                          tensor_of(storage).device()));
    out.impl()->set_geometry(size, step, offset);
    return wrap(std::move(out));
  });
}

// The whole storage as a tensor of bytes.
PyObject* storage_bytes(PyObject*, PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (is_sparse(tensor_of(self)))
      fail(ErrorKind::NotImplemented, "Cannot access the storage of a sparse tensor: it has none");
    check(!transforms::is_batched(tensor_of(self)),
          "Cannot access the storage of a tensor under vmap: it stands for a whole batch");
    const Storage& storage = tensor_of(self).storage();
    Tensor out(make_intrusive<TensorImpl>(storage, ScalarType::UInt8, tensor_of(self).device()));
    out.impl()->set_contiguous_sizes({static_cast<int64_t>(storage->nbytes())});
    return wrap(std::move(out));
  });
}

// How many tensors and nodes hold the memory of this one.
PyObject* storage_users(PyObject*, PyObject* self) {
  return guarded([&] { return PyLong_FromUnsignedLong(tensor_of(self).storage()->use_count()); });
}

// Each object gets the other's tensor and attributes. Whoever else holds one of the tensors would
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

PyObject* empty_bytes(PyObject*, PyObject* count) {
  return guarded([&] { return wrap(empty_tensor({integer_from(count)}, ScalarType::UInt8)); });
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

PyObject* get_default_dtype(PyObject*, PyObject*) { return wrap(default_dtype()); }
PyObject* set_default(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    ScalarType dtype;
    check_type(scalar_type_from(o, &dtype), "set_default_dtype: expected a dtype, got ",
               Py_TYPE(o)->tp_name);
    set_default_dtype(dtype);
    Py_RETURN_NONE;
  });
}
bool parse_pair(PyObject* args, PyObject* kwargs, const char* const* names, PyObject** a,
                PyObject** b) {
  return PyArg_ParseTupleAndKeywords(args, kwargs, "OO", const_cast<char**>(names), a, b);
}
using WithKeywords = PyObject* (*)(PyObject*, PyObject*, PyObject*);
PyCFunction with_keywords(WithKeywords f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}
PyObject* promote(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* const names[] = {"type1", "type2", nullptr};
    PyObject *a, *b;
    ScalarType x, y;
    if (!parse_pair(args, kwargs, names, &a, &b)) return nullptr;
    check_type(scalar_type_from(a, &x) && scalar_type_from(b, &y),
               "promote_types: expected two dtypes");
    return wrap(promote_types(x, y));
  });
}
PyObject* castable(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* const names[] = {"from_", "to", nullptr};
    PyObject *a, *b;
    ScalarType x, y;
    if (!parse_pair(args, kwargs, names, &a, &b)) return nullptr;
    check_type(scalar_type_from(a, &x) && scalar_type_from(b, &y), "can_cast: expected two dtypes");
    return wrap(can_cast(x, y));
  });
}
// The device of what is made without one; None: the CPU.
PyObject* get_device_override(PyObject*, PyObject*) {
  const std::optional<Device> device = default_device();
  return device ? wrap_device(*device) : wrap_none();
}
PyObject* set_device_override(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    Device device;
    check_type(o == Py_None || device_from(o, &device),
               "set_default_device: expected a device or None, got ", Py_TYPE(o)->tp_name);
    set_default_device(o == Py_None ? std::nullopt : std::optional<Device>(device));
    Py_RETURN_NONE;
  });
}
PyObject* set_fills(PyObject*, PyObject* o) {
  set_fills_uninitialized(PyObject_IsTrue(o) == 1);
  Py_RETURN_NONE;
}
// Whether tiny results become 0: two bits of each thread's control register.
PyObject* set_flush_denormal(PyObject*, PyObject* o) {
#if defined(__SSE2__)
  const bool flush = PyObject_IsTrue(o) == 1;
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
#pragma omp parallel
  {
    const unsigned rest = __builtin_ia32_stmxcsr() & ~(kFlushToZero | kDenormalsAreZero);
    __builtin_ia32_ldmxcsr(flush ? rest | kFlushToZero | kDenormalsAreZero : rest);
  }
  Py_RETURN_TRUE;
#else
  Py_RETURN_FALSE;
#endif
}
PyObject* get_threads(PyObject*, PyObject*) {
  return wrap(static_cast<int64_t>(get_num_threads()));
}
PyObject* set_threads(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const int64_t n = integer_from(o);
    check(n > 0, "set_num_threads expects a positive integer");
    set_num_threads(static_cast<int>(n));
    Py_RETURN_NONE;
  });
}
PyObject* memory_stats(PyObject*, PyObject*) {
  const AllocatorStats s = cpu_allocator()->stats();
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "allocated_bytes", s.allocated_bytes,
                       "peak_allocated_bytes", s.peak_allocated_bytes, "cached_bytes",
                       s.cached_bytes, "allocations", s.allocations, "cache_hits", s.cache_hits);
}
PyObject* empty_cache(PyObject*, PyObject*) {
  cpu_allocator()->empty_cache();
  Py_RETURN_NONE;
}
PyObject* reset_peak(PyObject*, PyObject*) {
  cpu_allocator()->reset_peak();
  Py_RETURN_NONE;
}
PyObject* cpu_capability(PyObject*, PyObject*) {
  return PyUnicode_FromString(name_of(static_cast<Isa>(cpu_isa())));
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
    check(count > 1, "_return_type: expected a name and fields");
    // The type keeps the fields' names for good.
    for (const char*& text : texts) text = strdup(text);
    PyTypeObject* type = make_return_type(texts[0], texts.data() + 1, static_cast<int>(count) - 1);
    return Py_NewRef(reinterpret_cast<PyObject*>(type));
  });
}

PyObject* is_array(PyObject*, PyObject* o) { return wrap(is_ndarray(o)); }
PyObject* is_array_scalar(PyObject*, PyObject* o) { return wrap(is_numpy_scalar(o)); }
PyObject* has_buffer(PyObject*, PyObject* o) { return wrap(PyObject_CheckBuffer(o) != 0); }

PyObject* operator_names(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    const auto& all = all_operators();
    Ref list = Ref::checked(PyList_New(static_cast<Py_ssize_t>(all.size())));
    for (size_t i = 0; i < all.size(); ++i) {
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), PyUnicode_FromString(all[i]->schema));
    }
    return list.release();
  });
}

PyMethodDef functions[] = {
    {"tensor", tensor_function, METH_VARARGS, nullptr},
    {"_set_size_class", set_size_class, METH_O, nullptr},
    {"_as_subclass", as_subclass, METH_VARARGS, nullptr},
    {"_rebuild", rebuild, METH_VARARGS, nullptr},
    {"_storage_bytes", storage_bytes, METH_O, nullptr},
    {"_empty_bytes", empty_bytes, METH_O, nullptr},
    {"_storage_users", storage_users, METH_O, nullptr},
    {"_swap_tensors", swap_tensors, METH_VARARGS, nullptr},
    {"_result_type", result_type_of, METH_VARARGS, nullptr},
    {"_from_array_interface", from_array_interface, METH_O, nullptr},
    {"_from_dlpack_capsule", from_dlpack_capsule, METH_O, nullptr},
    {"_from_buffer", from_buffer, METH_VARARGS, nullptr},
    {"_is_ndarray", is_array, METH_O, nullptr},
    {"_is_numpy_scalar", is_array_scalar, METH_O, nullptr},
    {"_has_buffer", has_buffer, METH_O, nullptr},
    {"_map_file", map_file, METH_VARARGS, nullptr},
    {"_end_with_process", end_with_process, METH_O, nullptr},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "The dtype of floating results of integers; float32 at first."},
    {"set_default_dtype", set_default, METH_O,
     "Set the dtype of floating results of integers and of float data."},
    {"promote_types", with_keywords(promote), METH_VARARGS | METH_KEYWORDS,
     "The smallest dtype to which both can be cast without loss of category."},
    {"can_cast", with_keywords(castable), METH_VARARGS | METH_KEYWORDS,
     "Whether a result of the first dtype may be written to the second."},
    {"get_num_threads", get_threads, METH_NOARGS, "How many threads an operator may use."},
    {"set_num_threads", set_threads, METH_O, "Set how many threads an operator may use."},
    {"_get_default_device", get_device_override, METH_NOARGS, nullptr},
    {"_set_default_device", set_device_override, METH_O, nullptr},
    {"_set_fills_uninitialized", set_fills, METH_O, nullptr},
    {"set_flush_denormal", set_flush_denormal, METH_O,
     "Turn numbers below the smallest normal one into 0, or keep them; whether the CPU can do "
     "that."},
    {"_memory_stats", memory_stats, METH_NOARGS, nullptr},
    {"_empty_cache", empty_cache, METH_NOARGS, nullptr},
    {"_reset_peak", reset_peak, METH_NOARGS, nullptr},
    {"_cpu_capability", cpu_capability, METH_NOARGS, nullptr},
    {"_operator_schemas", operator_names, METH_NOARGS, nullptr},
    {"_return_type", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(return_type_of)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

// Generated functions live in submodules by namespace: _C._functions, _C._nn, ...
void add_namespaces(PyObject* module) {
  for (NamespaceTable* table = generated_namespaces; table->name; ++table) {
    const std::string name = *table->name ? text_of("_", table->name) : std::string("_functions");
    Ref part = Ref::checked(PyModule_New(text_of("flambeau._C.", name).c_str()));
    checked(PyModule_AddFunctions(part.get(), table->functions));
    checked(PyModule_AddObjectRef(module, name.c_str(), part.get()));
    PyObject* modules = PyImport_GetModuleDict();
    checked(PyDict_SetItemString(modules, text_of("flambeau._C.", name).c_str(), part.get()));
  }
}

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "flambeau._C",
                          "The native side of flambeau.",
                          -1,
                          functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace flambeau::python

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() {
  using namespace flambeau::python;
  return guarded([]() -> PyObject* {
    Ref module = Ref::checked(PyModule_Create(&definition));
    checked(PyModule_AddStringConstant(module.get(), "_spec_hash", kSpecHash));
    add_errors(module.get());
    add_value_types(module.get());
    make_tensor_type(module.get());
    add_torch_function(module.get());
    add_overridable_function(module.get());
    add_module_slots(module.get());
    add_gradient_lists(module.get());
    add_namespaces(module.get());
    add_autograd(module.get());
    add_checksum(module.get());
    add_transforms(module.get());
    add_autocast(module.get());
    watch_long_work();
    return module.release();
  });
}
