"""Padding: every mode at its limits, negative amounts, special values, dtypes, gradients, errors."""

from __future__ import annotations

import flambeau
import numpy as np
import pytest
from side_by_side import refuse_alike, same

X = np.array([[np.nan, 1.0, -0.0], [np.inf, -np.inf, 5.0]]).reshape(1, 2, 3)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_edges(mode):
    for amounts in ((2, 2), (0, 0), (1, 0), (-1, 2), (2, -1)):
        same(lambda m, a, p=amounts: m.nn.functional.pad(a, p, mode), X)
        same(lambda m, a, p=amounts: m.nn.functional.pad(a.transpose(1, 2)[:, ::2], (1, 0), mode), X)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_gradients_add_what_was_copied(mode):
    def program(m, a):
        a.requires_grad_()
        out = m.nn.functional.pad(a, (2, 1), mode)
        weights = m.arange(1.0, out.numel() + 1, dtype=a.dtype).reshape(out.shape)
        return m.autograd.grad((out * weights).sum(), a)[0]

    same(program, np.arange(6.0).reshape(1, 2, 3))


def test_constants():
    for value in (np.nan, np.inf, -1, 7.5):
        same(lambda m, a, v=value: m.nn.functional.pad(a, (1, 2, 0, 1), value=v), X)
    for dtype in (np.uint8, np.int64, np.bool_):
        same(lambda m, a: m.nn.functional.pad(a, (1, 1), value=1), np.array([0, 1]).astype(dtype))
    same(lambda m, a: m.nn.functional.pad(a, (-2, 0, 1, 1, 0, -1)), np.arange(24.0).reshape(2, 3, 4))
    same(lambda m, a: m.nn.functional.pad(a, (1, 1)), np.ones((2, 0)))


def test_wrong_arguments():
    f = "reflect"
    refuse_alike(lambda m, a: m.nn.functional.pad(a, (3, 0), f), X)
    refuse_alike(lambda m, a: m.nn.functional.pad(a, (4, 0), "circular"), X)
    refuse_alike(lambda m, a: m.nn.functional.pad(a, (1, 1, 1)), X)
    refuse_alike(lambda m, a: m.nn.functional.pad(a, (-2, -2)), X)
    refuse_alike(lambda m, a: m.nn.functional.pad(a[0, 0], (1, 1, 1, 1)), X)
    for lengths in ((-5, 4), (4, -5), (-4, 9), (-2, -2), (-(2**63), 2**63 - 1), (2**63 - 1, -(2**63))):
        refuse_alike(lambda m, a, p=lengths: m.constant_pad_nd(a, p, 7.0), X)
        for mode in ("reflect", "circular"):
            refuse_alike(lambda m, a, p=lengths, f=mode: m.nn.functional.pad(a, p, f), X)
    with pytest.raises(RuntimeError, match=r"pad: expected lengths between"):
        flambeau.nn.functional.pad(flambeau.from_numpy(X), (-(2**63), 2**63 - 1), "replicate")
    refuse_alike(lambda m, a: m.nn.functional.pad(a, (1, 1), "mirror"), X)
