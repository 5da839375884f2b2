"""The process group of the backends "mpi" and "gloo": tensors in memory, by the engine.

A group of one process copies, and needs no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._errors import DistBackendError
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BROADCAST,
    ELEMENTS,
    GATHER,
    REDUCE,
    REDUCESCATTER,
    REDUCTIONS,
    SCATTER,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    PremulSum,
    ReduceOp,
    ReduceOptions,
    ScatterOptions,
)
from flambeau.distributed._work import DoneWork, EngineWork, Work

if TYPE_CHECKING:
    from flambeau.distributed._engine import Communicator, Request

Finish = Callable[[], None] | None


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _places(tensors: Sequence[Tensor]) -> tuple[int, list[int], list[int]]:
    """Return the address of the first tensor, and lengths and places of all relative to it, in bytes."""
    first = tensors[0].data_ptr()
    return first, [_bytes(t) for t in tensors], [t.data_ptr() - first if t.numel() else 0 for t in tensors]


def _dense(tensor: Tensor) -> Tensor:
    """Return the tensor, or a contiguous copy, whose memory holds its values."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.contiguous()


def _apart(source: Tensor, written: Sequence[Tensor]) -> Tensor:
    """Return a tensor, or a copy of it if it shares memory with what is written: MPI refuses that."""
    begin = source.data_ptr()
    end = begin + _bytes(source)
    for target in written:
        other = target.data_ptr()
        if begin < other + _bytes(target) and other < end:
            return source.clone()
    return source


def _then_copy(pairs: Sequence[tuple[Tensor, Tensor]]) -> Finish:
    """Return what copies buffers to tensors that are not the buffers themselves."""
    copies = [(to, source) for to, source in pairs if to is not source]
    if not copies:
        return None

    def finish() -> None:
        with flambeau.no_grad():
            for to, source in copies:
                to.detach().copy_(source)

    return finish


def _target(tensor: Tensor) -> Tensor:
    """Return the tensor itself if it can be written to as one block of memory, or else a buffer like it."""
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        raise RuntimeError(
            "distributed: expected a tensor whose elements have memory of their own, got an "
            f"expanded one of shape {tuple(tensor.shape)} and strides {tensor.stride()}; write to its clone()"
        )
    dense = tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()
    if dense:
        return tensor
    return flambeau.empty(tensor.shape, dtype=tensor.dtype)


class EngineGroup(ProcessGroup):
    """Processes that communicate by the engine.

    Args:
        rank: this process's rank in the group.
        size: the number of processes.
        communicator: the engine's; None for one process.
        timeout: how long an operation may take.
    """

    def __init__(self, rank: int, size: int, communicator: Communicator | None, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.default_timeout = timeout
        self._communicator = communicator
        self._closed = False

    def close(self) -> None:
        """Refuse operations from now on."""
        self._closed = True

    def _start(
        self,
        name: str,
        post: Callable[[Communicator], Request],
        keeps: Any,
        results: list[Any],
        opts: Any,
        finish: Finish = None,
    ) -> Work:
        """Post an operation, or for one process only finish it."""
        if self._closed:
            raise ValueError(f"{name}: expected a process group that exists, got a destroyed one")
        if self._communicator is None:
            if finish is not None:
                finish()
            return DoneWork(results)
        timeout = self.default_timeout if opts is None or opts.timeout < timedelta() else opts.timeout
        seconds = timeout.total_seconds()
        try:
            request = post(self._communicator)
        except RuntimeError as error:
            raise DistBackendError(f"{name}: {error}") from None
        return EngineWork(name, request, keeps, results, seconds, finish)

    # --- reductions --------------------------------------------------------------------------------

    def _reduction(self, name: str, op: Any, tensor: Tensor) -> tuple[int, int]:
        """Return the numbers of the element and the reduction. Raises: RuntimeError if they do not fit."""
        element = ELEMENTS.get(tensor.dtype)
        floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        if element is None:
            raise RuntimeError(f"{name}: Invalid scalar type: expected numbers or bool, got {tensor.dtype}")
        if isinstance(op, PremulSum) or op is ReduceOp.AVG:
            if not floating:
                raise RuntimeError(
                    f"{name}: expected floating or complex numbers for an average or scaled sum, got "
                    f"{tensor.dtype}"
                )
            return element, REDUCTIONS[ReduceOp.SUM]
        if op not in REDUCTIONS:
            raise RuntimeError(f"{name}: expected a ReduceOp, got {op!r}")
        if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and floating:
            raise RuntimeError(f"{name}: expected integers or bool for {op}, got {tensor.dtype}")
        if op in (ReduceOp.MIN, ReduceOp.MAX) and tensor.dtype.is_complex:
            raise RuntimeError(f"{name}: expected ordered numbers for {op}, got {tensor.dtype}")
        return element, REDUCTIONS[op]

    def _before(self, op: Any, tensor: Tensor) -> Tensor:
        """Return the buffer whose elements are reduced."""
        dense = _dense(tensor)
        return dense * op.factor if isinstance(op, PremulSum) else dense

    def _after(self, op: Any, pairs: Sequence[tuple[Tensor, Tensor]]) -> Finish:
        copy = _then_copy(pairs)
        if op is not ReduceOp.AVG or self._size == 1:
            return copy

        def finish() -> None:
            with flambeau.no_grad():
                for _, buffer in pairs:
                    buffer.detach().div_(self._size)
            if copy is not None:
                copy()

        return finish

    def allreduce(self, tensors: Any, opts: AllreduceOptions = ALLREDUCE) -> Work:
        """Reduce a tensor over all processes; each has the result."""
        (tensor,) = _list(tensors)
        op = opts.reduceOp
        element, reduction = self._reduction("all_reduce", op, tensor)
        _target(tensor)
        source = self._before(op, tensor)
        buffer = tensor if _is_same(source, tensor) else source
        address = buffer.data_ptr()
        return self._start(
            "all_reduce",
            lambda c: c.all_reduce(address, address, buffer.numel(), element, reduction, True),
            (source, buffer),
            [tensor],
            opts,
            self._after(op, [(tensor, buffer)]),
        )

    def allreduce_coalesced(self, tensors: Any, opts: AllreduceOptions = ALLREDUCE) -> Work:
        """Reduce several tensors over all processes."""
        works = [self.allreduce([tensor], opts) for tensor in _list(tensors)]
        return SeveralWorks(works)

    def reduce(self, tensors: Any, opts: ReduceOptions = REDUCE) -> Work:
        """Reduce a tensor over all processes; one has the result."""
        (tensor,) = _list(tensors)
        op, root = opts.reduceOp, opts.rootRank
        element, reduction = self._reduction("reduce", op, tensor)
        source = self._before(op, tensor)
        is_root = self._rank == root
        buffer = tensor if is_root and _is_same(source, tensor) else source
        address = buffer.data_ptr()
        return self._start(
            "reduce",
            lambda c: c.reduce(
                address, address if is_root else 0, buffer.numel(), element, reduction, root, True
            ),
            (source, buffer),
            [tensor],
            opts,
            self._after(op, [(tensor, buffer)]) if is_root else None,
        )

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = REDUCESCATTER) -> Work:
        op = opts.reduceOp
        element, reduction = self._reduction("reduce_scatter_tensor", op, input)
        source = self._before(op, input)
        buffer = source if self._communicator is None else _target(output)
        source = source if self._communicator is None else _apart(source, [buffer])
        return self._start(
            "reduce_scatter_tensor",
            lambda c: c.reduce_scatter(
                source.data_ptr(), buffer.data_ptr(), buffer.numel(), element, reduction, True
            ),
            (source, buffer),
            [output],
            opts,
            self._after(op, [(output, buffer if buffer is output else buffer.reshape(output.shape))]),
        )

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = REDUCESCATTER) -> Work:
        """Reduce lists of tensors over all processes; each has one of the results."""
        (output,), (inputs,) = _list(output_tensors), _list(input_tensors)
        flat = flambeau.cat([_dense(t).reshape(-1) for t in inputs])
        return self._reduce_scatter_base(output, flat, opts)

    # --- copies ------------------------------------------------------------------------------------

    def broadcast(self, tensors: Any, opts: BroadcastOptions = BROADCAST) -> Work:
        """Copy a tensor of one process to all."""
        (tensor,) = _list(tensors)
        root = opts.rootRank
        buffer = _dense(tensor) if self._rank == root else _target(tensor)
        finish = None if self._rank == root else _then_copy([(tensor, buffer)])
        return self._start(
            "broadcast",
            lambda c: c.broadcast(buffer.data_ptr(), _bytes(buffer), root, True),
            buffer,
            [tensor],
            opts,
            finish,
        )

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = ALLGATHER) -> Work:
        """Copy the tensors of all processes to all."""
        (outputs,), (tensor,) = _list(output_tensors), _list(input_tensors)
        source = _dense(tensor)
        buffers = [source] if self._communicator is None else [_target(t) for t in outputs]
        source = source if self._communicator is None else _apart(source, buffers)
        finish = _then_copy(list(zip(outputs, buffers, strict=True)))
        return self._start(
            "all_gather",
            lambda c: c.all_gather(source.data_ptr(), _bytes(source), *_places(buffers), True),
            (source, buffers),
            [outputs],
            opts,
            finish,
        )

    def _allgather_base(self, output: Any, input: Any, opts: Any = ALLGATHER) -> Work:
        source = _dense(input)
        buffer = source if self._communicator is None else _target(output)
        source = source if self._communicator is None else _apart(source, [buffer])
        part = _bytes(source)
        finish = _then_copy([(output, buffer if buffer is output else buffer.reshape(output.shape))])
        return self._start(
            "all_gather_into_tensor",
            lambda c: c.all_gather(
                source.data_ptr(),
                part,
                buffer.data_ptr(),
                [part] * self._size,
                [i * part for i in range(self._size)],
                True,
            ),
            (source, buffer),
            [output],
            opts,
            finish,
        )

    def gather(self, output_tensors: Any, input_tensors: Any, opts: GatherOptions = GATHER) -> Work:
        """Copy the tensors of all processes to one."""
        (tensor,) = _list(input_tensors)
        source, root = _dense(tensor), opts.rootRank
        if self._rank != root:
            return self._start(
                "gather",
                lambda c: c.gather(source.data_ptr(), _bytes(source), 0, [], [], root, True),
                source,
                [],
                opts,
            )
        (outputs,) = _list(output_tensors)
        buffers = [source] if self._communicator is None else [_target(t) for t in outputs]
        source = source if self._communicator is None else _apart(source, buffers)
        return self._start(
            "gather",
            lambda c: c.gather(source.data_ptr(), _bytes(source), *_places(buffers), root, True),
            (source, buffers),
            [outputs],
            opts,
            _then_copy(list(zip(outputs, buffers, strict=True))),
        )

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: ScatterOptions = SCATTER) -> Work:
        """Copy one tensor of one process to each."""
        (tensor,) = _list(output_tensors)
        root = opts.rootRank
        sources: list[Tensor] = []
        places: tuple[int, list[int], list[int]] = (0, [], [])
        if self._rank == root:
            (inputs,) = _list(input_tensors)
            sources = [_apart(_dense(t), [tensor]) for t in inputs]
            places = _places(sources)
        buffer = sources[0] if self._communicator is None else _target(tensor)
        return self._start(
            "scatter",
            lambda c: c.scatter(*places, buffer.data_ptr(), _bytes(buffer), root, True),
            (sources, buffer),
            [tensor],
            opts,
            _then_copy([(tensor, buffer)]),
        )

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = ALLTOALL) -> Work:
        """Copy one tensor of each process to each."""
        outputs, inputs = _list(output_tensors), _list(input_tensors)
        sources = [_dense(t) for t in inputs]
        buffers = sources if self._communicator is None else [_target(t) for t in outputs]
        sources = sources if self._communicator is None else [_apart(s, buffers) for s in sources]
        return self._start(
            "all_to_all",
            lambda c: c.all_to_all(*_places(sources), *_places(buffers), True),
            (sources, buffers),
            [outputs],
            opts,
            _then_copy(list(zip(outputs, buffers, strict=True))),
        )

    def alltoall_base(
        self,
        output: Any,
        input: Any,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: AllToAllOptions = ALLTOALL,
    ) -> Work:
        """Copy one part of the tensor of each process to each."""
        source = _dense(input)
        buffer = source if self._communicator is None else _target(output)
        source = source if self._communicator is None else _apart(source, [buffer])
        sent = _split(source, input_split_sizes, self._size)
        received = _split(output, output_split_sizes, self._size)
        return self._start(
            "all_to_all_single",
            lambda c: c.all_to_all(source.data_ptr(), *sent, buffer.data_ptr(), *received, True),
            (source, buffer),
            [output],
            opts,
            _then_copy([(output, buffer if buffer is output else buffer.reshape(output.shape))]),
        )

    def barrier(self, opts: BarrierOptions = BARRIER) -> Work:
        """Wait for all processes."""
        return self._start("barrier", lambda c: c.barrier(True), None, [], opts)

    # --- messages ----------------------------------------------------------------------------------

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """Send a tensor to a process of the group."""
        (tensor,) = _list(tensors)
        source = _dense(tensor)
        return self._start(
            "send",
            lambda c: c.send(source.data_ptr(), _bytes(source), dst, tag, True),
            source,
            [tensor],
            None,
        )

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """Receive a tensor from a process of the group."""
        (tensor,) = _list(tensors)
        buffer = _target(tensor)
        return self._start(
            "recv",
            lambda c: c.receive(buffer.data_ptr(), _bytes(buffer), src, tag, True),
            buffer,
            [tensor],
            None,
            _then_copy([(tensor, buffer)]),
        )

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receive a tensor from any process of the group."""
        return self.recv(tensors, -1, tag)


class SeveralWorks(Work):
    """Several operations as one.

    Args:
        works: the operations.
    """

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = list(works)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for all operations."""
        return all([work.wait() if timeout is None else work.wait(timeout) for work in self._works])

    def is_completed(self) -> bool:
        """Whether all operations have ended."""
        return all([work.is_completed() for work in self._works])

    def exception(self) -> BaseException | None:
        """Return what failed first, or None."""
        return next((error for work in self._works if (error := work.exception())), None)

    def result(self) -> list[Any]:
        """Return the tensors with the results."""
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> Any:
        """Return a future of `result`."""
        every = flambeau.futures.collect_all([work.get_future() for work in self._works])
        return every.then(lambda f: [tensor for part in f.value() for tensor in part.value()])


def _list(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _is_same(buffer: Tensor, tensor: Tensor) -> bool:
    """Whether a buffer is the tensor's own memory."""
    return buffer.numel() == 0 or buffer.data_ptr() == tensor.data_ptr()


def _split(tensor: Tensor, sizes: list[int], parts: int) -> tuple[list[int], list[int]]:
    """Return lengths and places, in bytes, of the parts of a tensor along its first dimension."""
    rows = tensor.size(0) if tensor.dim() else 1
    row = _bytes(tensor) // rows if rows else 0
    counts = [size * row for size in (sizes or [rows // parts] * parts)]
    places, at = [], 0
    for count in counts:
        places.append(at)
        at += count
    return counts, places
