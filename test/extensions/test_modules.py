"""torch::nn, torch::optim and torch::data in C++: values of Python for the same seed, and of PyTorch."""

from pathlib import Path

import flambeau
import numpy as np
import pytest
from flambeau import nn
from flambeau.utils import cpp_extension

pytorch = pytest.importorskip("torch")


@pytest.fixture(scope="session")
def native(build_root):
    source = Path(__file__).with_name("modules.cpp")
    return cpp_extension.load("modules", [source], build_directory=build_root / "modules")


LAYERS = {
    "Linear": (lambda nn: [nn.Linear(6, 3)], (5, 6)),
    "LinearWithoutBias": (lambda nn: [nn.Linear(6, 3, bias=False)], (2, 5, 6)),
    "Conv1d": (lambda nn: [nn.Conv1d(4, 6, 3, stride=2)], (2, 4, 9)),
    "Conv2d": (
        lambda nn: [nn.Conv2d(4, 6, (3, 2), padding=(1, 0), groups=2, dilation=2)],
        (2, 4, 7, 8),
    ),
    "Conv3d": (lambda nn: [nn.Conv3d(2, 3, 2)], (2, 2, 4, 4, 5)),
    "BatchNorm1d": (lambda nn: [nn.BatchNorm1d(6)], (5, 6)),
    "BatchNorm2d": (lambda nn: [nn.BatchNorm2d(4, momentum=0.3)], (3, 4, 5, 5)),
    "BatchNormWithoutStatistics": (
        lambda nn: [nn.BatchNorm2d(4, affine=False, track_running_stats=False)],
        (3, 4, 5, 5),
    ),
    "LayerNorm": (lambda nn: [nn.LayerNorm(6)], (5, 6)),
    "GroupNorm": (lambda nn: [nn.GroupNorm(2, 4)], (3, 4, 5)),
    "MaxPool2d": (lambda nn: [nn.MaxPool2d(2)], (2, 3, 5, 6)),
    "AvgPool2d": (lambda nn: [nn.AvgPool2d(3, stride=1, padding=1)], (2, 3, 5, 6)),
    "AdaptiveAvgPool2d": (lambda nn: [nn.AdaptiveAvgPool2d(2)], (2, 3, 5, 6)),
    "Dropout": (lambda nn: [nn.Dropout(0.4)], (40, 6)),
    "Activations": (
        lambda nn: [
            nn.GELU(),
            nn.ELU(0.5),
            nn.SiLU(),
            nn.LeakyReLU(0.2),
            nn.Softplus(),
            nn.Tanh(),
            nn.LogSoftmax(1),
        ],
        (5, 6),
    ),
    "Chain": (lambda nn: [nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)], (5, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_python(native, name):
    make, shape = LAYERS[name]
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    before, trained, evaluated, after = native.run(name, flambeau.from_numpy(x))

    flambeau.manual_seed(3)
    module = nn.Sequential(*make(nn))
    ours = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert [key for key, _ in before] == list(ours)
    assert all(value.equal(ours[key]) for key, value in before)  # the same random numbers
    flambeau.manual_seed(4)
    assert trained.equal(module(flambeau.from_numpy(x)))
    assert evaluated.equal(module.eval()(flambeau.from_numpy(x)))
    assert all(value.equal(ours[key]) for key, value in after)

    theirs = pytorch.nn.Sequential(*make(pytorch.nn))
    theirs.load_state_dict({key: pytorch.tensor(value.detach().numpy()) for key, value in before})
    if name != "Dropout":  # other random numbers
        expected = theirs(pytorch.tensor(x)).detach().numpy()
        np.testing.assert_allclose(trained.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    expected = theirs.eval()(pytorch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(evaluated.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"weight_decay": 0.01, "amsgrad": True},
    "AdamW": {"betas": (0.8, 0.9)},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Adagrad": {"lr_decay": 0.1, "initial_accumulator_value": 0.5},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("torch", [flambeau, pytorch], ids=["flambeau", "pytorch"])
def test_optimizers_agree_with_python(native, name, torch):
    start = np.array([0.5, -0.7, 0.0, 0.2], dtype=np.float64)
    x = torch.tensor(start.tolist(), dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, name)([x], lr=0.1, **OPTIMIZERS[name])
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for _ in range(5):
        optimizer.zero_grad()
        (x * x * x * x).sum().backward()
        optimizer.step()
        schedule.step()
    found = native.minimised(name, flambeau.from_numpy(start), 5)
    np.testing.assert_allclose(found.numpy(), x.detach().numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_loaders_keep_the_order(native, workers, drop_last):
    rows = flambeau.arange(22.0).reshape(11, 2)
    parts = [rows[i : i + 4] for i in range(0, 8 if drop_last else 11, 4)] * 2  # two epochs
    found = native.batches(rows, 4, workers, drop_last)
    assert len(found) == len(parts) and all(a.equal(b) for a, b in zip(found, parts, strict=True))


def test_a_loader_of_nothing_ends(native):
    assert native.batches(flambeau.zeros(0, 2), 4, 2, False) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_a_dataset_reach_the_reader(native, workers):
    with pytest.raises(IndexError, match="no example 5"):
        native.count_until_failure(workers)


def test_clones_and_conversions(native):
    assert native.clone_is_apart()


def test_modules_are_printed_as_trees(native):
    assert native.printed() == (
        "torch::nn::Sequential(\n  (0): torch::nn::ReLU\n  (1): torch::nn::Sequential(\n"
        "    (0): torch::nn::Linear\n  )\n)"
    )


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("twice", RuntimeError, "got 'weight', which is registered already"),
        ("dot", RuntimeError, "expected a name without a dot, got 'a.b'"),
        ("empty holder", RuntimeError, "got an empty holder"),
        ("groups", ValueError, "divides 4 channels, got 0"),
        ("sizes", RuntimeError, "expected 2 sizes, got 3"),
        ("rank", ValueError, "BatchNorm2d: expected an input of 4 dimensions, got 2"),
        ("place", IndexError, "expected an index below 1, got 1"),
        ("no modules", RuntimeError, "expected a module at least"),
        ("rate", ValueError, "expected a learning rate of 0 or more, got -1"),
        ("betas", ValueError, "expected betas"),
        ("same", ValueError, "expected each parameter once"),
        ("nan", ValueError, "expected a learning rate of 0 or more, got nan"),
    ],
)
def test_mistakes_are_refused(native, what, error, text):
    with pytest.raises(error, match=text):
        native.refuse(what)
