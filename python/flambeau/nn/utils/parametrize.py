"""Parameters that are computed from others whenever they are read."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.containers import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

_cache: dict[tuple[int, str], Tensor | None] = {}
_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once within the block."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and what they are applied to.

    That is ``original``, or ``original0``, ``original1``, ... where `right_inverse` gives several tensors.
    """

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        first = original
        with flambeau.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    # One that has no inverse under its options is applied to the value as it is.
                    with suppress(NotImplementedError):
                        first = module.right_inverse(first)
        self.is_tensor = isinstance(first, Tensor)
        learned = isinstance(original, Parameter)
        parts = (
            [("original", first)] if self.is_tensor else [(f"original{i}", t) for i, t in enumerate(first)]
        )
        self.ntensors = len(parts)
        for name, part in parts:
            if learned:
                keeps = self.is_tensor and part is original
                value: Any = original if keeps else Parameter(part.detach(), original.requires_grad)
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, part)
        if not unsafe:
            self._check(original)

    def _check(self, original: Tensor) -> None:
        with flambeau.no_grad():
            result = self()
        if not isinstance(result, Tensor):
            raise ValueError(f"parametrization: expected a Tensor, got {type(result).__name__}")
        for what in ("dtype", "shape"):
            if getattr(result, what) != getattr(original, what):
                raise ValueError(
                    f"this parametrization may not change the {what} without unsafe=True: expected "
                    f"{getattr(original, what)}, got {getattr(result, what)}"
                )

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes `value`."""
        with flambeau.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            for own, new in zip(self._originals(), [value] if self.is_tensor else value, strict=True):
                own.set_(new.to(own.dtype)) if own.shape != new.shape else own.copy_(new)

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
        "parametrized modules cannot be pickled, since their classes are made at run time: save the "
        "state_dict(), and load it into a module with the same parametrizations"
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
    """Whether a module has a parametrized tensor, or one of that name."""
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by a module from now on, whenever it is read.

    Args:
        module: the owner.
        tensor_name: of the parameter or buffer.
        parametrization: its forward gives the tensor from the original; its ``right_inverse``, if there is
            one, gives the original from a tensor, which assigning to the name needs.
        unsafe: do not check that shape and dtype stay.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        existing = module.parametrizations[tensor_name]
        value = getattr(module, tensor_name).detach()
        existing.append(parametrization)
        if all(hasattr(part, "right_inverse") for part in existing):
            existing.right_inverse(value)
        if not unsafe:
            existing._check(value)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(f"{module} does not have a parameter '{tensor_name}', nor a buffer")
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _become_parametrized(module)
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor an ordinary one again.

    Args:
        module: the owner.
        tensor_name: of the tensor.
        leave_parametrized: keep its present value; False: go back to the original.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{module}: {tensor_name} does not have a parametrization")
    made = module.parametrizations[tensor_name]
    if not leave_parametrized and not made.is_tensor:
        raise ValueError("leave_parametrized=False is only possible where there is one original tensor")
    original = made._originals()[0]
    with flambeau.no_grad():
        value = made() if leave_parametrized else original
    learned = isinstance(original, Parameter)
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if learned:
        same = made.is_tensor and not leave_parametrized
        result = original if same else Parameter(value.detach().clone(), original.requires_grad)
        module.register_parameter(tensor_name, result)
    else:
        module.register_buffer(tensor_name, value)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module)._unparametrized  # type: ignore[attr-defined]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return a module's class without its parametrizations."""
    return type(module)._unparametrized if is_parametrized(module) else type(module)  # type: ignore[attr-defined]
