"""Operators that are defined in Python: `custom_op`, and `Library` for schemas written out.

A defined operator is called as ``flambeau.ops.namespace.name(...)``, checks its arguments against its schema,
and finds a kernel by the device of its first tensor. `register_fake` says the shapes for meta tensors,
`register_autograd` the derivative, `register_vmap` how it is batched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, overload

from flambeau.library._check import opcheck
from flambeau.library._context import current, runs_on_meta
from flambeau.library._custom import CustomOpDef, custom_op
from flambeau.library._kernels import (
    get_kernel,
    register_torch_dispatch,
    set_symmetric_memory,
    triton_op,
    wrap_triton,
)
from flambeau.library._library import Library, _scoped_library, fallthrough_kernel
from flambeau.library._operators import device_kinds, find, name_of
from flambeau.library._schemas import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]  # fmt: skip

Function = Callable[..., Any]


# Libraries of `define`, which live as long as the process.
_kept: dict[str, Library] = {}


def _library_of(space: str) -> Library:
    if space not in _kept:
        _kept[space] = Library(space, "FRAGMENT")
    return _kept[space]


def define(
    qualname: str, schema: str | None = None, *, lib: Library | None = None, tags: Sequence[Any] | Any = ()
) -> Any:
    """Define an operator.

    ``define(library, "name(...) -> ...")`` makes a decorator that registers a function as the kernel of the
    operator.

    Args:
        qualname: the name, ``namespace::name``; or a `Library`, in whose namespace `schema` defines the
            operator.
        schema: the schema ``(...) -> ...``, without the name.
        lib: the library that owns the definition. None means that it is never removed.
        tags: a `Tag` or several.
    Returns: None, or the decorator.
    Raises: ValueError for another form of name or schema.

    Example:
        >>> flambeau.library.define("docs_define::thrice", "(Tensor x) -> Tensor")
        >>> _ = flambeau.library.impl("docs_define::thrice", "cpu", lambda x: 3 * x)
        >>> flambeau.ops.docs_define.thrice(flambeau.ones(2))
        tensor([3., 3.])
    """
    if isinstance(qualname, Library):
        return _defined_by(qualname, str(schema))
    if not isinstance(qualname, str):
        raise ValueError(f"define: expected qualname to be a str or a Library, got {type(qualname).__name__}")
    space, _, name = qualname.partition("::")
    if qualname.count("::") != 1 or not name:
        raise ValueError(f"define: expected 'namespace::name', got {qualname!r}")
    if not re.fullmatch(r"\(.*\)\s*->.*", str(schema), re.DOTALL):
        raise ValueError(f"define: expected schema to look like '(Tensor x) -> Tensor', got {schema!r}")
    library = lib or _library_of(space)
    library.define(name + str(schema), tags=tags)
    return None


def _defined_by(library: Library, schema: str) -> Function:
    name = library.define(schema)

    def register(function: Function) -> Function:
        library.impl(name, function)
        return function

    return register


def _keys_of(types: str | Sequence[str]) -> list[str]:
    named = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "default": "CompositeExplicitAutograd"}
    return [named.get(t, t) for t in ([types] if isinstance(types, str) else types)]


@overload
def impl(
    qualname: Any, types: str | Sequence[str], func: Function | None = None, *, lib: Library | None = None
) -> Any: ...
@overload
def impl(lib: Library, name: str, dispatch_key: str = "") -> Any: ...
def impl(*args: Any, **kwargs: Any) -> Any:
    """Register a kernel of an operator for device types or dispatch keys.

    Args:
        *args: the operator (``namespace::name``, or a `Library` and a name), the device types ("cpu", "cuda",
            or a list of them) or a dispatch key, and the kernel. Without the kernel a decorator is returned.
        **kwargs: the same by name: `qualname`, `types`, `func` and `lib`.
    Returns: None, or the decorator.
    Raises: RuntimeError if there is no such operator.

    Example:
        >>> flambeau.library.define("docs_impl::negated", "(Tensor x) -> Tensor")
        >>> _ = flambeau.library.impl("docs_impl::negated", "cpu", lambda x: -x)
        >>> flambeau.ops.docs_impl.negated(flambeau.ones(2))
        tensor([-1., -1.])
    """
    if isinstance(args[0] if args else kwargs.get("lib"), Library) and "qualname" not in kwargs:
        return _impl_in(*args, **kwargs)
    return _impl_of(*args, **kwargs)


def _impl_in(lib: Library, name: str, dispatch_key: str = "") -> Function:
    def add(function: Function) -> Function:
        lib.impl(name, function, dispatch_key)
        return function

    return add


def _impl_of(
    qualname: Any, types: str | Sequence[str], func: Function | None = None, *, lib: Library | None = None
) -> Any:
    name = name_of(qualname)
    space = name.partition("::")[0]
    library = lib or _library_of(space)

    def register(function: Function) -> Function:
        for key in _keys_of(types):
            library.impl(name, function, key)
        return function

    return register if func is None else register(func)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Function | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Register a kernel of an operator for device types.

    Args:
        op: the operator: a definition, an overload or ``namespace::name``.
        device_types: the device types, such as "cpu". None means all.
        func: the kernel. None makes a decorator.
        lib: the library that owns the registration. None means that it is never removed.
    Returns: the kernel, or the decorator.
    Raises: RuntimeError if there is no such operator.

    Example:
        >>> @flambeau.library.custom_op("docs_library::doubled", mutates_args=(), device_types="cuda")
        ... def doubled(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x * 2
        >>> @flambeau.library.register_kernel("docs_library::doubled", "cpu")
        ... def _(x):
        ...     return x + x
        >>> doubled(flambeau.ones(2))
        tensor([2., 2.])
    """
    if name_of(op).startswith("aten::"):
        return impl(op, "default" if device_types is None else device_types, func, lib=lib)
    operator = find(op)

    def register(function: Function) -> Function:
        for device in device_kinds(device_types):
            operator.by_device[device] = function
        operator.changed()
        return function

    return register if func is None else register(func)


def register_fake(
    op: Any,
    func: Function | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Register a function that computes the shapes and dtypes of an operator's results.

    The function runs for meta tensors.

    Args:
        op: the operator: a definition, an overload or ``namespace::name``.
        func: the function of the operator's arguments, which returns tensors without using values. None makes
            a decorator.
        lib: the library that owns the registration. None means that it is never removed.
        _stacklevel: no effect.
        allow_override: whether an earlier registration may be replaced.
    Returns: the function, or the decorator.
    Raises: RuntimeError if there is no such operator.

    Example:
        >>> @flambeau.library.custom_op("docs_library::copy_of", mutates_args=())
        ... def copy_of(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x.clone()
        >>> _ = flambeau.library.register_fake("docs_library::copy_of", lambda x: flambeau.empty_like(x))
        >>> copy_of(flambeau.empty(3, device="meta")).shape
        flambeau.Size([3])
    """
    if name_of(op).startswith("aten::"):
        return impl(op, "Meta", func, lib=lib)
    operator = find(op)

    def register(function: Function) -> Function:
        operator.fake = function
        operator.changed()
        return function

    return register if func is None else register(func)


def impl_abstract(
    qualname: Any, func: Function | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """Deprecated alias of `library.register_fake`."""
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel)


def register_autograd(
    op: Any, backward: Function, /, *, setup_context: Function | None = None, lib: Library | None = None
) -> None:
    """Register the derivative of an operator.

    Args:
        op: the operator: a definition, an overload or ``namespace::name``.
        backward: the function ``backward(ctx, *grads)``, which returns a gradient, or None, per positional
            argument.
        setup_context: the function ``setup_context(ctx, inputs, output)``, which saves what `backward` needs.
            None saves nothing.
        lib: no effect; the derivative exists as long as the operator.
    Returns: None.
    Raises: RuntimeError if the operator writes to its arguments or returns views of them.

    Example:
        >>> @flambeau.library.custom_op("docs_library::scaled", mutates_args=())
        ... def scaled(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x * 3
        >>> flambeau.library.register_autograd("docs_library::scaled", lambda ctx, grad: grad * 3)
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> scaled(x).backward()
        >>> x.grad
        tensor([3.])
    """
    operator = find(op)
    if operator.schema.mutates or any("(" in result for result in operator.schema.results):
        raise RuntimeError(
            "register_autograd: expected an operator that neither writes to its arguments nor returns views "
            f"of them, got the non-functional operator {operator.name}, {operator.schema}"
        )
    operator.backward = (backward, setup_context)
    operator.changed()


def register_vmap(op: Any, func: Function | None = None, /, *, lib: Library | None = None) -> Any:
    """Register the batching rule of an operator for `vmap`.

    Args:
        op: the operator: a definition, an overload or ``namespace::name``.
        func: the function ``func(info, in_dims, *args)``, which returns results and their batch dimensions.
            None makes a decorator.
        lib: the library that owns the registration. None means that it is never removed.
    Returns: the function, or the decorator.
    Raises: RuntimeError if there is no such operator.

    Example:
        >>> @flambeau.library.custom_op("docs_library::cubed", mutates_args=())
        ... def cubed(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x**3
        >>> @flambeau.library.register_vmap("docs_library::cubed")
        ... def _(info, in_dims, x):
        ...     return x**3, in_dims[0]
        >>> flambeau.vmap(cubed)(flambeau.tensor([1.0, 2.0]))
        tensor([1., 8.])
    """
    operator = find(op)

    def register(function: Function) -> Function:
        operator.vmap = function
        operator.changed()
        return function

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Cast the floating arguments of an operator under autocast, except those in float64.

    Args:
        op: the operator: a definition, an overload or ``namespace::name``.
        device_type: "cpu" or "cuda".
        cast_inputs: the dtype of the arguments under autocast of that device type.
        lib: the library that owns the registration. None means that it is never removed.
    Returns: None.
    Raises: ValueError for another device type, RuntimeError if there is no such operator.

    Example:
        >>> @flambeau.library.custom_op("docs_library::same", mutates_args=())
        ... def same(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x.clone()
        >>> _ = flambeau.library.register_autocast("docs_library::same", "cpu", flambeau.bfloat16)
        >>> with flambeau.autocast("cpu"):
        ...     same(flambeau.ones(1)).dtype
        flambeau.bfloat16
    """
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"register_autocast: expected device_type 'cpu' or 'cuda', got {device_type!r}")
    operator = find(op)
    operator.casts[device_type] = cast_inputs
    operator.changed()


def get_ctx() -> Any:
    """Return the context in which a fake kernel asks for sizes that depend on data, by `new_dynamic_size`.

    `opcheck` runs fake kernels in such a context. On meta tensors there is none, because they have no data.

    Returns: the context; None outside of fake kernels.
    Raises: RuntimeError in a fake kernel that runs on meta tensors.

    Example:
        >>> @flambeau.library.custom_op("docs_library::positions", mutates_args=())
        ... def positions(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x.nonzero()
        >>> @positions.register_fake
        ... def _(x):
        ...     count = flambeau.library.get_ctx().new_dynamic_size()
        ...     return x.new_empty([count, x.dim()], dtype=flambeau.int64)
        >>> flambeau.library.opcheck(positions, (flambeau.ones(3),), test_utils="test_faketensor")
        {'test_faketensor': 'SUCCESS'}
    """
    found = current()
    if found is None and runs_on_meta():
        raise RuntimeError(
            "get_ctx: expected a call from a fake kernel that runs on fake tensors, got one on meta Tensors: "
            "results of data-dependent shape do not exist there"
        )
    return found
