"""Normalisation layers."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by, inherited
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


class _NormBase(Module):
    _version = 2  # since 2 the number of batches is part of the state
    allowed_dims: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, learned in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(flambeau.empty(num_features, **place)) if learned else None
            self.register_parameter(name, values)
        tracked = track_running_stats
        self.register_buffer("running_mean", flambeau.zeros(num_features, **place) if tracked else None)
        self.register_buffer("running_var", flambeau.ones(num_features, **place) if tracked else None)
        self.register_buffer(
            "num_batches_tracked", flambeau.tensor(0, dtype=flambeau.int64) if tracked else None
        )
        self.reset_parameters()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats and key not in state_dict:
            own = self.num_batches_tracked
            known = own is not None and not own.is_meta
            state_dict[key] = own if known else flambeau.tensor(0, dtype=flambeau.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Return to scale 1 and shift 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.allowed_dims:
            wanted = " or ".join(f"{d}D" for d in self.allowed_dims)
            raise ValueError(f"{type(self).__name__}: expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.affine and self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        self._check_input_dim(input)
        update = self.training and self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        if update:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or self.running_mean is None
        keep = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if keep else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, use_batch, momentum, self.eps)


_BATCH_DOC = """Batch normalization of each channel over the batch{where}, with a learned scale and shift.

    In training the batch's mean and biased variance are used, and the running statistics move by `momentum`
    towards the batch's mean and unbiased variance. In evaluation the running statistics are used.

    Formula: result = (input - mean) / sqrt(var + eps) * weight + bias
    Args:
        num_features: the number of channels (dimension 1).
        eps: added to the variance, so that constant channels give 0.
        momentum: the weight of the new batch in the running statistics. None makes them plain averages.
        affine: whether to learn scale and shift, one each per channel.
        track_running_stats: whether to keep running statistics; else the batch's are used in evaluation too.
        bias: whether to learn the shift beside the scale.
    Shape: {shape} to the same.
    Raises: ValueError for another number of dimensions, or 1 value per channel in training.
    Source: Ioffe & Szegedy 2015, "Batch Normalization".
    See also: nn.functional.batch_norm, LayerNorm, GroupNorm

    Example:
        >>> layer = flambeau.nn.BatchNorm{dims}d(1, affine=False)
        >>> layer(flambeau.tensor([1.0, 3.0]).reshape({two})).flatten()
        tensor([-1.0000,  1.0000])
"""


class BatchNorm1d(_BatchNorm):
    __doc__ = inherited(
        _BATCH_DOC.format(
            where=" and length",
            shape="``(batch, channels)`` or ``(batch, channels, length)``",
            dims=1,
            two="2, 1",
        ),
        (),
    )
    allowed_dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = inherited(
        _BATCH_DOC.format(
            where=", height and width", shape="``(batch, channels, height, width)``", dims=2, two="2, 1, 1, 1"
        ),
        (),
    )
    allowed_dims = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = inherited(
        _BATCH_DOC.format(
            where=", depth, height and width",
            shape="``(batch, channels, depth, height, width)``",
            dims=3,
            two="2, 1, 1, 1, 1",
        ),
        (),
    )
    allowed_dims = (5,)


@described_by(BatchNorm2d)
class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes; with one process, plain batch normalization.

    Args:
        process_group: the processes. None means all.
    Shape: ``(batch, channels, *)`` to the same.
    Raises: ValueError for fewer than 2 dimensions, or no channels.
    See also: BatchNorm2d

    Example:
        >>> layer = flambeau.nn.SyncBatchNorm.convert_sync_batchnorm(flambeau.nn.BatchNorm2d(3))
        >>> type(layer).__name__
        'SyncBatchNorm'
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm: expected at least 2 dimensions, got {input.dim()}")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm: expected channels, got none")
        self.allowed_dims = (input.dim(),)
        if not self.training:
            return super().forward(input)
        from flambeau import distributed

        if not distributed.is_initialized() or distributed.get_world_size(self.process_group) == 1:
            return super().forward(input)
        return self._forward_of_all(input)

    def _forward_of_all(self, input: Tensor) -> Tensor:
        """Normalise by the statistics of the batches of all processes."""
        from flambeau.distributed._sums import summed

        half = input.dtype in (flambeau.float16, flambeau.bfloat16)
        wide = input.float() if half else input
        channels = [1, -1, *[1] * (input.dim() - 2)]
        dims = [0, *range(2, input.dim())]
        count = input.numel() // input.size(1)
        sums = summed(flambeau.cat([wide.sum(dims), wide.new_full((1,), float(count))]), self.process_group)
        total = sums[-1].detach()
        mean = sums[:-1] / total
        centred = wide - mean.view(channels)
        var = summed((centred * centred).sum(dims), self.process_group) / total
        if self.running_mean is not None:
            self._note_batch(mean.detach(), var.detach() * (total / (total - 1)))
        result = centred * (var + self.eps).rsqrt().view(channels)
        if self.weight is not None:
            result = result * self.weight.view(channels)
        result = result if self.bias is None else result + self.bias.view(channels)
        return result.to(input.dtype) if half else result

    def _note_batch(self, mean: Tensor, var: Tensor) -> None:
        """Move the running statistics towards those of a batch."""
        self.num_batches_tracked.add_(1)
        momentum = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        with flambeau.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
            self.running_var.lerp_(var.to(self.running_var.dtype), momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace the batch normalisations in a network; parameters and statistics stay theirs."""
        out = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls | _InstanceNorm):
            options = (module.num_features, module.eps, module.momentum, module.affine)
            out = cls(*options, module.track_running_stats, process_group)
            out._parameters.update(module._parameters)
            out._buffers.update(module._buffers)
            out.training = module.training
        for name, child in module.named_children():
            setattr(out, name, cls.convert_sync_batchnorm(child, process_group))
        return out


@described_by("layer_norm")
class LayerNorm(Module):
    """Normalization of the trailing dimensions to mean 0 and variance 1, with a learned scale and shift.

    Args:
        normalized_shape: the sizes of the trailing dimensions that form one vector; one number stands for the
            last size.
        eps: added to the biased variance, so that constant vectors give 0.
        elementwise_affine: whether to learn scale and shift, of shape `normalized_shape`.
        bias: whether to learn the shift beside the scale.
    Shape: ``(*, *normalized_shape)`` to the same.
    Raises: RuntimeError if the trailing sizes are not `normalized_shape`.
    See also: RMSNorm, GroupNorm, nn.functional.layer_norm

    Example:
        >>> layer = flambeau.nn.LayerNorm(2, elementwise_affine=False)
        >>> layer(flambeau.tensor([[1.0, 3.0], [4.0, 4.0]]))
        tensor([[-1.0000,  1.0000],
                [ 0.0000,  0.0000]])
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            values = Parameter(flambeau.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Return to scale 1 and shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        learned = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {learned}"


@described_by("group_norm")
class GroupNorm(Module):
    """Normalization of groups of channels of each sample, with a learned scale and shift of each channel.

    Args:
        num_groups: the number of groups, a divisor of `num_channels`.
        num_channels: the number of channels (dimension 1).
        eps: added to the biased variance.
        affine: whether to learn scale and shift, one each per channel.
        bias: whether to learn the shift beside the scale.
    Shape: ``(batch, channels, *)`` to the same.
    Raises: ValueError if `num_groups` does not divide `num_channels`, or for 1 value per group.
    See also: LayerNorm, InstanceNorm2d, nn.functional.group_norm

    Example:
        >>> layer = flambeau.nn.GroupNorm(2, 4, affine=False)
        >>> layer(flambeau.tensor([[1.0, 3.0, 5.0, 9.0]]))
        tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: expected num_channels in multiples of num_groups={num_groups}, got "
                f"{num_channels}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, learned in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(flambeau.empty(num_channels, device=device, dtype=dtype)) if learned else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Return to scale 1 and shift 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        learned = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {learned}"


@described_by("rms_norm")
class RMSNorm(Module):
    """Division of the trailing dimensions by their root mean square, with a learned scale.

    Args:
        normalized_shape: the sizes of the trailing dimensions that form one vector; one number stands for the
            last size.
        eps: added to the mean square, in units of the input squared. None means the epsilon of the dtype.
        elementwise_affine: whether to learn the scale, of shape `normalized_shape`.
    Shape: ``(*, *normalized_shape)`` to the same.
    Raises: RuntimeError if the trailing sizes are not `normalized_shape`.
    See also: LayerNorm, nn.functional.rms_norm

    Example:
        >>> flambeau.nn.RMSNorm(2)(flambeau.tensor([[3.0, 4.0]])).detach()
        tensor([[0.8485, 1.1314]])
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        ones = flambeau.ones(shape, device=device, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", None if ones is None else Parameter(ones))

    def reset_parameters(self) -> None:
        """Return to scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(FunctionalLayer):
    """Division of each element by a power of the mean square over neighbouring channels.

    Args:
        size: the number of neighbouring channels, above 0.
        alpha: the factor of the mean square.
        beta: the exponent.
        k: what is added to the mean square.
    Shape: ``(batch, channels, *)`` to the same.
    Raises: ValueError for fewer than 3 dimensions, RuntimeError if `size` is not positive.
    See also: CrossMapLRN2d, nn.functional.local_response_norm

    Example:
        >>> layer = flambeau.nn.LocalResponseNorm(size=3, alpha=3.0, beta=1.0)
        >>> layer(flambeau.ones(1, 3, 1)).flatten()
        tensor([0.3333, 0.2500, 0.3333])
    """

    function = "local_response_norm"
    options = {"size": REQUIRED, "alpha": 1e-4, "beta": 0.75, "k": 1.0}

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


_INSTANCE_DOC = """Instance normalization of each channel of each sample over {what}.

    With `track_running_stats` running statistics are kept, and used in evaluation.

    Formula: result = (input - mean) / sqrt(var + eps) * weight + bias
    Args:
        num_features: the number of channels.
        eps: added to the biased variance, so that constant channels give 0.
        momentum: the weight of the new batch in the running statistics. None means 0.
        affine: whether to learn scale and shift, one each per channel. Default: False.
        track_running_stats: whether to keep running statistics. Default: False.
        bias: whether to learn the shift beside the scale.
    Shape: ``(batch, channels, {sizes})`` or ``(channels, {sizes})`` to the same.
    Raises: ValueError for another number of dimensions or channels, or 1 value per channel.
    Source: Ulyanov, Vedaldi & Lempitsky 2016, "Instance Normalization".
    See also: nn.functional.instance_norm, GroupNorm

    Example:
        >>> layer = flambeau.nn.InstanceNorm{dims}d(1)
        >>> layer(flambeau.tensor([1.0, 3.0]).reshape({two})).flatten()
        tensor([-1.0000,  1.0000])
"""


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        unbatched, batched = self.allowed_dims
        if input.dim() not in self.allowed_dims:
            raise ValueError(
                f"{type(self).__name__}: expected {unbatched} or {batched} dimensions, got {input.dim()}"
            )
        x = input if input.dim() == batched else input.unsqueeze(0)
        if self.affine and x.shape[1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}: expected {self.num_features} channels, got {x.shape[1]}"
            )
        use_own = self.training or not self.track_running_stats
        y = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            use_own,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return y if input.dim() == batched else y.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = inherited(_INSTANCE_DOC.format(what="length", sizes="length", dims=1, two="1, 1, 2"), ())
    allowed_dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = inherited(
        _INSTANCE_DOC.format(what="height and width", sizes="height, width", dims=2, two="1, 1, 1, 2"), ()
    )
    allowed_dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = inherited(
        _INSTANCE_DOC.format(
            what="depth, height and width", sizes="depth, height, width", dims=3, two="1, 1, 1, 1, 2"
        ),
        (),
    )
    allowed_dims = (4, 5)
