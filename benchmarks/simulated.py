"""Compare predictions of flambeau.distributed.simulate with steps of real processes on this machine.

    PYTHONPATH=python:test python benchmarks/simulated.py --ranks 2 --output build/simulated.json

The processes measure the device (flop/s of matrix products with one thread, bandwidth of memory, time of a
small kernel) and the link (collectives of several sizes, latency and bandwidth by least squares), all at
once, as they run in a step. Then they run steps of a small decoder and print measured and predicted times.
Each time is the least of many rounds, of the slowest process. Nothing is fitted to the steps. A step takes
some milliseconds, so that other load on the machine leaves some rounds alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"layers": 2, "width": 128, "heads": 4, "hidden": 512, "vocabulary": 500, "sequence": 64}
SAMPLES = 4
KINDS = ("alone", "ddp", "fsdp", "tensor")


# --- measuring -----------------------------------------------------------------------------------------


class Clock:
    """Times a call in all processes at once."""

    def __init__(self, dist, rounds):
        self.dist, self.rounds = dist, rounds

    def least(self, call, rounds=None):
        import flambeau

        call()
        best = float("inf")
        for _ in range(rounds or self.rounds):
            self.dist.barrier()
            start = time.perf_counter()
            call()
            best = min(best, time.perf_counter() - start)
        slowest = flambeau.tensor([best], dtype=flambeau.float64)
        self.dist.all_reduce(slowest, op=self.dist.ReduceOp.MAX)
        return slowest.item()


def device_of(clock):
    """Return flop/s, bytes/s and seconds of a kernel, of each process while the others measure too."""
    import flambeau

    tokens, width, hidden = SAMPLES * SIZES["sequence"], SIZES["width"], SIZES["hidden"]
    a, b = flambeau.randn(tokens, width), flambeau.randn(width, hidden)
    grad = flambeau.randn(tokens, hidden)
    products = clock.least(lambda: (a @ b, grad @ b.T, a.T @ grad)) / 3  # those of a linear layer
    x, y = flambeau.randn(1 << 22), flambeau.randn(1 << 22)
    moving = clock.least(lambda: flambeau.add(x, y))
    small, matrix = flambeau.ones(1, 1, requires_grad=True), flambeau.ones(1, 1)

    def chain():
        z = small
        for _ in range(200):
            z = z @ matrix
        z.sum().backward()

    return {
        "flops": 2 * tokens * width * hidden / products,
        "bandwidth": 3 * 4 * x.numel() / moving,
        "overhead": clock.least(chain) / 400,
    }


def link_of(clock, dist, size):
    """Return latency and bandwidth of a ring that fit the times of collectives best."""
    import flambeau

    rows, times = [], []
    for power in range(8, 24, 3):
        whole = flambeau.ones(size * (1 << power) // size)
        part = flambeau.ones(whole.numel() // size)
        calls = {
            2: lambda whole=whole: dist.all_reduce(whole),
            1: lambda whole=whole, part=part: dist.all_gather_into_tensor(whole, part),
            -1: lambda whole=whole, part=part: dist.reduce_scatter_tensor(part, whole),
        }
        for passes, call in calls.items():
            steps = abs(passes) * (size - 1)
            rows.append((steps, steps / size * 4 * whole.numel()))
            times.append(clock.least(call))
    latency, slope = least_squares(rows, times)
    worst = max(abs(latency * a + slope * b - t) / t for (a, b), t in zip(rows, times, strict=True))
    return {"latency": latency, "bandwidth": 1 / slope, "worst error": worst}


def wait_of(dist, rounds):
    """Return the median time of a small all_reduce after a millisecond of computation.

    Beside other load, it is what the scheduler takes until the other process runs again.
    """
    import flambeau

    a, one, times = flambeau.randn(512, 512), flambeau.ones(1), []
    for _ in range(rounds):
        a @ a
        start = time.perf_counter()
        dist.all_reduce(one)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def least_squares(rows, times):
    """Solve a x + b y = t for x and y of at least 0, with errors relative to t."""
    scaled = [(a / t, b / t) for (a, b), t in zip(rows, times, strict=True)]
    aa, ab, bb = (sum(r[i] * r[j] for r in scaled) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (sum(r[i] for r in scaled) for i in (0, 1))
    det = aa * bb - ab * ab
    x, y = (a * bb - b * ab) / det, (b * aa - a * ab) / det
    return (x, y) if x >= 0 else (0.0, b / bb)


# --- steps ---------------------------------------------------------------------------------------------


def tokens():
    """Return the tokens of a step."""
    import flambeau

    count = SAMPLES * SIZES["sequence"]
    return flambeau.arange(count).view(SAMPLES, -1) % SIZES["vocabulary"]


def divided(kind, size):
    import flambeau
    from distributed.simulated_gpt import GPT, tensor_parallel
    from flambeau.distributed.fsdp import fully_shard

    model = GPT(**SIZES)
    if kind == "ddp":
        return flambeau.nn.parallel.DistributedDataParallel(model)
    if kind == "tensor":
        tensor_parallel(model, flambeau.distributed.init_device_mesh("cpu", (size,)))
    if kind == "fsdp":
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return model


def measured(kind, clock, size):
    import flambeau

    model, batch = divided(kind, size), tokens()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()

    return clock.least(step)


def predicted(kind, size, device, link, overlaps):
    from distributed.simulated_gpt import GPT, described
    from flambeau.distributed.simulate import Cluster, Device, Link, Plan, measure, simulate_step

    made = Device(
        flops={"float32": device["flops"]},
        memory=16e9,
        bandwidth=device["bandwidth"],
        overhead=device["overhead"],
        overlaps=overlaps,
    )
    ranks = 1 if kind == "alone" else size
    inside = Link(link["latency"], link["bandwidth"])
    cluster = Cluster(device=made, per_node=ranks, inside=inside, algorithms=("ring",))
    if kind == "tensor":
        model, plan = described(**SIZES), {"tensor": size}
    else:
        model, plan = measure(GPT(**SIZES), tokens(), units=["blocks.*"]), {}
    schedule = "fsdp" if kind == "fsdp" else "ddp"
    return simulate_step(
        model, cluster, Plan(schedule=schedule, micro_batch=SAMPLES, optimizer="sgd", **plan)
    ).step


def work(options):
    """Run in each process: measure, and print a table in the first one."""
    import flambeau
    import flambeau.distributed as dist

    dist.init_process_group()
    flambeau.set_num_threads(1)
    flambeau.manual_seed(0)
    size, clock = dist.get_world_size(), Clock(dist, options.rounds)
    device, link = device_of(clock), link_of(clock, dist, size)
    found = {"ranks": size, "device": device, "link": link, "load": os.getloadavg()[0], "steps": {}}
    found["wait"] = wait_of(dist, options.rounds)
    for kind in KINDS:
        real = measured(kind, clock, size)
        both = [predicted(kind, size, device, link, overlaps) for overlaps in (True, False)]
        found["steps"][kind] = {"measured": real, "beside": both[0], "in turn": both[1]}
    if dist.get_rank() == 0:
        show(found)
        if options.output:
            Path(options.output).write_text(json.dumps(found, indent=1))
    dist.destroy_process_group()


def show(found):
    device, link = found["device"], found["link"]
    print(f"{found['ranks']} processes, load {found['load']:.1f}")
    print(
        f"device: {device['flops'] / 1e9:.1f} Gflop/s, {device['bandwidth'] / 1e9:.1f} GB/s, "
        f"{device['overhead'] * 1e6:.2f} us per kernel"
    )
    print(
        f"link: {link['latency'] * 1e6:.1f} us, {link['bandwidth'] / 1e9:.2f} GB/s; "
        f"worst error of the fit {link['worst error']:.0%}"
    )
    print(f"a small all_reduce after a millisecond of computation: {found['wait'] * 1e3:.2f} ms, median")
    print(f"{'step':>8} {'measured':>12} {'beside':>10} {'ratio':>6} {'in turn':>10} {'ratio':>6}")
    for kind, times in found["steps"].items():
        real, beside, turn = times["measured"], times["beside"], times["in turn"]
        print(
            f"{kind:>8} {real * 1e3:>9.1f} ms {beside * 1e3:>7.1f} ms {beside / real:>6.2f} "
            f"{turn * 1e3:>7.1f} ms {turn / real:>6.2f}"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2, help="the number of processes")
    parser.add_argument("--rounds", type=int, default=300, help="how often each call is timed")
    parser.add_argument("--output", default="", help="file of the numbers as JSON")
    parser.add_argument("--layers", type=int, default=2, help="blocks of the decoder")
    parser.add_argument("--sequence", type=int, default=64, help="tokens of each of the four samples")
    options = parser.parse_args()
    SIZES.update(layers=options.layers, sequence=options.sequence)
    if "RANK" in os.environ:
        work(options)
        return
    command = [sys.executable, "-m", "flambeau.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(options.ranks), __file__, *sys.argv[1:]]
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "test"), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, check=False
    )
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
