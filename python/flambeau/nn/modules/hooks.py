"""Hooks of modules: code that runs around forward and around the module's part of a backward pass."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor
from flambeau._arguments.nested import tensors_in
from flambeau.autograd.function import Function

Hooks = OrderedDict[int, Any]
_hook_ids = itertools.count()


class RemovableHandle:
    """Handle that takes a registered hook out again, by `remove()` or at the end of a `with` block.

    Args:
        hooks_dict: the table to which the caller adds the hook, under the handle's `id`.
        extra_dict: a table, or a list of them, of facts about hooks, which lose the `id` as well.

    Example:
        >>> layer = flambeau.nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, result: print("called"))
        >>> _ = layer(flambeau.zeros(1))
        called
        >>> handle.remove()
        >>> _ = layer(flambeau.zeros(1))
    """

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._tables = [hooks_dict, *(table for table in extra if table is not None)]
        self.id = next(_hook_ids)

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for table in self._tables:
            table.pop(self.id, None)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Hooks that come later must not take the number of one from another process.
        global _hook_ids
        self.__dict__.update(state)
        _hook_ids = itertools.count(max(next(_hook_ids), self.id + 1))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hook(NamedTuple):
    """A hook and how it is called. Tables of calls and backward passes of one module hold plain functions."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False
    kind: str = ""


Numbered = list[tuple[int, Hook]]

# Hooks of all modules. `everywhere` holds those of calls, `registration` those of new members.
everywhere: Hooks = OrderedDict()
registration: Hooks = OrderedDict()


def register(hooks: Hooks, hook: Any, first: bool = False, marks: Sequence[Hooks] = ()) -> RemovableHandle:
    """Add a hook to a table, and its number to the tables `marks`."""
    handle = RemovableHandle(hooks, extra_dict=list(marks))
    hooks[handle.id] = hook
    for table in marks:
        table[handle.id] = True
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _of_kind(
    kind: str, own: Hooks, with_kwargs: Hooks | None = None, always: Hooks | None = None
) -> Numbered:
    """Return the hooks of all modules and then the module's own, as they stand now."""
    found = [(number, hook) for number, hook in everywhere.items() if hook.kind == kind]
    for number, call in own.items():
        found.append((number, Hook(call, number in (with_kwargs or ()), number in (always or ()))))
    return found


# --- hooks of all modules -------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook before the `forward` of every module.

    Args:
        hook: a function ``(module, args)``; what it returns, unless None, replaces the arguments.
    Returns: a `RemovableHandle`.
    See also: register_module_forward_hook

    Example:
        >>> hooks = flambeau.nn.modules.module
        >>> with hooks.register_module_forward_pre_hook(lambda module, args: print(type(module).__name__)):
        ...     _ = flambeau.nn.ReLU()(flambeau.zeros(1))
        ReLU
    """
    return register(everywhere, Hook(hook, kind="forward_pre"))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call a hook after the `forward` of every module.

    Args:
        hook: a function ``(module, args, output)``; what it returns, unless None, replaces the output.
        with_kwargs: whether the hook takes the keyword arguments of the call, after `args`.
        always_call: whether the hook is called after an exception, too.
    Returns: a `RemovableHandle`.
    See also: register_module_forward_pre_hook

    Example:
        >>> hooks = flambeau.nn.modules.module
        >>> with hooks.register_module_forward_hook(lambda module, args, output: output + 1):
        ...     print(flambeau.nn.ReLU()(flambeau.zeros(1)))
        tensor([1.])
    """
    return register(everywhere, Hook(hook, with_kwargs, always_call, "forward"))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook before the gradients of every module are computed.

    Args:
        hook: a function ``(module, grad_output)``; what it returns, unless None, replaces the gradients of
            the result.
    Returns: a `RemovableHandle`.
    See also: register_module_full_backward_hook

    Example:
        >>> hooks = flambeau.nn.modules.module
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> with hooks.register_module_full_backward_pre_hook(lambda module, grads: (2 * grads[0],)):
        ...     flambeau.nn.ReLU()(x).sum().backward()
        >>> x.grad
        tensor([2.])
    """
    return register(everywhere, Hook(hook, kind="backward_pre"))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook after the gradients of every module are computed.

    Args:
        hook: a function ``(module, grad_input, grad_output)``; what it returns, unless None, replaces the
            gradients of the arguments.
    Returns: a `RemovableHandle`.
    See also: register_module_full_backward_pre_hook

    Example:
        >>> hooks = flambeau.nn.modules.module
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> with hooks.register_module_full_backward_hook(lambda module, grads, outer: (3 * grads[0],)):
        ...     flambeau.nn.ReLU()(x).sum().backward()
        >>> x.grad
        tensor([3.])
    """
    return register(everywhere, Hook(hook, kind="backward"))


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook for every parameter that any module registers.

    Args:
        hook: a function ``(module, name, parameter)``; what it returns, unless None, replaces the parameter.
    Returns: a `RemovableHandle`.

    Example:
        >>> hooks = flambeau.nn.modules.module
        >>> with hooks.register_module_parameter_registration_hook(lambda module, name, value: print(name)):
        ...     _ = flambeau.nn.Linear(2, 3)
        weight
        bias
    """
    return register(registration, Hook(hook, kind="parameter"))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook for every buffer that any module registers.

    Args:
        hook: a function ``(module, name, buffer)``; what it returns, unless None, replaces the buffer.
    Returns: a `RemovableHandle`.

    Example:
        >>> hooks = flambeau.nn.modules.module
        >>> with hooks.register_module_buffer_registration_hook(lambda module, name, value: print(name)):
        ...     _ = flambeau.nn.BatchNorm1d(2)
        running_mean
        running_var
        num_batches_tracked
    """
    return register(registration, Hook(hook, kind="buffer"))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook for every submodule that any module registers.

    Args:
        hook: a function ``(module, name, submodule)``; what it returns, unless None, replaces the submodule.
    Returns: a `RemovableHandle`.

    Example:
        >>> hooks = flambeau.nn.modules.module
        >>> with hooks.register_module_module_registration_hook(lambda module, name, child: print(name)):
        ...     _ = flambeau.nn.Sequential(flambeau.nn.ReLU())
        0
    """
    return register(registration, Hook(hook, kind="module"))


def registered(kind: str, module: Any, name: str, member: Any) -> Any:
    """Return the new member as the registration hooks of all modules leave it."""
    for hook in list(registration.values()):
        if hook.kind == kind:
            changed = hook.call(module, name, member)
            member = member if changed is None else changed
    return member


# --- backward -------------------------------------------------------------------------------------


class BackwardHookFunction(Function):
    """The identity: a node at a module's border, where the gradients can be seen together."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        """Return the arguments."""
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients."""
        return grads


class _Border:
    """Where the tensors among a module's arguments or results cross its border."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.count = len(values)
        self.places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        tensors = [values[i] for i in self.places]
        self.node = None
        self.values = values
        if not (flambeau.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return
        crossed = BackwardHookFunction.apply(*tensors)
        self.node = next(t.grad_fn for t in crossed if t.grad_fn is not None)
        replaced = dict(zip(self.places, crossed, strict=True))
        self.values = tuple(replaced.get(i, v) for i, v in enumerate(values))

    def spread(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Return one entry per argument or result, None for a value that is not a tensor."""
        given = dict(zip(self.places, grads, strict=True))
        return tuple(given.get(i) for i in range(self.count))

    def gather(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """Return the entries of the tensors."""
        return tuple(grads[i] for i in self.places)


def _checked(result: Any, expected: int, name: str) -> tuple[Any, ...]:
    found = result if isinstance(result, tuple) else (result,)
    if len(found) != expected:
        raise RuntimeError(
            f"Module.{name}: Backward {name} returned an invalid number of gradients: expected "
            f"{expected}, got {len(found)}"
        )
    return found


class _BackwardHooks:
    """The hooks of one call of a module whose backward is watched."""

    def __init__(self, module: Any, after: Numbered, before: Numbered) -> None:
        self.module = module
        self.after = after
        self.before = before
        self.inputs: _Border | None = None
        self.grad_outputs: tuple[Any, ...] | None = None

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, watched."""
        self.inputs = _Border(args)
        if self.inputs.node is not None:
            self.inputs.node.register_hook(self._left)
        return self.inputs.values

    def leave(self, result: Any) -> Any:
        """Return the results, watched."""
        single = not isinstance(result, tuple)
        border = _Border((result,) if single else result)
        if border.node is None:
            if single and not border.places:
                warnings.warn(
                    "backward hooks: expected the module to return a Tensor, or several in a tuple, got "
                    f"{type(result)}; the hooks do not run",
                    stacklevel=5,
                )
            return result
        border.node.register_prehook(lambda grads: self._reached(border, grads))
        return border.values[0] if single else border.values

    def _reached(self, border: _Border, grads: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run when the gradients of the results are there."""
        outputs = border.spread(grads)
        changed = False
        for _, hook in self.before:
            result = hook.call(self.module, outputs)
            if result is not None:
                outputs, changed = _checked(result, len(outputs), "pre hook"), True
        self.grad_outputs = outputs
        if self.inputs is not None and self.inputs.node is None:
            self._without_inputs()
        return border.gather(outputs) if changed else None

    def _without_inputs(self) -> None:
        """Run the hooks of a module whose arguments need no gradient: nothing will reach them."""
        assert self.inputs is not None
        for _, hook in self.after:
            result = hook.call(self.module, (None,) * self.inputs.count, self.grad_outputs)
            if result is not None and not all(r is None for r in result):
                raise RuntimeError(
                    "Module: no input of the Module requires grad, so no gradient can be replaced; return "
                    "None from the backward hook"
                )
        self.grad_outputs = None

    def _left(self, grads: Sequence[Any], _: Any) -> tuple[Any, ...] | None:
        """Run when the gradients of the arguments are there."""
        if self.grad_outputs is None or self.inputs is None:
            return None  # the results were not used
        inputs = self.inputs.spread(grads)
        for _number, hook in self.after:
            result = hook.call(self.module, inputs, self.grad_outputs)
            if result is not None:
                inputs = _checked(result, len(inputs), "hook")
        self.grad_outputs = None
        return self.inputs.gather(inputs)


class _Call:
    """One call of a module with hooks, which may change its arguments and result."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.done: set[int] = set()  # the numbers of the hooks that have run


# --- the module's side ----------------------------------------------------------------------------


class HookedModule:
    """The part of Module that is called, and that hooks are registered with."""

    forward: Callable[..., Any]
    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: Hooks
    _forward_hooks_always_called: Hooks
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: Hooks
    _backward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _is_full_backward_hook: bool | None

    # What `Module.compile` made; it is in the dict of the module, where calls from C look for it.
    _compiled_call_impl: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled = self._compiled_call_impl
        return self._call_impl(*args, **kwargs) if compiled is None else compiled(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or everywhere
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    _wrapped_call_impl = __call__

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = _Call(args, kwargs)
        try:
            return self._call_watched(call)
        except Exception:
            # Hooks that always run see the result so far, None if forward has raised.
            for number, hook in self._after_forward():
                if not hook.always or number in call.done:
                    continue
                try:
                    changed = self._call_hook(hook, call)
                    call.result = call.result if changed is None else changed
                except Exception as error:
                    warnings.warn(
                        f"a forward hook with always_call=True failed after forward had: {error}",
                        stacklevel=3,
                    )
            raise

    def _after_forward(self) -> Numbered:
        own = self._forward_hooks
        return _of_kind("forward", own, self._forward_hooks_with_kwargs, self._forward_hooks_always_called)

    def _call_watched(self, call: _Call) -> Any:
        call.args, call.kwargs = self._before(call.args, call.kwargs)
        full = self._is_full_backward_hook is not False
        after = _of_kind("backward", self._backward_hooks if full else OrderedDict())
        before = _of_kind("backward_pre", self._backward_pre_hooks)
        backward = _BackwardHooks(self, after, before) if after or before else None
        if backward is not None:
            call.args = backward.enter(call.args)
        call.result = self.forward(*call.args, **call.kwargs)
        for number, hook in self._after_forward():
            call.done.add(number)
            changed = self._call_hook(hook, call)
            call.result = call.result if changed is None else changed
        if backward is not None:
            call.result = backward.leave(call.result)
        if not full:
            self._watch_last_node(call.args, call.result)
        return call.result

    def _before(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        own = self._forward_pre_hooks
        for _, hook in _of_kind("forward_pre", own, self._forward_pre_hooks_with_kwargs):
            changed = hook.call(self, args, kwargs) if hook.with_kwargs else hook.call(self, args)
            if changed is None:
                continue
            if not hook.with_kwargs:
                args = changed if isinstance(changed, tuple) else (changed,)
            elif isinstance(changed, tuple) and len(changed) == 2:
                args, kwargs = changed
            else:
                raise RuntimeError(
                    "Module: forward pre-hook: expected None or a pair (args, kwargs) as its result, got "
                    f"{changed}"
                )
        return args, kwargs

    def _call_hook(self, hook: Hook, call: _Call) -> Any:
        kwargs = (call.kwargs,) if hook.with_kwargs else ()
        return hook.call(self, call.args, *kwargs, call.result)

    def _watch_last_node(self, args: Any, result: Any) -> None:
        """Serve the old backward hooks, which see the node of the first result only."""
        nodes = {t.grad_fn for t in tensors_in(result)} - {None}
        node = next((t.grad_fn for t in tensors_in(result) if t.grad_fn is not None), None)
        if node is None:
            return
        inputs = {t.grad_fn for t in tensors_in(args)} - {None}
        if len(nodes) > 1 or inputs != {before for before, _ in node.next_functions}:
            warnings.warn(
                "register_backward_hook: forward recorded several nodes, so the hook misses some gradients; "
                "use register_full_backward_hook",
                FutureWarning,
                stacklevel=4,
            )
        for hook in self._backward_hooks.values():
            node.register_hook(lambda grads, outs, call=hook: call(self, grads, outs))

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call a hook before each `forward` of this module.

        Args:
            hook: a function ``(module, args)``, or ``(module, args, kwargs)`` with `with_kwargs`; what it
                returns, unless None, replaces the arguments.
            prepend: whether the hook is called before those that are registered already.
            with_kwargs: whether the hook takes the keyword arguments of the call.
        Returns: a `RemovableHandle`.
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return register(self._forward_pre_hooks, hook, prepend, marks)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call a hook after each `forward` of this module.

        Args:
            hook: a function ``(module, args, output)``, or ``(module, args, kwargs, output)`` with
                `with_kwargs`; what it returns, unless None, replaces the output.
            prepend: whether the hook is called before those that are registered already.
            with_kwargs: whether the hook takes the keyword arguments of the call.
            always_call: whether the hook is called after an exception, too.
        Returns: a `RemovableHandle`.

        Example:
            >>> layer = flambeau.nn.ReLU()
            >>> _ = layer.register_forward_hook(lambda module, args, output: output + 1)
            >>> layer(flambeau.tensor([-1.0, 1.0]))
            tensor([1., 2.])
        """
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        return register(self._forward_hooks, hook, prepend, marks)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call a hook when the gradients of this module's arguments are computed.

        Args:
            hook: a function ``(module, grad_input, grad_output)``; what it returns, unless None, replaces the
                gradients of the arguments.
            prepend: whether the hook is called before those that are registered already.
        Returns: a `RemovableHandle`.
        Raises: RuntimeError if the module has a hook of `register_backward_hook`.
        """
        self._choose_backward_hooks(True)
        return register(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call a hook when the gradients of this module's results are computed.

        Args:
            hook: a function ``(module, grad_output)``; what it returns, unless None, replaces the gradients.
            prepend: whether the hook is called before those that are registered already.
        Returns: a `RemovableHandle`.
        """
        return register(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook with the gradients of the last node that `forward` adds, which may not be those of the
        module; deprecated.

        Args:
            hook: a function ``(module, grad_input, grad_output)``; what it returns, unless None, replaces the
                gradients.
        Returns: a `RemovableHandle`.
        Raises: RuntimeError if the module has a hook of `register_full_backward_hook`.
        See also: Module.register_full_backward_hook
        """
        self._choose_backward_hooks(False)
        return register(self._backward_hooks, hook)

    def _choose_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Module: a Module has regular or full backward hooks, not both; remove those of the "
                "other kind first"
            )
        self._is_full_backward_hook = full
