"""Exceptions of functions that other workers run: what is sent, and what the caller raises."""

from __future__ import annotations

import importlib
import json
import traceback
from collections.abc import Callable

from flambeau.distributed.rpc._worker_info import WorkerInfo

_MOST = 1 << 16  # characters of a text


def timed_out(seconds: float) -> RuntimeError:
    """Return the error of a call without an answer."""
    return RuntimeError(
        f"RPCErr:1:RPC ran for more than set timeout ({seconds * 1000:g} ms) and will now be "
        "marked with an error"
    )


def _said(say: Callable[[], str], otherwise: str) -> str:
    """Return a text, or another one if making it fails: the caller must get an answer."""
    try:
        return say()
    except Exception:
        return otherwise


def _text(worker: WorkerInfo, error: BaseException) -> str:
    name = type(error).__qualname__
    words = _said(lambda: repr(error), f"{name}, whose __repr__ failed")
    stack = _said(lambda: "".join(traceback.format_exception(error)), f"{name}, whose traceback failed")
    return f"On {worker}:\n{words[:_MOST]}\n{stack[-_MOST:]}"


def _built(kind: type[BaseException], text: str) -> Exception:
    try:
        if issubclass(kind, Exception):
            made = kind(text)
            if isinstance(made, Exception):
                return made
        why = f"expected a subclass of Exception, got {kind.__name__}"
    except Exception as failure:
        why = str(failure)
    return RuntimeError(
        f"Failed to create original exception type. Error msg was {why} Original exception on "
        "remote side was "
        f"{text}"
    )


def at(worker: WorkerInfo, error: BaseException) -> Exception:
    """Return the error that users of a remote value raise; it is sent as the first one would be."""
    made = _built(type(error), _text(worker, error))
    made._flambeau_packed = pack(worker, error)  # type: ignore[attr-defined]
    return made


def pack(worker: WorkerInfo, error: BaseException) -> bytes:
    """Return what is sent: the names of the class and its bases, and the text with the traceback."""
    packed = getattr(error, "_flambeau_packed", None)
    if packed is not None:
        return packed
    names = [[kind.__module__, kind.__qualname__] for kind in type(error).__mro__[:-1]]
    return json.dumps([names, _text(worker, error)]).encode()


def _class(module: str, name: str) -> type[BaseException] | None:
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception:  # whatever the module does when it is imported
        return None
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def build(body: bytes | bytearray) -> Exception:
    """Return the exception that the caller raises: of the original class, or of a base."""
    names, text = json.loads(bytes(body).decode())
    for module, name in names:
        found = _class(module, name)
        if found is not None:
            return _built(found, text)
    return RuntimeError(text)
