"""Hostile bytes on a worker's port, workers that die, secrets that differ, and children of a worker."""

import json
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import flambeau as fb
import pytest
from distributed.ranks import Job, environment, run
from flambeau.distributed.rpc import _current, _frames, _handshake, _listener, _tensor_table
from flambeau.distributed.rpc._frames import Kind, Message, receive
from flambeau.distributed.rpc._pool import Clock, Pool
from flambeau.distributed.rpc._tensor_table import Malformed, describe, read_table

rpc = fb.distributed.rpc


@pytest.fixture
def agent():
    """This process as the only worker."""
    options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0", rpc_timeout=5)
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    yield _current.get("test")
    rpc.shutdown(graceful=False)  # a test may have played a worker that died


def stranger(agent):
    link = socket.create_connection(("127.0.0.1", agent.listener.port), 5)
    hello = link.recv(_handshake.HELLO, socket.MSG_WAITALL)
    assert hello.startswith(_handshake.GREETING)
    return link, hello[len(_handshake.GREETING) :]


def is_closed(link, seconds=5.0):
    """Whether the other side closes the connection without a word."""
    link.settimeout(seconds)
    try:
        return link.recv(100) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


class Bomb:
    def __reduce__(self):
        return os.mkdir, (str(Path(BOMB)),)


BOMB = "/tmp/flambeau-rpc-bomb-that-must-not-exist"


def claim(secret, nonce, caller=0, to=0):
    own = _handshake.new_nonce()
    return struct.pack("<I", caller) + own + _handshake._mac(secret, b"caller", nonce, own, caller, to)


def test_bytes_of_strangers_close_their_connection_and_nothing_else(agent):
    before = threading.active_count()
    bomb = pickle.dumps(Bomb())
    head = _frames._HEAD.pack(b"fRPC", Kind.CALL, 0, 0, 1, -1, -1, 0, len(bomb)) + bomb
    wrong = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything, please\r\n\r\n" * 2,
        os.urandom(4096),
        b"\0" * _handshake.CLAIM,
        head * 3,
        struct.pack("<Q", 2**63) * 20,
    ]
    for data in wrong:
        link, _ = stranger(agent)
        link.sendall(data)
        assert is_closed(link)
    link, nonce = stranger(agent)
    link.sendall(claim(b"another secret, of another job", nonce) + head)
    assert is_closed(link)
    link, _ = stranger(agent)
    link.sendall(claim(agent._secret, b"n" * 32))  # an answer to another question
    assert is_closed(link)
    link, nonce = stranger(agent)
    link.sendall(claim(agent._secret, nonce, to=1))  # for another worker
    assert is_closed(link)
    assert not Path(BOMB).exists()
    assert rpc.rpc_sync("alone", max, args=(1, 2)) == 2
    assert agent.incoming_ranks() == set() and threading.active_count() <= before + 1


def test_an_answer_of_the_answerer_is_no_claim(agent):
    """A mirror that sends the worker's own words back knows nothing."""
    first, nonce = stranger(agent)
    second, other = stranger(agent)
    for link in (first, second):
        link.sendall(struct.pack("<I", 0) + other + nonce)
        assert is_closed(link)


def test_slow_strangers_block_nobody(agent, monkeypatch):
    links = [stranger(agent)[0] for _ in range(_listener.STRANGERS + 20)]
    for link in links:
        try:
            link.send(b"x")
        except ConnectionError:
            pass  # one of the oldest
    assert is_closed(links[0]) and not is_closed(links[-1], 0.05)
    began = time.monotonic()
    link, nonce = stranger(agent)
    link.sendall(claim(agent._secret, nonce))
    assert len(link.recv(32, socket.MSG_WAITALL)) == 32 and time.monotonic() - began < 2
    assert rpc.rpc_sync("alone", max, args=(1, 2)) == 2
    for each in [*links, link]:
        each.close()


def test_patience_ends(agent, monkeypatch):
    monkeypatch.setattr(_listener, "PATIENCE", 0.1)
    link, _ = stranger(agent)
    assert is_closed(link, 3)


def friend(agent):
    link, nonce = stranger(agent)
    link.sendall(claim(agent._secret, nonce))
    assert len(link.recv(32, socket.MSG_WAITALL)) == 32
    return link


def test_a_worker_that_sends_no_messages_is_cut_off(agent, monkeypatch):
    """Also one that knows the secret cannot make this worker allocate what a length says."""
    allocated = []
    monkeypatch.setattr(_frames, "allocate", lambda entry: allocated.append(entry))
    entry = _tensor_table._ENTRY
    large = entry.pack(7, 0, 1) + struct.pack("<qq", 1 << 60, 1)
    overlapping = entry.pack(7, 0, 2) + struct.pack("<4q", 1 << 20, 1 << 20, 0, 1)
    negative = entry.pack(7, 0, 1) + struct.pack("<qq", -5, 1)
    tables = [large, overlapping, negative, entry.pack(99, 0, 0), entry.pack(7, 0, 9), b"xx"]

    def head(table=b"", body=0, count=0, kind=1, magic=b"fRPC"):
        return _frames._HEAD.pack(magic, kind, 0, count, 1, -1, -1, len(table), body) + table

    wrong = [head(table) for table in tables]
    wrong += [head(body=1 << 62), head(count=65535), head(kind=77), head(magic=b"none"), os.urandom(200)]
    wrong += [_frames._HEAD.pack(b"fRPC", 1, 0, 0, 1, -1, -1, (1 << 32) - 1, 0)]
    for data in wrong:
        link = friend(agent)
        link.sendall(data)
        assert is_closed(link), data
    assert allocated == [] and rpc.rpc_sync("alone", max, args=(1, 2)) == 2


def test_half_a_message_runs_nothing(agent):
    message = Message(Kind.CALL, 1, body=pickle.dumps((os.mkdir, (BOMB,), {})))
    whole = b"".join(bytes(p) for p in message.parts())
    link = friend(agent)
    link.sendall(whole[:-1])
    link.close()
    time.sleep(0.05)
    assert not Path(BOMB).exists() and rpc.rpc_sync("alone", max, args=(1, 2)) == 2


def test_the_port_is_on_one_interface(agent):
    assert agent.listener.sockets()[0].getsockname()[0] == "127.0.0.1"


def test_the_environment_names_the_interface(monkeypatch):
    options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    assert _current.get("test").listener.sockets()[0].getsockname()[0] == "127.0.0.1"
    rpc.shutdown()
    monkeypatch.setenv("TP_SOCKET_IFNAME", "nothing7")
    with pytest.raises(
        RuntimeError, match="expected a network interface in TP_SOCKET_IFNAME, got 'nothing7'"
    ):
        rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)


def read_back(data):
    data = memoryview(data)

    def read(view):
        nonlocal data
        if len(data) < view.nbytes:
            raise EOFError
        view[:] = data[: view.nbytes]
        data = data[view.nbytes :]

    return receive(read), len(data)


@pytest.mark.parametrize("dtype", [getattr(fb, name) for name in _tensor_table._NAMES], ids=str)
def test_tensors_as_bytes(dtype):
    x = fb.arange(24).reshape(2, 3, 4).to(fb.float32).to(dtype)
    for y in (x, x.permute(2, 0, 1), x[1], x[:, 1:2], x[:, ::2], x[0, 0, 0], x[:0]):
        entry, dense = describe(y)
        message = Message(Kind.REPLY, 7, table=entry.pack(), body=b"body", dense=[dense])
        back, rest = read_back(b"".join(bytes(p) for p in message.parts()))
        assert rest == 0 and back.call == 7 and bytes(back.body) == b"body"
        assert back.dense[0].dtype == dtype and back.dense[0].shape == y.shape
        raw = [
            bytes(memoryview(t.contiguous().reshape(-1).view(fb.uint8)))
            for t in (back.dense[0], y)
            if t.numel()
        ]
        assert len(set(raw)) <= 1
    assert describe(x.permute(2, 0, 1))[0].strides == (1, 12, 4)


def test_tables_that_do_not_fit_are_refused():
    good = describe(fb.ones(2, 3))[0].pack()
    assert read_table(good * 2)[1].shape == (2, 3)
    for wrong in (good[:-1], good + b"\0", good[:4] + good[12:]):
        with pytest.raises(Malformed):
            read_table(wrong)


def test_a_pool_starts_no_more_threads_than_it_needs():
    pool, running, most, lock = Pool(3), 0, [], threading.Lock()

    def task():
        nonlocal running
        with lock:
            running += 1
            most.append(running)
        time.sleep(0.002)
        with lock:
            running -= 1

    for _ in range(60):
        pool.submit(task)
    pool.drain()
    assert len(most) == 60 and max(most) == 3
    # three that wait for a fourth
    done = threading.Event()

    def waits():
        with pool.waiting():
            done.wait(5)
        most.append("waited")

    for _ in range(3):
        pool.submit(waits)
    pool.submit(done.set)
    pool.drain()
    assert done.is_set()
    end = time.monotonic() + 5
    while most.count("waited") < 3 and time.monotonic() < end:
        time.sleep(0.005)
    assert most.count("waited") == 3
    pool.close()
    pool.submit(task)
    assert pool.load() == 0


def test_a_clock_forgets_calls_that_were_answered():
    waiting, rung = {1, 2, 5000}, []
    clock = Clock(waiting, lambda number, seconds: rung.append((number, seconds)))
    clock.at(time.monotonic() + 0.05, 1, 0.05)
    clock.at(time.monotonic() + 0.02, 2, 0.02)
    for number in range(3, 6000):
        clock.at(time.monotonic() + 60, number, 60)
        assert len(clock._alarms) <= 1024
    clock.at(time.monotonic() - 1, 3, 0)
    end = time.monotonic() + 5
    while len(rung) < 3 and time.monotonic() < end:
        time.sleep(0.005)
    assert sorted(rung) == [(1, 0.05), (2, 0.02), (3, 0)]
    clock.close()


DEATH = """
import threading
import flambeau.distributed.rpc as rpc
def hang():
    touch("hangs")
    time.sleep(60)
def same(x): return x
def make(x): return rpc.RRef(x)
def counts(): return list(agent().references.counts())
def agent():
    from flambeau.distributed.rpc import _current
    return _current.get("test")
def take(r):
    keep.append(r)
keep = []
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
if rank == 2:
    touch("ready")
    time.sleep(60)
mine = rpc.RRef(5)
rpc.rpc_sync("w2", take, args=(mine,))
theirs = rpc.rpc_sync("w2", make, args=(1,))
before = counts()
wait_for("ready")
future = rpc.rpc_async("w2", hang, timeout=0)
by_other = rpc.rpc_async("w0" if rank else "w1", rpc.rpc_sync, args=("w2", same, (1,)))
by_other.wait()
touch(f"waits{rank}")
error = raised(future.wait)
began = time.monotonic()
later = [raised(rpc.rpc_sync, "w2", same, args=(1,)), raised(theirs.to_here)]
late = time.monotonic() - began
after = counts()
alive = rpc.rpc_sync("w0" if rank else "w1", same, args=(3,))
touch(f"alive{rank}")
wait_for(f"alive{1 - rank}")
began = time.monotonic()
end = raised(rpc.shutdown)
put([error, later, late, before, after, alive, end, time.monotonic() - began,
     [t.name for t in threading.enumerate() if t.name.startswith("flambeau rpc")]])
"""


def test_the_death_of_a_worker_is_an_error_at_once():
    job = Job(3, DEATH)
    for name in ("hangs", "waits0", "waits1"):
        job.wait_for(name)
    began = time.monotonic()
    job.kill(2)
    for rank, ended in enumerate(job.ends()[:2]):
        assert ended.status == 0, ended.output
        error, later, late, before, after, alive, end, seconds, threads = ended.values
        assert error[0] == "RuntimeError" and "worker 'w2' (id 2)" in error[1]
        assert all(e[0] == "RuntimeError" and "'w2'" in e[1] for e in later) and late < 1
        assert before == [1, 0] and after == [0, 0] and alive == 3
        assert end[0] == "RuntimeError" and seconds < 10 and threads == [], rank
    assert time.monotonic() - began < 20


STOPPED = """
import signal
import flambeau.distributed.rpc as rpc
options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=0.5)
def stop(): os.kill(os.getpid(), signal.SIGSTOP)
def same(x): return x
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=options)
if rank == 0:
    touch("started")
    rpc.rpc_async("w1", stop)
    time.sleep(0.2)
    began = time.monotonic()
    errors = [raised(rpc.rpc_sync, "w1", same, args=(fw.zeros(n),)) for n in (1, 1 << 24)]
    took = time.monotonic() - began
    ends = raised(rpc.shutdown, timeout=0.3)
    put([errors, took, ends, time.monotonic() - began])
else:
    time.sleep(60)
"""


def test_time_outs_hold_for_a_worker_that_does_not_read():
    job = Job(2, STOPPED)
    try:
        job.processes[0].wait(40)
        values = json.loads(job.path("values-0").read_text())
    finally:
        job.kill(1)
        job.ends()
    errors, took, ends, whole = values
    assert [e[0] for e in errors] == ["RuntimeError"] * 2 and "timeout (500 ms)" in errors[0][1]
    assert took < 5 and ends[0] == "RuntimeError" and whole < 12


SECRETS = """
import flambeau.distributed.rpc as rpc
if rank in HAVE:
    os.environ["FLAMBEAU_RPC_SECRET"] = SECRET[rank]
put([raised(rpc.init_rpc, f"w{rank}", rank=rank, world_size=size)])
touch(f"done{rank}")
for other in range(size):
    wait_for(f"done{other}")
os._exit(0)
"""


def secrets(have, values):
    """What init_rpc raises in both workers, where some have a secret in the environment."""
    return SECRETS.replace("HAVE", str(have)).replace("SECRET[", f"{values}[")


def test_secrets_of_the_environment():
    good = "0123456789abcdef" * 2
    assert run(2, secrets([0, 1], [good, good])) == [[None], [None]]
    (first,), (second,) = run(2, secrets([0, 1], ["short", "short"]))
    assert first[0] == second[0] == "RuntimeError" and "at least 16 characters" in first[1]


OTHER_SECRET = """
import flambeau.distributed.rpc as rpc, threading
from flambeau.distributed import rendezvous as r
os.environ["FLAMBEAU_RPC_SECRET"] = "0123456789abcdef" * 2 if rank == 0 else WRONG
if rank == 1 and not WRONG:
    del os.environ["FLAMBEAU_RPC_SECRET"]
if rank == 0:
    threading.Thread(target=lambda: (wait_for("done"), put(0), os._exit(0)), daemon=True).start()
    rpc.init_rpc("w0", rank=0, world_size=2)
else:
    put(raised(rpc.init_rpc, "w1", rank=1, world_size=2))
    touch("done")
"""


@pytest.mark.parametrize("wrong", ["another secret of 16 and more", ""])
def test_a_worker_with_another_secret_or_none_is_refused(wrong):
    _, error = run(2, OTHER_SECRET.replace("WRONG", repr(wrong)))
    assert error[0] == "RuntimeError"
    assert ("expected a connection to w0" if wrong else "in the environment of all processes") in error[1]


LAUNCHED = """
import os
import flambeau.distributed.rpc as rpc
rank = int(os.environ["RANK"])
rpc.init_rpc(f"w{rank}")
found = rpc.rpc_sync(f"w{1 - rank}", max, args=(rank, 5))
# In one write, so that the lines of both processes stay whole.
os.write(1, f"secret {len(os.environ['FLAMBEAU_RPC_SECRET'])} {found}\\n".encode())
rpc.shutdown()
"""


def test_the_launcher_makes_a_secret(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(LAUNCHED)
    launcher = [sys.executable, "-m", "flambeau.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, str(script)], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.count("secret 64 5") == 2, done.stdout + done.stderr


def test_a_child_of_a_worker_holds_no_connections(agent):
    """If it did, nobody would notice the death of its parent."""
    held = rpc.RRef(1)
    link = friend(agent)
    while agent.incoming_ranks() != {0}:
        time.sleep(0.001)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mine = [c.socket.fileno() for c in agent._incoming]
            try:
                rpc.rpc_sync("alone", max, args=(1, 2))
            except RuntimeError as error:
                os.write(writing, f"{mine} {agent.listener.sockets()[0].fileno()} {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reading, 1000).decode()
    assert text.startswith("[-1] -1 rpc_sync: RPC has not been initialized")
    assert rpc.rpc_sync("alone", max, args=(1, 2)) == 2 and held.to_here() == 1
    link.close()


MANY_LIVES = """
import random
import flambeau.distributed.rpc as rpc
def somebody(): return f"w{random.randrange(size)}"
def nest(n): return 0 if n == 0 else 1 + rpc.rpc_sync(somebody(), nest, args=(n - 1,))
def leave_work(n):
    for _ in range(n):
        rpc.rpc_async(somebody(), nest, args=(2,))
kept = []
for life in range(6):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
    for i in range(10):
        rpc.rpc_async(somebody(), leave_work, args=(3,))
        r = rpc.remote(somebody(), str, args=(i,))
        rpc.rpc_async(somebody(), repr, args=(r,))
        kept.append(r)
    rpc.shutdown()
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
kept.append(rpc.rpc_async(f"w{1 - rank}", time.sleep, args=(30,)))
kept.append(rpc.remote(f"w{1 - rank}", time.sleep, args=(30,)))
touch(f"last{rank}")
wait_for(f"last{1 - rank}")
put("ends without shutdown")
"""


def test_work_that_nobody_waits_for_and_processes_that_just_end():
    began = time.monotonic()
    job = Job(2, MANY_LIVES)
    assert [(e.status, e.output, e.values) for e in job.ends()] == [(0, "", "ends without shutdown")] * 2
    assert time.monotonic() - began < 25
