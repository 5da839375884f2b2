"""Recording with example values, for `jit.trace`.

A `ValueProxy` is an fx Proxy with an example of its value. Operators on it are recorded and computed. Where a
program needs a concrete value (`if`, `int()`, the length of a loop), it gets the example's, as a constant.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.fx._symbolic_trace import Tracer
from flambeau.fx.node import Node, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.nn import Module


class TracerWarning(Warning):
    """Category of the warning that a trace keeps a value of the example as a constant.

    The warning names a use that a trace cannot record, such as a branch on an element.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     traced = flambeau.jit.trace(lambda x: x + 1 if x.sum() > 0 else x, flambeau.ones(1))
        >>> any(issubclass(one.category, flambeau.jit.TracerWarning) for one in caught)
        True
    """


class ValueProxy(Proxy):
    """A proxy with an example of its value."""

    def __init__(self, node: Node, tracer: RecordingTracer) -> None:
        super().__init__(node, tracer)

    @property
    def _value(self) -> Any:
        tracer: Any = self.tracer
        return tracer.values[self.node]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the value, so that isinstance returns the same as without tracing."""
        return type(self._value)

    def __repr__(self) -> str:
        return f"ValueProxy({self.node.name}, {self._value!r})"

    def _frozen(self, convert: Callable[[Any], Any]) -> Any:
        value = self._value
        if isinstance(value, Tensor):
            warnings.warn(
                f"jit.trace: the program uses the value of {self.node.name}; the trace keeps the "
                "example's value as a constant, and may be wrong for other inputs",
                TracerWarning,
                stacklevel=4,
            )
        return convert(value)

    def __bool__(self) -> bool:
        return self._frozen(bool)

    def __int__(self) -> int:
        return self._frozen(int)

    def __float__(self) -> float:
        return self._frozen(float)

    def __complex__(self) -> complex:
        return self._frozen(complex)

    def __index__(self) -> int:
        return self._frozen(lambda value: value.__index__())

    def __len__(self) -> int:
        return len(self._value)

    def __hash__(self) -> int:
        value = self._value
        return id(self) if isinstance(value, Tensor) else hash(value)

    def __contains__(self, item: Any) -> bool:
        value = item._value if type(item) is ValueProxy else item
        return value in self._value

    def __iter__(self) -> Iterator[Any]:
        source: Any = self
        value = self._value
        if isinstance(value, dict):
            return iter(value)
        return (source[place] for place in range(len(value)))

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer"):
            raise AttributeError(k)
        value = self._value
        found = getattr(value, k)  # raises the same error as without tracing
        if callable(found) and not isinstance(found, Tensor | Module):
            return _Method(self, k)
        if k in ("dtype", "device", "layout", "requires_grad", "is_leaf", "grad_fn", "names", "__dict__"):
            return found
        return self.tracer.create_proxy("call_function", getattr, (self, k), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})

    def keys(self) -> Any:
        """Return the keys of the example."""
        return self._value.keys()


class _Method:
    """A method of a proxy's value."""

    def __init__(self, owner: ValueProxy, name: str) -> None:
        self._owner, self.__name__ = owner, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner = self._owner
        value = owner._value
        if not isinstance(value, Tensor) and not isinstance(value, tuple | list | dict):
            return getattr(value, self.__name__)(*args, **kwargs)
        if self.__name__ in ("item", "tolist", "numpy", "is_floating_point", "is_complex", "is_contiguous"):
            return owner._frozen(lambda tensor: getattr(tensor, self.__name__)(*args, **kwargs))
        if self.__name__ in ("dim", "ndimension", "element_size", "get_device"):
            return getattr(value, self.__name__)(*args, **kwargs)
        return owner.tracer.create_proxy("call_method", self.__name__, (owner, *args), kwargs)


class RecordingTracer(Tracer):
    """Records a program while it runs on example values."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.given = args, kwargs
        self.example: dict[str, Any] = {}
        self.values: dict[Node, Any] = {}
        self._untraced = 0

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """Make a placeholder for each example; parameters without an example keep their defaults."""
        args, kwargs = self.given
        names = _names_of(root_fn, is_module, len(args))
        self.example = {**dict(zip(names, args, strict=True)), **kwargs}
        made = {name: self.create_proxy("placeholder", name, (), {}) for name in self.example}
        positional = [made[name] for name in names]
        root = [self.root] if is_module else []
        return lambda: root_fn(*root, *positional, **{name: made[name] for name in kwargs}), []

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call is one node: for layers of `flambeau.nn` without hooks."""
        hooked = m._forward_hooks or m._forward_pre_hooks
        return super().is_leaf_module(m, module_qualified_name) and not hooked

    def proxy(self, node: Node) -> Proxy:
        """Compute the node's value, and return a proxy with it."""
        if node not in self.values:
            with self._plain():
                self.values[node] = self._computed(node)
        return ValueProxy(node, self)

    def create_arg(self, a: Any) -> Any:
        if type(a) is _Method:
            raise NotImplementedError(
                "jit.trace: expected values as arguments, got a method of a traced value"
            )
        arg = a.node if type(a) is ValueProxy else super().create_arg(a)
        if isinstance(arg, Node) and arg not in self.values and arg.op == "get_attr":
            with self._plain():
                self.values[arg] = self._computed(arg)
        return arg

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **options: Any) -> Any:
        """Add a node; unpack containers at once, and return numbers and bools of the example as they are."""
        made = super().create_proxy(kind, target, args, kwargs, *rest, **options)
        return made if kind == "get_attr" else self._shown(made)

    def _shown(self, made: Any) -> Any:
        value = self.values[made.node]
        if value is None or isinstance(value, bool | str | flambeau.dtype | flambeau.device):
            return value
        if isinstance(value, dict):
            return {key: self._item(made, key) for key in value}
        if isinstance(value, tuple | list) and not isinstance(value, flambeau.Size):
            items = [self._item(made, place) for place in range(len(value))]
            if hasattr(value, "_fields"):
                return type(value)(*items)
            return (
                items if type(value) is list else tuple(items) if type(value) is tuple else type(value)(items)
            )
        return made

    def _item(self, made: Any, key: Any) -> Any:
        return self.create_proxy("call_function", operator.getitem, (made, key), {})

    def _computed(self, node: Node) -> Any:
        if node.op == "placeholder":
            return self.example[str(node.target).lstrip("*")]
        if node.op == "get_attr":
            from flambeau.fx._attributes import get_attribute

            return get_attribute(self.root, str(node.target))
        args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda used: self.values[used])
        if node.op == "call_function":
            return node.target(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        layer = self.root.get_submodule(node.target)
        return layer(*args, **kwargs)

    @contextmanager
    def _plain(self) -> Iterator[None]:
        """A region in which modules run as without tracing."""
        self._untraced += 1
        try:
            yield
        finally:
            self._untraced -= 1

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._untraced:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        if self._untraced:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)


def _names_of(function: Any, is_module: bool, count: int) -> list[str]:
    """Return names for the first `count` arguments of a function."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[int(is_module) :]
    except (TypeError, ValueError):  # written in C
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{place}" for place in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"input_{place}" for place in range(count - len(names))]
    return names[:count]
