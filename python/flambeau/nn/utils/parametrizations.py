"""Ready parametrizations: weights that are normalised whenever they are read."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import parametrize
from flambeau.nn.utils.normalized import norm_except, power_iteration

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.n_power_iterations, self.eps = n_power_iterations, eps
        if weight.dim() > 1:
            with flambeau.no_grad():
                matrix = self._matrix(weight)
                for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    drawn = matrix.new_empty(size).normal_(0, 1)
                    self.register_buffer(name, flambeau.nn.functional.normalize(drawn, dim=0, eps=eps))
                self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with flambeau.no_grad():
            for _ in range(times):
                # The left vector first: it is the one that a new weight changes most.
                power_iteration(matrix.t(), self._v, self._u, self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return flambeau.nn.functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next iteration writes to the buffers
        return weight / flambeau.dot(u, flambeau.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length and the direction of a weight apart, as originals 0 and 1.

    Args:
        module: the owner.
        name: of the weight.
        dim: along which each slice has a length of its own; None: one for all.
    Source: Salimans and Kingma 2016, "Weight normalization".
    """
    return parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, which each reading in training estimates better.

    Args:
        module: the owner.
        name: of the weight.
        n_power_iterations: iterations per reading.
        eps: smallest norm that is divided by.
        dim: of the outputs; 0, for transposed convolutions 1.
    Source: Miyato et al. 2018, "Spectral normalization for generative adversarial networks".
    """
    if dim is None:
        dim = 1 if getattr(module, "transposed", False) else 0
    made = _SpectralNorm(getattr(module, name), n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
