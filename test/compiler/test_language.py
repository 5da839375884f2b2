"""Programs with all features of Python return the same results with and without capture."""

import collections
import dataclasses
import functools

import flambeau as fb
import pytest
from captured import run_both
from flambeau.nn import functional as F


class P:
    k = 3

    def __init__(s):
        s.n = 0
        s.cache = {}
        s.items = []

    @property
    def twice(s):
        return s.n * 2

    @functools.cached_property
    def big(s):
        return s.k * 100

    @classmethod
    def cm(cls, x):
        return x * cls.k

    @staticmethod
    def sm(x):
        return x + 1

    def __len__(s):
        return 2

    def __getitem__(s, i):
        return s.n + i

    def __call__(s, x):
        return s.cm(x) + s.twice + s.big

    def __add__(s, o):
        return s.n + o

    def __contains__(s, o):
        return o == 1

    def __enter__(s):
        s.n += 1
        return s

    def __exit__(s, *a):
        s.n -= 1
        return False


@dataclasses.dataclass
class D:
    a: object
    b: int = 2


NT = collections.namedtuple("NT", "x y")


def protocols_of_a_class(x):
    p = P()
    p.n = 2
    with p as q:
        y = q(x) + len(p) + p[1]
    return y, p.n, (p + 1), 1 in p, 5 in p, p.sm(x)


def records(x):
    d = D(x, 3)
    nt = NT(x, x + 1)
    return d.a * d.b, nt.y, nt._replace(x=x * 2), dataclasses.replace(d, b=5).b


def all_kinds_of_parameters(x, *args, k=1, **kw):
    return x * k + sum(args) + kw.get("z", 0)


def a_variable_of_the_enclosing_function(x):
    def inner(y):
        nonlocal t
        t = t + 1
        return y * t

    t = 1
    return inner(x) + inner(x), t


def exceptions(x):
    try:
        try:
            raise KeyError("q")
        finally:
            x = x + 1
    except KeyError as e:
        return x, e.args
    else:
        return 0


def patterns(x):
    match x.shape:
        case (3, b):
            r = x + b
        case _:
            r = x
    match {"a": 1}:
        case {"a": v}:
            r = r * v
    match [1, 2, 3]:
        case [_, *t]:
            r = r + len(t)
    return r


def builtin_functions(x):
    return (
        sorted([3, 1, 2], key=lambda v: -v),
        list(map(lambda v: x * v, [1, 2])),
        list(filter(None, [0, 1])),
        functools.reduce(lambda a, b: a + b, [x, x, x]),
        max([1, 5, 3]),
        min(2, 1),
        any([False, True]),
        all([]),
        dict(a=1, **{"b": 2}),
        [*range(3)],
        {1, 2} | {3},
        list(zip([1, 2], [3, 4], strict=True)),
        list(reversed([1, 2])),
        "a,b".split(","),
        f"{1} {2.5:.2f}",
        f"{3:04d}",
    )


def writes_to_parts(x):
    y = x[1:, ::2]
    y.add_(1)
    x[0] = 5
    x[:, -1] *= 2
    return x, y, x.T, x[None], x[..., 0], x[[0, 1]], x[fb.tensor([0, 2])]


def results_that_are_arguments(x):
    return x, x, [x, x]


def writes_to_an_argument(x, y):
    x.add_(y)
    return x + y


def unpacked_tensors(x):
    a, b, c = x
    h, *r = x
    return a + b + c, r, [r * 2 for r in x]


def generators(x):
    def g():
        v = yield x
        while v is not None:
            v = yield v * 2
        return 7

    it = g()
    next(it)
    r = [it.send(1), it.send(2)]

    def d():
        return (yield from g2())

    def g2():
        yield 1
        yield 2
        return 3

    def outer():
        z = yield from g2()
        yield z

    return r, list(outer())


G = [0]
GV = 1


def writes_to_globals(x):
    global GV
    GV = 2
    G.append(x.shape[0])
    v = GV
    GV = 1
    G.pop()
    return x * v


def an_assignment_in_a_condition(x):
    if (n := x.shape[0]) > 2:
        return x + n
    return x


def fact(n, x):
    return x if n == 0 else fact(n - 1, x * n)


def recursion(x):
    return fact(4, x)


def methods_of_tensors(x):
    return (
        fb.where(x > 0, x, -x),
        x.max(dim=1),
        fb.topk(x, 2),
        x.chunk(2, 1),
        fb.stack([x, x]),
        x.size(),
        x.size(0),
        x.dtype,
        x.device,
        x.numel(),
        fb.zeros_like(x),
        fb.arange(3),
        fb.tensor([1.0, 2.0]),
        x.float(),
        x.to(fb.float64),
        x.view(-1),
        x.reshape(4, 3),
        x.permute(1, 0),
        x.unsqueeze(0),
        x.expand(2, 3, 4),
        fb.cat([x, x]),
        x @ x.T,
        -x,
        ~(x > 0),
        x**2,
        2**x,
        1 / x,
        x // 1,
        x % 2,
        abs(x),
        x == x,
        round(3.6),
        x.sum(0, keepdim=True),
        F.softmax(x, -1),
        x.mean().sqrt(),
    )


def containers(x):
    assert x.shape[0] == 3, "msg"
    assert isinstance(x, fb.Tensor) and not isinstance(x, int)
    d = {}
    d.setdefault("a", []).append(x)
    d["b"] = 2
    del d["b"]
    d.update(c=1)
    dd = collections.defaultdict(list)
    dd["q"].append(1)
    od = collections.OrderedDict(a=1)
    od.move_to_end("a")
    s = {1}
    s.add(2)
    numbers = [3, 1]
    numbers.sort()
    numbers.insert(0, 5)
    numbers.extend(i for i in range(2))
    numbers += [1]
    c = collections.Counter("aab")
    dq = collections.deque([1, 2], maxlen=3)
    dq.append(3)
    return (
        d,
        dict(dd),
        dict(od),
        s,
        numbers,
        dict(c),
        list(dq),
        hasattr(x, "shape"),
        getattr(x, "foo", 3),
        type(x) is fb.Tensor,
        callable(len),
        isinstance(3, (int, str)),
    )


class Fn(fb.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def a_function_with_its_own_gradient(x):
    return Fn.apply(x) + 1


def modes(x):
    with fb.no_grad(), fb.autocast("cpu", dtype=fb.bfloat16):
        y = x @ x.T

    @fb.no_grad()
    def f(z):
        return z * 2

    with fb.enable_grad():
        w = f(x)
    fb.set_grad_enabled(False)
    v = x * 1
    fb.set_grad_enabled(True)
    return y, w, v


def loops(x):
    r = []
    for i in range(10):
        if i == 2:
            continue
        if i == 5:
            break
        r.append(x * i)
    else:
        r.append(0)
    while len(r) < 6:
        r.append(len(r))
    return r


def attributes_of_tensors(x):
    x.attr = 3
    y = x * x.attr
    del x.attr
    return y


def calls_that_print(x):
    print(end="")
    y = x + 1
    print(end="")
    return y * 2


def a_branch_on_an_element(x):
    y = x.sum().item()
    return x * 2 + y if y > 0 else x


def writes_to_a_dict(x, d):
    d["n"] = d["n"] + 1
    d["l"].append(x * 2)
    return x + d["n"]


def descriptors(x):
    return SHARED.cm(x) + SHARED.big + SHARED.twice


def a_class_in_a_function(x):
    class L:
        def f(self, x):
            return x + 1

    return L().f(x)


def metadata(x):
    return (
        x.new_zeros(2),
        x.type(),
        fb.is_tensor(x),
        fb.is_grad_enabled(),
        fb.finfo(x.dtype).max,
        fb.get_default_dtype(),
        x.is_contiguous(),
        fb.Size([1, 2]) + (3,),
        tuple(x.shape),
        list(x.shape),
        len(x),
        x.shape[-1],
        x.dim(),
    )


def imports(x):
    import math
    from math import pi

    return x * math.sqrt(2) * pi


def comprehensions(x):
    return (
        [(i, j) for i in range(2) for j in range(2) if i != j],
        {k: v for k, v in {"a": x}.items()},
        {i for i in [1]},
        [y for y in (x * k for k in (1, 2))],
    )


def defaults(x, y=None, *, z=2):
    return x * z if y is None else x + y


X = fb.randn(3, 4, generator=fb.Generator().manual_seed(3))
SHARED = P()
# Program, arguments, number of graphs.
PROGRAMS = [
    (protocols_of_a_class, (X,), 1),
    (records, (X,), 1),
    (all_kinds_of_parameters, (X, 1, 2), 1),
    (a_variable_of_the_enclosing_function, (X,), 1),
    (exceptions, (X,), 1),
    (patterns, (X,), 1),
    (builtin_functions, (X,), 1),
    (writes_to_parts, (X,), 1),
    (results_that_are_arguments, (X,), 0),
    (writes_to_an_argument, (X, X + 1), 1),
    (unpacked_tensors, (X,), 1),
    (generators, (X,), 0),
    (writes_to_globals, (X,), 1),
    (an_assignment_in_a_condition, (X,), 1),
    (recursion, (X,), 1),
    (methods_of_tensors, (X,), 1),
    (containers, (X,), 0),
    (a_function_with_its_own_gradient, (X,), 1),
    (modes, (X,), 1),
    (loops, (X,), 1),
    (attributes_of_tensors, (X,), 1),
    (calls_that_print, (X,), 2),
    (a_branch_on_an_element, (X,), 2),
    (writes_to_a_dict, (X, {"n": 1, "l": []}), None),
    (descriptors, (X,), 1),
    (a_class_in_a_function, (X,), None),
    (metadata, (X,), 1),
    (imports, (X,), 1),
    (comprehensions, (X,), 1),
    (defaults, (X,), 1),
]


@pytest.mark.parametrize(
    ("function", "arguments", "count"), PROGRAMS, ids=[row[0].__name__ for row in PROGRAMS]
)
def test_capture_changes_no_result(function, arguments, count):
    graphs, program = run_both(function, arguments)
    assert count is None or len(graphs) == count, program.log


def test_methods_written_in_python_end_graphs_and_run():
    def f(x):
        return x * 2 + fb.from_numpy((x.detach() * 1).numpy()) + 1

    run_both(f, [fb.ones(3)])
