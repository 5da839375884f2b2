"""Calls that alternate between C++ and Python without end: an error, however high Python's own limit is."""

import subprocess
import sys
from pathlib import Path

import pytest

# The blocks of some kernels lie on the stack, up to 262 KB in one frame: the small thread has twice as much.
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
for size, target, args in ((1 << 20, fails, ("other",)), (1 << 19, plain, ())):
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
