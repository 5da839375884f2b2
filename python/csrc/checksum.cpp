#include "python/csrc/checksum.h"

#include "c10/core/checksum.h"
#include "python/csrc/object.h"

namespace flambeau::python {
namespace {

// _crc32(data, start=0): as zlib.crc32.
PyObject* crc32(PyObject*, PyObject* args) {
  Py_buffer view;
  unsigned int start = 0;
  if (!PyArg_ParseTuple(args, "y*|I", &view, &start)) return nullptr;
  uint32_t found = 0;
  Py_BEGIN_ALLOW_THREADS;
  found = c10::crc32(view.buf, static_cast<size_t>(view.len), start);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&view);
  return PyLong_FromUnsignedLong(found);
}

PyMethodDef functions[] = {{"_crc32", crc32, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_checksum(PyObject* module) {
  if (c10::has_fast_crc32()) checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
