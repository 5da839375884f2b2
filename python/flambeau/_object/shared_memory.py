"""Memory that processes share: a file without a name, mapped by everyone who has its descriptor.

A process that is forked inherits the mapping. To any other a tensor goes as descriptor and geometry, by
multiprocessing's own way of passing descriptors; its bytes are not copied. A block dies with the last tensor
of the last process that sees it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object.storage import Storage, storage_of
from flambeau._object.tensor import _pending


class _Block(mmap.mmap):
    """A mapping that knows its descriptor and can be referred to weakly."""

    descriptor: int


# By address, to recognise memory that is shared; by file, so that what arrives twice is mapped once.
_at_address: weakref.WeakValueDictionary[int, _Block] = weakref.WeakValueDictionary()
_of_file: weakref.WeakValueDictionary[tuple[int, int], _Block] = weakref.WeakValueDictionary()

# By process that is being started: the blocks that its arguments need, by descriptor.
_sent_to: weakref.WeakKeyDictionary[Any, dict[int, _Block]] = weakref.WeakKeyDictionary()


def nameless_file(size: int) -> int:
    """Return the descriptor of a new file of zeros, which is gone when nobody holds it any more."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("flambeau")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _mapped(descriptor: int) -> Storage:
    """Return the storage over all of a file, whose descriptor it owns from now on."""
    known = os.fstat(descriptor)
    file = (known.st_dev, known.st_ino)
    block = _of_file.get(file)
    if block is None:
        try:
            block = _of_file[file] = _Block(descriptor, known.st_size)
        except BaseException:
            os.close(descriptor)
            raise
        block.descriptor = descriptor
        weakref.finalize(block, os.close, descriptor)
    else:
        os.close(descriptor)
    out = _C._from_buffer(block, _C.uint8, known.st_size, 0)
    _at_address[out.data_ptr()] = block
    return storage_of(out)


def new_storage(nbytes: int) -> Storage:
    """Return zeros that processes can share; at least one byte, since nothing cannot be mapped."""
    return _mapped(nameless_file(max(nbytes, 1)))


def is_shared(tensor: Tensor) -> bool:
    """Whether the memory behind a tensor is shared."""
    return _C._storage_bytes(tensor).data_ptr() in _at_address


def share(tensor: Tensor) -> Tensor:
    """Move a tensor's memory, in place.

    Raises: RuntimeError if another tensor sees the same memory: it would stay behind.
    """
    if tensor.device.type != "cpu":
        raise RuntimeError(f"share_memory_: expected a tensor on the CPU, got one on {tensor.device}")
    if is_shared(tensor):
        return tensor
    users = _users(tensor)
    if users > 1:
        raise RuntimeError(
            f"share_memory_: {users - 1} other tensors see the same memory and would be left behind. "
            "Share the memory before making views of it"
        )
    tensor.data = _copied(tensor)
    return tensor


def _users(tensor: Tensor) -> int:
    """How many tensors see the memory, without the one that a Storage object holds."""
    from flambeau._object.storage import _known

    return _C._storage_users(tensor) - (tensor._storage_id() in _known)


def _copied(tensor: Tensor) -> Tensor:
    """Return the same tensor over shared memory."""
    source = _C._storage_bytes(tensor)
    target = new_storage(source.numel())
    if source.numel():
        target.tensor[: source.numel()].copy_(source)
    return _at(target, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


def _at(storage: Storage, dtype: Any, size: Any, stride: Any, offset: int) -> Tensor:
    return _C._rebuild(storage.tensor, dtype, tuple(size), tuple(stride), offset)


# --- between processes ---------------------------------------------------------------------------------


def _descriptor_to_send(block: _Block) -> int:
    """Return a descriptor that stays open until it is sent.

    A queue duplicates what it sends at once. A process that is being started (spawn, forkserver) notes
    descriptors while its arguments are pickled and takes them later: until then the block must live, and no
    descriptor may be noted twice.
    """
    process = get_spawning_popen()
    if process is None:
        return block.descriptor
    sent = _sent_to.setdefault(process, {})
    if block.descriptor not in sent:
        sent[block.descriptor] = block
        return block.descriptor
    again = os.dup(block.descriptor)  # an argument pickles its parts for itself
    weakref.finalize(process, os.close, again)
    return again


def _arrived(handle: Any) -> Storage:
    return _mapped(handle.detach())


def _reduce_block(block: _Block) -> Any:
    """Say how to send a block; within one pickle it is sent once, and arrives as one storage."""
    return _arrived, (DupFd(_descriptor_to_send(block)),)


def _received(
    cls: type, storage: Storage, geometry: tuple[Any, ...], pending: tuple[str, ...], requires_grad: bool
) -> Any:
    out = _at(storage, *geometry)
    for view in pending:
        out = getattr(_C._functions, view)(out).detach()
    if cls is Tensor:
        return out.requires_grad_(requires_grad) if requires_grad else out
    from flambeau.nn.parameter import Parameter

    return Parameter(out, requires_grad)


def reduce_tensor(tensor: Any) -> Any:
    """Say how to send a tensor: by its memory, which becomes shared.

    Where other tensors see that memory too, it is a copy that is sent.
    Raises: RuntimeError for results that require gradients: no graph crosses into another process.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "multiprocessing: a tensor with an autograd graph cannot be sent to another process; "
            "send x.detach()"
        )
    if tensor.is_sparse:
        from flambeau._object.rebuild import rebuilt_sparse, sparse_parts

        return rebuilt_sparse, (type(tensor), sparse_parts(tensor), tensor.requires_grad)
    plain = tensor if is_shared(tensor) else share(tensor) if _users(tensor) == 1 else _copied(tensor)
    block = _at_address[_C._storage_bytes(plain).data_ptr()]
    geometry = (plain.dtype, tuple(plain.shape), plain.stride(), plain.storage_offset())
    cls = Tensor if type(tensor) is Tensor else type(tensor)
    return _received, (cls, block, geometry, _pending(tensor), tensor.requires_grad)


def _received_storage(storage: Storage) -> Storage:
    return storage


def reduce_storage(storage: Storage) -> Any:
    """Say how to send a storage; see `reduce_tensor`."""
    _, block, *_ = reduce_tensor(storage.tensor)[1]
    return _received_storage, (block,)


def register() -> None:
    """Let queues and pipes of multiprocessing send tensors in this way."""
    from flambeau.nn.parameter import Parameter

    ForkingPickler.register(_Block, _reduce_block)
    ForkingPickler.register(Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, reduce_tensor)
    ForkingPickler.register(Storage, reduce_storage)
