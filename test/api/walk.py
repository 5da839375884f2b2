"""`python -m api.walk FRAMEWORK`: the public names of a framework's modules with their parameters, as JSON.

A name is public if it is in a module's `__all__`. A module without one has the names that do not begin with
an underscore and are the framework's: what it imports of Python is not an interface. Of a class of Python its
public members count as well; classes that PyTorch writes in C++ count as one name each.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import typing
from types import ModuleType
from typing import Any

from api.stubs import Stubs

# The modules that the issue names; "Tensor" is the class.
MODULES = (
    ". Tensor nn nn.functional nn.init nn.utils optim optim.lr_scheduler autograd linalg fft special "
    "distributions utils.data func overrides fx amp random testing jit hub storage library"
).split()
_CONSTANTS = {"TYPE_CHECKING"}
_MISSING = object()


def belongs(value: Any, root: str) -> bool:
    """Whether a value is the framework's own, as far as it says."""
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if home is None:
        return type(value).__module__.partition(".")[0] in (root, "builtins")
    return home.partition(".")[0] in (root, "builtins")


def names_of(module: Any, root: str) -> list[str]:
    """Return the public names of a module or class."""
    if stated := getattr(module, "__all__", None):
        return sorted(stated)
    names = [name for name in dir(module) if not name.startswith("_") and name not in _CONSTANTS]
    if isinstance(module, type):
        return names
    own = sys.modules[root]
    values = ((name, getattr(module, name, None)) for name in names)
    return [name for name, value in values if value is not own and belongs(value, root)]


def listed(signature: inspect.Signature) -> list[Any]:
    """Return (name, kind, has a default) of each parameter."""
    return [(p.name, int(p.kind), p.default is not p.empty) for p in signature.parameters.values()]


def parameters(value: Any, path: str, stubs: Stubs) -> list[Any] | None:
    """Return signatures, lists of (name, kind, has a default); None if nothing says them."""
    target = value
    if isinstance(value, staticmethod | classmethod):
        target = value.__func__
    if inspect.isfunction(target) and (written := typing.get_overloads(target)):
        return [listed(inspect.signature(one)) for one in written]
    try:
        signature = inspect.signature(target)
    except (ValueError, TypeError):
        return stubs.find(value, path)
    kinds = [p.kind for p in signature.parameters.values()]
    if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return stubs.find(value, path)
    return [listed(signature)]


def describe(value: Any, path: str, stubs: Stubs) -> dict[str, Any]:
    """Return what is compared of one name."""
    if isinstance(value, ModuleType):
        return {"kind": "module"}
    if isinstance(value, type):
        return {"kind": "class", "signatures": parameters(value, path, stubs)}
    if callable(value):
        return {"kind": "function", "signatures": parameters(value, path, stubs)}
    return {"kind": "value"}


def members(cls: type, path: str, root: str, stubs: Stubs) -> dict[str, Any]:
    """Return the public members of a class, without those of Python's own base classes."""
    foreign = [base for base in cls.__mro__ if base is object or not belongs(base, root)]
    foreign += [base for base in (Exception, dict, list, tuple, str, int) if issubclass(cls, base)]
    plain = {name for base in foreign for name in dir(base)}
    found = {}
    for name in names_of(cls, root):
        if name not in plain and inspect.getattr_static(cls, name, None) is not None:
            value = inspect.getattr_static(cls, name)
            facts = describe(getattr(value, "__func__", value), f"{path}.{name}", stubs)
            found[name] = facts | {"inherited": name not in vars(cls)}
    return found


def counts_once(cls: type, root: str) -> bool:
    """Whether the members of a class do not count: it is written in C++, or a type of one dtype."""
    is_bound = type(cls).__name__ == "pybind11_type"
    return is_bound or cls.__module__.startswith(f"{root}._C") or cls.__name__.endswith("Tensor")


def module_named(framework: str, name: str) -> Any:
    """Return a module, or the class Tensor."""
    root = importlib.import_module(framework)
    if name == ".":
        return root
    try:
        return importlib.import_module(f"{framework}.{name}")
    except ModuleNotFoundError:
        return getattr(root, name, None)


def found_here(framework: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return module -> those of the wanted names that a framework has, and what they are."""
    stubs, result = Stubs(framework), {}
    for module_name, names in wanted.items():
        result[module_name] = {}
        module = module_named(framework, module_name)
        for path in names if module is not None else ():
            value = module
            for part in path.split("."):
                value = getattr_static(value, part)
            if value is not _MISSING:
                prefix = "" if module_name == "." else module_name + "."
                result[module_name][path] = describe(value, prefix + path, stubs)
    return result


def getattr_static(owner: Any, name: str) -> Any:
    """Return a member of a class as it is defined, without binding it; an attribute of anything else."""
    if isinstance(owner, type):
        value = inspect.getattr_static(owner, name, _MISSING)
        value = getattr(owner, name, _MISSING) if value is _MISSING else value
        return getattr(value, "__func__", value)
    return _MISSING if owner is _MISSING else getattr(owner, name, _MISSING)


def walk(framework: str, modules: list[str]) -> dict[str, Any]:
    """Return module -> path of a name -> what it is."""
    stubs = Stubs(framework)
    result = {}
    for module_name in modules:
        module = module_named(framework, module_name)
        found: dict[str, Any] = {}
        if isinstance(module, type):
            found = members(module, module_name, framework, stubs)
        elif module is not None:
            prefix = "" if module_name == "." else module_name + "."
            for name in names_of(module, framework):
                value = getattr(module, name, None)
                found[name] = describe(value, prefix + name, stubs)
                if (
                    isinstance(value, type)
                    and belongs(value, framework)
                    and not counts_once(value, framework)
                ):
                    inside = members(value, prefix + name, framework, stubs)
                    found |= {f"{name}.{member}": facts for member, facts in inside.items()}
        result[module_name] = found
    return result


if __name__ == "__main__":
    if sys.argv[2:] == ["-"]:
        print(json.dumps(found_here(sys.argv[1], json.load(sys.stdin))))
    else:
        print(json.dumps(walk(sys.argv[1], sys.argv[2:] or MODULES)))
