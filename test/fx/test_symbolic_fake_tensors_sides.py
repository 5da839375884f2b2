"""Fake tensors with symbolic sizes, side by side with PyTorch's: geometry, guards, numbers and refusals."""

import copy
import pickle
from importlib import import_module

import flambeau as fb
import pytest

pytest.importorskip("sympy")


@pytest.fixture(params=["flambeau", "torch"])
def fw(request):
    return fb if request.param == "flambeau" else pytest.importorskip("torch")


def shapes_of(fw):
    return import_module(f"{fw.__name__}.fx.experimental.symbolic_shapes")


def fake_of(fw):
    return import_module(f"{fw.__name__}._subclasses.fake_tensor")


def new_mode(fw, **options):
    env = shapes_of(fw).ShapeEnv(**options)
    return env, fake_of(fw).FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)


def numbers(env, sizes, values):
    """Sizes for other numbers in the place of symbols, which are in the order of their creation."""
    symbols = list(env.var_to_val if hasattr(env, "var_to_val") else env.backed_var_to_val)
    chosen = dict(zip(symbols, values, strict=True))
    return [int(n.node.expr.subs(chosen)) if hasattr(n, "node") else n for n in sizes]


PROGRAMS = {
    "pointwise": lambda fw, x: x * 2 + 1,
    "transposed": lambda fw, x: x.t() + 1,
    "flattened": lambda fw, x: x.reshape(-1),
    "split": lambda fw, x: x.view(x.shape[0], -1),
    "repeated": lambda fw, x: fw.cat([x, x, x[:1]]),
    "every second": lambda fw, x: x[1::2],
    "last row": lambda fw, x: x[-1],
    "padded": lambda fw, x: fw.nn.functional.pad(x, (1, x.shape[0])),
    "expanded": lambda fw, x: x.unsqueeze(0).expand(5, -1, -1),
    "pooled": lambda fw, x: fw.nn.functional.avg_pool1d(x, 3, stride=2, padding=1),
    "convolved": lambda fw, x: fw.nn.functional.conv1d(x[None], x.new_ones(4, x.shape[0], 3), stride=3),
    "outer": lambda fw, x: (x[:, 0, None] * x[0]).permute(1, 0),
    "interpolated": lambda fw, x: fw.nn.functional.interpolate(x[None], scale_factor=2),
    "triangle": lambda fw, x: x.new_zeros(x.numel()).diag(),
}


FIXED_BY_PYTORCH = ("padded", "interpolated")


@pytest.mark.parametrize("name", PROGRAMS)
def test_geometry_holds_for_other_sizes(fw, name):
    if fw is not fb and name in FIXED_BY_PYTORCH:
        pytest.skip("PyTorch makes the sizes constants or fails")
    program = PROGRAMS[name]
    env, mode = new_mode(fw)
    x = mode.from_tensor(fw.randn(6, 8))
    with mode:
        found = program(fw, x)
    for sizes in ((6, 8), (5, 13), (11, 7), (3, 30)):
        real = program(fw, fw.randn(sizes))
        assert numbers(env, found.shape, sizes) == list(real.shape), sizes
        assert numbers(env, found.stride(), sizes) == list(real.stride()), sizes
        assert numbers(env, [found.storage_offset(), found.numel()], sizes) == [
            real.storage_offset(),
            real.numel(),
        ]


def test_sizes_of_inputs(fw):
    env, mode = new_mode(fw)
    x = mode.from_tensor(fw.ones(3, 4, 3, 1))
    a, b, c, one = x.shape
    assert one == 1 and type(one) is int and a.node.expr == c.node.expr != b.node.expr
    assert isinstance(a, fw.SymInt) and isinstance(x.shape, fw.Size) and (a.node.hint, b.node.hint) == (3, 4)
    assert [str(s) for s in x.stride()][-2:] == ["1", "1"]
    assert str(x.numel()) in (f"{a}**2*{b}", f"{b}*{a}**2")
    assert env.guards == []
    assert len(x) == 3 and str(env.guards[0].expr) == f"Eq({a.node._expr}, 3)"


def test_dimensions_are_chosen(fw):
    shapes = shapes_of(fw)
    context = shapes.StatelessSymbolicContext(
        dynamic_sizes=[shapes.DimDynamic.STATIC, shapes.DimDynamic.DYNAMIC, shapes.DimDynamic.DYNAMIC]
    )
    _, mode = new_mode(fw)
    x = mode.from_tensor(fw.ones(3, 3, 3), symbolic_context=context)
    assert x.shape[0] == 3 and type(x.shape[0]) is int
    assert x.shape[1].node.expr != x.shape[2].node.expr
    static = mode.from_tensor(fw.ones(5, 6), static_shapes=True)
    assert [type(n) for n in static.shape] == [int, int]


def test_the_same_tensor_is_converted_once(fw):
    _, mode = new_mode(fw)
    x = fw.ones(3, 4)
    assert mode.from_tensor(x) is mode.from_tensor(x)


def distinct(fw, *sizes):
    shapes = shapes_of(fw)
    env, mode = new_mode(fw)
    made = []
    for size in sizes:
        context = shapes.StatelessSymbolicContext(dynamic_sizes=[shapes.DimDynamic.DYNAMIC] * len(size))
        made.append(mode.from_tensor(fw.ones(size), symbolic_context=context))
    return env, made


def test_equal_sizes_become_a_guard(fw):
    env, (x, y) = distinct(fw, (3, 4), (3, 4))
    assert (x + y).shape[0].node.hint == 3
    found = {frozenset(map(str, g.expr.free_symbols)) for g in env.guards}
    symbols = [[n.node._expr for n in t.shape] for t in (x, y)]
    assert found == {frozenset(map(str, pair)) for pair in zip(*symbols, strict=True)}
    env, (x, y) = distinct(fw, (2, 3, 4), (2, 4, 5))
    assert (x @ y).dim() == 3 and len(env.guards) == 2


def test_conditions_of_the_program_are_recorded(fw):
    env, mode = new_mode(fw)
    x = mode.from_tensor(fw.ones(6, 4))
    assert x.shape[0] > 3 and x.shape[0] * 2 < 100
    assert len(env.guards) == 2
    assert x.shape[0] > 2 and len(env.guards) == 2  # it follows
    fw._check(x.shape[1] < 50)
    assert len(env.guards) == 3


def test_divisibility_becomes_a_guard(fw):
    env, (x,) = distinct(fw, (3, 8))
    assert x.view(-1, 4).shape[1] == 4
    assert any("Mod" in str(g.expr) for g in env.guards)  # PyTorch records more conditions


def test_errors_are_those_of_the_example(fw):
    _, mode = new_mode(fw)
    x, y = mode.from_tensor(fw.ones(3, 4)), mode.from_tensor(fw.ones(5, 6))
    for call in (lambda: x + y, lambda: x @ y, lambda: x.view(7, -1), lambda: fw.cat([x, y])):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(IndexError):
        x.sum(2)


def test_gradients(fw):
    env, mode = new_mode(fw)
    w = mode.from_tensor(fw.randn(4, 6, requires_grad=True))
    assert w.requires_grad and w.is_leaf and w.grad is None
    (w.sin() * w.mean()).sum().backward()
    assert str(w.grad.shape) == str(w.shape) and w.grad is w.grad
    x = mode.from_tensor(fw.randn(5, 4))
    (g,) = fw.autograd.grad((x @ w).exp().sum(), w)
    assert [str(n) for n in g.shape] == [str(n) for n in w.shape]
    assert env.guards == []


def test_writes_change_the_geometry(fw):
    _, mode = new_mode(fw)
    x = mode.from_tensor(fw.randn(4, 6))
    a, b = x.shape
    y = x.clone()
    assert y.t_() is y and [str(n) for n in y.shape] == [str(b), str(a)]
    assert y.unsqueeze_(0) is y and y.dim() == 3 and y.add_(1) is y
    with fw.no_grad():
        y[0, 1:] = 0.0


def test_modules_and_optimizers(fw):
    env, mode = new_mode(fw)
    x = mode.from_tensor(fw.randn(4, 6))
    width = x.shape[1].node._expr
    with mode:
        model = fw.nn.Sequential(fw.nn.Linear(6, 5), fw.nn.ReLU(), fw.nn.Linear(5, 2))
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    assert model[0].weight.grad.shape == (5, 6)
    assert [str(g.expr) for g in env.guards] == [f"Eq({width}, 6)"]


def test_numbers_of_elements_are_new_symbols(fw):
    env, mode = new_mode(fw)
    env_of = shapes_of(fw)
    x = mode.from_tensor(fw.randn(3, 4))
    rows = x.nonzero()
    assert str(rows.shape[0]) == "u0" and rows.shape[1] == 2
    assert str(x[x > 0].shape[0]) == "u1"
    assert isinstance(x.sum().item(), fw.SymFloat)
    assert isinstance(x.argmax().item(), fw.SymInt)
    with pytest.raises(env_of.GuardOnDataDependentSymNode):
        bool(x.sum() > 0)
    with pytest.raises(env_of.GuardOnDataDependentSymNode):
        int(x.argmax())


def test_propagation_through_a_graph(fw):
    prop = import_module(f"{fw.__name__}.fx.passes.fake_tensor_prop").FakeTensorProp
    graph = fw.fx.symbolic_trace(lambda x: x.view(-1) + 1)
    _, mode = new_mode(fw)
    prop(graph, mode).propagate(fw.randn(3, 4))
    values = [n.meta["val"] for n in graph.graph.nodes if n.op != "output"]
    assert str(values[1].shape[0]) == "*".join(sorted(str(n) for n in values[0].shape))
    assert values[2].dim() == 1 and values[2].shape[0].node.hint == 12


# --- flambeau alone --------------------------------------------------------------------------------


def test_modes_do_not_mix():
    _, mode = new_mode(fb)
    _, other = new_mode(fb)
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        mode.from_tensor(fb.ones(3)) + other.from_tensor(fb.ones(3))


def test_guards_are_exact_where_they_are_bounds():
    env, (x, index) = distinct(fb, (3, 4), (2, 4))
    x.gather(1, index.long())
    assert [str(g.expr) for g in env.guards] == ["s0 - s2 >= 0"]
    env, (x,) = distinct(fb, (2, 7))
    x.unfold(1, 3, 2)
    assert [str(g.expr) for g in env.guards] == ["s1 >= 3"]
    env, (x,) = distinct(fb, (9, 12))
    x[:, :5].sum(1)
    assert env.guards == []


def test_a_size_without_expression_is_an_error():
    _, mode = new_mode(fb)
    x = mode.from_tensor(fb.ones(2, 1, 5, 4))
    with pytest.raises(RuntimeError, match="unfold: expected numbers that are expressions of") as error:
        fb.nn.functional.unfold(x, (2, 3), padding=1, stride=(2, 1))
    assert "s0" in str(error.value)


def test_tensors_stay_in_python():
    _, mode = new_mode(fb)
    x = mode.from_tensor(fb.ones(3, 4))
    with pytest.raises(RuntimeError, match="inside C\\+\\+"), fb._C.DisableTorchFunction():
        fb.add(x, x)
    with pytest.raises(RuntimeError, match="constant sizes"):
        pickle.dumps(x)
    assert repr(x) == "FakeTensor(..., size=(s0, s1))" and repr(copy.deepcopy(x)) == repr(x)
    with pytest.raises(TypeError, match="from_tensor"):
        type(x)(mode, fb.empty(1, device="meta"), "cpu")
    with pytest.raises(ValueError, match="shape_env"):
        fake_of(fb).FakeTensorMode(shape_env=object())


def test_guards_are_refused_after_freezing():
    env, mode = new_mode(fb)
    x = mode.from_tensor(fb.ones(6, 4))
    env.freeze()
    with pytest.raises(shapes_of(fb).ConstraintViolationError):
        x + fb.ones(4)


def test_strides_that_are_no_products_are_symbols():
    env, mode = new_mode(fb)
    x = mode.from_tensor(fb.randn(6, 8)[:, ::2])
    assert str(x.stride()) == "(s1*s2, s2)" or str(x.stride()) == "(s2*s1, s2)"
    assert str((x + 1).stride()) == "(s1, 1)" and str(x.reshape(-1).shape) == "flambeau.Size([s0*s1])"
    assert env.guards == []
