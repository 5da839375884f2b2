"""Local response normalisation over channels of images, as Lua's networks had it."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module


class CrossMapLRN2d(Module):
    """Normalization of each channel by the squares of its neighbours, as Lua's networks had it.

    PyTorch keeps the square of channel 0 in its sums after the neighbourhood has passed it; here it leaves.

    Formula: result[c] = input[c] / (k + alpha / size * sum over |i - c| <= (size - 1) / 2 of input[i]^2)^beta
    Args:
        size: the number of channels of a neighbourhood, odd and at least 1.
        alpha: the factor of the mean square.
        beta: the exponent.
        k: what is added to the mean square.
    Shape: ``(batch, channels, height, width)`` to the same.
    Raises: ValueError for another number of dimensions.
    Source: Krizhevsky, Sutskever & Hinton 2012, "ImageNet Classification with Deep Convolutional Neural
        Networks", section 3.3.
    See also: LocalResponseNorm

    Example:
        >>> layer = flambeau.nn.CrossMapLRN2d(1, alpha=3.0, beta=1.0)
        >>> layer(flambeau.ones(1, 1, 1, 2)).flatten()
        tensor([0.2500, 0.2500])
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
