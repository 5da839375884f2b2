"""Walking a module tree and finding its members by their paths: the part of Module that does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flambeau import Tensor
from flambeau.nn.modules.hooks import HookedModule
from flambeau.nn.parameter import Parameter

if TYPE_CHECKING:
    from flambeau.nn.modules.module import Module


class NestedModule(HookedModule):
    """The part of Module that knows the modules, parameters and buffers below it."""

    _modules: dict[str, Any]

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it with their paths, parents first.

        Args:
            memo: modules to leave out; those that come are added. None means no modules.
            prefix: what stands before each path.
            remove_duplicate: whether a module that is used in several places comes once.
        Returns: an iterator of pairs.

        Example:
            >>> net = flambeau.nn.Sequential(flambeau.nn.Sequential(flambeau.nn.ReLU()))
            >>> [path for path, module in net.named_modules()]
            ['', '0', '0.0']
        """
        this: Any = self
        memo = set() if memo is None else memo
        if this in memo:
            return
        if remove_duplicate:
            memo.add(this)
        yield prefix, this
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, parents first.

        Args:
            remove_duplicate: whether a module that is used in several places comes once.
        Returns: an iterator of modules.
        """
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names, each object once.

        Returns: an iterator of pairs.
        """
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each object once.

        Returns: an iterator of modules.
        """
        return (child for _, child in self.named_children())

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, value in module.__dict__[table].items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their paths.

        Args:
            prefix: what stands before each path.
            recurse: whether to include those of submodules.
            remove_duplicate: whether a parameter that is used in several places comes once.
        Returns: an iterator of pairs.

        Example:
            >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3))
            >>> [path for path, parameter in net.named_parameters()]
            ['0.weight', '0.bias']
        """
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, which an optimizer takes, each object once.

        Args:
            recurse: whether to include those of submodules.
        Returns: an iterator of parameters.
        """
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their paths.

        Args:
            prefix: what stands before each path.
            recurse: whether to include those of submodules.
            remove_duplicate: whether a tensor that is used in several places comes once.
        Returns: an iterator of pairs.
        """
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each object once.

        Args:
            recurse: whether to include those of submodules.
        Returns: an iterator of tensors.
        """
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Look up a module by its path.

        Args:
            target: the names from here to the module, joined by dots; "" is this module.
        Returns: the module.
        Raises: AttributeError if a name does not exist or is not a module.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            child = getattr(module, name, None)
            if not isinstance(child, NestedModule):
                raise AttributeError(
                    f"{type(module).__name__} has no submodule {name!r} (looking for {target!r})"
                )
            module = child
        found: Module = module
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path, in place of the one there.

        Args:
            target: the names from here to the place, joined by dots.
            module: the module to put there.
            strict: whether the place has to hold a module already.
        Returns: None.
        Raises: ValueError for an empty path or what is not a module, AttributeError if a name on the path
            does not exist or is not a module.

        Example:
            >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.ReLU())
            >>> net.set_submodule("1", flambeau.nn.Tanh())
            >>> net[1]
            Tanh()
        """
        path, _, name = target.rpartition(".")
        if not name:
            raise ValueError(f"set_submodule: expected the path of a submodule, got {target!r}")
        if not isinstance(module, NestedModule):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute {name!r}")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), NestedModule):
            raise AttributeError(f"{name!r} of {type(owner).__name__} is not a Module")
        setattr(owner, name, module)

    def _member(self, target: str, table: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute {name!r}")
        if owner.__dict__[table].get(name) is None:
            raise AttributeError(f"{name!r} of {type(owner).__name__} is not a {kind}")
        return owner.__dict__[table][name]

    def get_parameter(self, target: str) -> Parameter:
        """Look up a parameter by its path.

        Args:
            target: the names from here to the parameter, joined by dots.
        Returns: the parameter.
        Raises: AttributeError if a name does not exist or is not a parameter.

        Example:
            >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3))
            >>> net.get_parameter("0.bias").shape
            flambeau.Size([3])
        """
        return self._member(target, "_parameters", "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """Look up a buffer by its path.

        Args:
            target: the names from here to the buffer, joined by dots.
        Returns: the buffer.
        Raises: AttributeError if a name does not exist or is not a buffer.
        """
        return self._member(target, "_buffers", "buffer")
