"""Signatures of operators, and normalization of arguments to a signature."""

from __future__ import annotations

import inspect
import numbers
import re
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau
from flambeau.fx._names import home_of, qualified_name
from flambeau.nn import Module

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


_TYPES: dict[str, Any] = {
    "Tensor": flambeau.Tensor,
    "Scalar": numbers.Number,
    "int": int,
    "SymInt": int,
    "float": float,
    "bool": bool,
    "str": str,
    "ScalarType": flambeau.dtype,
    "Layout": flambeau.layout,
    "Device": flambeau.device,
    "MemoryFormat": flambeau.memory_format,
    "Generator": flambeau.Generator,
}


def _type_of(text: str) -> Any:
    """Return the Python type for a schema's type: ``Optional[List[int]]`` for ``int[2]?``."""
    if text.endswith("?"):
        return typing.Optional[_type_of(text[:-1])]  # noqa: UP045
    if text.endswith("]"):
        return typing.List[_type_of(text.rpartition("[")[0])]  # type: ignore[misc]  # noqa: UP006
    return _TYPES.get(text, typing.Any)


def signature_of(schema: str) -> inspect.Signature:
    """Return the signature of a schema; ``self`` is called ``input``.

    >>> signature_of("dropout(Tensor input, float p, bool train) -> Tensor").parameters["p"].annotation
    <class 'float'>
    """
    from flambeau.library._schemas import read

    known = read(schema.partition("::")[2] or schema, "aten")
    parameters = [
        inspect.Parameter(
            "input" if p.name == "self" else p.name,
            inspect.Parameter.KEYWORD_ONLY if p.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if p.required else known.defaults[p.name],
            annotation=_type_of(p.type),
        )
        for p in known.parameters
    ]
    (returned,) = known.results if len(known.results) == 1 else ("",)
    return inspect.Signature(parameters, return_annotation=_type_of(re.sub(r"\([^)]*\)", "", returned)))


def _schemas_of(op: Any) -> list[str]:
    """The schemas of an operator, without those that write to `out`."""
    import operator

    from flambeau.ops import _schemas

    packet = getattr(op, "_packet", op)
    name = getattr(packet, "__name__", "")
    known = hasattr(packet, "_qualified") or inspect.isbuiltin(op) or inspect.ismethoddescriptor(op)
    if not known or getattr(operator, name, None) is op:
        return []
    overload = getattr(op, "_overloadname", None)
    return [
        text
        for (base, own), text in _schemas().items()
        if base == name and (overload is None or own == overload)
    ]


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """Return the signatures of an operator's overloads, or None if `op` is not an operator.

    Args:
        op: the operator.
        return_schemas: return a pair of the signatures and the schemas.
    """
    schemas = _schemas_of(op)
    if not schemas:
        return (None, None) if return_schemas else None
    signatures = [signature_of(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def check_for_mutable_operation(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse operators that change their arguments.

    Raises: RuntimeError for an in-place operator, or one with `out=`.
    """
    name = getattr(target, "__name__", "")
    in_place = bool(_schemas_of(target)) and name.endswith("_") and not name.endswith("__")
    if in_place or (kwargs.get("out") is not None and _schemas_of(target)):
        raise RuntimeError(
            f"check_for_mutable_operation: mutable operation {name} cannot be recorded; this tracer "
            "records only operators that leave their arguments unchanged"
        )


def create_type_hint(x: Any) -> Any:
    """Return the type of containers of types: ``[int, int]`` becomes ``List[int]``."""
    if not isinstance(x, list | tuple):
        return x
    head: Any = typing.List if isinstance(x, list) else lambda inside: typing.Tuple[inside, ...]  # noqa: UP006
    if not x:
        return typing.List[typing.Any] if isinstance(x, list) else typing.Tuple[typing.Any, ...]  # noqa: UP006
    base = x[0]
    for item in x[1:]:
        if item is base or (isinstance(item, type) and isinstance(base, type) and issubclass(item, base)):
            continue
        if isinstance(item, type) and isinstance(base, type) and issubclass(base, item):
            base = item
        else:
            base = typing.Any
            break
    return head[base] if isinstance(x, list) else head(base)


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether a parameter of the signature's type accepts an argument of the given type."""
    if signature_type is argument_type or signature_type is typing.Any:
        return True
    origin, inside = typing.get_origin(signature_type), typing.get_args(signature_type)
    if origin is typing.Union:
        if typing.get_origin(argument_type) is typing.Union:
            return all(type_matches(signature_type, part) for part in typing.get_args(argument_type))
        return any(type_matches(part, argument_type) for part in inside)
    if origin is list:
        if argument_type is inside[0] or (inside[0] is int and argument_type is int):
            return True
        if typing.get_origin(argument_type) in (list, tuple):
            parts = [part for part in typing.get_args(argument_type) if part is not ...]
            return all(type_matches(inside[0], part) for part in parts)
        return False
    if signature_type is numbers.Number:
        return argument_type in (int, float, complex, bool, numbers.Number)
    if signature_type is float and argument_type is int:
        return True
    own = isinstance(signature_type, type) and isinstance(argument_type, type)
    return own and issubclass(argument_type, signature_type)


# --- binding ----------------------------------------------------------------------------------------


def _bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = signature.parameters
    if "input" in names and "self" in kwargs and "input" not in kwargs:
        kwargs = {("input" if key == "self" else key): value for key, value in kwargs.items()}
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


def _python_signature(target: Any) -> inspect.Signature | None:
    if inspect.isbuiltin(target) or not callable(target):
        return None
    try:
        return inspect.signature(inspect.unwrap(target))
    except (TypeError, ValueError):
        return None


def bound_arguments(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments by name, without defaults, or None if no signature accepts them."""
    signatures = get_signature_for_torch_op(target) or [_python_signature(target)]
    for signature in signatures:
        bound = _bind(signature, args, kwargs) if signature is not None else None
        if bound is not None:
            return dict(bound.arguments)
    return None


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments as the target's signature names them; for Python functions with the defaults.

    Args:
        target: an operator or a function of this package.
        args: the arguments.
        kwargs: the keyword arguments.
        arg_types: types of the arguments, which choose between overloads.
        kwarg_types: types of the keyword arguments.
        normalize_to_only_use_kwargs: return all arguments by name.
    Returns: the arguments, or None if no signature is known or none accepts them.
    Raises: RuntimeError if several overloads accept them and the types do not choose one.
    """
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        ours = home_of(target).startswith("flambeau.")
        signature = _python_signature(target) if ours else None
        if signature is None:
            return None
        return _normalized(signature, args, kwargs, normalize_to_only_use_kwargs, defaults=True)
    fitting = [s for s in signatures if _bind(s, args, kwargs) is not None]
    if len(fitting) > 1:
        fitting = _by_types(target, fitting, arg_types, kwarg_types)
    if not fitting:
        return None
    return _normalized(fitting[0], args, kwargs, normalize_to_only_use_kwargs, defaults=True)


def _by_types(target: Any, fitting: list[inspect.Signature], arg_types: Any, kwarg_types: Any) -> Any:
    if arg_types is None and kwarg_types is None:
        shown = "\n".join(str(signature) for signature in fitting)
        raise RuntimeError(
            f"normalize: the schema match of {qualified_name(target)} was ambiguous; give the types of the "
            f"arguments to choose one of\n{shown}"
        )
    chosen = []
    for signature in fitting:
        bound = _bind(signature, tuple(arg_types or ()), dict(kwarg_types or {}))
        if bound is not None and all(
            type_matches(signature.parameters[name].annotation, kind)
            for name, kind in bound.arguments.items()
        ):
            chosen.append(signature)
    return chosen


def _normalized(
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    only_kwargs: bool,
    defaults: bool,
) -> ArgsKwargsPair | None:
    bound = _bind(signature, args, kwargs)
    if bound is None:
        return None
    if defaults:
        bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for place, (name, value) in enumerate(bound.arguments.items()):
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif not only_kwargs and place < len(args):
            positional.append(value)
        else:
            named[name] = value
    return ArgsKwargsPair(tuple(positional), named)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call of a submodule as its forward names them.

    Args:
        root: the module.
        target: the submodule's path.
        args: the arguments.
        kwargs: the keyword arguments.
        normalize_to_only_use_kwargs: return all arguments by name.
    Returns: the arguments, or None if the submodule is not a layer of `flambeau.nn`.
    Raises: RuntimeError if there is no such submodule.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(f"normalize: the module has no submodule {target!r}: {error}") from error
    if getattr(flambeau.nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(module.forward)
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs, defaults=True)
