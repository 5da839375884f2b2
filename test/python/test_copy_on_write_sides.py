"""Lazy clones: who shares memory, what a write, a view, an export or a thread does to it, as in PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
import random
import threading

import flambeau
import numpy as np
import pytest
from oracle import pytorch
from sides import Scenarios, plain

scenario = Scenarios()


def pair(torch, **options):
    """A tensor and its lazy clone."""
    source = torch.arange(6.0, **options)
    return source, source._lazy_clone()


def cow(torch, *tensors):
    return [torch._C._is_cow_tensor(t) for t in tensors]


@scenario
def geometry_is_that_of_the_source(torch):
    whole = torch.arange(6.0)
    made = [
        t._lazy_clone() for t in (whole, whole[1:], whole.view(2, 3).t(), whole[::2], whole[:1].expand(3))
    ]
    made += [torch._lazy_clone(torch.ones(0)), torch.tensor(2)._lazy_clone()]
    facts = [
        [list(t.shape), list(t.stride()), t.storage_offset(), t.untyped_storage().nbytes(), t._version, t]
        for t in made
    ]
    return [facts, cow(torch, whole, *made)]


@scenario
def reads_share(torch):
    a, b = pair(torch)
    read = [b + 1, b.sum(), b[2], b.tolist(), b[1].item(), b.clone(), b.to(torch.float64), torch.cat([a, b])]
    return [read, cow(torch, a, b), repr(b)]


WRITES = {
    "add_": lambda torch, t: t.add_(1),
    "fill_": lambda torch, t: t.fill_(7),
    "zero_": lambda torch, t: t.zero_(),
    "copy_": lambda torch, t: t.copy_(torch.ones(6)),
    "item": lambda torch, t: t.__setitem__(0, 5),
    "slice": lambda torch, t: t.__setitem__(slice(1, 3), torch.ones(2)),
    "mask": lambda torch, t: t.__setitem__(t > 2, 0),
    "index": lambda torch, t: t.__setitem__(torch.tensor([1, 1]), 3),
    "view": lambda torch, t: t.view(2, 3)[1].mul_(2),
    "as_strided": lambda torch, t: t.as_strided((2,), (3,)).zero_(),
    "out": lambda torch, t: torch.add(t, 1, out=t),
    "out of another": lambda torch, t: torch.mul(torch.ones(6), 3, out=t),
    "sort out": lambda torch, t: torch.sort(-t, out=(t, torch.empty(0, dtype=torch.long))),
    "data": lambda torch, t: t.data.sub_(1),
    "detach": lambda torch, t: t.detach().sub_(1),
    "real view": lambda torch, t: torch.view_as_complex(t.view(3, 2)).conj().mul_(2),
    "negative view": lambda torch, t: torch._neg_view(t).add_(1),
    "bytes": lambda torch, t: t.view(torch.int32).add_(1),
    "foreach": lambda torch, t: torch._foreach_add_([t, t[1:]], 1),
    "scatter_": lambda torch, t: t.scatter_(0, torch.tensor([1]), 9.0),
    "index_add_": lambda torch, t: t.index_add_(0, torch.tensor([1]), torch.ones(1)),
    "masked_fill_": lambda torch, t: t.masked_fill_(t > 1, 9),
    "sigmoid_": lambda torch, t: torch.sigmoid_(t),
    "clamp_": lambda torch, t: t.clamp_(1, 2),
    "relu": lambda torch, t: torch.nn.functional.relu(t.neg_(), inplace=True),
    "init": lambda torch, t: torch.nn.init.constant_(t, 3),
    "storage fill_": lambda torch, t: t.untyped_storage().fill_(0),
    "storage item": lambda torch, t: t.untyped_storage().__setitem__(3, 64),
    "typed storage": lambda torch, t: t.storage().__setitem__(1, 3.0),
    "storage copy_": lambda torch, t: t.untyped_storage().copy_(torch.ones(6).untyped_storage()),
    "storage resize_": lambda torch, t: t.untyped_storage().resize_(24),
    "numpy": lambda torch, t: t.numpy().fill(4),
    "array": lambda torch, t: np.asarray(t).fill(4),
    "dlpack": lambda torch, t: torch.from_dlpack(t).fill_(4),
    "share_memory_": lambda torch, t: t.share_memory_().fill_(4),
    "set_": lambda torch, t: torch.empty(0).set_(t).fill_(8),
    "squeeze_": lambda torch, t: t.unsqueeze_(0).add_(1),
    "map_": lambda torch, t: t.map_(torch.ones(6), lambda a, b: a + b),
    "apply_": lambda torch, t: t.apply_(lambda a: a + 1),
    "running statistics": lambda torch, t: torch.nn.functional.batch_norm(
        torch.arange(12.0).view(2, 6), t, torch.ones(6), training=True, momentum=0.5
    ),
    "clip_grad": lambda torch, t: torch.nn.utils.vector_to_parameters(torch.ones(6), [t.detach()]),
}


@scenario
def a_write_reaches_one_of_the_two(torch):
    out = []
    for name, write in WRITES.items():
        for which in (0, 1):
            both = pair(torch)
            write(torch, both[which])
            out.append([name, both[0], both[1]])
    return out


@scenario
def a_writer_has_memory_of_its_own(torch):
    out = []
    for which in (0, 1):
        both = pair(torch)
        both[which].add_(1)
        out.append([cow(torch, *both), both[0].data_ptr() == both[1].data_ptr()])
    a, b = pair(torch)
    out.append([a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr(), cow(torch, a, b)])
    return out


@scenario
def three_share_until_each_writes(torch):
    a, b = pair(torch)
    c = b._lazy_clone()
    a.add_(1)
    after_a = cow(torch, a, b, c)
    b.add_(5)
    after_b = cow(torch, a, b, c)
    c.add_(7)
    return [after_a, after_b, cow(torch, a, b, c), a, b, c]


@scenario
def the_last_one_takes_the_memory(torch):
    a, b = pair(torch)
    del a
    before = cow(torch, b)
    b.add_(1)
    return [before, cow(torch, b), b]


@scenario
def views_share_the_storage_of_their_clone(torch):
    a = torch.arange(6.0)
    before = a[1:3]
    b = a._lazy_clone()
    after = b[1:3]
    before.add_(10)
    after.add_(20)
    return [a, b, before, after, cow(torch, a, b, before, after), a.is_set_to(b), b._is_view()]


@scenario
def exports_hold_the_memory(torch):
    a, b = pair(torch)
    array = b.numpy()
    array[0] = 9
    b.add_(1)
    return [array.tolist(), a, b]


@scenario
def copies_and_files(torch):
    a, b = pair(torch)
    deep, shallow = copy.deepcopy(b), copy.copy(b)
    deep.add_(1)
    pickled = pickle.loads(pickle.dumps(b))
    file = io.BytesIO()
    torch.save({"a": a, "b": b}, file)
    file.seek(0)
    loaded = torch.load(file)
    loaded["a"].add_(1)
    return [a, b, deep, shallow, pickled, loaded["a"], loaded["b"]]


@scenario
def gradients_pass(torch):
    a = torch.arange(3.0, requires_grad=True)
    b = a._lazy_clone()
    facts = [b.requires_grad, b.is_leaf, b.grad_fn is None]
    out = [torch.autograd.grad((b * b).sum(), a, retain_graph=True)[0]]
    saved = (a * a).sum()
    b.mul_(3)  # the source, which backward reads, is as it was
    out += [torch.autograd.grad(saved, a)[0], torch.autograd.grad((b * b).sum(), a)[0], a, b]
    return [facts, out]


@scenario
def a_saved_clone_that_is_written_is_noticed(torch):
    a = torch.arange(3.0, requires_grad=True)
    b = (a * 1)._lazy_clone()
    y = (b * b).sum()
    b.add_(1)
    try:
        y.backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return "nothing"


@scenario
def transforms_take_it(torch):
    x = torch.arange(6.0).view(2, 3)

    def f(v):
        w = v._lazy_clone()
        w.mul_(2)
        return (w * v).sum()

    return [
        torch.func.grad(f)(x),
        torch.vmap(lambda v: v._lazy_clone().add_(v))(x),
        torch.vmap(torch.func.grad(f))(x),
        torch.func.jvp(lambda v: v._lazy_clone() * 2, (x,), (x,)),
        x,
    ]


@scenario
def meta_tensors_have_nothing_to_share(torch):
    a = torch.ones(2, 3, device="meta")
    return [list(a._lazy_clone().shape), a._lazy_clone().device.type]


test_as_in_pytorch = scenario.test()


# --- ours alone: where PyTorch refuses --------------------------------------------------------------


@pytest.mark.parametrize("held", ["numpy", "memoryview", "from_numpy"])
def test_memory_that_is_held_outside_is_copied_at_once(held: str):
    """NumPy may write to it at any time."""
    array = np.arange(4.0)
    a = flambeau.from_numpy(array) if held == "from_numpy" else flambeau.arange(4.0)
    view = {"numpy": a.numpy, "memoryview": lambda: memoryview(a), "from_numpy": lambda: array}[held]()
    b = a[1:]._lazy_clone()
    assert not flambeau._C._is_cow_tensor(b)
    view[1] = 9
    assert a[1] == 9 and b.tolist() == [1, 2, 3]


GROWTH = {
    "out": lambda t: flambeau.mul(flambeau.ones(9), 3, out=t),
    "resize_": lambda t: t.resize_(9).fill_(3),
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("grow", GROWTH)
def test_storages_that_grow(grow: str, which: int):
    """PyTorch fails an assertion here."""
    both = pair(flambeau)
    GROWTH[grow](both[which])
    assert both[which].tolist() == [3] * 9 and both[1 - which].tolist() == list(range(6))


def test_a_question_about_something_else():
    with pytest.raises(TypeError, match="expected a Tensor"):
        flambeau._C._is_cow_tensor(3)


def test_threads_write_disjoint_views():
    """The first writer replaces the memory of all views; no write is lost, and the source stays."""
    for _ in range(50):
        a = flambeau.zeros(8, 4096)
        clones = [a._lazy_clone() for _ in range(3)]
        gate = threading.Barrier(8)

        def work(row: int, gate=gate, written=clones[0]) -> None:
            gate.wait()
            for _ in range(3):
                written[row].add_(row + 1)

        threads = [threading.Thread(target=work, args=(row,)) for row in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert a.eq(0).all() and clones[1].eq(0).all()
        assert clones[0].sum(1).tolist() == [3 * 4096 * (row + 1) for row in range(8)]


def test_threads_write_tensors_that_share():
    for _ in range(50):
        a = flambeau.ones(20_000)
        tensors = [a, *(a._lazy_clone() for _ in range(7))]
        gate = threading.Barrier(8)

        def work(n: int, gate=gate, tensors=tensors) -> None:
            gate.wait()
            tensors[n].mul_(n + 2)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [t.unique().tolist() for t in tensors] == [[n + 2] for n in range(8)]


# --- a random walk ----------------------------------------------------------------------------------


def draw_program(seed: int, steps: int) -> list[tuple]:
    rng = random.Random(seed)
    program, count = [], 2
    for _ in range(steps):
        i, j = rng.randrange(count), rng.randrange(count)
        kind = rng.choice(["clone", "clone", "view", "write", "write", "out", "item", "drop", "read", "set"])
        program.append((kind, i, j, rng.randrange(6), rng.randrange(1, 5)))
        count += kind in ("clone", "view")
    return program


def run_program(torch, program: list[tuple]) -> list:
    tensors = [torch.arange(6.0), torch.ones(6)]
    seen = []
    for kind, i, j, place, value in program:
        a, b = tensors[i], tensors[j]
        if kind == "clone":
            tensors.append(a._lazy_clone())
        elif kind == "view":
            tensors.append(a.flip(0)._lazy_clone() if value == 1 else a.view(6)[:])
        elif kind == "write":
            a.add_(b[place] + value)
        elif kind == "out":
            torch.mul(b, value % 3, out=a)
        elif kind == "item":
            a[place] = value
        elif kind == "drop":
            tensors[i] = torch.full((6,), float(value))
        elif kind == "set":
            a.set_(b)
        elif kind == "read":
            seen.append(float((a - b).sum()))
    return [seen, tensors]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int):
    torch = pytorch()
    program = draw_program(seed, 40)
    assert plain(run_program(flambeau, program)) == plain(run_program(torch, program)), program
