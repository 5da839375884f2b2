"""Join: processes with fewer inputs than others take part in their collectives until all have ended."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import flambeau
from flambeau.distributed._collectives import all_reduce
from flambeau.distributed._groups import get_rank
from flambeau.distributed._work import Work
from flambeau.nn.parallel.distributed import DistributedDataParallel

__all__ = ["Join", "JoinHook", "Joinable"]

_WARN_AFTER = 1000  # passes that one process has less than another


@dataclass(frozen=True)
class _JoinConfig:
    """What `Join.notify_join_context` does for a joinable; None in place of it: nothing."""

    throw_on_early_termination: bool
    is_first_joinable: bool  # it alone communicates for all of its context


class JoinHook:
    """What a process without further inputs does for one `Joinable`. A subclass overrides both methods.

    See also: Joinable, Join

    Example:
        >>> hook = flambeau.distributed.algorithms.JoinHook()
        >>> hook.main_hook(), hook.post_hook(is_last_joiner=True)
        (None, None)
    """

    def main_hook(self) -> None:
        """Take part in the collectives of one pass of the other processes."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run once all processes have ended.

        Args:
            is_last_joiner: whether no process ran more passes than this one.
        """


class Joinable(ABC):
    """Base class of objects whose collectives `Join` answers. A subclass calls this constructor.

    Each pass of a subclass calls `Join.notify_join_context` once, before its collectives.

    See also: JoinHook, Join

    Example:
        >>> from flambeau.distributed.algorithms import Joinable, JoinHook
        >>> class Nothing(Joinable):
        ...     join_device, join_process_group = flambeau.device("cpu"), None
        ...     def join_hook(self, **kwargs):
        ...         return JoinHook()
        >>> isinstance(Nothing(), Joinable)
        True
    """

    def __init__(self) -> None:
        super().__init__()
        self._join_config: _JoinConfig | None = None

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook of a process without further inputs.

        Args:
            **kwargs: the further arguments of `Join`, which all of its joinables receive.
        """

    @property
    @abstractmethod
    def join_device(self) -> flambeau.device:
        """The device of the tensors that `Join` communicates."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The processes."""


Joinable.register(DistributedDataParallel)  # flambeau.nn imports nothing of flambeau.distributed


def _common(joinables: list[Any], attribute: str) -> Any:
    found = [getattr(joinable, attribute) for joinable in joinables]
    if any(value != found[0] for value in found):
        raise ValueError(
            f"Join: expected one {attribute} of all joinables, got {found}: Using join context manager with "
            f"multiple {attribute.removeprefix('join_').replace('_', ' ')}s"
        )
    return found[0]


class Join:
    """Context in which processes may have different numbers of inputs.

    A process that leaves the block first runs the main hooks of its joinables once for each pass of the other
    processes, so that no collective waits for it. When all have left, each runs the post hooks.

    Args:
        joinables: objects of classes derived from `Joinable`, in the order in which a pass uses them.
        enable: False: the block has no effect.
        throw_on_early_termination: whether all processes raise RuntimeError as soon as one has no further
            input.
        **kwargs: passed to `Joinable.join_hook`.
    Raises: ValueError without joinables, or with several devices or groups; TypeError for other objects.
    See also: nn.parallel.DistributedDataParallel.join

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> layer = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(2, 1))
        >>> with dist.algorithms.Join([layer]):
        ...     for batch in [flambeau.ones(3, 2), flambeau.ones(1, 2)]:
        ...         layer(batch).sum().backward()
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError(
                "Join: The join context manager requires at least one joinable: expected one, got none"
            )
        for joinable in joinables:
            if not (isinstance(joinable, Joinable) and hasattr(joinable, "_join_config")):
                raise TypeError(
                    "Join: expected objects of classes derived from Joinable, whose constructor was called, "
                    f"got {type(joinable).__name__}"
                )
        self._joinables, self._enable = list(joinables), enable
        self._throw = throw_on_early_termination
        self._device = _common(self._joinables, "join_device")
        self._group = _common(self._joinables, "join_process_group")
        self._hooks = [joinable.join_hook(**kwargs) for joinable in self._joinables]

    def __enter__(self) -> Join:
        for place, joinable in enumerate(self._joinables):
            joinable._join_config = _JoinConfig(self._throw, place == 0) if self._enable else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for joinable in self._joinables:
            joinable._join_config = None
        if not self._enable or kind is not None:
            return
        is_last, passes = True, 0
        while self._still_running():
            is_last, passes = False, passes + 1
            if self._throw:
                self._end_all()
            if passes == _WARN_AFTER:
                warnings.warn(
                    f"Join: Detected uneven input skew of greater than {_WARN_AFTER}. Rank "
                    f"{get_rank(self._group)} has at least {_WARN_AFTER} fewer inputs than others",
                    UserWarning,
                    stacklevel=2,
                )
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _still_running(self) -> bool:
        """Whether another process runs a further pass."""
        count = flambeau.zeros(1, device=self._device)
        all_reduce(count, group=self._group)
        return bool(count.item())

    def _end_all(self) -> None:
        all_reduce(flambeau.ones(1, device=self._device), group=self._group)
        raise RuntimeError(
            f"Join: expected further inputs, got none: Rank {get_rank(self._group)} exhausted all inputs."
        )

    @staticmethod
    def notify_join_context(joinable: Any) -> Work | None:
        """Tell the processes without further inputs that this one runs a pass.

        Args:
            joinable: the object that runs the pass.
        Returns: the reduction of the number of processes that run it, for the first joinable of a context;
            None for the others, and outside of a context.
        Raises: RuntimeError with ``throw_on_early_termination``, if a process has no further input.

        Example:
            >>> layer = flambeau.nn.Linear(1, 1)  # in no context
            >>> flambeau.distributed.algorithms.Join.notify_join_context(layer) is None
            True
        """
        config: _JoinConfig | None = getattr(joinable, "_join_config", None)
        if config is None or not config.is_first_joinable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = all_reduce(flambeau.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = flambeau.zeros(1, device=device)
            all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError(
                    "Join: expected inputs in all processes, got none in one: Detected at least one rank "
                    "that exhausted inputs. Throwing across all ranks."
                )
        return work
