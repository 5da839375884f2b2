"""Starts the processes of a distributed program: ``python -m flambeau.distributed.run script.py``.

    python -m flambeau.distributed.run --standalone --nproc-per-node 2 script.py --its --arguments
    python -m flambeau.distributed.run --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d \
        --rdzv-endpoint node1:29400 --rdzv-id job1 script.py

Each process has RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and the other variables of env:// in its
environment. If a process fails, all are ended, and started again up to ``--max-restarts`` times
(docs/distributed.md).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.distributed._agent import Agent, Failed, Settings, Stopped, endpoint_of, new_run_id

__all__ = [
    "determine_local_world_size",
    "get_args_parser",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
]

# Option -> default and help; both spellings, with - and _, are accepted, and PET_<NAME> sets the default.
_OPTIONS: dict[str, tuple[Any, str]] = {
    "nnodes": ("1:1", "machines, or MIN:MAX"),
    "nproc-per-node": ("1", "processes on each machine; a number, or auto, cpu: one per core"),
    "rdzv-backend": ("static", "static: --node-rank and --master-addr; c10d: --rdzv-endpoint"),
    "rdzv-endpoint": ("", "host:port of the launchers' store"),
    "rdzv-id": ("none", "the name of the job"),
    "rdzv-conf": ("", "join_timeout=SECONDS,last_call_timeout=SECONDS"),
    "max-restarts": (0, "how often all processes are started again after a failure"),
    "monitor-interval": (0.1, "seconds between looks at the processes"),
    "start-method": ("spawn", "no effect: processes are started by exec"),
    "event-log-handler": ("null", "no effect"),
    "role": ("default", "what lines of --tee begin with"),
    "log-dir": (None, "the folder of files with output"),
    "redirects": ("0", "output to files alone: 0 none, 1 stdout, 2 stderr, 3 both, or rank:number,..."),
    "tee": ("0", "the same, to files and the console"),
    "local-ranks-filter": ("", "local ranks whose output is shown, with commas"),
    "node-rank": (0, "this machine's rank, with static rendezvous"),
    "master-addr": ("127.0.0.1", "the host of machine 0, with static rendezvous"),
    "master-port": (29500, "its port"),
    "local-addr": (None, "no effect"),
    "logs-specs": (None, "no effect"),
    "numa-binding": (None, "no effect"),
    "signals-to-handle": ("SIGTERM,SIGINT,SIGHUP,SIGQUIT", "signals that end the processes"),
}
_SHORT = {"redirects": "-r", "tee": "-t"}
_FLAGS = {
    "standalone": "one machine, on a free port",
    "no-python": "run the program itself instead of by Python",
    "run-path": "run the script in each process by runpy",
    "virtual-local-rank": "LOCAL_RANK is 0 in each process",
}


def get_args_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Returns: the parser.

    Example:
        >>> parser = flambeau.distributed.run.get_args_parser()
        >>> parser.parse_args(["--nproc-per-node", "2", "script.py"]).nproc_per_node
        '2'
    """
    parser = argparse.ArgumentParser("flambeau.distributed.run", description="Starts a distributed program.")
    for name, (default, text) in _OPTIONS.items():
        names = dict.fromkeys(["--" + name, "--" + name.replace("-", "_")])
        given = os.environ.get(f"PET_{name.upper().replace('-', '_')}", default)
        kind = type(default) if isinstance(default, int | float) else str
        short = [_SHORT[name]] if name in _SHORT else []
        value = given if given is None else kind(given)
        parser.add_argument(*short, *names, type=kind, default=value, help=text)
    for name, text in _FLAGS.items():
        names = dict.fromkeys(["--" + name, "--" + name.replace("-", "_")])
        parser.add_argument(*names, action="store_true", help=text)
    parser.add_argument(
        "-m", "--module", action="store_true", help="the program is a module, as python -m has it"
    )
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line.

    Args:
        args: the words after the name of the module; None: those of this process.
    Returns: the options.

    Example:
        >>> flambeau.distributed.run.parse_args(["--standalone", "script.py", "-x"]).training_script_args
        ['-x']
    """
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """Read a number of machines, or a range.

    Args:
        nnodes: "2" or "1:4".
    Returns: the smallest and the largest number.
    Raises: RuntimeError for another form.

    Example:
        >>> flambeau.distributed.run.parse_min_max_nnodes("1:4")
        (1, 4)
    """
    parts = nnodes.split(":")
    numbers = [int(part) for part in parts if part.isdigit()]
    if len(numbers) != len(parts) or len(parts) > 2 or not 1 <= numbers[0] <= numbers[-1]:
        raise RuntimeError(
            f'run: expected nnodes like "2" or "1:4", got {nnodes!r}: nnodes is not in "MIN:MAX" format'
        )
    return numbers[0], numbers[-1]


def determine_local_world_size(nproc_per_node: str) -> int:
    """Read a number of processes.

    Args:
        nproc_per_node: a number; "auto" and "cpu" mean one per core that the process may use.
    Returns: the number.
    Raises: ValueError for another text, and for "gpu", since there is none.

    Example:
        >>> flambeau.distributed.run.determine_local_world_size("3")
        3
    """
    if nproc_per_node.isdigit() and int(nproc_per_node) > 0:
        return int(nproc_per_node)
    if nproc_per_node in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if nproc_per_node == "gpu":
        raise ValueError("run: expected a number of processes, got gpu: Cuda is not available.")
    raise ValueError(
        f"run: expected a number, auto or cpu, got Unsupported nproc_per_node value: {nproc_per_node}"
    )


def _command(options: argparse.Namespace) -> list[str]:
    program, arguments = options.training_script, list(options.training_script_args)
    if options.no_python:
        if options.module:
            raise ValueError("run: expected --no-python or --module, got both: Don't use both")
        return [program, *arguments]
    start = [os.environ.get("PYTHON_EXEC", sys.executable), "-u"]
    if options.module:
        return [*start, "-m", program, *arguments]
    if options.run_path:
        return [*start, "-m", "flambeau.distributed._run_path", program, *arguments]
    return [*start, program, *arguments]


def _settings(options: argparse.Namespace) -> Settings:
    nodes = parse_min_max_nnodes(options.nnodes)
    conf = dict(pair.split("=", 1) for pair in options.rdzv_conf.split(",") if "=" in pair)
    run_id, node_rank = options.rdzv_id, -1
    if options.standalone:
        nodes, run_id, endpoint = (1, 1), new_run_id(), ("127.0.0.1", 0)
    elif options.rdzv_backend == "static":
        if nodes[0] != nodes[1]:
            raise ValueError(
                f"run: expected one number of machines with static rendezvous, got {options.nnodes}"
            )
        node_rank = options.node_rank
        if not 0 <= node_rank < nodes[1]:
            raise ValueError(f"run: expected a node rank from 0 to {nodes[1] - 1}, got {node_rank}")
        default = (options.master_addr, options.master_port)
        endpoint = endpoint_of(options.rdzv_endpoint, *default)
    elif options.rdzv_backend == "c10d":
        endpoint = endpoint_of(options.rdzv_endpoint, "127.0.0.1", 0 if nodes[1] == 1 else 29400)
    else:
        raise ValueError(f"run: expected rdzv_backend static or c10d, got {options.rdzv_backend}")
    shown = options.local_ranks_filter
    return Settings(
        command=_command(options),
        processes=determine_local_world_size(str(options.nproc_per_node)),
        nodes=nodes,
        node_rank=node_rank,
        endpoint=endpoint,
        run_id=run_id,
        max_restarts=options.max_restarts,
        monitor_interval=options.monitor_interval,
        role=options.role,
        log_folder=None if options.log_dir is None else Path(options.log_dir),
        redirects=options.redirects,
        tee=options.tee,
        shown=frozenset(map(int, shown.split(","))) if shown else None,
        join_timeout=float(conf.get("join_timeout") or conf.get("timeout") or 600),
        last_call=float(conf.get("last_call_timeout", 30)),
        signals=tuple(options.signals_to_handle.split(",")),
    )


def run(args: argparse.Namespace) -> None:
    """Run a program as the options say, until all of its processes have ended.

    Args:
        args: what `parse_args` returns.
    Returns: None.
    Raises: ValueError and RuntimeError for options that do not fit, or if processes fail.

    Example:
        >>> parse = flambeau.distributed.run.parse_args
        >>> flambeau.distributed.run.run(parse(["--standalone", "--no-python", "true"]))
    """
    Agent(_settings(args)).run()


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process with status 1 if the program fails.

    Args:
        args: the words after the name of the module; None: those of this process.
    Returns: None.

    Example:
        >>> flambeau.distributed.run.main(["--standalone", "--no-python", "true"])
    """
    try:
        run(parse_args(args))
    except (Failed, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except Stopped as stopped:
        print(f"run: {stopped}", file=sys.stderr)
        sys.exit(1)


_ELASTIC = dict.fromkeys(("DefaultLogsSpecs", "LogsSpecs", "Std", "get_logger"), "elastic.multiprocessing")
_ELASTIC |= {
    "LaunchConfig": "launcher",
    "elastic_launch": "launcher",
    "record": "elastic.multiprocessing.errors",
}

__getattr__, __dir__ = attributes(
    __name__, {name: f"flambeau.distributed.{home}" for name, home in _ELASTIC.items()}
)

if __name__ == "__main__":
    main()
