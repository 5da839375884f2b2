// The facts that an optimizer's step needs about its parameters: _C._with_gradients(params) returns
//   (parameters that have a gradient, their gradients, any is sparse, one operator may do the step)
// One operator may where each parameter is floating, on the CPU and of its gradient's dtype, and no
// gradient is sparse.
#include "python/csrc/gradient_lists.h"

#include "aten/core/sparse.h"
#include "python/csrc/generated.h"

namespace flambeau::python {
namespace {

struct Lists {
  Ref parameters = Ref::checked(PyList_New(0));
  Ref gradients = Ref::checked(PyList_New(0));
  bool any_sparse = false;
  bool fusible = true;

  void add(PyObject* parameter, PyObject* gradient) {
    check_type(is_tensor(parameter) && is_tensor(gradient),
               "optimizer: expected tensors as parameter and gradient, got ",
               Py_TYPE(parameter)->tp_name, " and ", Py_TYPE(gradient)->tp_name);
    checked(PyList_Append(parameters.get(), parameter));
    checked(PyList_Append(gradients.get(), gradient));
    const Tensor& p = tensor_of(parameter);
    const Tensor& g = tensor_of(gradient);
    any_sparse = any_sparse || is_sparse(g);
    fusible = fusible && !is_sparse(g) && is_floating_type(p.dtype()) && p.is_cpu() &&
              p.dtype() == g.dtype();
  }
};

PyObject* with_gradients(PyObject*, PyObject* params) {
  return guarded([&]() -> PyObject* {
    static PyObject* const grad = PyUnicode_InternFromString("grad");
    const Ref items =
        Ref::checked(PySequence_Fast(params, "optimizer: expected a sequence of parameters"));
    Lists lists;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      const Ref parameter = Ref::share(PySequence_Fast_GET_ITEM(items.get(), i));
      const Ref gradient = Ref::checked(PyObject_GetAttr(parameter.get(), grad));
      if (gradient.get() != Py_None) lists.add(parameter.get(), gradient.get());
    }
    return Py_BuildValue("(OOOO)", lists.parameters.get(), lists.gradients.get(),
                         lists.any_sparse ? Py_True : Py_False, lists.fusible ? Py_True : Py_False);
  });
}

PyMethodDef functions[] = {{"_with_gradients", with_gradients, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_gradient_lists(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
