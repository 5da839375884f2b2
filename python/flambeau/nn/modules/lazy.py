"""Layers that learn the number of their input's features from their first input.

Each takes the arguments of the layer that it becomes, without the first.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import inherited
from flambeau._loading.lazy import attributes
from flambeau.nn.modules import conv, normalization
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

if TYPE_CHECKING:  # the mixin stands before the layer's class among the bases
    _Base = Module
else:
    _Base = object


class LazyModuleMixin(_Base):
    """A module that learns the shapes of its parameters from its first call, or from a state that it loads.

    A subclass makes `UninitializedParameter` and `UninitializedBuffer` in its constructor and materialises
    them in `initialize_parameters`, which gets the arguments of the first call. The object then becomes one
    of class `cls_to_become`, if that is given, with the parameters that it had.
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._watch()

    def _watch(self) -> None:
        """Register the hooks that run at the first call and when a state is loaded."""
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialise the parameters for the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether there are parameters or buffers without a shape."""
        return any(is_lazy(p) for p in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"{type(module).__name__}: the module is not fully initialized, since "
                "initialize_parameters() left a parameter or buffer without a shape; give each one a "
                "shape there"
            )
        for name in ("_initialize_hook", "_load_hook"):
            vars(module).pop(name).remove()
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, place in (*self._parameters.items(), *self._buffers.items()):
            value = state_dict.get(prefix + name)
            if is_lazy(place) and value is not None and not is_lazy(value):
                with flambeau.no_grad():
                    place.materialize(value.shape)


class _LazyLayer(LazyModuleMixin):
    """A layer of this package: all its arguments but the first, which is the number of features."""

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
        self._watch()

    def _register_buffers(self, place: dict[str, Any]) -> None:
        """Make places for buffers."""

    def _bound(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        given = inspect.signature(self.cls_to_become).bind(*args, **kwargs)
        chosen = dict(given.arguments)
        given.apply_defaults()
        return {**given.arguments, **self.defaults, **chosen}

    def initialize_parameters(self, input: Tensor, *rest: Any) -> None:
        """Take the number of features from an input."""
        options = {**self._options, next(iter(self._options)): self._features_of(input)}
        if not self.has_uninitialized_params():  # a state has been loaded: the values are there
            options["device"] = "meta"
        for parameter in self._parameters.values():
            if is_lazy(parameter):  # it may have moved since it was made
                options |= {"device": parameter.device, "dtype": parameter.dtype}
        made = self.cls_to_become(**options)
        for name, parameter in self._parameters.items():
            if is_lazy(parameter):
                parameter.materialize_as(made._parameters[name])
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                self._buffers[name] = made._buffers[name]
        del self._options
        vars(self).update({k: v for k, v in vars(made).items() if k not in vars(self)})
        for name in options:
            if name in vars(made):
                vars(self)[name] = vars(made)[name]

    def _features_of(self, input: Tensor) -> int:
        return input.shape[self.features_dim]

    def reset_parameters(self) -> None:
        """Draw new initial values, if there are parameters already."""


class _LazyLinear(_LazyLayer):
    features_dim = -1


class _LazyConv(_LazyLayer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sizes = {"output_padding": 0, **self._options}
        for name in ("kernel_size", "stride", "padding", "dilation", "output_padding"):
            if not isinstance(sizes[name], str):
                setattr(self, name, conv.as_tuple(sizes[name], self.cls_to_become.dims))

    def _features_of(self, input: Tensor) -> int:
        dims = -self.features_dim
        if input.dim() not in (dims, dims + 1):
            raise RuntimeError(
                f"{type(self).__name__}: expected {dims}-D or {dims + 1}-D input, got {tuple(input.shape)}"
            )
        return input.shape[self.features_dim]


class _LazyNorm(_LazyLayer):
    features_dim = 1

    def _register_buffers(self, place: dict[str, Any]) -> None:
        tracked = self._options["track_running_stats"]
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, UninitializedBuffer(**place) if tracked else None)
        count = flambeau.tensor(0, dtype=flambeau.int64) if tracked else None
        self.register_buffer("num_batches_tracked", count)


_DOC = """Lazy form of `{base}` that takes `{first}` from the first input.

    Its parameters have no shape until the first call, which makes it a `{base}`. Call it once before you
    make an optimizer of its parameters.

    Raises: RuntimeError if the shape of a parameter is read before the first call.
    See also: {base}, UninitializedParameter

    Example:
        >>> layer = flambeau.nn.{name}{example}
        >>> type(layer).__name__
        '{base}'
"""
_EXAMPLES = {
    "Linear": "(4)\n        >>> layer(flambeau.zeros(1, 3)).shape\n        flambeau.Size([1, 4])",
    **{
        f"{kind}{dims}d": f"{given}\n        >>> _ = layer(flambeau.zeros(2, 3{', 4' * dims}))"
        for kind, given in (
            ("Conv", "(4, 3)"),
            ("ConvTranspose", "(4, 3)"),
            ("BatchNorm", "()"),
            ("InstanceNorm", "()"),
        )
        for dims in (1, 2, 3)
    },
}


def _lazy(base: type[Module], mixin: type[_LazyLayer], **facts: Any) -> Any:
    """Make the lazy form of a layer's class."""
    name = f"Lazy{base.__name__}"
    first = next(iter(inspect.signature(base).parameters))
    doc = _DOC.format(base=base.__name__, first=first, name=name, example=_EXAMPLES[base.__name__])
    made: Any = type(
        name,
        (mixin, base),
        {"cls_to_become": base, "__doc__": inherited(doc, (base,)), "__module__": __name__, **facts},
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
