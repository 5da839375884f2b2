"""One side of the random walk: runs programs with one framework and tells what it sees after each statement.

A question is a line of JSON: `seed`, `programs` and `steps` to draw programs, or a `program` to run again.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import warnings
from types import SimpleNamespace
from typing import Any

import numpy
from workers import serve

from .statements import Source, too_large

FRAMEWORK = os.environ.get("FLAMBEAU_WALK", "flambeau")


def _framework() -> Any:
    import importlib

    return importlib.import_module(FRAMEWORK)


def _resize(x: Any, shape: Any) -> None:
    """resize_, with zeros where memory is new."""
    before = x.untyped_storage().nbytes()
    x.resize_(shape)
    storage = x.untyped_storage()
    if storage.nbytes() > before:
        storage[before:].fill_(0)


# What a walk does to a sparse tensor whose indices are out of range: each gives a result or an exception.
ON_DAMAGED = (
    lambda t, x: x.to_dense(),
    lambda t, x: x.coalesce(),
    lambda t, x: x + x,
    lambda t, x: x * x,
    lambda t, x: x * x.to_dense(),
    lambda t, x: x.sum(0),
    lambda t, x: x.index_select(0, t.tensor([0])),
    lambda t, x: x.select(0, 0),
    lambda t, x: x.transpose(0, 0).to_dense(),
    lambda t, x: t.sparse.mm(x, t.ones(x.shape[-1], 2, dtype=x.dtype)),
    lambda t, x: t.sparse.mm(x, x),
    lambda t, x: t.bmm(x, t.ones(x.shape[0], x.shape[2], 2, dtype=x.dtype)),
    lambda t, x: t.sparse.sum(x, 0),
    lambda t, x: t.sparse.softmax(x, 0),
    lambda t, x: t.cat([x, x]).to_dense(),
    lambda t, x: t.zeros(x.shape, dtype=x.dtype).add_(x),
    lambda t, x: t.ones(x.shape, dtype=x.dtype).sparse_mask(x),
    lambda t, x: x.sparse_mask(x),
    lambda t, x: t.ones(x.shape[0], 2, dtype=x.dtype).sparse_mask(x),
    lambda t, x: t.hspmm(x, t.ones(x.shape[-1], 2, dtype=x.dtype)),
    lambda t, x: x.to_sparse(1),
    lambda t, x: repr(x),
    lambda t, x: pickle.loads(pickle.dumps(x)),
)
WRONG = (-1, 4, 2**31, 2**62, -(2**63), 2**63 - 1)


def _damage(x: Any, seed: int) -> None:
    """Operators on a copy with an index out of range. PyTorch, which reads memory there, is spared."""
    if FRAMEWORK != "flambeau" or not x.sparse_dim() or not x._nnz():
        return
    source = random.Random(seed)
    damaged = x.detach().clone()
    at = source.randrange(x.sparse_dim()), source.randrange(x._nnz())
    if source.random() < 0.3:
        damaged._indices().zero_()  # in range, and not coalesced as the tensor may claim
    else:
        damaged._indices()[at] = source.choice(WRONG)
    if x.is_floating_point() or x.is_complex():
        damaged.requires_grad_(source.random() < 0.3)
    for use in source.sample(ON_DAMAGED, 4):
        try:
            result = use(_framework(), damaged)
            if getattr(result, "requires_grad", False):
                result.to_dense().abs().sum().backward()
        except (RuntimeError, IndexError, ValueError, TypeError, AttributeError):
            pass


def _gradient(function: Any, x: Any) -> Any:
    """The gradient of a function by a sparse tensor, as a strided one."""
    leaf = x.detach().clone().requires_grad_()
    function(leaf).backward()
    return leaf.grad.to_dense()


class Walk:
    """A program that runs, statement by statement."""

    def __init__(self, framework: Any) -> None:
        self.framework = framework
        self.names: dict[str, Any] = {}
        self.scope = {
            "t": framework,
            "np": numpy,
            "resize": _resize,
            "damage": _damage,
            "gradient": _gradient,
        }
        # PyTorch frees memory under NumPy's arrays in some of these cases: there it stays until the end.
        self.kept: list[Any] = []

    def run(self, statement: str) -> list[Any]:
        """What happened, then each variable."""
        outcome = "ok"
        try:
            exec(statement, self.scope, self.names)
        except Exception as error:
            outcome = type(error).__name__
        for name, value in list(self.names.items()):
            wanted = numpy.ndarray if name[0] == "n" else self.framework.Tensor
            is_sparse = getattr(value, "is_sparse", False)
            misplaced = name[0] in "sx" and is_sparse != (name[0] == "s")
            if name[0] != "c" and (not isinstance(value, wanted) or misplaced or too_large(value)):
                del self.names[name]
        if FRAMEWORK != "flambeau":
            self.kept += [x.untyped_storage() for n, x in self.names.items() if n[0] == "x"]
        return [outcome, self._seen()]

    def _seen(self) -> dict[str, Any]:
        spans = {}
        for name, x in self.names.items():
            if name[0] == "x":
                storage = x.untyped_storage()
                spans[name] = (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
        groups = _groups(spans)
        seen = {}
        for name, value in self.names.items():
            if name[0] == "s":
                seen[name] = _of_sparse(value)
            elif name[0] == "x":
                seen[name] = {**_of_tensor(value), **_place(value, groups.get(name), spans[name])}
            elif name[0] == "n":
                seen[name] = {
                    "dtype": str(value.dtype),
                    "shape": list(value.shape),
                    "values": _shown(value.tolist()),
                }
        return seen


def _groups(spans: dict[str, tuple[int, int]]) -> dict[str, tuple[str, int]]:
    """The first name and the first address of each group of storages that overlap."""
    found: dict[str, tuple[str, int]] = {}
    members: list[tuple[int, int, list[str]]] = []
    for name in sorted(spans, key=lambda n: spans[n]):
        begin, end = spans[name]
        if begin == end:
            continue
        if members and begin < members[-1][1]:
            first, last, group = members[-1]
            members[-1] = (first, max(last, end), [*group, name])
        else:
            members.append((begin, end, [name]))
    for begin, _, group in members:
        found.update((name, (min(group), begin)) for name in group)
    return found


def _place(x: Any, group: tuple[str, int] | None, span: tuple[int, int]) -> dict[str, Any]:
    begin, end = span
    if x.numel():
        reach = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
        last = begin + (x.storage_offset() + reach + 1) * x.element_size()
        assert begin <= x.data_ptr() and last <= end, "a tensor reaches beyond its storage"
    if group is None or not x.numel():
        return {"memory": None}
    return {"memory": group[0], "address": x.data_ptr() - group[1]}


def _of_tensor(x: Any) -> dict[str, Any]:
    return {
        "dtype": str(x.dtype).partition(".")[2],
        "shape": list(x.shape),
        "stride": list(x.stride()) if x.numel() else None,
        "offset": x.storage_offset(),
        "version": x._version,
        "requires_grad": x.requires_grad,
        "leaf": x.is_leaf,
        "values": _shown(x.detach().tolist()),
    }


def _of_sparse(x: Any) -> dict[str, Any]:
    """What does not depend on how many entries there are."""
    return {
        "dtype": str(x.dtype).partition(".")[2],
        "shape": list(x.shape),
        "dims": [x.sparse_dim(), x.dense_dim()],
        "requires_grad": x.requires_grad,
        "leaf": x.is_leaf,
        "values": _shown(x.detach().to_dense().tolist()),
    }


def _shown(values: Any) -> Any:
    if isinstance(values, list):
        return [_shown(v) for v in values]
    return f"{values:.5g}" if isinstance(values, float | complex) else repr(values)


def draw(seed: int, steps: int, trace: Any) -> dict[str, Any]:
    """A new program and what was seen."""
    walk = Walk(_framework())
    source = Source(seed, walk.names)
    program, seen = [], []
    for _ in range(steps):
        program.append(source.statement())
        trace(program[-1])
        seen.append(walk.run(program[-1]))
    return {"program": program, "seen": seen}


def answer(line: str) -> Any:
    """Draw programs, or run one."""
    question = SimpleNamespace(**{"program": None, **json.loads(line)})
    if question.program is not None:
        walk = Walk(_framework())
        return [walk.run(statement) for statement in question.program]
    found = []
    with open(question.trace, "w", buffering=1) as file:  # noqa: PTH123
        for number in range(question.programs):
            file.seek(0)
            file.truncate()
            one = draw(question.seed + number, question.steps, lambda text: print(text, file=file))
            found.append(one if question.compare else None)
    return found


def main() -> None:
    """Answer until stdin ends."""
    warnings.simplefilter("ignore")
    _framework().set_num_threads(1)
    serve(answer)


if __name__ == "__main__":
    main()
