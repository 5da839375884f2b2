"""`Library`: definitions and kernels that a program adds, and takes away again."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import flambeau
from flambeau._surface.dispatch_keys import check_key
from flambeau._surface.dispatch_questions import _dispatch_has_kernel_for_dispatch_key
from flambeau.library._interposed import Interposition, add_fallback
from flambeau.library._kernels import set_symmetric_memory
from flambeau.library._operators import CUSTOM, CustomOperator, defined, find, remove
from flambeau.library._operators import define as _define
from flambeau.library._schemas import check_namespace, read
from flambeau.library._tags import tags_from
from flambeau.ops import Overload, OverloadPacket, entry_name

Function = Callable[..., Any]


def fallthrough_kernel() -> NoReturn:
    """Mark a dispatch key as having no effect, as an argument of ``Library.impl``; not to be called.

    Returns: never.
    Raises: NotImplementedError when it is called.

    Example:
        >>> flambeau.library.fallthrough_kernel.__name__
        'fallthrough_kernel'
    """
    raise NotImplementedError(
        "fallthrough_kernel: the function stands for the absence of a kernel and cannot be "
        "called; register it instead"
    )


# Namespace -> the library that defines it.
_owners: dict[str, weakref.ref[Library]] = {}
# (namespace::name, key) -> kernels of operators that are not defined yet, by registration.
_waiting: dict[tuple[str, str], dict[object, Function]] = {}


_has_warned = False


def _warn_of_replacement(name: str, key: str, is_replaced: bool) -> None:
    """Warn of a kernel that replaces another one; PyTorch replaces kernels of Meta silently."""
    global _has_warned
    if not is_replaced or key == "Meta" or (_has_warned and not flambeau.is_warn_always_enabled()):
        return
    _has_warned = True
    warnings.warn(
        f"Library.impl: expected no kernel of {name} for the dispatch key {key}, got one: Overriding a "
        "previously registered kernel for the same operator and the same dispatch key (the warning comes "
        "once for all operators)",
        stacklevel=3,
    )


def waiting() -> list[str]:
    """Return the operators for which kernels have been registered, defined or not."""
    return [name for (name, _), kernels in _waiting.items() if kernels]


class Library:
    """Definitions that a program adds to a namespace; they are removed with the object.

    A library of kind "IMPL" for ``aten`` puts kernels in the place of flambeau's own. Several kernels of one
    operator and key may be registered: the last one is active, and the one before it again when it is
    removed.

    Args:
        ns: the namespace; "_" stands for all operators, for `fallback`.
        kind: "DEF" defines a namespace, "FRAGMENT" adds operators to one, "IMPL" adds kernels to operators
            that exist or will.
        dispatch_key: the default dispatch key of ``impl``.
    Raises: ValueError for another kind or a reserved namespace, RuntimeError if the namespace is defined
        already or the key is not a dispatch key.

    Example:
        >>> library = flambeau.library.Library("docs_shop", "DEF")
        >>> library.define("twice(Tensor x) -> Tensor")
        'twice'
        >>> library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        >>> flambeau.ops.docs_shop.twice(flambeau.ones(2))
        tensor([2., 2.])
        >>> library = flambeau.library.Library("aten", "IMPL")
        >>> library.impl("neg", lambda x: x.clone(), "CPU")
        >>> -flambeau.ones(2)
        tensor([1., 1.])
        >>> del library
        >>> -flambeau.ones(2)
        tensor([-1., -1.])
    """

    def __init__(self, ns: str, kind: Literal["DEF", "IMPL", "FRAGMENT"], dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Library: expected kind 'DEF', 'IMPL' or 'FRAGMENT', got {kind!r}")
        if kind != "IMPL":
            check_namespace("Library", ns)
        owner = _owners.get(ns)
        if kind == "DEF" and (ns == "aten" or (owner is not None and owner() is not None)):
            raise RuntimeError(
                f"Library: namespace {ns!r} has a library of kind 'DEF': only a single one can define it; "
                "this one may be 'FRAGMENT'"
            )
        if dispatch_key:
            check_key(dispatch_key)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo: list[Callable[[], None]] = []
        if kind == "DEF":
            _owners[ns] = weakref.ref(self)
        self._finalizer = weakref.finalize(self, _undo_all, self._undo)
        self._finalizer.atexit = False

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] | Any = ()) -> str:
        """Define an operator; returns its name with the overload.

        Args:
            schema: the schema with the name, such as ``f(Tensor(a!) x) -> ()``. ``(a!)`` marks an argument
                that the operator writes to, ``(a)`` memory that a result shares.
            alias_analysis: "" or "CONSERVATIVE" or "FROM_SCHEMA", which all mean what the schema says.
            tags: a `Tag` or several, which ``tags`` of the overload shows.
        """
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(
                f"Library.define: Invalid alias_analysis type: expected '', 'FROM_SCHEMA' or "
                f"'CONSERVATIVE', got {alias_analysis!r}"
            )
        if self.kind == "IMPL":
            raise RuntimeError(
                "Library.define: cannot define an operator inside of a library of kind 'IMPL', got "
                f"{schema!r}"
            )
        operator = _define(self.ns, read(schema, self.ns))
        operator.tags = tags_from(tags)
        self._undo.append(lambda: remove(operator))
        for (name, key), kernels in _waiting.items():
            if name == operator.name:
                for token, function in kernels.items():
                    operator.add_kernel(key, token, function)
        return operator.name.partition("::")[2]

    def impl(
        self,
        op_name: Any,
        fn: Function,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register a kernel for a dispatch key.

        Args:
            op_name: the name of the operator, with its overload, or an overload.
            fn: the kernel; `fallthrough_kernel` lets calls pass to the next key.
            dispatch_key: the key; "" is the library's, or else "CompositeImplicitAutograd".
            with_keyset: whether the kernel receives the dispatch key set as its first argument.
            allow_override: accepted; a kernel can be registered over another one in any case.

        Warns:
            UserWarning: the operator has a kernel for the key already, which is not Meta; once per process,
                or each time under ``flambeau.set_warn_always(True)``.
        """
        if not callable(fn):
            raise TypeError(
                f"Library.impl: expected a function as kernel (a callable), got {type(fn).__name__}"
            )
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        check_key(key)
        name = self._qualified(op_name)
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        operator = defined(space, base, overload)
        entry = entry_name(base, overload) if space == "aten" and operator is None else ""
        if entry:
            _warn_of_replacement(name, key, _dispatch_has_kernel_for_dispatch_key(name, key))
            passed = None if fn is fallthrough_kernel else fn
            self._undo.append(Interposition(entry, key, passed, with_keyset).remove)
            return
        if space == "aten" and operator is None and hasattr(flambeau.ops.aten, base):
            raise RuntimeError(
                f"Library.impl: expected an operator of the dispatcher, got {name}, which flambeau has as a "
                "function in Python"
            )
        _warn_of_replacement(name, key, bool(_waiting.get((name, key))))
        self._add(operator, name, key, _with_keys(fn) if with_keyset else fn)

    def _add(self, operator: CustomOperator | None, name: str, key: str, function: Function) -> None:
        """Register a kernel with an operator of a program, which may be defined later."""
        token = object()
        kernels = _waiting.setdefault((name, key), {})
        kernels[token] = function
        if operator is not None:
            operator.add_kernel(key, token, function)

        def undo() -> None:
            kernels.pop(token, None)
            space, _, rest = name.partition("::")
            base, _, overload = rest.partition(".")
            current = CUSTOM.get((space, base), {}).get(overload)
            if current is not None:
                current.remove_kernel(key, token)

        self._undo.append(undo)

    def _qualified(self, op_name: Any) -> str:
        if isinstance(op_name, str):
            space, mark, rest = op_name.rpartition("::")
            if mark and space != self.ns:
                raise RuntimeError(
                    f"Library.impl: expected an operator of namespace {self.ns!r}, got {op_name!r}, which "
                    "does not match namespace of the library"
                )
            name = f"{self.ns}::{rest}"
        else:
            inner = getattr(op_name, "_opoverload", op_name)
            is_known = isinstance(inner, Overload | OverloadPacket)
            name = inner.qualified if is_known else find(op_name).name
        return name.removesuffix(".default")

    def fallback(self, fn: Function, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Register a kernel for all operators that have none for a key.

        It is called with the overload, then the operator's arguments.

        Args:
            fn: the kernel; `fallthrough_kernel` has no effect.
            dispatch_key: the key; "" is the library's.
            with_keyset: whether the kernel receives the dispatch key set as its first argument.
        """
        key = dispatch_key or self.dispatch_key
        if self.ns != "_":
            raise RuntimeError(
                "Library.fallback: Fallback can only be registered using a library of the global namespace "
                f'"_", got {self.ns!r}'
            )
        if not key:
            raise RuntimeError("Library.fallback: expected a dispatch key, got none")
        check_key(key)
        self._undo.append(add_fallback(key, None if fn is fallthrough_kernel else fn, with_keyset))

    def register_symm_mem_args(self, op_name: Any, arg_names: Sequence[str]) -> None:
        """Note the arguments that other devices must reach; nothing reads it while there are none."""
        name = op_name if isinstance(op_name, str) else find(op_name).name
        set_symmetric_memory(find(name if "::" in name else f"{self.ns}::{name}"), arg_names)

    def _destroy(self) -> None:
        """Remove everything that was defined or registered here."""
        _undo_all(self._undo)
        owner = _owners.get(self.ns)
        if owner is not None and owner() is self:
            del _owners[self.ns]

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"


def _undo_all(undo: list[Callable[[], None]]) -> None:
    while undo:
        undo.pop()()


def _with_keys(function: Function) -> Function:
    """A kernel that receives the key set of its tensors first."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        from flambeau._surface.dispatch_questions import keys_of_arguments

        return function(keys_of_arguments((*args, *kwargs.values())), *args, **kwargs)

    return kernel


@contextmanager
def _scoped_library(
    ns: str, kind: Literal["DEF", "IMPL", "FRAGMENT"], dispatch_key: str = ""
) -> Iterator[Library]:
    """Make a library for the length of a block, which takes back all definitions and kernels at its end."""
    library = Library(ns, kind, dispatch_key)
    try:
        yield library
    finally:
        library._destroy()
