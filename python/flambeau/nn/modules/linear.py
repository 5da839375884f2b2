"""Layers that are one matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def fill_uniformly(weight: Tensor, bias: Tensor | None) -> None:
    """Draw weight and bias from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the default of linear and conv layers."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in = math.prod(weight.shape[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
        init.uniform_(bias, -bound, bound)


class Identity(Module):
    """Layer that returns its input, to stand in for another layer.

    Args:
        *args: any arguments of the other layer; they have no effect.
        **kwargs: any arguments of the other layer; they have no effect.
    Shape: ``(*)`` to the same.

    Example:
        >>> flambeau.nn.Identity(54, unused=True)(flambeau.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`."""
        return input


@described_by("linear")
class Linear(Module):
    """Affine map of the last dimension.

    Weight and bias are drawn from U(-1 / sqrt(in_features), 1 / sqrt(in_features)).

    Args:
        in_features: the size of the input's last dimension.
        out_features: the size of the result's last dimension.
        bias: whether to learn what is added.
    Shape: ``(*, in_features)`` to ``(*, out_features)``; the weight is ``(out_features, in_features)``.
    Raises: RuntimeError if the last dimension is not `in_features`.
    See also: Bilinear, LazyLinear, nn.functional.linear

    Example:
        >>> layer = flambeau.nn.Linear(2, 3)
        >>> layer(flambeau.zeros(4, 2)).shape
        flambeau.Size([4, 3])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(flambeau.empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(flambeau.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        fill_uniformly(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the map."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


@described_by()
class Bilinear(Module):
    """Bilinear map of the last dimensions of two inputs.

    Weight and bias are drawn from U(-1 / sqrt(in1_features), 1 / sqrt(in1_features)).

    Formula: result[k] = input1^T weight[k] input2 + bias[k]

    Args:
        in1_features: the size of the first input's last dimension, above 0.
        in2_features: the size of the second input's last dimension.
        out_features: the size of the result's last dimension.
        bias: whether to learn what is added.
    Shape: ``(*, in1_features)`` and ``(*, in2_features)`` to ``(*, out_features)``.
    Raises: ValueError if `in1_features` is not positive.
    See also: Linear, nn.functional.bilinear

    Example:
        >>> layer = flambeau.nn.Bilinear(2, 3, 4)
        >>> layer(flambeau.zeros(5, 2), flambeau.zeros(5, 3)).shape
        flambeau.Size([5, 4])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: expected in1_features > 0, got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(
            flambeau.empty(out_features, in1_features, in2_features, device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(flambeau.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Apply the map."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """Union of neighbouring dimensions in one.

    Args:
        start_dim: the first dimension of them; the default keeps the batch apart.
        end_dim: the last dimension of them; negative values count from the last one.
    Shape: ``(batch, *)`` to ``(batch, n)``, n the product of the sizes, by default.
    See also: Unflatten, flambeau.flatten

    Example:
        >>> flambeau.nn.Flatten()(flambeau.zeros(2, 3, 4)).shape
        flambeau.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Flatten."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Division of one dimension into several.

    Args:
        dim: the dimension to divide.
        unflattened_size: the sizes in its place, whose product is its size; one of them may be -1.
    Shape: ``(*, n, *)`` to ``(*, *unflattened_size, *)``.
    Raises: TypeError if `unflattened_size` is not a sequence of sizes.
    See also: Flatten, flambeau.unflatten

    Example:
        >>> flambeau.nn.Unflatten(1, (3, 4))(flambeau.zeros(2, 12)).shape
        flambeau.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, Sequence) or isinstance(unflattened_size, str):
            raise TypeError(f"Unflatten: expected a tuple of sizes, got {unflattened_size!r}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Table(Module):
    """Vectors, looked up by integer index: what embeddings and bags of them have in common."""

    def _make_table(
        self, sizes: tuple[int, int], padding_idx: int | None, sparse: bool, weight: Tensor | None, place: Any
    ) -> None:
        count, _ = sizes
        self.sparse = sparse
        if padding_idx is not None and not -count <= padding_idx < count:
            raise AssertionError(
                f"{type(self).__name__}: padding_idx must be within num_embeddings; expected "
                f"{-count} to {count - 1}, got {padding_idx}"
            )
        if weight is not None and tuple(weight.shape) != tuple(sizes):
            raise AssertionError(
                f"{type(self).__name__}: expected _weight of shape {tuple(sizes)}, got {tuple(weight.shape)}"
            )
        self.num_embeddings, self.embedding_dim = sizes
        self.padding_idx = None if padding_idx is None else padding_idx % count
        self.weight = Parameter(flambeau.empty(sizes, **place) if weight is None else weight)
        if weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with flambeau.no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def _around(cls, embeddings: Tensor, freeze: bool, **options: Any) -> Any:
        if embeddings.dim() != 2:
            raise AssertionError(
                f"{cls.__name__}.from_pretrained: Embeddings parameter is expected to be 2-dimensional, "
                f"got {embeddings.dim()} dimensions"
            )
        layer: Any = cls(embeddings.shape[0], embeddings.shape[1], _weight=embeddings, **options)
        layer.weight.requires_grad_(not freeze)
        return layer


@described_by()
class Embedding(Table):
    """Table of learned vectors, looked up by integer index.

    The vectors are drawn from N(0, 1).

    Args:
        num_embeddings: the number of vectors.
        embedding_dim: the length of each.
        padding_idx: the index whose vector starts as 0 and receives no gradient; negative values count from
            the last one. None means none.
        max_norm: vectors that are looked up and have a larger norm are first scaled down to it, in place.
            None means no limit.
        norm_type: the order of that norm.
        scale_grad_by_freq: whether a vector's gradient is divided by the count of its index in the batch.
        sparse: whether the gradient of the table is a sparse tensor of the rows that were looked up.
        _weight: the table to use in place of a drawn one.
        _freeze: whether the table is not trained.
    Shape: ``(*)`` of integers to ``(*, embedding_dim)``.
    Raises: AssertionError if `padding_idx` is not an index; IndexError for an index outside
        [0, num_embeddings).
    See also: EmbeddingBag, nn.functional.embedding

    Example:
        >>> layer = flambeau.nn.Embedding.from_pretrained(flambeau.tensor([[0.0, 1.0], [2.0, 3.0]]))
        >>> layer(flambeau.tensor([1, 0, 1]))
        tensor([[2., 3.],
                [0., 1.],
                [2., 3.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        place = {"device": device, "dtype": dtype}
        self._make_table((num_embeddings, embedding_dim), padding_idx, sparse, _weight, place)
        self.weight.requires_grad_(not _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        """Make a layer around a table of vectors of shape (count, length); `freeze`: it is not trained."""
        return cls._around(
            embeddings,
            freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Look up."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)


# What PyTorch's attention says of its last layer, in pickles of whole layers.
class NonDynamicallyQuantizableLinear(Linear):
    """The projection inside `MultiheadAttention`, by the name under which PyTorch's files know it."""


__getattr__, __dir__ = attributes(__name__)
