"""NaN, refused dtypes and result types of single operators, compared with PyTorch.

Where flambeau differs on purpose, the test says what PyTorch does and why that is a defect.
"""

import math

import flambeau
import pytest
from oracle import pytorch
from sides import Scenarios, leaf, raised

scenario = Scenarios()
NAN, INF = math.nan, math.inf


@scenario
def hardswish_at_the_ends(torch):
    ends = [-INF, INF, NAN, -3.0, 3.0, -3.5, 0.0, -0.0]
    hardswish = torch.nn.functional.hardswish
    found = [hardswish(torch.tensor(ends, dtype=d)) for d in (torch.float32, torch.float64, torch.bfloat16)]
    found += [1 / hardswish(torch.tensor([-3.0, -5.0, -0.0, 0.0]))]  # the signs of zeros
    found += [hardswish(torch.full((67,), -INF)), hardswish(torch.full((9, 9), -INF).t())]
    x = leaf(torch, -INF, -4, -3, 0, 3, 4, INF)
    hardswish(x).sum().backward()
    return [*found, x.grad]


@scenario
def inversion_of_numbers_that_are_no_integers(torch):
    refused = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64)
    found = [raised("operator", lambda d=d: ~torch.ones(2, dtype=d))[0] for d in refused]
    found += [raised("", lambda d=d: torch.bitwise_not(torch.ones(2, dtype=d)))[0] for d in refused]
    found += [raised("", lambda: ~torch.ones(2, device="meta"))[0], raised("", lambda: ~torch.ones(()))[0]]
    found += [raised("", lambda: ~torch.ones(0))[0], raised("", lambda: torch.ones(2).__invert__())[0]]
    found += [raised("", lambda: torch.vmap(lambda x: ~x)(torch.ones(2, 3)))[0]]
    kept = [~torch.tensor([0, 5], dtype=d) for d in (torch.int64, torch.uint8, torch.int16)]
    return [*found, *kept, ~torch.tensor([True, False])]


@scenario
def results_without_names_are_plain_tuples(torch):
    x = torch.arange(6.0).view(2, 3)
    calls = [
        torch.var_mean(x),
        torch.std_mean(x),
        torch.var_mean(x, 0),
        torch.std_mean(x, 1, False),
        torch.var_mean(x, dim=(0, 1), correction=0, keepdim=True),
        torch.std_mean(x, 1, correction=2),
    ]
    normalized = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    plain = [[type(call) is tuple, list(call)] for call in calls]
    return [*plain, type(normalized) is tuple, normalized[1], type(torch.max(x, 0)) is tuple]


@scenario
def trials_up_to_the_first_success(torch):
    """A success that is certain is refused, as one that is impossible."""
    found = [raised("expect", lambda p=p: torch.zeros(3).geometric_(p)) for p in (1, 1.0, 0, -0.5, 1.5, NAN)]
    found.append(raised("not implemented", lambda: torch.zeros(3, dtype=torch.bool).geometric_(0.5)))
    rare = torch.zeros(3).geometric_(1e-300)
    return [*found, rare, bool((torch.zeros(50, dtype=torch.float64).geometric_(1e-17) > 1e10).all())]


@scenario
def distances_of_nan(torch):
    a, b = torch.tensor([[NAN, 1.0]]), torch.tensor([[0.0, 1.0]])
    infinite = torch.tensor([[INF, 1.0]])
    found = []
    for p in (0.0, 0.5, 1.0, 2.0, 3.0):
        found += [torch.cdist(x, y, p) for x, y in ((a, b), (b, a), (a, a), (infinite, infinite))]
        found.append(torch.cdist(torch.full((3, 70), NAN), torch.zeros(2, 70), p))
        found.append(torch.nn.functional.pairwise_distance(a, b, p))
    found += [torch.pdist(torch.cat([a, b]), p) for p in (0.0, 1.0, 2.0, INF)]
    found += [torch.dist(a, b, p) for p in (0.0, 1.0, 2.0, INF)]
    far = torch.tensor([[INF, 1.0]]), torch.tensor([[0.0, -INF]])
    return found + [torch.cdist(*far, p) for p in (0.0, 1.0, 2.0, INF)]


@scenario
def differences_counted_by_distances(torch):
    """Gradients of p = 0 are 0."""
    x = torch.tensor([[1.0, 2.0], [1.0, 3.0]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[1.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    found = [torch.cdist(x, y, 0.0), torch.pdist(x, 0.0)]
    (found[0].sum() + found[1].sum()).backward()
    return [*found, x.grad]


@scenario
def differences_into_other_dtypes(torch):
    """Out= is cast to where the result's category allows it."""
    found = []
    for d in (torch.float64, torch.float16, torch.int32):
        for values, n in (([1.0, 2.0, 4.0], 1), ([1, 3, 9], 2), ([True, False, False], 1)):
            out = torch.empty(3 - n, dtype=d)
            call = raised("can't be cast", lambda v=values, n=n, o=out: torch.diff(torch.tensor(v), n, out=o))
            found.append([call, out if call == "nothing" else None])
    return found


test_as_in_pytorch = scenario.test()


def test_largest_difference_is_nan_where_one_is():
    """PyTorch's cdist of order infinity loses NaN: 0. Its pdist and dist, by the same formula, give NaN."""
    torch = pytorch()
    a, b = [[NAN, 1.0]], [[0.0, 1.0]]
    assert torch.cdist(torch.tensor(a), torch.tensor(b), INF).item() == 0
    assert torch.pdist(torch.tensor(a + b), INF).isnan().all()
    for x, y in ((a, b), (b, a), ([[1.0, NAN]], b)):
        assert flambeau.cdist(flambeau.tensor(x), flambeau.tensor(y), INF).isnan().all()


SCATTERS = {
    "slice_scatter": (0, 1, 3),
    "select_scatter": (0, 1),
    "diagonal_scatter": (),
    "as_strided_scatter": ((2, 2), (1, 1)),
}


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_scatter_refuses_sizes_on_every_device(name, device):
    """On meta PyTorch accepts wrong sizes, except in as_strided_scatter, and its CPU then raises."""
    torch = pytorch()
    args = SCATTERS[name]
    for module, on in ((torch, "cpu"), (flambeau, device)):
        base, source = module.zeros(4, 4, device=on), module.ones(3, device=on)
        with pytest.raises(RuntimeError, match="expected src"):
            getattr(module, name)(base, source, *args)
