"""The shared secret of a job, and how both ends of a connection show that they know it.

    answerer: greeting, 32 random bytes
    caller: its rank, 32 random bytes, HMAC-SHA256(secret, "caller" and all of these, and the answerer's rank)
    answerer: HMAC-SHA256(secret, "answerer" and the same)

All parts have fixed lengths, and nothing else of a connection is read before they agree.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
import time

from flambeau.distributed._store import Store
from flambeau.distributed.constants import RPC_SECRET

GREETING = b"flambeau rpc 2\n\0"
NONCE = 32
HELLO = len(GREETING) + NONCE  # bytes of the answerer's first message
_MAC = 32
_RANK = struct.Struct("<I")
CLAIM = _RANK.size + NONCE + _MAC  # bytes of the caller's message
_LEAST = 16  # characters of a secret
_OF_ENVIRONMENT = b"environment"


def shared_secret(store: Store, rank: int) -> bytes:
    """Return the secret of the job: from the environment, or one that rank 0 keeps in the store.

    Raises: RuntimeError if the secret is short, or only some of the processes have the variable.
    """
    given = os.environ.get(RPC_SECRET)
    if given is not None and len(given) < _LEAST:
        raise RuntimeError(
            f"init_rpc: expected at least {_LEAST} characters in {RPC_SECRET}, got {len(given)}"
        )
    if rank == 0:
        made = None if given is not None else secrets.token_bytes(NONCE)
        store.set("secret", _OF_ENVIRONMENT if made is None else made)
        return made or given.encode()  # type: ignore[union-attr]
    found = store.get("secret")
    if (found == _OF_ENVIRONMENT) != (given is not None):
        raise RuntimeError(
            f"init_rpc: expected {RPC_SECRET} in the environment of all processes or of none, got it "
            "in that of "
            f"rank {rank if given is not None else 0} and not in that of rank "
            f"{0 if given is not None else rank}"
        )
    return found if given is None else given.encode()


def new_nonce() -> bytes:
    """Return random bytes."""
    return secrets.token_bytes(NONCE)


def _mac(secret: bytes, role: bytes, asked: bytes, own: bytes, caller: int, answerer: int) -> bytes:
    text = role + asked + own + _RANK.pack(caller) + _RANK.pack(answerer)
    return hmac.digest(secret, text, "sha256")


def check(secret: bytes, asked: bytes, claim: bytes, rank: int) -> tuple[int, bytes] | None:
    """Return the caller's rank and the answerer's last message; None for a wrong claim."""
    (caller,) = _RANK.unpack_from(claim)
    own = claim[_RANK.size : _RANK.size + NONCE]
    right = _mac(secret, b"caller", asked, own, caller, rank)
    if not hmac.compare_digest(right, claim[-_MAC:]):
        return None
    return caller, _mac(secret, b"answerer", asked, own, caller, rank)


def _exactly(peer: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        peer.settimeout(max(deadline - time.monotonic(), 0.001))
        part = peer.recv(size - len(data))
        if not part:
            raise ConnectionError("the connection ended before both sides knew each other")
        data += part
    return data


def introduce(peer: socket.socket, secret: bytes, rank: int, to: int, deadline: float) -> None:
    """Do the caller's part. Raises: OSError if the other side is not the worker `to` of the same job."""
    hello = _exactly(peer, HELLO, deadline)
    if not hello.startswith(GREETING):
        raise ConnectionError("the other side does not speak this protocol")
    asked, own = hello[len(GREETING) :], new_nonce()
    peer.sendall(_RANK.pack(rank) + own + _mac(secret, b"caller", asked, own, rank, to))
    right = _mac(secret, b"answerer", asked, own, rank, to)
    if not hmac.compare_digest(right, _exactly(peer, _MAC, deadline)):
        raise ConnectionError("the other side does not know the secret of the job")
    peer.settimeout(None)
