"""Tensors that a worker reads from the memory of another one on the same machine, and those in the stream."""

import os
import struct
import time

import flambeau as fb
import pytest
from distributed.ranks import Job, run
from distributed.test_rpc_hostile import agent, friend, is_closed  # noqa: F401 (a fixture)
from flambeau.distributed.rpc import _direct_memory, _frames
from flambeau.distributed.rpc._direct_memory import DirectMemory
from flambeau.distributed.rpc._frames import IN_MEMORY, Kind, Message
from flambeau.distributed.rpc._tensor_table import describe

rpc = fb.distributed.rpc

LARGE = """
import flambeau.distributed.rpc as rpc, threading
from flambeau.distributed.rpc import _current, _direct_memory
if os.environ.get("STREAM"):
    _direct_memory._read_memory = None
def same(*x): return x
def total(x):
    time.sleep(0.05)
    return x.sum().item()
@rpc.functions.async_execution
def changed_afterwards(n):
    x, future = fw.full((1 << 16,), float(n)), fw.futures.Future()
    def end():
        time.sleep(0.01)
        future.set_result(x)
        x.fill_(-1)
    threading.Thread(target=end).start()
    return future
def connections():
    agent = _current.get("test")
    made = [p.connection for p in agent._peers.values() if p.connection is not None]
    return made + list(agent._incoming)
def state(): return [[c._memory.is_read, c._memory.waiting()] for c in connections()]
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
found = []
if rank == 0:
    rpc.rpc_sync("w1", same)
    end = time.monotonic() + 5
    while not os.environ.get("STREAM") and not connections()[0]._memory.is_read and time.monotonic() < end:
        time.sleep(0.01)
    x = fw.arange(1 << 18).reshape(512, 512).float()
    shapes = [x, x.t(), x[::2], x[:0], x.half(), x[3, 4], fw.nn.Parameter(x)]
    back = rpc.rpc_sync("w1", same, args=tuple(shapes))
    pairs = [(a, b) for a, b in zip(shapes, back) if a is not shapes[2]]  # which becomes contiguous
    found.append([fw.equal(a, b) and a.stride() == b.stride() for a, b in pairs])
    found.append(type(back[-1]).__name__)
    many = [fw.full((n % 7, 100), float(n)) for n in range(1500)]
    back = rpc.rpc_sync("w1", same, args=tuple(many))
    found.append(all(fw.equal(a, b) for a, b in zip(many, back)))
    futures = []
    for n in range(20):  # a call that has been started does not see later writes
        x.fill_(n)
        futures.append(rpc.rpc_async("w1", total, args=(x,)))
    x.fill_(-1)
    found.append([f.wait() / x.numel() for f in futures] == list(range(20)))
    futures = [rpc.rpc_async("w1", changed_afterwards, args=(n,)) for n in range(20)]
    found.append(all(f.wait().eq(n).all() for n, f in enumerate(futures)))
    held = rpc.remote("w1", same, args=(x,))
    x.zero_()
    found.append(held.to_here()[0].max().item())
    results = [None] * 8
    def work(n):
        y = fw.full((1 << 16,), float(n))
        results[n] = all(fw.equal(rpc.rpc_sync("w1", same, args=(y,))[0], y) for _ in range(20))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    found.append(results)
    time.sleep(0.1)
    found += [state(), rpc.rpc_sync("w1", state)]
put(found)
rpc.shutdown()
"""


@pytest.mark.parametrize("stream", ["", "1"])
def test_large_tensors_arrive_and_are_copies(stream):
    facts, kind, many, unchanged, answers, held, threads, *states = run(2, LARGE, STREAM=stream)[0]
    assert facts == [True] * 6 and kind == "Parameter" and many and unchanged and answers and held == -1
    assert threads == [True] * 8
    assert states == [[[not stream, []]] * 2] * 2  # both connections of both sides, and nothing is kept


def test_memory_is_read_only_after_its_proof():
    memory, other = DirectMemory(), DirectMemory()
    (process, address), proof = other.introduction()
    for wrong in ((process, address, b"x" * 32), (process, address, proof[:-1]), (process, 0, proof)):
        assert not memory.verify(*wrong)
    assert not memory.verify(process, 1 << 40, proof) and not memory.verify(-1, address, proof)
    assert not memory.verify(2**22 + 1, address, proof)
    with pytest.raises(OSError, match="its memory can't be read"):
        memory.fetch(struct.pack("<2Q", 1, address), [fb.empty(1)])
    assert memory.verify(process, address, proof)
    x, y, empty = fb.rand(100), fb.empty(100), fb.empty(0)
    ticket, section = other.keep([x, empty])
    assert memory.fetch(section, [y, empty]) == ticket and fb.equal(x, y)
    assert other.waiting() == [ticket] and not other.wait(ticket, 0)
    other.release(ticket)
    other.release(77)
    assert other.waiting() == [] and other.wait(ticket, 0)
    with pytest.raises(OSError, match="can't be read"):
        memory.fetch(struct.pack("<2Q", 1, 4096), [y])


def test_parts_of_reads_are_completed(monkeypatch):
    memory, other = DirectMemory(), DirectMemory()
    (process, address), proof = other.introduction()
    assert memory.verify(process, address, proof)
    read = _direct_memory._read

    def part(process, own, theirs, sizes):
        return read(process, own[:1], theirs[:1], [min(sizes[0], 7)])

    monkeypatch.setattr(_direct_memory, "_read", part)
    tensors = [fb.rand(n) for n in (5, 1, 9)]
    found = [fb.empty_like(t) for t in tensors]
    memory.fetch(other.keep(tensors)[1], found)
    assert all(fb.equal(a, b) for a, b in zip(tensors, found, strict=True))


def in_memory(addresses):
    entry, dense = describe(fb.ones(4))
    message = Message(Kind.CALL, 1, table=entry.pack(), body=b"no pickle", dense=[dense])
    return b"".join(bytes(p) for p in message.parts(struct.pack(f"<{len(addresses)}Q", *addresses)))


def told(link, message):
    link.sendall(b"".join(bytes(p) for p in message.parts()))


def test_hostile_addresses_close_their_connection(agent):  # noqa: F811
    link = friend(agent)
    link.sendall(in_memory([1, 4096]))  # without a proof
    assert is_closed(link)
    block = DirectMemory()
    place, proof = block.introduction()
    for numbers in ((os.getppid(), place[1]), (place[0], 4096), (1 << 62, 1 << 62), (-5, -5)):
        link = friend(agent)
        told(link, Message(Kind.MEMORY, numbers=numbers, body=proof))
        answer = link.recv(_frames._HEAD.size)
        assert _frames._HEAD.unpack(answer)[1] == Kind.MEMORY_TOO  # and not MEMORY_IS_READ
        link.close()
    link = friend(agent)
    told(link, Message(Kind.MEMORY, numbers=place, body=proof))
    assert _frames._HEAD.unpack(link.recv(_frames._HEAD.size))[1] == Kind.MEMORY_IS_READ
    link.sendall(in_memory([1, 4096]))  # an address where nothing is
    time.sleep(0.2)
    link.recv(1000)
    assert is_closed(link)
    assert rpc.rpc_sync("alone", max, args=(1, 2)) == 2


def test_flags_of_memory_without_a_reader_are_refused():
    data = memoryview(in_memory([1, 4096]))

    def read(view):
        nonlocal data
        view[:], data = data[: view.nbytes], data[view.nbytes :]

    with pytest.raises(_frames.Malformed, match="expected the bytes of tensors, got addresses"):
        _frames.receive(read)
    assert data.nbytes == 0 and IN_MEMORY


STOPPED = """
import signal
import flambeau.distributed.rpc as rpc
from flambeau.distributed.rpc import _current
def same(x): return x
def stop(): os.kill(os.getpid(), signal.SIGSTOP)
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
if rank == 0:
    x = fw.zeros(1 << 20)
    rpc.rpc_sync("w1", same, args=(x,))
    memory = _current.get("test").connection(1)._memory
    touch("started")
    end = time.monotonic() + 10
    while memory.waiting() and time.monotonic() < end:  # a stopped worker confirms no reads
        time.sleep(0.01)
    rpc.rpc_async("w1", stop)
    time.sleep(0.3)
    began = time.monotonic()
    error = raised(rpc.rpc_sync, "w1", same, args=(x,), timeout=0.4)
    future = rpc.rpc_async("w1", same, args=(x,), timeout=0.4)
    later = raised(future.wait)
    took, kept = time.monotonic() - began, len(memory.waiting())
    touch("kill")
    end = time.monotonic() + 10
    while memory.waiting() and time.monotonic() < end:
        time.sleep(0.01)
    put([error, later, took, kept, memory.waiting()])
    rpc.shutdown(graceful=False)
else:
    time.sleep(60)
"""


def test_a_worker_that_reads_no_tensors_ends_calls_by_their_time():
    job = Job(2, STOPPED)
    job.wait_for("kill")
    job.kill(1)
    error, later, took, kept, left = job.ends()[0].values
    assert error[0] == later[0] == "RuntimeError" and "timeout (400 ms)" in error[1]
    assert took < 3 and kept == 2 and left == []  # they are kept while the worker might still read them
