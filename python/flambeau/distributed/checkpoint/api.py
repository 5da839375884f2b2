"""The exception of a save or a load."""

from __future__ import annotations

from traceback import StackSummary

__all__ = ["CheckpointException"]

Failure = tuple[BaseException, StackSummary]


class CheckpointException(BaseException):
    """Failure of a save or a load on some ranks, which every rank raises.

    Args:
        msg: the step that failed.
        failures: of each rank that failed the exception and its stack.

    Example:
        >>> from traceback import StackSummary
        >>> from flambeau.distributed.checkpoint import CheckpointException
        >>> print(CheckpointException("load", {1: (KeyError("w"), StackSummary())}))
        CheckpointException: load failed on ranks [1]
        rank 1: KeyError: 'w'
    """

    def __init__(self, msg: str, failures: dict[int, Failure]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Failure]:
        """Of each rank that failed the exception and its stack."""
        return self._failures

    def __str__(self) -> str:
        """Return the failed step and the exception of each rank."""
        found = [(rank, self._failures[rank][0]) for rank in sorted(self._failures)]
        lines = [f"rank {rank}: {type(e).__name__}: {e}" for rank, e in found]
        head = f"CheckpointException: {self.args[0]} failed on ranks {sorted(self._failures)}"
        return "\n".join([head, *lines])
