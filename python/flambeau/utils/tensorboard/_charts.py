"""Summaries of TensorBoard's plugins for precision and recall, chosen scalars, meshes and sound."""

from __future__ import annotations

import io
import json
import wave
from typing import Any
from warnings import warn

from flambeau.utils.tensorboard._summaries import array_of, metadata_of, summary_of, tensor_value

# As many as the plugin shows.
_MOST_THRESHOLDS = 127
# A ratio of counts that are all 0 is 0.
_LEAST_COUNT = 1e-7
_LARGEST_SAMPLE = 2**15 - 1


def compute_curve(
    labels: Any, predictions: Any, num_thresholds: int | None = None, weights: Any = None
) -> Any:
    r"""Return true and false positives, true and false negatives, precision and recall by threshold.

    The thresholds are multiples of `1 / (num_thresholds - 1)`. A prediction is positive for the thresholds
    up to its own value.

    Args:
        labels: 1 or True for positive; 0 or False for negative.
        predictions: probabilities of being positive; those outside `[0, 1]` are not counted.
        num_thresholds: how many; default: 127.
        weights: of each prediction, or of all; default: 1.
    Shape: labels, predictions and weights: the same; result: `(6, num_thresholds)`.
    Raises: ValueError if the shapes differ or `num_thresholds` is less than 1.
    """
    import numpy as np

    count = _MOST_THRESHOLDS if num_thresholds is None else num_thresholds
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"add_pr_curve: expected an integer as num_thresholds, got {count!r}")
    if count < 1:
        raise ValueError(f"add_pr_curve: expected num_thresholds of at least 1, got {count}")
    truth, given = array_of(labels).astype(np.float64), array_of(predictions)
    weight = array_of(1.0 if weights is None else weights).astype(np.float64)
    if truth.shape != given.shape or weight.shape not in ((), given.shape):
        raise ValueError(
            "add_pr_curve: expected labels, predictions and weights of the same shape, got "
            f"{truth.shape}, {given.shape} and {weight.shape}"
        )
    place = np.floor(np.nan_to_num(given * (count - 1), nan=-1)).reshape(-1)
    weight, truth = np.broadcast_to(weight, given.shape).reshape(-1), truth.reshape(-1)
    inside = (place >= 0) & (place < count)
    place = place[inside].astype(np.int64)

    def at_least(amounts: Any) -> Any:
        return np.bincount(place, amounts[inside], count)[::-1].cumsum()[::-1]

    tp, fp = at_least(truth * weight), at_least((1 - truth) * weight)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision, recall = tp / np.maximum(_LEAST_COUNT, tp + fp), tp / np.maximum(_LEAST_COUNT, tp + fn)
    return np.stack((tp, fp, tn, fn, precision, recall))


def _curve_summary(tag: str, rows: Any, num_thresholds: int) -> Any:
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    elements = {"float_val": rows.reshape(-1).tolist()}
    metadata = metadata_of("pr_curves", content)
    return summary_of(tensor_value(tag, "DT_FLOAT", rows.shape[:2], elements, metadata))


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None) -> Any:
    """Return precision and recall by threshold, 127 at most, as a summary: see `compute_curve`."""
    count = min(num_thresholds, _MOST_THRESHOLDS)
    return _curve_summary(tag, compute_curve(labels, predictions, count, weights), count)


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
    weights: Any = None,
) -> Any:
    """Return counts by threshold that the caller made as a summary.

    Args:
        tag: the name.
        tp: true positives by threshold.
        fp: false positives.
        tn: true negatives.
        fn: false negatives.
        precision: by threshold.
        recall: by threshold.
        num_thresholds: how many thresholds the plugin shows, 127 at most.
        weights: ignored.
    Raises: ValueError unless all have the same shape.
    """
    import numpy as np

    rows = [array_of(row) for row in (tp, fp, tn, fn, precision, recall)]
    if len({row.shape for row in rows}) > 1 or rows[0].ndim < 1:
        shapes = ", ".join(str(row.shape) for row in rows)
        raise ValueError(f"add_pr_curve_raw: expected six rows of the same length, got shapes {shapes}")
    return _curve_summary(tag, np.stack(rows), min(num_thresholds, _MOST_THRESHOLDS))


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Any:
    """Return which scalars TensorBoard shows in one chart as a summary.

    Args:
        layout: from categories to charts: from titles to a kind and tags. The kind "Margin" has three tags: a
            value, its lower and its upper bound. Every other kind shows a line per tag.
    Raises: TypeError for a layout of another form, AssertionError for a margin of other than three tags.
    """
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    categories = []
    for category, charts in _items(layout, "a dict of categories"):
        made = []
        for title, chart in _items(charts, f"a dict of charts for the category {category!r}"):
            if not isinstance(chart, list | tuple) or len(chart) < 2:
                raise TypeError(f"add_custom_scalars: expected a kind and tags as {title!r}, got {chart!r}")
            made.append(_chart(layout_pb2, title, chart[0], list(chart[1])))
        categories.append(layout_pb2.Category(title=category, chart=made))
    content = {"string_val": [layout_pb2.Layout(category=categories).SerializeToString()]}
    plugin = metadata_of(metadata.PLUGIN_NAME)
    return summary_of(tensor_value(metadata.CONFIG_SUMMARY_TAG, "DT_STRING", (), content, plugin))


def _items(given: Any, expected: str) -> Any:
    if not isinstance(given, dict):
        raise TypeError(f"add_custom_scalars: expected {expected}, got {given!r}")
    if not all(isinstance(name, str) for name in given):
        raise TypeError(f"add_custom_scalars: expected {expected} by name, got {given!r}")
    return given.items()


def _chart(layout_pb2: Any, title: str, kind: str, tags: list[str]) -> Any:
    if kind != "Margin":
        return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
    if len(tags) != 3:
        raise AssertionError(
            f"add_custom_scalars: len(tags) != 3: expected a value, a lower and an upper bound, got {tags}"
        )
    value, lower, upper = tags
    series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
    return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Any,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """Return points or triangles in space as a summary.

    Args:
        tag: the name.
        vertices: coordinates.
        colors: red, green and blue of each vertex, from 0 to 255; or None.
        faces: three numbers of vertices per triangle; or None.
        config_dict: settings of the page's scene, which become JSON; or None.
        display_name: what the page shows instead of the tag.
        description: Markdown.
    Shape: vertices and colors: `(B, N, 3)`; faces: `(B, F, 3)`.
    Raises: ValueError for another number of dimensions, TypeError for settings that JSON does not have.
    """
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    kinds = MeshPluginData.ContentType
    given = [(kinds.VERTEX, vertices), (kinds.FACE, faces), (kinds.COLOR, colors)]
    arrays = [(kind, array_of(value)) for kind, value in given if value is not None]
    settings = json.dumps({} if config_dict is None else config_dict, sort_keys=True)
    components = metadata.get_components_bitmask([kind for kind, _ in arrays])
    values = []
    for kind, array in arrays:
        if array.ndim != 3:
            raise ValueError(f"add_mesh: expected a shape of BxNx3, got {array.shape}")
        about = metadata.create_summary_metadata(
            tag, display_name, kind, components, array.shape, description, json_config=settings
        )
        content = {"float_val": array.reshape(-1).tolist()}
        name = metadata.get_instance_name(tag, kind)
        values.append(tensor_value(name, "DT_FLOAT", array.shape, content, about))
    return summary_of(*values)


def audio(tag: str, tensor: Any, sample_rate: float = 44100) -> Any:
    """Return sound of one channel as a summary: a WAV file with 16 bits per sample.

    Args:
        tag: the name.
        tensor: samples from -1 to 1; others are clipped, with a warning.
        sample_rate: samples per second.
    Shape: tensor: `(L,)` or `(1, L)`.
    Raises: AssertionError for another shape, ValueError without samples, wave.Error for a rate below 1.
    """
    import numpy as np
    from tensorboard.compat.proto.summary_pb2 import Summary

    given = array_of(tensor)
    samples = given.squeeze() if given.size != 1 else given.reshape(-1 if given.ndim else ())
    if samples.ndim != 1:
        raise AssertionError(
            f"add_audio: input tensor should be 1 dimensional: expected samples of one channel, "
            f"got shape {given.shape}"
        )
    if not samples.size:
        raise ValueError("add_audio: expected samples, got none")
    if round(sample_rate) < 1:
        raise wave.Error(f"add_audio: expected a sample_rate of at least 1, got {sample_rate}")
    if np.abs(samples).max() > 1:
        warn("add_audio: samples outside [-1, 1] are clipped", stacklevel=3)
        samples = samples.clip(-1, 1)
    pcm = (np.nan_to_num(samples) * _LARGEST_SAMPLE).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(pcm.tobytes())
    proto = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(pcm),
        encoded_audio_string=buffer.getvalue(),
        content_type="audio/wav",
    )
    return summary_of(Summary.Value(tag=tag, audio=proto))
