"""What lowerings call beside operators: the host functions of codegen/host_functions.yaml, in Python.

They are written from docs/spec-language.md, not from aten/core/host_expr.h, so that the two check each other.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Sequence
from typing import Any

import flambeau as fb

abs, float, int, max, min, sum = (  # noqa: A001  names of the language
    builtins.abs,
    builtins.float,
    builtins.int,
    builtins.max,
    builtins.min,
    builtins.sum,
)
len = builtins.len  # noqa: A001
prod = math.prod
promote = fb.promote_types
default_dtype = fb.get_default_dtype
grad_enabled = fb.is_grad_enabled


def constant(name: str) -> Any:
    """A dtype, memory format or layout by its name."""
    return getattr(fb, name)


def described(value: Any) -> str:
    """A Tensor in a message."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(described, value))}]"
    return "None" if value is None else f"{str(value.dtype).split('.')[-1]}{list(value.shape)}"


def memory_format(tensor: Any) -> Any:
    """The order of memory that a result follows."""
    for name, ndim in (("channels_last", 4), ("channels_last_3d", 5)):
        order = getattr(fb, name)
        if tensor.ndim == ndim and tensor.is_contiguous(memory_format=order) and not tensor.is_contiguous():
            return order
    return fb.contiguous_format


def range(*bounds: int) -> list[int]:  # noqa: A001
    """Python's range, as a list."""
    return list(builtins.range(*bounds))


def indices(values: Sequence[Any]) -> list[int]:
    """The places of a list."""
    return range(len(values))


def wrap(dim: int, ndim: int) -> int:
    """A dimension counted from the front."""
    least, most = (-ndim, ndim - 1) if ndim else (-1, 0)
    if not least <= dim <= most:
        raise IndexError(f"Dimension out of range: expected [{least}, {most}], but got {dim}")
    return dim % max(ndim, 1)


def moved_dims(ndim: int, source: Sequence[int], destination: Sequence[int]) -> list[int]:
    """The order in which permute moves dimensions `source` to `destination`."""
    sources, places = [[wrap(d, ndim) for d in dims] for dims in (source, destination)]
    if ndim and (len(set(sources)) < len(sources) or len(set(places)) < len(places)):
        raise RuntimeError(f"movedim: expected each dim once, got repeated dim: {source}, {destination}")
    order = [d for d in range(ndim) if d not in sources]
    for place, d in sorted(zip(places, sources, strict=True)) if ndim else ():
        order.insert(place, d)
    return order


def chain_order(sizes: Sequence[int]) -> list[int]:
    """In which order to multiply a chain of matrices: the cheapest of all orders."""

    def orders(left: list[int]) -> Iterator[tuple[float, list[int]]]:
        if len(left) == 2:
            yield 0, []
        for place in range(len(left) - 2):
            cost = left[place] * left[place + 1] * left[place + 2]
            for more, rest in orders([*left[: place + 1], *left[place + 2 :]]):
                yield cost + more, [place, *rest]

    return min(orders(list(sizes)))[1]


def has_value(option: Any) -> bool:
    """Whether an optional argument is given."""
    return option is not None


def value(option: Any) -> Any:
    """The value of an optional argument."""
    if option is None:
        raise RuntimeError("expected a value, got None")
    return option


def conj(number: Any) -> Any:
    """The complex conjugate of a number."""
    return number.conjugate()


def broadcast(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """The shape that two shapes broadcast to."""
    return list(fb.broadcast_shapes(tuple(a), tuple(b)))


def category(of: Any) -> str:
    """The category of a dtype or a number."""
    if not isinstance(of, fb.dtype):
        names = {bool: "bool", int: "integral", float: "floating", complex: "complex"}
        return names[type(of)]
    if of == fb.bool:
        return "bool"
    return "complex" if of.is_complex else "floating" if of.is_floating_point else "integral"


def compute_dtype(dtype: Any) -> Any:
    """The dtype that elements are computed in."""
    wider = {
        fb.float16: fb.float32,
        fb.bfloat16: fb.float32,
        fb.uint16: fb.int32,
        fb.uint32: fb.int64,
        fb.complex32: fb.complex64,
    }
    return wider.get(dtype, dtype)


def result_dtype(tensors: Sequence[Any]) -> Any:
    """The common dtype of tensors: those without dimensions count by category."""
    result = tensors[0]
    for tensor in tensors[1:]:
        dtype = fb.result_type(result, tensor)
        ndim = max(result.ndim, tensor.ndim)
        result = fb.empty([1] * ndim, dtype=dtype, device="meta")
    return result.dtype


def is_on(tensor: Any, device: Any) -> bool:
    """Whether a tensor lies on a device."""
    device = fb.device(device)
    return tensor.device.type == device.type and device.index in (None, tensor.device.index)


def is_contiguous(tensor: Any, order: Any) -> bool:
    """Whether a tensor lies in memory in this order."""
    return tensor.is_contiguous(memory_format=order)


def is_dense(tensor: Any) -> bool:
    """Whether the elements fill their memory without overlap."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != reach:
            return tensor.numel() == 0
        reach *= size if size != 1 else 1
    return True


def in_graph(tensor: Any) -> bool:
    """Whether autograd follows a tensor."""
    return tensor.requires_grad or fb.autograd.forward_ad.unpack_dual(tensor).tangent is not None


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last."""
    if 0 in sizes:
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))


def number_tensor(number: Any, dtype: Any, device: Any = "cpu") -> Any:
    """A number as a tensor of no dimensions."""
    return fb.full([], number, dtype=dtype, device=device)


def infer_size(shape: Sequence[int], numel: int) -> list[int]:
    """Sizes, with -1 replaced."""
    return list(fb.empty(numel, device="meta").view(tuple(shape)).shape)


def has_view(tensor: Any, shape: Sequence[int]) -> bool:
    """Whether a view of the tensor has these sizes."""
    infer_size(shape, tensor.numel())
    try:
        tensor.detach().view(tuple(shape))
    except RuntimeError:
        return False
    return True


def ints(tensor: Any) -> list[int]:
    """The elements of a contiguous int64 tensor."""
    return [tensor.item()] if tensor.ndim == 0 else tensor.tolist()
