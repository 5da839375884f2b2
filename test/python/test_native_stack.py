"""Calls that alternate between C++ and Python without end: an error, however high Python's own limit is."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading
import flambeau as fb
sys.setrecursionlimit(10**6)

{setup}

def fails(where):
    try:
        endless()
    except RecursionError as error:
        print(where, error)

def plain():
    print("small", fb.ops.aten.add.Tensor(fb.ones(2), 1).tolist())

fails("main")
for size, target, args in ((1 << 20, fails, ("other",)), (1 << 17, plain, ())):
    threading.stack_size(size)
    other = threading.Thread(target=target, args=args)
    other.start()
    other.join()
print(fb.ones(2).sum().item())
"""

SETUPS = {
    "dispatch": """
class Endless(fb.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args)
x = fb.Tensor._make_wrapper_subclass(Endless, (2,))
endless = lambda: x + x
""",
    "question": """
class Endless(fb.Tensor):
    __torch_function__ = fb._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return args[0].size()
x = fb.Tensor._make_wrapper_subclass(Endless, (2,), dispatch_sizes_strides_policy="sizes")
endless = x.size
""",
    "function": """
class Endless(fb.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*args)
x = fb.ones(2).as_subclass(Endless)
endless = lambda: x + x
""",
    "kernel": """
endless_op = fb.library.custom_op("deep::endless", lambda x: endless_op(x), mutates_args=(),
                                  schema="(Tensor x) -> Tensor")
endless = lambda: endless_op(fb.ones(2))
""",
    "autograd.Function": """
class Endless(fb.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Endless.apply(x)
endless = lambda: Endless.apply(fb.ones(2))
""",
}


@pytest.mark.parametrize("way", SETUPS)
def test_the_stack_does_not_overflow(way: str):
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(setup=SETUPS[way])],
        env={"PYTHONPATH": str(root / "python"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *failures, small, last = done.stdout.splitlines()
    assert small.endswith("[2.0, 2.0]"), "a thread with a small stack can call operators"
    assert [line.split()[0] for line in failures] == ["main", "other"]
    assert all("maximum recursion depth exceeded" in line for line in failures)
    assert last == "2.0"


# Calls that touch the most stack, by a measurement of every operator in nine dtypes.
DEEP = """
import sys, threading
import flambeau as fb
from flambeau.nn import functional as F

fb.set_num_threads(1)
made = fb.Generator().manual_seed(0)
def numbers(*sizes, dtype=fb.float64):
    return fb.randint(-9, 9, sizes, generator=made).to(dtype)
a, b = numbers(64, 64), numbers(64, 64)
whole = numbers(4, 40, 40, dtype=fb.int64)
calls = {
    "strided sum": lambda: (numbers(3000, 3, dtype=fb.complex128).t() + 1).sum(1),
    "rows": lambda: numbers(300, 70, dtype=fb.bfloat16).t().float().sum(1),
    "columns": lambda: fb.aminmax(numbers(2000, 1100).t(), dim=1),
    "choice": lambda: fb.where(numbers(60, 60) > 0, 1.5, 2 + 1j),
    "cast": lambda: numbers(90, 90).t().to(fb.complex128),
    "four operands": lambda: fb.addcmul(numbers(70, 70).t(), a[:1, :1], numbers(70, 1), value=2),
    "products": lambda: fb.bmm(whole, whole),
    "small products": lambda: fb.bmm(numbers(9, 7, 7), numbers(9, 7, 7)),
    "product": lambda: a @ b,
    "convolution": lambda: F.conv2d(numbers(1, 2, 9, 9, dtype=fb.int64), numbers(3, 2, 3, 3, dtype=fb.int64)),
    "float convolution": lambda: F.conv2d(fb.ones(1, 2, 9, 9), fb.ones(3, 2, 3, 3)),
    "histogram": lambda: fb.histogramdd(numbers(50, 3), [4, 4, 4])[0],
    "cell": lambda: fb.rnn_tanh_cell(a, b, a, b),
    "solution": lambda: fb.linalg.solve(a + 99 * fb.eye(64, dtype=a.dtype), b),
    "values": lambda: fb.linalg.svdvals(a),
    "spectrum": lambda: fb.fft.fft2(a),
    "order": lambda: fb.sort(numbers(5000))[0],
    "igamma": lambda: fb.special.gammainc(fb.ones(999) * 3, fb.ones(999)),
    "places": lambda: fb.nonzero(numbers(50, 50)),
    "loss": lambda: F.multilabel_margin_loss(a, fb.zeros(64, 64, dtype=fb.int64)),
}
failed = []
def run():
    for name, call in calls.items():
        try:
            call()
        except BaseException as error:
            failed.append(f"{name}: {error!r}")
threading.stack_size(1 << 17)
other = threading.Thread(target=run)
other.start()
other.join()
print(failed)
"""


def test_small_threads_run_every_kind_of_kernel():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", DEEP],
        env={"PYTHONPATH": str(root / "python"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-2000:]
