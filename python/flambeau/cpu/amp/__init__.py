"""Mixed precision on the CPU under its older names; see `flambeau.amp`."""

from flambeau.cpu.amp.autocast_mode import autocast
from flambeau.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
