"""What the references of layers in native_functions.yaml call: plain NumPy, for clarity not speed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

# --- padding and resizing --------------------------------------------------------------------------


def pad_edges(x: np.ndarray, pad: Sequence[int], mode: str) -> np.ndarray:
    """The tensor continued along its last dimensions; negative numbers cut off, before anything is copied."""
    name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = x.ndim - 1 - i
        x = x.take(range(max(0, -before), x.shape[axis] - max(0, -after)), axis)
        widths = [(max(0, before), max(0, after)) if d == axis else (0, 0) for d in range(x.ndim)]
        x = np.pad(x, widths, mode=name)
    return x


def constant_pad(x: np.ndarray, pad: Sequence[int], value: float) -> np.ndarray:
    """(before, after) from the last dimension on; negative numbers cut off."""
    for i in range(len(pad) // 2):
        before, after = pad[2 * i : 2 * i + 2]
        d = x.ndim - 1 - i
        x = np.take(x, range(max(0, -before), x.shape[d] - max(0, -after)), axis=d)
        around = [(max(0, before), max(0, after)) if e == d else (0, 0) for e in range(x.ndim)]
        x = np.pad(x, around, constant_values=value)
    return x


def _keys(x: float, a: float) -> float:
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _hat(x: float) -> float:
    return max(0.0, 1 - abs(x))


def _weights(o: int, n: int, step: float, place: float, mode: str) -> np.ndarray:
    """What each of n input elements contributes to output o."""
    weights = np.zeros(n)
    if mode.startswith("nearest"):
        weights[min(int((o + (0.5 if mode == "nearest-exact" else 0)) * step), n - 1)] = 1
    elif mode.endswith("-aa"):
        width, kernel = max(step, 1.0), _hat if mode == "linear-aa" else lambda x: _keys(x, -0.5)
        center, support = step * (o + 0.5), (1 if mode == "linear-aa" else 2) * width
        for i in range(max(int(center - support + 0.5), 0), min(int(center + support + 0.5), n)):
            weights[i] = kernel((i - center + 0.5) / width)
        weights /= weights.sum()
    else:
        place = min(max(place, 0), n - 1) if mode == "linear" else place
        base = int(np.floor(place))
        for i in range(base - 1, base + 3):
            kernel = _hat(place - i) if mode == "linear" else _keys(place - i, -0.75)
            weights[min(max(i, 0), n - 1)] += kernel
    return weights


def resample(
    x: np.ndarray, dim: int, size: int, mode: str, align_corners: bool, scale: float | None
) -> np.ndarray:
    """One dimension resized, as a matrix product."""
    n = x.shape[dim]
    step = 1 / scale if scale else n / size
    if align_corners:
        step = (n - 1) / (size - 1) if size > 1 else 0.0
    places = [step * o if align_corners else step * (o + 0.5) - 0.5 for o in range(size)]
    matrix = np.stack([_weights(o, n, step, place, mode) for o, place in enumerate(places)])
    return np.moveaxis(np.moveaxis(x, dim, -1) @ matrix.T, -1, dim)


def pixel_shuffle(x: np.ndarray, r: int) -> np.ndarray:
    """Channel c r^2 + i r + j becomes the pixels of row i and column j modulo r."""
    *lead, c, h, w = x.shape
    out = np.empty((*lead, c // (r * r), h * r, w * r), x.dtype)
    for i, j in itertools.product(range(r), range(r)):
        out[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return out


def pixel_unshuffle(x: np.ndarray, r: int) -> np.ndarray:
    """The inverse of pixel_shuffle."""
    *lead, c, h, w = x.shape
    out = np.empty((*lead, c * r * r, h // r, w // r), x.dtype)
    for i, j in itertools.product(range(r), range(r)):
        out[..., i * r + j :: r * r, :, :] = x[..., i::r, j::r]
    return out


def im2col(
    x: np.ndarray,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> np.ndarray:
    """Column by column: the elements of one window of all channels."""
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    starts = [range(0, x.shape[i + 2] - spans[i] + 1, stride[i]) for i in range(2)]
    columns = [
        x[:, :, i : i + spans[0] : dilation[0], j : j + spans[1] : dilation[1]].reshape(x.shape[0], -1)
        for i, j in itertools.product(*starts)
    ]
    return np.stack(columns, -1)


# --- losses ----------------------------------------------------------------------------------------


def _reduced(loss: np.ndarray, reduction: int) -> np.ndarray:
    return (lambda x: x, np.mean, np.sum)[reduction](loss)


def _of_rows(x: np.ndarray, target: np.ndarray, reduction: int, loss: Callable[..., float]) -> np.ndarray:
    if x.ndim < 2:
        return np.asarray(loss(np.atleast_1d(x), target))
    return _reduced(np.array([loss(row, t) for row, t in zip(x, target, strict=True)]), reduction)


def multi_margin_loss(
    x: np.ndarray, target: np.ndarray, p: int, margin: float, weight: np.ndarray | None, reduction: int
) -> np.ndarray:
    """Mean over the classes of max(0, margin - x[target] + x[i])^p, i other than the target."""

    def loss(row: np.ndarray, y: int) -> float:
        terms = np.maximum(0, margin - row[y] + row) ** p * (1 if weight is None else weight[y])
        return np.delete(terms, y).sum() / len(row)

    return _of_rows(x, target, reduction, loss)


def multilabel_margin_loss(x: np.ndarray, target: np.ndarray, reduction: int) -> np.ndarray:
    """Sum over labels y and other classes i of max(0, 1 - x[y] + x[i]), over the number of classes."""

    def loss(row: np.ndarray, labels: np.ndarray) -> float:
        labels = list(itertools.takewhile(lambda y: y >= 0, labels.tolist()))
        others = [i for i in range(len(row)) if i not in labels]
        return sum(max(0.0, 1 - row[y] + row[i]) for y in labels for i in others) / len(row)

    return _of_rows(x, target, reduction, loss)


# --- attention -------------------------------------------------------------------------------------


def _scores(q: np.ndarray, k: np.ndarray, is_causal: bool, scale: float | None) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    return np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf) if is_causal else scores


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    is_causal: bool,
    scale: float | None,
) -> np.ndarray:
    """softmax(scale q k^T + mask) v; rows without a key give 0."""
    scores = _scores(q, k, is_causal, scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300) @ v


def attention_logsumexp(q: np.ndarray, k: np.ndarray, is_causal: bool, scale: float | None) -> np.ndarray:
    """The logarithm of each row's sum of exponentials."""
    scores = _scores(q, k, is_causal, scale)
    top = scores.max(-1)
    return top + np.log(np.exp(scores - top[..., None]).sum(-1))


def maxima_of_rows(
    x: np.ndarray, index: np.ndarray, target: np.ndarray, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Maxima of x[index] by target, and the indices that have them; 0 and -1 without rows."""
    values, places = np.zeros((rows, x.shape[1]), x.dtype), np.full((rows, x.shape[1]), -1)
    for row in set(target.tolist()):
        named = index[target == row]
        winner = x[named].argmax(0)
        values[row], places[row] = x[named].max(0), named[winner]
    return values, places
