"""Policies: which modules inside a model `FullyShardedDataParallel` wraps on their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flambeau.nn import ModuleDict, ModuleList, MultiheadAttention
from flambeau.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


class _Policy:
    """Chooses modules of a model, with options for each."""

    def chosen(self, root: Module, ignored: set[Module], options: dict[str, Any]) -> dict[Module, Any]:
        """Return the options for each module that is wrapped; those in `ignored` are not."""
        raise NotImplementedError


class ModuleWrapPolicy(_Policy):
    """Chooses the modules of some classes.

    Args:
        module_classes: the classes.
    Raises: ValueError for something else than classes.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
        >>> policy = ModuleWrapPolicy({flambeau.nn.Linear})
        >>> policy(flambeau.nn.Linear(1, 1), recurse=False, nonwrapped_numel=2)
        True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._classes = tuple(module_classes)
        for each in self._classes:
            if not isinstance(each, type):
                raise ValueError(f"ModuleWrapPolicy: expected classes of modules, got {each!r}")

    def chosen(self, root: Module, ignored: set[Module], options: dict[str, Any]) -> dict[Module, Any]:
        """Return the options for each module of the classes."""
        modules = dict.fromkeys(root.modules())
        return {m: dict(options) for m in modules if m not in ignored and isinstance(m, self._classes)}

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Return True with `recurse`, otherwise whether the module is of one of the classes."""
        return recurse or isinstance(module, self._classes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({set(self._classes)})"


class CustomPolicy(_Policy):
    """Chooses modules by a function, which can also give options.

    Args:
        lambda_fn: called with each module; returns whether it is wrapped, or a dict with keyword arguments
            of the wrapper that replace those of the root.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import CustomPolicy
        >>> policy = CustomPolicy(lambda module: isinstance(module, flambeau.nn.Linear))
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._choose = lambda_fn

    def chosen(self, root: Module, ignored: set[Module], options: dict[str, Any]) -> dict[Module, Any]:
        """Return the options for each module that the function accepts. Raises: ValueError for its result."""
        found: dict[Module, Any] = {}
        for module in dict.fromkeys(root.modules()):
            if module in ignored:
                continue
            answer = self._choose(module)
            if not isinstance(answer, bool | dict):
                raise ValueError(
                    "CustomPolicy: The lambda_fn passed to CustomPolicy should return False/True or a kwarg "
                    f"dict: expected one of these, got {answer!r}"
                )
            if answer is not False:
                found[module] = {**options, **(answer if isinstance(answer, dict) else {})}
        return found


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: every module is wrapped.

    Example:
        >>> flambeau.distributed.fsdp.wrap.always_wrap_policy()
        True
    """
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Choose the modules that a function accepts; `functools.partial` gives the function.

    Args:
        module: the module.
        recurse: whether the question is if modules inside it are considered: always.
        nonwrapped_numel: the number of elements that no wrapper inside it has.
        lambda_fn: returns whether a module is wrapped.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import lambda_auto_wrap_policy
        >>> lambda_auto_wrap_policy(flambeau.nn.ReLU(), False, 0, lambda_fn=lambda m: False)
        False
    """
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Choose the modules of some classes, such as the layers of a transformer.

    Args:
        module: the module.
        recurse: whether the question is if modules inside it are considered: always.
        nonwrapped_numel: the number of elements that no wrapper inside it has.
        transformer_layer_cls: the classes.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import transformer_auto_wrap_policy
        >>> transformer_auto_wrap_policy(flambeau.nn.ReLU(), False, 0, {flambeau.nn.Linear})
        False
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Choose modules with at least a number of elements that no wrapper inside them has.

    Args:
        module: the module.
        recurse: whether the question is if modules inside it are considered.
        nonwrapped_numel: the number of elements that no wrapper inside it has.
        min_num_params: the number.
        force_leaf_modules: classes inside which no module is wrapped. Default: MultiheadAttention.
        exclude_wrap_modules: classes of modules that are not wrapped. Default: ModuleList and ModuleDict.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import size_based_auto_wrap_policy
        >>> size_based_auto_wrap_policy(flambeau.nn.Linear(3, 3), False, 12, min_num_params=10)
        True
    """
    leaves = _LEAVES if force_leaf_modules is None else force_leaf_modules
    excluded = _CONTAINERS if exclude_wrap_modules is None else exclude_wrap_modules
    is_large = nonwrapped_numel >= min_num_params
    return is_large and not isinstance(module, tuple(leaves if recurse else excluded))


_LEAVES: set[type[Module]] = {MultiheadAttention}
_CONTAINERS: set[type[Module]] = {ModuleList, ModuleDict}
vars(size_based_auto_wrap_policy).update(
    FORCE_LEAF_MODULES=_LEAVES, EXCLUDE_WRAP_MODULES=_CONTAINERS
)  # names that PyTorch has


def _or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Sequence[Callable[..., bool]]
) -> bool:
    """Choose the modules that one of several policies chooses."""
    given = {"module": module, "recurse": recurse, "nonwrapped_numel": nonwrapped_numel}
    return any(policy(**given) for policy in policies)


# --- wrapping by hand ----------------------------------------------------------------------------------

_wrappers: list[tuple[Any, dict[str, Any]]] = []  # of the contexts that are open


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Let `wrap` wrap modules within the context.

    Args:
        wrapper_cls: the class of the wrapper.
        wrapper_kwargs: its keyword arguments.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import enable_wrap, wrap
        >>> with enable_wrap(wrapper_cls=flambeau.nn.Sequential):
        ...     wrap(flambeau.nn.ReLU())
        Sequential(
          (0): ReLU()
        )
    """
    _wrappers.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrappers.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return the module wrapped within `enable_wrap`, and as it is elsewhere.

    Args:
        module: the module.
        wrap_overrides: keyword arguments that replace those of `enable_wrap`.

    Example:
        >>> flambeau.distributed.fsdp.wrap.wrap(flambeau.nn.ReLU())
        ReLU()
    """
    if not _wrappers:
        return module
    wrapper, options = _wrappers[-1]
    made: Module = wrapper(module, **{**options, **wrap_overrides})
    return made


# --- wrapping by a policy ------------------------------------------------------------------------------


def wrap_inside(
    root: Module, policy: Any, wrapper: Callable[..., Module], options: dict[str, Any], ignored: set[Any]
) -> None:
    """Replace modules inside `root` by wrapped ones, from the innermost outwards; `root` stays.

    Args:
        root: the model.
        policy: one of this module's classes, or a function with the arguments of `always_wrap_policy`.
        wrapper: called with a module and options.
        options: those of the root.
        ignored: modules and parameters that are left out.
    """
    made: dict[Module, Module] = {}  # a module that several others share is wrapped once
    if isinstance(policy, _Policy):
        chosen = policy.chosen(root, ignored, options)
        _wrap_chosen(root, chosen, wrapper, made)
        return
    _wrap_by_size(root, policy, wrapper, options, ignored, made)


def _wrap_chosen(
    module: Module, chosen: dict[Module, Any], wrapper: Callable[..., Module], made: dict[Module, Module]
) -> None:
    for child in dict.fromkeys(module.children()):
        if child not in made:
            made[child] = child
            _wrap_chosen(child, chosen, wrapper, made)
            if child in chosen:
                made[child] = wrapper(child, **chosen[child])
        _replace(module, child, made[child])


def _replace(module: Module, child: Module, wrapped: Module) -> None:
    """Replace a child of a module, under each of its names."""
    for name, found in list(module._modules.items()):
        if found is child:
            module._modules[name] = wrapped


def _wrap_by_size(
    module: Module,
    policy: Callable[..., bool],
    wrapper: Callable[..., Module],
    options: dict[str, Any],
    ignored: set[Any],
    made: dict[Module, Module],
) -> int:
    """Wrap what the policy chooses inside a module; return the number of elements in wrappers."""
    numel = _numel(module, ignored)
    if not policy(module=module, recurse=True, nonwrapped_numel=numel):
        return 0
    wrapped = 0
    for child in dict.fromkeys(module.children()):
        if child in ignored:
            continue
        if child not in made:
            made[child] = child
            size = _numel(child, ignored)
            inside = _wrap_by_size(child, policy, wrapper, options, ignored, made)
            if policy(module=child, recurse=False, nonwrapped_numel=size - inside):
                made[child], inside = wrapper(child, **options), size
            wrapped += inside
        _replace(module, child, made[child])
    return wrapped


def _numel(module: Module, ignored: set[Any]) -> int:
    return sum(p.numel() for p in module.parameters() if p not in ignored)
