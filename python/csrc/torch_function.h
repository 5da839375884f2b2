#pragma once
// __torch_function__: classes that take over the calls in which their instances appear.
#include "python/csrc/arg_parser.h"

namespace flambeau::python {

// Whether the class of `o` has a __torch_function__ of its own that is not switched off.
bool overrides(PyObject* o);
// The same of the items of a list or tuple, or of `o` itself.
bool holds_override(PyObject* o);

// Which public function is being called: what an override receives as its first argument.
struct PublicName {
  const char* name;
  bool is_method = false;  // of Tensor
  const char* module = "_functions";
};
// Calls the overrides of the arguments, subclasses first, until one answers. Throws PythonError.
PyObject* call_override(const PublicName& name, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames);

// _C functions: _disabled_torch_function_impl, and the context manager that switches overriding
// off.
void add_torch_function(PyObject* module);

}  // namespace flambeau::python
