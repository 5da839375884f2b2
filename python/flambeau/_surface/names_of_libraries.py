"""Further private names that libraries import, with what they do in PyTorch; `places` says where they lie."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.absence import absent_class
from flambeau.func import vmap

_initialized = False  # cuda: whether its context has been made
DEFAULT_PROTOCOL = 2  # of pickles in files
_collate_fn_t = Callable[[list[Any]], Any]
np_str_obj_array_pattern = re.compile(r"[SaUO]")  # kinds of NumPy arrays that cannot become tensors
HigherOrderOperator = absent_class(
    "HigherOrderOperator", "flambeau._ops", "flambeau has no operators of functions that Python defines"
)


def _is_tracing() -> bool:
    """Whether a program is being traced."""
    return flambeau.jit.is_tracing()


def _cast_Long(self: Tensor, non_blocking: bool = False) -> Tensor:
    """Return the tensor as int64."""
    return self.to(flambeau.int64, non_blocking=non_blocking)


def _vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """Return `func` mapped over a dimension; entries of its tuple may be None if that is allowed."""
    if not allow_none_pass_through:
        return vmap(func, in_dims, out_dims)

    def call(*args: Any) -> Any:
        filled: list[bool] = []

        def without_nones(*slices: Any) -> Any:
            found = func(*slices)
            if not isinstance(found, tuple):
                return found
            filled[:] = [value is not None for value in found]
            return tuple(value for value in found if value is not None)

        found = vmap(without_nones, in_dims, out_dims)(*args)
        rest = iter(found if filled else ())
        return tuple(next(rest) if there else None for there in filled) if filled else found

    return call


@contextlib.contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:
    """Let switches of backends be set one by one, which is always allowed here."""
    yield


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Return the entries from the last to the first, each `n` times."""
    return tuple(again for x in reversed(t) for again in (x,) * n)


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """Take the only entry out of tuples where the argument was not a tuple, which is what False says."""
    outer, inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack, True)
    res = res if inner else tuple(part[0] for part in res)
    return res if outer else res[0]


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Detach results, in tuples of any depth, unless a graph of them is wanted."""
    if isinstance(inputs, Tensor):
        return inputs if create_graph else inputs.detach()
    return tuple(_grad_postprocess(value, create_graph) for value in inputs)


def _construct_standard_basis_for(
    tensors: Sequence[Tensor], tensor_numels: Sequence[int]
) -> tuple[Tensor, ...]:
    """Return the columns of the identity that belong to each of several tensors, laid end to end."""
    total, start, parts = sum(tensor_numels), 0, []
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        identity = flambeau.eye(total, dtype=tensor.dtype, device=tensor.device)
        parts.append(identity[:, start : start + count].contiguous())
        start += count
    return tuple(parts)


def _cubic_interpolate(
    x1: float, f1: Any, g1: Any, x2: float, f2: Any, g2: Any, bounds: tuple[float, float] | None = None
) -> float:
    """Return where the cubic through two points with these values and slopes is lowest, within bounds."""
    from flambeau.optim.lbfgs import _cubic_minimum, _Trial

    none = flambeau.empty(0)
    return _cubic_minimum(_Trial(x1, f1, none, g1), _Trial(x2, f2, none, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Tensor, float, Tensor], tuple[float, Tensor]],
    x: Tensor,
    t: float,
    d: Tensor,
    f: float,
    g: Tensor,
    gtd: Tensor,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:
    """Search along `d` from `x` for a step that meets the strong Wolfe conditions.

    Returns: loss, gradient, step length and the number of evaluations.
    """
    from flambeau.optim.lbfgs import _StrongWolfe, _Trial

    search = _StrongWolfe(lambda t: obj_func(x, t, d), _Trial(0, f, g, float(gtd)), d, tolerance_change)
    search.c1, search.c2, search.most = c1, c2, max_ls
    found = search.search(t)
    return found.loss, found.grad, found.t, search.evaluations


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Mark a block, or calls of a function, for the profiler of CUDA; RuntimeError when it is entered."""
    flambeau.cuda.nvtx.range_push(msg.format(*args, **kwargs))
    yield
