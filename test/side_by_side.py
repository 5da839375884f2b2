"""The same program run with flambeau and with PyTorch: results must agree, and so must failures."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch


def plain(value):
    """Tensors as arrays, in any containers; all else as it is."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.detach().numpy() if hasattr(value, "detach") else value


def assert_close(ours, theirs, rtol=1e-5, atol=1e-6):
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b, rtol, atol)
    elif isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            assert_close(ours[key], theirs[key], rtol, atol)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol, atol)
    else:
        assert ours == theirs


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def agree(program, *arrays, rtol=1e-5, atol=1e-6):
    """Run ``program(module, *tensors)`` with both and compare what it returns."""
    ours = plain(program(fb, *map(fb.tensor, arrays)))
    torch = pytorch()
    theirs = plain(program(torch, *map(torch.tensor, arrays)))
    assert_close(ours, theirs, rtol, atol)


def fail_alike(program, *arrays, match):
    """Run the program with both: both raise an error of the same kind; it says `match` if that is given."""
    with pytest.raises(Exception, match=match) as ours:
        program(fb, *map(fb.tensor, arrays))
    torch = pytorch()
    with pytest.raises(Exception, match=match) as theirs:
        program(torch, *map(torch.tensor, arrays))
    assert type(ours.value).__name__ == type(theirs.value).__name__


def same(program, *arrays, rtol=0.0, atol=0.0):
    """As `agree`, exactly unless a bound is given."""
    agree(program, *arrays, rtol=rtol, atol=atol)


def refuse_alike(program, *arrays):
    """Run the program with both: both raise an error of the same kind."""
    fail_alike(program, *arrays, match=None)
