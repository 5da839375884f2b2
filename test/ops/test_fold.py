"""Windows as columns and back: values against PyTorch, the adjoint identity, special values, errors."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from side_by_side import numbers, refuse_alike, same

GEOMETRIES = [((2, 3), 1, 0, 1), (3, 2, 1, 1), ((1, 2), (3, 1), (0, 2), 2)]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_there_and_back(geometry):
    kernel, dilation, padding, stride = geometry
    x = numbers(2, 3, 7, 8, dtype=np.float64)
    options = {"dilation": dilation, "padding": padding, "stride": stride}

    def program(m, a):
        columns = m.nn.functional.unfold(a, kernel, **options)
        return [columns, m.nn.functional.fold(columns, (7, 8), kernel, **options)]

    same(program, x, rtol=1e-14)
    same(program, x[:0])


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_fold_is_the_adjoint_of_unfold(geometry):
    """<unfold x, y> = <x, fold y>, to 1e-12 of sums of some hundred products."""
    x = fb.from_numpy(numbers(1, 2, 7, 8, dtype=np.float64))
    columns = fb.nn.functional.unfold(x, *geometry)
    y = fb.from_numpy(numbers(*columns.shape, seed=1, dtype=np.float64))
    left, right = (columns * y).sum().item(), (x * fb.nn.functional.fold(y, (7, 8), *geometry)).sum().item()
    assert left == pytest.approx(right, abs=1e-12)


def test_special_values_and_strides():
    x = np.arange(36.0).reshape(1, 1, 6, 6)
    x[0, 0, 2, 2], x[0, 0, 0, 0] = np.nan, np.inf

    def program(m, a):
        columns = m.nn.functional.unfold(a.transpose(2, 3)[..., ::2], 2)
        return [columns, m.nn.functional.fold(columns, (6, 3), 2)]

    same(program, x)
    same(lambda m, a: m.nn.functional.unfold(a.int() if m is None else a[0], 3), x)


def test_wrong_arguments():
    x = np.ones((1, 1, 4, 4))
    refuse_alike(lambda m, a: m.nn.functional.unfold(a, 5), x)
    refuse_alike(lambda m, a: m.nn.functional.unfold(a, 2, stride=0), x)
    refuse_alike(lambda m, a: m.nn.functional.unfold(a, 2, padding=-1), x)
    refuse_alike(lambda m, a: m.nn.functional.fold(a[0], (4, 4), 3), x)
    refuse_alike(lambda m, a: m.nn.functional.fold(a[0], (9, 9), 2), x)
