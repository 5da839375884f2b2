"""Layers around layers and layers of old networks: DataParallel, CrossMapLRN2d, names in nn.modules."""

import flambeau as fb
import numpy as np
import pytest
from side_by_side import agree, numbers


def test_data_parallel_without_devices_calls_the_layer():
    def program(torch, x):
        layer = torch.nn.Linear(2, 2)
        both = torch.nn.DataParallel(layer)
        copied = torch.nn.DataParallel(torch.nn.Linear(2, 2))
        copied.load_state_dict(both.state_dict())
        return [(both(x) - layer(x)).abs().max(), list(copied.state_dict()), both.device_ids, str(both)]

    agree(program, numbers(3, 2))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
def test_neighbours_of_each_channel(size):
    x = numbers(2, 6, 3, 2, dtype=np.float64)
    reach = (size - 1) // 2
    sums = [np.square(x[:, max(0, c - reach) : c + reach + 1]).sum(1) for c in range(6)]
    expected = x / (0.5 + 2 / size * np.stack(sums, 1)) ** 1.5
    found = fb.nn.CrossMapLRN2d(size, alpha=2, beta=1.5, k=0.5)(fb.tensor(x))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    leaf = fb.tensor(x, requires_grad=True)
    assert fb.autograd.gradcheck(fb.nn.CrossMapLRN2d(size, alpha=0.5), leaf)


def test_neighbours_as_in_pytorch_while_channel_0_is_among_them():
    def program(torch, x):
        layer = torch.nn.CrossMapLRN2d(9, alpha=0.3)
        return [layer(x), str(layer)]

    agree(program, numbers(2, 5, 3, 2))
    with pytest.raises(ValueError, match="expected 4D"):
        fb.nn.CrossMapLRN2d(3)(fb.ones(2, 3, 4))


def test_layers_by_the_names_of_their_files():
    modules = fb.nn.modules
    assert modules.Linear is modules.linear.Linear is fb.nn.Linear
    assert isinstance(fb.nn.BatchNorm2d(2), modules.batchnorm._BatchNorm)
    assert modules.container.Sequential is fb.nn.Sequential
    assert modules.utils._pair(3) == modules.utils._pair([3, 3]) == (3, 3)
    with pytest.raises(AttributeError, match="no attribute 'functional'"):
        modules.functional  # noqa: B018


def test_lists_of_parameters_in_print():
    def program(torch):
        nn, one, rows = torch.nn, torch.ones(1), torch.ones(2, 3, dtype=torch.float64)
        shown = [nn.ParameterList(), nn.ParameterList([one]), nn.ParameterList([rows, torch.tensor(1.0)])]
        shown += [nn.ParameterDict({"a": one}), nn.ParameterDict({"a": rows, "b": one}), nn.ParameterDict()]
        shown += [
            nn.Sequential(nn.ParameterList([one, one])),
            nn.Linear(2, 2).load_state_dict({}, strict=False),
        ]
        return [repr(item).replace(torch.__name__, "torch") for item in shown]

    agree(program)
