"""Summaries of pictures and videos, drawn and encoded by pillow."""

from __future__ import annotations

import io
import math
from typing import Any

from flambeau.utils.tensorboard._summaries import array_of, summary_of

# Pictures in one row of a grid.
_COLUMNS = 8
_LINE_WIDTH = 2
_BOX_COLOR, _TEXT_COLOR = "red", "black"


def make_grid(pictures: Any, ncols: int = _COLUMNS) -> Any:
    """Return pictures, row by row, as one; one channel becomes three.

    Shape: pictures: `(N, C, H, W)`; result: `(C, rows * H, columns * W)`.
    Raises: AssertionError for another shape.
    """
    import numpy as np

    if pictures.ndim != 4 or pictures.shape[1] not in (1, 3):
        raise AssertionError(
            f"add_images: expected pictures (N, C, H, W) with 1 or 3 channels, got shape {pictures.shape}"
        )
    if pictures.shape[1] == 1:
        pictures = np.repeat(pictures, 3, axis=1)
    count, channels, height, width = pictures.shape
    columns = max(1, min(count, ncols))
    rows = -(-count // columns)
    grid = np.zeros((channels, rows * height, columns * width), pictures.dtype)
    for i, picture in enumerate(pictures):
        top, left = i // columns * height, i % columns * width
        grid[:, top : top + height, left : left + width] = picture
    return grid


def convert_to_HWC(tensor: Any, input_format: str) -> Any:
    """Return an array with the dimensions height, width and channel, in this order.

    Args:
        tensor: an array.
        input_format: a letter per dimension: H and W, C for channels, N for pictures that go into a grid.
    Raises: AssertionError for a letter that occurs twice and for another number of dimensions, ValueError for
        an unknown letter and without H and W.
    """
    import numpy as np

    form = input_format.upper()
    if len(set(form)) != len(form):
        raise AssertionError(f"add_image: expected each letter once in dataformats, got {input_format!r}")
    if tensor.ndim != len(form):
        raise AssertionError(
            f"add_image: expected {len(form)} dimensions {input_format!r}, got shape {tensor.shape}"
        )
    if set(form) - set("NCHW") or not set(form) >= set("HW"):
        raise ValueError(f"add_image: expected dataformats of N, C, H and W, got {input_format!r}")
    if "C" not in form:
        tensor, form = np.repeat(tensor[..., None], 3, axis=-1), form + "C"
    order = [form.index(letter) for letter in "NCHW" if letter in form]
    pixels = tensor.transpose(order)
    pixels = make_grid(pixels) if "N" in form else pixels
    pixels = pixels.transpose(1, 2, 0)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def _to_bytes(pixels: Any) -> Any:
    """Return bytes as they are, and numbers from 0 to 1 as bytes."""
    import numpy as np

    factor = 1 if pixels.dtype == np.uint8 else 255
    return np.nan_to_num(pixels.astype(np.float32) * factor).clip(0, 255).astype(np.uint8)


def draw_boxes(disp_image: Any, boxes: Any, labels: Any = None) -> Any:
    """Draw a frame per box into a picture of pillow, with its label in the lower left corner.

    Args:
        disp_image: the picture.
        boxes: left, top, right and bottom of each.
        labels: a text per box; or None.
    """
    from PIL import ImageDraw, ImageFont

    draw, font = ImageDraw.Draw(disp_image), ImageFont.load_default()
    for i, (left, top, right, bottom) in enumerate(boxes.tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        draw.line(corners, width=_LINE_WIDTH, fill=_BOX_COLOR)
        if labels is not None:
            start, upper, end, lower = font.getbbox(labels[i])
            width, height = end - start, lower - upper
            margin = math.ceil(0.05 * height)
            background = [left, bottom - height - 2 * margin, left + width, bottom]
            draw.rectangle(background, fill=_BOX_COLOR)
            draw.text((left + margin, bottom - height - margin), labels[i], fill=_TEXT_COLOR, font=font)
    return disp_image


def make_image(tensor: Any, rescale: float = 1, rois: Any = None, labels: Any = None) -> Any:
    """Return a picture's record; boxes are drawn before it is scaled.

    Args:
        tensor: bytes.
        rescale: the factor by which the picture is scaled; the record keeps the size before.
        rois: boxes, as for `draw_boxes`; or None.
        labels: a text per box; or None.
    Shape: tensor: `(H, W, C)`.
    Raises: ValueError for other than 1 to 4 channels.
    """
    from PIL import Image
    from tensorboard.compat.proto.summary_pb2 import Summary

    height, width, channels = tensor.shape
    if channels not in (1, 2, 3, 4):
        raise ValueError(f"add_image: expected 1 to 4 channels, got {channels}")
    picture = Image.fromarray(tensor[..., 0] if channels == 1 else tensor)
    if rois is not None:
        picture = draw_boxes(picture, rois, labels)
    picture = picture.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=buffer.getvalue()
    )


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """Return a picture as a summary: bytes, or numbers from 0 to 1; for its shape see `convert_to_HWC`."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    pixels = _to_bytes(convert_to_HWC(array_of(tensor), dataformats))
    return summary_of(Summary.Value(tag=tag, image=make_image(pixels, rescale)))


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Any = None,
) -> Any:
    """Return a picture with boxes as a summary.

    Args:
        tag: the name.
        tensor_image: the picture, as for `image`.
        tensor_boxes: left, top, right and bottom of each, in pixels.
        rescale: the factor by which the picture is scaled in the end.
        dataformats: the dimensions of the picture.
        labels: a text per box; or None.
    Shape: tensor_boxes: `(N, 4)`.
    Raises: IndexError for boxes of another shape, and if there are fewer labels than boxes.
    """
    from tensorboard.compat.proto.summary_pb2 import Summary

    pixels, boxes = _to_bytes(convert_to_HWC(array_of(tensor_image), dataformats)), array_of(tensor_boxes)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise IndexError(f"add_image_with_boxes: expected boxes (N, 4), got shape {boxes.shape}")
    if labels is not None and len(labels) < len(boxes):
        raise IndexError(
            f"add_image_with_boxes: expected a label per box, got {len(labels)} for {len(boxes)} boxes"
        )
    picture = make_image(pixels, rescale, boxes, labels)
    return summary_of(Summary.Value(tag=tag, image=picture))


def frames_of(videos: Any) -> Any:
    """Return frames of videos that run beside one another; their number is filled up to a power of two.

    Shape: videos: `(N, T, C, H, W)`; result: `(T, rows * H, columns * W, C)`.
    Raises: ValueError for another number of dimensions.
    """
    import numpy as np

    if videos.ndim != 5:
        raise ValueError(f"add_video: expected videos (N, T, C, H, W), got shape {videos.shape}")
    count, times, channels, height, width = videos.shape
    rows = 2 ** (max(count.bit_length() - 1, 0) // 2)
    columns = 2 ** max(count - 1, 0).bit_length() // rows
    filled = np.zeros((rows * columns, *videos.shape[1:]), videos.dtype)
    filled[:count] = videos
    grid = filled.reshape(rows, columns, times, channels, height, width).transpose(2, 0, 4, 1, 5, 3)
    return grid.reshape(times, rows * height, columns * width, channels)


def make_video(tensor: Any, fps: float) -> Any:
    """Return a video's record: a GIF. Frames have 256 colors at most and last whole hundredths of a second.

    Args:
        tensor: bytes.
        fps: frames per second.
    Shape: tensor: `(T, H, W, C)`.
    Raises: ValueError without frames, for other than 1, 3 or 4 channels, and unless `fps` is positive.
    """
    from PIL import Image
    from tensorboard.compat.proto.summary_pb2 import Summary

    times, height, width, channels = tensor.shape
    if not times or channels not in (1, 3, 4):
        raise ValueError(f"add_video: expected frames with 1, 3 or 4 channels, got shape {tensor.shape}")
    if not fps > 0:
        raise ValueError(f"add_video: expected fps above 0, got {fps}")
    first, *others = (Image.fromarray(frame[..., 0] if channels == 1 else frame) for frame in tensor)
    buffer = io.BytesIO()
    first.save(buffer, format="GIF", save_all=True, append_images=others, duration=round(1000 / fps), loop=0)
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=buffer.getvalue()
    )


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """Return videos beside one another as a summary: see `frames_of` and `make_video`."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    frames = _to_bytes(frames_of(array_of(tensor)))
    return summary_of(Summary.Value(tag=tag, image=make_video(frames, fps)))
