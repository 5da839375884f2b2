"""Every operator on fake tensors: sizes, strides, dtypes, devices and shared memory are as of real ones."""

from __future__ import annotations

from typing import Any

import flambeau as fb
import pytest
from flambeau._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from flambeau.utils._python_dispatch import TorchDispatchMode
from op_cases import Op, calls, flat, is_tensor, names, operators, run, tensors

_UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException)


class ReadsElements(TorchDispatchMode):
    """Notes whether other things than elements of results depend on elements, and unmarked writes."""

    def __init__(self) -> None:
        super().__init__()
        self.found = self.writes = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tags = {fb.Tag.data_dependent_output, fb.Tag.dynamic_output_shape}
        masks = [
            t for a in args if isinstance(a, list | tuple) for t in a if is_tensor(t) and t.dtype == fb.bool
        ]
        self.found |= bool(tags.intersection(func.tags)) or bool(masks)
        facts = fb._C._operator_facts(func._entry)
        self.writes |= bool(facts and facts[2])
        return func(*args, **(kwargs or {}))


def leaves(arguments: dict[str, Any]) -> list[Any]:
    return [t for t in arguments.values() if is_tensor(t) and t.is_floating_point()]


def geometry(result: Any, arguments: dict[str, Any], with_versions: bool) -> list[Any]:
    """What is known of results without their elements, and of the arguments afterwards."""
    given = [t for t in flat(list(arguments.values())) if is_tensor(t) and t.layout is fb.strided]
    storages = [t.untyped_storage() for t in given]
    found = []
    for t in [*flat(result), *given]:
        if not is_tensor(t) or t.layout is not fb.strided:
            found.append(type(t))
            continue
        shared = [t.untyped_storage() is storage for storage in storages]
        # Versions and bases of new tensors tell how an operator works, not what it gives.
        history = (t._is_view(), t._version if with_versions else 0) if any(shared) else ()
        facts = (tuple(t.shape), t.dtype, t.device, t.requires_grad, t.is_conj(), *history)
        found.append((facts, t.stride() if t.numel() else (), t.storage_offset(), shared))
    return found


def outcome(op: Op, arguments: dict[str, Any], grad: bool, with_versions: bool = True) -> Any:
    """The geometry of results and gradients, or the type of the error."""
    for leaf in leaves(arguments):
        leaf.requires_grad_(grad)
    fb.manual_seed(0)
    try:
        result = run(op, arguments)
        found = geometry(result, arguments, with_versions)
        ends = [t for t in flat(result) if is_tensor(t) and t.requires_grad]
        if ends and grad:
            slopes = [fb.ones_like(t.detach()) for t in ends]
            gradients = fb.autograd.grad(ends, leaves(arguments), slopes, allow_unused=True)
            found += [None if g is None else (tuple(g.shape), g.dtype, g.device) for g in gradients]
    except Exception as error:
        return type(error) if not isinstance(error, _UNKNOWN) else _UNKNOWN
    return found


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("name", names(lambda op: bool(op.record["samples"])))
def test_operators_on_fake_tensors(name: str, grad: bool) -> None:
    op = operators()[name]
    for call in calls(op)[:3]:
        real = tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())
        watch, mode = ReadsElements(), FakeTensorMode()
        fake = fb.utils._pytree.tree_map_only(fb.Tensor, mode.from_tensor, real)
        assert all(isinstance(t, FakeTensor) for t in flat(list(fake.values())) if is_tensor(t))
        with watch:
            expected = outcome(op, real, grad)
        if watch.writes:  # the rules do not tell which argument is written
            expected = outcome(
                op, tensors(call.materialise(op.main_dtype(), 0), op.main_dtype()), grad, False
            )
        with mode:
            found = outcome(op, fake, grad, not watch.writes)
        if found == expected:
            continue
        if found is _UNKNOWN:
            assert watch.found, f"{name} reads no elements"
        elif found is RuntimeError:  # functions of the host that read elements
            meta = fb.utils._pytree.tree_map_only(fb.Tensor, lambda t: t.detach().to("meta"), real)
            assert outcome(op, meta, grad) is not expected and isinstance(outcome(op, meta, grad), type), call
        else:
            assert found == expected, call
