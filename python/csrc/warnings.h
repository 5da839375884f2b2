#pragma once
// Python's warnings from code that may run without the GIL.
#include "python/csrc/object.h"

namespace flambeau::python {

// A UserWarning at the caller's line. PythonError where Python makes it an error.
inline void warn(const std::string& message) {
  const WithGil gil;
  checked(PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1));
}

}  // namespace flambeau::python
