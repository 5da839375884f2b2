"""Compiled functions and functionalisation."""

import flambeau as fb


def six_times(x):
    return x * 2 * 3


def test_functional_tensors_run_as_captured():
    """A write replaces the value of a functional tensor, so its graph does not fit plain tensors."""
    compiled = fb.compile(six_times)
    for _ in range(2):
        x = fb.ones(5000)
        wrapped = fb._to_functional_tensor(x)
        wrapped.add_(1)
        result = compiled(wrapped)
        assert fb._is_functional_tensor(result) and not fb._is_functional_tensor(compiled(x))
        fb._sync(result)
        assert fb._from_functional_tensor(result).tolist()[:2] == [12, 12]
        assert compiled(x).tolist()[:2] == [6, 6] and x.tolist()[:2] == [1, 1]


def test_compiled_functions_run_as_they_are_under_functionalize():
    def program(x):
        y = x.clone()
        y.add_(1)
        return y * 2

    compiled = fb.compile(program)
    x = fb.zeros(5000)
    for _ in range(2):
        assert fb.func.functionalize(compiled)(x).tolist()[:2] == [2, 2]
        assert compiled(x).tolist()[:2] == [2, 2]
