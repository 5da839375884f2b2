"""The matrix products and convolutions that calls of public functions consist of, for `flop_counter`.

Each entry of `_CALLS` takes the result and the arguments of a call and returns the operations of its
forward and of its backward, as pairs (operator, count). A product's backward has one product of the same
size for each factor that requires a gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import Tensor
from flambeau._overrides.inventory import resolve_name
from flambeau.ops import aten

Counts = list[tuple[Any, int]]
_Products = Callable[..., tuple[Counts, Counts]]


def _product(
    forward: Any, backward: Any, factors: Sequence[Tensor], m: int, k: int, n: int, batch: int = 1
) -> tuple[Counts, Counts]:
    count = 2 * batch * m * k * n
    return [(forward, count)], [(backward, count) for x in factors if x.requires_grad]


def _mm(result: Any, /, input: Tensor, mat2: Tensor, **kwargs: Any) -> tuple[Counts, Counts]:
    m, k = input.shape
    return _product(aten.mm, aten.mm, (input, mat2), m, k, mat2.shape[-1])


def _addmm(result: Any, /, input: Tensor, mat1: Tensor, mat2: Tensor, **kwargs: Any) -> tuple[Counts, Counts]:
    m, k = mat1.shape
    return _product(aten.addmm, aten.mm, (mat1, mat2), m, k, mat2.shape[-1])


def _bmm(result: Any, /, input: Tensor, mat2: Tensor, **kwargs: Any) -> tuple[Counts, Counts]:
    batch, m, k = input.shape
    return _product(aten.bmm, aten.bmm, (input, mat2), m, k, mat2.shape[-1], batch)


def _baddbmm(
    result: Any, /, input: Tensor, batch1: Tensor, batch2: Tensor, **kwargs: Any
) -> tuple[Counts, Counts]:
    batch, m, k = batch1.shape
    return _product(aten.baddbmm, aten.bmm, (batch1, batch2), m, k, batch2.shape[-1], batch)


def _addbmm(
    result: Any, /, input: Tensor, batch1: Tensor, batch2: Tensor, **kwargs: Any
) -> tuple[Counts, Counts]:
    return _bmm(result, batch1, batch2)


def _matmul(result: Any, /, input: Tensor, other: Tensor, **kwargs: Any) -> tuple[Counts, Counts]:
    a, b = input.shape, other.shape
    if len(b) == 1 or (len(a) == 1 and len(b) > 2):
        return [], []  # products with a vector
    factors, k, n = (input, other), b[-2], b[-1]
    if min(len(a), len(b)) <= 2:  # the batch of one is folded into the rows of a single product
        rows = math.prod(a[:-1]) * math.prod(b[:-2])
        return _product(aten.mm, aten.mm, factors, rows, k, n)
    return _product(aten.bmm, aten.bmm, factors, a[-2], k, n, math.prod(result.shape[:-2]))


def _rmatmul(result: Any, /, input: Tensor, other: Tensor) -> tuple[Counts, Counts]:
    return _matmul(result, other, input)


def _linear(
    result: Any, /, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> tuple[Counts, Counts]:
    if weight.dim() == 1:
        return [], []
    forward = aten.mm if bias is None else aten.addmm
    rows = math.prod(input.shape[:-1])
    return _product(forward, aten.mm, (input, weight), rows, weight.shape[1], weight.shape[0])


def _cell(
    result: Any,
    /,
    input: Tensor,
    hx: Any,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Counts, Counts]:
    """Count the projections of the input and of the hidden state, which is the first of several."""
    state = hx[0] if isinstance(hx, list | tuple) else hx
    of_input, of_state = _linear(result, input, w_ih, b_ih), _linear(result, state, w_hh, b_hh)
    return of_input[0] + of_state[0], of_input[1] + of_state[1]


def _attention(result: Any, /, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
    size = 2 * math.prod(query.shape[:-1]) * key.shape[-2]
    scores, mixed = (aten.bmm, size * query.shape[-1]), (aten.bmm, size * value.shape[-1])
    of_scores = query.requires_grad or key.requires_grad
    backward = [mixed] * (value.requires_grad + of_scores)
    return [scores, mixed], backward + [scores] * (query.requires_grad + key.requires_grad)


def _convolved(
    transposed: bool, result: Any, /, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any
) -> Any:
    spatial = weight.dim() - 2
    x, y = (t.shape[-spatial - 1 :] for t in (input, result))  # channels and places, without the batch
    places = math.prod((x if transposed else y)[1:])
    batch = input.shape[0] if input.dim() == spatial + 2 else 1
    forward = 2 * batch * places * weight.numel()
    ungrouped = 2 * batch * places * x[0] * y[0] * math.prod(weight.shape[2:])
    backward = forward * input.requires_grad + ungrouped * weight.requires_grad
    return [(aten.convolution, forward)], [(aten.convolution_backward, backward)]


def _convolution(
    result: Any,
    /,
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *args: Any,
) -> Any:
    return _convolved(transposed, result, input, weight)


def _chain(result: Any, /, *matrices: Any, **kwargs: Any) -> tuple[Counts, Counts]:
    """Count the cheapest order of a chain of products, which is the one that runs."""
    given = list(matrices[0]) if isinstance(matrices[0], list | tuple) else list(matrices)
    shapes = [tuple(x.shape) for x in given]
    shapes[0] = shapes[0] if len(shapes[0]) == 2 else (1, *shapes[0])
    shapes[-1] = shapes[-1] if len(shapes[-1]) == 2 else (*shapes[-1], 1)

    @functools.cache
    def best(first: int, last: int) -> tuple[int, int]:  # operations of forward and backward
        if first == last:
            return 0, 0
        m, n, found = shapes[first][0], shapes[last][1], []
        for cut in range(first, last):
            (left, left_back), (right, right_back) = best(first, cut), best(cut + 1, last)
            count = 2 * m * shapes[cut][1] * n
            sides = (given[first : cut + 1], given[cut + 1 : last + 1])
            needed = sum(any(x.requires_grad for x in side) for side in sides)
            found.append((left + right + count, left_back + right_back + needed * count))
        return min(found)

    forward, backward = best(0, len(given) - 1)
    return [(aten.mm, forward)], [(aten.mm, backward)]


_CALLS: dict[str, _Products] = {
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "addbmm": _addbmm,
    "matmul": _matmul,
    "__matmul__": _matmul,
    "__rmatmul__": _rmatmul,
    "linear": _linear,
    "scaled_dot_product_attention": _attention,
    "multi_dot": _chain,
    "chain_matmul": _chain,
    "convolution": _convolution,
}
_CALLS |= {f"{name}_cell": _cell for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
_CALLS |= {f"conv{n}d": functools.partial(_convolved, False) for n in (1, 2, 3)}
_CALLS |= {f"conv_transpose{n}d": functools.partial(_convolved, True) for n in (1, 2, 3)}


def of_call(func: Any) -> _Products | None:
    """Return what counts the calls of a public function; None for those that have no products."""
    name = str(resolve_name(func) or getattr(func, "__name__", "")).rpartition(".")[2]
    return _CALLS.get(name) or _CALLS.get(name.removesuffix("_"))
