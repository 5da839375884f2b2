"""Operators of `ops`, of `custom_op` and of `Library` inside compiled functions: one node each."""

import flambeau as fb
import pytest


def double_in_place(x):
    x.mul_(2)


@pytest.fixture(scope="module")
def operators():
    define = fb.library.custom_op
    repeat = define(
        "compiled_ops::repeat",
        lambda x, n: x.repeat(n),
        mutates_args=(),
        schema="(Tensor x, int n) -> Tensor",
    )
    repeat.register_fake(lambda x, n: x.new_empty(x.shape[0] * n))
    repeat.register_autograd(
        lambda ctx, grad: (grad.view(ctx.n, -1).sum(0), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]),
    )
    double = define(
        "compiled_ops::double_", double_in_place, mutates_args=("x",), schema="(Tensor(a!) x) -> ()"
    )
    return repeat, double


def without_result(x, double):
    y = x.clone()
    double(y)
    return y + 1


CALLS = {
    "custom_op": lambda x, repeat, double: repeat(x, 2).sin(),
    "packet": lambda x, repeat, double: fb.ops.compiled_ops.repeat(x, n=2).sin(),
    "overload": lambda x, repeat, double: fb.ops.compiled_ops.repeat.default(x, 3).sin(),
    "aten": lambda x, repeat, double: fb.ops.aten.add.Tensor(x, x, alpha=2) * 2,
    "in place": lambda x, repeat, double: fb.ops.aten.add_(x.clone(), 1) * 2,
    "several results": lambda x, repeat, double: fb.ops.aten.split(x, 2)[0] * 2,
    "without result": lambda x, repeat, double: without_result(x, double),
    "without result, packet": lambda x, repeat, double: without_result(x, fb.ops.compiled_ops.double_),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_part_of_the_graph(operators, name, backend):
    function = CALLS[name]
    compiled = fb.compile(lambda x: function(x, *operators), fullgraph=True, backend=backend)
    x = fb.arange(4.0)
    for scale in (1, -3):
        assert fb.allclose(compiled(x * scale), function(x * scale, *operators))


def test_writes_to_an_argument_of_the_graph(operators):
    compiled = fb.compile(lambda x: operators[1](x), fullgraph=True)
    x = fb.arange(3.0)
    assert compiled(x) is None and x.tolist() == [0, 2, 4]


def test_gradients_pass_through(operators):
    x = fb.arange(3.0, requires_grad=True)
    compiled = fb.compile(lambda x: (operators[0](x, 2) ** 2).sum(), fullgraph=True)
    (found,) = fb.autograd.grad(compiled(x), x)
    assert found.tolist() == [0, 4, 8]
