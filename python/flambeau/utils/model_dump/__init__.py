"""What a saved model consists of, as data and as a page: ``python -m flambeau.utils.model_dump model.pt``."""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import pprint
import sys
import zipfile
from typing import IO, Any

from flambeau._loading.lazy import attributes
from flambeau.utils.show_pickle import DumpUnpickler, FakeObject

__all__ = [
    "burn_in_info",
    "get_info_and_burn_skeleton",
    "get_inline_skeleton",
    "get_model_info",
    "get_storage_info",
    "hierarchical_pickle",
]

_PLACE = "__MODEL_INFO__"
_PAGE = f"""<!DOCTYPE html>
<html>
<head><meta charset="utf-8"><title>Model</title></head>
<body><script>
const info = {_PLACE};
function show(name, value) {{
  if (value === null || typeof value !== "object") {{
    const line = document.createElement("pre");
    line.textContent = name + ": " + value;
    return line;
  }}
  const part = document.createElement("details");
  part.style.marginLeft = "1em";
  part.appendChild(document.createElement("summary")).textContent = name;
  for (const key in value) part.appendChild(show(key, value[key]));
  return part;
}}
document.body.appendChild(show("model", info.model)).open = true;
</script></body>
</html>
"""

# What a pickle calls to make tensors, with the number of leading arguments that say which.
_TENSORS = {"_rebuild_tensor": 4, "_rebuild_tensor_v2": 5, "_rebuild_tensor_v3": 5}
_LISTS = {"build_intlist", "build_tensorlist", "build_doublelist", "build_boollist"}


def get_storage_info(storage: Any) -> list[Any]:
    """Return dtype, key, device and number of elements of a storage that a pickle refers to."""
    _expect(isinstance(storage, FakeObject) and storage.module == "pers", "a storage", storage)
    kind, typ, key, device, numel = storage.args[0]
    _expect(kind == "storage" and typ.name.endswith("Storage"), "a storage", storage)
    return [typ.name.removesuffix("Storage"), key, device, numel]


def _expect(condition: bool, what: str, found: Any) -> None:
    if not condition:
        raise ValueError(f"model_dump: expected {what}, got {found!r}")


def hierarchical_pickle(data: Any) -> Any:
    """Return stand-ins of a pickle as what JSON can say: tensors by their storage, modules by their state.

    Raises: ValueError for an object that the page cannot show.
    """
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [hierarchical_pickle(item) for item in data]
    if isinstance(data, tuple):
        return {"__tuple_values__": hierarchical_pickle(list(data))}
    if isinstance(data, dict):
        return _pairs(list(data.items()))
    _expect(isinstance(data, FakeObject), "values and stand-ins of a pickle", data)
    return _stand_in(data)


def _pairs(items: list[tuple[Any, Any]]) -> Any:
    keys, values = [key for key, _ in items], [value for _, value in items]
    return {"__is_dict__": True, "keys": hierarchical_pickle(keys), "values": hierarchical_pickle(values)}


def _stand_in(data: FakeObject) -> Any:
    if data.module == "torch._utils" and data.name in _TENSORS:
        storage, *rest = data.args[: _TENSORS[data.name]]
        return {"__tensor_v2__": [get_storage_info(storage), *rest]}
    if data.module == "torch._utils" and data.name.startswith("_rebuild_parameter"):
        return hierarchical_pickle(data.args[0])
    if data.module == "torch.jit._pickle" and data.name in _LISTS:
        return hierarchical_pickle(data.args[0])
    if data.module in ("collections", "builtins") and data.name in ("OrderedDict", "dict"):
        return _pairs(data.items)
    if data.name == "device" and len(data.args) == 1:
        return hierarchical_pickle(data.args[0])
    _expect(not data.args, "a tensor, a container or a module", data)
    state = hierarchical_pickle(data.state)
    return {"__module_type__": f"{data.module}.{data.name}", "state": state}


def get_model_info(
    path_or_file: Any, title: str | None = None, extra_file_size_limit: int = 16 * 1024
) -> dict[str, Any]:
    """Return what a file of `flambeau.save` or `flambeau.jit.save` consists of.

    Args:
        path_or_file: its path, or a file that is open for reading.
        title: the title of the page. Default: the path
        extra_file_size_limit: a further file of the archive is shown up to this many bytes.
    Returns: a dict with the key "model"; its content can be written as JSON.
    """
    size = path_or_file.seek(0, io.SEEK_END) if hasattr(path_or_file, "seek") else None
    if size is None:
        path_or_file = os.fspath(path_or_file)
        size = pathlib.Path(path_or_file).stat().st_size
        title = title or path_or_file
    with zipfile.ZipFile(path_or_file) as archive:
        parts = _Archive(archive, extra_file_size_limit)
        model = {"title": title or "Model", "file_size": size} | parts.info()
    return {"model": model}


class _Archive:
    """The members of an archive, below its one folder."""

    def __init__(self, archive: zipfile.ZipFile, limit: int) -> None:
        self.archive, self.limit = archive, limit
        self.folder = archive.namelist()[0].partition("/")[0] + "/"

    def info(self) -> dict[str, Any]:
        data, constants = (self.unpickled(self.folder + name) for name in ("data.pkl", "constants.pkl"))
        codes = {name: [[self.text(name), 0, 0, 0, 0, 0]] for name in self.names(".py")}
        extra = [name for name in self.names(".json") if "/extra/" in name]
        return {
            "version": self.text(self.folder + "version").strip(),
            "zip_files": [self.entry(info) for info in self.archive.infolist()],
            "interned_strings": [""],
            "code_files": codes,
            "model_data": hierarchical_pickle(data),
            "constants": hierarchical_pickle(constants),
            "extra_files_jsons": {name: json.loads(self.text(name)) for name in self.small(extra)},
            "extra_pickles": {
                name: pprint.pformat(self.unpickled(name)) for name in self.small(self.names(".pkl"))
            },
        }

    def names(self, suffix: str) -> list[str]:
        return [name for name in self.archive.namelist() if name.endswith(suffix)]

    def small(self, names: list[str]) -> list[str]:
        return [name for name in names if self.archive.getinfo(name).file_size <= self.limit]

    def text(self, name: str) -> str:
        return self.archive.read(name).decode("utf-8")

    def unpickled(self, name: str) -> Any:
        if name not in self.archive.namelist():
            return ()
        with self.archive.open(name) as member:
            return DumpUnpickler(member, catch_invalid_utf8=True).load()

    @staticmethod
    def entry(info: zipfile.ZipInfo) -> dict[str, Any]:
        return {
            "filename": info.filename,
            "compression": info.compress_type,
            "compressed_size": info.compress_size,
            "file_size": info.file_size,
        }


def get_inline_skeleton() -> str:
    """Return the page without a model."""
    return _PAGE


def burn_in_info(skeleton: str, info: Any) -> str:
    """Return the page with what `get_model_info` returned."""
    return skeleton.replace(_PLACE, json.dumps(info, sort_keys=True).replace("/", "\\/"), 1)


def get_info_and_burn_skeleton(path_or_bytesio: Any, **kwargs: Any) -> str:
    """Return the page of a file; arguments are those of `get_model_info`."""
    return burn_in_info(get_inline_skeleton(), get_model_info(path_or_bytesio, **kwargs))


def main(argv: list[str], *, stdout: IO[str] | None = None) -> None:
    """Print what a file consists of: a page (``--style=html``, default) or JSON (``--style=json``)."""
    parser = argparse.ArgumentParser(prog="model_dump", description=__doc__)
    parser.add_argument("--style", choices=["json", "html"], default="html")
    parser.add_argument("--title")
    parser.add_argument("model")
    options = parser.parse_args(argv[1:])
    info = get_model_info(options.model, title=options.title)
    page = burn_in_info(get_inline_skeleton(), info) if options.style == "html" else json.dumps(info)
    (stdout or sys.stdout).write(page + "\n")


__getattr__, __dir__ = attributes(__name__)
