"""The generator of operators: ``python -m flambeau.codegen --extend my_ops.yaml my_derivatives.yaml``.

It reads an author's YAML files and writes the C++ and Python of an extension (docs/extending.md). It needs
jinja2 and PyYAML, which ``pip install flambeau[codegen]`` installs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# An installed package has the generator inside; a source tree has it beside the specification.
_PLACES = (_PACKAGE / "_generator", _PACKAGE.parents[1])
_NEEDED = {"jinja2": "jinja2", "yaml": "PyYAML"}


def generator_root() -> Path:
    """Return the folder that holds the generator and flambeau's own specification.

    Returns: the folder of the package ``codegen``.
    Raises: ImportError if the installation lacks it.

    Example:
        >>> (flambeau.codegen.generator_root() / "native_functions.yaml").is_file()
        True
    """
    for place in _PLACES:
        if (place / "codegen" / "__main__.py").is_file():
            return place
    raise ImportError(f"codegen: expected the generator in {_PLACES[0]}, found none")


def main(arguments: list[str]) -> int:
    """Run a command of the generator.

    Args:
        arguments: those of the command line, such as ``["--extend", "my_ops.yaml"]``.
    Returns: the exit status: 0, or 1 if the files have mistakes.
    Raises: ImportError if jinja2 or PyYAML is not installed.

    Example:
        >>> flambeau.codegen.main(["check", "--extend", "my_ops.yaml"])  # doctest: +SKIP
        0
    """
    missing = [name for module, name in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise ImportError(
            f"codegen: expected {' and '.join(missing)}, got none: pip install flambeau[codegen]"
        )
    root = str(generator_root())
    if root not in sys.path:
        sys.path.insert(0, root)
    status: int = import_module("codegen.__main__").main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
