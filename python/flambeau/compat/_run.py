"""Run a script, a module or a line of code as Python itself would, with `import torch` answered by flambeau.

The program is the module `__main__`, with the arguments, `sys.path[0]` and exit status that it would have
without the runner. It stays `__main__` until the process ends, as multiprocessing and pickle need it.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn

from flambeau.compat import install

_USAGE = """usage: python -m flambeau.compat script.py [arguments]
       python -m flambeau.compat -m module [arguments]
       python -m flambeau.compat -c code [arguments]"""
_OWN = (str(Path(__file__).parent), "<frozen runpy>", "<frozen importlib")


def _become_main(code: CodeType, file: str | None, spec: Any = None, loader: Any = None) -> None:
    """Execute code as the module `__main__`."""
    main = ModuleType("__main__")
    facts: dict[str, Any] = {"__builtins__": builtins, "__spec__": spec, "__loader__": loader}
    facts["__cached__"] = spec.cached if spec is not None else None
    facts["__annotations__"] = {}
    facts["__package__"] = spec.parent if spec is not None else None
    if file is not None:
        facts["__file__"] = file
    vars(main).update(facts)
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _script(path: str) -> None:
    if Path(path).is_dir() or path.endswith((".zip", ".pyz")):  # their __main__.py
        sys.path[0] = path
        install()
        runpy.run_path(path, run_name="__main__")
        return
    sys.path[0] = str(Path(path).resolve().parent)
    install()
    file = str(Path(path).absolute())
    try:
        with io.open_code(file) as stream:
            source = stream.read()
    except OSError as error:
        fail(f"can't open file '{file}': [Errno {error.errno}] {error.strerror}")
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    _become_main(compile(source, file, "exec", dont_inherit=True), file, None, loader)


def _module(name: str) -> None:
    sys.path[0] = str(Path.cwd())
    install()
    sys.argv[0] = "-m"  # what a module reads while its parents are imported
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if not (error.name and f"{name}.".startswith(f"{error.name}.")):
            raise
        spec = None
    loader: Any = spec.loader if spec is not None else None
    code = loader.get_code(spec.name) if spec is not None and loader is not None else None
    if code is None or spec is None:
        fail(f"No module named {name}", status=1)
    sys.argv[0] = spec.origin or name
    _become_main(code, spec.origin, spec, loader)


def _code(text: str) -> None:
    sys.path[0] = ""
    install()
    _become_main(compile(text, "<string>", "exec", dont_inherit=True), None)


def fail(text: str, status: int = 2) -> NoReturn:
    """End the process with a message about the command."""
    print(f"{sys.executable}: {text}", file=sys.stderr)
    raise SystemExit(status)


def _hide_own_frames() -> None:
    """Let a traceback begin at the program's first line."""
    hook = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        first = trace
        while first is not None and first.tb_frame.f_code.co_filename.startswith(_OWN):
            first = first.tb_next
        hook(kind, value.with_traceback(first), first)

    sys.excepthook = excepthook


def main(argv: Sequence[str] | None = None) -> None:
    """Run what the command line names, with the rest as its arguments."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if given else sys.stderr)
        raise SystemExit(0 if given else 2)
    kind = given.pop(0) if given[0] in ("-m", "-c") else None
    if not given:
        fail(f"expected an argument after {kind}\n{_USAGE}")
    if kind is None and given[0].startswith("-"):
        fail(f"unknown option {given[0]}\n{_USAGE}")
    _hide_own_frames()
    sys.argv = [kind if kind == "-c" else given[0], *given[1:]]
    {"-m": _module, "-c": _code, None: _script}[kind](given[0])
