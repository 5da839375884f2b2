"""Classes and modes with __torch_dispatch__: the same programs in flambeau and PyTorch."""

import copy
import importlib
import threading

import flambeau
import pytest
from oracle import pytorch
from sides import differences, plain, raised


def of(fw, name):
    """A submodule of the framework."""
    return importlib.import_module(f"{fw.__name__}.{name}")


def twins(fw):
    """A class that computes everything twice, on two tensors."""
    tree_map, tree_leaves = of(fw, "utils._pytree").tree_map, of(fw, "utils._pytree").tree_leaves
    correct = of(fw, "utils._python_dispatch").return_and_correct_aliasing

    class Twins(fw.Tensor):
        __torch_function__ = fw._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, a, b, requires_grad=False):
            return fw.Tensor._make_wrapper_subclass(
                cls, a.shape, strides=a.stride(), dtype=a.dtype, device=a.device, requires_grad=requires_grad
            )

        def __init__(self, a, b, requires_grad=False):
            self.a, self.b = a, b

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}

            def side(name):
                pick = lambda t: getattr(t, name) if isinstance(t, Twins) else t  # noqa: E731
                return func(*tree_map(pick, args), **tree_map(pick, kwargs))

            first, second = side("a"), iter(tree_leaves(side("b")))

            def paired(t):
                other = next(second)
                return Twins(t, other) if isinstance(t, fw.Tensor) else t

            out = tree_map(paired, first)
            return correct(func, args, kwargs, out)

    return Twins


def both(t):
    return [plain(t.a), plain(t.b)]


def training(fw):
    """A linear layer whose parameter is a pair of tensors, three steps of SGD."""
    weight = fw.nn.Parameter(twins(fw)(fw.ones(2, 3).double(), fw.full((2, 3), 2.0).double()))
    optimizer = fw.optim.SGD([weight], lr=0.1, momentum=0.5)
    x = fw.arange(6.0, dtype=fw.float64).reshape(2, 3)
    for _ in range(3):
        optimizer.zero_grad()
        (fw.nn.functional.linear(x, weight) ** 2).mean().backward()
        optimizer.step()
    return [isinstance(weight, fw.nn.Parameter), type(weight.grad).__name__, both(weight), both(weight.grad)]


def gradients(fw):
    pair = twins(fw)(fw.tensor([1.0, 2.0]), fw.tensor([3.0, 4.0]), requires_grad=True)
    out = (pair * 2 + 1).exp().sum()
    (first,) = fw.autograd.grad(out, pair, create_graph=True)
    (second,) = fw.autograd.grad((first * first).sum(), pair)
    return [both(out.detach()), both(first.detach()), both(second), pair.is_leaf, out.requires_grad]


def views_and_writes(fw):
    base = twins(fw)(fw.arange(4.0), fw.arange(4.0) * 10)
    view = base[:2]
    base.add_(1)
    view.mul_(2)
    reshaped = base.view(2, 2)
    return [both(base), both(view), both(reshaped), base._version, view._version, list(reshaped.stride())]


def saved_tensors_are_checked(fw):
    pair = twins(fw)(fw.ones(2), fw.ones(2), requires_grad=True)
    out = pair.exp()
    out.add_(1)
    return raised("modified by an inplace operation", out.sum().backward)


def geometry(fw):
    pair = twins(fw)(fw.ones(2, 3, dtype=fw.float64).t(), fw.ones(3, 2, dtype=fw.float64))
    kind = [str(pair.dtype).split(".")[1], pair.device.type, pair.layout == fw.strided]
    sizes = [list(pair.shape), list(pair.stride()), pair.numel(), len(pair), pair.dim()]
    return [*kind, *sizes, pair.is_contiguous(), pair.requires_grad]


def copies(fw):
    pair = twins(fw)(fw.ones(2), fw.zeros(2), requires_grad=True)
    twin = copy.deepcopy(pair)
    twin.a.add_(5)
    return [type(twin).__name__, both(pair), both(twin), twin.requires_grad, twin.is_leaf]


def joined(fw):
    cls = twins(fw)
    pair = cls(fw.ones(2), fw.zeros(2))
    halves = fw.cat([pair, fw.ones(2), pair]).split(3)
    return [type(halves).__name__, [both(h) for h in halves], both(fw.stack([pair, pair]).max(0).values)]


def mode_sees(fw):
    """Operators that both frameworks have by the same name, in the forward pass."""
    names = []

    class Log(of(fw, "utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        x = fw.zeros(2, 2)
        (x + 1).mul_(2).relu()
        fw.nn.functional.linear(x, x)
        x.exp().sum(0)
        2 * x - x / 3
        x // 2
        x.sub_(1).div_(2)
        x % 2, x == 1
    x.exp()
    return names


def modes_nest(fw):
    order = []

    class Named(of(fw, "utils._python_dispatch").TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append((self.name, str(func)))
            if self.name == "inner" and "exp" in str(func):
                return func(*args).neg()
            return func(*args, **(kwargs or {}))

    x = fw.zeros(2)
    with Named("outer"), Named("inner"):
        inside = x.exp()
    return [order, plain(inside), plain(x.exp())]


def mode_before_class(fw):
    seen = []
    cls = twins(fw)

    class Log(of(fw, "utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), [t.__name__ for t in types], [type(a).__name__ for a in args]))
            return NotImplemented if "exp" in str(func) else func(*args, **(kwargs or {}))

    def inside():
        with Log():
            cls(fw.zeros(2), fw.ones(2)).exp()  # the class asks for exp of its parts, which nobody answers

    return [raised("Multiple dispatch failed", inside), seen]


def backward_is_seen(fw):
    names = []

    class Log(of(fw, "utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = fw.ones(2, 2, requires_grad=True)
    y = (x @ x).sum()
    with Log():
        y.backward()
    return names.count("aten.mm.default")


def stack_of_modes(fw):
    d = of(fw, "utils._python_dispatch")

    class Quiet(d.BaseTorchDispatchMode):
        pass

    a, b = Quiet(), Quiet()
    found = [d._get_current_dispatch_mode() is None, d.is_in_torch_dispatch_mode()]
    with a, b:
        found += [d._get_current_dispatch_mode() is b, [m is a for m in d._get_current_dispatch_mode_stack()]]
        with d._disable_current_modes() as removed:
            found += [len(removed), d._len_torch_dispatch_stack()]
        found.append(d._len_torch_dispatch_stack())
        with d._pop_mode_temporarily():
            found.append(d._get_current_dispatch_mode() is a)
        other = []
        thread = threading.Thread(target=lambda: other.append(d._len_torch_dispatch_stack()))
        thread.start()
        thread.join()
    return [*found, other, d._len_torch_dispatch_stack()]


def exceptions_leave_modes_in_order(fw):
    d = of(fw, "utils._python_dispatch")

    class Fails(d.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(str(func))

    def inside():
        with Fails():
            fw.ones(2)

    return [raised("aten.ones.default", inside), d._len_torch_dispatch_stack(), plain(fw.ones(2))]


def memory(fw):
    """A mode that adds up what operators allocate."""
    total = 0

    class Memory(of(fw, "utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal total
            out = func(*args, **(kwargs or {}))
            if not func.is_view and not func._schema.is_mutable:
                total += sum(t.numel() * t.element_size() for t in of(fw, "utils._pytree").tree_leaves(out))
            return out

    with Memory():
        x = fw.ones(4, 4)
        x.t().add_(1)
        (x @ x).relu_()
    return total


def quantised(fw):
    """Weights of one byte that become numbers when an operator needs them."""
    tree_map = of(fw, "utils._pytree").tree_map

    class Quantised(fw.Tensor):
        @staticmethod
        def __new__(cls, data, scale):
            return fw.Tensor._make_wrapper_subclass(cls, data.shape, dtype=fw.float32, device=data.device)

        def __init__(self, data, scale):
            self.inner, self.scale = data, scale

        def __repr__(self):
            return "Quantised()"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if str(func) in ("aten.detach.default", "aten.alias.default"):
                return cls(args[0].inner, args[0].scale)
            full = lambda t: t.inner * t.scale if isinstance(t, Quantised) else t  # noqa: E731
            return func(*tree_map(full, args), **tree_map(full, kwargs or {}))

    layer = fw.nn.Linear(3, 2)
    weight = Quantised(fw.tensor([[1, 2, 3], [4, 5, 6]], dtype=fw.int8), 0.5)
    layer.weight = fw.nn.Parameter(weight, requires_grad=False)
    fw.nn.init.zeros_(layer.bias)
    out = layer(fw.ones(1, 3))
    out.sum().backward()
    return [
        plain(out),
        plain(layer.bias.grad),
        type(layer.state_dict()["weight"]).__name__,
        repr(layer.weight.data),
    ]


def plain_data_with_dispatch(fw):
    """`_make_subclass`: a class over ordinary memory that counts operators."""
    calls = []

    class Counted(fw.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            calls.append(str(func))
            with fw._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))

    x = fw.Tensor._make_subclass(Counted, fw.arange(3.0))
    return [type(x).__name__, plain((x + 1).detach().as_subclass(fw.Tensor)), "aten.add.Tensor" in calls]


def custom_operators(fw):
    seen = []
    space = f"dispatch_{fw.__name__}"

    @fw.library.custom_op(f"{space}::double", mutates_args=())
    def double(x: fw.Tensor) -> fw.Tensor:
        return x * 2

    class Log(of(fw, "utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func).replace(fw.__name__, ""))
            return func(*args, **(kwargs or {}))

    with Log():
        out = double(fw.ones(2))

    @fw.library.register_torch_dispatch(f"{space}::double", Log)
    def rule(mode, func, types, args=(), kwargs=None):
        return args[0] * 100

    with Log():
        changed = double(fw.ones(2))
    pair = double(twins(fw)(fw.ones(2), fw.zeros(2)))
    return [[s for s in seen if "double" in s], plain(out), plain(changed), both(pair)]


def wrong_uses(fw):
    make = fw.Tensor._make_wrapper_subclass

    class Undispatched(fw.Tensor):
        pass

    class Unanswering(fw.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = make(Unanswering, (2, 3))
    return [
        raised("__torch_dispatch__", make, Undispatched, (2,))[0],
        raised("Multiple dispatch failed", x.exp),
        raised("Multiple dispatch failed", fw.add, 1, x),
        raised("", x.numpy)[0],
        raised("", x.data_ptr)[0],
        raised("", make, Unanswering, (2, -1))[0],
    ]


SCENARIOS = [
    training, gradients, views_and_writes, saved_tensors_are_checked, geometry, copies, joined, mode_sees,
    modes_nest, mode_before_class, backward_is_seen, stack_of_modes, exceptions_leave_modes_in_order, memory,
    quantised, plain_data_with_dispatch, custom_operators, wrong_uses,
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[s.__name__ for s in SCENARIOS])
def test_both_frameworks_dispatch_alike(scenario):
    torch = pytorch()
    found, expected = scenario(flambeau), scenario(torch)
    assert found == expected, differences(found, expected)
