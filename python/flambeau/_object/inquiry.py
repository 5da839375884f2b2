"""Questions about tensors and dtypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, overload

from flambeau import _C
from flambeau._arguments.checks import require_tensors
from flambeau._C import Tensor, dtype

__all__ = [
    "get_file_path",
    "is_complex",
    "is_conj",
    "is_distributed",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_storage",
    "is_tensor",
    "nonzero",
    "numel",
    "result_type",
    "typename",
]


def is_tensor(obj: Any) -> bool:
    """Return whether an object is a tensor.

    Args:
        obj: any object.
    Returns: whether it is an instance of ``Tensor`` or of a class derived from it.

    Example:
        >>> flambeau.is_tensor(flambeau.ones(2)), flambeau.is_tensor([1.0, 1.0])
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Return whether an object is the memory of a tensor.

    Args:
        obj: any object.
    Returns: whether it is an ``UntypedStorage`` or a ``TypedStorage``.

    Example:
        >>> x = flambeau.ones(2)
        >>> flambeau.is_storage(x.untyped_storage()), flambeau.is_storage(x)
        (True, False)
    """
    from flambeau._object.storage import UntypedStorage
    from flambeau._object.typed_storage import TypedStorage

    return isinstance(obj, UntypedStorage | TypedStorage)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floating numbers."""
    return input.is_floating_point()


def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """Return the positions of elements that are not 0, in row-major order.

    Args:
        input: any tensor.
        as_tuple: one tensor of indices per dimension, instead of one row per element.
        out: where to put the rows.
    Shape: ``(n, input.dim())``, or ``input.dim()`` times ``(n,)``.

    >>> from flambeau import tensor
    >>> nonzero(tensor([0, 2, 3])).tolist()
    [[1], [2]]
    """
    require_tensors("nonzero", input=input)
    if not isinstance(as_tuple, bool):
        raise TypeError(f"nonzero(): argument 'as_tuple' must be bool, not {type(as_tuple).__name__}")
    if out is not None:
        require_tensors("nonzero", out=out)
        if as_tuple:
            raise RuntimeError("nonzero: expected as_tuple=False with out=, got True")
    if as_tuple:
        return input.nonzero(as_tuple=True)
    return input.nonzero() if out is None else _C._functions.nonzero(input, out=out)


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.is_complex()


def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a view whose elements are the conjugates of what memory holds."""
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a view whose elements are the negatives of what memory holds."""
    return input.is_neg()


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    return input.is_inference()


def is_distributed(input: Tensor) -> bool:
    """Whether several processes hold parts of a tensor; never."""
    return False


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of a tensor is not zero."""
    if input.numel() != 1:
        raise RuntimeError(
            "is_nonzero: Boolean value of Tensor with more than one value is ambiguous; reduce it by "
            "any() or all()"
        )
    return bool(input)


def numel(input: Tensor) -> int:
    """Return the number of elements."""
    return input.numel()


@overload
def result_type(tensor: Tensor, other: Any) -> dtype: ...
@overload
def result_type(scalar: complex, tensor: Tensor) -> dtype: ...
@overload
def result_type(scalar1: complex, scalar2: complex) -> dtype: ...
def result_type(*args: Any, **kwargs: Any) -> dtype:
    """Return the dtype of an arithmetic operation on two tensors or numbers."""
    if kwargs:
        for names in (("tensor", "other"), ("scalar", "tensor"), ("scalar1", "scalar2")):
            rest = names[len(args) :]
            if set(rest) == set(kwargs):
                return _C._result_type(*args, *(kwargs[name] for name in rest))
    if kwargs or len(args) != 2:
        raise TypeError(
            "result_type(): expected (tensor, other), (scalar, tensor) or (scalar1, scalar2), got "
            f"{len(args)} arguments by position and {sorted(kwargs)}"
        )
    return _C._result_type(*args)


def typename(obj: Any) -> str:
    """Return the name of an object's type with its module; for tensors with the dtype's.

    Args:
        obj: any object. Classes and functions, which have a name, give their own.
    Returns: the name.

    Example:
        >>> flambeau.typename([1, 2])
        'list'
        >>> flambeau.typename(flambeau.nn.Linear).rpartition(".")[2]
        'Linear'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    name = getattr(named, "__qualname__", None) or named.__name__
    module = getattr(named, "__module__", None)
    return name if module in (None, "", "builtins") else f"{module}.{name}"


def get_file_path(*path_components: str) -> str:
    """Return the path of a file below the package's folder."""
    return str(Path(__file__).parents[1].joinpath(*path_components))
