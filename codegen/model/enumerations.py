"""Names that the specification and the handwritten C++ share."""

from __future__ import annotations

# What autocast does to floating point arguments of an operator. lower_precision: casts to the dtype of the
# region. float32: to float32. float32_result: asks for it by `dtype` where that is None. promote: to the
# widest dtype among them. refuse: an error.
CAST_POLICIES = ("lower_precision", "float32", "float32_result", "promote", "refuse")
AUTOCAST_DEVICES = ("CPU", "CUDA")
