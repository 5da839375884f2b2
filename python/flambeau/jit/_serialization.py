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
    exported methods, and of the functions that they call, except those of the package, together with its
    attributes; ``__init__`` and methods that nothing calls are omitted. Layers of `flambeau.nn` are written
    by name.

    Args:
        m: what `script` or `trace` returned.
        f: a path, or a file open for writing.
        _extra_files: name -> text or bytes to store with the program.
    Returns: None.
    Raises: NotSupportedError if the source contains something that programs in files may not do, such as an
        import; the message names it. RuntimeError for an object that is neither scripted nor traced.
    See also: jit.load

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> flambeau.jit.save(flambeau.jit.script(flambeau.nn.ReLU()), file)
        >>> position = file.seek(0)
        >>> flambeau.jit.load(file)(flambeau.tensor([-1.0, 2.0]))
        tensor([0., 2.])
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
    call operators and layers of this package. Source is checked before it runs: it contains only definitions,
    imports nothing, and can use operators, layers and a few builtins; its functions run when the program is
    called. The check prevents accidents and simple attacks but not every attack, so load only files that you
    trust.

    Args:
        f: a path, or a file open for reading.
        map_location: the device of the tensors; see `flambeau.load`.
        _extra_files: a dict whose keys are names of texts in the file; their values are filled in.
        _restore_shapes: accepted for compatibility.
    Returns: a ScriptModule, or a ScriptFunction if a function was saved.
    Raises: RuntimeError for a file that `save` did not write; its subclass NotSupportedError for a damaged
        file and for source that is not allowed. ValueError for a path that does not exist or is a directory.
    See also: jit.save

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> double = flambeau.jit.trace(lambda x: x + x, flambeau.ones(2))
        >>> flambeau.jit.save(double, file, _extra_files={"note": "doubles"})
        >>> position, extra = file.seek(0), {"note": ""}
        >>> flambeau.jit.load(file, _extra_files=extra)(flambeau.tensor([3.0]))
        tensor([6.])
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
    """Return the names of the operators that a program calls.

    Args:
        m: a scripted or traced program whose graph can be shown.
    Returns: a sorted list of names that begin with ``aten::``.
    Raises: RuntimeError if the control flow of the program depends on values, so that it has no graph.

    Example:
        >>> class Wave(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         return flambeau.sin(x)
        >>> flambeau.jit.export_opnames(flambeau.jit.trace(Wave(), flambeau.ones(1)))
        ['aten::sin']
    """
    return sorted({f"aten::{n.target.__name__}" for n in m.graph.nodes if n.op == "call_function"})


def save_jit_module_to_flatbuffer(m: Any, f: File, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a program to a file, as `save` does: flambeau has one format of files.

    Args: As for `jit.save`.
    Returns: None.
    See also: jit.save

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> flambeau.jit.save_jit_module_to_flatbuffer(flambeau.jit.script(flambeau.nn.ReLU()), file)
        >>> file.tell() > 0
        True
    """
    save(m, f, _extra_files)


def jit_module_from_flatbuffer(f: File) -> Any:
    """Read a program from a file, as `load` does: flambeau has one format of files.

    Args: As for `jit.load`.
    Returns: a ScriptModule, or a ScriptFunction if a function was saved.
    See also: jit.load

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> flambeau.jit.save_jit_module_to_flatbuffer(flambeau.jit.script(flambeau.nn.ReLU()), file)
        >>> position = file.seek(0)
        >>> flambeau.jit.jit_module_from_flatbuffer(file)(flambeau.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return load(f)
