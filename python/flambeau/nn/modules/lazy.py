"""Layers that learn the number of their input's features from their first input.

Each takes the arguments of the layer that it becomes, without the first.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau._lazy import attributes
from flambeau.nn.modules import conv, normalization
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

if TYPE_CHECKING:  # the mixin stands before the layer's class among the bases
    _Base = Module
else:
    _Base = object


class LazyModuleMixin(_Base):
    """What lazy layers share: places for parameters, and the hooks that make them.

    The first input, or a loaded state, gives the number of features; the object then becomes one of class
    `cls_to_become`, with the parameters that it had.
    """

    cls_to_become: Any  # a class of modules
    features_dim: int  # of the input
    defaults: ClassVar[dict[str, Any]] = {}  # where they differ from those of `cls_to_become`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        self._options = self._bound(0, *args, **kwargs)
        options = dict(self._options)
        learned, shifts = options.get("affine", True), options.pop("bias")
        place = {"device": options.pop("device"), "dtype": options.pop("dtype")}
        for name, given in (("weight", learned), ("bias", learned and shifts)):
            self.register_parameter(name, UninitializedParameter(**place) if given else None)
        self._register_buffers(place)
        vars(self).update(options)
        self._hooks = [
            self.register_forward_pre_hook(_initialize_from_input),
            self.register_load_state_dict_pre_hook(_initialize_from_state),
        ]

    def _register_buffers(self, place: dict[str, Any]) -> None:
        """Make places for buffers."""

    def _bound(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        given = inspect.signature(self.cls_to_become).bind(*args, **kwargs)
        chosen = dict(given.arguments)
        given.apply_defaults()
        return {**given.arguments, **self.defaults, **chosen}

    def has_uninitialized_params(self) -> bool:
        """Whether the number of features is still unknown."""
        return any(is_lazy(p) for p in (*self._parameters.values(), *self._buffers.values()))

    def initialize_parameters(self, input: Tensor, *rest: Any) -> None:
        """Take the number of features from an input."""
        self._become(input.shape[self.features_dim])

    def features_of(self, shape: tuple[int, ...]) -> int:
        """Return the number of features from the weight's shape."""
        return shape[0]

    def reset_parameters(self) -> None:
        """Draw new initial values, if there are parameters already."""

    def _become(self, features: int) -> None:
        options = {**self._options, next(iter(self._options)): features}
        for parameter in self._parameters.values():
            if is_lazy(parameter):  # it may have moved since it was made
                options |= {"device": parameter.device, "dtype": parameter.dtype}
        for hook in self._hooks:
            hook.remove()
        made = self.cls_to_become(**options)
        for name, parameter in self._parameters.items():
            if is_lazy(parameter):
                parameter.materialize_as(made._parameters[name])
        self._buffers.update(made._buffers)
        del self._options, self._hooks
        vars(self).update({k: v for k, v in vars(made).items() if k not in vars(self)})
        for name in options:
            if name in vars(made):
                vars(self)[name] = vars(made)[name]
        self.__class__ = self.cls_to_become


def _initialize_from_input(module: Any, given: tuple[Any, ...]) -> None:
    module.initialize_parameters(*given)


def _initialize_from_state(module: Any, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    known = (state_dict.get(prefix + name) for name in ("weight", "running_mean"))
    weight = next((value for value in known if value is not None), None)
    if weight is not None and not is_lazy(weight):
        module._become(module.features_of(tuple(weight.shape)))


class _LazyLinear(LazyModuleMixin):
    features_dim = -1

    def features_of(self, shape: tuple[int, ...]) -> int:
        return shape[1]


class _LazyConv(LazyModuleMixin):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sizes = {"output_padding": 0, **self._options}
        for name in ("kernel_size", "stride", "padding", "dilation", "output_padding"):
            if not isinstance(sizes[name], str):
                setattr(self, name, conv.as_tuple(sizes[name], self.cls_to_become.dims))

    def features_of(self, shape: tuple[int, ...]) -> int:
        return shape[0] if self.cls_to_become.transposed else shape[1] * self._options["groups"]


class _LazyNorm(LazyModuleMixin):
    features_dim = 1

    def _register_buffers(self, place: dict[str, Any]) -> None:
        tracked = self._options["track_running_stats"]
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, UninitializedBuffer(**place) if tracked else None)
        count = flambeau.tensor(0, dtype=flambeau.int64) if tracked else None
        self.register_buffer("num_batches_tracked", count)


def _lazy(base: type[Module], mixin: type[LazyModuleMixin], **facts: Any) -> Any:
    """Make the lazy form of a layer's class."""
    name = f"Lazy{base.__name__}"
    doc = f"`{base.__name__}` whose first argument is taken from the first input."
    made: Any = type(
        name, (mixin, base), {"cls_to_become": base, "__doc__": doc, "__module__": __name__, **facts}
    )
    signature = inspect.signature(base)
    made.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    return made


LazyLinear = _lazy(Linear, _LazyLinear)
LazyConv1d, LazyConv2d, LazyConv3d = (
    _lazy(base, _LazyConv, features_dim=-dims - 1)
    for dims, base in enumerate((conv.Conv1d, conv.Conv2d, conv.Conv3d), 1)
)
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(base, _LazyConv, features_dim=-dims - 1)
    for dims, base in enumerate((conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d), 1)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(base, _LazyNorm)
    for base in (normalization.BatchNorm1d, normalization.BatchNorm2d, normalization.BatchNorm3d)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(base, _LazyNorm, defaults={"affine": True, "track_running_stats": True})
    for base in (normalization.InstanceNorm1d, normalization.InstanceNorm2d, normalization.InstanceNorm3d)
)

__getattr__, __dir__ = attributes(__name__)
