"""Prints, as JSON, the dtypes of results within an autocast region of CUDA that differ from PyTorch's.

Argument: the folder in which the sealed device is built, which casts as the entries say for CUDA. PyTorch
computes dtypes alone, on fake CUDA tensors, so that no GPU is needed.
"""

import itertools
import json
import logging
import sys
import warnings
from pathlib import Path

import flambeau
import torch
from flambeau.utils import cpp_extension

sys.path.insert(0, str(Path(__file__).parents[1]))
from parity.checks import seed_all
from parity.database import op_db
from parity.twin import to_flambeau, twin
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

DEVICE = "sealed"
DTYPES = ("float32", "float16", "float64")


def dtypes_of(out):
    """The dtypes of tensors in any tuples and lists."""
    if isinstance(out, tuple | list):
        return [name for item in out for name in dtypes_of(item)]
    return [str(out.dtype).partition(".")[2]] if hasattr(out, "is_floating_point") else []


def as_cuda(value):
    """A tensor of the same geometry on a GPU that is not there."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")


def as_sealed(value):
    return value.to(DEVICE) if isinstance(value, flambeau.Tensor) else value


def without_device(values):
    return {key: value for key, value in values.items() if key != "device"}


def expected(op, args, kwargs):
    """The dtypes of PyTorch, in float16 regions."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        args, kwargs = tree_map(as_cuda, (args, kwargs))
        op(*args, **kwargs)  # refused without autocast: nothing to compare
        torch.set_autocast_enabled("cuda", True)
        torch.autocast_increment_nesting()
        try:
            return dtypes_of(op(*args, **kwargs))
        finally:
            torch.autocast_decrement_nesting()
            torch.clear_autocast_cache()
            torch.set_autocast_enabled("cuda", False)


def found(function, args, kwargs):
    seed_all()
    args, kwargs = tree_map(as_sealed, (args, kwargs))
    with flambeau.autocast(DEVICE, dtype=flambeau.float16):
        return dtypes_of(function(*args, **kwargs))


def samples(op, dtype):
    try:
        drawn = list(itertools.islice(op.sample_inputs("cpu", getattr(torch, dtype)), 2))
    except Exception:  # PyTorch makes no samples of this dtype
        return
    for sample in drawn:
        args, kwargs = (sample.input, *sample.args), without_device(sample.kwargs)
        try:
            theirs = expected(op.op, args, kwargs)
            function, ours, options = twin(op.op), to_flambeau(args), to_flambeau(kwargs)
            function(*ours, **options)
        except Exception:  # refused by one of them without autocast, needs values, or not dense
            continue
        yield theirs, function, ours, options


def recurrent(name):
    """The dtypes that a recurrent layer gives of float32."""
    layer = getattr(flambeau.nn, name)(3, 4).to(DEVICE)
    x = flambeau.ones(2, 3) if name.endswith("Cell") else flambeau.ones(5, 2, 3)
    with flambeau.autocast(DEVICE, dtype=flambeau.float16):
        return dtypes_of(layer(x.to(DEVICE)))


def main():
    native = cpp_extension.load(
        "sealed_device", [Path(__file__).with_name("sealed_device.cpp")], build_directory=sys.argv[1]
    )
    flambeau.utils.rename_privateuse1_backend(DEVICE)
    native.register()
    native.get_amp_supported_dtype = lambda: [flambeau.float16, flambeau.bfloat16]
    flambeau._register_device_module(DEVICE, native)
    flambeau.utils.set_privateuse1_fallback("silent")
    compared, wrong = set(), {}
    for op, dtype in itertools.product(op_db, DTYPES):
        for theirs, function, args, kwargs in samples(op, dtype):
            try:
                mine = found(function, args, kwargs)
            except Exception as error:
                mine = [f"{type(error).__name__}: {error}"[:150]]
            compared.add(op.name)
            if theirs != mine:
                wrong.setdefault(f"{op.name} {op.variant_test_name} {dtype}", [theirs, mine])
    layers = {name: recurrent(name) for name in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")}
    print(json.dumps({"compared": len(compared), "wrong": wrong, "recurrent": layers}))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable()  # fake tensors log what they refuse
        main()
