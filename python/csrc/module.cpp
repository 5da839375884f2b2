// The extension module flambeau._C: makes its types and adds the tables of functions.
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/checksum.h"
#include "python/csrc/custom_object.h"
#include "python/csrc/data.h"
#include "python/csrc/default_override.h"
#include "python/csrc/extension_access.h"
#include "python/csrc/fused.h"
#include "python/csrc/gradient_lists.h"
#include "python/csrc/guards.h"
#include "python/csrc/memory_history.h"
#include "python/csrc/module_slots.h"
#include "python/csrc/operator_call.h"
#include "python/csrc/operator_texts.h"
#include "python/csrc/private_device.h"
#include "python/csrc/profiling.h"
#include "python/csrc/pybind_module.h"
#include "python/csrc/python_kernels.h"
#include "python/csrc/row_kernels.h"
#include "python/csrc/torch_dispatch.h"
#include "python/csrc/torch_function.h"
#include "python/csrc/value_types.h"
#include "python/csrc/wrapper_questions.h"

namespace flambeau::python {
extern const char* const kSpecHash;  // spec_hash.cpp, which CMake makes

namespace {

// Generated functions live in submodules by namespace: _C._functions, _C._nn, ...
void add_namespaces(PyObject* module) {
  for (NamespaceTable* table = generated_namespaces; table->name; ++table) {
    const std::string name = *table->name ? text_of("_", table->name) : std::string("_functions");
    Ref part = Ref::checked(PyModule_New(text_of("flambeau._C.", name).c_str()));
    set_texts(table->functions, table->texts);
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
                          nullptr,
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
    add_tensor_functions(module.get());
    add_pybind_module(module.get());
    add_torch_function(module.get());
    add_default_override(module.get());
    add_torch_dispatch(module.get());
    add_wrapper_questions(module.get());
    add_python_kernels(module.get());
    add_operator_call(module.get());
    add_overridable_function(module.get());
    add_module_slots(module.get());
    add_guards(module.get());
    add_profiling(module.get());
    add_memory_history(module.get());
    add_private_device(module.get());
    add_gradient_lists(module.get());
    add_fused(module.get());
    add_row_kernels(module.get());
    add_namespaces(module.get());
    add_autograd(module.get());
    add_checksum(module.get());
    add_extension_access(module.get());
    add_custom_objects(module.get());
    watch_long_work();
    return module.release();
  });
}
