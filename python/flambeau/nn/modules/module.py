"""Module: the base of all layers and networks, a tree of parameters, buffers and submodules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.nn.modules._conversion import convert_tensors
from flambeau.nn.modules._native_slots import NativeSlots
from flambeau.nn.modules._target import target_of
from flambeau.nn.modules.hooks import (
    RemovableHandle,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from flambeau.nn.modules.state import StatefulModule
from flambeau.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "RemovableHandle",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Self = TypeVar("Self", bound="Module")
_HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _no_forward(self: Module, *input: Any) -> None:
    """Compute the result of a call; every subclass defines it.

    Args:
        *input: the arguments of the call.
    Returns: the result.
    Raises: NotImplementedError if the class does not define it.
    """
    raise NotImplementedError(
        f'{type(self).__name__}: the required "forward" method is missing from the class'
    )


T_destination = TypeVar("T_destination", bound=dict[str, Any])


class Module(StatefulModule):
    """Base class of layers and networks: a tree of parameters, buffers and submodules.

    A subclass calls ``super().__init__()``, assigns attributes and defines ``forward``, which a call of the
    module runs together with its hooks. Attributes that are `Parameter`, `Buffer` or `Module` form the state
    that ``parameters()``, ``state_dict()``, ``to()`` and ``train()`` act upon.

    The constructor takes no arguments; with the class attribute `call_super_init` it passes them to the next
    base class.

    Raises: TypeError for arguments that no base class takes; NotImplementedError when a module without
        ``forward`` is called.
    See also: Sequential, Parameter

    Example:
        >>> class Scale(flambeau.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = flambeau.nn.Parameter(flambeau.tensor(2.0))
        ...     def forward(self, x):
        ...         return self.factor * x
        >>> layer = Scale()
        >>> layer(flambeau.tensor([1.0, 2.0])).detach()
        tensor([2., 4.])
        >>> list(layer.state_dict())
        ['factor']
    """

    training: bool
    forward: Callable[..., Any] = _no_forward
    dump_patches = False
    T_destination = TypeVar("T_destination", bound=dict[str, Any])
    call_super_init = False  # whether the classes after Module in the order of bases are initialised, too

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        native_slots.use(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            raise TypeError(
                f"{type(self).__name__}: __init__() got arguments that no base class takes: expected "
                f"none, got {args or kwargs}"
            )
        set_plainly = super().__setattr__
        set_plainly("training", True)
        set_plainly("_parameters", {})
        set_plainly("_buffers", {})
        set_plainly("_non_persistent_buffers_set", set())
        set_plainly("_modules", {})
        for table in _HOOK_TABLES:
            set_plainly(table, OrderedDict())
        set_plainly("_is_full_backward_hook", None)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for table in _HOOK_TABLES:  # of pickles that were made before there was such a table
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # --- attributes ---------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):  # C does the same, see native_slots
            entries = self.__dict__.get(table)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        parameters = self.__dict__.get("_parameters")
        if isinstance(value, Parameter):
            self._forget(name, keep="_parameters")  # a name that is there keeps its place
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, keep="_modules")
            self._table("_modules")[name] = registered("module", self, name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"Module: cannot assign parameter {name!r}: "
                    f"expected flambeau.nn.Parameter or None, got {type(value).__name__}"
                )
            parameters[name] = None
        elif name in self.__dict__.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"Module: cannot assign child module {name!r}: "
                    f"expected a Module or None, got {type(value).__name__}"
                )
            self._modules[name] = None
        elif name in self.__dict__.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"Module: cannot assign buffer {name!r}: "
                    f"expected a Tensor or None, got {type(value).__name__}"
                )
            self._buffers[name] = value
        elif isinstance(value, Buffer):
            self._forget(name)
            buffer: Any = value  # a tensor, whatever the class says
            self.register_buffer(name, buffer, buffer.persistent)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        own = [*self._parameters, *self._buffers, *self._modules]
        return sorted({*super().__dir__(), *own})

    def _table(self, name: str) -> dict[str, Any]:
        if name not in self.__dict__:
            raise AttributeError(
                f"call {type(self).__name__}'s Module.__init__() before assigning parameters or modules"
            )
        return self.__dict__[name]

    def _forget(self, name: str, keep: str = "") -> None:
        self.__dict__.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != keep:
                self._table(table).pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name.

        Args:
            name: the name, without dots, which no other attribute has.
            param: the parameter, which is a leaf. None keeps the name without a parameter.
        Returns: None.
        Raises: TypeError if `param` is not a parameter, ValueError for a tensor with a history, KeyError for
            a name that is taken, empty or contains a dot.
        """
        self._check_name(name, "parameter", self._table("_parameters"))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"register_parameter: cannot assign parameter {name!r}: "
                f"expected flambeau.nn.Parameter or None, got {type(param).__name__}"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"register_parameter: expected parameter {name!r} to be a leaf tensor, got a computed "
                "one; wrap it in Parameter(tensor.detach())"
            )
        self._parameters[name] = registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the state but is not learned.

        Args:
            name: the name, without dots, which no other attribute has.
            tensor: the tensor. None keeps the name without a tensor.
            persistent: whether `state_dict` contains it.
        Returns: None.
        Raises: TypeError if `tensor` is not a tensor, KeyError for a name that is taken, empty or contains a
            dot.

        Example:
            >>> layer = flambeau.nn.Module()
            >>> layer.register_buffer("mean", flambeau.zeros(2))
            >>> list(layer.state_dict())
            ['mean']
        """
        self._check_name(name, "buffer", self._table("_buffers"))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"register_buffer: cannot assign buffer {name!r}: "
                f"expected a Tensor or None, got {type(tensor).__name__}"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name.

        Args:
            name: the name, without dots, which no other attribute has.
            module: the submodule. None keeps the name without a module.
        Returns: None.
        Raises: TypeError if `module` is not a module, KeyError for a name that is taken, empty or contains a
            dot.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"add_module: expected a Module or None, got {type(module).__name__}, which is not a "
                "Module subclass"
            )
        self._check_name(name, "module", self._table("_modules"))
        self._modules[name] = registered("module", self, name, module)

    register_module = add_module

    def _check_name(self, name: str, kind: str, own: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Module: expected a str as {kind} name, got {type(name).__name__}")
        if "." in name:
            raise KeyError(f"{kind} name can't contain '.', got {name!r}")
        if name == "":
            raise KeyError(f"{kind} name can't be empty string ''")
        if hasattr(self, name) and name not in own:
            raise KeyError(f"attribute {name!r} already exists")

    # --- acting on the whole tree ---------------------------------------------------------------

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Use for calls what `flambeau.compile` makes of this module.

        The class, the names of parameters and the hooks stay; hooks are in the graphs. Copies and pickles of
        the module are not compiled.

        Args:
            *args: the arguments of `flambeau.compile`.
            **kwargs: the same by keyword.
        Returns: None.
        Raises: as `flambeau.compile`.

        Example:
            >>> layer = flambeau.nn.Linear(2, 1)
            >>> layer.compile(backend="eager")
            >>> layer(flambeau.ones(2)).shape
            flambeau.Size([1])
        """
        self._compiled_call_impl = flambeau.compile(self._call_impl, *args, **kwargs)

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Call a function on every module of the tree, children first.

        Args:
            fn: a function of one module.
        Returns: the module itself.

        Example:
            >>> def fill(module):
            ...     if isinstance(module, flambeau.nn.Linear):
            ...         flambeau.nn.init.ones_(module.weight)
            >>> flambeau.nn.Sequential(flambeau.nn.Linear(2, 1)).apply(fill)[0].weight.detach()
            tensor([[1., 1.]])
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        for child in self.children() if recurse else ():
            child._apply(fn)
        convert_tensors(self, fn)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, and cast floating ones to a dtype, in place.

        Calls have the forms ``to(device, dtype, non_blocking)``, ``to(dtype, non_blocking)``, ``to(tensor)``,
        which takes device and dtype from a tensor, and ``to(memory_format=...)`` for tensors of 4 and 5
        dimensions.

        Args:
            *args: a device, a dtype, both, or a tensor.
            **kwargs: the same as `device`, `dtype`, `tensor`, and `non_blocking` and `memory_format`.
        Returns: the module itself.
        Raises: TypeError for other arguments, or a dtype that is neither floating nor complex.

        Example:
            >>> flambeau.nn.Linear(2, 3).to(flambeau.float64).weight.dtype
            flambeau.float64
        """
        device, dtype, non_blocking, memory_format = target_of(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: expected a floating or complex dtype, got {dtype}")

        def convert(tensor: Tensor) -> Tensor:
            castable = tensor.is_floating_point() or tensor.is_complex()
            place: dict[str, Any] = {
                "device": device or tensor.device,
                "dtype": dtype if castable and dtype else tensor.dtype,
            }
            laid_out = memory_format is not None and tensor.dim() in (4, 5)
            if laid_out:
                place["memory_format"] = memory_format
            return tensor.to(**place, non_blocking=non_blocking)

        return self._apply(convert)

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move the tree to a device without the values, which are uninitialized there.

        Args:
            device: the device.
            recurse: whether to include submodules.
        Returns: the module itself.
        """
        return self._apply(lambda t: flambeau.empty_like(t, device=device), recurse)

    def type(self: Self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to a dtype.

        Args:
            dst_type: the dtype.
        Returns: the module itself.
        """
        return self._apply(lambda t: t.type(dst_type))

    def cuda(self: Self, device: Any = None) -> Self:
        """Move parameters and buffers to a CUDA device.

        Args:
            device: the device or its number. None means the current one.
        Returns: the module itself.
        """
        return self._apply(lambda t: t.cuda(device))

    def _to_kind(self: Self, kind: str, device: Any) -> Self:
        place = f"{kind}:{device}" if isinstance(device, int) else device or kind
        return self._apply(lambda t: t.to(place))

    def ipu(self: Self, device: Any = None) -> Self:
        """Move parameters and buffers to an IPU.

        Args:
            device: the device or its number. None means the first one.
        Returns: the module itself.
        """
        return self._to_kind("ipu", device)

    def xpu(self: Self, device: Any = None) -> Self:
        """Move parameters and buffers to an Intel GPU.

        Args:
            device: the device or its number. None means the first one.
        Returns: the module itself.
        """
        return self._to_kind("xpu", device)

    def mtia(self: Self, device: Any = None) -> Self:
        """Move parameters and buffers to an MTIA device.

        Args:
            device: the device or its number. None means the first one.
        Returns: the module itself.
        """
        return self._to_kind("mtia", device)

    def _cast_floating(self: Self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: Self) -> Self:
        """Cast floating parameters and buffers to float32.

        Returns: the module itself.
        """
        return self._cast_floating(flambeau.float32)

    def double(self: Self) -> Self:
        """Cast floating parameters and buffers to float64.

        Returns: the module itself.
        """
        return self._cast_floating(flambeau.float64)

    def half(self: Self) -> Self:
        """Cast floating parameters and buffers to float16.

        Returns: the module itself.
        """
        return self._cast_floating(flambeau.float16)

    def bfloat16(self: Self) -> Self:
        """Cast floating parameters and buffers to bfloat16.

        Returns: the module itself.
        """
        return self._cast_floating(flambeau.bfloat16)

    def cpu(self: Self) -> Self:
        """Move parameters and buffers to the CPU.

        Returns: the module itself.
        """
        return self._apply(lambda t: t.cpu())

    def share_memory(self: Self) -> Self:
        """Move all parameters and buffers to memory that processes share; see `Tensor.share_memory_`.

        Returns: the module itself.
        """
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Switch the tree to training, or to evaluation.

        Args:
            mode: True for training, False for evaluation.
        Returns: the module itself.
        Raises: ValueError for a value that is not a bool.

        Example:
            >>> layer = flambeau.nn.Dropout().train(False)
            >>> layer.training
            False
        """
        if not isinstance(mode, bool):
            raise ValueError(f"Module.train: expected a bool, got {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Switch the tree to evaluation: dropout passes its input, batch norm uses running statistics.

        Returns: the module itself.
        """
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set whether all parameters of the tree collect gradients.

        Args:
            requires_grad: whether they do.
        Returns: the module itself.
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to 0.

        Args:
            set_to_none: whether gradients become None; False fills them with 0.
        Returns: None.
        """
        for parameter in self.parameters():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad.grad_fn is not None:
                    parameter.grad.detach_().zero_()
                else:
                    parameter.grad.requires_grad_(False).zero_()

    # --- printing ---------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return what stands between the parentheses when the module is printed; subclasses override it.

        Returns: a text.
        """
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def _children_shown(self) -> list[tuple[str, str]]:
        """Names and texts of the modules inside."""
        return [(name, repr(child)) for name, child in self._modules.items()]

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + text.replace("\n", "\n  ") for name, text in self._children_shown()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


native_slots = NativeSlots(Module)

__getattr__, __dir__ = attributes(__name__)
