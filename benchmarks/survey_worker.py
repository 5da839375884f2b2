"""One side of the survey: ``survey_worker.py flambeau`` or ``survey_worker.py torch``.

Reads pickled calls from standard input, each behind its length, and answers each with the seconds of one run,
the median of several batches, or null where the call is refused or slow.
"""

import importlib
import json
import os
import pickle
import struct
import sys
import time
import warnings

import numpy as np

BUDGET = 0.012  # seconds for one answer
SLOW = 0.05  # a call that takes longer is no small one


def of_side(torch, value, dtype):
    """Arrays as tensors of the side, and names of dtypes as its dtypes."""
    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(np.array(value))
        return tensor.to(torch.bfloat16) if dtype == "bfloat16" and value.dtype == np.float32 else tensor
    if isinstance(value, tuple) and value[:1] == ("dtype",):
        return getattr(torch, value[1])
    if isinstance(value, list):
        return [of_side(torch, v, dtype) for v in value]
    return value


def function_of(torch, module, name):
    """The public function, or a call of the method."""
    owner = torch
    for part in filter(None, module.split(".")):
        owner = getattr(owner, part)
    if hasattr(owner, name):
        return getattr(owner, name)
    method = getattr(torch.Tensor, name)
    return lambda *args, input=None, **kwargs: method(*args, **kwargs)


def seconds(torch, module, name, dtype, positional, keywords):
    """The time of one run."""
    function = function_of(torch, module, name)
    args = [of_side(torch, v, dtype) for v in positional]
    kwargs = {k: of_side(torch, v, dtype) for k, v in keywords.items()}
    clock = time.perf_counter

    def run(count):
        start = clock()
        for _ in range(count):
            function(*args, **kwargs)
        return (clock() - start) / count

    if run(1) > SLOW:
        return None
    once = max(run(2), 1e-7)
    count = max(1, int(BUDGET / 5 / once))
    return sorted(run(count) for _ in range(5))[2]


def main():
    """Answer calls until standard input ends."""
    # What a library prints must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    torch = importlib.import_module(sys.argv[1])
    torch.set_num_threads(1)
    while size := sys.stdin.buffer.read(8):
        call = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", size)[0]))
        try:
            answer = seconds(torch, *call)
        except Exception:
            answer = None
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
