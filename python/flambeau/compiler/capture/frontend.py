"""The objects that programs call: compiled functions, methods and modules."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau._dynamo.eval_frame import OptimizedModule
from flambeau.compiler.capture.programs import Program
from flambeau.compiler.capture.segments import Backend


def compiled(
    target: Any,
    backend: Callable[..., Any],
    is_whole: bool = False,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    limit: int | None = None,
    dynamic: bool | None = None,
) -> Any:
    """Return a compiled version of a function, a method, a callable object or a Module."""
    chosen: Backend = backend
    given: dict[str, Any] = {
        **({"mode": mode} if mode is not None else {}),
        **({"options": options} if options else {}),
    }
    if given:
        chosen = functools.partial(backend, **given)
    if isinstance(target, flambeau.nn.Module):
        call = type(target).__call__
        call = type(target)._call_impl if call is flambeau.nn.Module.__call__ else call
        return OptimizedModule(target, Program(_function_of(call), chosen, is_whole, limit, dynamic))
    if isinstance(target, types.MethodType):
        return types.MethodType(_wrapped(target.__func__, chosen, is_whole, limit, dynamic), target.__self__)
    return _wrapped(target, chosen, is_whole, limit, dynamic)


def _function_of(target: Any) -> Any:
    """Return a Python function that is equivalent to a callable."""
    if isinstance(target, types.FunctionType):
        return target

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return call


def _wrapped(
    target: Any, backend: Backend, is_whole: bool, limit: int | None, dynamic: bool | None = None
) -> Any:
    original = getattr(target, "_torchdynamo_orig_callable", target)
    program = Program(_function_of(original), backend, is_whole, limit, dynamic)

    def run(*args: Any, **kwargs: Any) -> Any:
        return program(*args, **kwargs)

    functools.update_wrapper(run, original)
    run._torchdynamo_orig_callable = original  # type: ignore[attr-defined]
    run._torchdynamo_program = program  # type: ignore[attr-defined]
    return run


@dataclass
class ExplainOutput:
    """The result of `explain`.

    Args:
        graphs: the captured graphs, as `fx.GraphModule`.
        graph_count: the number of graphs.
        graph_break_count: how often a graph ended before the function did.
        break_reasons: why each graph ended, and where.
        op_count: how many operators the graphs hold.
        ops_per_graph: the operators of each graph.
        out_guards: the conditions under which the graphs run again.
        compile_times: accepted for compatibility; an empty text.
    """

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[Any]
    op_count: int
    ops_per_graph: list[list[Any]] = field(default_factory=list)
    out_guards: list[Any] = field(default_factory=list)
    compile_times: str = ""

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        lines += [f"  Break Reason {i + 1}:\n    {reason}" for i, reason in enumerate(self.break_reasons)]
        return "\n".join(lines)


def explain(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Capture the graphs of a call and describe them.

    Args:
        function: a function or Module.
        given, named: arguments to call it with. Without arguments, `explain` returns a function that takes
            them.
    Returns: an `ExplainOutput`, or a function that returns it.
    """

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        graphs: list[Any] = []

        def keep(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
            graphs.append(graph)
            run: Callable[..., Any] = graph.forward
            return run

        made = compiled(function, keep)
        program: Program = made._program if isinstance(made, OptimizedModule) else program_of(made)
        made(*args, **kwargs)
        ops = [[n.target for n in g.graph.nodes if n.op.startswith("call_")] for g in graphs]
        guards = [guard for recorded in program.segments.values() for s in recorded for guard in s.guards]
        return ExplainOutput(
            graphs, len(graphs), max(len(graphs) - 1, 0), list(program.log), sum(map(len, ops)), ops, guards
        )

    return inner(*given, **named) if given or named else inner


def program_of(made: Any) -> Program:
    """Return the `Program` of a compiled function or method."""
    program: Program = getattr(made, "__func__", made)._torchdynamo_program
    return program
