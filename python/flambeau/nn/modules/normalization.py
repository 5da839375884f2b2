"""Normalisation layers."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
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
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

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


_BATCH_DOC = """Normalise each channel over the batch{where}, then scale and shift it.

    In training the batch's mean and (biased) variance are used and the running statistics move by
    `momentum` towards them (unbiased variance); in evaluation the running statistics are used.

    Args:
        num_features: number of channels (dimension 1).
        eps: added to the variance.
        momentum: weight of the new batch in the running statistics; None: a plain average.
        affine: whether to learn scale and shift per channel.
        track_running_stats: whether to keep running statistics.
        bias: whether to learn a shift beside the scale.
    Shape: {shape} to the same.
    Source: Ioffe and Szegedy 2015, "Batch normalization".
"""


class BatchNorm1d(_BatchNorm):
    __doc__ = _BATCH_DOC.format(
        where=" (and length)", shape="``(batch, channels)`` or ``(batch, channels, length)``"
    )
    allowed_dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BATCH_DOC.format(where=", height and width", shape="``(batch, channels, height, width)``")
    allowed_dims = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BATCH_DOC.format(
        where=", depth, height and width", shape="``(batch, channels, depth, height, width)``"
    )
    allowed_dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; of one process, plain batch normalisation.

    Args: as for `BatchNorm2d`, and
        process_group: the processes.
    Shape: ``(batch, channels, *)`` to the same.
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
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm: expected channels, got none")
        self.allowed_dims = (input.dim(),)
        return super().forward(input)

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


class LayerNorm(Module):
    r"""Normalise the trailing dimensions to zero mean and unit variance, then scale and shift.

    .. math:: y = (x - \mathrm{mean}(x)) / \sqrt{\mathrm{var}(x) + \epsilon} \odot w + b

    Args:
        normalized_shape: sizes of the trailing dimensions that form one feature vector.
        eps: added to the (biased) variance.
        elementwise_affine: whether to learn `w` (and `b`), of shape ``normalized_shape``.
        bias: whether to learn `b`.
    Shape: ``(*, *normalized_shape)`` to the same.
    Source: Ba, Kiros and Hinton 2016, "Layer normalization".
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


class GroupNorm(Module):
    """Normalise groups of channels of each sample, then scale and shift each channel.

    Args:
        num_groups: number of groups, a divisor of `num_channels`.
        num_channels: number of channels (dimension 1).
        eps: added to the (biased) variance.
        affine: whether to learn scale and shift per channel.
        bias: whether to learn a shift beside the scale.
    Shape: ``(batch, channels, *)`` to the same.
    Source: Wu and He 2018, "Group normalization".
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
            raise ValueError("expected num_channels in multiples of num_groups")
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


class RMSNorm(Module):
    r"""Divide the trailing dimensions by their root mean square, then scale them.

    .. math:: y = x / \sqrt{\mathrm{mean}(x^2) + \epsilon} \odot w

    Args:
        normalized_shape: sizes of the trailing dimensions that form one feature vector.
        eps: added to the mean square; by default the dtype's machine epsilon.
        elementwise_affine: whether to learn `w`.
    Shape: ``(*, *normalized_shape)`` to the same.
    Source: Zhang and Sennrich 2019, "Root mean square layer normalization".
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
    """Divide each channel by (k + alpha mean of squares over `size` neighbouring channels)^beta.

    Source: Krizhevsky et al. 2012, "ImageNet classification".
    """

    function = "local_response_norm"
    options = {"size": REQUIRED, "alpha": 1e-4, "beta": 0.75, "k": 1.0}

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


_INSTANCE_DOC = """Normalise each channel of each sample over its {N} spatial dimensions.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: weight of the new batch in the running statistics.
        affine: whether to learn scale and shift per channel.
        track_running_stats: whether evaluation uses statistics kept in training.
    Shape: ``(batch, channels, *spatial)`` to the same, batch may be missing.
    Source: Ulyanov et al. 2016, "Instance normalization".
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
            raise ValueError(f"expected {unbatched} or {batched} dimensions, got {input.dim()}")
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
    __doc__ = _INSTANCE_DOC.format(N=1)
    allowed_dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _INSTANCE_DOC.format(N=2)
    allowed_dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _INSTANCE_DOC.format(N=3)
    allowed_dims = (4, 5)
