"""Parameters that are computed from others whenever they are read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.__future__ import get_swap_module_params_on_conversion as swapped_on_conversion
from flambeau.nn.modules.containers import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

_cache: dict[tuple[int, str], Tensor | None] = {}
_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor only once within a block.

    Returns: a context manager. Blocks may be nested; values are forgotten at the end of the outermost one.

    Example:
        >>> layer = flambeau.nn.utils.parametrizations.weight_norm(flambeau.nn.Linear(2, 3))
        >>> with flambeau.nn.utils.parametrize.cached():
        ...     print(layer.weight is layer.weight)
        True
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache.clear()


def _set(target: Tensor, value: Tensor) -> None:
    """Give a tensor object another value; it stays the object that optimizers know."""
    if swapped_on_conversion() and value is not target:
        parameter = isinstance(target, Parameter)
        flambeau.utils.swap_tensors(target, Parameter(value, target.requires_grad) if parameter else value)
    else:
        target.set_(value)


def _check_like(value: Any, what: str, original: Tensor) -> None:
    """Refuse a value that is not a tensor of the original's dtype and shape."""
    _check_dtype(value, what, original)
    if value.shape != original.shape:
        raise ValueError(
            f"register_parametrization: {what} may not change the shape without unsafe=True: expected "
            f"{tuple(original.shape)}, got {tuple(value.shape)}"
        )


def _check_dtype(value: Any, what: str, original: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(
            f"register_parametrization: expected a Tensor from {what}, got {type(value).__name__}"
        )
    if value.dtype != original.dtype:
        raise ValueError(
            f"register_parametrization: {what} may not change the dtype: expected {original.dtype}, "
            f"got {value.dtype}"
        )


class ParametrizationList(ModuleList):
    """List of the parametrizations of one tensor, with the tensor that they are applied to.

    That is ``original``, or ``original0``, ``original1`` and so on where `right_inverse` gives several
    tensors. A single original is the object that the module had, with the values of `right_inverse`.

    Args:
        modules: the parametrizations, in order of application; one or more.
        original: the parameter or buffer that they replace.
        unsafe: whether they may change shape and dtype.
    Raises: ValueError without parametrizations, or for results of another shape or dtype without `unsafe`.
    See also: register_parametrization

    Example:
        >>> layer = flambeau.nn.utils.parametrizations.weight_norm(flambeau.nn.Linear(2, 3))
        >>> type(layer.parametrizations.weight).__name__
        'ParametrizationList'
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList: expected one parametrization or more, got none")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with flambeau.no_grad():
            found = self._inverted(original)
        self.is_tensor = isinstance(found, Tensor)
        self.ntensors = 1 if self.is_tensor else len(found)
        if isinstance(found, Tensor):
            _check_dtype(found, "right_inverse", original)
            with flambeau.no_grad():
                _set(original, found)
            self._hold("original", original)
        else:
            self._hold_several(found, original)
        if not unsafe:
            with flambeau.no_grad():
                _check_like(self(), "this parametrization", flambeau.empty(shape, dtype=dtype, device="meta"))

    def _inverted(self, value: Any) -> Any:
        """Apply the inverses that there are; one that is not implemented leaves the value as it is."""
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                with suppress(NotImplementedError):
                    value = module.right_inverse(value)
        if not isinstance(value, Tensor | Sequence):
            raise ValueError(f"right_inverse: expected a Tensor or several, got {type(value).__name__}")
        return value

    def _hold(self, name: str, value: Tensor) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value)

    def _hold_several(self, parts: Sequence[Tensor], original: Tensor) -> None:
        for i, part in enumerate(parts):
            if not isinstance(part, Tensor):
                raise ValueError(f"right_inverse: expected Tensors, got {type(part).__name__} at place {i}")
            learned = isinstance(original, Parameter)
            value = Parameter(part.detach(), original.requires_grad) if learned else part
            self._hold(f"original{i}", value.requires_grad_(original.requires_grad))

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, name) for name in _numbered(self)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes `value`."""
        with flambeau.no_grad():
            found: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"ParametrizationList.right_inverse: parametrization {type(module).__name__} does "
                        "not implement right_inverse; define it to assign"
                    )
                found = module.right_inverse(found)
            parts = [found] if self.is_tensor else found
            if not isinstance(parts, Sequence) or len(parts) != self.ntensors:
                raise ValueError(f"right_inverse: expected {self.ntensors} tensors, got {parts}")
            for own, new in zip(self._originals(), parts, strict=True):
                _check_dtype(new, "right_inverse", own)
                _set(own, new)

    def forward(self) -> Tensor:
        """Compute the tensor."""
        modules = list(self)
        value = modules[0](*self._originals())
        for module in modules[1:]:
            value = module(value)
        return value


def _property(name: str) -> property:
    def get(self: Any) -> Tensor:
        if not _depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]  # type: ignore[return-value]

    def set_(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_)


def _refuse_pickles(module: Module) -> Any:
    raise RuntimeError(
        "register_parametrization: parametrized modules cannot be pickled, since their classes "
        "are made at run time; save the state_dict() and load it into a module with the same "
        "parametrizations"
    )


def _copied(module: Module, memo: dict[int, Any]) -> Module:
    """Copy a parametrized module: its class, which is its own, is made anew."""
    out = module.__new__(type(module))
    memo[id(module)] = out
    vars(out).update(copy.deepcopy(vars(module), memo))
    base = type(module)
    out.__class__ = type(base.__name__, base.__bases__, dict(vars(base)))
    return out


def _become_parametrized(module: Module) -> None:
    base = type(module)
    facts = {"__module__": base.__module__, "_unparametrized": base, "__getstate__": _refuse_pickles}
    facts["__deepcopy__"] = _copied
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), facts)
    module.parametrizations = ModuleDict()


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Tell whether a module has parametrized tensors.

    Args:
        module: the module.
        tensor_name: the tensor that is meant. None means any.
    Returns: a bool.

    Example:
        >>> flambeau.nn.utils.parametrize.is_parametrized(flambeau.nn.Linear(2, 3))
        False
    """
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def _check_addition(parametrization: Module, present: Tensor) -> None:
    """Refuse a further parametrization, or an inverse, that changes dtype or shape."""
    value = parametrization(present)
    _check_like(value, "this parametrization", present)
    if hasattr(parametrization, "right_inverse"):
        with suppress(NotImplementedError):
            _check_like(parametrization.right_inverse(value), "right_inverse of a further one", present)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by a module from now on, whenever it is read.

    The first parametrization of a tensor sets the original by its `right_inverse`. A further one is applied
    to the value at that time.

    Args:
        module: the owner of the tensor, which is changed.
        tensor_name: the name of the parameter or buffer.
        parametrization: a module whose `forward` gives the tensor from the original. Its `right_inverse`, if
            it has one, gives the original from a tensor, and permits assignment to the name.
        unsafe: whether shape and dtype may change; they are not checked then.
    Returns: `module`.
    Raises: ValueError for a name that is not a parameter or buffer, and for results that do not fit.
    See also: remove_parametrizations, nn.utils.parametrizations.orthogonal

    Example:
        >>> class Symmetric(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).mT
        >>> layer = flambeau.nn.Linear(2, 2)
        >>> _ = flambeau.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> bool((layer.weight == layer.weight.T).all())
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        existing: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_addition(parametrization, getattr(module, tensor_name))
        existing.append(parametrization)
        existing.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"register_parametrization: expected a parameter or buffer '{tensor_name}', got {module}, "
            f"which does not have a parameter '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _become_parametrized(module)
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary parameter or buffer again.

    Args:
        module: the owner of the tensor, which is changed.
        tensor_name: the name of the tensor.
        leave_parametrized: whether it keeps its present value; False returns to the original.
    Returns: `module`.
    Raises: ValueError if the tensor is not parametrized, or has several originals without
        `leave_parametrized`.

    Example:
        >>> layer = flambeau.nn.utils.parametrizations.weight_norm(flambeau.nn.Linear(2, 3))
        >>> flambeau.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        Linear(in_features=2, out_features=3, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: expected a parametrized tensor, got {tensor_name} of {module}, "
            "which does not have a parametrization"
        )
    made: Any = module.parametrizations[tensor_name]
    if not made.is_tensor:
        if not leave_parametrized:
            raise ValueError(
                "remove_parametrizations: expected a single original tensor for "
                "leave_parametrized=False, got several"
            )
        value = getattr(module, tensor_name)
        result: Tensor = Parameter(value) if value.requires_grad else value
    else:
        result = made.original
        if leave_parametrized:
            with flambeau.no_grad():
                _set(result, getattr(module, tensor_name))
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(result, Parameter):
        module.register_parameter(tensor_name, result)
    else:
        module.register_buffer(tensor_name, result)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module)._unparametrized  # type: ignore[attr-defined]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Look up the class that a module had before it was parametrized.

    Args:
        module: the module.
    Returns: the class; that of `module` if nothing is parametrized.

    Example:
        >>> layer = flambeau.nn.utils.parametrizations.weight_norm(flambeau.nn.Linear(2, 3))
        >>> flambeau.nn.utils.parametrize.type_before_parametrizations(layer).__name__
        'Linear'
    """
    return type(module)._unparametrized if is_parametrized(module) else type(module)  # type: ignore[attr-defined]


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another one, and their originals.

    Args:
        from_module: the module that has them.
        to_module: the module to change; it gets parameters that it lacks.
        tensor_name: the tensor that is meant. None means all that are parametrized.
    Returns: `to_module`.

    Example:
        >>> a = flambeau.nn.utils.parametrizations.weight_norm(flambeau.nn.Linear(2, 3))
        >>> b = flambeau.nn.Linear(2, 3)
        >>> _ = flambeau.nn.utils.parametrize.transfer_parametrizations_and_params(a, b)
        >>> bool((a.weight == b.weight).all())
        True
    """
    if not is_parametrized(from_module):
        return to_module
    sources: Any = from_module.parametrizations
    for name in list(sources) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in sources[name]:
            register_parametrization(to_module, name, parametrization)
        made: Any = to_module.parametrizations
        originals = ["original"] if sources[name].is_tensor else _numbered(sources[name])
        for original in originals:
            setattr(made[name], original, getattr(sources[name], original))
    return to_module


def _numbered(made: Any) -> list[str]:
    return [f"original{i}" for i in range(made.ntensors)]
