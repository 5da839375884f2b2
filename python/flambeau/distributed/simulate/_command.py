"""The command line: ``python -m flambeau.distributed.simulate --model 7b --ranks 64 --schedule fsdp``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from flambeau.distributed.simulate._hardware import ALGORITHMS, PRESETS, preset
from flambeau.distributed.simulate._plan import OPTIMIZERS, SCHEDULES, Plan
from flambeau.distributed.simulate._result import Result
from flambeau.distributed.simulate._schedules import PIPELINES
from flambeau.distributed.simulate._simulation import simulate_step
from flambeau.distributed.simulate._transformer import KNOWN, transformer

# Options of the plan: name -> default, help.
_PLAN: dict[str, tuple[Any, str]] = {
    "schedule": ("fsdp", f"data parallelism: {', '.join(SCHEDULES)}"),
    "tensor": (1, "ranks that divide each layer"),
    "pipeline": (1, "stages of a pipeline"),
    "copies": (1, "copies of the parts under fsdp (HSDP)"),
    "micro-batch": (1, "samples of a micro-batch"),
    "micro-batches": (1, "micro-batches of a step"),
    "pipeline-schedule": ("1f1b", f"order of micro-batches: {', '.join(PIPELINES)}"),
    "chunks": (1, "parts of the model in each stage, for interleaved"),
    "bucket-cap-mb": (25.0, "MiB of a bucket under ddp"),
    "prefetch": (1, "groups that are gathered early under fsdp"),
    "optimizer": ("adamw", f"optimizer: {', '.join(OPTIMIZERS)}"),
}
_SWITCHES = {
    "recompute": "repeat forward in backward instead of keeping activations",
    "sequence-parallel": "divide norms along the sequence under tensor parallelism",
    "gradient-as-bucket-view": "gradients are views of the buckets under ddp",
}
_SIZES = ("layers", "width", "heads", "kv-heads", "hidden", "vocabulary", "sequence")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        "flambeau.distributed.simulate", description="Predicts time and memory of a training step."
    )
    made.add_argument("--model", default="7b", help=f"sizes of a transformer: {', '.join(KNOWN)}")
    for name in _SIZES:
        _add(made, name, type=int, default=None, help=f"replaces the {name} of the model")
    made.add_argument("--dtype", default="float32", help="dtype of parameters and optimizer states")
    _add(made, "compute-dtype", default="bfloat16", help="dtype of arithmetic")
    made.add_argument("--ranks", type=int, default=8, help="devices: up to 8, or a multiple of 8")
    made.add_argument("--device", default="h100", help=f"kind of the cluster: {', '.join(PRESETS)}")
    made.add_argument(
        "--algorithms",
        default=",".join(ALGORITHMS),
        help="algorithms that collectives may choose from, with commas",
    )
    for name, (default, text) in _PLAN.items():
        _add(made, name, type=type(default), default=default, help=text)
    for name, text in _SWITCHES.items():
        _add(made, name, action="store_true", help=text)
    for name, text in (("reshard-after-forward", "free gathered parameters after forward"),):
        _add(made, name, action=argparse.BooleanOptionalAction, default=None, help=text)
    _add(made, "reduce-dtype", default=None, help="dtype of reductions under fsdp")
    made.add_argument(
        "--slow", default=[], nargs="*", metavar="RANK:FACTOR", help="ranks whose computation is slower"
    )
    made.add_argument("--timeline", default=None, help="file of a picture (SVG)")
    made.add_argument("--trace", default=None, help="file of a trace for Perfetto (JSON)")
    return made


def _add(made: argparse.ArgumentParser, name: str, **options: Any) -> None:
    """Add an option that can be written with - and with _."""
    made.add_argument(*dict.fromkeys(["--" + name, "--" + name.replace("-", "_")]), **options)


def _slow(texts: Sequence[str]) -> dict[int, float]:
    found = {}
    for text in texts:
        rank, _, factor = text.partition(":")
        try:
            found[int(rank)] = float(factor)
        except ValueError:
            raise ValueError(f"simulate: expected RANK:FACTOR as --slow, got {text!r}") from None
    return found


def simulated(options: argparse.Namespace) -> Result:
    """Return the result of a command line. Raises: ValueError for options that do not fit."""
    given = vars(options)
    names = [*_PLAN, *_SWITCHES, "reshard-after-forward", "reduce-dtype"]
    plan = Plan(**{name.replace("-", "_"): given[name.replace("-", "_")] for name in names})
    sizes = {name.replace("-", "_"): given[name.replace("-", "_")] for name in _SIZES}
    model = transformer(
        options.model,
        dtype=options.dtype,
        compute_dtype=options.compute_dtype,
        **{name: size for name, size in sizes.items() if size is not None},
    )
    cluster = preset(options.device, options.ranks, tuple(options.algorithms.split(",")))
    return simulate_step(model, cluster, plan, slow=_slow(options.slow))


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: the words after the name of the module; None: those of this process.
    Returns: the status of the process: 1 for options that do not fit.
    """
    options = parser().parse_args(args)
    try:
        result = simulated(options)
        print(result)
        if options.timeline is not None:
            result.save_timeline(options.timeline)
        if options.trace is not None:
            result.save_trace(options.trace)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
