"""Transforms within transforms, in every order, of functions that write in place, reshape and reduce."""

import itertools

import flambeau as fb
import numpy as np
import pytest
from side_by_side import agree

X = np.linspace(0.2, 1.1, 4)

TRANSFORMS = {
    "grad": lambda m, f: m.func.grad(lambda a: f(a).sum()),
    "jvp": lambda m, f: lambda a: m.func.jvp(f, (a,), (a.cos(),))[1],
    "vjp": lambda m, f: lambda a: (lambda out, pull: pull(out)[0])(*m.func.vjp(f, a)),
    "vmap": lambda m, f: lambda a: m.vmap(f)(m.stack([a, a * 2])).sum(0),
    "vmap of columns": lambda m, f: lambda a: m.vmap(f, 1, 1)(m.stack([a, a + 1], dim=1))[:, 1],
}


def written(m, a):
    b = a * a
    b[1:].mul_(a[:-1].clone())
    c = b.view(2, 2).t()
    c[0] = c[1].clone() * a[:2]
    return (b.exp() * a).cumsum(0)


def attended(m, a):
    return m.nn.functional.softmax(m.outer(a, a.sin()), 1).matmul(a)


def chosen(m, a):
    return m.where(a > 0.5, a.tanh() * a, a.square()).flip(0) * a.norm()


FUNCTIONS = {f.__name__: f for f in (written, attended, chosen)}


def nested(m, names, function, a):
    def f(x):
        return function(m, x)

    for name in names:
        f = TRANSFORMS[name](m, f)
    return f(a)


def is_recorded(names):
    """Whether reverse mode goes around forward mode, and needs tangents that a write in place replaces."""
    first = names.index("jvp") if "jvp" in names else len(names)
    return any(name in ("grad", "vjp") for name in names[first:])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("names", list(itertools.product(TRANSFORMS, repeat=2)), ids=" in ".join)
def test_two(names, function):
    if function == "written" and is_recorded(names):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            nested(fb, names, written, fb.tensor(X))
    else:
        agree(lambda m, a: nested(m, names, FUNCTIONS[function], a), X)


@pytest.mark.parametrize("names", list(itertools.product(TRANSFORMS, repeat=3)), ids=" in ".join)
def test_three(names):
    agree(lambda m, a: nested(m, names, attended if is_recorded(names) else written, a), X)
