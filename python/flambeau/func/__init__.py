"""Transforms of functions: derivatives and batches of pure functions of tensors, nested in any order.

>>> import flambeau as fb
>>> from flambeau.func import grad, vmap
>>> loss = lambda w, x, y: ((x @ w - y) ** 2)
>>> per_example = vmap(grad(loss), in_dims=(None, 0, 0))
>>> per_example(fb.zeros(2), fb.eye(2), fb.ones(2))
tensor([[-2.,  0.],
        [ 0., -2.]])
"""

from flambeau._loading.lazy import attributes
from flambeau.func._grad import grad, grad_and_value, vjp
from flambeau.func._jacobians import hessian, jacfwd, jacrev
from flambeau.func._jvp import jvp, linearize
from flambeau.func._layers import debug_unwrap
from flambeau.func._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from flambeau.func._vmap import vmap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

__getattr__, __dir__ = attributes(__name__)
