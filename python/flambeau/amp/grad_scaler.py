"""Scaling of losses, so that small gradients do not vanish in float16."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import flambeau
from flambeau._C import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """The steps that were taken for an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _new_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses so that float16 gradients do not underflow, and skips steps whose gradients overflow.

    The scale grows after `growth_interval` successive steps with finite gradients, and shrinks after each
    step with an infinite or NaN gradient.

    Args:
        device: the device type: "cuda", which disables the scaler without it, or "cpu".
        init_scale: the initial scale.
        growth_factor: the factor by which the scale grows, above 1.
        backoff_factor: the factor by which the scale shrinks, below 1.
        growth_interval: the number of successive finite steps after which the scale grows.
        enabled: False makes `scale` the identity and `step` the optimizer's own.
    Raises: AssertionError for factors outside their range.

    Example:
        >>> w = flambeau.ones(1, requires_grad=True)
        >>> scaler = flambeau.amp.GradScaler("cpu", init_scale=8.0)
        >>> optimizer = flambeau.optim.SGD([w], lr=0.5)
        >>> scaler.scale(w.sum()).backward()
        >>> w.grad
        tensor([8.])
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.tolist()
        [0.5]
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if device == "cuda" and enabled and not flambeau.cuda.is_available():
            warnings.warn(
                "GradScaler('cuda'): expected a CUDA device, found none; losses are not scaled", stacklevel=2
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"GradScaler: expected a growth factor > 1.0, got {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"GradScaler: expected a backoff factor < 1.0, got {backoff_factor}")
        self._init_scale = init_scale
        self._scale: Tensor | None = None  # made when it is first needed
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_new_state)

    def _made(self, action: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(f"{action}: expected a call of scale(loss) before, got _scale=None")
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev: Any) -> None:
        if self._growth_tracker is not None:
            raise AssertionError(
                "GradScaler: _growth_tracker is initialized before _scale; create a new GradScaler"
            )
        self._scale = flambeau.full((), self._init_scale, dtype=flambeau.float32, device=dev)
        self._growth_tracker = flambeau.full((), self._init_growth_tracker, dtype=flambeau.int32, device=dev)

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or the tensors of nested iterables, by the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(outputs.device)
        if not isinstance(outputs, Iterable):
            raise ValueError(f"scale: expected tensors, alone or in iterables, got {type(outputs).__name__}")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Divide the gradients in place; return by device whether one of them was infinite or NaN."""
        found: dict[Any, Tensor] = {}
        with flambeau.no_grad():
            for parameter in (p for group in optimizer.param_groups for p in group["params"]):
                grad = parameter.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype == flambeau.float16:
                    raise ValueError(
                        "GradScaler.unscale_: Attempting to unscale FP16 gradients: expected float32 "
                        "gradients, got float16; keep parameters in float32"
                    )
                seen = found.setdefault(grad.device, found_inf.to(grad.device).clone())
                seen.logical_or_((~grad.isfinite()).any())
                grad.mul_(inv_scale.to(grad.device))
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the factor, for example to clip them before `step`."""
        if not self._enabled:
            return
        scale, _ = self._made("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "GradScaler.unscale_: unscale_() has already been called for this optimizer; call "
                "update() first"
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError(
                "GradScaler.unscale_: unscale_() called after step(); call update() between them"
            )
        inverse = scale.double().reciprocal().float()
        none = flambeau.full((), 0.0, dtype=flambeau.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, none, False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if any(found.item() for found in state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients if `unscale_` did not, and run the optimizer's step if all are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("step: a closure is not supported while GradScaler is enabled")
        self._made("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError(
                "GradScaler.step: step() has already been called for this optimizer; call update() first"
            )
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError(
                "step: No inf checks were recorded: the optimizer's parameters have no gradients"
            )
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Grow or shrink the factor depending on the steps' gradients, or set it to `new_scale`."""
        if not self._enabled:
            return
        scale, tracker = self._made("update")
        if new_scale is not None:
            scale.fill_(new_scale if not isinstance(new_scale, Tensor) else new_scale.item())
        else:
            states = self._per_optimizer_states.values()
            found = [found for state in states for found in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("update: No inf checks were recorded; call step() or unscale_() before")
            self._adapt(scale, tracker, any(f.item() for f in found))
        self._per_optimizer_states = defaultdict(_new_state)

    def _adapt(self, scale: Tensor, tracker: Tensor, overflowed: bool) -> None:
        if overflowed:
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
        elif int(tracker.item()) + 1 < self._growth_interval:
            tracker.add_(1)
        else:
            grown = scale * self._growth_factor
            if grown.isfinite().item():
                scale.copy_(grown)
            tracker.fill_(0)

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def get_scale(self) -> float:
        """Return the factor; 1.0 when scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return `growth_factor`."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set `growth_factor`."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return `backoff_factor`."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set `backoff_factor`."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return `growth_interval`."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set `growth_interval`."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint; an empty dict if scaling is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of a checkpoint. Raises: RuntimeError for the state of a disabled scaler."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "load_state_dict: expected the state of an enabled GradScaler, got an empty dict"
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "GradScaler: a scaler can be pickled only after update() or before the first step; call "
                    "update() first"
                )
            state["_init_scale"], state["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        scale, _ = self._made("_check_inf_per_device")
        one = flambeau.ones((), dtype=flambeau.float32, device=scale.device)
        found = self._unscale_grads_(optimizer, one, flambeau.zeros_like(one), True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
