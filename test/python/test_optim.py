"""Optimizers against PyTorch's, step by step: parameters, states, options, hooks, saved states."""

from __future__ import annotations

import copy
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()

STEPS = 7
SHAPES = ((3, 4), (5,), (2, 3, 2))

# name -> options of one run each; all runs are repeated with the common options below.
RUNS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2},
            {"lr": 0.1, "momentum": 0.8, "nesterov": True}],
    "Adam": [{"lr": 0.1}, {"amsgrad": True, "betas": (0.5, 0.8)}, {"decoupled_weight_decay": True}],
    "AdamW": [{"lr": 0.1}, {"amsgrad": True, "weight_decay": 0.3}],
    "Adamax": [{"lr": 0.1}, {"betas": (0.3, 0.5)}],
    "NAdam": [{"lr": 0.1}, {"momentum_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{"lr": 0.1}, {"betas": (0.5, 0.7), "decoupled_weight_decay": True}],
    "Adagrad": [{"lr": 0.1}, {"lr_decay": 0.3, "initial_accumulator_value": 0.5}],
    "Adadelta": [{}, {"rho": 0.5, "eps": 1e-3}],
    "RMSprop": [{"lr": 0.1}, {"centered": True}, {"momentum": 0.5, "centered": True, "alpha": 0.7}],
    "Rprop": [{"lr": 0.1}, {"etas": (0.3, 1.7), "step_sizes": (0.05, 0.2)}],
    "ASGD": [{"lr": 0.1}, {"t0": 2, "lambd": 0.1, "alpha": 0.5}],
    "Adafactor": [{"lr": 0.1}, {"eps": (1e-4, 0.1), "d": 1.5, "beta2_decay": -0.5}],
}  # fmt: skip
COMMON: list[dict[str, Any]] = [{}, {"weight_decay": 0.1, "maximize": True}, {"foreach": True}]
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")  # done by one operator where nothing else is asked for
CASES = [
    (name, {**options, **common})
    for name, runs in RUNS.items()
    for options in runs
    for common in COMMON
    if not (name == "Rprop" and "weight_decay" in common)
] + [
    (name, {**options, **common})
    for name in FUSED
    for options in RUNS[name]
    for common in ({"fused": False}, {"fused": True, "weight_decay": 0.2, "maximize": True})
]


def arrays(rng: np.random.Generator, dtype: str, shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    """Random parameters or gradients."""
    out = [rng.standard_normal(shape) for shape in shapes]
    if dtype == "complex128":
        return [a + 1j * rng.standard_normal(a.shape) for a in out]
    return [a.astype(dtype) for a in out]


def trained(m: Any, name: str, options: dict[str, Any], dtype: str, shapes: Any = SHAPES) -> Any:
    """The parameters after each step, and the optimizer."""
    rng = np.random.default_rng(0)
    parameters = [m.tensor(a).requires_grad_() for a in arrays(rng, dtype, shapes)]
    optimizer = getattr(m.optim, name)(parameters, **options)
    history = []
    for step in range(STEPS):
        for place, (p, g) in enumerate(zip(parameters, arrays(rng, dtype, shapes), strict=True)):
            p.grad = None if step == 2 and place == 1 else m.tensor(g)
        optimizer.step()
        history.append([p.detach().numpy().copy() for p in parameters])
    return history, optimizer


def assert_same_state(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for place, values in theirs["state"].items():
        assert list(ours["state"][place]) == list(values)
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                got = ours["state"][place][key]
                assert str(got.dtype).split(".")[1] == str(value.dtype).split(".")[1]
                np.testing.assert_allclose(got.numpy(), value.numpy(), rtol=tolerance, atol=tolerance)


def check(name: str, options: dict[str, Any], dtype: str, tolerance: float, shapes: Any = SHAPES) -> None:
    ours, theirs = (trained(m, name, options, dtype, shapes) for m in (fb, torch))
    for step, (a, b) in enumerate(zip(ours[0], theirs[0], strict=True)):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=f"step {step}")
    assert_same_state(ours[1].state_dict(), theirs[1].state_dict(), tolerance)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps(name: str, options: dict[str, Any]) -> None:
    check(name, options, "float64", 1e-6 if name in ("NAdam", "ASGD") else 1e-10)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps_in_single_precision(name: str, options: dict[str, Any]) -> None:
    check(name, options, "float32", 2e-5)


@pytest.mark.parametrize("name", sorted(set(RUNS) - {"Adafactor"}))
@pytest.mark.parametrize("foreach", [False, True])
def test_complex_parameters(name: str, foreach: bool) -> None:
    check(name, {"foreach": foreach}, "complex128", 1e-6)


@pytest.mark.parametrize("options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}])
def test_muon(options: dict[str, Any]) -> None:
    check("Muon", {"lr": 0.1, **options}, "float32", 3e-2, ((3, 4), (6, 2), (5, 5)))


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("limit", [3, 20])
def test_lbfgs(search: str | None, limit: int) -> None:
    def run(m: Any) -> tuple[list[float], np.ndarray]:
        x = m.tensor([-1.2, 1.0, 0.7], dtype=m.float64).requires_grad_()
        lr = 1.0 if search else 1e-3
        optimizer = m.optim.LBFGS([x], lr=lr, max_iter=limit, history_size=4, line_search_fn=search)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
            loss.backward()
            return loss

        losses = [float(optimizer.step(closure)) for _ in range(4)]
        return [*losses, optimizer.state[x]["func_evals"], optimizer.state[x]["n_iter"]], x.detach().numpy()

    (a, x), (b, y) = run(fb), run(torch)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adadelta", "RMSprop"])
def test_gradients_flow_through_a_differentiable_step(name: str) -> None:
    def run(m: Any) -> np.ndarray:
        start = m.tensor([1.0, -2.0, 3.0], dtype=m.float64).requires_grad_()
        p = start.clone()
        optimizer = getattr(m.optim, name)([p], lr=0.1, differentiable=True)
        for factor in (1.0, 2.0, 0.5):
            p.grad = factor * start * start
            optimizer.step()
        p.sum().backward()
        return start.grad.numpy()

    np.testing.assert_allclose(run(fb), run(torch), rtol=1e-9)


def test_gradients_reach_the_rate() -> None:
    def run(m: Any) -> float:
        lr = m.tensor(0.1, dtype=m.float64).requires_grad_()
        p = m.tensor([1.0, 2.0], dtype=m.float64).requires_grad_().clone()
        p.grad = m.tensor([0.5, -1.0], dtype=m.float64)
        m.optim.SGD([p], lr=lr, momentum=0.9, differentiable=True).step()
        (p**2).sum().backward()
        return float(lr.grad)

    assert run(fb) == pytest.approx(run(torch), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -1.0}), ("SGD", {"momentum": -0.1}), ("SGD", {"nesterov": True}),
        ("Adam", {"betas": (1.0, 0.9)}), ("Adam", {"eps": -1.0}), ("AdamW", {"weight_decay": -1.0}),
        ("Adam", {"fused": True, "foreach": True}), ("Adam", {"fused": True, "differentiable": True}),
        ("Adam", {"lr": "tensor", "foreach": True}), ("Adagrad", {"lr_decay": -1.0}),
        ("Adadelta", {"rho": 1.5}), ("RMSprop", {"alpha": -1.0}), ("Rprop", {"etas": (1.2, 0.5)}),
        ("Adafactor", {"beta2_decay": 1.0}), ("Adafactor", {"d": 0.5}), ("Muon", {"adjust_lr_fn": "x"}),
        ("NAdam", {"momentum_decay": -1.0}), ("LBFGS", {"lr": -1.0}), ("Muon", {}),
    ],
)  # fmt: skip
def test_wrong_options_raise_what_pytorch_raises(name: str, options: dict[str, Any]) -> None:
    def error(m: Any) -> type[BaseException]:
        given = {k: m.tensor(0.1) if v == "tensor" else v for k, v in options.items()}
        with pytest.raises((ValueError, RuntimeError, TypeError)) as caught:
            getattr(m.optim, name)([m.ones(2).requires_grad_()], **given)
        return caught.type

    assert error(fb) is error(torch)


@pytest.mark.parametrize("name", ["_fused_sgd_", "_fused_adam_", "_fused_adamw_", "_fused_adagrad_"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("strided", [False, True])
def test_fused_operators(name: str, dtype: str, strided: bool) -> None:
    """Scaled gradients, a rate in a tensor, memory in other orders, steps that are left out."""

    def run(m: Any) -> list[Any]:
        rng = np.random.default_rng(1)

        def tensors(like: float = 0.0) -> list[Any]:
            made = [
                m.tensor(abs(rng.standard_normal(s)) + like, dtype=getattr(m, dtype))
                for s in ((4, 3), (2, 5))
            ]
            return [t.t() for t in made] if strided else made

        p, g = tensors(), tensors()
        if strided and m is fb:  # PyTorch expects equal strides
            g = [x.contiguous() for x in g]
        numbers = {"weight_decay": 0.1, "maximize": True, "lr": m.tensor(0.1)}
        lists = [p, g]
        if name == "_fused_sgd_":
            lists.append(tensors())
            numbers |= {"momentum": 0.9, "dampening": 0.1, "nesterov": False, "is_first_step": False}
        elif name == "_fused_adagrad_":
            lists += [tensors(1.0), [m.tensor(3.0), m.tensor(1.0)]]
            numbers |= {"lr_decay": 0.1, "eps": 1e-3}
        else:
            lists += [tensors(), tensors(), tensors(0.5), [m.tensor(3.0), m.tensor(1.0)]]
            numbers |= {"beta1": 0.8, "beta2": 0.9, "eps": 1e-3, "amsgrad": True}
        operator = getattr(m, name)
        operator(*lists, **numbers, grad_scale=m.tensor(2.0), found_inf=m.tensor(0.0))
        operator(*lists, **numbers, grad_scale=m.tensor(2.0), found_inf=m.tensor(1.0))
        return [t.double().numpy() for some in lists for t in some]

    tolerance = {"float32": 2e-6, "float64": 2e-7, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
    for ours, theirs in zip(run(fb), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_infinite_parameters_stay_apart_from_their_moments() -> None:
    p = [fb.tensor([float("inf"), 1.0])]
    moments = [fb.zeros(2)], [fb.zeros(2)]
    numbers = {"lr": 0.1, "beta1": 0.9, "beta2": 0.9, "eps": 1e-8, "amsgrad": False, "maximize": False}
    fb._fused_adam_(p, [fb.ones(2)], *moments, [], [fb.tensor(1.0)], **numbers, weight_decay=0.0)
    assert p[0][0].item() == float("inf") and moments[0][0].isfinite().all()


def test_fused_operators_check_their_lists() -> None:
    a, b = [fb.ones(2)], [fb.ones(3)]
    options = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False}
    with pytest.raises(RuntimeError, match="shape"):
        fb._fused_sgd_(a, b, [], **options, maximize=False, is_first_step=True)
    with pytest.raises(RuntimeError, match="lists of 1 tensors"):
        fb._fused_sgd_(a, [], [], **options, maximize=False, is_first_step=True)


def test_capturable_needs_another_device() -> None:
    p = fb.ones(2).requires_grad_()
    p.grad = fb.ones(2)
    with pytest.raises(AssertionError, match="capturable=True"):
        fb.optim.Adam([p], capturable=True).step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "ASGD", "NAdam", "RMSprop"])
def test_a_loaded_state_continues_as_the_saved_one(name: str) -> None:
    def run(m: Any) -> list[list[float]]:
        a = m.tensor([1.0, 2.0]).requires_grad_()
        make = getattr(m.optim, name)
        first = make([{"params": [a], "lr": 0.3}], **({"momentum": 0.9} if name == "SGD" else {}))
        a.grad = m.tensor([0.5, -1.0])
        first.step()
        b = a.detach().clone().requires_grad_()
        second = make([b], lr=0.1)
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        b.grad = m.tensor([0.25, 2.0])
        second.step()
        third = copy.deepcopy(second)
        third.param_groups[0]["params"][0].grad = m.tensor([1.0, 1.0])
        third.step()
        return [b.tolist(), third.param_groups[0]["params"][0].tolist(), [second.param_groups[0]["lr"]]]

    for ours, theirs in zip(run(fb), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_hooks_run_in_order_and_may_change_what_they_get() -> None:
    def run(m: Any) -> list[str]:
        seen: list[str] = []
        p = m.ones(1).requires_grad_()
        optimizer = m.optim.SGD([p], lr=1.0)
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre"))
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
        gone = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("gone"))
        gone.remove()
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("save"))
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
        optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(f"load {state['extra']}"))
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
        p.grad = m.ones(1)
        optimizer.step(lambda: seen.append("closure"))
        optimizer.load_state_dict(optimizer.state_dict())
        return [*seen, str(p.tolist())]

    assert run(fb) == run(torch)


def test_groups() -> None:
    layer = fb.nn.Linear(2, 1)
    optimizer = fb.optim.SGD(layer.named_parameters(), lr=0.5)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [fb.ones(1)]})
    with pytest.raises(ValueError, match="more than one parameter group"):
        fb.optim.SGD([{"params": layer.weight}, {"params": layer.weight}])
    with pytest.raises(ValueError, match="empty parameter list"):
        fb.optim.SGD([])
    with pytest.raises(TypeError, match="a set"):
        fb.optim.SGD([{"params": {layer.weight}}])
    with pytest.raises(ValueError, match="non-leaf"):
        fb.optim.SGD([layer.weight * 2])
    layer.weight.grad = fb.ones(1, 2)
    optimizer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0, 0.0]]
    optimizer.zero_grad()
    assert layer.weight.grad is None
    assert repr(optimizer) == repr(torch.optim.SGD(torch.nn.Linear(2, 1).named_parameters(), lr=0.5))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("Adam", {"lr": 0.1}),
        ("Adagrad", {"lr": 0.1}),
    ],
)
def test_groups_of_mixed_dtypes_and_missing_gradients(name: str, options: dict[str, Any]) -> None:
    """A gradient that comes late begins a state of its own, while the others go on."""

    def run(m: Any) -> list[np.ndarray]:
        dtypes = [m.float32, m.float64, m.complex64, m.float32, m.bfloat16]
        parameters = [m.ones(2, 3, dtype=dtype).requires_grad_() for dtype in dtypes]
        optimizer = getattr(m.optim, name)(parameters, **options)
        for step in range(4):
            for i, p in enumerate(parameters):
                p.grad = None if (step + i) % 3 == 0 else m.full_like(p, 0.5 + step).detach()
            optimizer.step()
        return [m.view_as_real(p).detach() if p.is_complex() else p.detach().double() for p in parameters]

    for place, (ours, theirs) in enumerate(zip(run(fb), run(torch), strict=True)):
        bfloat16 = place == 4  # each of 4 steps rounds to 8 bits, at other places than PyTorch's
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2**-6 if bfloat16 else 1e-5)


def test_a_group_with_strangers_among_its_parameters_raises() -> None:
    class Stranger:
        grad = 3

    for m in (fb, torch):
        for stranger, kind in ((object(), AttributeError), (Stranger(), (TypeError, AttributeError))):
            optimizer = m.optim.SGD([m.ones(2).requires_grad_()])
            optimizer.param_groups[0]["params"].append(stranger)
            with pytest.raises(kind):
                optimizer.step()
