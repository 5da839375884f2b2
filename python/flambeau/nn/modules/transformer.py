"""Transformers (Vaswani et al. 2017): encoder, decoder and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.attention import MultiheadAttention
from flambeau.nn.modules.containers import ModuleList
from flambeau.nn.modules.dropout import Dropout
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.normalization import LayerNorm

Activation = Callable[[Tensor], Tensor]


def _activation(chosen: str | Activation) -> Activation:
    if not isinstance(chosen, str):
        return chosen
    if chosen not in ("relu", "gelu"):
        raise RuntimeError(
            "TransformerEncoderLayer, TransformerDecoderLayer: expected activation relu or gelu, got "
            f"{chosen}"
        )
    return getattr(F, chosen)


def _is_causal(mask: Tensor | None, is_causal: bool | None) -> bool:
    """Return the hint, or whether the mask is the causal one."""
    if is_causal is not None:
        return is_causal
    if mask is None or mask.size(-1) != mask.size(-2):
        return False
    causal = Transformer.generate_square_subsequent_mask(mask.size(-1), dtype=mask.dtype)
    return mask.dim() == 2 and bool((mask == causal).all())


class _Layer(Module):
    """Layer of encoders and decoders: attention, two linear maps, norms and dropout."""

    norms = 2
    crosses = False

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        heads: dict[str, Any] = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **place}
        self.self_attn = MultiheadAttention(d_model, nhead, **heads)
        if self.crosses:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **heads)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        for i in range(1, self.norms + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place))
        for i in range(1, self.norms + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _residual(self, x: Tensor, number: int, block: Activation) -> Tensor:
        norm, drop = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + drop(block(norm(x)))
        return norm(x + drop(block(x)))

    def _maps(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


@described_by()
class TransformerEncoderLayer(_Layer):
    """Layer of an encoder: self-attention and two linear maps, each with dropout, a residual and a norm.

    Formula: x = norm1(x + attend(x)), result = norm2(x + linear2(activation(linear1(x)))); with norm_first
        the norms act on the arguments of attend and linear1
    Args:
        d_model: the number of features of input and result, divisible by `nhead`.
        nhead: the number of attention heads.
        dim_feedforward: the number of features between the two linear maps.
        dropout: the probability with which elements become 0 in training.
        activation: "relu", "gelu" or a function, between the linear maps.
        layer_norm_eps: added to the variance in the norms.
        batch_first: whether tensors are (batch, length, features) instead of (length, batch, features).
        norm_first: whether norms act before attention and maps instead of after.
        bias: whether attention, maps and norms learn biases.
    Shape: ``(length, batch, d_model)``, ``(batch, length, d_model)`` with `batch_first`, or without batch, to
        the same.
    Raises: RuntimeError for another activation, AssertionError if `nhead` does not divide `d_model`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    See also: TransformerEncoder, MultiheadAttention

    Example:
        >>> layer = flambeau.nn.TransformerEncoderLayer(4, nhead=2)
        >>> layer(flambeau.zeros(3, 1, 4)).shape
        flambeau.Size([3, 1, 4])
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Encode."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, src_key_padding_mask, need_weights=False, attn_mask=src_mask, is_causal=is_causal
            )[0]

        return self._residual(self._residual(src, 1, attend), 2, self._maps)


@described_by(TransformerEncoderLayer)
class TransformerDecoderLayer(_Layer):
    """Layer of a decoder: self-attention, attention to the encoder's result, and two linear maps.

    Each of the three has dropout, a residual and a norm.

    Formula: x = norm1(x + attend(x)), x = norm2(x + attend(x, memory)), result = norm3(x +
        linear2(activation(linear1(x)))); with norm_first the norms act on the arguments
    Shape: ``(length, batch, d_model)`` and memory ``(source length, batch, d_model)``, or with `batch_first`
        the batch first, or without batch, to the shape of the first.
    Raises: RuntimeError for another activation, AssertionError if `nhead` does not divide `d_model`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    See also: TransformerDecoder, MultiheadAttention

    Example:
        >>> layer = flambeau.nn.TransformerDecoderLayer(4, nhead=2)
        >>> layer(flambeau.zeros(3, 1, 4), flambeau.zeros(5, 1, 4)).shape
        flambeau.Size([3, 1, 4])
    """

    norms = 3
    crosses = True

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask, is_causal=tgt_is_causal
            )[0]

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x,
                memory,
                memory,
                memory_key_padding_mask,
                need_weights=False,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )[0]

        x = self._residual(tgt, 1, attend)
        return self._residual(self._residual(x, 2, attend_to_memory), 3, self._maps)


class _Stack(Module):
    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm


class TransformerEncoder(_Stack):
    """Copies of an encoder layer on top of each other, each with weights of its own.

    Args:
        encoder_layer: the layer that is copied.
        num_layers: the number of copies.
        norm: a module that is applied at the end. None means none.
        enable_nested_tensor: accepted for compatibility; has no effect.
        mask_check: accepted for compatibility; has no effect.
    Shape: as for `encoder_layer`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    See also: TransformerEncoderLayer, TransformerDecoder

    Example:
        >>> layer = flambeau.nn.TransformerEncoderLayer(4, nhead=2)
        >>> flambeau.nn.TransformerEncoder(layer, num_layers=2)(flambeau.zeros(3, 1, 4)).shape
        flambeau.Size([3, 1, 4])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Encode."""
        causal = _is_causal(mask, is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """Copies of a decoder layer on top of each other, each with weights of its own.

    Args:
        decoder_layer: the layer that is copied.
        num_layers: the number of copies.
        norm: a module that is applied at the end. None means none.
    Shape: as for `decoder_layer`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    See also: TransformerDecoderLayer, TransformerEncoder

    Example:
        >>> layer = flambeau.nn.TransformerDecoderLayer(4, nhead=2)
        >>> stack = flambeau.nn.TransformerDecoder(layer, num_layers=2)
        >>> stack(flambeau.zeros(3, 1, 4), flambeau.zeros(5, 1, 4)).shape
        flambeau.Size([3, 1, 4])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode."""
        causal = _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


@described_by(TransformerEncoderLayer)
class Transformer(Module):
    """Transformer of an encoder and a decoder, without embeddings and without positions.

    Weights of more than one dimension are drawn by `nn.init.xavier_uniform_`.

    Args:
        num_encoder_layers: the number of layers of the encoder.
        num_decoder_layers: the number of layers of the decoder.
        custom_encoder: a module in place of the encoder. None makes one.
        custom_decoder: a module in place of the decoder. None makes one.
    Shape: source ``(source length, batch, d_model)`` and target ``(length, batch, d_model)``, or with
        `batch_first` the batch first, or without batch, to the shape of the target.
    Raises: RuntimeError for source and target of different batch sizes, or without `d_model` features.
    Source: Vaswani et al. 2017, "Attention Is All You Need".
    See also: TransformerEncoder, TransformerDecoder

    Example:
        >>> model = flambeau.nn.Transformer(4, 2, num_encoder_layers=1, num_decoder_layers=1)
        >>> model(flambeau.zeros(5, 1, 4), flambeau.zeros(3, 1, 4)).shape
        flambeau.Size([3, 1, 4])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        shape = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = {"batch_first": batch_first, "norm_first": norm_first, "bias": bias, **place}
        norm = {"eps": layer_norm_eps, "bias": bias, **place}
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*shape, **options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model, **norm))
        if custom_decoder is None:
            below = TransformerDecoderLayer(*shape, **options)
            custom_decoder = TransformerDecoder(below, num_decoder_layers, LayerNorm(d_model, **norm))
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        for weight in self.parameters():
            if weight.dim() > 1:
                init.xavier_uniform_(weight)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode `src`, decode `tgt` with it."""
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError(
                f"Transformer: expected src and tgt of equal batch size, got {src.size(batch)} and "
                f"{tgt.size(batch)}"
            )
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(
                f"Transformer: expected src and tgt with d_model={self.d_model} features, got "
                f"{src.size(-1)} and {tgt.size(-1)}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask: minus infinity above the diagonal, 0 elsewhere."""
        return flambeau.full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)


__getattr__, __dir__ = attributes(__name__)
