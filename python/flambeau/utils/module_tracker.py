"""Which modules run: their names, in forward and in backward."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.graph import register_multi_grad_hook
from flambeau.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from flambeau.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]


def _differentiable(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor) and x.requires_grad]


class ModuleTracker:
    """Context manager that knows which modules are running, in its attribute ``parents``.

    ``parents`` is a set of the full names of the modules whose forward or backward runs, and of "Global". The
    outermost module has the name of its class. A module whose inputs need no gradient remains in ``parents``
    until backward ends.

    Example:
        >>> from flambeau.utils.module_tracker import ModuleTracker
        >>> net = flambeau.nn.Sequential(flambeau.nn.ReLU())
        >>> handle = net[0].register_forward_pre_hook(lambda *args: print(sorted(tracker.parents)))
        >>> with ModuleTracker() as tracker:
        ...     y = net(flambeau.ones(1))
        ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self) -> None:
        self._running = {"Global"}
        self._names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        self._handles: list[Any] = []
        self._left_open: tuple[int, set[str]] = (0, set())  # a backward pass, and what it has not closed

    @property
    def parents(self) -> set[str]:
        """The names of the modules that run."""
        task, names = self._left_open
        if names and task != _C._current_pass():  # what an earlier pass left open is over
            self._running -= names
            self._left_open = 0, set()
        return self._running

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass runs in this thread."""
        return _C._current_pass() != 0  # passes are numbered from 1

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._running, self._left_open = {"Global"}, (0, set())

    def _name(self, module: Module) -> str:
        """Return a module's name; its submodules get theirs with it."""
        if module not in self._names:
            root = type(module).__name__
            for path, inner in module.named_modules():
                self._names.setdefault(inner, f"{root}.{path}" if path else root)
        return self._names[module]

    def _begin(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        inputs = _differentiable(args)
        if inputs:
            self._handles.append(register_multi_grad_hook(inputs, lambda _: self.parents.discard(name)))

    def _end(self, module: Module, args: Any, output: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        outputs = _differentiable(output)
        if outputs:
            hook = register_multi_grad_hook(outputs, lambda _: self._begin_backward(name), mode="any")
            self._handles.append(hook)

    def _begin_backward(self, name: str) -> None:
        self.parents.add(name)
        self._left_open = _C._current_pass(), self._left_open[1] | {name}
