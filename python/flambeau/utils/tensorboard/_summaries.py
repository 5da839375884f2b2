"""Summaries: the records that TensorBoard reads, from tensors and arrays."""

from __future__ import annotations

import io
from typing import Any

# TensorBoard's own buckets: powers of 1.1 from 1e-12, mirrored, as its histogram plugin expects by default.
_POSITIVE = [1e-12 * 1.1**i for i in range(774)]
BUCKETS = [*(-b for b in reversed(_POSITIVE)), 0.0, *_POSITIVE]


def array_of(value: Any) -> Any:
    """Return a tensor, number or list as an array; bfloat16 becomes float32."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype).endswith("bfloat16") else value).numpy()
    return np.asarray(value)


def scalar(tag: str, value: Any) -> Any:
    """A number; ValueError unless the value has exactly one element."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    number = array_of(value)
    if number.size != 1:
        raise ValueError(f"add_scalar: expected one number, got shape {number.shape}")
    return Summary(value=[Summary.Value(tag=tag, simple_value=float(number.reshape(())))])


def _plugin(name: str) -> Any:
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name))


def text(tag: str, string: str) -> Any:
    """Markdown."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    tensor = TensorProto(
        dtype="DT_STRING",
        string_val=[string.encode()],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    return Summary(value=[Summary.Value(tag=f"{tag}/text_summary", metadata=_plugin("text"), tensor=tensor)])


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> Any:
    """Counts by bucket; ValueError without values."""
    import numpy as np
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

    flat = array_of(values).astype(np.float64).reshape(-1)
    if not flat.size:
        raise ValueError("add_histogram: expected values, got none")
    edges = BUCKETS if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = np.histogram(flat, bins=edges)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.append(limits[:-1][::step], limits[-1])
    used = np.flatnonzero(counts)
    first, last = (used[0], used[-1] + 1) if used.size else (0, 1)
    proto = HistogramProto(
        min=flat.min(),
        max=flat.max(),
        num=flat.size,
        sum=flat.sum(),
        sum_squares=(flat * flat).sum(),
        bucket_limit=limits[first + 1 : last + 1].tolist(),
        bucket=counts[first:last].tolist(),
    )
    return Summary(value=[Summary.Value(tag=tag, histo=proto)])


def image(tag: str, value: Any, dataformats: str) -> Any:
    """A picture; floats are in [0, 1], bytes in [0, 255]. ValueError if the shape is not `dataformats`."""
    import numpy as np
    from PIL import Image
    from tensorboard.compat.proto.summary_pb2 import Summary

    pixels = array_of(value)
    form = dataformats.upper()
    if sorted(form) != sorted(set(form)) or set(form) - set("NCHW") or pixels.ndim != len(form):
        raise ValueError(f"add_image: expected {len(form)} dimensions {form!r}, got shape {pixels.shape}")
    pixels = np.moveaxis(pixels, [form.index(d) for d in "NHWC" if d in form], range(len(form)))
    if "C" not in form:
        pixels = pixels[..., None]
    if "N" in form:  # side by side
        pixels = np.concatenate(list(pixels), axis=1)
    if pixels.dtype != np.uint8:
        pixels = (np.nan_to_num(pixels.astype(np.float64)).clip(0, 1) * 255).round().astype(np.uint8)
    height, width, channels = pixels.shape
    if channels not in (1, 3, 4):
        raise ValueError(f"add_image: expected 1, 3 or 4 channels, got {channels}")
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(buffer, format="PNG")
    proto = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=buffer.getvalue()
    )
    return Summary(value=[Summary.Value(tag=tag, image=proto)])
