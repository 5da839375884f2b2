"""Transformers (Vaswani et al. 2017): encoder, decoder and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
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
        raise RuntimeError(f"activation: expected relu or gelu, got {chosen}")
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
    """What both kinds of layers share: attention, two linear maps, norms and dropout.

    Args:
        d_model: features.
        nhead: attention heads.
        dim_feedforward: features between the two linear maps.
        dropout: probability, in training.
        activation: relu, gelu or a function, between the linear maps.
        layer_norm_eps: added to the variance in the norms.
        batch_first: tensors are (batch, length, features).
        norm_first: normalise before attention and maps instead of after.
        bias: whether to learn biases.
    """

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


_SHARED_DOC = (_Layer.__doc__ or "")[77:]  # what follows the summary


class TransformerEncoderLayer(_Layer):
    __doc__ = f"Self-attention and two linear maps, each with a residual.{_SHARED_DOC}"

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


class TransformerDecoderLayer(_Layer):
    __doc__ = f"Self-attention, attention to the encoder's output and two linear maps.{_SHARED_DOC}"

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
    """Copies of an encoder layer on top of each other, with a norm at the end if given."""

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
    """Copies of a decoder layer on top of each other, with a norm at the end if given."""

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


class Transformer(Module):
    """Encoder and decoder.

    Args:
        d_model: features.
        nhead: attention heads.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        dim_feedforward: features between the two linear maps of a layer.
        dropout: probability, in training.
        activation: relu, gelu or a function.
        custom_encoder: used in place of the encoder.
        custom_decoder: used in place of the decoder.
        layer_norm_eps: added to the variance in the norms.
        batch_first: tensors are (batch, length, features).
        norm_first: normalise before attention and maps instead of after.
        bias: whether to learn biases.
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
            raise RuntimeError("expected src and tgt of equal batch size")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("expected src and tgt with d_model features")
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
