// The state of autocast, for flambeau.amp: _C functions.
#include "aten/transforms/autocast.h"

#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"

namespace flambeau::python {
namespace {

DeviceType type_from(PyObject* o, const char* function) {
  Device device;
  check_type(PyUnicode_Check(o) && device_from(o, &device), function,
             "(): argument 'device_type' must be str, not ", Py_TYPE(o)->tp_name);
  return device.type;
}

// PyTorch's autocast knows these devices; without kernels for them it is never on.
bool is_device_without_kernels(PyObject* o) {
  if (!PyUnicode_Check(o)) return false;
  for (const char* name : {"mps", "xpu", "hpu", "xla", "mtia", "ipu", "maia", "privateuseone"}) {
    if (PyUnicode_CompareWithASCIIString(o, name) == 0) return true;
  }
  return false;
}

PyObject* is_available(PyObject*, PyObject* o) {
  if (is_device_without_kernels(o)) Py_RETURN_FALSE;
  return guarded(
      [&] { return wrap(autocast::is_supported(type_from(o, "is_autocast_available"))); });
}
PyObject* is_enabled(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* device = nullptr;
    if (!PyArg_ParseTuple(args, "|O", &device)) return nullptr;
    if (device && is_device_without_kernels(device)) Py_RETURN_FALSE;
    const DeviceType type = device ? type_from(device, "is_autocast_enabled") : DeviceType::CUDA;
    return wrap(autocast::is_enabled(type));
  });
}
PyObject* set_enabled(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *first, *second = nullptr;
    if (!PyArg_ParseTuple(args, "O|O", &first, &second)) return nullptr;
    PyObject* enabled = second ? second : first;
    check_type(PyBool_Check(enabled),
               "set_autocast_enabled(): argument 'enabled' must be bool, not ",
               Py_TYPE(enabled)->tp_name);
    const DeviceType type = second ? type_from(first, "set_autocast_enabled") : DeviceType::CUDA;
    autocast::set_enabled(type, enabled == Py_True);
    return wrap_none();
  });
}
PyObject* get_dtype(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(autocast::dtype_of(type_from(o, "get_autocast_dtype"))); });
}
PyObject* set_dtype(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *device, *dtype;
    ScalarType type;
    if (!PyArg_ParseTuple(args, "OO", &device, &dtype)) return nullptr;
    check_type(scalar_type_from(dtype, &type),
               "set_autocast_dtype(): argument 'dtype' must be flambeau.dtype, not ",
               Py_TYPE(dtype)->tp_name);
    autocast::set_dtype(type_from(device, "set_autocast_dtype"), type);
    return wrap_none();
  });
}
PyObject* is_cache_enabled(PyObject*, PyObject*) { return wrap(autocast::is_cache_enabled()); }
PyObject* set_cache_enabled(PyObject*, PyObject* o) {
  return guarded([&] {
    check_type(PyBool_Check(o), "set_autocast_cache_enabled(): expected a bool, got ",
               Py_TYPE(o)->tp_name);
    autocast::set_cache_enabled(o == Py_True);
    return wrap_none();
  });
}
PyObject* clear_cache(PyObject*, PyObject*) {
  autocast::clear_cache();
  Py_RETURN_NONE;
}
PyObject* increment(PyObject*, PyObject*) { return wrap(int64_t{autocast::increment_nesting()}); }
PyObject* decrement(PyObject*, PyObject*) { return wrap(int64_t{autocast::decrement_nesting()}); }

PyMethodDef functions[] = {
    {"_is_autocast_available", is_available, METH_O, nullptr},
    {"is_autocast_enabled", is_enabled, METH_VARARGS,
     "is_autocast_enabled(device_type)\n\nWhether autocast is enabled for a device; CUDA by "
     "default."},
    {"set_autocast_enabled", set_enabled, METH_VARARGS,
     "set_autocast_enabled(device_type, enabled)\n\nEnable autocast for a device in this thread."},
    {"get_autocast_dtype", get_dtype, METH_O, "The lower precision of autocast for a device."},
    {"set_autocast_dtype", set_dtype, METH_VARARGS,
     "set_autocast_dtype(device_type, dtype)\n\nSet the lower precision of autocast for a device."},
    {"is_autocast_cache_enabled", is_cache_enabled, METH_NOARGS,
     "Whether casts of parameters are kept within a region."},
    {"set_autocast_cache_enabled", set_cache_enabled, METH_O,
     "Set whether casts of parameters are kept within a region."},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, "Forget the casts of parameters."},
    {"autocast_increment_nesting", increment, METH_NOARGS, "Enter a region; returns the depth."},
    {"autocast_decrement_nesting", decrement, METH_NOARGS, "Leave a region; returns the depth."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_autocast(PyObject* module) {
  autocast::install();
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
