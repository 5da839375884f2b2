"""Averages of a model's weights along its training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn import Module
from flambeau.nn.modules.normalization import _BatchNorm
from flambeau.optim._arguments import described
from flambeau.optim._cycle import per_group
from flambeau.optim._schedule import LRScheduler
from flambeau.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
ListAverage = Callable[[Any, Any, Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return a function for ``AveragedModel(avg_fn=...)`` that computes the exponential moving average of a
    tensor.

    Formula:
        decay * averaged + (1 - decay) * current

    Args:
        decay: the weight of the past, in [0, 1].
    Returns: the function from (averaged, current, number of earlier calls) to the new average.
    Raises: ValueError for a decay outside [0, 1].

    Example:
        >>> average = flambeau.optim.swa_utils.get_ema_avg_fn(0.75)
        >>> average(flambeau.tensor([1.0]), flambeau.tensor([2.0]), 1)
        tensor([1.2500])
    """
    _check_decay(decay)
    return lambda averaged, current, count: decay * averaged + (1 - decay) * current


def get_swa_avg_fn() -> Average:
    """Return a function for ``AveragedModel(avg_fn=...)`` that computes the equal mean of all values of a
    tensor.

    Formula:
        averaged + (current - averaged) / (n + 1)

    Returns: the function from (averaged, current, number n of earlier calls) to the new average.

    Example:
        >>> average = flambeau.optim.swa_utils.get_swa_avg_fn()
        >>> average(flambeau.tensor([1.0]), flambeau.tensor([2.0]), 3)
        tensor([1.2500])
    """
    return lambda averaged, current, count: averaged + (current - averaged) / (count + 1)


def get_ema_multi_avg_fn(decay: float = 0.999) -> ListAverage:
    """Return a function for ``AveragedModel(multi_avg_fn=...)`` that computes exponential moving averages in
    place.

    Formula:
        averaged = decay * averaged + (1 - decay) * current

    Args:
        decay: the weight of the past, in [0, 1].
    Returns: the function of (list of averages, list of current tensors, number of earlier calls), which
        returns None.
    Raises: ValueError for a decay outside [0, 1].

    Example:
        >>> average = flambeau.optim.swa_utils.get_ema_multi_avg_fn(0.75)
        >>> mean = flambeau.tensor([1.0])
        >>> average([mean], [flambeau.tensor([2.0])], 1)
        >>> mean
        tensor([1.2500])
    """
    _check_decay(decay)
    return lambda averaged, current, count: _approach(averaged, current, 1 - decay)


def get_swa_multi_avg_fn() -> ListAverage:
    """Return a function for ``AveragedModel(multi_avg_fn=...)`` that computes equal means in place.

    Formula:
        averaged = averaged + (current - averaged) / (n + 1)

    Returns: the function of (list of averages, list of current tensors, number n of earlier calls), which
        returns None.

    Example:
        >>> average = flambeau.optim.swa_utils.get_swa_multi_avg_fn()
        >>> mean = flambeau.tensor([1.0])
        >>> average([mean], [flambeau.tensor([2.0])], 3)
        >>> mean
        tensor([1.2500])
    """
    return lambda averaged, current, count: _approach(averaged, current, 1 / (float(count) + 1))


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"AveragedModel: expected decay from 0 to 1, got {decay}")


def _approach(averaged: list[Tensor], current: list[Tensor], share: float) -> None:
    for a, b in zip(averaged, current, strict=True):
        if a.is_floating_point() or a.is_complex():
            a.lerp_(b, share)
        else:
            a.copy_(a + (b - a) * share)


class AveragedModel(Module):
    """Averaged copy of a model: its parameters are means over the calls of ``update_parameters``.

    Args:
        model: the model to copy.
        device: the device of the averages. None means the device of the model.
        avg_fn: the function from (averaged tensor, current tensor, number of earlier calls) to the new
            average. None means the equal mean of all values.
        multi_avg_fn: the same for lists of tensors; it writes the new averages into the first list.
        use_buffers: whether buffers are averaged too. If not, they are copied from the model.
    Shape: as for `model`.
    Raises: AssertionError if both functions are given.
    Source: Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization".

    Example:
        >>> model = flambeau.nn.Linear(1, 1, bias=False)
        >>> averaged = flambeau.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 2.0):
        ...     _ = flambeau.nn.init.constant_(model.weight, value)
        ...     averaged.update_parameters(model)
        >>> averaged.module.weight.item()
        1.5
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: ListAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: expected avg_fn or multi_avg_fn, got both")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", flambeau.tensor(0, dtype=flambeau.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the averaged model."""
        return self.module(*args, **kwargs)

    def _averaged(self, module: Module) -> list[Tensor]:
        buffers = module.buffers() if self.use_buffers else ()
        return [t.detach() for t in chain(module.parameters(), buffers)]

    def update_parameters(self, model: Module) -> None:
        """Take the model's present weights into the averages."""
        own, current = self._averaged(self.module), self._averaged(model)
        with flambeau.no_grad():
            if self.n_averaged == 0:
                for a, b in zip(own, current, strict=True):
                    a.copy_(b)
            elif self.avg_fn is not None:
                for a, b in zip(own, current, strict=True):
                    a.copy_(self.avg_fn(a, b, self.n_averaged))
            else:
                (self.multi_avg_fn or get_swa_multi_avg_fn())(own, current, self.n_averaged)
            if not self.use_buffers:
                for a, b in zip(self.module.buffers(), model.buffers(), strict=True):
                    a.copy_(b.detach())
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch normalization layers anew, from all batches of a loader.

    Args:
        loader: the batches; the first element of a tuple or list is the input.
        model: the model whose statistics are set; it is called in training mode without gradients.
        device: the device to which the input is moved first. None leaves it where it is.
    Returns: None.

    Example:
        >>> model = flambeau.nn.BatchNorm1d(1)
        >>> flambeau.optim.swa_utils.update_bn([flambeau.tensor([[1.0], [3.0]])], model)
        >>> model.running_mean
        tensor([2.])
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    with flambeau.no_grad():
        for batch in loader:
            given = batch[0] if isinstance(batch, list | tuple) else batch
            model(given if device is None else given.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(training)


@described
class SWALR(LRScheduler):
    """Moves the rate of each group to `swa_lr` in the first epochs, and keeps it there.

    Args:
        {optimizer}
        swa_lr: the final rate; a number, or a list of one number per group.
        anneal_epochs: the number of epochs until the rate is `swa_lr`, 0 or more.
        anneal_strategy: the curve between the rates: "cos" or "linear".
        {last_epoch}
    Raises: ValueError for another `anneal_strategy`, negative `anneal_epochs` or a wrong number of rates.
    Source: Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization".

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> SWALR = flambeau.optim.swa_utils.SWALR
        >>> scheduler = SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(
            optimizer.param_groups, per_group("SWALR", "swa_lr", optimizer, swa_lr), strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: expected 'cos' or 'linear' as anneal_strategy, got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: expected anneal_epochs >= 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        """How much of the way to `swa_lr` is gone."""
        t = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """Return the rate of each group, from the one in use."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(max(0, step - 1)), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self._rates(), strict=True):
            target = group["swa_lr"]
            start = target if before == 1 else (rate - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
