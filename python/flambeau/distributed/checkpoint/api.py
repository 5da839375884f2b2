"""The exception of a save or a load."""

from __future__ import annotations

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """Failure of a save or a load on some ranks, which every rank raises.

    Args:
        msg: the step that failed.
        failures: the exception of each rank that failed.

    Example:
        >>> from flambeau.distributed.checkpoint import CheckpointException
        >>> print(CheckpointException("load", {1: KeyError("w")}))
        CheckpointException: load failed on ranks [1]
        rank 1: KeyError: 'w'
    """

    def __init__(self, msg: str, failures: dict[int, BaseException]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, BaseException]:
        """The exception of each rank that failed."""
        return self._failures

    def __str__(self) -> str:
        """Return the failed step and the exception of each rank."""
        lines = [f"rank {rank}: {type(e).__name__}: {e}" for rank, e in sorted(self._failures.items())]
        head = f"CheckpointException: {self.args[0]} failed on ranks {sorted(self._failures)}"
        return "\n".join([head, *lines])
