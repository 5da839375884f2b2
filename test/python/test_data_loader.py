"""DataLoader: batches, and what its workers do when something goes wrong."""

import random
import threading
import time

import flambeau as fb
import pytest
from flambeau.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info
from loader_samples import (
    Acts,
    OwnText,
    Stream,
    TwoArguments,
    Unpicklable,
    fail_init,
    raise_it,
    raise_local,
    raise_two,
)

# A test that waits longer than this has found a hang.
HANG = 60

WAYS = ("fork", "spawn", "forkserver")


def outcome(dataset, **options):
    """The samples and exceptions of a whole pass."""
    loader = DataLoader(dataset, None, num_workers=options.pop("num_workers", 2), timeout=HANG, **options)
    iterator, out = iter(loader), []
    while True:
        try:
            out.append(next(iterator))
        except StopIteration:
            return out
        except Exception as error:
            out.append(error)


def failure_of(*act, **options):
    """The exception in the place of sample 2; all others must come."""
    out = outcome(Acts(*act), **options)
    assert [*out[:2], *out[3:]] == [0, 1, 3, 4, 5]
    return out[2]


def text_of(error):
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def squares(x):
    return x * x


# --- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_workers_give_what_the_loader_gives(way):
    data = TensorDataset(fb.arange(40.0).reshape(10, 4), fb.arange(10))
    here = list(DataLoader(data, 3))
    there = list(DataLoader(data, 3, num_workers=2, multiprocessing_context=way))
    assert len(here) == len(there) == 4
    for (x, i), (y, j) in zip(here, there, strict=True):
        assert x.equal(y)
        assert i.equal(j)


class Shapes(Dataset):
    """What is hard to send: large, empty, strided, complex, aliasing, and parameters."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        base = fb.arange(600_000.0).reshape(600, 1000)
        parts = [base, base[:, ::2], base[7:9], base.t(), fb.zeros(0, 3), fb.tensor(5), base[:3].bool()]
        twin = fb.ones(3)
        more = [
            fb.ones(2, dtype=fb.complex64).conj(),
            fb.nn.Parameter(fb.ones(2)),
            twin,
            twin[1:],
            "x" * 100_000,
        ]
        return [*parts, *more, {"i": i, "bytes": bytes(50_000)}]


def test_every_kind_of_sample_arrives():
    for here, there in zip(
        DataLoader(Shapes(), None, collate_fn=list),
        DataLoader(Shapes(), None, collate_fn=list, num_workers=2),
        strict=True,
    ):
        assert here[11:] == there[11:]
        for a, b in zip(here[:11], there[:11], strict=True):
            assert a.equal(b)
            assert (a.dtype, a.stride(), type(a), a.requires_grad) == (
                b.dtype,
                b.stride(),
                type(b),
                b.requires_grad,
            )
        there[9].fill_(3)
        assert there[10].tolist() == [3, 3], "tensors over the same memory stay so"


def test_a_small_part_of_much_memory_is_sent_alone():
    class Part(Dataset):
        base = fb.zeros(10_000_000)

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return self.base[i : i + 5]

    for part in DataLoader(Part(), None, num_workers=1):
        assert part.untyped_storage().nbytes() <= 4096


def test_streams_end_each_worker_for_itself():
    loader = DataLoader(Stream(11), 2, num_workers=3, persistent_workers=True)
    for _ in range(3):
        assert sorted(fb.cat(list(loader)).tolist()) == list(range(11))
    assert fb.cat(list(DataLoader(Stream(5), 2, drop_last=True))).tolist() == [0, 1, 2, 3]
    assert list(DataLoader(Stream(0), 2, num_workers=2)) == []


def test_order_as_ready():
    class Slow(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            if i == 0:
                time.sleep(1)
            return i

    seen = list(DataLoader(Slow(), None, num_workers=2, in_order=False))
    assert sorted(seen) == list(range(8))
    assert seen[0] != 0
    assert list(DataLoader(Slow(), None, num_workers=2)) == list(range(8))


def test_without_batches_the_functions_get_the_sample_itself():
    assert list(DataLoader([1, 2, 3], None, collate_fn=squares)) == [1, 4, 9]
    assert list(DataLoader([1, 2, 3], None, collate_fn=squares, num_workers=1)) == [1, 4, 9]
    assert list(DataLoader(Stream(3), None, collate_fn=squares, num_workers=1)) == [0, 1, 4]

    class Many(Dataset):
        def __len__(self):
            return 5

        def __getitems__(self, indices):
            return [fb.tensor(i) for i in indices]

    assert [b.tolist() for b in DataLoader(Many(), 2, num_workers=1)] == [[0, 1], [2, 3], [4]]


def test_workers_draw_each_their_own_numbers():
    class Draws(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return get_worker_info().seed, fb.rand(1).item(), random.random()

    def draw():
        fb.manual_seed(3)
        return list(DataLoader(Draws(), None, num_workers=4))

    first, again = draw(), draw()
    assert first == again
    assert all(len({draw[k] for draw in first}) == 4 for k in range(3))


# --- exceptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_of_several_arguments_arrives_as_itself(way):
    error = failure_of(raise_two, 1, "x", multiprocessing_context=way)
    assert type(error) is TwoArguments
    assert (error.first, error.second) == (1, "x")
    assert "Caught TwoArguments in DataLoader worker process 0" in str(error)
    assert "1 and x" in str(error)
    assert "in raise_two" in str(error), "the worker's traceback"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("a\nb"), KeyError),
        (OwnText(3, "own"), OwnText),
        (Unpicklable(5), Unpicklable),
        (FileNotFoundError(2, "No such file", "name"), FileNotFoundError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"), UnicodeDecodeError),
        (ExceptionGroup("group", [ValueError("inner")]), ExceptionGroup),
        (fb.linalg.LinAlgError("singular"), fb.linalg.LinAlgError),
        (SystemExit(3), RuntimeError),
        (KeyboardInterrupt(), RuntimeError),
        (GeneratorExit(), RuntimeError),
        (StopIteration(4), RuntimeError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_exceptions_arrive_with_type_text_and_traceback(error, kind):
    arrived = failure_of(raise_it, error)
    assert type(arrived) is kind
    assert f"Caught {type(error).__name__} in DataLoader worker process 0.\nOriginal" in text_of(arrived)
    assert "in raise_it" in text_of(arrived)
    if isinstance(error, OSError):
        assert (arrived.errno, arrived.filename) == (2, "name")
    if isinstance(error, Unpicklable):
        assert arrived.kept == 7


def test_a_class_that_cannot_be_imported_arrives_as_its_base():
    error = failure_of(raise_local)
    assert type(error) is ValueError
    assert "Caught Local in DataLoader worker process 0" in str(error)


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_of_a_data_set_is_an_error(workers):
    loader = DataLoader(Acts(raise_it, StopIteration()), 1, num_workers=workers)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(loader)

    def collate(samples):
        raise StopIteration

    for data in (Stream(4), [1, 2]):
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(DataLoader(data, 2, num_workers=workers, collate_fn=collate))


@pytest.mark.parametrize(
    "sample", [threading.Lock(), lambda: 0, (i for i in ())], ids=["lock", "lambda", "generator"]
)
def test_what_cannot_be_pickled_is_an_error(sample):
    class Gives(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return sample if i == 1 else i

    out = outcome(Gives())
    assert [out[0], *out[2:]] == [0, 2, 3]
    assert "while sending a batch" in str(out[1])


def test_a_tensor_with_a_graph_is_not_sent():
    error = failure_of(lambda: fb.ones(2, requires_grad=True) * 2)
    assert type(error) is RuntimeError
    assert "detach" in str(error)


def test_large_answers_do_not_wait_for_the_loader():
    out = outcome(Acts(lambda: "x" * 30_000_000), num_workers=1)
    assert len(out[2]) == 30_000_000


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_errors_before_the_first_batch(way):
    loader = DataLoader(range(4), None, num_workers=2, worker_init_fn=fail_init, multiprocessing_context=way)
    with pytest.raises(TwoArguments, match="in DataLoader worker process") as caught:
        next(iter(loader))
    assert caught.value.second == "init"


def test_collate_errors_name_the_cause():
    loader = DataLoader([fb.ones(2), fb.ones(3)], 2, num_workers=1)
    with pytest.raises(RuntimeError, match="in DataLoader worker process 0"):
        list(loader)
