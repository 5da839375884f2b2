"""Forked processes, Ctrl-C during operators, and threads that compute while the process ends."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import flambeau as fb
import pytest
from workers import PACKAGE

# A test that waits longer than this has found a hang. None of the times is an expectation.
HANG = 120


def run_program(*lines, arguments=(), hang=HANG, **environment):
    """Run a program of its own; return its exit status, output and errors."""
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment},
    )
    try:
        out, errors = process.communicate(timeout=hang)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail("the program hangs")
    return process.returncode, out, errors


# --- fork ------------------------------------------------------------------------------------------

HEAD = (
    "import gc, multiprocessing, os, signal, sys, threading, time",
    "import flambeau as fb",
    "fb.set_num_threads(4)",
    "fb.manual_seed(0)",
    "big, a = fb.rand(3_000_000), fb.rand(400, 400)",
    "images, kernels = fb.rand(8, 16, 40, 40), fb.rand(16, 16, 3, 3)",
    "def work():",
    "    layer = fb.nn.Linear(400, 400)",
    "    layer(a).square().sum().backward()",
    "    draw = fb.rand(1_000_000).mean().item()",
    "    assert 0.4 < draw < 0.6",
    "    return [(big * 2 + 1).sum().item(), (a @ a).sum().item(), (a.double() @ a.double()).sum().item(),",
    "            fb.nn.functional.conv2d(images, kernels).sum().item(), big.sort()[0][7].item(),",
    "            fb.linalg.svdvals(a.double())[0].item(), fb.bmm(images[0], images[1]).sum().item(),",
    "            fb.fft.fft(big).abs().sum().item(), (a.bfloat16() @ a.bfloat16()).float().sum().item()]",
    "def same(x, y): return all(abs(p - q) <= 1e-4 * abs(q) for p, q in zip(x, y))",
    "def child():",
    "    signal.alarm(60)",
    "    os._exit(0 if same(work(), right) and fb.get_num_threads() == 4 else 3)",
    "def ends_well(pid):",
    "    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
    "    assert status == 0, f'the child ended with {status}'",
    "right = work()",
)

FORKS = {
    "once": ("pid = os.fork()", "pid or child()", "ends_well(pid)"),
    "grandchild": (
        "pid = os.fork()",
        "if pid == 0:",
        "    work()",
        "    grandchild = os.fork()",
        "    grandchild or child()",
        "    ends_well(grandchild)",
        "    child()",
        "ends_well(pid)",
    ),
    "many": (
        "pids = []",
        "for _ in range(6):",
        "    pid = os.fork()",
        "    pid or child()",
        "    pids.append(pid)",
        "for pid in pids: ends_well(pid)",
    ),
    "from a thread": (
        "def fork():",
        "    work()",
        "    pid = os.fork()",
        "    pid or child()",
        "    ends_well(pid)",
        "    done.append(1)",
        "done = []",
        "thread = threading.Thread(target=fork)",
        "thread.start()",
        "thread.join()",
        "assert done",
    ),
    "a thread in the child": (
        "pid = os.fork()",
        "if pid == 0:",
        "    thread = threading.Thread(target=lambda: results.append(work()))",
        "    results = []",
        "    thread.start()",
        "    thread.join()",
        "    assert same(results[0], right)",
        "    child()",
        "ends_well(pid)",
    ),
    "pool": (
        "with multiprocessing.get_context('fork').Pool(3) as pool:",
        "    assert all(same(r, right) for r in pool.starmap(work, [()] * 6))",
    ),
    "while other threads compute": (
        "stop = False",
        "def busy(what):",
        "    while not stop: what()",
        "whats = [lambda: big.exp().sort(), lambda: fb.fft.fft(big[:50_000]), lambda: fb.rand(2_000_000),",
        "         lambda: [fb.empty(300_000) for _ in range(50)]]",
        "threads = [threading.Thread(target=busy, args=(w,), daemon=True) for w in whats]",
        "for thread in threads: thread.start()",
        "for _ in range(4):",
        "    time.sleep(0.02)",
        "    pid = os.fork()",
        "    pid or child()",
        "    ends_well(pid)",
        "stop = True",
        "for thread in threads: thread.join()",
    ),
}


@pytest.mark.parametrize("way", FORKS)
def test_forked_processes_compute(way):
    status, _, errors = run_program(
        *HEAD, *FORKS[way], "assert same(work(), right), 'the parent goes on'", "print('end')"
    )
    assert (status, errors) == (0, "")


def test_a_new_thread_may_have_a_smaller_team():
    """OpenMP gives new threads OMP_NUM_THREADS, and the library of products waits for all of its jobs."""
    status, _, errors = run_program(
        *HEAD,
        "results = []",
        "thread = threading.Thread(target=lambda: results.append((a.double() @ a.double()).sum().item()))",
        "thread.start()",
        "thread.join()",
        "assert same(results, [(a.double() @ a.double()).sum().item()])",
        OMP_NUM_THREADS="1",
    )
    assert (status, errors) == (0, "")


def test_parent_and_child_draw_the_same_numbers():
    fb.manual_seed(5)
    fb.rand(3)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(fb.rand(4).tolist()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert json.loads(os.read(reading, 1000)) == fb.rand(4).tolist()
    os.close(reading)
    os.close(writing)


def test_a_signal_handler_may_fork_during_an_operator():
    status, out, errors = run_program(
        *HEAD,
        "def handler(*_):",
        "    pid = os.fork()",
        "    pid or child()",
        "    ends_well(pid)",
        "    print('child ended')",
        "signal.signal(signal.SIGUSR1, handler)",
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()",
        "x = fb.rand(20_000_000)",
        "for _ in range(3): x = x.lgamma().abs()",
        "assert same(work(), right)",
    )
    assert (status, out, errors) == (0, "child ended\n", "")


# --- Ctrl-C ----------------------------------------------------------------------------------------

# Each runs for many seconds, or for ever.
LONG = {
    "pointwise": "x = fb.rand(40_000_000).double()\nwhile True: fb.lgamma(x)",
    "one pointwise": "fb.special.zeta(fb.rand(60_000_000).double() + 1.5, fb.rand(60_000_000).double() + 1)",
    "in place": "x = fb.rand(60_000_000)\nwhile True: x.digamma_().abs_().add_(1)",
    "strided": "x = fb.rand(6000, 6000).t()\nwhile True: fb.special.i0e(x)",
    "cast": "x = fb.rand(100_000_000)\nwhile True: x.half().double()",
    "reduction": "x = fb.rand(100_000_000)\nwhile True: x.norm(3)",
    "reduction of rows": "x = fb.rand(10_000, 10_000)\nwhile True: x.logsumexp(0), x.var(1), x.sum((0, 1))",
    "sort": "x = fb.rand(60_000_000)\nwhile True: x.sort()",
    "sort of rows": "x = fb.rand(4000, 10_000)\nwhile True: x.sort(1), x.sort(0), x.median(1), x.topk(5, 1)",
    "unique": "x = fb.randint(1 << 40, (30_000_000,))\nwhile True: x.unique(return_inverse=True)",
    "cumsum": "x = fb.rand(100_000_000)\nwhile True: x.cumsum(0)",
    "matmul": "x = fb.rand(12_000, 12_000)\nx @ x",
    "float64": "x = fb.rand(8_000, 8_000).double()\nx @ x",
    "complex": "x = fb.rand(5_000, 5_000) * 1j\nx @ x",
    "integers": "x = fb.randint(9, (4_000, 4_000))\nx @ x",
    "bfloat16": "x = fb.rand(9_000, 9_000).bfloat16()\nwhile True: x @ x",
    "few rows": "x = fb.rand(300, 3_000_000)\nwhile True: x @ x.t()",
    "bmm": "x = fb.rand(600, 1024, 1024)\nwhile True: x @ x",
    "convolution": "x, w = fb.rand(64, 64, 224, 224), fb.rand(64, 64, 3, 3)\nwhile True: fb.conv2d(x, w)",
    "convolution of doubles": "x, w = fb.rand(32, 64, 224, 224).double(), fb.rand(64, 64, 3, 3).double()\n"
    "while True: fb.conv2d(x, w)",
    "cdist": "x = fb.rand(20_000, 300)\nfb.cdist(x, x, p=1.5)",
    "batches of matrices": "x = fb.rand(4000, 120, 120).double()\nfb.linalg.svd(x)",
    "random": "while True: fb.randn(200_000_000)",
    "multinomial": "x = fb.rand(20_000, 2_000)\nwhile True: fb.multinomial(x, 500)",
    "pool": "x = fb.rand(64, 64, 256, 256)\nwhile True: fb.nn.functional.avg_pool2d(x, 15, 1)",
    "softmax": "x = fb.rand(10_000, 10_000)\nwhile True: x.softmax(0), x.softmax(1)",
    "index": "x, i = fb.rand(50_000_000), fb.randint(50_000_000, (50_000_000,))\n"
    "while True: x[i], x.scatter_add_(0, i, x)",
    "lstm": "layer = fb.nn.LSTM(256, 256)\nlayer(fb.rand(40_000, 8, 256))",
    "long graph": "y = x = fb.rand(100, requires_grad=True)\nfor _ in range(1_000_000): y = y * 1\n"
    "print('now', flush=True)\ny.sum().backward()\nwhile True: fb.rand(9)",
    "heavy graph": "y = x = fb.rand(5_000_000, requires_grad=True)\n"
    "for _ in range(9): y = y.lgamma().abs()\n"
    "print('now', flush=True)\nwhile True: y.sum().backward(retain_graph=True)",
    "stft": "x = fb.rand(20_000_000)\nwhile True: fb.stft(x, 2048, 16, return_complex=True)",
    "einsum": "x = fb.rand(300, 300, 300)\nfb.einsum('abc,dbc,aef->def', x, x, x)",
    "item": "x = fb.rand(5_000_000)\nwhile True: x.sum().item()",
    "list": "x = fb.rand(1000, 1000)\nwhile True: fb.tensor(x.tolist())",
}

INTERRUPTED = """
import os, signal, sys, threading, time
import flambeau as fb
sent = []
def interrupt():
    time.sleep(float(sys.argv[1]))
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
{body}
except KeyboardInterrupt:
    print('answered after', time.monotonic() - sent[0])
    x = fb.rand(1_000_000)
    assert abs((x @ x).item() / x.square().sum().item() - 1) < 1e-3, 'it goes on'
    layer = fb.nn.Linear(100, 100)
    layer(fb.ones(100, 100)).sum().backward()
    sys.exit(0)
sys.exit(5)
"""


def interrupted(name, delay=1.0):
    """What a program said that was interrupted in a long operator."""
    body = "\n".join(f"    {line}" for line in LONG[name].split("\n"))
    code, out, errors = run_program(INTERRUPTED.format(body=body), arguments=[str(delay)])
    assert (code, errors) == (0, "")
    return out


# The others are a program's work: `python test/python/test_processes.py` measures all.
TESTED = (
    "one pointwise",
    "reduction",
    "sort",
    "matmul",
    "convolution",
    "cdist",
    "batches of matrices",
    "heavy graph",
)


@pytest.mark.parametrize("name", TESTED)
def test_ctrl_c_is_answered(name):
    assert "answered" in interrupted(name)


def test_a_handler_that_does_not_raise_lets_the_operator_finish():
    calls = []
    previous = signal.signal(signal.SIGUSR1, lambda *_: calls.append(fb.ones(3).sum().item()))
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        x = fb.full((4_000_000,), 0.5, dtype=fb.float64)
        expected = fb.special.zeta(x[:1] + 1, x[:1]).item()
        timer.start()
        while not calls:
            result = fb.special.zeta(x + 1, x)
            assert result.eq(expected).all()
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, previous)
    assert calls == [3.0]


def test_the_handler_sees_the_switches_of_python_code():
    seen = []

    def handler(*_):
        x = fb.ones(2, requires_grad=True)
        (x * 3).sum().backward()
        seen.append((x.grad.tolist(), fb.is_grad_enabled()))

    previous = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        y = fb.rand(3_000_000, requires_grad=True).lgamma().abs()
        timer.start()
        while not seen:
            y.sum().backward(retain_graph=True)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, previous)
    assert seen == [([3, 3], True)]


def test_operators_of_other_threads_are_not_interrupted():
    status, out, errors = run_program(
        "import os, signal, threading, time",
        "import flambeau as fb",
        "x = fb.full((8_000_000,), 0.5, dtype=fb.float64)",
        "results = []",
        "def work():",
        "    for _ in range(3): results.append(fb.special.zeta(x + 1, x))",
        "thread = threading.Thread(target=work)",
        "thread.start()",
        "for _ in range(4):",
        "    try:",
        "        os.kill(os.getpid(), signal.SIGINT)",
        "        time.sleep(0.1)",
        "        print('missed')",
        "    except KeyboardInterrupt: pass",
        "thread.join()",
        "assert len(results) == 3",
        "assert all(r.eq(r[0]).all() for r in results)",
    )
    assert (status, out, errors) == (0, "", "")


def test_an_interrupted_backward_can_be_repeated():
    status, _, errors = run_program(
        "import os, signal, threading",
        "import flambeau as fb",
        "x = fb.rand(4_000_000, requires_grad=True)",
        "y = x",
        "for _ in range(8): y = y.lgamma().abs() + 1",
        "y = y.sum()",
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()",
        "try:",
        "    while True:",
        "        x.grad = None",
        "        y.backward(retain_graph=True)",
        "except KeyboardInterrupt: pass",
        "x.grad = None",
        "y.backward(retain_graph=True)",
        "first, x.grad = x.grad, None",
        "y.backward()",
        "assert first.equal(x.grad)",
    )
    assert (status, errors) == (0, "")


def test_pieces_give_what_the_whole_gives():
    """Long loops run in pieces, whose length depends on time: results must not."""
    x = fb.rand(30_000_001).double()
    for f in (fb.exp, fb.digamma, fb.sin):
        whole = f(x)
        parts = fb.cat([f(x[:10_000_000]), f(x[10_000_000:])])
        assert whole.equal(f(x))
        assert whole.equal(parts)
    rows = fb.rand(3000, 3001)
    for f in (fb.softmax, fb.cumsum, fb.sum, fb.logsumexp):
        for dim in (0, 1):
            assert f(rows, dim).equal(f(rows, dim))


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.complex64])
def test_products_in_panels(dtype):
    def product(a, b):
        out = fb.empty(a.size(0), b.size(1), dtype=dtype)
        return fb.mm(a, b, out=out)

    a, b = fb.rand(700, 40_000).to(dtype), fb.rand(40_000, 700).to(dtype)
    few = product(a, b)  # of few rows and many terms
    again = sum(product(a[:, i : i + 5000], b[i : i + 5000]) for i in range(0, 40_000, 5000))
    assert fb.allclose(few, again, rtol=1e-4)
    stack = fb.rand(3, 40, 50).to(dtype)
    assert fb.allclose((stack @ stack.mT)[1], stack[1] @ stack[1].t(), rtol=1e-4)


# --- the end of the process ------------------------------------------------------------------------

AT_WORK = {
    "pointwise": "fb.lgamma(big)",
    "small": "fb.ones(3) + 1",
    "product": "a @ a",
    "float64": "a.double() @ a.double()",
    "sort": "big.sort()",
    "svd": "fb.linalg.svd(a.double())",
    "backward": "(x.exp() * x).sum().backward()",
    "hooks": "h = x * 1; h.register_hook(lambda g: g * 2); h.sum().backward()",
    "function": "F.apply(x).sum().backward()",
    "convolution": "fb.nn.functional.conv2d(images, kernels)",
    "memory": "[fb.empty(300_000) for _ in range(50)]",
    "random": "fb.rand(2_000_000)",
}


@pytest.mark.parametrize("how", ["end", "exit", "exception"])
@pytest.mark.parametrize("what", AT_WORK)
def test_daemon_threads_at_exit(what, how):
    status, _, errors = run_program(
        "import sys, threading, time",
        "import flambeau as fb",
        "fb.set_num_threads(3)",
        "big, a = fb.rand(3_000_000), fb.rand(1500, 1500)",
        "images, kernels = fb.rand(8, 16, 40, 40), fb.rand(16, 16, 3, 3)",
        "class F(fb.autograd.Function):",
        "    @staticmethod",
        "    def forward(ctx, x): return x * 2",
        "    @staticmethod",
        "    def backward(ctx, g): return g * 2",
        "def work():",
        "    x = fb.rand(100_000, requires_grad=True)",
        "    while True:",
        f"        {AT_WORK[what]}",
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()",
        "time.sleep(0.3)",
        {"end": "", "exit": "sys.exit(0)", "exception": "raise SystemExit(0)"}[how],
    )
    assert (status, errors) == (0, "")


def test_exit_status_survives_threads_at_work():
    status, _, _ = run_program(
        "import sys, threading, time",
        "import flambeau as fb",
        "a = fb.rand(3000, 3000).double()",
        "threading.Thread(target=lambda: fb.linalg.svd(a), daemon=True).start()",
        "time.sleep(0.5)",
        "sys.exit(7)",
    )
    assert status == 7


def test_operators_in_functions_that_run_at_exit():
    status, out, errors = run_program(
        "import atexit, threading",
        "import flambeau as fb",
        "x = fb.rand(1_000_000, requires_grad=True)",
        "class Last:",
        "    def __del__(self): print((fb.ones(30_000) * 2).sum().item())",
        "atexit.register(lambda: (x * 2).sum().backward())",
        "atexit.register(lambda: print(x.detach().gt(-1).all().item()))",
        "last = Last()",
    )
    assert (status, out, errors) == (0, "True\n60000.0\n", "")


def test_multiprocessing_after_training():
    layer = fb.nn.Linear(300, 300)
    layer(fb.ones(300, 300)).sum().backward()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sums = pool.map_async(whole_sum, [300_000, 400_000]).get(HANG)
    assert sums == [300_000, 400_000]


def whole_sum(n):
    return int(fb.ones(n).sum().item())


if __name__ == "__main__":
    for name in sys.argv[1:] or LONG:
        start = time.monotonic()
        try:
            said = interrupted(name, 2.0)
        except BaseException as error:
            said = repr(error)[:300]
        print(
            f"{name:24} {said.strip().splitlines()[-1]}  ({time.monotonic() - start:.1f} s in all)",
            flush=True,
        )
