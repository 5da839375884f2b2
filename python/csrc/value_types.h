#pragma once
// Small immutable Python types: dtype, device, layout, memory_format and Size; and Generator, which
// pybind_module.cpp makes.
#include "aten/core/tensor.h"
#include "python/csrc/object.h"

namespace flambeau::python {

struct DtypeObject {
  PyObject_HEAD ScalarType value;
};
struct DeviceObject {
  PyObject_HEAD Device value;
};
struct LayoutObject {
  PyObject_HEAD Layout value;
};
struct MemoryFormatObject {
  PyObject_HEAD MemoryFormat value;
};

extern PyTypeObject* dtype_type;
extern PyTypeObject* device_type;
extern PyTypeObject* layout_type;
extern PyTypeObject* memory_format_type;
extern PyTypeObject* generator_type;
extern PyTypeObject* size_type;  // set from Python: a subclass of tuple

PyObject* wrap_device(Device device);
PyObject* wrap_layout(Layout layout);
PyObject* wrap_memory_format(MemoryFormat format);
PyObject* wrap_generator(Generator generator);

// Makes the types and adds them, and their constants, to the module.
void add_value_types(PyObject* module);

}  // namespace flambeau::python
