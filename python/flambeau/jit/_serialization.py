"""save and load: programs with their parameters in one file."""

from __future__ import annotations

import os
import pickle
from typing import IO, Any

from flambeau import serialization
from flambeau.jit._script import ScriptFunction, ScriptModule
from flambeau.jit.frontend import NotSupportedError

__all__ = ["export_opnames", "load", "save"]
File = str | os.PathLike[str] | IO[bytes]


def save(m: Any, f: File, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a scripted or traced program with its parameters.

    A traced program is written as its graph. A scripted one is written as the source of its forward, of its
    exported methods, and of the functions that they call, as far as the package does not contain them, with
    its attributes; ``__init__`` and methods that nothing calls are left out. Layers of `flambeau.nn` are
    written by name.

    Args:
        m: what `script` or `trace` returned.
        f: a path, or a file open for writing.
        _extra_files: name -> text or bytes to write beside the program.
    Raises: NotSupportedError if the source does what programs in files may not, such as importing; the
        message names it. RuntimeError for an object that is neither scripted nor traced.
    """
    from flambeau.jit._archive import Writer

    if not isinstance(m, ScriptModule | ScriptFunction):
        raise RuntimeError(f"jit.save: expected a ScriptModule or ScriptFunction, got {type(m).__name__}")
    data = Writer().archive(m)
    extra = {
        name: text if isinstance(text, str) else text.decode("latin-1")
        for name, text in (_extra_files or {}).items()
    }
    kinds = {name: isinstance(text, bytes) for name, text in (_extra_files or {}).items()}
    serialization.save({**data, "files": extra, "files_are_bytes": kinds}, f)


def load(
    f: File,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """Read a program that `save` wrote, and return it as a ScriptModule or ScriptFunction.

    **Loading runs code of the file.** The pickle in it can only name tensors and plain data. A graph can only
    call operators and layers of this package. Source is checked before it runs: it holds definitions alone,
    imports nothing, and sees operators, layers and a few builtins; its functions run when the program is
    called. That stops accidents and simple attacks, not every attacker: load what you trust.

    Args:
        f: a path, or a file open for reading.
        map_location: where the tensors go; see `flambeau.load`.
        _extra_files: names of texts that the file has beside the program; their values are filled in.
        _restore_shapes: accepted for compatibility.
    Raises: RuntimeError (NotSupportedError is one) for a file that `save` did not write, ValueError for one
        that does not exist.
    """
    from flambeau.jit._reading import Reader

    if isinstance(f, str | os.PathLike):
        if not os.path.exists(f):  # noqa: PTH110  (takes all paths)
            raise ValueError(f"jit.load: expected a file, got {f}, which does not exist")
        if os.path.isdir(f):  # noqa: PTH112
            raise ValueError(f"jit.load: expected a file, got the directory {f}")
    try:
        data = serialization.load(f, map_location, weights_only=True)
    except (pickle.UnpicklingError, EOFError) as error:
        raise RuntimeError(f"jit.load: the file holds no program: {error}") from error
    try:
        program = Reader(data).program()
    except RuntimeError:
        raise
    except Exception as error:  # damaged data can cause any exception
        raise NotSupportedError(f"jit.load: the file is damaged: {type(error).__name__}: {error}") from error
    files, kinds = data.get("files"), data.get("files_are_bytes")
    for name in list(_extra_files or ()):
        if isinstance(files, dict) and name in files and _extra_files is not None:
            in_bytes = isinstance(kinds, dict) and kinds.get(name)
            _extra_files[name] = files[name].encode("latin-1") if in_bytes else files[name]
    return program


def export_opnames(m: Any) -> list[str]:
    """Return the names of the operators that a program calls, sorted."""
    return sorted({f"aten::{n.target.__name__}" for n in m.graph.nodes if n.op == "call_function"})


def save_jit_module_to_flatbuffer(m: Any, f: File, _extra_files: dict[str, Any] | None = None) -> None:
    """`save`; there is one format of files here."""
    save(m, f, _extra_files)


def jit_module_from_flatbuffer(f: File) -> Any:
    """`load`; there is one format of files here."""
    return load(f)
