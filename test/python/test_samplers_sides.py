"""Samplers draw what PyTorch's draw, pass after pass, and leave the generator in the same state."""

import flambeau as fb
import pytest
from oracle import pytorch

WAYS = [
    {},
    {"num_samples": 7},
    {"num_samples": 10},
    {"num_samples": 20},
    {"num_samples": 25},
    {"replacement": True, "num_samples": 64},
    {"replacement": True, "num_samples": 70},
]


def passes(torch, options):
    generator = torch.Generator().manual_seed(3)
    sampler = torch.utils.data.RandomSampler(range(10), generator=generator, **options)
    return [list(sampler) for _ in range(3)], torch.rand(1, generator=generator).item()


@pytest.mark.parametrize("options", WAYS)
def test_passes_over_a_random_sampler(options):
    assert passes(fb, options) == passes(pytorch(), options)


def epochs(torch, batch_size):
    data = torch.utils.data.TensorDataset(torch.arange(11))
    generator = torch.Generator().manual_seed(4)
    loader = torch.utils.data.DataLoader(data, batch_size, shuffle=True, generator=generator)
    return [[batch[0].tolist() for batch in loader] for _ in range(3)]


@pytest.mark.parametrize("batch_size", [1, 4, 11])
def test_epochs_of_a_shuffling_loader(batch_size):
    assert epochs(fb, batch_size) == epochs(pytorch(), batch_size)


@pytest.mark.parametrize("options", [{"num_samples": 0}, {"num_samples": -1}, {"num_samples": 1.5}])
def test_counts_that_are_refused(options):
    for torch in (fb, pytorch()):
        with pytest.raises(ValueError, match="num_samples"):
            torch.utils.data.RandomSampler(range(3), **options)
    for torch in (fb, pytorch()):
        with pytest.raises(ValueError, match="num_samples"):
            torch.utils.data.RandomSampler([])
