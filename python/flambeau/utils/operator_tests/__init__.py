"""Tests of an author's operators: the generator writes a file for pytest that calls `OperatorTests`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.func import vmap
from flambeau.utils.operator_tests import _samples
from flambeau.utils.operator_tests._samples import Call, Op, flat, is_tensor, to_array

__all__ = ["OperatorTests"]

_ERRORS = (IndexError, RuntimeError, TypeError, ValueError, NotImplementedError, ZeroDivisionError)
# Results of these rules, and of these operators, are not functions with derivatives.
_UNDIFFERENTIABLE = ("compare", "logical", "integral")
_UNREPEATABLE = {"random", "uninitialized"}
_ENTRIES = 3  # of a batch


class OperatorTests:
    """The tests of one extension, by the names of its operators.

    Each method raises AssertionError if an operator does not do what its entry states.

    Args:
        module: the generated module of the operators.
        file: the records that the generator has written beside the tests.
        references: the file of the author's own functions for references, or None.

    Raises:
        OSError: `file` cannot be read.

    Example:
        >>> OperatorTests(signals, Path("signals.json")).check_values("soft_clip")  # doctest: +SKIP
    """

    def __init__(self, module: ModuleType, file: Path, references: Path | None = None) -> None:
        records = json.loads(Path(file).read_text(encoding="utf-8"))
        self._operators = {record["name"]: Op(record) for record in records}
        self._module = module
        self._references = None if references is None else _imported(references)

    def names(self, kind: str = "") -> list[str]:
        """Return the operators that have a kind of test: those with samples, if `kind` is empty.

        Args:
            kind: ``"inplace"``, ``"out"``, ``"gradient"``, ``"repeatable"``, ``"meta"``, or ``""``.
        Returns: the names, in the order of the author's file.
        """
        return [name for name, op in self._operators.items() if op.samples and _has(op, kind)]

    def errors(self) -> list[tuple[str, int]]:
        """Return each wrong call of the entries, as the operator's name and the position in its list."""
        return [(name, i) for name, op in self._operators.items() for i in range(len(op.errors))]

    def check_values(self, name: str) -> None:
        """Compare each sample call with the reference, in each dtype that the operator claims.

        Composites and kernels may refuse a dtype, except the one in which forms are tested.
        """
        op = self._operators[name]
        for dtype in op.dtypes():
            try:
                self._check_values(op, dtype)
            except NotImplementedError:
                if op.kind in ("pointwise", "reduce") or dtype == op.main_dtype():
                    raise

    def _check_values(self, op: Op, dtype: str) -> None:
        for i, call in enumerate(_samples.calls(op)):
            arrays = call.materialise(dtype, i)
            results = flat(self._run(op, _samples.tensors(arrays, dtype)))
            where = f"{op.name} {dtype} {op.samples[i]}"
            assert all(result is not None for result in results), where
            if op.reference is not None:
                self._compare(op, results, arrays, dtype, where)

    def check_strides(self, name: str) -> None:
        """Call with inputs that are not contiguous: the values are those of contiguous ones."""
        for op, arguments in self._calls(name):
            expected = flat(self._run(op, arguments))
            spread = {key: _mapped(value, _strided) for key, value in arguments.items()}
            _assert_close(flat(self._run(op, spread)), expected, name)

    def check_inplace(self, name: str) -> None:
        """Call the in-place form: it writes the functional result into its first argument, and returns it."""
        for op, arguments in self._calls(name):
            (expected,) = flat(self._run(op, arguments))
            own = arguments["self"].clone()
            positional, keywords = _samples.split_arguments(op, {**arguments, "self": own})
            form = getattr(self._module, op.inplace)
            version = own._version
            if tuple(own.shape) != tuple(expected.shape) or not fb.can_cast(expected.dtype, own.dtype):
                _assert_raises(lambda: form(*positional, **keywords), RuntimeError, name)  # noqa: B023
                continue
            assert form(*positional, **keywords) is own, name
            assert own._version > version, name
            _assert_close([own], [expected.to(own.dtype)], name)

    def check_out(self, name: str) -> None:
        """Call with ``out=``: the result is written there, empty tensors are resized, and it is returned."""
        for op, arguments in self._calls(name):
            expected = flat(self._run(op, arguments))
            targets = [fb.empty(0, dtype=value.dtype) for value in expected]
            out = targets[0] if len(targets) == 1 else tuple(targets)
            positional, keywords = _samples.split_arguments(op, arguments)
            result = flat(self._function(op)(*positional, **keywords, out=out))
            assert all(a is b for a, b in zip(result, targets, strict=True)), name
            _assert_close(targets, expected, name)

    def check_meta(self, name: str) -> None:
        """Call with tensors on the meta device: sizes, dtypes and strides are those with data."""
        for op, arguments in self._calls(name):
            real = flat(self._run(op, arguments))
            moved = {key: _mapped(value, lambda t: t.to("meta")) for key, value in arguments.items()}
            for a, b in zip(real, flat(self._run(op, moved)), strict=True):
                if is_tensor(a):
                    assert b.device.type == "meta", name
                    assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride()), name

    def check_gradients(self, name: str) -> None:
        """Compare gradients of both modes, and second gradients, with differences, in double precision."""
        op = self._operators[name]
        checked = 0
        for call in _samples.calls(op):
            arguments = _samples.tensors(call.materialise("float64", 11), "float64")
            places = [n for n in op.differentiable if _is_variable(arguments.get(n))]
            inputs = [arguments[n].requires_grad_() for n in places]
            if not inputs:
                continue
            function = self._function_of(op, arguments, places)
            assert gradcheck(function, inputs, check_forward_ad=op.forward), name
            assert gradgradcheck(function, inputs), name
            checked += 1
        assert checked, f"{name}: no sample has a tensor that is differentiated"

    def check_batching(self, name: str) -> None:
        """Compare `vmap` over each tensor alone, and over all of them, with a loop over the batch."""
        op = self._operators[name]
        for call in _samples.calls(op):
            rows = [self._arguments(op, call, seed) for seed in range(_ENTRIES)]
            tensors = [key for key, value in rows[0].items() if is_tensor(value)]
            for chosen in {(key,) for key in tensors} | {tuple(tensors)} - {()}:
                self._compare_batched(op, rows, chosen)

    def check_error(self, name: str, index: int) -> None:
        """Make a wrong call of the entry: it raises the exception that the entry names, with its words."""
        op = self._operators[name]
        sample, exceptions, pattern = op.errors[index]
        arguments = self._arguments(op, _samples.bind(op, sample), 0)
        kinds = tuple(kind for kind in _ERRORS if kind.__name__ in exceptions.split("|"))
        _assert_raises(lambda: self._run(op, arguments), kinds, f"{name}({sample})", pattern)

    def _function(self, op: Op) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self._module, op.call)
        return function

    def _run(self, op: Op, arguments: dict[str, Any]) -> Any:
        positional, keywords = _samples.split_arguments(op, arguments)
        return self._function(op)(*positional, **keywords)

    def _arguments(self, op: Op, call: Call, seed: int) -> dict[str, Any]:
        return _samples.tensors(call.materialise(op.main_dtype(), seed), op.main_dtype())

    def _calls(self, name: str) -> Iterator[tuple[Op, dict[str, Any]]]:
        op = self._operators[name]
        for i, call in enumerate(_samples.calls(op)):
            yield op, self._arguments(op, call, i)

    def _compare(self, op: Op, results: list[Any], arrays: dict[str, Any], dtype: str, where: str) -> None:
        values = _samples.expected_of(op, {k: _samples.wide(v) for k, v in arrays.items()}, self._references)
        assert len(results) >= len(values), f"{where}: {len(results)} results, {len(values)} references"
        for got, want in zip(results, values, strict=False):
            _samples.assert_values(op, got, want, dtype, where)

    def _function_of(
        self, op: Op, arguments: dict[str, Any], places: list[str]
    ) -> Callable[..., tuple[Any, ...]]:
        def function(*values: Any) -> tuple[Any, ...]:
            results = flat(self._run(op, {**arguments, **dict(zip(places, values, strict=True))}))
            return tuple(r for r in results if is_tensor(r) and r.is_floating_point())

        return function

    def _compare_batched(self, op: Op, rows: list[dict[str, Any]], chosen: tuple[str, ...]) -> None:
        def function(*values: Any) -> tuple[Any, ...]:
            return tuple(flat(self._run(op, {**rows[0], **dict(zip(chosen, values, strict=True))})))

        columns = [[row[key] for row in rows] for key in chosen]
        found = vmap(function)(*(fb.stack(column) for column in columns))
        looped = [function(*values) for values in zip(*columns, strict=True)]
        for result, column in zip(found, zip(*looped, strict=True), strict=True):
            _assert_close([result], [fb.stack(list(column))], f"{op.name} over {', '.join(chosen)}")


def _imported(file: Path) -> ModuleType:
    spec = spec_from_file_location("references", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _has(op: Op, kind: str) -> bool:
    repeatable = not _UNREPEATABLE & set(op.tags)
    if kind == "gradient":
        claimed = "floating" in op.record["dtypes"] and op.dtype_rule not in _UNDIFFERENTIABLE
        return bool(op.differentiable) and claimed and op.no_gradient is None and repeatable
    if kind == "meta":
        return bool(op.tensor_names) and not op.dynamic
    if kind in ("inplace", "out"):
        return bool(op.record[kind]) and repeatable
    return kind != "repeatable" or repeatable


def _is_variable(value: Any) -> bool:
    return is_tensor(value) and value.is_floating_point()


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_mapped(item, function) for item in value]
    return function(value) if is_tensor(value) else value


def _strided(tensor: Any) -> Any:
    """Return the same values as every second element of a larger tensor."""
    return fb.stack([tensor, tensor], tensor.dim()).select(tensor.dim(), 0)


def _assert_close(got: list[Any], expected: list[Any], where: str) -> None:
    assert len(got) == len(expected), where
    for a, b in zip(got, expected, strict=True):
        if is_tensor(b):
            assert (a.dtype, tuple(a.shape)) == (b.dtype, tuple(b.shape)), where
            np.testing.assert_allclose(to_array(a), to_array(b), rtol=2e-5, atol=1e-6, err_msg=where)
        else:
            assert a == b, where


def _assert_raises(function: Callable[[], Any], kinds: Any, where: str, pattern: str = "") -> None:
    try:
        function()
    except kinds as error:
        assert re.search(pattern, str(error)), f"{where}: expected '{pattern}', got '{error}'"
        return
    raise AssertionError(f"{where}: expected an exception, got none")
