"""FileWriter: one file of events."""

from __future__ import annotations

import time
from typing import Any


class FileWriter:
    """Writes summaries with a step and a time to one file.

    Args:
        log_dir: the folder.
        max_queue: how many events are kept before they are written.
        flush_secs: the seconds after which they are written in any case.
        filename_suffix: the end of the file's name.

    Example:
        >>> writer = flambeau.utils.tensorboard.FileWriter("runs/first")  # doctest: +SKIP
        >>> writer.close()  # doctest: +SKIP
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write an event."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a summary."""
        from tensorboard.compat.proto.event_pb2 import Event

        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Write a pair of a graph and of what its run took on each device."""
        from tensorboard.compat.proto.event_pb2 import Event, TaggedRunMetadata

        graph, run = graph_profile
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)
        tagged = TaggedRunMetadata(tag="step1", run_metadata=run.SerializeToString())
        self.add_event(Event(tagged_run_metadata=tagged), None, walltime)

    def flush(self) -> None:
        """Write what is queued."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what is queued and close the file."""
        self.event_writer.close()
