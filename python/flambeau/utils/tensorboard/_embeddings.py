"""Points of TensorBoard's projector: files with their coordinates, labels and pictures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from warnings import warn

from flambeau._C import Tensor
from flambeau.utils.tensorboard._pictures import make_grid
from flambeau.utils.tensorboard._summaries import array_of

_TENSORS, _LABELS, _SPRITE, _CONFIG = "tensors.tsv", "metadata.tsv", "sprite.png", "projector_config.pbtxt"


def folder_name(tag: str) -> str:
    """Return a tag as the name of one folder."""
    for character in "%/\\":
        tag = tag.replace(character, f"%{ord(character):02x}")
    return tag


def _check(points: Any, metadata: Any, pictures: Any, header: Any) -> None:
    if points.ndim != 2:
        raise AssertionError(f"add_embedding: mat should be 2D: expected a row per point, got {points.shape}")
    if metadata is not None and len(metadata) != len(points):
        raise AssertionError(
            f"add_embedding: #labels should equal with #data points: expected {len(points)} labels, "
            f"got {len(metadata)}"
        )
    if pictures is not None and (pictures.ndim != 4 or len(pictures) != len(points)):
        raise AssertionError(
            f"add_embedding: #images should equal with #data points: expected {len(points)} pictures "
            f"(N, C, H, W), got shape {pictures.shape}"
        )
    for row in metadata if header and metadata is not None else ():
        columns = 1 if isinstance(row, str) else len(row)
        if columns != len(header):
            raise AssertionError(
                "add_embedding: len of header must be equal to the number of columns in metadata: "
                f"expected {len(header)} columns {header}, got {row!r}"
            )


def _write_labels(path: Path, labels: Any, header: Any) -> None:
    rows = [str(label) for label in labels]
    if header:
        cells = [[label] if isinstance(label, str) else label for label in labels]
        rows = ["\t".join(map(str, row)) for row in (header, *cells)]
    path.write_bytes("".join(row + "\n" for row in rows).encode())


def _write_sprite(path: Path, pictures: Any) -> None:
    """Write pictures as one square, as the projector reads it."""
    import numpy as np
    from PIL import Image

    grid = make_grid(pictures, ncols=math.ceil(math.sqrt(len(pictures)))).transpose(1, 2, 0)
    height, width, channels = grid.shape
    square = np.zeros((max(height, width), max(height, width), channels))
    square[:height, :width] = grid
    factor = 1 if grid.dtype == np.uint8 else 255
    Image.fromarray(np.uint8((square * factor).clip(0, 255))).save(path)


class Projector:
    """The embeddings of one log directory.

    Args:
        folder: the log directory.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.config: Any = None  # made with the first embedding, as that imports tensorboard

    def add(
        self, mat: Any, metadata: Any, label_img: Any, global_step: Any, tag: str, metadata_header: Any
    ) -> None:
        """Write the files of one embedding and name them in the directory's list."""
        from google.protobuf import text_format
        from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

        points = mat.detach().cpu() if isinstance(mat, Tensor) else array_of(mat)
        pictures = None if label_img is None else array_of(label_img)
        _check(points, metadata, pictures, metadata_header)
        number = int(global_step) if isinstance(global_step, Tensor) else global_step or 0
        step = str(number).zfill(5)
        place = f"{step}/{folder_name(tag)}"
        folder = self.folder / place
        if folder.exists():
            warn(f"add_embedding: {folder} exists and is overwritten; give each a global_step", stacklevel=3)
        folder.mkdir(parents=True, exist_ok=True)
        info = EmbeddingInfo(tensor_name=f"{tag}:{step}", tensor_path=f"{place}/{_TENSORS}")
        rows = ("\t".join(map(str, row)) + "\n" for row in points.tolist())
        (folder / _TENSORS).write_bytes("".join(rows).encode())
        if metadata is not None:
            _write_labels(folder / _LABELS, metadata, metadata_header)
            info.metadata_path = f"{place}/{_LABELS}"
        if pictures is not None:
            _write_sprite(folder / _SPRITE, pictures)
            info.sprite.image_path = f"{place}/{_SPRITE}"
            info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
        self.config = ProjectorConfig() if self.config is None else self.config
        self.config.embeddings.append(info)
        (self.folder / _CONFIG).write_text(text_format.MessageToString(self.config))
