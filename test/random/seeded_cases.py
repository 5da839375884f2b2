"""What is drawn and trained from a seed, written for any module with PyTorch's interface.

record.py runs this with PyTorch, test_seeded.py with flambeau: the numbers must be the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Module = Any
Tensor = Any

SIZES = [*range(1, 41), 1000]
FLOATING = ["float32", "float64", "bfloat16", "float16"]
INTEGRAL = ["bool", "uint8", "int8", "int16", "int32", "int64"]
SEED = 2147483647
STEPS = 10

# Each draws a tensor of n elements (or rows) and of a dtype.
Draw = Callable[[Module, int, Any], Tensor]

FLOATING_DRAWS: dict[str, Draw] = {
    "rand": lambda m, n, t: m.rand(n, dtype=t),
    "randn": lambda m, n, t: m.randn(n, dtype=t),
    "rand_like": lambda m, n, t: m.rand_like(m.ones(n, dtype=t)),
    "randn_like": lambda m, n, t: m.randn_like(m.ones(n, dtype=t)),
    "randint": lambda m, n, t: m.randint(-5, 90, (n,), dtype=t),
    "randint_like": lambda m, n, t: m.randint_like(m.ones(n, dtype=t), 7),
    "randperm": lambda m, n, t: m.randperm(n, dtype=t),
    "uniform": lambda m, n, t: m.empty(n, dtype=t).uniform_(-0.37, 1.9),
    "normal": lambda m, n, t: m.empty(n, dtype=t).normal_(0.5, 1.7),
    "normal of tensors": lambda m, n, t: m.normal(m.ones(n, dtype=t), m.full((n,), 1.7, dtype=t)),
    "normal of means": lambda m, n, t: m.normal(m.ones(n, dtype=t), 1.7),
    "normal of deviations": lambda m, n, t: m.normal(0.5, m.full((n,), 1.7, dtype=t)),
    "normal of numbers": lambda m, n, t: m.normal(0.5, 1.7, (n,), dtype=t),
    "exponential": lambda m, n, t: m.empty(n, dtype=t).exponential_(1.3),
    "cauchy": lambda m, n, t: m.empty(n, dtype=t).cauchy_(0.5, 1.7),
    "log_normal": lambda m, n, t: m.empty(n, dtype=t).log_normal_(0.5, 0.3),
    "geometric": lambda m, n, t: m.empty(n, dtype=t).geometric_(0.2),
    "poisson": lambda m, n, t: m.poisson(m.rand(n, dtype=t) * 30),
    "random": lambda m, n, t: m.empty(n, dtype=t).random_(),
    "bernoulli": lambda m, n, t: m.bernoulli(m.rand(n, dtype=t)),
    "bernoulli of a number": lambda m, n, t: m.empty(n, dtype=t).bernoulli_(0.3),
    "bernoulli of a tensor": lambda m, n, t: m.empty(3, n, dtype=t).bernoulli_(m.rand(n)),
    "bernoulli of doubles": lambda m, n, t: m.empty(n, dtype=t).bernoulli_(m.rand(n, dtype=m.float64)),
    "dropout": lambda m, n, t: m.nn.functional.dropout(m.ones(n, dtype=t), 0.3),
    "one category": lambda m, n, t: m.multinomial(m.rand(n, dtype=t), 1),
    "all categories": lambda m, n, t: m.multinomial(m.rand(2, n, dtype=t), n),
    "categories again": lambda m, n, t: m.multinomial(m.rand(2, n, dtype=t), n + 1, True),
    # Elements are drawn in memory order; normal numbers that do not lie together one by one.
    "uniform transposed": lambda m, n, t: m.zeros(n, 3, dtype=t).t().uniform_(),
    "normal transposed": lambda m, n, t: m.zeros(n, 3, dtype=t).t().normal_(),
    "normal in steps": lambda m, n, t: m.zeros(n, 2, dtype=t).select(1, 0).normal_(),
}
INTEGRAL_DRAWS: dict[str, Draw] = {
    "randint of two": lambda m, n, t: m.randint(0, 2, (n,), dtype=t),
    "random": lambda m, n, t: m.empty(n, dtype=t).random_(),
    "random from 1": lambda m, n, t: m.empty(n, dtype=t).random_(1, None),
    "bernoulli": lambda m, n, t: m.empty(n, dtype=t).bernoulli_(0.3),
}
COMPLEX_DRAWS: dict[str, Draw] = {
    "randn": lambda m, n, t: m.randn(n, dtype=t),
    "rand": lambda m, n, t: m.rand(n, dtype=t),
    "normal transposed": lambda m, n, t: m.zeros(n, 3, dtype=t).t().normal_(),
}
# PyTorch draws these in float32 and float64 alone.
GAMMA_DRAWS: dict[str, Draw] = {
    "gamma": lambda m, n, t: m._standard_gamma(m.rand(n, dtype=t) * 4),
    "gamma transposed": lambda m, n, t: m._standard_gamma((m.rand(n, 3, dtype=t) * 4).t()),
    "dirichlet": lambda m, n, t: m._sample_dirichlet(m.rand(n, 3, dtype=t) * 4 + 0.1),
}
# Ranges on both sides of the limit for 64-bit draws, and beyond what the dtype holds.
RANGES: dict[str, tuple[str, int, int]] = {
    f"{t} {low} {high}": (t, low, high)
    for t, low, high in [
        ("int64", 0, 2**28 - 1),
        ("int64", 0, 2**28),
        ("int64", 0, 2**40),
        ("int64", -(2**63), 2**63 - 1),
        ("int32", -(2**31), 2**31 - 1),
        ("float32", 3, 2**24 + 5),
        ("bfloat16", 0, 1000),
    ]
}
INITIALISERS = [
    "kaiming_uniform_",
    "kaiming_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "uniform_",
    "normal_",
    "trunc_normal_",
]


def digest(tensor: Tensor, start: int = 0) -> int:
    """CRC-32 of the elements, continuing `start`; the half types as float32."""
    plain = tensor.detach()
    if str(plain.dtype).rsplit(".", 1)[-1] in ("bfloat16", "float16"):
        plain = plain.float()
    return zlib.crc32(np.ascontiguousarray(plain.contiguous().numpy()).tobytes(), start)


def twice(m: Module, draw: Draw, n: int, dtype: str) -> int:
    """Two draws in a row from one seed: the second one shows where the first left the stream."""
    m.manual_seed(SEED + n)
    first = digest(draw(m, n, getattr(m, dtype)))
    return digest(draw(m, n, getattr(m, dtype)), first)


def digests(m: Module, draw: Draw, dtype: str, sizes: list[int]) -> list[int]:
    """One digest per size."""
    return [twice(m, draw, n, dtype) for n in sizes]


def draws(m: Module) -> dict[str, list[int]]:
    """All digests of all draws, by name and dtype."""
    table = [
        *((FLOATING_DRAWS, dtype, SIZES) for dtype in FLOATING),
        *((INTEGRAL_DRAWS, dtype, SIZES) for dtype in INTEGRAL),
        *((COMPLEX_DRAWS, dtype, [1, 5, 8, 9, 100]) for dtype in ("complex64", "complex128")),
        *((GAMMA_DRAWS, dtype, [1, 5, 8, 9, 100]) for dtype in ("float32", "float64")),
    ]
    found = {
        f"{name}, {dtype}": digests(m, draw, dtype, sizes)
        for group, dtype, sizes in table
        for name, draw in group.items()
    }
    for name, (dtype, low, high) in RANGES.items():

        def drawn(m: Module, n: int, t: Any, low: int = low, high: int = high) -> Tensor:
            return m.empty(n, dtype=t).random_(low, high)

        found[f"range {name}"] = digests(m, drawn, dtype, [100])
    for name in INITIALISERS:

        def initialised(m: Module, n: int, t: Any, name: str = name) -> Tensor:
            return getattr(m.nn.init, name)(m.empty(n, 5, dtype=t))

        found[f"init.{name}"] = digests(m, initialised, "float32", [2, 8])
    return found


def samples(m: Module) -> dict[str, list[float]]:
    """A few numbers to look at where a digest differs."""
    shown = ("rand", "randn", "randint", "randperm", "bernoulli", "exponential", "dropout")
    found = {}
    for name in shown:
        m.manual_seed(0)
        found[name] = [float(x) for x in FLOATING_DRAWS[name](m, 20, m.float32)]
    return found


def _batches(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def orders(m: Module) -> dict[str, Any]:
    """In which order data loaders and samplers visit samples, two epochs of each."""
    data = m.utils.data
    made: dict[str, Callable[[], list[Any]]] = {
        "shuffled": lambda: _batches(data.DataLoader(range(23), batch_size=4, shuffle=True)),
        "in order": lambda: _batches(data.DataLoader(range(5), batch_size=4)),
        "own generator": lambda: _batches(
            data.DataLoader(range(9), shuffle=True, generator=m.Generator().manual_seed(3))
        ),
        "with replacement": lambda: list(data.RandomSampler(range(9), replacement=True, num_samples=40)),
        "more than once": lambda: list(data.RandomSampler(range(9), num_samples=20)),
        "weighted": lambda: list(data.WeightedRandomSampler([0.1, 3.0, 1.0, 0.5], 20)),
        "subset": lambda: list(data.SubsetRandomSampler([5, 6, 7, 8])),
        "split": lambda: [list(part.indices) for part in data.random_split(range(10), [3, 7])],
    }
    found = {}
    for name, make in made.items():
        m.manual_seed(SEED)
        found[name] = [make(), make(), m.randperm(5).tolist()]
    return found


# --- training --------------------------------------------------------------------------------------


def dense(m: Module) -> tuple[Any, Tensor, Callable[[Tensor], Tensor]]:
    """A regression."""
    nn = m.nn
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    x = m.randn(64, 10)
    y = m.randn(64, 1)
    return net, x, lambda out: nn.functional.mse_loss(out, y)


def convolutional(m: Module) -> tuple[Any, Tensor, Callable[[Tensor], Tensor]]:
    """A classification of images, with dropout."""
    nn = m.nn
    net = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(8 * 2 * 2, 5),
    )
    x = m.randn(16, 2, 8, 8)
    y = m.randint(0, 5, (16,))
    return net, x, lambda out: nn.functional.cross_entropy(out, y)


NETWORKS = {"dense": dense, "convolutional": convolutional}
OPTIMISERS: dict[str, Callable[[Module, Any], Any]] = {
    "SGD": lambda m, parameters: m.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "Adam": lambda m, parameters: m.optim.Adam(parameters, lr=0.01),
    "AdamW": lambda m, parameters: m.optim.AdamW(parameters, lr=0.01, weight_decay=0.1),
}


def trained(m: Module, network: str, optimiser: str) -> dict[str, Any]:
    """Digests of the initial parameters, and the loss before each of the steps and after the last."""
    m.manual_seed(SEED)
    net, x, loss_of = NETWORKS[network](m)
    start = [digest(p) for p in net.parameters()]
    stepper = OPTIMISERS[optimiser](m, net.parameters())
    losses = []
    for _ in range(STEPS):
        stepper.zero_grad()
        loss = loss_of(net(x))
        loss.backward()
        stepper.step()
        losses.append(float(loss))
    losses.append(float(loss_of(net(x))))
    return {"parameters": start, "losses": losses}


def training(m: Module) -> dict[str, dict[str, Any]]:
    """Every network with every optimiser."""
    return {f"{n}, {o}": trained(m, n, o) for n in NETWORKS for o in OPTIMISERS}
