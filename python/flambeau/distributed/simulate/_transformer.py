"""transformer: the model of a decoder from its sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flambeau.distributed.simulate import _numbers as numbers
from flambeau.distributed.simulate._hardware import bytes_of
from flambeau.distributed.simulate._work import Amount, Layer, Model, Weight

# name -> layers, width, heads, kv_heads, hidden, vocabulary, sequence.
_KNOWN: dict[str, tuple[int, int, int, int, int, int, int]] = {
    "1b": (16, 2048, 32, 8, 8192, 128256, 4096),
    "7b": (32, 4096, 32, 32, 11008, 32000, 4096),
    "13b": (40, 5120, 40, 40, 13824, 32000, 4096),
    "70b": (80, 8192, 64, 8, 28672, 32000, 4096),
    "405b": (126, 16384, 128, 8, 53248, 128256, 8192),
}
KNOWN = tuple(_KNOWN)
_KEYS = ("layers", "width", "heads", "kv_heads", "hidden", "vocabulary", "sequence")


@dataclass(frozen=True)
class _Sizes:
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    sequence: int
    gated: bool
    bias: bool
    divide_vocabulary: bool
    size: int  # bytes of an element of an activation

    @property
    def keys(self) -> int:
        """Elements of a token's keys."""
        return self.width // self.heads * self.kv_heads

    def activations(self, elements: float) -> float:
        """Bytes of elements per token, for a sample."""
        return elements * self.sequence * self.size

    # --- parts -----------------------------------------------------------------------------------------

    def norm(self, name: str) -> tuple[Weight, ...]:
        weight = Weight(f"{name}.weight", (self.width,))
        return (weight, Weight(f"{name}.bias", (self.width,))) if self.bias else (weight,)

    def linear(self, name: str, inputs: int, outputs: int, columns: bool) -> tuple[Weight, ...]:
        weight = Weight(f"{name}.weight", (outputs, inputs), 0 if columns else 1)
        return (
            (weight, Weight(f"{name}.bias", (outputs,), 0 if columns else None)) if self.bias else (weight,)
        )

    def products(self, weights: tuple[Weight, ...]) -> float:
        """Operations of the products with the matrices among some weights."""
        return 2.0 * self.sequence * sum(w.shape[0] * w.shape[1] for w in weights if len(w.shape) == 2)

    def attention(self, index: int) -> Layer:
        width, keys = self.width, self.keys
        weights = (
            *self.norm("norm1"),
            *self.linear("q", width, width, True),
            *self.linear("k", width, keys, True),
            *self.linear("v", width, keys, True),
            *self.linear("o", width, width, False),
        )
        linear = self.products(weights)
        scores = 4.0 * self.sequence * self.sequence * width
        # The input and the result of the norm; queries, keys, values, the result of attention, and float32
        # logarithms of the sums of each row, from which backward computes the scores again.
        divided = self.activations(2 * width + 2 * keys) + 4 * self.heads * self.sequence
        sums = self.activations(width)
        return Layer(
            name=f"blocks.{index}.attention",
            group=f"blocks.{index}",
            weights=weights,
            forward=linear + scores,
            input_grads=linear + 2.5 * scores,
            weight_grads=linear,
            moved=Amount(self.activations(2 * width + 2 * keys), self.activations(5 * width)),
            saved=Amount(divided, self.activations(2 * width)),
            output=sums,
            kernels=(7, 14),
            sums=(sums, sums),
        )

    def mlp(self, index: int) -> Layer:
        width, hidden = self.width, self.hidden
        names = ("gate", "up") if self.gated else ("up",)
        weights = self.norm("norm2")
        for name in names:
            weights = (*weights, *self.linear(name, width, hidden, True))
        weights = (*weights, *self.linear("down", hidden, width, False))
        linear, sums = self.products(weights), self.activations(width)
        kept = 4 if self.gated else 2  # gate, its activation, up, their product; or up and its activation
        return Layer(
            name=f"blocks.{index}.mlp",
            group=f"blocks.{index}",
            weights=weights,
            forward=linear,
            input_grads=linear,
            weight_grads=linear,
            moved=Amount(self.activations((5 if self.gated else 2) * hidden), self.activations(5 * width)),
            saved=Amount(self.activations(kept * hidden), self.activations(2 * width)),
            output=sums,
            kernels=(7 if self.gated else 5, 14 if self.gated else 10),
            sums=(sums, sums),
        )

    def embedding(self) -> Layer:
        divided = 0 if self.divide_vocabulary else None
        result = self.activations(self.width)
        return Layer(
            name="embed",
            weights=(Weight("weight", (self.vocabulary, self.width), divided),),
            moved=Amount(0.0, 2 * result),
            saved=Amount(0.0, 8.0 * self.sequence),  # the tokens
            output=result,
            kernels=(1, 2),
            sums=(result if self.divide_vocabulary else 0.0, 0.0),
        )

    def head(self) -> Layer:
        divided = 0 if self.divide_vocabulary else None
        matrix = Weight("head.weight", (self.vocabulary, self.width), divided)
        linear = self.products((matrix,))
        logits, width = self.activations(self.vocabulary), self.activations(self.width)
        # The logits, and their logarithms of probabilities in float32.
        large = logits + 4.0 * self.vocabulary * self.sequence
        divides = self.divide_vocabulary
        return Layer(
            name="head",
            weights=(*self.norm("norm"), matrix),
            forward=linear,
            input_grads=linear,
            weight_grads=linear,
            moved=Amount(large if divides else 0.0, 2 * width + (0.0 if divides else large)),
            saved=Amount(large if divides else 0.0, 2 * width + (0.0 if divides else large)),
            output=4.0,
            kernels=(4, 8),
            # Three numbers per token: the largest logit, the sum of exponentials, the target's logit.
            sums=(12.0 * self.sequence, width) if divides else (0.0, 0.0),
        )

    def all_layers(self) -> Iterator[Layer]:
        yield self.embedding()
        for index in range(self.layers):
            yield self.attention(index)
            yield self.mlp(index)
        yield self.head()


def transformer(
    name: str | None = None,
    *,
    dtype: str = "float32",
    compute_dtype: str | None = "bfloat16",
    gated: bool = True,
    bias: bool = False,
    divide_vocabulary: bool = True,
    **sizes: int,
) -> Model:
    """Describe a decoder: an embedding, blocks of attention and MLP, a norm and a head that is not tied.

    Each block is one group of layers. Attention computes all scores and keeps none of them: backward computes
    them again, which is half of its additional work. A multiply-add counts as two operations.

    Args:
        name: "1b", "7b", "13b", "70b" or "405b", for the sizes of Llama models; None: all sizes are given.
        dtype: the dtype of parameters, gradients and optimizer states.
        compute_dtype: the dtype of arithmetic and activations; None: `dtype`.
        gated: whether the MLP has three matrices, as in SwiGLU; False: two.
        bias: whether linear maps and norms have biases; the head never has one.
        divide_vocabulary: whether tensor parallelism divides the embedding and the head.
        **sizes: layers, width, heads, kv_heads, hidden, vocabulary and sequence, which replace those of
            `name`. Defaults without a name: kv_heads equals heads, hidden is 4 width.
    Returns: the model.
    Raises: ValueError for sizes below 1, or that do not divide each other; TypeError for unknown names.
    Source: Touvron et al. 2023, "Llama 2: Open Foundation and Fine-Tuned Chat Models"; Korthikanti et al.
        2022, "Reducing Activation Recomputation in Large Transformer Models", for bytes of activations.

    Example:
        >>> from flambeau.distributed.simulate import transformer
        >>> transformer("7b").parameters
        6738415616
    """
    where = "transformer"
    if name is not None:
        numbers.choice(where, "name", name, KNOWN)
    given = _sizes_of(where, name, sizes)
    element = bytes_of(where, compute_dtype or dtype)
    described = _Sizes(**given, gated=gated, bias=bias, divide_vocabulary=divide_vocabulary, size=element)
    numbers.divisor(where, "number of heads", given["heads"], "the width", given["width"])
    numbers.divisor(where, "number of kv_heads", given["kv_heads"], "that of heads", given["heads"])
    layers, heads = tuple(described.all_layers()), ("heads", "kv_heads")
    divides = tuple((key, given[key]) for key in heads)
    return Model(layers, dtype, compute_dtype, name or "transformer", divides)


def _sizes_of(where: str, name: str | None, sizes: dict[str, Any]) -> dict[str, int]:
    for key in sizes:
        if key not in _KEYS:
            raise TypeError(f"{where}: expected sizes among {', '.join(_KEYS)}, got {key}")
    given = sizes if name is None else dict(zip(_KEYS, _KNOWN[name], strict=True)) | sizes
    if name is None:
        given = {"kv_heads": given.get("heads"), "hidden": 4 * given.get("width", 0)} | given
    for key in _KEYS:
        if given.get(key) is None:
            raise TypeError(f"{where}: expected a name or all sizes, got no {key}")
        numbers.count(where, key, given[key])
    return given
