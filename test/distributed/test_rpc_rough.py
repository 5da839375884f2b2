"""Odd exceptions, circles, thousands of calls, forks, signals, and a shutdown while calls are open."""

import time

from distributed.ranks import Job, run
from distributed.test_rpc_hostile import agent, friend  # noqa: F401 (a fixture)
from flambeau.distributed.rpc._frames import Kind, Message

START = """
import flambeau.distributed.rpc as rpc, signal, threading
options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=THREADS, rpc_timeout=20)

def raised(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except BaseException as error:
        return [type(error).__name__, str(error.args)]
    return None

class Silent(Exception):
    def __repr__(self): raise ValueError("no words")
    def __str__(self): raise ValueError("no words")
class Unpicklable(Exception):
    def __init__(self, lock): super().__init__(lock)
class Stubborn:
    def __reduce__(self): raise MemoryError("stays here")
class Trap:
    def __reduce__(self): return spring, ()
def spring(): raise LookupError("the trap")
def same(x): return x
def fail(how):
    if how == "silent": raise Silent()
    if how == "unpicklable": raise Unpicklable(threading.Lock())
    if how == "exit": raise SystemExit(3)
    if how == "interrupt": raise KeyboardInterrupt
    if how == "stubborn": return Stubborn()
    if how == "trap": return Trap()
    if how == "lambda": return lambda: 0
    if how == "group": raise ExceptionGroup("several", [ValueError(1), KeyError(2)])
    if how == "chain":
        try: 1 / 0
        except ZeroDivisionError as error: raise Silent() from error
    if how == "recursion": return fail(how)
    if how == "deep":
        x = []
        for _ in range(100000): x = [x]
        return x
    raise BaseException(how)
def other(): return f"w{1 - rank}"
def circle(n): return rank + (10 * rpc.rpc_sync(other(), circle, args=(n - 1,)) if n else 0)
def fib(n):
    if n < 2: return n
    a, b = (rpc.rpc_async(other(), fib, args=(n - k,)) for k in (1, 2))
    return a.wait() + b.wait()
gate = fw.futures.Future()
@rpc.functions.async_execution
def at_the_gate(x): return gate.then(lambda _: x)
def open_gate(): gate.set_result(None)
def wait_here(): event.wait(15)
event = threading.Event()
def quick(): event.set()
def forks():
    child = os.fork()
    if child == 0:
        try:
            rpc.rpc_sync(other(), same, args=(1,))
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=options)
found = []
"""

PROGRAM = """
if rank == 0:
    began = time.monotonic()
    for how in KINDS:
        error = raised(rpc.rpc_sync, "w1", fail, args=(how,))
        by_reference = raised(rpc.remote("w1", fail, args=(how,)).to_here)
        found.append([error, by_reference and by_reference[0]])
    found.append(raised(rpc.rpc_sync, "w1", same, args=(Trap(),)))
    found.append(raised(rpc.rpc_sync, "w1", same, args=(Stubborn(),)))
    found.append(time.monotonic() - began)
    found.append(circle(40) > 0)
    found.append(rpc.rpc_sync("w1", fib, args=(9,)))
    began = time.monotonic()
    futures = [rpc.rpc_async("w1", at_the_gate, args=(n,)) for n in range(3000)]
    rpc.rpc_sync("w1", open_gate)
    found.append(fw.futures.wait_all(futures) == list(range(3000)))
    futures = [rpc.rpc_async("w1", same, args=(fw.full((n % 50,), float(n)),)) for n in range(3000)]
    found.append(all(f.wait().numel() == n % 50 for n, f in enumerate(futures)))
    if THREADS > 1:  # the first call runs in the thread that reads, and another one must read the second
        blocked = rpc.rpc_async("w1", wait_here)
        rpc.rpc_async("w1", quick)
        blocked.wait()
    found.append(time.monotonic() - began)
    found.append([rpc.rpc_sync("w1", forks), rpc.rpc_sync("w1", same, args=(5,))])
    results = []
    def work(n):
        results.extend(rpc.rpc_sync("w1", same, args=((n, k),)) == (n, k) for k in range(50))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    found.append([len(results), all(results)])
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    found.append(raised(rpc.rpc_sync, "w1", time.sleep, args=(0.6,))[0])  # a signal ends the wait
    found.append(rpc.rpc_sync("w1", same, args=(6,)))
put(found)
rpc.shutdown()
"""

KINDS = {
    "silent": "Silent",
    "unpicklable": "Unpicklable",
    "exit": "RuntimeError",
    "interrupt": "RuntimeError",
    "stubborn": "MemoryError",
    "trap": "LookupError",
    "lambda": ("PicklingError", "AttributeError"),
    "group": ("ExceptionGroup", "Exception", "RuntimeError"),
    "chain": "Silent",
    "recursion": "RecursionError",
    "deep": "RecursionError",
    "base": "RuntimeError",
}


def program(threads):
    return (START + PROGRAM).replace("THREADS", str(threads)).replace("KINDS", repr(list(KINDS)))


def check(values):
    errors, rest = values[: len(KINDS)], values[len(KINDS) :]
    for (how, expected), (error, by_reference) in zip(KINDS.items(), errors, strict=True):
        names = (expected,) if isinstance(expected, str) else expected
        assert error is not None and error[0] in (*names, "RuntimeError"), (how, error)
        assert by_reference is not None, how
        assert "timeout" not in error[1], (how, error)
    trap, stubborn, seconds, circle, fib, gate, many, took, fork, threads, interrupted, after = rest
    assert trap[0] == "LookupError" and stubborn[0] == "MemoryError" and seconds < 10
    assert circle and fib == 34 and gate and many and took < 15
    assert fork == [7, 5] and threads == [1000, True] and interrupted == "ZeroDivisionError" and after == 6


def test_one_thread_suffices_for_circles_and_odd_exceptions():
    check(run(2, program(1))[0])


def test_many_threads():
    check(run(2, program(16))[0])


OPEN = """
if rank == 0:
    slow = [rpc.rpc_async("w1", time.sleep, args=(0.3,)) for _ in range(40)]
    kept = [rpc.remote("w1", at_the_gate, args=(n,)) for n in range(10)]
    large = rpc.rpc_async("w1", same, args=(fw.zeros(1 << 20),))
    if GRACEFUL:
        rpc.rpc_sync("w1", open_gate)
began = time.monotonic()
rpc.shutdown(graceful=GRACEFUL)
took = time.monotonic() - began
if rank == 0:
    found = [f.done() for f in slow], [raised(f.wait) is None for f in slow + [large]]
put([took, found, [t.name for t in threading.enumerate() if t.name.startswith("flambeau rpc")]])
"""


def test_a_shutdown_waits_for_open_calls():
    first, second = run(2, START.replace("THREADS", "16") + OPEN.replace("GRACEFUL", "True"))
    took, (done, well), threads = first
    assert 0.2 < took < 10 and all(done) and all(well) and threads == second[2] == []


def test_a_shutdown_that_is_not_graceful_ends_open_calls():
    ended = Job(2, START.replace("THREADS", "2") + OPEN.replace("GRACEFUL", "False")).ends(30)
    took, (done, well), _ = ended[0].values
    assert took < 10 and all(done) and not all(well), ended[0].output


def test_an_answer_of_another_worker_is_not_taken(agent):  # noqa: F811
    message = Message(Kind.CALL)
    reply = agent._expect(5, message)
    link = friend(agent)  # rank 0
    answer = Message(Kind.REPLY, message.call)
    link.sendall(b"".join(bytes(p) for p in answer.parts()))
    time.sleep(0.2)
    assert not reply.done()
    link.close()
    agent._fail(message.call, RuntimeError("enough"))


HALVES = """
import socket
from flambeau.distributed.rpc import _current, _handshake
def same(x): return x
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
if rank == 0:
    agent = _current.get("test")
    whole = b"".join(bytes(p) for p in message.parts())
    links = []
    for size_of_part in (1, 30, len(whole) // 2, len(whole) - 1):
        link = socket.create_connection(agent._peers[1].address)
        _handshake.introduce(link, agent._secret, 0, 1, time.monotonic() + 5)
        link.sendall(whole[:size_of_part])
        links.append(link)
    began = time.monotonic()
    found = [rpc.rpc_sync("w1", same, args=(n,)) for n in range(50)]
    took = time.monotonic() - began
    links[0].sendall(whole[1:])  # slow, but whole: it is answered
    found.append(len(links[0].recv(40)) > 0)
    touch("sent")
    put([found == [*range(50), True], took])
    wait_for("ended")
else:
    wait_for("sent")
    began = time.monotonic()
rpc.shutdown(graceful=False)
if rank == 1:
    took = time.monotonic() - began
    touch("ended")
    put([took, [t.name for t in threading.enumerate() if t.name.startswith("flambeau rpc")]])
"""


def test_halves_of_messages_delay_neither_calls_nor_the_end():
    code = START.split("rpc.init_rpc")[0].replace("THREADS", "2")
    code += """
from flambeau.distributed.rpc._frames import Kind, Message
import pickle
message = Message(Kind.CALL, 1 << 40, body=pickle.dumps((max, (1, 2), {})))
"""
    (well, took), (end, threads) = run(2, code + HALVES)
    assert well and took < 5 and end < 5 and threads == []
