"""Summaries of numbers and text: the records that TensorBoard reads, from tensors and arrays."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor


def _default_buckets() -> list[float]:
    """TensorBoard's own buckets, mirrored at 0: each positive limit is a tenth above the one before."""
    positive, edge = [], 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return [*(-b for b in reversed(positive)), 0.0, *positive]


BUCKETS = _default_buckets()
# The field of a protocol buffer that holds the elements, and the name of the type there, by dtype.
_TENSOR_FIELDS = {
    "float16": ("half_val", "DT_HALF"),
    "bfloat16": ("half_val", "DT_BFLOAT16"),
    "float32": ("float_val", "DT_FLOAT"),
    "float64": ("double_val", "DT_DOUBLE"),
    "int8": ("int_val", "DT_INT8"),
    "int16": ("int_val", "DT_INT16"),
    "int32": ("int_val", "DT_INT32"),
    "int64": ("int64_val", "DT_INT64"),
    "uint8": ("uint32_val", "DT_UINT8"),
    "bool": ("bool_val", "DT_BOOL"),
    "complex64": ("scomplex_val", "DT_COMPLEX64"),
    "complex128": ("dcomplex_val", "DT_COMPLEX128"),
}


def array_of(value: Any) -> Any:
    """Return a tensor, number or list as an array; bfloat16 becomes float32."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype).endswith("bfloat16") else value).numpy()
    return np.asarray(value)


def metadata_of(plugin: str, content: bytes = b"") -> Any:
    """Return which plugin of TensorBoard shows a value."""
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return SummaryMetadata(plugin_data=data)


def tensor_value(
    tag: str, dtype: str, sizes: tuple[int, ...] | None, elements: dict[str, Any], metadata: Any
) -> Any:
    """Return one value of a summary: a tensor with the given elements; `sizes` of None writes no shape."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    shape = None
    if sizes is not None:
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
    tensor = TensorProto(dtype=dtype, tensor_shape=shape, **elements)
    return Summary.Value(tag=tag, tensor=tensor, metadata=metadata)


def summary_of(*values: Any) -> Any:
    """Return a summary with the given values."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=values)


def scalar(
    name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False
) -> Any:
    """Return a number as a summary.

    Args:
        name: the tag.
        tensor: one number.
        collections: ignored.
        new_style: write a tensor, as newer versions of TensorBoard do, instead of a plain number.
        double_precision: write that tensor as float64.
    Raises: AssertionError unless the value has exactly one element.
    """
    from tensorboard.compat.proto.summary_pb2 import Summary

    number = array_of(tensor)
    if number.size != 1:
        raise AssertionError(
            f"add_scalar: Tensor should contain one element: expected one number, got shape {number.shape}"
        )
    try:
        value = float(number.item())
    except (TypeError, ValueError) as error:
        raise type(error)(f"add_scalar: expected a number, got {tensor!r}") from None
    if not new_style:
        return summary_of(Summary.Value(tag=name, simple_value=value))
    field, dtype = _TENSOR_FIELDS["float64" if double_precision else "float32"]
    return summary_of(tensor_value(name, dtype, None, {field: [value]}, metadata_of("scalars")))


def text(tag: str, text: str) -> Any:
    """Return Markdown as a summary."""
    content = {"string_val": [text.encode()]}
    return summary_of(tensor_value(f"{tag}/text_summary", "DT_STRING", (1,), content, metadata_of("text")))


def tensor_proto(tag: str, tensor: Any) -> Any:
    """Return a tensor as a summary; the elements of float16 and bfloat16 are their 16 bits.

    Raises: TypeError for what is not a tensor, ValueError for a dtype that the format does not have.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"add_tensor: expected a tensor, got {type(tensor).__name__}")
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in _TENSOR_FIELDS:
        raise ValueError(
            f"add_tensor: {tag} has unsupported tensor dtype {tensor.dtype}: "
            f"expected one of {sorted(_TENSOR_FIELDS)}, got {name}"
        )
    field, dtype = _TENSOR_FIELDS[name]
    flat = tensor.detach().cpu().reshape(-1)
    if field == "half_val":
        import flambeau

        elements = [bits & 0xFFFF for bits in flat.view(flambeau.int16).tolist()]
    elif tensor.is_complex():
        elements = [part for one in flat.tolist() for part in (one.real, one.imag)]
    else:
        elements = flat.tolist()
    sizes = tuple(tensor.shape)
    return summary_of(tensor_value(tag, dtype, sizes, {field: elements}, metadata_of("tensor")))


def make_histogram(values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """Return counts by bucket; at most about `max_bins` of them, by joining neighbours.

    The first bucket is empty: its limit is where the second starts.

    Raises: ValueError without values, and if no value is within the buckets.
    """
    import numpy as np
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    flat = array_of(values).astype(np.float64).reshape(-1)
    if not flat.size:
        raise ValueError("add_histogram: The input has no element: expected values, got none")
    if max_bins is not None and max_bins < 1:
        raise ValueError(f"add_histogram: expected max_bins of at least 1, got {max_bins}")
    counts, limits = np.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        starts = np.arange(0, len(counts), step)
        counts, limits = np.add.reduceat(counts, starts), np.append(limits[starts], limits[-1])
    used = np.flatnonzero(counts)
    if not used.size:
        raise ValueError(
            f"add_histogram: The histogram is empty: expected values from {limits[0]} to {limits[-1]}, "
            f"got values from {flat.min()} to {flat.max()}"
        )
    first, last = used[0], used[-1] + 1
    return HistogramProto(
        min=flat.min(),
        max=flat.max(),
        num=flat.size,
        sum=flat.sum(),
        sum_squares=flat.dot(flat),
        bucket_limit=limits[first : last + 1].tolist(),
        bucket=[0, *counts[first:last].tolist()],
    )


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """Return how values are distributed as a summary: see `make_histogram`."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    edges = BUCKETS if isinstance(bins, str) and bins == "tensorflow" else bins
    return summary_of(Summary.Value(tag=name, histo=make_histogram(values, edges, max_bins)))


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    """Return a histogram that the caller counted as a summary.

    Raises: ValueError unless there are as many limits as counts.
    """
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

    if len(bucket_limits) != len(bucket_counts):
        raise ValueError(
            "add_histogram_raw: len(bucket_limits) != len(bucket_counts): expected a limit per count, "
            f"got {len(bucket_limits)} limits and {len(bucket_counts)} counts"
        )
    proto = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=array_of(bucket_limits).tolist(),
        bucket=array_of(bucket_counts).tolist(),
    )
    return summary_of(Summary.Value(tag=name, histo=proto))
