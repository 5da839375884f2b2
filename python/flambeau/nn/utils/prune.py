"""Setting parts of parameters to zero for good.

Pruning a parameter `w` keeps it as `w_orig`, adds the buffer `w_mask` of zeros and ones, and makes `w` their
product, computed before every forward pass.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.module import Module

Amount = int | float


class BasePruningMethod(ABC):
    """Base class of ways to choose what is pruned; `compute_mask` of a subclass makes the choice.

    `PRUNING_TYPE` of a subclass says what a further pruning looks at: "unstructured" the elements that are
    left, "structured" the channels along `dim` that are left, "global" everything. The object is the hook
    that applies the mask before each call.

    See also: L1Unstructured, CustomFromMask

    Example:
        >>> class Negative(flambeau.nn.utils.prune.BasePruningMethod):
        ...     def compute_mask(self, t, default_mask):
        ...         return default_mask * (t > 0)
        >>> Negative().prune(flambeau.tensor([-1.0, 2.0]))
        tensor([-0., 2.])
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for scores `t`, zero where `default_mask` is."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter times its mask."""
        name = self._tensor_name
        return getattr(module, f"{name}_mask").to(getattr(module, f"{name}_orig")) * getattr(
            module, f"{name}_orig"
        )

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter `name`, further if it is pruned already.

        Args:
            module: the owner.
            name: of the parameter.
            *args: for this class.
            **kwargs: for this class.
            importance_scores: what is small is pruned; the parameter itself by default.
        """
        found: tuple[Any, Any] = next(_hooks_of(module, name), (None, None))
        key, older = found
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        value = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != value.shape:
            raise AssertionError(
                f"{cls.__name__}: expected importance_scores of shape {tuple(value.shape)} for {name} of "
                f"{module}, got {tuple(importance_scores.shape)}"
            )
        if older is not None:
            module._forward_pre_hooks.pop(key)
            several = older if isinstance(older, PruningContainer) else PruningContainer(older)
            several.add_pruning_method(method)
            method = several
        else:
            module.register_parameter(f"{name}_orig", module._parameters.pop(name))
        original = getattr(module, f"{name}_orig")
        kept = getattr(module, f"{name}_mask") if older is not None else flambeau.ones_like(original)
        scores = value if importance_scores is None else importance_scores
        with flambeau.no_grad():
            module.register_buffer(f"{name}_mask", method.compute_mask(scores.detach(), kept))
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return `t` with what this method chooses set to zero; no module is touched."""
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError(
                f"{type(self).__name__}: expected importance_scores of shape {tuple(t.shape)}, got "
                f"{tuple(importance_scores.shape)}"
            )
        kept = flambeau.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, kept)

    def remove(self, module: Module) -> None:
        """Make the pruned value the parameter; there is no way back."""
        name = self._tensor_name
        value = self.apply_mask(module)
        original = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        if name in vars(module):
            delattr(module, name)
        assert original is not None
        original.data = value.detach()
        module.register_parameter(name, original)


def _hooks_of(module: Module, name: str | None = None) -> Iterator[tuple[Any, BasePruningMethod]]:
    for key, method in module._forward_pre_hooks.items():
        if isinstance(method, BasePruningMethod) and name in (None, method._tensor_name):
            yield key, method


class PruningContainer(BasePruningMethod):
    """Sequence of the pruning methods of one parameter, in order of application.

    Args:
        *args: the methods, or one iterable of them.
    Raises: TypeError for a value that is not a method, ValueError for methods of different parameters.

    Example:
        >>> len(flambeau.nn.utils.prune.PruningContainer())
        0
    """

    def __init__(self, *args: Any) -> None:
        methods = list(args[0]) if len(args) == 1 and isinstance(args[0], Iterable) else list(args)
        self._pruning_methods: tuple[Any, ...] = ()
        self._tensor_name = methods[0]._tensor_name if methods else ""
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method of the same parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(
                f"PruningContainer: expected a BasePruningMethod subclass, got {type(method)}, which is "
                "not a BasePruningMethod subclass"
            )
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"PruningContainer: expected methods for '{self._tensor_name}', got one for "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Let the latest method choose among what the earlier ones left."""
        method, mask = self._pruning_methods[-1], default_mask.clone()
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()
            others = [d for d in range(t.dim()) if d != dim]
            channels = mask.sum(others) != 0 if others else mask != 0
            left = (slice(None),) * dim + (channels,)
        elif method.PRUNING_TYPE == "global":
            left = slice(None)
        else:
            raise ValueError(
                "PruningContainer: Unrecognized PRUNING_TYPE: expected 'unstructured', 'structured' or "
                f"'global', got {method.PRUNING_TYPE!r}"
            )
        mask[left] = method.compute_mask(t[left], mask[left]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Method that prunes nothing, and so only adds a mask of ones.

    Example:
        >>> flambeau.nn.utils.prune.Identity().prune(flambeau.tensor([-1.0, 2.0]))
        tensor([-1.,  2.])
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask`."""
        return default_mask


class _BySize(BasePruningMethod):
    def __init__(self, amount: Amount) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zero the elements that score least."""
        count = _count(self.amount, t.numel())
        mask = default_mask.clone(memory_format=flambeau.contiguous_format)
        if count:
            mask.view(-1)[self._scores(t).reshape(-1).topk(count, largest=False)[1]] = 0
        return mask

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError


class RandomUnstructured(_BySize):
    """Method that prunes elements at random.

    Args:
        amount: what is pruned: an int is a number of elements, a float in [0, 1] a share.
    Raises: TypeError for a value that is not a number, ValueError for one out of range.

    Example:
        >>> flambeau.nn.utils.prune.RandomUnstructured(0.5).prune(flambeau.ones(4)).sum()
        tensor(2.)
    """

    def _scores(self, t: Tensor) -> Tensor:
        return flambeau.rand_like(t)


class L1Unstructured(_BySize):
    """Method that prunes the elements of least magnitude.

    Args:
        amount: what is pruned: an int is a number of elements, a float in [0, 1] a share.
    Raises: TypeError for a value that is not a number, ValueError for one out of range.

    Example:
        >>> flambeau.nn.utils.prune.L1Unstructured(1).prune(flambeau.tensor([-1.0, 2.0]))
        tensor([-0., 2.])
    """

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _ByChannel(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zero the channels that score least."""
        if t.dim() <= 1:
            raise ValueError(
                f"{type(self).__name__}: expected at least 2 dimensions for structured pruning, got shape "
                f"{tuple(t.shape)}"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(
                f"{type(self).__name__}: expected dim within shape {tuple(t.shape)}, got {self.dim}"
            )
        channels = t.shape[self.dim]
        kept = channels - _count(self.amount, channels)
        best = self._scores(t, self.dim % t.dim()).topk(kept)[1]
        return default_mask * flambeau.zeros_like(default_mask).index_fill(self.dim, best, 1)

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        raise NotImplementedError


class RandomStructured(_ByChannel):
    """Method that prunes whole channels at random.

    Args:
        amount: what is pruned: an int is a number of channels, a float in [0, 1] a share.
        dim: the dimension of the channels.
    Raises: TypeError for a value that is not a number, ValueError for one out of range.

    Example:
        >>> flambeau.nn.utils.prune.RandomStructured(1, dim=0).prune(flambeau.ones(2, 3)).sum()
        tensor(3.)
    """

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return flambeau.rand(t.shape[dim], device=t.device)


class LnStructured(_ByChannel):
    """Method that prunes the channels of least norm.

    Args:
        amount: what is pruned: an int is a number of channels, a float in [0, 1] a share.
        n: the order of the norm.
        dim: the dimension of the channels.
    Raises: TypeError for a value that is not a number, ValueError for one out of range.

    Example:
        >>> x = flambeau.tensor([[1.0, 1.0], [2.0, 0.0]])
        >>> flambeau.nn.utils.prune.LnStructured(1, n=2, dim=0).prune(x)
        tensor([[0., 0.],
                [2., 0.]])
    """

    def __init__(self, amount: Amount, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor, dim: int) -> Tensor:
        return flambeau.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != dim])


class CustomFromMask(BasePruningMethod):
    """Method that prunes by a given mask.

    Args:
        mask: 0 or False for elements that are pruned, 1 or True for others.

    Example:
        >>> mask = flambeau.tensor([0, 1])
        >>> flambeau.nn.utils.prune.CustomFromMask(mask).prune(flambeau.tensor([3.0, 4.0]))
        tensor([0., 4.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return what both masks keep."""
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones, as if it were pruned.

    Args:
        module: the owner of the parameter, which is changed.
        name: the name of the parameter.
    Returns: `module`.

    Example:
        >>> layer = flambeau.nn.utils.prune.identity(flambeau.nn.Linear(2, 1), "weight")
        >>> layer.weight_mask
        tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Amount) -> Module:
    """Prune elements of a parameter at random.

    Args:
        module: the owner of the parameter, which is changed.
        name: the name of the parameter.
        amount: what is pruned: an int is a number of elements, a float in [0, 1] a share.
    Returns: `module`.

    Example:
        >>> layer = flambeau.nn.utils.prune.random_unstructured(flambeau.nn.Linear(4, 1), "weight", 0.5)
        >>> layer.weight_mask.sum()
        tensor(2.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Amount, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements of a parameter that have the least magnitude.

    Args:
        module: the owner of the parameter, which is changed.
        name: the name of the parameter.
        amount: what is pruned: an int is a number of elements, a float in [0, 1] a share.
        importance_scores: numbers whose magnitude decides in place of the parameter's, of its shape.
    Returns: `module`.

    Example:
        >>> layer = flambeau.nn.Linear(2, 1)
        >>> _ = flambeau.nn.init.constant_(layer.weight, 2.0)
        >>> scores = flambeau.tensor([[1.0, 3.0]])
        >>> flambeau.nn.utils.prune.l1_unstructured(layer, "weight", 1, scores).weight.detach()
        tensor([[0., 2.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Amount, dim: int) -> Module:
    """Prune whole channels of a parameter at random.

    Args:
        module: the owner of the parameter, which is changed.
        name: the name of the parameter.
        amount: what is pruned: an int is a number of channels, a float in [0, 1] a share.
        dim: the dimension of the channels.
    Returns: `module`.

    Example:
        >>> layer = flambeau.nn.utils.prune.random_structured(flambeau.nn.Linear(4, 2), "weight", 1, dim=0)
        >>> layer.weight_mask.sum()
        tensor(4.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Amount, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels of a parameter that have the least norm.

    Args:
        module: the owner of the parameter, which is changed.
        name: the name of the parameter.
        amount: what is pruned: an int is a number of channels, a float in [0, 1] a share.
        n: the order of the norm.
        dim: the dimension of the channels.
        importance_scores: numbers whose norms decide in place of the parameter's, of its shape.
    Returns: `module`.

    Example:
        >>> layer = flambeau.nn.Linear(2, 2)
        >>> scores = flambeau.tensor([[1.0, 1.0], [2.0, 2.0]])
        >>> flambeau.nn.utils.prune.ln_structured(layer, "weight", 1, 2, 0, scores).weight_mask
        tensor([[0., 0.],
                [1., 1.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters by one comparison of all of them.

    Args:
        parameters: pairs of a module and the name of its parameter.
        pruning_method: a class whose PRUNING_TYPE is "unstructured", such as `L1Unstructured`.
        importance_scores: scores by pair, in place of the parameters. None means the parameters.
        **kwargs: the arguments of `pruning_method`.
    Returns: None.
    Raises: TypeError for parameters that are not iterable, scores that are not a dictionary, or a method of
        another type.

    Example:
        >>> a, b = flambeau.nn.Linear(2, 1), flambeau.nn.Linear(2, 1)
        >>> _ = flambeau.nn.init.constant_(a.weight, 1.0), flambeau.nn.init.constant_(b.weight, 2.0)
        >>> method = flambeau.nn.utils.prune.L1Unstructured
        >>> pairs = [(a, "weight"), (b, "weight")]
        >>> flambeau.nn.utils.prune.global_unstructured(pairs, method, amount=2)
        >>> a.weight_mask, b.weight_mask
        (tensor([[0., 0.]]), tensor([[1., 1.]]))
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(
            f"global_unstructured: expected an Iterable of parameters, got {type(parameters).__name__}"
        )
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError(
            "global_unstructured: expected a dict as importance_scores, got "
            f"{type(importance_scores).__name__}"
        )
    given, places = importance_scores or {}, list(parameters)
    scores = [given.get(place, getattr(*place)).detach() for place in places]
    masks = [getattr(m, f"{n}_mask", flambeau.ones_like(s)) for (m, n), s in zip(places, scores, strict=True)]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            "global_unstructured(): expected a method of PRUNING_TYPE 'unstructured', got "
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    flat_scores, flat_masks = (flambeau.cat([t.reshape(-1) for t in ts]) for ts in (scores, masks))
    final = container.compute_mask(flat_scores, flat_masks)
    sizes = [score.numel() for score in scores]
    for (module, name), score, mask in zip(places, scores, final.split(sizes), strict=True):
        custom_from_mask(module, name, mask.view_as(score))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask is 0.

    Args:
        module: the owner of the parameter, which is changed.
        name: the name of the parameter.
        mask: 0 or False for elements that are pruned, of the parameter's shape.
    Returns: `module`.

    Example:
        >>> mask = flambeau.tensor([[1, 0]])
        >>> layer = flambeau.nn.utils.prune.custom_from_mask(flambeau.nn.Linear(2, 1), "weight", mask)
        >>> (layer.weight == 0).tolist()
        [[False, True]]
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruned value of a parameter its value for good, and delete the mask.

    Args:
        module: the owner of the parameter, which is changed.
        name: the name of the parameter.
    Returns: `module`.
    Raises: ValueError if the parameter is not pruned.

    Example:
        >>> layer = flambeau.nn.utils.prune.l1_unstructured(flambeau.nn.Linear(2, 1), "weight", 1)
        >>> sorted(flambeau.nn.utils.prune.remove(layer, "weight").state_dict())
        ['bias', 'weight']
    """
    for key, hook in _hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(
        f"prune.remove: expected a pruned parameter, got '{name}' of {module}, which has to be "
        "pruned before that can be undone"
    )


def is_pruned(module: Module) -> bool:
    """Tell whether a parameter of a module, or of one inside it, is pruned.

    Args:
        module: the module.
    Returns: a bool.

    Example:
        >>> flambeau.nn.utils.prune.is_pruned(flambeau.nn.Linear(2, 1))
        False
    """
    return any(True for _, child in module.named_modules() for _ in _hooks_of(child))


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"flambeau.nn.utils.prune: expected amount to be an int or a float, got {amount}")
    share = not isinstance(amount, numbers.Integral)
    if amount < 0 or (share and float(amount) > 1):
        raise ValueError(
            "flambeau.nn.utils.prune: expected amount to be a float in [0, 1] or an int of 0 or "
            f"more, got {amount}"
        )


def _count(amount: Amount, size: int) -> int:
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    if amount > size:
        raise ValueError(
            f"flambeau.nn.utils.prune: expected amount to be at most the {size} parameters there are, "
            f"got {amount}"
        )
    return int(amount)
