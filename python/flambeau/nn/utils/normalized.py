"""Weights that are kept normalised: by their direction's length, by their largest singular value."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """Return the norm over all dimensions but one (None, -1: over all), which keep size 1."""
    return flambeau.norm_except_dim(v, 2, -1 if dim is None else dim)


class _WeightNorm:
    """The hook that computes a weight from its length and direction before each call."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, dim

    def weight(self, module: Module) -> Tensor:
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return v * (g / norm_except(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.weight(module))


class _SpectralNorm:
    """The hook that divides a weight by its largest singular value, by power iteration, before each call."""

    def __init__(self, name: str, iterations: int, dim: int, eps: float) -> None:
        check_iterations("spectral_norm", iterations)
        self.name, self.iterations, self.dim, self.eps = name, iterations, dim, eps

    def weight(self, module: Module, iterate: bool) -> Tensor:
        w, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = w.movedim(self.dim, 0).flatten(1)
        if iterate:
            with flambeau.no_grad():
                for _ in range(self.iterations):
                    power_iteration(matrix, u, v, self.eps)
                u, v = u.clone(), v.clone()  # the next iteration writes to the buffers
        return w / flambeau.dot(u, flambeau.mv(matrix, v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.weight(module, module.training))


class _SpectralNormVersion:
    """The hook that notes the form of the saved vectors, as `load_state_dict` of PyTorch asks for it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        local_metadata.setdefault("spectral_norm", {})[f"{self.name}.version"] = 1


def check_iterations(who: str, n_power_iterations: int) -> None:
    """Refuse a number of iterations that would leave the vectors as they were drawn."""
    if n_power_iterations <= 0:
        raise ValueError(f"{who}: expected n_power_iterations > 0, got {n_power_iterations}")


def dim_of_outputs(module: Module, dim: int | None) -> int:
    """Return the dimension of a weight that counts outputs, unless one is given."""
    if dim is not None:
        return dim
    return 1 if getattr(module, "transposed", False) else 0


def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, eps: float) -> None:
    """Bring u and v, in place, nearer to the singular vectors of the largest singular value."""
    v.copy_(flambeau.nn.functional.normalize(flambeau.mv(matrix.t(), u), dim=0, eps=eps))
    u.copy_(flambeau.nn.functional.normalize(flambeau.mv(matrix, v), dim=0, eps=eps))


def _hooks(module: Module, kind: type[Any], name: str) -> list[Any]:
    hooks: dict[Any, Any] = module._forward_pre_hooks
    return [k for k, call in hooks.items() if type(call) is kind and call.name == name]


def _taken(module: Module, kind: type, name: str) -> Any:
    """Remove the hook for a name and return it."""
    found = _hooks(module, kind, name)
    if not found:
        raise ValueError(
            f"remove_{kind.__name__.strip('_')}: expected a hook for '{name}', got a module where "
            f"{kind.__name__.strip('_')} of '{name}' not found in {module}"
        )
    return module._forward_pre_hooks.pop(found[0])


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Divide a weight into length and direction, which are learned apart; deprecated form of
    `parametrizations.weight_norm`.

    The parameter `name` becomes two, ``name_g`` and ``name_v``, from which it is computed before each call.

    Formula: weight = name_g * name_v / |name_v|, norms over all dimensions but dim
    Args:
        module: the owner of the weight, which is changed.
        name: the name of the weight.
        dim: the dimension along which each slice has a length of its own. None means one length for all.
    Returns: `module`.
    Raises: RuntimeError if the weight has this form already.
    Source: Salimans & Kingma 2016, "Weight Normalization".

    Example:
        >>> layer = flambeau.nn.utils.weight_norm(flambeau.nn.Linear(2, 3))
        >>> layer.weight_g.shape, layer.weight_v.shape
        (flambeau.Size([3, 1]), flambeau.Size([3, 2]))
    """
    warnings.warn(
        "nn.utils.weight_norm is deprecated; use nn.utils.parametrizations.weight_norm",
        FutureWarning,
        stacklevel=2,
    )
    if _hooks(module, _WeightNorm, name):
        raise RuntimeError(
            f"weight_norm: Cannot register two hooks of weight_norm for {name}; remove the first one before"
        )
    hook, weight = _WeightNorm(name, dim), getattr(module, name)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(norm_except(weight, dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`: the present weight becomes a parameter again.

    Args:
        module: the owner of the weight, which is changed.
        name: the name of the weight.
    Returns: `module`.
    Raises: ValueError if the weight does not have that form.

    Example:
        >>> layer = flambeau.nn.utils.weight_norm(flambeau.nn.Linear(2, 3))
        >>> sorted(dict(flambeau.nn.utils.remove_weight_norm(layer).named_parameters()))
        ['bias', 'weight']
    """
    hook = _taken(module, _WeightNorm, name)
    weight = hook.weight(module)
    delattr(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    setattr(module, name, Parameter(weight.detach()))
    return module


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value; deprecated form of `parametrizations.spectral_norm`.

    The parameter becomes ``name_orig``. The buffers ``name_u`` and ``name_v`` hold estimates of the singular
    vectors, which each call in training improves.

    Formula: weight = name_orig / (name_u^T name_orig name_v)

    Args:
        module: the owner of the weight, which is changed.
        name: the name of the weight.
        n_power_iterations: the number of iterations per call, above 0.
        eps: the least norm that vectors are divided by.
        dim: the dimension of the outputs. None means 1 for transposed convolutions, else 0.
    Returns: `module`.
    Raises: RuntimeError if the weight has this form already.
    Source: Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks".

    Example:
        >>> layer = flambeau.nn.utils.spectral_norm(flambeau.nn.Linear(2, 3))
        >>> layer.weight_u.shape, layer.weight_v.shape
        (flambeau.Size([3]), flambeau.Size([2]))
    """
    dim = dim_of_outputs(module, dim)
    if _hooks(module, _SpectralNorm, name):
        raise RuntimeError(
            f"spectral_norm: Cannot register two hooks of spectral_norm for {name}; remove the first "
            "one before"
        )
    hook, weight = _SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
    with flambeau.no_grad():
        rows, columns = weight.movedim(dim, 0).flatten(1).shape
        u, v = (
            flambeau.nn.functional.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps)
            for n in (rows, columns)
        )
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(_SpectralNormVersion(name))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`: the present weight becomes a parameter again.

    Args:
        module: the owner of the weight, which is changed.
        name: the name of the weight.
    Returns: `module`.
    Raises: ValueError if the weight does not have that form.

    Example:
        >>> layer = flambeau.nn.utils.spectral_norm(flambeau.nn.Linear(2, 3))
        >>> sorted(dict(flambeau.nn.utils.remove_spectral_norm(layer).named_parameters()))
        ['bias', 'weight']
    """
    hook = _taken(module, _SpectralNorm, name)
    with flambeau.no_grad():
        weight = hook.weight(module, iterate=False)
    delattr(module, name)
    del module._parameters[f"{name}_orig"]
    module._state_dict_hooks = type(module._state_dict_hooks)(
        (k, h)
        for k, h in module._state_dict_hooks.items()
        if not (isinstance(h.call, _SpectralNormVersion) and h.call.name == name)
    )
    delattr(module, f"{name}_u")
    delattr(module, f"{name}_v")
    setattr(module, name, Parameter(weight.detach()))
    return module
