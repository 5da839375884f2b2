"""Mixed precision: operators in the dtypes that suit them, and losses scaled so that gradients fit.

>>> import flambeau as fb
>>> with fb.autocast("cpu", dtype=fb.bfloat16):
...     product = fb.ones(2, 2) @ fb.ones(2, 2)
>>> product.dtype
flambeau.bfloat16
"""

from flambeau.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
