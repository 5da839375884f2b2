"""Functions of nn.functional that PyTorch's operator database lacks, called with one argument replaced.

What PyTorch refuses must raise the same type of exception here, the rest must give the same result; the rules
are those of test/parity/wrong_calls.py.
"""

from types import SimpleNamespace

import pytest
from oracle import pytorch

torch = pytorch()

from parity.replacements import variations  # noqa: E402
from parity.wrong_calls import verdicts  # noqa: E402

F = torch.nn.functional


def ramp(*shape):
    count = torch.Size(shape).numel()
    return torch.linspace(-1, 1, count).reshape(shape)


CALLS = {
    "affine_grid": [((ramp(1, 2, 3), [1, 1, 2, 2]), {"align_corners": False})],
    "max_pool1d_with_indices": [((ramp(1, 2, 6), 2), {"stride": 1})],
    "max_pool2d_with_indices": [((ramp(1, 2, 4, 4), [2, 2]), {"padding": 1})],
    "max_pool3d_with_indices": [((ramp(1, 2, 4, 4, 4), 2), {"dilation": 1})],
    "adaptive_max_pool2d_with_indices": [((ramp(1, 2, 4, 4), [2, 3]), {})],
    "adaptive_max_pool3d_with_indices": [((ramp(1, 2, 4, 4, 4), [2, 2, 2]), {})],
    "dropout1d": [((ramp(2, 3, 4),), {"p": 0.5, "training": False})],
    "native_channel_shuffle": [((ramp(1, 4, 2, 2), 2), {})],
    "gumbel_softmax": [((ramp(2, 3),), {"tau": 1.0, "hard": False, "dim": -1})],
}


@pytest.mark.parametrize("name", CALLS)
def test_changed_calls_end_as_in_pytorch(name):
    op = SimpleNamespace(op=getattr(F, name), name=name)
    plan = [(label, call, lambda x: x) for given in CALLS[name] for label, call in variations(given)]
    found = list(verdicts(op, plan))
    assert len(found) > len(plan) // 2  # the others are those that the rules leave out
    wrong = [verdict.cause for verdict in found if verdict.cause]
    assert not wrong, "\n".join(wrong)
