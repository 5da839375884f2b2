"""Attention: the scaled dot product, and heads of it with their projections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _nn

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

scaled_dot_product_attention = _nn.scaled_dot_product_attention


def _float_mask(mask: Tensor | None, name: str, dtype: flambeau.dtype) -> Tensor | None:
    """Return a mask that is added to scores; True in a bool mask means: takes no part."""
    if mask is None:
        return None
    if mask.dtype == flambeau.bool:
        return flambeau.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, float("-inf"))
    if not mask.is_floating_point():
        raise AssertionError(
            f"multi_head_attention_forward: expected {name} of dtype bool or a floating one, got {mask.dtype}"
        )
    return mask


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Check dimensions; return whether the arguments have a batch dimension."""
    dims = query.dim()
    allowed = {
        "query": (query, (2, 3)),
        "key": (key, (dims,)),
        "value": (value, (dims,)),
        "key_padding_mask": (key_padding_mask, (dims - 1,)),
        "attn_mask": (attn_mask, (2, 3)),
    }
    for name, (tensor, wanted) in allowed.items():
        if tensor is not None and tensor.dim() not in wanted:
            numbers = " or ".join(f"{n}-D" for n in wanted)
            raise AssertionError(
                f"multi_head_attention_forward: expected {name} to be {numbers} beside a {dims}-D query, "
                f"got {tensor.dim()}-D"
            )
    if dims == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"multi_head_attention_forward: expected attn_mask of shape {expected}, "
                f"got {tuple(attn_mask.shape)}"
            )
    return dims == 3


def _each_linear(inputs: Sequence[Tensor], weights: Sequence[Any], biases: Sequence[Any]) -> list[Tensor]:
    # Looked up in the public module at each call, as programs assign functions of their own there.
    linear = flambeau.nn.functional.linear
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


def _packed_projection(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None) -> list[Tensor]:
    width = q.size(-1)
    if k is v and q is k:
        return list(flambeau.nn.functional.linear(q, w, b).chunk(3, -1))
    parts = [width, 2 * width] if k is v else [width] * 3
    biases = [None] * len(parts) if b is None else b.split(parts)
    if k is v:
        projected, both = _each_linear((q, k), w.split(parts), biases)
        return [projected, *both.chunk(2, -1)]
    return _each_linear((q, k, v), w.split(parts), biases)


def _projections(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    packed: Tensor | None,
    separate: tuple[Tensor | None, Tensor | None, Tensor | None] | None,
    bias: Tensor | None,
) -> list[Tensor]:
    if separate is None:
        if packed is None:
            raise AssertionError("multi_head_attention_forward: expected in_proj_weight, got None")
        return _packed_projection(q, k, v, packed, bias)
    for weight, name in zip(separate, "qkv", strict=True):
        if weight is None:
            raise AssertionError(
                f"multi_head_attention_forward: expected {name}_proj_weight when separate, got None"
            )
    biases = [None] * 3 if bias is None else bias.chunk(3)
    return _each_linear((q, k, v), separate, biases)


def _checked_attn_mask(
    attn_mask: Tensor | None, shape: tuple[int, int, int], is_causal: bool
) -> Tensor | None:
    """Return the mask with a leading dimension for batch and heads."""
    if attn_mask is None:
        if is_causal:
            raise RuntimeError(
                "multi_head_attention_forward: is_causal is a hint about attn_mask: expected attn_mask with "
                "is_causal=True, got None"
            )
        return None
    wanted = {2: shape[1:], 3: shape}.get(attn_mask.dim())
    if tuple(attn_mask.shape) != wanted:
        raise RuntimeError(
            f"multi_head_attention_forward: expected attn_mask of shape {shape[1:]} or {shape}, "
            f"got {tuple(attn_mask.shape)}"
        )
    return attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask


def _heads(x: Tensor, batch: int, heads: int) -> Tensor:
    """(length, batch, heads * width) to (batch * heads, length, width)."""
    return x.reshape(x.shape[0], batch * heads, x.shape[2] // heads).transpose(0, 1)


def _checked_heads(x: Tensor, name: str, q: Tensor) -> Tensor:
    """Check keys or values that are given by head already."""
    for d in (0, 2):
        if x.size(d) != q.size(d):
            raise AssertionError(
                f"multi_head_attention_forward: expected {name} of size {q.size(d)} in dimension {d}, "
                f"got {tuple(x.shape)}"
            )
    return x


def _as_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Add a batch dimension; tensors that are one stay one, which spares projections."""
    added = query.unsqueeze(1)
    keys = added if key is query else key.unsqueeze(1)
    return added, keys, keys if value is key else value.unsqueeze(1)


def _check_widths(
    query: Tensor, key: Tensor, value: Tensor, expected: int, num_heads: int, separate: bool
) -> None:
    width = query.shape[-1]
    if width != expected:
        raise AssertionError(
            f"multi_head_attention_forward: expected embeddings of size {expected}, got {width}"
        )
    if width % num_heads:
        raise AssertionError(
            f"multi_head_attention_forward: embed_dim {width} not divisible by num_heads {num_heads}"
        )
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"multi_head_attention_forward: expected key and value of equal length and batch, "
            f"got {key.shape[:2]} and {value.shape[:2]}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(
            f"multi_head_attention_forward: expected key and value of one shape, "
            f"got {key.shape} and {value.shape}"
        )


class _Masks:
    """The two masks, which grow with the keys and are merged in the end."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        heads: int,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
    ) -> None:
        target, self.batch, self.heads = query.shape[0], query.shape[1], heads
        attn_mask = _checked_attn_mask(attn_mask, (self.batch * heads, target, key.shape[0]), is_causal)
        self.attn = _float_mask(attn_mask, "attn_mask", query.dtype)
        self.padding = _float_mask(key_padding_mask, "key_padding_mask", query.dtype)

    def add_key(self) -> None:
        """Let one more key take part."""
        if self.attn is not None:
            self.attn = flambeau.constant_pad_nd(self.attn, (0, 1))
        if self.padding is not None:
            self.padding = flambeau.constant_pad_nd(self.padding, (0, 1))

    def merged(self, source: int) -> Tensor | None:
        """Return one mask that broadcasts to (batch * heads, target, source)."""
        if self.padding is None:
            return self.attn
        batch, heads = self.batch, self.heads
        if tuple(self.padding.shape) != (batch, source):
            raise AssertionError(
                f"multi_head_attention_forward: expecting key_padding_mask shape "
                f"of {(batch, source)}, but got {self.padding.shape}"
            )
        padding = self.padding.reshape(batch, 1, 1, source).expand(-1, heads, -1, -1)
        padding = padding.reshape(batch * heads, 1, source)
        return padding if self.attn is None else self.attn + padding


def _with_bias(
    k: Tensor,
    v: Tensor,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    static_k: Tensor | None,
    static_v: Tensor | None,
    masks: _Masks,
) -> tuple[Tensor, Tensor]:
    """Append the learned key and value."""
    if bias_k is None or bias_v is None:
        if bias_k is not bias_v:
            raise AssertionError(
                "multi_head_attention_forward: expected bias_k and bias_v or neither, got one of them"
            )
        return k, v
    if static_k is not None:
        raise AssertionError(
            "multi_head_attention_forward: expected None as bias_k for a static key, got a Tensor"
        )
    if static_v is not None:
        raise AssertionError(
            "multi_head_attention_forward: expected None as bias_v for a static value, got a Tensor"
        )
    masks.add_key()
    batch = k.shape[1]
    return flambeau.cat([k, bias_k.repeat(1, batch, 1)]), flambeau.cat([v, bias_v.repeat(1, batch, 1)])


def _with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    q, k = q * (1.0 / q.size(-1)) ** 0.5, k.transpose(-2, -1)
    scores = q @ k if mask is None else flambeau.baddbmm(mask, q, k)  # one dtype, also within autocast
    weights = flambeau.nn.functional.softmax(scores, -1)
    if dropout_p > 0.0:
        weights = flambeau.dropout(weights, dropout_p, True)
    return weights @ v, weights


def _by_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    static_k: Tensor | None,
    static_v: Tensor | None,
    add_zero_attn: bool,
    masks: _Masks,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values as (batch * heads, length, width of a head)."""
    q = _heads(q, masks.batch, masks.heads)
    k = _heads(k, masks.batch, masks.heads) if static_k is None else _checked_heads(static_k, "static_k", q)
    v = _heads(v, masks.batch, masks.heads) if static_v is None else _checked_heads(static_v, "static_v", q)
    if not add_zero_attn:
        return q, k, v
    masks.add_key()
    return q, flambeau.constant_pad_nd(k, (0, 0, 0, 1)), flambeau.constant_pad_nd(v, (0, 0, 0, 1))


def _attended(
    q: Tensor, k: Tensor, v: Tensor, masks: _Masks, dropout_p: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the output (target, batch, features), and the weights (batch, heads, target, source)."""
    mask, weights, target = masks.merged(k.size(1)), None, q.size(1)
    if need_weights:
        output, weights = _with_weights(q, k, v, mask, dropout_p)
        weights = weights.reshape(masks.batch, masks.heads, target, weights.size(-1))
    else:
        output = flambeau.nn.functional.scaled_dot_product_attention(q, k, v, mask, dropout_p)
    features = masks.heads * output.size(-1)
    return output.transpose(0, 1).reshape(target, masks.batch, features), weights


def _shaped(
    output: Tensor, weights: Tensor | None, batched: bool, average: bool
) -> tuple[Tensor, Tensor | None]:
    if weights is not None and average:
        weights = weights.mean(1)
    if batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attend by several heads, with projections before and after: `nn.MultiheadAttention` with its weights as
    arguments.

    Formula: result = concat(head_1, ..., head_h) W_out^T + b_out, head_i = softmax(q_i k_i^T / sqrt(E / h) +
        mask) v_i
    Args:
        query: (L, N, E), or (L, E) without batch.
        key: (S, N, E_k), or (S, E_k).
        value: (S, N, E_v), or (S, E_v).
        embed_dim_to_check: E.
        num_heads: h, a divisor of E.
        in_proj_weight: the projections of query, key and value below each other, (3 E, E). None with separate
            ones.
        in_proj_bias: their biases, (3 E), or None.
        bias_k: one more key, (1, 1, E), or None.
        bias_v: the value of that key, (1, 1, E), or None.
        add_zero_attn: whether to append a key and a value of zeros.
        dropout_p: the probability with which an attention weight becomes 0 in training.
        out_proj_weight: W_out, (E, E).
        out_proj_bias: b_out, (E), or None.
        training: whether to drop weights.
        key_padding_mask: (N, S) or (S): True, or -inf, for keys that take no part. None means that all do.
        need_weights: whether to return the attention weights.
        attn_mask: (L, S) or (N h, L, S): True for pairs that take no part, or numbers that are added to the
            scores.
        use_separate_proj_weight: whether the next three replace `in_proj_weight`.
        q_proj_weight: (E, E).
        k_proj_weight: (E, E_k).
        v_proj_weight: (E, E_v).
        static_k: keys by head, (N h, S, E / h), in place of the projected ones.
        static_v: values by head, (N h, S, E / h), in place of the projected ones.
        average_attn_weights: whether to return the mean of the heads' weights.
        is_causal: a promise that `attn_mask` is the causal one; it needs that mask.
    Returns: the output, and the weights or None.
    Shape: the output (L, N, E) or (L, E); the weights (N, L, S), (N, h, L, S), or both without N.
    Raises: AssertionError for shapes that do not fit, RuntimeError for an `attn_mask` of another shape or
        none with `is_causal`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.
    See also: nn.MultiheadAttention, scaled_dot_product_attention

    Example:
        >>> x, w = flambeau.eye(2), flambeau.eye(2)
        >>> packed = (flambeau.cat([w, w, w]), None, None, None, False, 0.0, w, None)
        >>> flambeau.nn.functional.multi_head_attention_forward(x, x, x, 2, 1, *packed)[1]
        tensor([[0.6698, 0.3302],
                [0.3302, 0.6698]])
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    if not batched:
        query, key, value = _as_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _check_widths(query, key, value, embed_dim_to_check, num_heads, separate is not None)
    masks = _Masks(query, key, num_heads, attn_mask, key_padding_mask, is_causal)
    q, k, v = _projections(query, key, value, in_proj_weight, separate, in_proj_bias)
    k, v = _with_bias(k, v, bias_k, bias_v, static_k, static_v, masks)
    q, k, v = _by_heads(q, k, v, static_k, static_v, add_zero_attn, masks)
    output, weights = _attended(q, k, v, masks, dropout_p if training else 0.0, need_weights)
    output = flambeau.nn.functional.linear(output, out_proj_weight, out_proj_bias)
    return _shaped(output, weights, batched, average_attn_weights)
