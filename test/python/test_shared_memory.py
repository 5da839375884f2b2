"""Memory that processes share, tensors in queues, spawn, and swapped tensors, as in PyTorch."""

import functools
import gc
import importlib
import multiprocessing
import multiprocessing.resource_sharer
import multiprocessing.resource_tracker
import operator
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import flambeau as fb
import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()


def write(x):
    x[1] = 7
    x *= 2


def answer(requests, answers):
    x = requests.get()
    x += 1
    answers.put(x.clone())
    answers.put(requests.get().detach() * 2)
    requests.get()  # memory that nobody holds any more cannot be received


def fill(i, x, fails):
    x[i] = i + 1
    if fails and i == 1:
        raise ValueError("on purpose")


def run_forked(function, *args):
    process = multiprocessing.get_context("fork").Process(target=function, args=args, daemon=True)
    process.start()
    process.join(60)
    return process.exitcode


def test_a_forked_process_writes_where_we_read():
    x, own = fb.zeros(4).share_memory_(), fb.zeros(4)
    view = x[1:]
    assert run_forked(write, x) == run_forked(write, own) == 0
    assert x.tolist() == [0, 14, 0, 0]
    assert view.tolist() == [14, 0, 0]
    assert own.tolist() == [0, 0, 0, 0]


def test_what_is_sent_is_the_memory_itself():
    fb.multiprocessing.get_sharing_strategy()
    context = multiprocessing.get_context("fork")
    requests, answers = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(requests, answers), daemon=True)
    process.start()
    x = fb.zeros(3, 2)
    requests.put(x)
    requests.put(fb.nn.Parameter(fb.ones(2)))
    assert answers.get(timeout=60).tolist() == [[1, 1]] * 3
    assert x.tolist() == [[1, 1]] * 3, "the other process wrote into our memory"
    assert answers.get(timeout=60).tolist() == [2, 2]
    requests.put(None)
    process.join(60)


def test_a_layer_trains_in_another_process():
    layer = fb.nn.Linear(2, 1)
    layer.share_memory()
    before = [p.clone() for p in layer.parameters()]

    def step():
        optimizer = fb.optim.SGD(layer.parameters(), 0.5)
        layer(fb.ones(3, 2)).sum().backward()
        optimizer.step()

    assert run_forked(step) == 0
    assert [(b - a).flatten().tolist() for a, b in zip(before, layer.parameters(), strict=True)] == [
        pytest.approx([-1.5, -1.5]),
        pytest.approx([-1.5]),
    ]


def test_others_who_see_the_memory_are_not_left_behind_in_silence():
    x = fb.zeros(4)
    view = x[1:]
    with pytest.raises(RuntimeError, match="1 other tensors see the same memory"):
        x.share_memory_()
    assert not view.is_shared()
    del view
    assert x.share_memory_().is_shared()


def test_spawned_processes_and_their_failures():
    x = fb.ones(2).share_memory_()
    fb.multiprocessing.spawn(functools.partial(operator.setitem, x, slice(None)))
    assert x.tolist() == [0, 0], "written by a process that inherited nothing"
    fb.multiprocessing.start_processes(fill, (x, False), 2, start_method="fork")
    assert x.tolist() == [1, 2]
    with pytest.raises(fb.multiprocessing.ProcessRaisedException, match="on purpose") as failure:
        fb.multiprocessing.start_processes(fill, (x, True), 2, start_method="fork")
    assert failure.value.error_index == 1


# `seen` and `other` have views, so that copies of them are sent.
WITH_ARGUMENTS = """
import sys
import flambeau as fb
from flambeau import multiprocessing
from multiprocessing.reduction import ForkingPickler

class PickledAlone:
    def __init__(self, part):
        self.part = part

    def __reduce__(self):
        return ForkingPickler.loads, (bytes(ForkingPickler.dumps(self.part)),)

def check(shared, seen, other, part, alone, storage, view):
    assert seen.tolist() == [0, 1, 2, 3, 4] and other.tolist() == [0, 1, 2, 3, 4, 5]
    assert part.tolist() == [1, 2, 3] and alone.tolist() == [2, 3] and view.tolist() == [1, 2, 3, 4]
    shared[3] = 99
    seen[1:] = -1
    assert part[2] == alone[1] == 99 and storage[24] == 99 and view.tolist() == [1, 2, 3, 4]

if __name__ == "__main__":
    shared, seen, other = fb.arange(4).share_memory_(), fb.arange(5), fb.arange(6)
    views = [seen[1:], other[1:]]
    sent = (shared, seen, other, shared[1:], PickledAlone(shared[2:]), shared.untyped_storage(), views[0])
    process = multiprocessing.get_context(sys.argv[1]).Process(target=check, args=sent)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert shared.tolist() == [0, 1, 2, 99] and seen.tolist() == [0, 1, 2, 3, 4]
    print("well")
"""


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_arguments_of_processes_that_inherit_nothing(way, tmp_path):
    """Copies live until the process has them, and memory that is sent twice arrives as one."""
    program = tmp_path / "program.py"
    program.write_text(WITH_ARGUMENTS)
    done = subprocess.run([sys.executable, program, way], capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("well\n", "")


def test_descriptors_are_closed_with_the_process():
    pickler = fb.multiprocessing.reducer.ForkingPickler
    multiprocessing.resource_tracker.ensure_running()
    before = set(Path("/proc/self/fd").iterdir())
    shared, seen = fb.arange(4).share_memory_(), fb.arange(5)
    arguments = [shared, shared[1:], seen, seen[1:], bytes(pickler.dumps([shared, seen]))]
    process = multiprocessing.get_context("spawn").Process(target=len, args=(arguments,), daemon=True)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    process.close()
    del process, shared, seen, arguments
    multiprocessing.resource_sharer.stop(timeout=60)
    gc.collect()
    assert set(Path("/proc/self/fd").iterdir()) <= before


def test_lazy_views_are_sent_as_they_look():
    fb.multiprocessing.get_sharing_strategy()  # importing it is what makes tensors sent by their memory
    z = fb.tensor([1 + 2j, 3 - 1j])
    shared = fb.tensor([1 + 2j, 3 - 1j]).share_memory_()
    sent = [z.conj(), z.conj().imag, shared.conj(), shared.conj().imag, fb.tensor([1j, 2]).conj()]
    pickled = bytes(multiprocessing.reduction.ForkingPickler.dumps(sent, 5))
    assert [x.tolist() for x in pickle.loads(pickled)] == [x.tolist() for x in sent]


def test_as_in_pytorch():
    for torch in (fb, pytorch()):
        x, leaf = torch.arange(3.0), torch.nn.Parameter(torch.ones(2))
        storage = torch.UntypedStorage(4)
        assert not any(t.is_shared() for t in (x, leaf, storage))
        assert x.share_memory_() is x
        assert x.share_memory_().tolist() == [0, 1, 2]
        assert leaf.share_memory_() is leaf
        assert leaf.is_leaf
        assert leaf.requires_grad
        assert storage.share_memory_() is storage
        assert all(t.is_shared() for t in (x, x[1:], x.untyped_storage(), leaf, storage))
        assert not (x + 1).is_shared()
        mp = importlib.import_module(f"{torch.__name__}.multiprocessing")
        with pytest.raises(AssertionError, match="invalid sharing strategy"):
            mp.set_sharing_strategy("carrier pigeon")
        with pytest.raises(RuntimeError, match="graph|autograd"):
            mp.reducer.ForkingPickler.dumps(leaf * 2)


# --- swapped tensors -------------------------------------------------------------------------------


@scenario
def swapping(torch):
    """What swapping gives and refuses."""
    seen = []
    a, b = torch.nn.Parameter(torch.ones(2)), torch.zeros(3)
    reference = weakref.ref(a)
    seen.append(raised("weakref", torch.utils.swap_tensors, a, b))
    del reference
    a.note = 1
    torch.utils.swap_tensors(a, b)
    seen += [a, b, type(a).__name__, type(b).__name__, a.__dict__, b.__dict__, b.requires_grad]
    c, d = torch.ones(1, requires_grad=True), torch.zeros(1)
    result = c * 2
    torch.utils.swap_tensors(result, d)
    (d * 3).sum().backward()
    slots = type("Slots", (torch.Tensor,), {"__slots__": ("q",)})([1.0])
    seen += [c.grad, result, raised("different slots", torch.utils.swap_tensors, slots, d)]
    layer = torch.nn.Linear(2, 2)
    torch.utils.swap_tensors(layer.weight, torch.nn.Parameter(torch.zeros(1, 2)))
    return [*seen, layer.weight, [n for n, _ in layer.named_parameters()]]


test_swapping = scenario.test()


def test_swapped_objects_are_collected():
    held = []
    for _ in range(200):
        a, b = fb.nn.Parameter(fb.ones(1)), fb.ones(2)
        a.mark = {1}  # goes with the object that the cycle keeps
        held.append(weakref.ref(a.mark))
        b.cycle = [a, b]
        fb.utils.swap_tensors(a, b)
        del a, b
    gc.collect()
    assert not any(mark() for mark in held)
