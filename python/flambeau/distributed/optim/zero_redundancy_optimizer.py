"""ZeroRedundancyOptimizer: each process has the optimizer's states of a part of the parameters."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._collectives import broadcast
from flambeau.distributed._groups import default_group
from flambeau.distributed._objects import gather_object
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook
from flambeau.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]

_OF_ONE_SIDE = ("params", "param_names")  # of a parameter group, what differs between the whole and a part


class _StepHook(JoinHook):
    """Steps as often as the other processes, whose parameters depend on this one's part."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Update this process's part, with the gradients that earlier joinables have set."""
        self._optimizer.step()


def _copy_settings(sources: Iterable[dict[str, Any]], targets: Iterable[dict[str, Any]]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.update({k: v for k, v in source.items() if k not in _OF_ONE_SIDE})


def _ordered(groups: Iterable[dict[str, Any]]) -> list[Tensor]:
    return [p for group in groups for p in group["params"]]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Divides the states of an optimizer among processes, which then need less memory each.

    The parameters of each group are given to ranks, the largest first, each to the rank with the fewest
    elements so far. A step updates this process's part, and then copies each part to all processes.
    Parameters and gradients must be equal in all processes, as `DistributedDataParallel` makes them.

    Args:
        params: the parameters, or dicts of parameter groups, in the same order in all processes.
        optimizer_class: the class of the optimizer of each part, whose steps depend on one parameter each.
        process_group: the processes; None: all.
        parameters_as_bucket_view: whether the parameters become views of one tensor per rank and dtype, which
            saves a copy in each step; their ``data`` must then not be replaced.
        overlap_with_ddp: not supported; False.
        **defaults: passed to `optimizer_class`.

    Attributes:
        optim: the optimizer of this process's part.
    Raises: ValueError without parameters or for `overlap_with_ddp`; TypeError for what is no tensor.
    Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
        section 5.1.
    See also: nn.parallel.DistributedDataParallel, distributed.algorithms.Join

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> w = flambeau.nn.Parameter(flambeau.ones(2))
        >>> optimizer = dist.optim.ZeroRedundancyOptimizer([w], flambeau.optim.SGD, lr=0.5)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.5, 0.5]
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise ValueError("ZeroRedundancyOptimizer: expected overlap_with_ddp=False, got True")
        self.process_group = default_group() if process_group is None else process_group
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._owners: dict[int, int] = {}  # id of a parameter -> the rank that updates it
        self._loads = [0] * self.world_size  # elements of each rank
        self._gathered: list[dict[str, Any]] = []
        self.optim: Optimizer | None = None
        self._as_views = parameters_as_bucket_view
        Joinable.__init__(self)  # Optimizer's constructor does not call the next one
        Optimizer.__init__(self, params, defaults)
        self._optim_constructor = optimizer_class
        self.optim = optimizer_class([self._part(group) for group in self.param_groups], **defaults)
        _copy_settings(self.optim.param_groups, self.param_groups)
        self._make_buckets()

    def _part(self, group: dict[str, Any]) -> dict[str, Any]:
        """Return a parameter group of this process's part."""
        settings = {k: v for k, v in group.items() if k not in _OF_ONE_SIDE}
        return settings | {"params": [p for p in group["params"] if self._owners[id(p)] == self.rank]}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, the same in all processes.

        Args:
            param_group: a dict with ``params`` and hyperparameters.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in sorted(group["params"], key=lambda p: -p.numel()):
            owner = self._loads.index(min(self._loads))
            self._owners[id(parameter)] = owner
            self._loads[owner] += parameter.numel()
        if self.optim is not None:
            self.optim.add_param_group(self._part(group))
            _copy_settings(self.optim.param_groups, self.param_groups)
            self._make_buckets()

    def _make_buckets(self) -> None:
        """Find what each rank sends: its parameters of one dtype together."""
        self._parts: list[tuple[int, list[Tensor], Tensor | None]] = []
        for rank in range(self.world_size):
            by_dtype: dict[flambeau.dtype, list[Tensor]] = {}
            for parameter in _ordered(self.param_groups):
                if self._owners[id(parameter)] == rank:
                    by_dtype.setdefault(parameter.dtype, []).append(parameter)
            for same in by_dtype.values():
                self._parts.append((rank, same, self._merged(same) if self._as_views else None))

    @staticmethod
    def _merged(parameters: list[Tensor]) -> Tensor:
        """Return one tensor with the elements of parameters, which become its views."""
        flat = flambeau.cat([p.detach().reshape(-1) for p in parameters])
        for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.data = part.view(parameter.shape)
        return flat

    def _copy_parts(self) -> None:
        """Copy the parameters of each rank to all."""
        sent = []
        with flambeau.no_grad():
            for rank, parameters, merged in self._parts:
                flat = flambeau.cat([p.reshape(-1) for p in parameters]) if merged is None else merged
                sent.append((flat, broadcast(flat, group=self.process_group, group_src=rank, async_op=True)))
            for (flat, work), (rank, parameters, merged) in zip(sent, self._parts, strict=True):
                assert work is not None  # each process is in its own group
                work.wait()
                if merged is None and rank != self.rank:
                    for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                        p.copy_(part.view(p.shape))

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this process's part, and copy all parts to all processes.

        Args:
            closure: computes the loss again, for optimizers that need it.
            **kwargs: passed to the step of the optimizer.
        Returns: the loss of `closure`, or None.
        """
        assert self.optim is not None  # only while the constructor runs
        Join.notify_join_context(self)
        _copy_settings(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._copy_parts()
        _copy_settings(self.optim.param_groups, self.param_groups)
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Copy the states of all processes to one, for its `state_dict`. All processes call this.

        Args:
            to: the rank, in the group, of the process.
        """
        assert self.optim is not None
        _copy_settings(self.param_groups, self.optim.param_groups)
        stream = io.BytesIO()
        flambeau.save(self.optim.state_dict(), stream)
        found: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(stream.getvalue(), found, group=self.process_group, group_dst=to)
        self._gathered = [
            flambeau.load(io.BytesIO(part), map_location="cpu", weights_only=False) for part in found or ()
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all parameters, as the optimizer of a single process does.

        Returns: the dict that the last `consolidate_state_dict` collected in this process.
        Raises: RuntimeError without that call.
        """
        if not self._gathered:
            raise RuntimeError(
                "ZeroRedundancyOptimizer.state_dict: Optimizer state has not been consolidated on this rank: "
                f"expected a call of consolidate_state_dict(to={self.rank}) on all ranks, got none"
            )
        whole = super().state_dict()
        places = {id(p): i for i, p in enumerate(_ordered(self.param_groups))}
        state: dict[int, Any] = {}
        for rank, part in enumerate(self._gathered):
            owned = [p for p in _ordered(self.param_groups) if self._owners[id(p)] == rank]
            state |= {places[id(owned[i])]: value for i, value in part["state"].items()}
        whole["state"] = {i: state[i] for i in sorted(state)}
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the states of all parameters; this process keeps its part.

        Args:
            state_dict: what `state_dict`, or that of an optimizer of a single process, returned.
        Raises: ValueError if groups or numbers of parameters differ.
        """
        assert self.optim is not None
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError(
                "ZeroRedundancyOptimizer.load_state_dict: expected groups of "
                f"{[len(g['params']) for g in self.param_groups]} parameters, got "
                f"{[len(g['params']) for g in groups]}: loaded state dict has a different parameter group"
            )
        names = [name for group in groups for name in group["params"]]
        owned = [self._owners[id(p)] == self.rank for p in _ordered(self.param_groups)]
        mine = [name for name, is_mine in zip(names, owned, strict=True) if is_mine]
        part = self.optim.state_dict()
        part["state"] = {
            i: deepcopy(state_dict["state"][name])
            for i, name in enumerate(mine)
            if name in state_dict["state"]
        }
        _copy_settings(deepcopy(groups), part["param_groups"])
        self.optim.load_state_dict(part)
        _copy_settings(self.optim.param_groups, self.param_groups)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what `distributed.algorithms.Join` runs in a process without further batches.

        Args:
            **kwargs: no effect.
        """
        return _StepHook(self)

    @property
    def join_device(self) -> flambeau.device:
        """The device of the parameters."""
        return flambeau.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group
