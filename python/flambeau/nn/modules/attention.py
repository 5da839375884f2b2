"""Attention, and bags of embeddings."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear, Table
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def _check_heads(embed_dim: int, num_heads: int) -> None:
    if embed_dim <= 0 or num_heads <= 0:
        raise ValueError(
            f"MultiheadAttention: expected embed_dim and num_heads above 0, got {embed_dim} and {num_heads}"
        )
    if embed_dim % num_heads:
        raise AssertionError(
            f"MultiheadAttention: expected embed_dim in multiples of {num_heads} heads, got {embed_dim}"
        )


@described_by("multi_head_attention_forward")
class MultiheadAttention(Module):
    """Attention by several heads, each with its own projection of query, key and value.

    The results of the heads are joined and projected once more. A call takes query, key and value, and
    returns the result and the attention weights.

    Args:
        embed_dim: the length of a query, divisible by `num_heads`.
        num_heads: the number of heads, each of length ``embed_dim / num_heads``.
        dropout: the probability with which an attention weight becomes 0 in training.
        bias: whether projections add a learned bias.
        add_bias_kv: whether to append a learned key and value.
        add_zero_attn: whether to append a key and a value of zeros.
        kdim: the length of a key. None means `embed_dim`.
        vdim: the length of a value. None means `embed_dim`.
        batch_first: whether the batch comes before the sequence.
    Shape: query ``(length, batch, embed_dim)``, or ``(batch, length, embed_dim)`` with `batch_first`, or
        without batch; the result has its shape. The weights are ``(batch, length, source length)``.
    Raises: ValueError if `embed_dim` or `num_heads` is not positive, AssertionError if the heads do not
        divide `embed_dim`.
    See also: nn.functional.scaled_dot_product_attention, TransformerEncoderLayer

    Example:
        >>> layer = flambeau.nn.MultiheadAttention(4, num_heads=2)
        >>> x = flambeau.zeros(3, 1, 4)
        >>> result, weights = layer(x, x, x)
        >>> result.shape, weights.shape
        (flambeau.Size([3, 1, 4]), flambeau.Size([1, 3, 3]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_heads(embed_dim, num_heads)
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        place = {"device": device, "dtype": dtype}
        self._make_projections(place)
        self.register_parameter(
            "in_proj_bias", Parameter(flambeau.empty(3 * embed_dim, **place)) if bias else None
        )
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **place)
        for name in ("bias_k", "bias_v"):
            extra = Parameter(flambeau.empty(1, 1, embed_dim, **place)) if add_bias_kv else None
            self.register_parameter(name, extra)
        self._reset_parameters()

    def _make_projections(self, place: dict[str, Any]) -> None:
        size, same = self.embed_dim, self._qkv_same_embed_dim
        widths = {"q_proj_weight": size, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, width in widths.items():
            self.register_parameter(name, None if same else Parameter(flambeau.empty(size, width, **place)))
        packed = Parameter(flambeau.empty(3 * size, size, **place)) if same else None
        self.register_parameter("in_proj_weight", packed)

    def _reset_parameters(self) -> None:
        """Draw new initial values (Glorot and Bengio 2010); biases start as 0."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend; the second result is the weights, or None without `need_weights`."""
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(0, 1) if turned else result), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return one mask that stands for both, and its kind; a float mask is added to the scores.

        Args:
            attn_mask: ``(length, length)`` or ``(batch * heads, length, length)``.
            key_padding_mask: ``(batch, length)``.
            query: ``(batch, length, embed_dim)``.
        Returns: the padding mask and 1, if it is alone; else the sum, of shape
            ``(batch, heads, length, length)``, and 2; None and None without masks.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        shape = (1, 1, length, length) if attn_mask.dim() != 3 else (batch, -1, length, length)
        mask = attn_mask.view(shape).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length)
            mask = mask + padding.expand(-1, self.num_heads, -1, -1)
        return mask, 2


@described_by("embedding_bag")
class EmbeddingBag(Table):
    """Sums, means or maxima of vectors of a learned table, looked up bag by bag.

    A call takes indices, and for a vector of them the offsets where bags begin. An empty bag gives 0.

    Args:
        num_embeddings: the number of vectors.
        embedding_dim: the length of each.
        scale_grad_by_freq: whether a vector's gradient is divided by the count of its index in the batch; not
            for "max".
        sparse: whether the gradient of the table is a sparse tensor; not for "max".
        _weight: the table to use in place of one drawn from N(0, 1).
        include_last_offset: whether the last offset is the end of the last bag.
    Shape: indices ``(bags, length)``, or ``(total)`` with offsets ``(bags)``, to ``(bags, embedding_dim)``.
    Raises: AssertionError if `padding_idx` is not an index.
    See also: Embedding, nn.functional.embedding_bag

    Example:
        >>> layer = flambeau.nn.EmbeddingBag(3, 2, mode="sum", _weight=flambeau.arange(6.0).reshape(3, 2))
        >>> layer(flambeau.tensor([0, 1, 2]), flambeau.tensor([0, 2])).detach()
        tensor([[2., 4.],
                [4., 5.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.include_last_offset = include_last_offset
        place = {"device": device, "dtype": dtype}
        self._make_table((num_embeddings, embedding_dim), padding_idx, sparse, _weight, place)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Any:
        """Make a layer around a table of vectors of shape (count, length); `freeze`: it is not trained."""
        return cls._around(
            embeddings,
            freeze,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Look up and reduce."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
