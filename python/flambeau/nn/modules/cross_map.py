"""Local response normalisation over channels of images, as Lua's networks had it."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module


class CrossMapLRN2d(Module):
    r"""Divide each channel by a power of the squares of its neighbours.

    .. math:: y_c = x_c \, / \, \Big(k + \frac{\alpha}{n} \sum_{|i - c| \le (n - 1) / 2} x_i^2\Big)^\beta

    PyTorch never lets go of the square of channel 0 once it has left the neighbourhood; here it leaves.

    Args:
        size: the n of the formula, at least 1.
        alpha: weight of the mean square.
        beta: exponent.
        k: what is added to the mean square.
    Shape: ``(batch, channels, height, width)`` to the same.
    Raises: ValueError for other numbers of dimensions.
    Source: Krizhevsky et al. 2012, "ImageNet classification", section 3.3.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: expected 4D input, got {input.dim()}D")
        reach = (self.size - 1) // 2
        squares = F.pad(input.square(), (0, 0, 0, 0, reach, reach))
        sums = squares.unfold(1, 2 * reach + 1, 1).sum(-1)
        return input / (self.k + self.alpha / self.size * sums) ** self.beta

    def extra_repr(self) -> str:
        """Show the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
