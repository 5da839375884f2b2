"""Compiled functions beside the same functions run as they are."""

import copy

import flambeau as fb
from flambeau.compiler.capture.frontend import program_of


def same(x, y):
    """Whether two results are equal, with types, dtypes and sizes; NaN equals NaN."""
    if isinstance(x, fb.Tensor):
        return (
            type(x) is type(y)
            and x.dtype == y.dtype
            and x.shape == y.shape
            and x.requires_grad == y.requires_grad
            and fb.equal(fb.nan_to_num(x.detach()), fb.nan_to_num(y.detach()))
        )
    if isinstance(x, list | tuple):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(same(x[key], y[key]) for key in x)
    return type(x) is type(y) and (x == y or x != x)


class Recorder:
    """A backend that keeps the graphs and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph.forward


def program(made):
    """The program behind what `compile` returned."""
    return made.__dict__["_program"] if isinstance(made, fb.nn.Module) else program_of(made)


def run_both(function, arguments, calls=3):
    """Call a function and its compiled copy; returns the graphs, and the program with its log."""
    backend = Recorder()
    made = fb.compile(function, backend=backend)
    plain, compiled = copy.deepcopy(arguments), copy.deepcopy(arguments)
    for seed in range(calls):
        fb.manual_seed(seed)
        expected = function(*plain)
        fb.manual_seed(seed)
        got = made(*compiled)
        assert same(expected, got), (seed, expected, got)
        assert same(list(plain), list(compiled)), (seed, plain, compiled)
    assert not program(made).is_given_up, program(made).is_given_up
    return backend.graphs, program(made)


def raised(function, *arguments):
    """The result of a call, or the type of its exception."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)
