#pragma once
// __torch_dispatch__: classes of tensors and modes that take over operators below autograd.
//
// Tensors of such a class have the key BackendMode; a mode puts it among the keys of its thread. A
// call is offered to the innermost mode, then to the classes of the arguments, subclasses before
// their bases; the first answer that is not NotImplemented is the result. While Python answers, the
// keys above are excluded: what it calls is not recorded again.
#include "aten/dispatch/boxing.h"
#include "python/csrc/tensor_type.h"

namespace flambeau::python {

// Gives a tensor that becomes an object of this class the key, where the class has a
// __torch_dispatch__.
void offer_to_dispatch(PyTypeObject* type, const Tensor& tensor);

// Runs an operator with these keys, or with those of the call if there are none. Other Python
// threads run meanwhile if a tensor is large.
void run_operator(const OperatorEntry& op, DispatchKeySet keys, Stack& stack);

// Tensors whose elements come from Python, under the thread's mode of fake tensors: they are made
// on `device_of_data`, and `adopted_by_mode` returns what the mode makes of them on the wanted
// device. Without such a mode, both return what they are given.
Device device_of_data(Device wanted);
Tensor adopted_by_mode(Tensor made, Device wanted);

// The answer of the innermost mode or of the tensor's class to this call; TypeError if there is
// none.
Ref answer_of_class(PyObject* function, PyObject* tensor, PyObject* args);

// _C functions: the stack of modes, calls of operators by name, tensors without memory.
void add_torch_dispatch(PyObject* module);

}  // namespace flambeau::python
