"""Modules as functions of their state: functional_call, stack_module_state, batch norms under vmap."""

import flambeau as fb
import numpy as np
import pytest
from side_by_side import agree, fail_alike, numbers

WEIGHT, BIAS, X = numbers(3, 2, seed=1), numbers(3, seed=2), numbers(4, 2, seed=3)


def linear(m):
    return m.nn.Linear(2, 3)


def call(m, *args, **kwargs):
    return m.func.functional_call(linear(m), *args, **kwargs)


def tied(m):
    class Tied(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = m.nn.Linear(2, 2, bias=False)
            self.b = m.nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            with m.no_grad():
                self.a.weight.fill_(1)
            self.register_buffer("count", m.zeros(2))

        def forward(self, x, scale=1):
            self.count = self.count + 1
            return scale * self.b(self.a(x)) + self.count

    return Tied()


STATES = {
    "all": lambda w, b: {"weight": w, "bias": b},
    "several dicts": lambda w, b: ({"weight": w}, {"bias": b}),
    "and a name that it has not": lambda w, b: {"weight": w, "bias": b, "other": b},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_given_tensors_are_used(state):
    agree(lambda m, w, b, x: call(m, state(w, b), x), WEIGHT, BIAS, X)
    agree(lambda m, w, b, x: call(m, state(w, b), (x,)), WEIGHT, BIAS, X)
    agree(lambda m, w, b, x: call(m, state(w, b), kwargs={"input": x}), WEIGHT, BIAS, X)


FAILURES = {
    "missing": (lambda m, w, x: call(m, {"weight": w}, x, strict=True), "Missing key"),
    "unexpected": (
        lambda m, w, x: call(m, {"weight": w, "bias": w[:, 0], "o": w}, x, strict=True),
        "Unexpected key.*'o'",
    ),
    "twice": (lambda m, w, x: call(m, ({"weight": w}, {"weight": w}), x), "dict"),
    "no dict": (lambda m, w, x: call(m, 3, x), "a dict"),
    "no dicts": (lambda m, w, x: call(m, (3,), x), "dict"),
    "no tensor": (lambda m, w, x: call(m, {"weight": 3}, x), "not an instance of"),
    "no module": (lambda m, w, x: m.func.functional_call(3, {"weight": w}, x), "named_parameters"),
    "no argument": (lambda m, w, x: call(m, {"weight": w}), "missing 1 required"),
    "tied names differ": (
        lambda m, w, x: m.func.functional_call(tied(m), {"a.weight": m.eye(2), "b.weight": m.eye(2)}, x),
        "are tied",
    ),
}


@pytest.mark.parametrize(("program", "match"), FAILURES.values(), ids=FAILURES)
def test_failures(program, match):
    fail_alike(program, WEIGHT, X, match=match)


def test_tied_weights():
    def program(m, x):
        module, w = tied(m), 2 * m.eye(2)
        call = m.func.functional_call
        return [
            call(module, {"a.weight": w}, x),
            call(module, {"b.weight": w}, x),
            call(module, {"a.weight": w, "b.weight": w}, x, {"scale": 3}),
            call(module, {"a.weight": w}, x, tie_weights=False),
            call(module, {"a.weight": w, "b.weight": 3 * w}, x, tie_weights=False),
            call(module, {"a.weight": w, "count": m.zeros(2)}, x, strict=True),
            module.count,
        ]

    agree(program, X)


def test_the_module_is_itself_again():
    module = fb.nn.Sequential(fb.nn.Linear(2, 2), fb.nn.BatchNorm1d(2))
    before = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    given = {name: fb.zeros_like(t) for name, t in before.items()}
    fb.func.functional_call(module, given, fb.ones(3, 2))
    with pytest.raises(RuntimeError):
        fb.func.functional_call(module, given, fb.ones(3, 5))
    after = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert all(after[name] is t for name, t in before.items())
    assert given["1.num_batches_tracked"].item() == 1


def test_gradients_reach_what_was_given():
    weights = {"weight": fb.ones(3, 2).requires_grad_(), "bias": fb.zeros(3)}
    module = fb.nn.Linear(2, 3)
    fb.func.functional_call(module, weights, fb.ones(4, 2)).sum().backward()
    assert weights["weight"].grad.tolist() == [[4, 4]] * 3
    assert module.weight.grad is None


def test_stacked_state():
    models = [fb.nn.Sequential(fb.nn.Linear(2, 3), fb.nn.BatchNorm1d(3)) for _ in range(4)]
    models[0][0].bias.requires_grad_(True)
    parameters, buffers = fb.func.stack_module_state(models)
    assert list(parameters) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(buffers) == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert all(p.is_leaf and p.requires_grad for p in parameters.values())
    assert parameters["0.weight"].shape == (4, 3, 2)
    for i, model in enumerate(models):
        assert (parameters["0.weight"][i] == model[0].weight).all()


STACK_FAILURES = {
    "none": (lambda m: [], "one model"),
    "modes": (lambda m: [linear(m), linear(m).eval()], "training"),
    "classes": (lambda m: [linear(m), m.nn.ReLU()], "class"),
    "sizes": (lambda m: [linear(m), m.nn.Linear(2, 4)], "equal size"),
    "frozen": (lambda m: [linear(m), linear(m).requires_grad_(False)], "requires_grad"),
}


@pytest.mark.parametrize(("models", "match"), STACK_FAILURES.values(), ids=STACK_FAILURES)
def test_models_that_do_not_stack(models, match):
    fail_alike(lambda m: m.func.stack_module_state(models(m)), match=match)


def test_an_ensemble_is_each_model_by_itself():
    fb.manual_seed(0)
    models = [fb.nn.Sequential(fb.nn.Linear(2, 5), fb.nn.Tanh(), fb.nn.Linear(5, 3)) for _ in range(4)]
    parameters, buffers = fb.func.stack_module_state(models)

    def call(p, b, x):
        return fb.func.functional_call(models[0], (p, b), (x,))

    x = fb.tensor(X)
    together = fb.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    alone = fb.stack([model(x) for model in models])
    assert fb.allclose(together, alone, atol=1e-6)
    together.square().sum().backward()
    alone.square().sum().backward()
    expected = fb.stack([model[2].weight.grad for model in models])
    assert fb.allclose(parameters["2.weight"].grad, expected, atol=1e-5)
    minibatches = fb.vmap(call)(parameters, buffers, fb.stack([x * (i + 1) for i in range(4)]))
    expected = fb.stack([model(x * (i + 1)) for i, model in enumerate(models)])
    assert fb.allclose(minibatches, expected, atol=1e-6)


def test_batch_norms_without_running_statistics_can_be_mapped():
    def program(m, x):
        norm = m.nn.Sequential(m.nn.BatchNorm1d(2))
        assert m.func.replace_all_batch_norm_modules_(norm) is norm
        assert norm[0].running_mean is None
        return m.vmap(norm)(x)

    agree(program, np.stack([X, 3 * X]), atol=1e-5)
