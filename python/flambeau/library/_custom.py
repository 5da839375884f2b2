"""`custom_op`: an operator from a function with annotations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau import _C
from flambeau.library._operators import CustomOperator, UnaliasedKernel, define, device_kinds, remove
from flambeau.library._schemas import FunctionSchema, check_namespace, infer_schema, read
from flambeau.library._tags import tags_from
from flambeau.ops import CUSTOM

Function = Callable[..., Any]
DeviceTypes = str | Sequence[str] | None


class CustomOpDef(_C._OperatorHandle):
    """Operator that `custom_op` made; a call runs it.

    Args:
        namespace: the namespace of the operator.
        name: the name of the operator.
        schema: the schema, with the name.
        function: the kernel.

    Example:
        >>> @flambeau.library.custom_op("docs::halve", mutates_args=())
        ... def halve(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x / 2
        >>> halve(flambeau.ones(2))
        tensor([0.5000, 0.5000])
    """

    def __init__(self, namespace: str, name: str, schema: str, function: Function) -> None:
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, schema, function
        self.__name__, self.__doc__ = name, function.__doc__
        key = (namespace, name)
        if CUSTOM.get(key, {}).get("") is not None:  # a module that is run again defines its operators again
            remove(CUSTOM[key][""])
        self._operator: CustomOperator = define(namespace, read(schema, namespace))
        self._operator.is_opaque = True
        self._call_target(self._operator)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> Any:
        return getattr(getattr(flambeau.ops, self._namespace), self._name).default

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: DeviceTypes, fn: Function | None = None, /) -> Any:
        """Register a kernel for device types; None: all of them.

        Raises: ValueError for device types if neither a tensor nor ``device`` is an argument.
        """
        _check_device(self._operator.schema, device_types)

        def register(function: Function) -> Function:
            checked = UnaliasedKernel(function)
            for device in device_kinds(device_types):
                self._operator.by_device[device] = checked
            self._operator.changed()
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Function, /) -> Function:
        """Register what computes shapes and dtypes for meta tensors."""
        self._operator.fake = fn
        self._operator.changed()
        return fn

    def register_autograd(self, backward: Function, /, *, setup_context: Function | None = None) -> None:
        """Register the derivative; as `library.register_autograd`."""
        flambeau.library.register_autograd(self._operator, backward, setup_context=setup_context)

    def register_vmap(self, func: Function | None = None) -> Any:
        """Register how it is batched; as `library.register_vmap`."""
        return flambeau.library.register_vmap(self._operator, func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Cast floating tensors under autocast; as `library.register_autocast`."""
        flambeau.library.register_autocast(self._operator, device_type, cast_inputs)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Function | None = None, /) -> Any:
        """Register what answers in place of ``__torch_dispatch__``; as `library.register_torch_dispatch`."""
        return flambeau.library.register_torch_dispatch(self, torch_dispatch_class, fn)

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Disable or enable the kernel of a device type in a region; the one for all devices runs instead.

        Args:
            device_type: the device type, as it was given to `register_kernel`.
            enabled: whether calls use the kernel. A kernel that is registered in the region obeys too.
        """
        disabled = self._operator.disabled
        if device_type not in self._operator.by_device:
            warnings.warn(
                f"set_kernel_enabled: expected a kernel of {self._qualname} for {device_type!r}, found none",
                stacklevel=3,
            )
        before = device_type in disabled
        self._set_disabled(device_type, not enabled)
        try:
            yield
        finally:
            self._set_disabled(device_type, before)

    def _set_disabled(self, device_type: str, is_disabled: bool) -> None:
        disabled = self._operator.disabled
        disabled.add(device_type) if is_disabled else disabled.discard(device_type)
        self._operator.changed()


def _check_device(schema: FunctionSchema, device_types: DeviceTypes) -> None:
    types = {p.name: p.type for p in schema.parameters}
    has_device = types.get("device") == "Device" or any(t.startswith("Tensor") for t in types.values())
    if device_types is not None and not has_device:
        raise ValueError(
            "register_kernel: functions without tensor inputs are required to have a `device: torch.device` "
            f"argument: expected one, got {schema}"
        )


def _writes_only(*args: Any, **kwargs: Any) -> None:
    """Stand for an operator without results on fake tensors, which have no numbers to write."""


def custom_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Decorate a function to make it an operator.

    Args:
        name: the name, ``namespace::name``.
        fn: the function. None makes a decorator.
        mutates_args: the names of the tensors that the function writes to, or "unknown".
        device_types: the device types of the function. None means all.
        schema: the schema, ``(Tensor x, ...) -> Tensor``. None derives it from the annotations, as
            `infer_schema` does.
        tags: a `Tag` or several, which ``tags`` of the overload shows.
    Returns: the operator, a `CustomOpDef`.
    Raises: ValueError for another form of name, a reserved namespace, annotations that do not determine a
        schema, a schema that does not say what `mutates_args` says, or device types without an argument that
        has a device.

    Example:
        >>> @flambeau.library.custom_op("docs::area", mutates_args=())
        ... def area(width: flambeau.Tensor, height: float) -> flambeau.Tensor:
        ...     return width * height
        >>> area(flambeau.ones(2), 3.0)
        tensor([3., 3.])
    """
    space, mark, base = name.partition("::")
    if not mark or not space.isidentifier() or not base.isidentifier():
        raise ValueError(f"custom_op: expected a name 'namespace::name', got {name!r}")
    check_namespace("custom_op", space)

    def make(function: Function) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        declared = read(base + text, space)
        if schema is not None and declared.mutates != set(mutates_args):
            raise ValueError(
                "custom_op: expected mutates_args as in the schema, which mutates "
                f"{sorted(declared.mutates)}, got {mutates_args!r} for {schema}"
            )
        _check_device(declared, device_types)
        made = CustomOpDef(space, base, base + text, function)
        made.register_kernel(device_types, function)
        if declared.mutates and not declared.results:
            made._operator.fake = _writes_only
        made._operator.tags = [flambeau.Tag.pt2_compliant_tag, *tags_from(tags or ())]
        return made

    return make if fn is None else make(fn)
