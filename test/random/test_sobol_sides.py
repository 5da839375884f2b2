"""SobolEngine against PyTorch's: the same points, plain and scrambled, and the same state."""

import copy
import io

import flambeau as fb
import numpy as np
import pytest
from build_support import sobol_directions
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()


def engines(torch, *args, **kwargs):
    return torch.quasirandom.SobolEngine(*args, **kwargs)


def test_the_packed_table_is_the_published_one():
    assert sobol_directions.TARGET.read_bytes() == sobol_directions.packed()


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 8, 9, 52, 53, 1111, 21201])
def test_direction_numbers(dimension):
    ours, theirs = (engines(torch, dimension).sobolstate for torch in (fb, pytorch()))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("seed", [0, 7, 123456789])
@pytest.mark.parametrize("dimension", [1, 3, 40, 300])
def test_scrambled_points(dimension, seed):
    ours, theirs = (engines(torch, dimension, scramble=True, seed=seed) for torch in (fb, pytorch()))
    for n in (1, 3, 64, 1):
        np.testing.assert_array_equal(ours.draw(n).numpy(), theirs.draw(n).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("calls", [(1,), (2,), (5, 3), (1, 0, 7), (7, 1, 1, 100), (1000, 24, 2000)])
def test_points_in_pieces(calls, dtype):
    ours, theirs = engines(fb, 21), engines(pytorch(), 21)
    for n in calls:
        mine = ours.draw(n, dtype=getattr(fb, dtype)).numpy()
        np.testing.assert_array_equal(mine, theirs.draw(n, dtype=getattr(pytorch(), dtype)).numpy())
    np.testing.assert_array_equal(ours.quasi.numpy(), theirs.quasi.numpy())
    assert ours.num_generated == theirs.num_generated


@scenario
def scrambling_draws_from_the_default_generator(torch):
    torch.manual_seed(11)
    points = engines(torch, 4, scramble=True).draw(5)
    return points, torch.rand(3)


@scenario
def the_first_point_in_double_precision(torch):
    engine = engines(torch, 3, scramble=True, seed=1)
    return engine.draw(2, dtype=torch.float64), engine._first_point


@scenario
def fast_forward(torch):
    found = []
    for skips in ((1,), (5,), (0,), (3, 1000), (1, 1)):
        engine = engines(torch, 6)
        for n in skips:
            found.append(engine.fast_forward(n) is engine)
        found += [engine.num_generated, engine.quasi, engine.draw(3)]
    return found


@scenario
def reset(torch):
    engine = engines(torch, 2, scramble=True, seed=3)
    first = engine.draw(5)
    return engine.reset() is engine, engine.num_generated, first, engine.draw(5)


@scenario
def draw_base2(torch):
    engine = engines(torch, 3)
    found = [engine.draw_base2(3), engine.draw_base2(3)]
    found += [raised("power of 2", engine.draw_base2, m) for m in (0, 1, 2, 3)]
    return [*found, engine.num_generated, engine.draw_base2(m=4, dtype=torch.float64)]


@scenario
def out(torch):
    small, whole = torch.empty(0, dtype=torch.float64), torch.empty(9, dtype=torch.int64)
    engine = engines(torch, 2)
    results = engine.draw(4, out=small), engine.draw(2, out=whole), engine.draw_base2(1, small)
    return [r is t for r, t in zip(results, (small, whole, small), strict=True)], small, whole


@scenario
def a_copy_goes_on_by_itself(torch):
    engine = engines(torch, 2, scramble=True, seed=5)
    engine.draw(3)
    twin = copy.deepcopy(engine)
    return twin.draw(2), twin.num_generated, engine.num_generated, engine.draw(2)


@scenario
def a_saved_engine_goes_on(torch):
    engine, memory = engines(torch, 2, scramble=True, seed=5), io.BytesIO()
    engine.draw(3)
    torch.save(engine, memory)
    memory.seek(0)
    return torch.load(memory, weights_only=False).draw(2)


@scenario
def text_and_constants(torch):
    kinds = engines(torch, 3), engines(torch, 3, True), engines(torch, 3, True, 5), engines(torch, 3, seed=0)
    cls = torch.quasirandom.SobolEngine
    return [repr(engine) for engine in kinds], cls.MAXBIT, cls.MAXDIM


@scenario
def errors(torch):
    engine = engines(torch, 2)
    found = [raised("[1, 21201]", engines, torch, dimension) for dimension in (0, -1, 21202)]
    found += [raised("", engine.draw, n) for n in (0, -1, 1.5, None, "2")]
    found += [raised("", engine.draw, 2, dtype=dtype) for dtype in (torch.float16, torch.int64)]
    return [*found, engine.num_generated]


@scenario
def another_default_dtype(torch):
    torch.set_default_dtype(torch.float64)
    try:
        return str(engines(torch, 2).draw(3).dtype).rpartition(".")[2]
    finally:
        torch.set_default_dtype(torch.float32)


def test_points_end_where_their_bits_do():
    engine = engines(fb, 2).fast_forward(2**30 - 1)
    assert engine.draw(1).shape == (1, 2)
    with pytest.raises(ValueError, match="at most"):
        engine.draw(1)


test_scenarios = scenario.test()
