"""What the references in native_functions.yaml call: definitions in plain NumPy, for clarity not speed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.fft
from layer_references import *  # noqa: F403  (found here under one name)
from linalg_references import *  # noqa: F403  (found here under one name)
from random_references import *  # noqa: F403  (found here under one name)

Sizes = int | Sequence[int]
Windows = list[list[range]]


def _spread(value: Sizes, dims: int) -> tuple[int, ...]:
    """One number stands for all dimensions."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * dims if len(numbers) == 1 else numbers


# --- convolution -----------------------------------------------------------------------------------


def convolution(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> np.ndarray:
    """Cross-correlation over all but the batch and channel dimensions, or its transpose."""
    dims = weight.ndim - 2
    if x.ndim == dims + 1:
        batch = x[None]
        return convolution(
            batch, weight, bias, stride, padding, dilation, transposed, output_padding, groups
        )[0]
    steps, edges, gaps = (_spread(v, dims) for v in (stride, padding, dilation))
    if transposed:
        extra = _spread(output_padding, dims)
        result = _transposed(x, weight, steps, edges, gaps, extra, groups)
    else:
        result = _correlation(x, weight, steps, edges, gaps, groups)
    return result if bias is None else result + bias.reshape(-1, *[1] * dims)


def _taps(kernel: tuple[int, ...], steps: tuple[int, ...], gaps: tuple[int, ...], count: tuple[int, ...]):
    """For each kernel element: its index, and where in the padded input it meets the outputs."""
    for tap in itertools.product(*map(range, kernel)):
        yield (
            tap,
            tuple(
                slice(t * gap, t * gap + (n - 1) * step + 1, step)
                for t, gap, n, step in zip(tap, gaps, count, steps, strict=True)
            ),
        )


def _correlation(x, weight, steps, edges, gaps, groups) -> np.ndarray:
    """y[n, o, p] = sum over c, k of x[n, c, p * step + k * gap] w[o, c, k], in each group."""
    padded = np.pad(x, [(0, 0), (0, 0), *((e, e) for e in edges)])
    kernel = weight.shape[2:]
    count = tuple(
        (size - gap * (k - 1) - 1) // step + 1
        for size, gap, k, step in zip(padded.shape[2:], gaps, kernel, steps, strict=True)
    )
    parts = zip(np.split(padded, groups, 1), np.split(weight, groups, 0), strict=True)
    return np.concatenate(
        [
            sum(
                np.einsum("nc...,oc->no...", source[(..., *where)], w[(..., *tap)])
                for tap, where in _taps(kernel, steps, gaps, count)
            )
            for source, w in parts
        ],
        axis=1,
    )


def _transposed(x, weight, steps, edges, gaps, extra, groups) -> np.ndarray:
    """Each input element adds its multiple of the kernel to the output."""
    kernel, count = weight.shape[2:], x.shape[2:]
    sizes = [
        (n - 1) * step + gap * (k - 1) + 1 + more
        for n, step, gap, k, more in zip(count, steps, gaps, kernel, extra, strict=True)
    ]
    per_group = weight.shape[1]
    full = np.zeros((x.shape[0], per_group * groups, *sizes), np.result_type(x, weight))
    parts = zip(np.split(full, groups, 1), np.split(x, groups, 1), np.split(weight, groups, 0), strict=True)
    for target, source, w in parts:  # np.split gives views
        for tap, where in _taps(kernel, steps, gaps, count):
            target[(..., *where)] += np.einsum("nc...,co->no...", source, w[(..., *tap)])
    inner = tuple(slice(e, size - e) for e, size in zip(edges, sizes, strict=True))
    return full[(..., *inner)]


def pad_same(x: np.ndarray, weight: np.ndarray, dilation: Sizes) -> np.ndarray:
    """Zeros so that a convolution of stride 1 keeps the sizes; an odd one goes to the end."""
    dims = weight.ndim - 2
    totals = [gap * (k - 1) for gap, k in zip(_spread(dilation, dims), weight.shape[2:], strict=True)]
    return np.pad(x, [(0, 0)] * (x.ndim - dims) + [(t // 2, t - t // 2) for t in totals])


# --- pooling ---------------------------------------------------------------------------------------


def _window_starts(size: int, kernel: int, step: int, edge: int, gap: int, ceil_mode: bool) -> range:
    """Where windows begin, from the first input element; rounded up, none begins in the end padding."""
    reach = size + 2 * edge - gap * (kernel - 1) - 1
    count = (-(-reach // step) if ceil_mode else reach // step) + 1
    if ceil_mode and (count - 1) * step >= size + edge:
        count -= 1
    return range(-edge, -edge + count * step, step)


def _pooled(
    x: np.ndarray, windows: Windows, pick: Callable[[np.ndarray, np.ndarray, tuple[range, ...]], float]
) -> np.ndarray:
    """Apply pick(elements, their flat spatial indices, the window) to each window of each leading index."""
    dims = len(windows)
    spatial = x.shape[x.ndim - dims :]
    places = np.arange(np.prod(spatial, dtype=int)).reshape(spatial)
    out = np.empty((*x.shape[: x.ndim - dims], *map(len, windows)))
    for at in np.ndindex(out.shape):
        lead, position = at[: out.ndim - dims], at[out.ndim - dims :]
        window = tuple(windows[d][p] for d, p in enumerate(position))
        inside = np.ix_(*([i for i in w if 0 <= i < n] for w, n in zip(window, spatial, strict=True)))
        out[at] = pick(x[lead][inside], places[inside], window)
    return out


def _strided_windows(x, kernel, stride, padding, dilation, ceil_mode) -> Windows:
    spatial = x.shape[x.ndim - len(kernel) :]
    rows = zip(spatial, kernel, stride, padding, dilation, strict=True)
    return [
        [range(start, start + k * gap, gap) for start in _window_starts(size, k, step, edge, gap, ceil_mode)]
        for size, k, step, edge, gap in rows
    ]


def _argmax(elements: np.ndarray, places: np.ndarray, _: object) -> float:
    return places.ravel()[np.argmax(elements)]


def max_pool(
    x: np.ndarray,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    dims: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The windows' maxima and their flat spatial indices; dims: where one size may stand for all."""
    dims = dims or len(kernel)
    spread = (_spread(v, dims) for v in (kernel, stride, padding, dilation))
    windows = _strided_windows(x, *spread, ceil_mode)
    values = _pooled(x, windows, lambda elements, *_: elements.max())
    return values, _pooled(x, windows, _argmax).astype(np.int64)


def avg_pool(
    x: np.ndarray,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    dims: int | None = None,
) -> np.ndarray:
    """The windows' means: padding counts if asked, what lies beyond the padding never."""
    dims = dims or len(kernel)
    kernel, stride, padding = (_spread(v, dims) for v in (kernel, stride, padding))
    spatial = x.shape[x.ndim - dims :]

    def mean(elements: np.ndarray, _: np.ndarray, window: tuple[range, ...]) -> float:
        padded = [
            sum(1 for i in w if i < n + edge) for w, n, edge in zip(window, spatial, padding, strict=True)
        ]
        return elements.sum() / (divisor or (np.prod(padded) if count_include_pad else elements.size))

    return _pooled(x, _strided_windows(x, kernel, stride, padding, (1,) * dims, ceil_mode), mean)


def adaptive_pool(
    x: np.ndarray,
    output_size: Sizes,
    reduction: Callable[[np.ndarray], float] | None,
    dims: int | None = None,
) -> np.ndarray:
    """Window i of n covers floor(i size / n) .. ceil((i + 1) size / n); without reduction: argmax."""
    dims = dims or len(output_size)
    spatial = x.shape[x.ndim - dims :]
    windows = [
        [range(i * size // n, -(-(i + 1) * size // n)) for i in range(n)]
        for size, n in zip(spatial, _spread(output_size, dims), strict=True)
    ]
    if reduction is None:
        return _pooled(x, windows, _argmax).astype(np.int64)
    return _pooled(x, windows, lambda elements, *_: reduction(elements))


# --- losses ----------------------------------------------------------------------------------------


def reduced(loss: np.ndarray, reduction: int) -> np.ndarray:
    """0: as it is, 1: the mean, 2: the sum."""
    return [lambda v: v, np.mean, np.sum][reduction](loss)


def _samples(target: np.ndarray) -> Iterator[tuple[int, ...]]:
    yield from np.ndindex(target.shape)


def _class_weights(target: np.ndarray, weight: np.ndarray | None, classes: int, ignored: int) -> np.ndarray:
    """The weight of each sample's class, 0 for the ignored class."""
    weight = np.ones(classes) if weight is None else weight
    return np.array([0.0 if c == ignored else weight[c] for c in target.ravel()]).reshape(target.shape)


def _classes_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, min(1, x.ndim - 1), -1)


def nll_loss(
    x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, reduction: int, ignore_index: int
) -> np.ndarray:
    """-weight[c] x[c] for each sample's class c; the mean is over the weights."""
    rows = _classes_last(x)
    weights = _class_weights(target, weight, rows.shape[-1], ignore_index)
    loss = np.zeros(target.shape)
    for at in _samples(target):
        if target[at] != ignore_index:
            loss[at] = -weights[at] * rows[(*at, target[at])]
    return loss.sum() / weights.sum() if reduction == 1 else reduced(loss, reduction)


def cross_entropy(
    x: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> np.ndarray:
    """-sum_c weight[c] q[c] log softmax(x)[c]: q is the target moved towards 1 / classes by the smoothing."""
    rows = _classes_last(x)
    classes = rows.shape[-1]
    scores = rows - rows.max(-1, keepdims=True)
    scores = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    if target.dtype.kind == "f":
        q, counted = _classes_last(target), np.ones(rows.shape[:-1])
        divisor = float(counted.size)
    else:
        q = np.array([np.arange(classes) == c for c in target.ravel()], float).reshape(rows.shape)
        counted = (target != ignore_index).astype(float)
        divisor = _class_weights(target, weight, classes, ignore_index).sum()
    q = q * (1 - label_smoothing) + label_smoothing / classes
    loss = -(scores * q * (1 if weight is None else weight)).sum(-1) * counted
    return loss.sum() / divisor if reduction == 1 else reduced(loss, reduction)


# --- Fourier transforms ----------------------------------------------------------------------------


def fft(
    name: str, x: np.ndarray, dim: object = None, size: object = None, norm: str | None = None
) -> np.ndarray:
    """One of SciPy's transforms, which names its arguments as NumPy does."""
    return getattr(scipy.fft, name)(x, size, dim, norm)


def resized(x: np.ndarray, dim: Sequence[int], s: Sequence[int]) -> np.ndarray:
    """Trim or fill up with zeros at the end."""
    for d, size in zip(dim, s, strict=True):
        x = x[(slice(None),) * d + (slice(size),)]
        x = np.pad(x, [(0, size - x.shape[d] if i == d else 0) for i in range(x.ndim)])
    return x


# --- sorting -----------------------------------------------------------------------------------------


def mode(x: np.ndarray, dim: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent element, the smallest of several, and its last place."""

    def place(fiber: np.ndarray) -> int:
        values, counts = np.unique(fiber, return_counts=True)
        return int(np.flatnonzero(fiber == values[np.argmax(counts)])[-1])

    at = np.expand_dims(np.apply_along_axis(place, dim, x), dim)
    found = np.take_along_axis(x, at, dim)
    return (found, at) if keepdim else (found.squeeze(dim), at.squeeze(dim))


def compressed_rows(begins: np.ndarray, columns: np.ndarray, transpose: bool = False) -> np.ndarray:
    """The indices of compressed rows, one row per dimension, counted entry by entry."""
    found = []
    for place in np.ndindex(columns.shape):
        batch, entry = place[:-1], place[-1]
        row = sum(entry >= end for end in begins[batch][1:])
        pair = (columns[place], row) if transpose else (row, columns[place])
        found.append((*batch, *pair))
    return np.array(found).T


def lstm(gates, h, c, weight, reverse: bool, with_gates: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The recurrence of a long short-term memory; the columns of the gates are i, f, g and o."""
    output, cells = (np.empty((*gates.shape[:2], h.shape[1]), gates.dtype) for _ in range(2))
    kept = np.empty_like(gates)
    for step in reversed(range(len(gates))) if reverse else range(len(gates)):
        sums = np.split(gates[step] + h @ weight.T, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-sums[k])) for k in (0, 1, 3))
        c = f * c + i * np.tanh(sums[2])
        h = o * np.tanh(c)
        output[step], cells[step], kept[step] = h, c, np.concatenate([i, f, np.tanh(sums[2]), o], axis=1)
    return output, cells, kept if with_gates else kept[:0]


def gru_cell(x, h, w_ih, w_hh, b_ih, b_hh) -> np.ndarray:
    """One step of a gated recurrent unit; the rows of the weights are the reset, update and content gates."""

    def sigmoid(value: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-value))

    of_input = np.split(x @ w_ih.T + (0 if b_ih is None else b_ih), 3, axis=1)
    of_state = np.split(h @ w_hh.T + (0 if b_hh is None else b_hh), 3, axis=1)
    reset, update = (sigmoid(a + b) for a, b in zip(of_input[:2], of_state[:2], strict=True))
    content = np.tanh(of_input[2] + reset * of_state[2])
    return (1 - update) * content + update * h


def embedding_renorm(table: np.ndarray, indices: np.ndarray, max_norm: float, order: float) -> np.ndarray:
    """The table with the named rows scaled down to `max_norm`."""
    made = table.copy()
    for row in set(indices.ravel().tolist()):
        norm = np.linalg.norm(table[row], order)
        made[row] = table[row] * (max_norm / (norm + 1e-7)) if norm > max_norm else table[row]
    return made
