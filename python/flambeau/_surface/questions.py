"""What libraries ask PyTorch's `_C` about: switches of parts that do not exist here, and their state."""

from __future__ import annotations

from typing import Any

_GLIBCXX_USE_CXX11_ABI = True
has_cuda = has_mps = has_xpu = has_mkldnn = has_cudnn = False
has_openmp = has_lapack = has_spectral = True


def _log_api_usage_once(event: str) -> None:
    """Do nothing: uses of interfaces are not counted."""


_log_api_usage_metadata = _log_api_usage_once


def _get_tracing_state() -> None:
    """Return None: there is no tracer in C++."""


def _cuda_getDeviceCount() -> int:
    """Return the number of CUDA devices: 0."""
    return 0


def _get_accelerator(check: bool | None = None) -> Any:
    """Return the kind of the accelerator as a device; the CPU, where there is none."""
    from flambeau._C import device
    from flambeau._state.device_modules import accelerator_kind

    return device(accelerator_kind() or "cpu")


def _are_functorch_transforms_active() -> bool:
    """Whether vmap, grad or another transform is running in this thread."""
    from flambeau.func._layers import is_any_active

    return is_any_active()


def _jit_can_fuse_on_cpu() -> bool:
    """Whether a compiler in C++ merges loops: there is none."""
    return False


_jit_can_fuse_on_gpu = _jit_can_fuse_on_cpu


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """Do nothing and return False: there is no C++ executor that could specialise graphs."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_profiling_mode
_jit_set_nvfuser_guard_mode = _jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = (
    _jit_set_profiling_mode
)
