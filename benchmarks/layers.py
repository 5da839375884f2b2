"""Benchmark cases of the layers around an operator: overrides, modes, operators of programs, autocast."""

from families import Case

# A manager is left before the next case, which would be timed inside of it.
TIMED = """
def timed(manager, call):
    with manager:
        for _ in range(200):
            call()
        start = clock()
        for _ in range(1000):
            call()
        return clock() - start
a, b, m = torch.ones(4), torch.ones(4), torch.ones(4, 4)
"""
CLASSES = f"""{TIMED}
from importlib import import_module
overrides = import_module(torch.__name__ + ".overrides")
dispatch = import_module(torch.__name__ + ".utils._python_dispatch")
class Function(torch.Tensor):
    pass
class Dispatch(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return a
class FunctionMode(overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or dict()))
class DispatchMode(dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or dict()))
f = a.as_subclass(Function)
d = torch.Tensor._make_subclass(Dispatch, a)
"""
DEFINED = """
import random
a = torch.ones(4)
library = torch.library.Library(f"bench{random.getrandbits(40)}", "DEF")
library.define("f(Tensor x, float s=1.0) -> Tensor")
library.impl("f", lambda x, s=1.0: x, "CPU")
defined = getattr(torch.ops, library.ns).f
def same(x):
    return torch.empty(4)
same.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
custom = torch.library.custom_op(f"{library.ns}::custom", same, mutates_args=())
custom.register_autograd(lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: None)
g, grad = torch.ones(4, requires_grad=True), torch.ones(4)
"""
PROFILE = "torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])"

ADD, MM = "lambda: torch.add(a, b)", "lambda: torch.mm(m, m)"
AUTOCAST = "torch.autocast('cpu', dtype=torch.bfloat16)"

LAYERS = (
    Case("layers", "torch.add, plain", CLASSES, "torch.add(a, b)"),
    Case("layers", "torch.ops.aten.add.Tensor", CLASSES, "torch.ops.aten.add.Tensor(a, b)"),
    Case("layers", "a subclass of Tensor", CLASSES, "torch.add(f, b)"),
    Case("layers", "under a TorchFunctionMode", CLASSES, f"timed(FunctionMode(), {ADD})", 1000, "once"),
    Case("layers", "a class with __torch_dispatch__", CLASSES, "torch.add(d, b)"),
    Case("layers", "under a TorchDispatchMode", CLASSES, f"timed(DispatchMode(), {ADD})", 1000, "once"),
    Case("layers", "operator of Library, in Python", DEFINED, "defined(a)"),
    Case("layers", "custom_op", DEFINED, "custom(a)"),
    Case("layers", "custom_op, with grad", DEFINED, "custom(g)"),
    Case("layers", "custom_op, forward and backward", DEFINED, "custom(g).backward(grad)"),
    Case("layers", "torch.mm under autocast", TIMED, f"timed({AUTOCAST}, {MM})", 1000, "once"),
    Case("layers", "torch.add under the profiler", TIMED, f"timed({PROFILE}, {ADD})", 1000, "once"),
)
