"""`opcheck`: whether a custom operator does what its schema and its registrations say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._arguments.schemas import bind
from flambeau._C import Tensor
from flambeau.library._context import context
from flambeau.library._operators import CustomOperator, find, tensors_in


class OpCheckError(RuntimeError):
    """A check of `opcheck` failed; its cause is the failure."""


TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Call an operator with sample arguments and check its schema and registrations.

    Args:
        op: the operator, defined with `custom_op` or `Library`, or an overload such as `ops.aten.add.Tensor`.
        args: the sample arguments.
        kwargs: the sample keyword arguments.
        test_utils: the tests: "test_schema" (it writes only to the arguments that the schema names),
            "test_autograd_registration" (a derivative is registered if an argument requires a gradient and
            there are results; what `custom_op` defines counts as having one),
            "test_faketensor" (the function of `register_fake` returns the right shapes, strides and
            dtypes),
            "test_aot_dispatch_dynamic" (there is a fake kernel, and gradients of two calls agree).
        raise_exception: whether to raise the first failure instead of returning it.
        atol: the absolute tolerance of gradients. None means the default of `testing.assert_close`.
        rtol: the relative tolerance of gradients. None means the default of `testing.assert_close`.
    Returns: a dict from the test to "SUCCESS" or the exception.
    Raises: OpCheckError, a RuntimeError, for the first failure; ValueError for other tests.

    Example:
        >>> @flambeau.library.custom_op("docs_library::squared", mutates_args=())
        ... def squared(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x * x
        >>> flambeau.library.opcheck(squared, (flambeau.ones(2),), test_utils="test_schema")
        {'test_schema': 'SUCCESS'}
    """
    operator = _subject(op)
    chosen = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = [name for name in chosen if name not in TESTS]
    if unknown:
        raise ValueError(f"opcheck: expected test_utils to be a subset of {list(TESTS)}, got {unknown}")
    found: dict[str, Any] = {}
    for name in chosen:
        try:
            given = operator.schema.parameters, operator.schema.defaults
            values = bind(operator.name, *given, args, kwargs or {})
            _CHECKS[name](operator, values, {"atol": atol, "rtol": rtol})
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck: {name} failed with {error}") from error
            found[name] = error
    return found


class _Specified:
    """An operator of the specification, with what the checks ask of one that a program has defined."""

    backward = True  # derivatives.yaml, or the parts of a composite
    kernels: tuple[str, ...] = ()

    def __init__(self, overload: Any) -> None:
        self.overload, self.schema, self.name = overload, overload._schema, overload.name()

    def __call__(self, /, **values: Any) -> Any:
        positional = [values[p.name] for p in self.schema.parameters if not p.keyword_only]
        return self.overload(*positional, **{p.name: values[p.name] for p in self._named()})

    def _named(self) -> list[Any]:
        return [p for p in self.schema.parameters if p.keyword_only]

    @property
    def is_dynamic(self) -> bool:
        """Whether shapes or values of results are data, so that there is no fake kernel."""
        return {"dynamic_output_shape", "data_dependent_output"} & {
            tag.name for tag in self.overload.tags
        } != set()


def _subject(op: Any) -> Any:
    """The operator to check."""
    from flambeau.ops import Overload, OverloadPacket

    if isinstance(op, OverloadPacket):
        if len(op.overloads()) != 1:
            raise RuntimeError(
                f"opcheck: expected an overload, got {op.qualified}, which has {op.overloads()}; "
                "it can only test operators without overloads"
            )
        op = getattr(op, op.overloads()[0])
    if isinstance(op, Overload) and op._entry:
        return _Specified(op)
    return find(op)


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().clone().requires_grad_(value.requires_grad)
        return [copy(item) for item in value] if isinstance(value, list | tuple) else value

    return {name: copy(value) for name, value in values.items()}


def _call(operator: CustomOperator, values: dict[str, Any]) -> Any:
    return operator(**values)


def _schema(operator: CustomOperator, values: dict[str, Any], limits: dict[str, Any]) -> None:
    given, kept = _copied(values), _copied(values)
    with flambeau.no_grad():
        _call(operator, given)
    for name in values:
        pairs = zip(tensors_in({name: given[name]}), tensors_in({name: kept[name]}), strict=True)
        changed = any(not flambeau.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)
        if changed and name not in operator.schema.mutates:
            raise RuntimeError(f"opcheck: {operator.name} writes to {name!r}, which its schema does not say")


def _registration(operator: CustomOperator, values: dict[str, Any], limits: dict[str, Any]) -> None:
    asks = any(t.requires_grad for t in tensors_in(values))
    # What `custom_op` defines without a derivative has one that raises, in backward.
    has = operator.backward or getattr(operator, "is_opaque", False)
    has = has or any(key.startswith("Autograd") for key in operator.kernels)
    if asks and not has and operator.schema.results and "CompositeImplicitAutograd" not in operator.kernels:
        raise RuntimeError(f"opcheck: {operator.name} has no derivative, and an argument requires one")


def _fake_results(operator: CustomOperator, values: dict[str, Any]) -> list[Tensor]:
    """What the fake kernel returns for tensors of these sizes."""

    def to_meta(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().to("meta")
        return [to_meta(item) for item in value] if isinstance(value, list | tuple) else value

    return _listed(_call(operator, {name: to_meta(value) for name, value in values.items()}))


def _fake(operator: CustomOperator, values: dict[str, Any], limits: dict[str, Any]) -> None:
    if getattr(operator, "is_dynamic", False):
        return
    with flambeau.no_grad(), context() as sizes:
        real = _listed(_call(operator, _copied(values)))
        fake = _fake_results(operator, values)
    if len(real) != len(fake):
        raise RuntimeError(f"opcheck: {operator.name} gives {len(real)} tensors, its fake kernel {len(fake)}")
    for one, other in zip(real, fake, strict=True):
        same_rank = one.dim() == other.dim() and one.dtype == other.dtype
        if not same_rank or not all(map(sizes.agrees, other.shape, one.shape)):
            raise RuntimeError(
                f"opcheck: {operator.name} gives {one.dtype} {tuple(one.shape)}, and its fake kernel "
                f"{other.dtype} {tuple(other.shape)}"
            )
        if one.shape == other.shape and _places(one) != _places(other):
            raise RuntimeError(
                f"opcheck: {operator.name} gives strides {one.stride()} and offset {one.storage_offset()}, "
                f"and its fake kernel {other.stride()} and {other.storage_offset()}"
            )


def _places(tensor: Tensor) -> tuple[Any, ...] | None:
    """Where the elements lie in memory. The stride of a dimension of size 1 says nothing."""
    if tensor.layout != flambeau.strided or tensor.numel() == 0:
        return None
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.storage_offset(), *(step for size, step in steps if size > 1)


def _listed(result: Any) -> list[Tensor]:
    return list(tensors_in({"": result if isinstance(result, list | tuple) else [result]}))


def _gradients(operator: CustomOperator, values: dict[str, Any], limits: dict[str, Any]) -> None:
    if not getattr(operator, "is_dynamic", False):
        with flambeau.no_grad(), context():
            _fake_results(operator, values)  # a traced program is shaped by it
    if not any(t.requires_grad for t in tensors_in(values)):
        return
    runs = []
    for _ in range(2):
        given = _copied(values)
        made = _listed(_call(operator, given))
        results = [r.sum() for r in made if r.requires_grad and not r.is_complex()]
        if not results:
            return
        total = flambeau.stack(results).sum()
        operands = [t for t in tensors_in(given) if t.requires_grad]
        runs.append(flambeau.autograd.grad(total, operands, allow_unused=True))
    for one, other in zip(*runs, strict=True):
        if one is not None:
            flambeau.testing.assert_close(one, other, **limits)


_CHECKS = dict(zip(TESTS, (_schema, _registration, _fake, _gradients), strict=True))
