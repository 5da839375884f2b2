"""SummaryWriter: one file of events per log directory."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from flambeau.utils.tensorboard import _pictures, _summaries
from flambeau.utils.tensorboard._embeddings import Projector
from flambeau.utils.tensorboard._event_file import FileWriter
from flambeau.utils.tensorboard._plugin_writer import PluginWriter
from flambeau.utils.tensorboard._settings import hparams

__all__ = ["FileWriter", "SummaryWriter"]


class SummaryWriter(PluginWriter):
    """Writes scalars, images and other data for TensorBoard.

    Args:
        log_dir: the folder; default: ``runs/`` with the time and the machine's name.
        comment: the end of the default folder's name.
        purge_step: events of this step and later ones, written by a run that crashed, are hidden.
        max_queue: how many events are kept before they are written.
        flush_secs: the seconds after which they are written in any case.
        filename_suffix: the end of the file's name.

    Example:
        >>> with flambeau.utils.tensorboard.SummaryWriter("runs/first") as writer:  # doctest: +SKIP
        ...     writer.add_scalar("loss", 0.5, global_step=1)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")  # noqa: PTH118
        self.log_dir = str(log_dir)
        self._options = (max_queue, flush_secs, filename_suffix)
        self._projector = Projector(self.log_dir)
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.purge_step = purge_step
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                from tensorboard.compat.proto.event_pb2 import Event, SessionLog

                # TensorBoard hides later steps of other files only where a session starts.
                start = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                self.file_writer.add_event(Event(session_log=start), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number; `new_style` as a tensor, which `double_precision` makes float64."""
        found = _summaries.scalar(tag, scalar_value, None, new_style, double_precision)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers for one plot, each in a folder of its own."""
        self._get_file_writer()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            writer = self.all_writers.get(folder)
            if writer is None:
                writer = self.all_writers[folder] = FileWriter(folder, *self._options)
            writer.add_summary(_summaries.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are distributed."""
        found = _summaries.histogram(tag, values, bins, max_bins)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture."""
        found = _pictures.image(tag, img_tensor, dataformats=dataformats)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write pictures, eight in a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of matplotlib, or several of one size, eight in a row."""
        from matplotlib import pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        pictures = []
        for one in figure if isinstance(figure, list) else [figure]:
            canvas: Any = FigureCanvasAgg(one)  # matplotlib annotates only a part of its methods
            canvas.draw()
            pictures.append(_summaries.array_of(canvas.buffer_rgba())[..., :3])
            if close:
                pyplot.close(one)
        if isinstance(figure, list):
            self.add_image(tag, pictures, global_step, walltime, "NHWC")
        else:
            self.add_image(tag, pictures[0], global_step, walltime, "HWC")

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write Markdown."""
        self._get_file_writer().add_summary(_summaries.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write settings of a run for TensorBoard's plugin, and its results as scalars."""
        summaries = hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(f"{self.log_dir}/{run_name or time.time()}") as writer:
            for summary in summaries:
                writer._get_file_writer().add_summary(summary, global_step)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def flush(self) -> None:
        """Write what is queued."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Close the files, all of them even if one fails; a later call opens new ones."""
        writers = (self.all_writers or {}).values()
        self.file_writer = self.all_writers = None
        with ExitStack() as stack:
            for writer in writers:
                stack.callback(writer.close)
                stack.callback(writer.flush)

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
