"""Kinds of events, by PyTorch's numbers."""

from __future__ import annotations

import enum


class RecordScope(enum.IntEnum):
    """The kind of an event, in `FunctionEvent.scope`: FUNCTION for operators, USER_SCOPE for ranges."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9
