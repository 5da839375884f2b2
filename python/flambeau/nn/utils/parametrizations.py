"""Ready parametrizations: weights that are normalised whenever they are read."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.utils import parametrize
from flambeau.nn.utils.normalized import check_iterations, dim_of_outputs, norm_except, power_iteration

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


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
        check_iterations("spectral_norm", n_power_iterations)
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


class _Orthogonal(Module):
    """An orthogonal matrix of any matrix; tall, or the transpose of a tall one.

    With a base, the map is relative to it: the unparametrized matrix starts as the one that gives the base.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, map_: str, trivialize: bool) -> None:
        super().__init__()
        if weight.is_complex() and map_ == "householder":
            raise ValueError(
                "parametrizations.orthogonal: expected 'matrix_exp' or 'cayley' for complex weights, got "
                "'householder'"
            )
        self.shape = weight.shape
        self.map = map_
        self.register_buffer("base", None)
        self._follows = trivialize

    def forward(self, x: Tensor) -> Tensor:
        n, k = x.shape[-2:]
        wide = n < k
        if wide:
            x, n, k = x.mT, k, n
        found = self._reflected(x) if self.map == "householder" else self._from_skew(x, n, k)
        if self.base is not None:
            found = self.base @ found
        return found.mT if wide else found

    def _reflected(self, x: Tensor) -> Tensor:
        # The matrix keeps Q times the signs of R, as `right_inverse` stores them on the diagonal.
        a = x.tril(-1)
        tau = 2.0 / (1.0 + (a * a).sum(-2))
        q = flambeau.linalg.householder_product(a, tau)
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _from_skew(self, x: Tensor, n: int, k: int) -> Tensor:
        a = x.tril()
        if n != k:
            a = flambeau.cat([a, a.new_zeros(n, n - k).expand(*a.shape[:-2], -1, -1)], -1)
        a = a - a.mH
        if self.map == "matrix_exp":
            q = flambeau.linalg.matrix_exp(a)
        else:
            one = flambeau.eye(n, dtype=a.dtype, device=a.device)
            q = flambeau.linalg.solve(one - 0.5 * a, one + 0.5 * a)
        return q[..., :k] if n != k else q

    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(f"orthogonal: expected a weight of shape {self.shape}, got {q.shape}")
        n, k = q.shape[-2:]
        wide = n < k
        start = q.mT if wide else q
        if self._follows:
            self.base = _square_basis(start)
            # Reflectors of zeros are the identity if their signs are negative; skew parts ignore it.
            none = flambeau.zeros_like(start)
            none.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return none.mT if wide else none
        if self.map != "householder":
            raise NotImplementedError(
                "orthogonal: values can be assigned with 'householder', or with use_trivialization=True"
            )
        a, tau = flambeau.geqrf(start)
        signs = a.diagonal(dim1=-2, dim2=-1).sign()
        signs[tau == 0.0] *= -1
        a.diagonal(dim1=-2, dim2=-1).copy_(signs)
        return a.mT if wide else a


def _square_basis(x: Tensor) -> Tensor:
    """Return orthonormal columns; the first ones are the columns of x, made orthonormal."""
    basis, missing = _orthonormal(x), x.shape[-2] - x.shape[-1]
    if not missing:
        return basis
    return _orthonormal(flambeau.cat([basis, basis.new_empty(*x.shape[:-1], missing).normal_()], -1))


def _orthonormal(x: Tensor) -> Tensor:
    """Return x if its columns are orthonormal, else the Q of QR, with a positive diagonal of R."""
    size = x.shape[-1]
    one = flambeau.eye(size, dtype=x.dtype, device=x.device)
    eps = flambeau.finfo(x.dtype).eps
    if bool(((x.mH @ x - one).abs() < 10.0 * x.shape[-2] * eps).all()):
        return x.clone()
    q, r = flambeau.linalg.qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix orthogonal (unitary if complex): columns are orthonormal, or rows if these are fewer.

    Args:
        module: the owner of the matrix, which is changed.
        name: the name of the matrix, or of a batch of them.
        orthogonal_map: "matrix_exp" or "cayley" of a skew-symmetric matrix, or "householder", a product of
            reflections. None means the first for square or complex matrices, the last for others.
        use_trivialization: whether the map is relative to a base, so that the matrix starts as it is if it is
            orthogonal, or else as the Q of its QR decomposition.
    Returns: `module`.
    Raises: ValueError for fewer than 2 dimensions, another map, or a name that is not a tensor of the module.
    Source: Lezcano-Casado 2019, "Trivializations for Gradient-Based Optimization on Manifolds".

    Example:
        >>> layer = flambeau.nn.utils.parametrizations.orthogonal(flambeau.nn.Linear(2, 2))
        >>> flambeau.allclose(layer.weight @ layer.weight.T, flambeau.eye(2), atol=1e-5)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(
            f"parametrizations.orthogonal: expected a parameter or buffer '{name}', got {module}, which has "
            f"no parameter '{name}'"
        )
    if weight.dim() < 2:
        raise ValueError(f"orthogonal: expected matrices, got {weight.dim()} dimensions")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            "parametrizations.orthogonal: expected orthogonal_map 'cayley', 'householder' or "
            f"'matrix_exp', got {orthogonal_map!r}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Divide a weight into length and direction, which are learned apart as originals 0 and 1.

    States of `nn.utils.weight_norm`, the older form, can be loaded.

    Formula: weight = original0 * original1 / |original1|, norms over all dimensions but dim
    Args:
        module: the owner of the weight, which is changed.
        name: the name of the weight.
        dim: the dimension along which each slice has a length of its own. None means one length for all.
    Returns: `module`.
    Source: Salimans & Kingma 2016, "Weight Normalization".

    Example:
        >>> layer = flambeau.nn.utils.parametrizations.weight_norm(flambeau.nn.Linear(2, 3))
        >>> layer.parametrizations.weight.original0.shape
        flambeau.Size([3, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, whose estimate improves with each reading in training.

    Formula: weight = original / (u^T original v), u and v from power iterations
    Args:
        module: the owner of the weight, which is changed.
        name: the name of the weight.
        n_power_iterations: the number of iterations per reading, above 0.
        eps: the least norm that vectors are divided by.
        dim: the dimension of the outputs. None means 1 for transposed convolutions, else 0.
    Returns: `module`.
    Raises: ValueError for a name that is not a tensor of the module, or no iterations.
    Source: Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks".

    Example:
        >>> layer = flambeau.nn.Linear(2, 2)
        >>> layer.weight.data = flambeau.eye(2) * 3.0
        >>> flambeau.nn.utils.parametrizations.spectral_norm(layer).weight.detach().round(decimals=3)
        tensor([[1., 0.],
                [0., 1.]])
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(
            f"parametrizations.spectral_norm: expected a parameter or buffer '{name}', got {module} "
            "without it"
        )
    dim = dim_of_outputs(module, dim)
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
