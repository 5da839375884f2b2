"""Operators defined in Python: schemas, kernels, derivatives, batching; beside PyTorch where it has them."""

import itertools
from collections.abc import Sequence

import flambeau as fb
import numpy as np
import pytest
from flambeau import library
from oracle import pytorch
from side_by_side import agree, fail_alike

_numbers = itertools.count()


def fresh(torch=fb):
    return f"trial{next(_numbers)}"


def sines(torch, space, **options):
    """An operator through NumPy with a derivative and shapes."""

    def sine(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return torch.from_numpy(np.sin(x.detach().numpy() * scale))

    made = torch.library.custom_op(f"{space}::sine", sine, mutates_args=(), **options)
    made.register_fake(lambda x, scale=2.0: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    made.register_autograd(
        lambda ctx, grad: (grad * ctx.scale * torch.cos(ctx.saved_tensors[0] * ctx.scale), None),
        setup_context=setup,
    )
    return made


def test_values_and_gradients():
    def program(torch, x):
        space = fresh()
        made = sines(torch, space)
        x = x.clone().requires_grad_()
        y = (
            made(x, scale=3.0)
            + getattr(torch.ops, space).sine(x)
            + getattr(torch.ops, space).sine.default(x, 0.5)
        )
        y.sum().backward()
        return [y.detach(), x.grad, getattr(torch.ops, space).sine(x.detach().to("meta")).shape == x.shape]

    agree(program, np.linspace(-1, 1, 6, dtype=np.float32))


def test_an_operator_without_derivative_says_so():
    @library.custom_op(f"{fresh()}::f", mutates_args=())
    def f(x: fb.Tensor) -> fb.Tensor:
        return x.exp()

    y = f(fb.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="register_autograd"):
        y.sum().backward()


def test_vmap_rules():
    def program(torch, x):
        space = fresh()
        made = sines(torch, space)

        def rule(info, in_dims, x, scale):
            return made(x, scale), in_dims[0]

        made.register_vmap(rule)
        return torch.vmap(lambda row: made(row, 1.5))(x)

    agree(program, np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))


def test_vmap_over_gradients():
    made = sines(fb, fresh())
    made.register_vmap(lambda info, in_dims, x, scale: (made(x, scale), in_dims[0]))
    x = fb.linspace(-1, 1, 6).view(2, 3)
    slope = fb.vmap(fb.func.grad(lambda row: made(row, 1.5).sum()))(x)
    fb.testing.assert_close(slope, 1.5 * fb.cos(1.5 * x))


def test_lists_of_tensors():
    space = fresh()

    @library.custom_op(f"{space}::both", mutates_args=())
    def both(parts: Sequence[fb.Tensor], by: float) -> list[fb.Tensor]:
        return [part * by for part in parts]

    @both.register_fake
    def _(parts, by):
        return [fb.empty_like(part) for part in parts]

    both.register_autograd(
        lambda ctx, grads: ([grad * ctx.by for grad in grads], None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
    )
    a, b = fb.ones(2, requires_grad=True), fb.ones(3, requires_grad=True)
    found = both([a, b], 4.0)
    assert isinstance(found, list) and len(found) == 2
    (found[0].sum() + 2 * found[1].sum()).backward()
    assert a.grad.tolist() == [4.0, 4.0] and b.grad.tolist() == [8.0] * 3
    assert set(library.opcheck(both, ([a, b], 4.0)).values()) == {"SUCCESS"}


def test_mutation():
    def program(torch, x):
        space = fresh()

        def fill(x: torch.Tensor, value: float) -> None:
            x.fill_(value)

        made = torch.library.custom_op(f"{space}::fill", fill, mutates_args={"x"})
        before = x._version
        made(x, 7.0)
        return [x, x._version > before]

    agree(program, np.zeros(3, np.float32))


@pytest.mark.parametrize(
    "hints",
    [
        {"x": "T", "return": "T"},
        {"x": "T | None", "n": "int", "return": "T"},
        {"x": "list[T]", "f": "float", "b": "bool", "return": "tuple[T, T]"},
        {"x": "Sequence[int]", "s": "str", "d": "device", "t": "dtype", "return": "list[T]"},
        {"x": "T", "return": "None"},
        {"x": "T"},
        {"x": "T", "return": "tuple[T, ...]"},
        {"x": "dict", "return": "T"},
        {"x": "T", "return": "dict"},
        {"x": "list[list[int]]", "return": "T"},
    ],
)
def test_schemas_from_annotations(hints):
    def inferred(torch):
        names = {"T": torch.Tensor, "Sequence": Sequence, "device": torch.device, "dtype": torch.dtype}

        def f(x, *args): ...

        arguments = ", ".join(f"{name}: {text}" for name, text in hints.items() if name != "return")
        ending = f" -> {hints['return']}" if "return" in hints else ""
        scope = dict(names)
        exec(f"def f({arguments}){ending}: ...", scope)
        try:
            return torch.library.infer_schema(scope["f"], mutates_args=())
        except ValueError:
            return "ValueError"

    assert inferred(fb) == inferred(pytorch())


def test_libraries():
    def program(torch, x):
        space = fresh()
        lib = torch.library.Library(space, "DEF")
        name = lib.define("axpy(Tensor x, Tensor y, *, float a=1.0) -> Tensor")
        lib.define("axpy.number(Tensor x, float y) -> Tensor")
        lib.impl("axpy", lambda x, y, *, a: a * x + y, "CompositeImplicitAutograd")
        lib.impl("axpy.number", lambda x, y: x + y, "CPU")
        ops = getattr(torch.ops, space)
        x = x.clone().requires_grad_()
        ops.axpy(x, x, a=2.0).sum().backward()
        return [name, x.grad, ops.axpy(x, 2.0).detach(), ops.axpy.number(x, 3.0).detach()]

    agree(program, np.ones(3, np.float32))


def test_a_library_ends_with_its_object():
    space = fresh()
    lib = library.Library(space, "FRAGMENT")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")
    assert getattr(fb.ops, space).f(fb.ones(1)).item() == 2
    lib._destroy()
    with pytest.raises(AttributeError):
        getattr(fb.ops, space).f  # noqa: B018


@pytest.mark.parametrize(
    "call",
    [
        lambda t, f: f(),
        lambda t, f: f(t.ones(1), 1.0, 2.0),
        lambda t, f: f(t.ones(1), scale="a"),
        lambda t, f: f("x"),
        lambda t, f: f(t.ones(1), other=1),
        lambda t, f: f(t.ones(1), x=t.ones(1)),
    ],
    ids=["none", "many", "str", "no tensor", "unknown", "twice"],
)
def test_arguments_that_do_not_fit(call):
    fail_alike(
        lambda torch: call(torch, getattr(torch.ops, sines(torch, fresh())._namespace).sine), match="."
    )


@pytest.mark.parametrize(
    "define",
    [
        lambda t: t.library.custom_op("noname", lambda x: x, mutates_args=()),
        lambda t: t.library.custom_op("a::f", lambda x: x, mutates_args=()),
        lambda t: t.library.register_fake("a::missing", lambda x: x),
        lambda t: t.library.Library("aten", "DEF"),
        lambda t: t.library.Library("x", "OTHER"),
        lambda t: t.library.define("noname", "(Tensor x) -> Tensor"),
        lambda t: t.library.Library(fresh(), "DEF").define("not a schema"),
        lambda t: t.ops.load_library("/nowhere/lib.so"),
        lambda t: t.ops.some_library.missing,
    ],
)
def test_definitions_that_are_refused(define):
    fail_alike(define, match=".")


def test_results_that_are_arguments_are_refused():
    def program(torch):
        def f(x: torch.Tensor) -> torch.Tensor:
            return x.view(-1)

        torch.library.custom_op(f"{fresh()}::alias", f, mutates_args=())(torch.ones(2, 2))

    fail_alike(program, match="alias|share")


def test_kernels_by_device():
    space = fresh()

    @library.custom_op(f"{space}::g", mutates_args=(), device_types="cuda")
    def g(x: fb.Tensor) -> fb.Tensor:
        return x.clone()

    with pytest.raises(NotImplementedError, match="'cpu'"):
        g(fb.ones(1))
    g.register_kernel("cpu", lambda x: x + 1)
    assert g(fb.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="register_fake"):
        g(fb.ones(1, device="meta"))


def test_a_kernel_that_fails_leaves_everything_usable():
    space = fresh()

    @library.custom_op(f"{space}::h", mutates_args=())
    def h(x: fb.Tensor) -> fb.Tensor:
        if x.sum() > 0:
            raise KeyError("from the kernel")
        return x * 2

    with pytest.raises(KeyError, match="from the kernel"):
        h(fb.ones(2, requires_grad=True))
    assert fb.is_grad_enabled()
    assert h(-fb.ones(2)).tolist() == [-2, -2]


def test_opcheck_finds_what_is_wrong():
    space = fresh()

    @library.custom_op(f"{space}::bad", mutates_args=())
    def bad(x: fb.Tensor) -> fb.Tensor:
        x.add_(1)
        return x.double()

    bad.register_fake(lambda x: fb.empty_like(x))
    found = library.opcheck(bad, (fb.ones(2),), raise_exception=False)
    assert "writes to 'x'" in str(found["test_schema"]) and isinstance(found["test_schema"], RuntimeError)
    assert "fake" in str(found["test_faketensor"])
    with pytest.raises(RuntimeError, match="opcheck: test_schema failed with .* writes to") as raised:
        library.opcheck(bad, (fb.ones(2),))
    assert type(raised.value).__name__ == "OpCheckError" and "writes to" in str(raised.value.__cause__)


def test_tuples_and_dictionaries_that_change_while_they_are_read():
    space = fresh()
    lib = library.Library(space, "DEF")
    lib.define("pick((int, int) x, Dict(str, int)? d=None) -> int")
    lib.impl("pick", lambda x, d=None: sum(x) + sum((d or {}).values()), "CompositeExplicitAutograd")
    pick = getattr(fb.ops, space).pick

    class Emptying:
        def __init__(self, holder: list[object] | dict[str, object]):
            self.holder = holder

        def __index__(self) -> int:
            self.holder.clear()
            return 1

    items: list[object] = []
    items += [Emptying(items), 2]
    entries: dict[str, object] = {}
    entries |= {"a": Emptying(entries), "b": 2}
    # What Python's own loops raise, or the result of what was there.
    for call in (lambda: pick(items), lambda: pick((1, 2), entries)):
        try:
            assert call() == 3
        except (ValueError, RuntimeError):
            pass
    assert pick([1, 2], {"a": 4}) == 7
    with pytest.raises(RuntimeError, match=r"Expected a value of type '\(int, int\)'"):
        pick((1, 2, 3))


@pytest.mark.parametrize("depth", [200, 20_000])
def test_types_that_are_nested_too_deeply_are_refused(depth: int):
    lib = library.Library(fresh(), "DEF")
    with pytest.raises((RuntimeError, RecursionError)):
        lib.define(f"deep({'(' * depth}int{')' * depth} x) -> int")
        getattr(fb.ops, lib.ns).deep(1)
