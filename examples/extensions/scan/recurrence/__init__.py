"""Linear recurrences and monotonic alignments, as operators that are written in C++."""

import flambeau as torch

from . import _native

with_cuda: bool = _native.with_cuda


def scan(x: torch.Tensor, decay: torch.Tensor, initial: torch.Tensor | None = None) -> torch.Tensor:
    """Return ``h[:, t] = decay[:, t] * h[:, t - 1] + x[:, t]``.

    Args:
        x: of shape ``(batch, length, channels)``.
        decay: of the same shape, in any floating dtype.
        initial: the state before the first step, of shape ``(batch, channels)``. Default: zeros.
    """
    return torch.ops.recurrence.scan(x, decay, initial)


def alignment_score(log_probs: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of the sum over monotonic alignments, of shape ``(batch,)``.

    Args:
        log_probs: of frames in states, of shape ``(batch, length, states)``.
    """
    return torch.ops.recurrence.alignment(log_probs)[0]
