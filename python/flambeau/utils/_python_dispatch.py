"""`TorchDispatchMode`, and what tensors of classes with ``__torch_dispatch__`` need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau._loading.lazy import attributes
from flambeau._object.subclass import DisableTorchDispatch
from flambeau.utils._pytree import tree_leaves, tree_map

_get_dispatch_stack_at = _C._get_dispatch_stack_at
_len_torch_dispatch_stack = _C._len_torch_dispatch_stack


class TorchDispatchModeKey(Enum):
    """Kinds of infrastructure modes; a thread has at most one mode of each kind."""

    FAKE = 0
    PROXY = 1
    FUNCTIONAL = 2


class TorchDispatchMode:
    """A region in which ``__torch_dispatch__`` is asked for the result of every operator of the thread.

    The mode sees operators below autograd and autocast: those that a composite is made of, those of
    backward passes, and factories. Modes nest, the innermost is asked first. While a mode runs it is not in
    force, so that operators which it calls go to the next one.

    Args:
        _dispatch_key: for modes of the infrastructure; see `_mode_key`.

    >>> import flambeau as fb
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     _ = fb.ones(2).exp()
    aten.ones.default
    aten.exp.default
    """

    supports_higher_order_operators = False
    _mode_key: TorchDispatchModeKey | None = None

    def __init__(self, _dispatch_key: Any = None) -> None:
        if _dispatch_key is not None:
            raise ValueError(f"TorchDispatchMode: expected no dispatch key, got {_dispatch_key!r}")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the result of an operator.

        Args:
            func: the overload, such as ``ops.aten.add.Tensor``.
            types: classes with ``__torch_dispatch__`` among the arguments.
            args: arguments by position, as the overload's schema orders them.
            kwargs: arguments by name.
        """
        raise NotImplementedError(f"{type(self).__name__}: expected a method __torch_dispatch__, got none")

    def __enter__(self) -> Any:
        _push_mode(self)
        self.__dict__["_entered"] = self.__dict__.get("_entered", 0) + 1  # subclasses may lack our __init__
        return self

    def __exit__(self, *exception: object) -> None:
        entered = self.__dict__.get("_entered", 0)
        if not entered:
            raise IndexError(
                f"{type(self).__name__}.__exit__: expected a mode that was entered, got one that was not"
            )
        self.__dict__["_entered"] = entered - 1
        _pop_mode(self._mode_key)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether modes of the class belong to the infrastructure and are asked last."""
        return cls._mode_key is not None

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether a compiler's own operators are hidden from the mode: False."""
        return False

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchDispatchMode:
        """Make a mode of the class, which the caller enters."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operator."""
        return func(*args, **(kwargs or {}))


# --- the stack of the thread ----------------------------------------------------------------------


def _push_mode(mode: TorchDispatchMode) -> None:
    if mode._mode_key is None:
        _C._push_on_torch_dispatch_stack(mode)
        return
    if _C._get_dispatch_mode(mode._mode_key) is not None:
        raise AssertionError(
            f"TorchDispatchMode: expected no active mode of kind {mode._mode_key.name}, got one"
        )
    _C._set_dispatch_mode(mode)


def _pop_mode(k: TorchDispatchModeKey | None = None) -> Any:
    """Take the mode of a kind off the stack, or the innermost one."""
    return _C._pop_torch_dispatch_stack() if k is None else _C._unset_dispatch_mode(k)


@contextlib.contextmanager
def _pop_mode_temporarily(k: TorchDispatchModeKey | None = None) -> Iterator[Any]:
    """Run a block without the innermost mode, or the one of a kind."""
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        if mode is not None:
            _push_mode(mode)


def _detect_infra_mode(key: TorchDispatchModeKey) -> Any:
    return _C._get_dispatch_mode(key)


def _unset_infra_mode(key: TorchDispatchModeKey) -> Any:
    return _C._unset_dispatch_mode(key)


@contextlib.contextmanager
def _disable_infra_mode(key: TorchDispatchModeKey) -> Iterator[Any]:
    """Run a block without the mode of a kind, if there is one."""
    with _pop_mode_temporarily(key) as mode:
        yield mode


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode."""
    length = _C._len_torch_dispatch_stack()
    return _C._get_dispatch_stack_at(length - 1) if length else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The active modes, the innermost last."""
    return [_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack())]


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """Run a block without any mode."""
    modes = _get_current_dispatch_mode_stack()
    while _C._len_torch_dispatch_stack():
        _C._pop_torch_dispatch_stack()
    try:
        yield modes
    finally:
        for mode in modes:
            _push_mode(mode)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is active, of the infrastructure or not."""
    modes = _get_current_dispatch_mode_stack()
    return bool(modes) if include_infra_modes else any(not mode.is_infra_mode() for mode in modes)


def any_torch_dispatch_mode_on_stack(
    *, include_infra_modes: bool = True, respect_ignore_compile_internals: bool = True
) -> bool:
    """Whether a mode is active; see `is_in_torch_dispatch_mode`.

    Args:
        include_infra_modes: whether modes of the infrastructure count.
        respect_ignore_compile_internals: leave out modes that ignore compilers.
    """
    return any(
        (include_infra_modes or not mode.is_infra_mode())
        and not (respect_ignore_compile_internals and mode.ignore_compile_internals())
        for mode in _get_current_dispatch_mode_stack()
    )


# --- classes that wrap other tensors ---------------------------------------------------------------


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether it is a tensor of a class that can be taken apart: one that has `__tensor_flatten__`."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class of tensors has `__tensor_flatten__` and `__tensor_unflatten__`."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and all(hasattr(t, name) for name in ("__tensor_flatten__", "__tensor_unflatten__"))
    )


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """Return a tensor of the same class whose inner tensors are what `callback(name, inner)` returns.

    Args:
        t: a tensor of a class that can be taken apart.
        callback: makes a new inner tensor of each one.
        outer_size: the result's sizes; those of `t` by default.
        outer_stride: the result's strides; those of `t` by default.
    """
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(inner, context, size, stride)


def return_and_correct_aliasing(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, out: Any
) -> Any:
    """Make results of `__torch_dispatch__` share memory with arguments where the operator's schema says so.

    A result that is a view gets the storage of the argument that it looks at, so that autograd sees writes to
    either. For in-place and ``out=`` operators the written arguments are returned instead of `out`.

    Args:
        func: the overload.
        args: its arguments by position.
        kwargs: its arguments by name.
        out: what the class's ``__torch_dispatch__`` made.
    """
    schema = func._schema
    offsets = _offsets(func, args, kwargs or {}, out)
    given = dict(zip((p.name for p in schema.parameters), args, strict=False)) | (kwargs or {})
    outs = out if isinstance(out, tuple) or (isinstance(out, list) and len(schema.results) > 1) else (out,)
    corrected = []
    for result, returned in zip(outs, schema.results, strict=False):
        source = schema.aliases.get(_letter(returned))
        if source is None or source not in given:
            corrected.append(result)
        elif "!" in returned:
            corrected.append(given[source])
        else:
            views = result if isinstance(result, list | tuple) else [result]
            for view in views:
                _share(func, view, given[source], 2 if views is result else 1, next(offsets, -1))
            corrected.append(result)
    return type(out)(corrected) if outs is out else corrected[0] if corrected else out


def _letter(type_: str) -> str:
    """The name of the alias set in a type: "a" of ``Tensor(a!)``."""
    return type_.partition("(")[2].partition(")")[0].strip("!").partition(" ")[0].rstrip("!")


def _share(func: Any, view: Any, source: Any, views: int, offset: int) -> None:
    """Give a wrapper the storage of its source, and make it a view for autograd; an identity has both."""
    if view is source or not isinstance(source, Tensor):
        return
    is_traceable = is_traceable_wrapper_subclass(view) or is_traceable_wrapper_subclass(source)
    if not isinstance(view, Tensor) or (is_traceable and type(view) is not type(source)):
        raise AssertionError(
            f"return_and_correct_aliasing: {func}: expected types to match, a "
            f"{type(source).__name__} for a view of one, got {type(view).__name__}"
        )
    _C._share_storage(view, source, views, offset)  # `views` > 1: one of several


def _offsets(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Iterator[int]:
    """Yield where views begin: a class need not tell, but gradients of writes to them must know.

    They are those of the same views of tensors without elements.
    """
    wrappers = [t for t in tree_leaves(out) if isinstance(t, Tensor)]
    if not wrappers or not func.is_view or any(t.storage_offset() for t in wrappers):
        return
    try:
        with DisableTorchDispatch():
            found = func(*tree_map(_without_elements, args), **tree_map(_without_elements, kwargs))
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return
    for t, wrapper in zip(tree_leaves(found), wrappers, strict=False):
        yield t.storage_offset() if tuple(t.stride()) == tuple(wrapper.stride()) else -1


def _without_elements(value: Any) -> Any:
    """Return a tensor of the same geometry on the meta device."""
    if not isinstance(value, Tensor):
        return value
    place = value.shape, value.stride(), value.storage_offset()
    steps = sum((n - 1) * stride for n, stride in zip(place[0], place[1], strict=True))
    memory = flambeau.empty(place[2] + steps + 1, dtype=value.dtype, device="meta")
    return memory.as_strided(*place)


def autograd_would_have_decomposed(func: Any, flat_args: Iterable[Any]) -> bool:
    """Whether autograd would have run the operator's parts: a composite, and a gradient is wanted."""
    wanted = _C.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in flat_args)
    return wanted and bool(func._entry) and _C._is_composite(func._entry)


__getattr__, __dir__ = attributes(__name__)
