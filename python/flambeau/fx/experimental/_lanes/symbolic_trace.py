"""`make_fx` with symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau.fx.experimental._lanes.recording import Recorder, Recording, SymbolicTracer
from flambeau.fx.experimental._operator_trace import Decompositions, _keep_structure, _name_of
from flambeau.fx.experimental._sizes.contexts import DimDynamic
from flambeau.fx.experimental._sizes.shape_env import ShapeEnv
from flambeau.utils import _pytree as pytree

_CHECKED_SAMPLES = 4


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    mode: FakeTensorMode | None,
    decompositions: Decompositions | None,
    *,
    allow_non_fake_inputs: bool,
    record_stack_traces: bool,
) -> flambeau.fx.GraphModule:
    """Run a function on tensors with symbolic sizes and return the graph of its operators.

    Args:
        function: the function.
        args: examples of its arguments.
        mode: the mode of the examples, if they are fake tensors.
        decompositions: overload -> function whose operators are recorded instead.
        allow_non_fake_inputs: whether the function may use other tensors.
        record_stack_traces: whether nodes hold the lines of the program.
    """
    if mode is None or mode.shape_env is None:
        mode = FakeTensorMode(allow_non_fake_inputs=allow_non_fake_inputs, shape_env=ShapeEnv())
    program = mode._lanes.program
    leaves, structure = pytree.tree_flatten(args)
    is_flat = len(leaves) == len(args) and all(a is b for a, b in zip(leaves, args, strict=True))
    names = [_name_of(function, i) if is_flat else f"arg{i}_1" for i in range(len(leaves))]
    given = [_symbolic(mode, leaf, name) for leaf, name in zip(leaves, names, strict=True)]
    tracer = SymbolicTracer(program, record_stack_traces)
    recorder = Recorder(program, tracer, decompositions)
    for value, name in zip(given, names, strict=True):
        node = tracer.graph.placeholder(name)
        recorder.take(value, node)
        if isinstance(value, flambeau._C._CustomObject):
            tracer.remember_object(value, node)
    before, program.recorder = program.recorder, recorder
    try:
        with mode, Recording(tracer):
            result = function(*pytree.tree_unflatten(given, structure))
        program.check_samples(_CHECKED_SAMPLES)
    finally:
        program.recorder = before
    if is_flat:
        tracer.graph.output(pytree.tree_map(tracer.create_arg, result))
    else:
        _keep_structure(tracer, structure, result)
    made = flambeau.fx.GraphModule(tracer.root, tracer.graph, getattr(function, "__name__", "traced"))
    made.shape_env = mode.shape_env
    return made


def _symbolic(mode: FakeTensorMode, leaf: Any, name: str) -> Any:
    if isinstance(leaf, flambeau.Tensor):
        return mode.from_tensor(leaf, source=name)
    if type(leaf) is int:
        env = mode.shape_env
        expr = env.create_symbol(leaf, name, DimDynamic.DYNAMIC, do_not_specialize_zero_one=True)
        env.free_number(expr)
        return env.create_symintnode(expr)
    return leaf
