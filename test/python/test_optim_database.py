"""PyTorch's optimizer database run with both frameworks: parameters, options and errors agree."""

from __future__ import annotations

import warnings

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()
from torch.testing._internal.common_optimizers import optim_db  # noqa: E402

ENTRIES = [entry for entry in optim_db if entry.optim_cls.__name__ != "SparseAdam"]


def _other(value, seen):
    """The same value for flambeau; a tensor that is met twice stays one."""
    if hasattr(value, "detach"):
        made = fb.tensor(value.detach().numpy())
        is_parameter = type(value).__name__ == "Parameter"
        return seen.setdefault(id(value), fb.nn.Parameter(made) if is_parameter else made)
    if isinstance(value, list | tuple):
        return type(value)(_other(item, seen) for item in value)
    return {k: _other(v, seen) for k, v in value.items()} if isinstance(value, dict) else value


def _trained(m, make, starts, data):
    parameters = [m.nn.Parameter(m.tensor(start)) for start in starts]
    optimizer, x = make(parameters), m.tensor(data)

    def loss():
        optimizer.zero_grad()
        value = ((x @ parameters[0]) ** 2).sum() + (parameters[1] ** 2).sum() + (x @ parameters[0]).sum()
        value.backward()
        return value

    for _ in range(4):
        optimizer.step(loss)
    return [p.detach().numpy() for p in parameters], sorted(optimizer.state_dict()["param_groups"][0])


@pytest.mark.parametrize("lists", [None, True, False])
def test_optimizers_agree_over_pytorchs_database(lists):
    for entry in ENTRIES:
        name = entry.optim_cls.__name__
        draw = np.random.default_rng(0).standard_normal
        starts, data = (draw((3, 4)), draw((4, 4) if name == "Muon" else 4)), draw((5, 3))
        # Muon's iteration runs in bfloat16.
        tolerance = 2e-3 if name == "Muon" else 1e-7
        for case in entry.optim_inputs_func(device="cpu"):
            options = case.kwargs if lists is None else {**case.kwargs, "foreach": lists}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    theirs = _trained(torch, lambda p, o=options, e=entry: e.optim_cls(p, **o), starts, data)
                except (RuntimeError, TypeError, ValueError):
                    continue
                own = _other(options, {})
                ours = _trained(fb, lambda p, o=own, n=name: getattr(fb.optim, n)(p, **o), starts, data)
            assert ours[1] == theirs[1], (name, options)
            for a, b in zip(ours[0], theirs[0], strict=True):
                np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=f"{name} {options}")


def test_optimizers_refuse_what_pytorchs_database_says():
    for entry in ENTRIES:
        name = entry.optim_cls.__name__
        for case in entry.optim_error_inputs_func(device="cpu", dtype=torch.float64):
            given, failures = case.optimizer_error_input, []
            own = _other((given.params, given.kwargs), {})
            for make, (params, options) in (
                (entry.optim_cls, (given.params, given.kwargs)),
                (getattr(fb.optim, name), own),
            ):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        make(params, **options)
                        failures.append("nothing")
                    except Exception as error:  # noqa: BLE001
                        failures.append(type(error).__name__)
            assert failures[0] == failures[1], (name, given.desc, failures)
