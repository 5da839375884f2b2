#pragma once
// The saved values of nodes as attributes of their objects.
#include <string_view>

#include "aten/autograd/saved_tensor.h"
#include "python/csrc/autograd.h"

namespace flambeau::python {

// The attribute _saved_* or _raw_saved_* of a node as a new reference; null if it has none so
// called.
PyObject* saved_attribute(const intrusive_ptr<autograd::Node>& node, std::string_view name);
// Appends the names of these attributes.
void add_saved_names(autograd::Node& node, PyObject* list);
// Hooks of one saved tensor (autograd_saved.cpp).
intrusive_ptr<autograd::SavedTensorHook> make_saved_hook(PyObject* pack, PyObject* unpack);
void add_saved_tensor_type(PyObject* module);

}  // namespace flambeau::python
