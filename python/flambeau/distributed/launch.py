"""The older name of `flambeau.distributed.run`: ``python -m flambeau.distributed.launch script.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.distributed.run import get_args_parser, parse_args, run
from flambeau.distributed.run import main as _main

__all__ = ["get_args_parser", "launch", "main", "parse_args", "run"]


def launch(args: Any) -> None:
    """Run a program as the options say.

    Args:
        args: what `parse_args` returns.
    Returns: None.

    Example:
        >>> parse = flambeau.distributed.launch.parse_args
        >>> flambeau.distributed.launch.launch(parse(["--standalone", "--no-python", "true"]))
    """
    run(args)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line.

    Args:
        args: the words after the name of the module; None: those of this process.
    Returns: None.

    Example:
        >>> flambeau.distributed.launch.main(["--standalone", "--no-python", "true"])
    """
    _main(args)


__getattr__, __dir__ = attributes(__name__)

if __name__ == "__main__":
    main()
