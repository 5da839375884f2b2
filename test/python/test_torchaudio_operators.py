"""Operators of torchaudio's compiled libraries, which `ops.load_library` defines, beside SciPy."""

import flambeau as fb
import numpy as np
import pytest
import scipy.signal


@pytest.fixture
def operators(tmp_path):
    (tmp_path / "lib").mkdir()
    for name in ("_torchaudio.abi3.so", "libtorchaudio.so"):
        (tmp_path / "lib" / name).touch()
        fb.ops.load_library(tmp_path / "lib" / name)
    return fb.ops


def test_what_the_library_says_of_itself(operators):
    assert operators._torchaudio.is_align_available() is False
    assert operators._torchaudio.cuda_version() is None
    assert not hasattr(operators.torchaudio, "forced_align")


@pytest.mark.parametrize("shape", [(2, 3, 20), (1, 1, 1), (2, 1, 0), (0, 1, 4)])
def test_recursive_filter(operators, shape):
    draw = np.random.default_rng(0)
    x, a = draw.standard_normal(shape), np.array([1.0, -0.4, 0.2])
    y = fb.zeros((*shape[:2], shape[2] + 2), dtype=fb.float64)
    coefficients = fb.tensor(a[::-1].copy()).expand(shape[1], 3)
    out = operators.torchaudio._lfilter_core_loop(fb.tensor(x), coefficients, y)
    assert out is y
    if x.size:
        np.testing.assert_allclose(y.numpy()[:, :, 2:], scipy.signal.lfilter([1.0], a, x), 1e-12)


def test_overdrive(operators):
    x = np.random.default_rng(1).standard_normal((2, 30))
    d = np.tanh(x)
    output, zeros = fb.zeros(2, 30, dtype=fb.float64), [fb.zeros(2, dtype=fb.float64) for _ in range(2)]
    last_in, last_out, _ = operators.torchaudio._overdrive_core_loop(
        fb.tensor(x), fb.tensor(d), *zeros, output
    )
    high = scipy.signal.lfilter([1.0, -1.0], [1.0, -0.995], d)
    np.testing.assert_allclose(output.numpy(), 0.5 * x + 0.75 * high, 1e-12)
    np.testing.assert_allclose([last_in.numpy(), last_out.numpy()], [d[:, -1], high[:, -1]], 1e-12)
