#include "python/csrc/private_device.h"

#include "aten/cpu/generator.h"
#include "aten/dispatch/device_fallback.h"
#include "c10/core/device_backend.h"
#include "c10/core/private_device.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/value_types.h"
#include "python/csrc/warnings.h"

namespace flambeau::python {
namespace {

PyObject* rename(PyObject*, PyObject* name) {
  return guarded([&] {
    check(PyUnicode_Check(name), "rename_privateuse1_backend: expected a str, got ",
          Py_TYPE(name)->tp_name);
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(name, &size);
    if (!text) throw PythonError();
    rename_private_device(std::string_view(text, static_cast<size_t>(size)));
    return wrap_none();
  });
}
PyObject* name_of_backend(PyObject*, PyObject*) {
  return PyUnicode_FromString(name_of(DeviceType::PrivateUse1));
}
PyObject* note_module(PyObject*, PyObject*) {
  note_private_module();
  Py_RETURN_NONE;
}
// 0 without a backend.
PyObject* device_count(PyObject*, PyObject*) {
  return guarded([&] {
    const c10::DeviceBackend* const backend = c10::private_backend();
    return wrap(int64_t{backend ? backend->device_count() : 0});
  });
}
// _privateuse1_generator(index)
PyObject* generator(PyObject*, PyObject* index) {
  return guarded([&] {
    const int64_t wanted = integer_from(index);
    check(wanted >= -1 && wanted < 128, "default_generators: expected the index of a device, got ",
          wanted);
    const Device device(DeviceType::PrivateUse1, static_cast<int8_t>(wanted));
    return wrap_generator(Generator::share(&default_device_generator(device)));
  });
}
// _set_privateuse1_fallback(mode): 0 warn, 1 silent, 2 error. The previous mode.
PyObject* set_fallback(PyObject*, PyObject* mode) {
  return guarded([&] {
    const int64_t wanted = integer_from(mode);
    check_value(wanted >= 0 && wanted <= 2, "_set_privateuse1_fallback: expected 0, 1 or 2, got ",
                wanted);
    return wrap(static_cast<int64_t>(set_device_fallback(static_cast<FallbackMode>(wanted))));
  });
}

PyMethodDef functions[] = {{"_rename_privateuse1_backend", rename, METH_O, nullptr},
                           {"_get_privateuse1_backend_name", name_of_backend, METH_NOARGS, nullptr},
                           {"_note_privateuse1_module", note_module, METH_NOARGS, nullptr},
                           {"_privateuse1_device_count", device_count, METH_NOARGS, nullptr},
                           {"_privateuse1_generator", generator, METH_O, nullptr},
                           {"_set_privateuse1_fallback", set_fallback, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_private_device(PyObject* module) {
  warn_of_fallback = warn;
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
