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
    """Whether flambeau was built for CUDA: not this one."""
    return False


def enable_flash_sdp(enabled: bool) -> None:
    """Allow or forbid flash attention."""
    _attention["flash"] = enabled


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow or forbid memory-efficient attention."""
    _attention["mem_efficient"] = enabled


def enable_math_sdp(enabled: bool) -> None:
    """Allow or forbid attention by products and softmax."""
    _attention["math"] = enabled


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow or forbid cuDNN's attention."""
    _attention["cudnn"] = enabled


def flash_sdp_enabled() -> bool:
    """Whether flash attention is allowed."""
    return _attention["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """Whether memory-efficient attention is allowed."""
    return _attention["mem_efficient"]


def math_sdp_enabled() -> bool:
    """Whether attention by products and softmax is allowed."""
    return _attention["math"]


def cudnn_sdp_enabled() -> bool:
    """Whether cuDNN's attention is allowed."""
    return _attention["cudnn"]


__getattr__, __dir__ = attributes(__name__)
