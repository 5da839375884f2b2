"""Models from local repositories, and files from addresses, kept in a cache.

A repository is a folder with a file ``hubconf.py``: each of its functions without a leading underscore is an
entry point, and its list `dependencies` names packages that must be installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from flambeau._loading.lazy import attributes

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
ENV_GITHUB_TOKEN = "GITHUB_TOKEN"  # the variable's name
DEFAULT_CACHE_DIR = "~/.cache"
READ_DATA_CHUNK = 128 * 1024  # bytes
# The end of a name such as resnet18-bf5a0be.pth: the first digits of the file's SHA-256.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")

_chosen: str | None = None


def _get_torch_home() -> str:
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return str(Path(os.getenv(ENV_TORCH_HOME, str(Path(cache) / "torch"))).expanduser())


def get_dir() -> str:
    """Return the folder of downloaded files.

    Returns: the folder that `set_dir` set, or ``$TORCH_HOME/hub``, or a folder in the user's cache.

    Example:
        >>> flambeau.hub.get_dir().endswith("hub")
        True
    """
    return _chosen if _chosen is not None else str(Path(_get_torch_home()) / "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloaded files.

    Args:
        d: the path of the folder.
    Returns: None.

    Example:
        >>> before = flambeau.hub.get_dir()
        >>> flambeau.hub.set_dir("/tmp/models/hub")
        >>> flambeau.hub.get_dir()
        '/tmp/models/hub'
        >>> flambeau.hub.set_dir(before)
    """
    global _chosen
    _chosen = os.path.expanduser(d)  # noqa: PTH111  (may be any path-like)


def _checked_source(source: str) -> None:
    if source not in ("github", "local"):
        raise ValueError(f"hub: Unknown source: expected 'github' or 'local', got {source!r}")
    if source == "github":
        raise RuntimeError("hub: repositories are read from folders only; pass source='local' and a path")


def _configuration(folder: str | os.PathLike[str]) -> ModuleType:
    """Import the hubconf.py of a repository and check what it depends on."""
    path = Path(folder) / MODULE_HUBCONF
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    lacking = [name for name in getattr(module, VAR_DEPENDENCY, None) or () if not _installed(name)]
    if lacking:
        raise RuntimeError(f"hub: Missing dependencies: {', '.join(lacking)}; install them")
    return module


def _installed(name: str) -> bool:
    return name == "torch" or importlib.util.find_spec(name) is not None


def _entry(folder: str | os.PathLike[str], name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError(f"hub: expected the name of a function as model, got {type(name).__name__}")
    entry = getattr(_configuration(folder), name, None)
    if not callable(entry):
        raise RuntimeError(f"hub: Cannot find callable {name} in hubconf; hub.list() shows what it has")
    return entry


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    verbose: bool = True,
    *,
    source: str = "local",
) -> Any:
    """Return the names of the entry points of a repository.

    Args:
        github: the folder of the repository, with a file ``hubconf.py``.
        force_reload: no effect on local repositories.
        skip_validation: no effect on local repositories.
        trust_repo: no effect on local repositories.
        verbose: no effect on local repositories.
        source: "local"; "github" is not supported.
    Returns: a list of names.
    Raises: ValueError for an unknown source, RuntimeError for "github".

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "hubconf.py").write_text("def one(): return 1")
        >>> flambeau.hub.list(str(folder), source="local")
        ['one']
    """
    _checked_source(source)
    module = vars(_configuration(github))
    return [name for name, value in module.items() if callable(value) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    *,
    source: str = "local",
) -> str | None:
    """Return the docstring of an entry point of a repository.

    Args:
        github: the folder of the repository, with a file ``hubconf.py``.
        model: the name of the entry point.
        force_reload: no effect on local repositories.
        skip_validation: no effect on local repositories.
        trust_repo: no effect on local repositories.
        source: "local"; "github" is not supported.
    Returns: the docstring, or None.
    Raises: ValueError for an unknown source or a model that is not a string, RuntimeError for "github" or a
        missing entry point.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "hubconf.py").write_text("def one(): 'Return 1.'")
        >>> flambeau.hub.help(str(folder), "one", source="local")
        'Return 1.'
    """
    _checked_source(source)
    return _entry(github, model).__doc__


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call an entry point of a repository and return its result.

    Args:
        repo_or_dir: the folder of the repository, with a file ``hubconf.py``.
        model: the name of the entry point.
        *args: the positional arguments of the entry point.
        source: "local"; the default, "github", raises an error.
        trust_repo: no effect on local repositories.
        force_reload: no effect on local repositories.
        verbose: no effect on local repositories.
        skip_validation: no effect on local repositories.
        **kwargs: the keyword arguments of the entry point.
    Returns: the result of the entry point.
    Raises: ValueError for an unknown source or a model that is not a string, RuntimeError for "github" or a
        missing entry point.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "hubconf.py").write_text("def one(x): return x + 1")
        >>> flambeau.hub.load(str(folder), "one", 1, source="local")
        2
    """
    _checked_source(source.lower())
    return _entry(repo_or_dir, model)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copy the contents of an address to a file, which is either complete or does not exist.

    Args:
        url: the address, of any scheme of `urllib`, also ``file://``.
        dst: the path of the file.
        hash_prefix: the first digits of the SHA-256 hash that the contents must have. None does not check it.
        progress: whether to show the progress, if stderr is a terminal.
    Returns: None.
    Raises: RuntimeError if the contents have another hash.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a").write_text("text")
        >>> flambeau.hub.download_url_to_file((folder / "a").as_uri(), str(folder / "b"), progress=False)
        >>> (folder / "b").read_text()
        'text'
    """
    target = Path(dst).expanduser()
    answer = urlopen(Request(url, headers={"User-Agent": "torch.hub"}))
    length = int(answer.headers.get("Content-Length") or 0)
    digest = hashlib.sha256()
    descriptor, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent)
    try:
        with answer, os.fdopen(descriptor, "wb") as file:
            while chunk := answer.read(READ_DATA_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                _show(progress, file.tell(), length)
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(
                f'download_url_to_file: invalid hash value (expected "{hash_prefix}", got "{found}"); the '
                "file is damaged, download it again"
            )
        Path(name).chmod(0o644)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _show(progress: bool, done: int, length: int) -> None:
    if progress and length and sys.stderr.isatty():
        end = "\n" if done >= length else ""
        print(
            f"\r{100 * done // length:3d}% of {length / 2**20:.1f} MiB", end=end, file=sys.stderr, flush=True
        )


def _unzipped(path: Path, folder: Path, map_location: Any, weights_only: bool) -> Any:
    """Load the only member of a ZIP file of the oldest kind."""
    from flambeau import load

    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) != 1:
            raise RuntimeError(f"hub: expected an archive of only one file, got {len(members)} entries")
        with archive.open(members[0]) as source, (folder / Path(members[0].filename).name).open("wb") as copy:
            shutil.copyfileobj(source, copy)
    return load(str(folder / Path(members[0].filename).name), map_location, weights_only=weights_only)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load an object that `save` wrote at an address; a file in the cache is not downloaded again.

    Args:
        url: the address.
        model_dir: the folder of the cache. None means ``checkpoints`` in `get_dir`.
        map_location: where tensors go; see `flambeau.load`.
        progress: whether to show the progress, if stderr is a terminal.
        check_hash: whether the name of the file, such as ``name-0123abcd.pth``, contains the first digits of
            its SHA-256 hash, which is then checked.
        file_name: the name in the cache. None means the name in the address.
        weights_only: whether to refuse everything but tensors and plain containers; see `flambeau.load`.
    Returns: the object.
    Raises: RuntimeError if the contents have another hash.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> flambeau.save({"weight": flambeau.ones(2)}, folder / "model.pth")
        >>> url = (folder / "model.pth").as_uri()
        >>> flambeau.hub.load_state_dict_from_url(url, model_dir=str(folder), progress=False)
        {'weight': tensor([1., 1.])}
    """
    from flambeau import load

    folder = Path(get_dir()) / "checkpoints" if model_dir is None else Path(model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file_name or Path(urlparse(url).path).name)
    if not path.exists():
        print(f'Downloading: "{url}" to {path}', file=sys.stderr)
        match = HASH_REGEX.search(path.name) if check_hash else None
        download_url_to_file(url, path, match.group(1) if match else None, progress)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            is_old = not any(name.endswith(("/data.pkl", "/version")) for name in archive.namelist())
        if is_old:
            return _unzipped(path, folder, map_location, weights_only)
    return load(str(path), map_location, weights_only=weights_only)


__getattr__, __dir__ = attributes(__name__)
