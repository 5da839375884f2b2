"""Simulated steps against steps of real processes: collectives and bytes, never times."""

import functools
import json

import pytest
from distributed.ranks import run
from distributed.simulated_gpt import SIZES, described
from flambeau.distributed.simulate import Cluster, Device, Link, Plan, simulate_step

STEPS = """
from distributed.simulated_gpt import GPT, SIZES, nbytes, tensor_parallel, tokens
from flambeau.distributed.fsdp import MixedPrecisionPolicy, fully_shard

def divided(options):
    model, tensor, copies = GPT(**SIZES), options.get("tensor", 1), options.get("copies", 1)
    names = ("copies", "parts", "tensor")
    mesh = dist.init_device_mesh("cpu", (copies, size // tensor // copies, tensor), mesh_dim_names=names)
    if tensor > 1:
        tensor_parallel(model, mesh["tensor"])
    if options["schedule"] == "ddp":
        cap = options["bucket_cap_mb"]
        return fw.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=cap) if size > tensor else model
    made = {"mesh": mesh["copies", "parts"] if copies > 1 else mesh["parts"]}
    if "compute_dtype" in options:
        dtypes = [getattr(fw, options[name]) for name in ("compute_dtype", "reduce_dtype")]
        made["mp_policy"] = MixedPrecisionPolicy(*dtypes)
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=options.get("reshard_after_forward"), **made)
    return fully_shard(model, **made)

def optimizer_of(model, options):
    name = options.get("optimizer", "adamw")
    if name == "adamw":
        return fw.optim.AdamW(model.parameters(), lr=0.01)
    return fw.optim.SGD(model.parameters(), lr=0.01, momentum=0.9 if name == "momentum" else 0.0)

def called():
    return dist._dump_flight_record(str(folder / f"record-{rank}"))

def steps(options):
    model, micros = divided(options), options.get("micro_batches", 1)
    optimizer = optimizer_of(model, options)
    for step in range(2):  # the second step prefetches in the order of the first
        before = len(called())
        optimizer.zero_grad()
        for part in tokens(micros * 2).chunk(micros):
            model(part).backward()
        optimizer.step()
    sizes = {"float32": 4, "bfloat16": 2}
    found = [
        (e["name"], fw.Size(e["shapes"][0]).numel() * sizes[e["dtypes"][0]]) for e in called()[before:]
    ]
    states = [t for state in optimizer.state.values() for t in state.values() if isinstance(t, fw.Tensor)]
    gradients = [p.grad for p in model.parameters()]
    kinds = {"parameters": model.parameters(), "gradients": gradients, "optimizer": states}
    return found, {kind: nbytes(tensors) for kind, tensors in kinds.items()}

dist.init_process_group("gloo")
put([steps(options) for options in json.loads(os.environ["CASES"])])
"""

KINDS = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
}
CASES = [
    (2, {"schedule": "ddp", "bucket_cap_mb": 0.1}),
    (2, {"schedule": "ddp", "bucket_cap_mb": 25.0, "optimizer": "momentum"}),
    (2, {"schedule": "fsdp"}),
    (3, {"schedule": "fsdp", "optimizer": "sgd"}),
    (2, {"schedule": "fsdp", "micro_batches": 2, "reshard_after_forward": False}),
    (2, {"schedule": "fsdp", "compute_dtype": "bfloat16", "reduce_dtype": "float32"}),
    (2, {"schedule": "ddp", "tensor": 2, "bucket_cap_mb": 25.0}),
    (4, {"schedule": "fsdp", "tensor": 2}),
    (4, {"schedule": "fsdp", "copies": 2}),
]


@functools.cache
def real(ranks):
    """What each rank did in each case of this number of ranks."""
    cases = [options for size, options in CASES if size == ranks]
    return run(ranks, STEPS, CASES=json.dumps(cases), TORCH_FR_BUFFER_SIZE="20000"), cases


def simulated(ranks, options):
    given = dict(options)
    model = described(compute_dtype=given.pop("compute_dtype", None))
    fast = Device(flops={"float32": 1e9, "bfloat16": 1e9}, memory=1e12, bandwidth=1e12)
    cluster = Cluster(device=fast, per_node=ranks, inside=Link(1e-6, 1e9))
    return simulate_step(model, cluster, Plan(micro_batch=2, **given))


@pytest.mark.parametrize("ranks, options", CASES, ids=str)
def test_collectives_and_memory_are_those_of_real_processes(ranks, options):
    found, cases = real(ranks)
    result = simulated(ranks, options)
    expected = [
        (kind, nbytes / size if kind == "all_gather" else nbytes)
        for kind, nbytes, size in result.ranks[0].collectives()
    ]
    for rank, values in enumerate(found):
        collectives, memory = values[cases.index(options)]
        called = [(KINDS[name], nbytes) for name, nbytes in collectives]
        if {"tensor", "copies"} & set(options):
            called, expected = sorted(called), sorted(expected)  # along two dimensions, in any order
        assert called == expected
        assert memory == result.memory_of(rank)
    assert expected


def test_the_model_is_the_described_one():
    from distributed.simulated_gpt import GPT

    real = {name: tuple(p.shape) for name, p in GPT(**SIZES).named_parameters()}
    shapes = [weight.shape for layer in described().layers for weight in layer.weights]
    assert sorted(shapes) == sorted(real.values())
