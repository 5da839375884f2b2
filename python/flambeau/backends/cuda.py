"""Flags of operators on CUDA devices."""

from __future__ import annotations

from types import SimpleNamespace

from flambeau._loading.lazy import attributes

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
)
# Which kernels attention may use; the CPU's is chosen by shape alone.
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Tell whether flambeau was built for CUDA devices.

    Returns: False.

    Example:
        >>> flambeau.backends.cuda.is_built()
        False
    """
    return False


def enable_flash_sdp(enabled: bool) -> None:
    """Allow or forbid flash attention. The CPU chooses its kernel by shapes.

    Args:
        enabled: True to allow it, False to forbid it.
    Returns: None.

    Example:
        >>> flambeau.backends.cuda.enable_flash_sdp(True)
    """
    _attention["flash"] = enabled


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow or forbid memory-efficient attention. The CPU chooses its kernel by shapes.

    Args:
        enabled: True to allow it, False to forbid it.
    Returns: None.

    Example:
        >>> flambeau.backends.cuda.enable_mem_efficient_sdp(True)
    """
    _attention["mem_efficient"] = enabled


def enable_math_sdp(enabled: bool) -> None:
    """Allow or forbid attention by products and softmax. The CPU chooses its kernel by shapes.

    Args:
        enabled: True to allow it, False to forbid it.
    Returns: None.

    Example:
        >>> flambeau.backends.cuda.enable_math_sdp(True)
    """
    _attention["math"] = enabled


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow or forbid cuDNN's attention. The CPU chooses its kernel by shapes.

    Args:
        enabled: True to allow it, False to forbid it.
    Returns: None.

    Example:
        >>> flambeau.backends.cuda.enable_cudnn_sdp(True)
    """
    _attention["cudnn"] = enabled


def flash_sdp_enabled() -> bool:
    """Tell whether flash attention is allowed.

    Returns: a bool.

    Example:
        >>> flambeau.backends.cuda.flash_sdp_enabled()
        True
    """
    return _attention["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """Tell whether memory-efficient attention is allowed.

    Returns: a bool.

    Example:
        >>> flambeau.backends.cuda.mem_efficient_sdp_enabled()
        True
    """
    return _attention["mem_efficient"]


def math_sdp_enabled() -> bool:
    """Tell whether attention by products and softmax is allowed.

    Returns: a bool.

    Example:
        >>> flambeau.backends.cuda.math_sdp_enabled()
        True
    """
    return _attention["math"]


def cudnn_sdp_enabled() -> bool:
    """Tell whether cuDNN's attention is allowed.

    Returns: a bool.

    Example:
        >>> flambeau.backends.cuda.cudnn_sdp_enabled()
        True
    """
    return _attention["cudnn"]


__getattr__, __dir__ = attributes(__name__)
