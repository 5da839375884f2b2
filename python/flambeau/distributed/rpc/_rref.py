"""References to values of other workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flambeau.distributed.rpc import _current
from flambeau.distributed.rpc._agent import Agent
from flambeau.distributed.rpc._calling import async_call, fetch, start_remote
from flambeau.distributed.rpc._references import Held, Used
from flambeau.distributed.rpc._worker_info import WorkerInfo
from flambeau.distributed.rpc.constants import UNSET_RPC_TIMEOUT
from flambeau.distributed.rpc.functions import async_execution
from flambeau.futures import Future

Value = TypeVar("Value")


class RRef(Generic[Value]):
    """A reference to a value that one worker, the owner, keeps for all workers.

    It can be an argument and a result of remote calls. The owner keeps the value until no worker
    refers to it. `rpc.remote` makes references to results of other workers.

    Args:
        value: a value of this worker.
        type_hint: no effect.
    Raises: RuntimeError before `init_rpc`.

    Example:
        >>> port = "tcp://127.0.0.1:0"
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=port)
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> reference = rpc.RRef(flambeau.ones(2))
        >>> reference.owner_name(), reference.to_here()
        ('alone', tensor([1., 1.]))
        >>> reference.rpc_sync().sum()
        tensor(2.)
        >>> rpc.shutdown()
    """

    _agent: Agent
    _state: Held | Used

    def __init__(self, value: Value, type_hint: Any = None) -> None:
        agent = _current.get("RRef")
        self._agent, self._state = agent, Held(agent, agent.references.new_number())
        self._state.future.settle(value)

    @classmethod
    def _of(cls, agent: Agent, state: Held | Used) -> RRef[Any]:
        made = cls.__new__(cls)
        made._agent, made._state = agent, state
        return made

    def _state_in(self, agent: Agent | None) -> Held | Used:
        if agent is None or self._agent is not agent:
            raise RuntimeError("RRef: expected the worker that made it, got one that has been shut down")
        return self._state

    def _live(self, name: str) -> Held | Used:
        return self._state_in(_current.get(f"RRef.{name}"))

    def owner(self) -> WorkerInfo:
        """Return the worker that has the value."""
        state = self._live("owner")
        return self._agent.info if isinstance(state, Held) else self._agent.workers[state.owner]

    def owner_name(self) -> str:
        """Return the name of the worker that has the value."""
        return self.owner().name

    def is_owner(self) -> bool:
        """Whether this worker has the value."""
        return isinstance(self._live("is_owner"), Held)

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows this reference."""
        state = self._live("confirmed_by_owner")
        return isinstance(state, Held) or state.is_confirmed()

    def local_value(self) -> Value:
        """Return the value on its owner, after waiting for it.

        Raises: RuntimeError on other workers; the exception of the function that should have made it.
        """
        state = self._live("local_value")
        if isinstance(state, Used):
            raise RuntimeError(
                f"RRef.local_value: expected a call on the owner, {self.owner()}, got can't call "
                "localValue() on "
                f"user {self._agent.info}"
            )
        return state.future.wait()

    def to_here(self, timeout: float = UNSET_RPC_TIMEOUT) -> Value:
        """Return the value, or a copy of it if another worker has it.

        Args:
            timeout: in seconds; 0: none; -1: the default of the worker.
        Raises: the exception of the function that should have made it; RuntimeError after the time-out.
        """
        state = self._live("to_here")
        if isinstance(state, Held):
            return state.future.wait()
        self._check_creation(state)
        value = fetch(self._agent, state, timeout)
        state.confirmed = state.confirmed or state.creation is not None  # it came before the question
        return value

    def _check_creation(self, state: Used) -> None:
        creation = state.creation
        if creation is None or not creation.done():
            return
        try:
            creation.value()
        except RuntimeError as error:
            if "RPC ran for more than set timeout" in str(error):
                raise RuntimeError(
                    "RRef: RRef creation via rpc.remote() timed out: expected the value within the "
                    "timeout of "
                    "the call, got no answer, and it is possible that the RRef on the owner node does not "
                    "exist"
                ) from None
        except Exception:
            return  # the owner tells it

    def _get_future(self) -> Any:
        """Return the future of the creation by `rpc.remote`; it is None for other references."""
        state = self._live("_get_future")
        return None if isinstance(state, Held) else state.creation

    def _get_type(self, timeout: float = UNSET_RPC_TIMEOUT, blocking: bool = True) -> Any:
        """Return the type of the value; with `blocking=False`, a future of it."""
        state = self._live("_get_type")
        if isinstance(state, Held):
            if blocking:
                return type(state.future.wait())
            return state.future.then(lambda future: type(future.value()))
        if state.type_future is None:
            state.type_future = async_call(self._agent, state.owner, _type, (self,), {}, timeout)
        return state.type_future.wait() if blocking else state.type_future

    def rpc_sync(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """Return an object with the methods of the value: they run on the owner, and are waited for."""
        return _Methods(self, timeout, lambda *call: async_call(*call).wait())

    def rpc_async(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """Return an object with the methods of the value: they run on the owner and return futures."""
        return _Methods(self, timeout, async_call)

    def remote(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """Return an object with the methods of the value: they run on the owner and return RRefs."""
        return _Methods(self, timeout, lambda *call: start_remote(RRef._of, *call))

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Run a backward pass from the value, which is a scalar tensor, on its owner.

        Args:
            dist_autograd_ctx_id: the context that gets the gradients; -1 on the owner: an ordinary backward
                pass that adds to `.grad`.
            retain_graph: whether the graph can be used again.
        Raises: RuntimeError for values that have no gradient.
        """
        state = self._live("backward")
        if isinstance(state, Held):
            _backward(self, dist_autograd_ctx_id, retain_graph)
            return
        if dist_autograd_ctx_id == -1:
            raise RuntimeError(
                "RRef.backward: expected dist_autograd_ctx_id on a worker that does not own the value, got -1"
            )
        arguments = (self, dist_autograd_ctx_id, retain_graph)
        async_call(self._agent, state.owner, _backward, arguments, {}, 0.0).wait()

    def __reduce__(self) -> Any:
        raise RuntimeError(
            "RRef: expected it in a remote call, got Can not pickle rref in python pickler, rref can only be "
            "pickled when using RPC"
        )

    def __repr__(self) -> str:
        if isinstance(self._state, Held):
            return f"OwnerRRef({_identifier(self._state.number)})"
        return (
            f"UserRRef(RRefId = {_identifier(self._state.number)}, ForkId = {_identifier(self._state.user)})"
        )


def _identifier(number: tuple[int, int]) -> str:
    return f"GloballyUniqueId(created_on={number[0]}, local_id={number[1]})"


class _Methods:
    """The methods of the value of an RRef."""

    def __init__(self, reference: RRef[Any], timeout: float, call: Callable[..., Any]) -> None:
        self._reference, self._timeout, self._call = reference, timeout, call

    def __getattr__(self, name: str) -> Any:
        reference, agent = self._reference, _current.get("RRef")
        owner = reference.owner().id

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._call(agent, owner, _invoke, (reference, name, args, kwargs), {}, self._timeout)

        method.__name__ = name
        return method


def is_async(function: Any) -> bool:
    """Whether a function is marked by `async_execution`."""
    return getattr(function, "_flambeau_async_execution", False)


def _type(reference: RRef[Any]) -> type:
    return type(reference.local_value())


@async_execution
def _invoke(reference: RRef[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
    method = getattr(reference.local_value(), name)
    value = method(*args, **kwargs)
    if is_async(method):
        return value
    done: Future[Any] = Future()
    done.set_result(value)
    return done


def _backward(reference: RRef[Any], context: int, retain_graph: bool) -> None:
    root = reference.local_value()
    if context == -1:
        if not hasattr(root, "backward"):
            raise RuntimeError(f"RRef.backward: expected a tensor, got {type(root).__name__}")
        root.backward(retain_graph=retain_graph)
        return
    from flambeau.distributed.autograd import backward

    backward(context, [root], retain_graph)


RRef.__module__ = "flambeau.distributed.rpc"
