"""flambeau: a tensor framework with eager autograd, generated from two YAML files.

>>> import flambeau as fb
>>> fb.arange(3) + 1
tensor([1, 2, 3])
"""

from __future__ import annotations

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:  # star imports export, in the eyes of type checkers; the explicit ones below do not
    from flambeau import autograd as autograd
    from flambeau import fft as fft
    from flambeau import linalg as linalg
    from flambeau import nn as nn
    from flambeau import optim as optim
    from flambeau import special as special
    from flambeau import utils as utils
    from flambeau._calculus import *  # noqa: F403
    from flambeau._conversion import *  # noqa: F403
    from flambeau._defaults import *  # noqa: F403
    from flambeau._determinism import *  # noqa: F403
    from flambeau._einsum import *  # noqa: F403
    from flambeau._grouping import *  # noqa: F403
    from flambeau._info import *  # noqa: F403
    from flambeau._inquiry import *  # noqa: F403
    from flambeau._linear_algebra import *  # noqa: F403
    from flambeau._size import *  # noqa: F403
    from flambeau._sparse_tensor import *  # noqa: F403
    from flambeau._stft import *  # noqa: F403
    from flambeau._symbols import *  # noqa: F403
    from flambeau._windows import *  # noqa: F403
    from flambeau.autograd.grad_mode import *  # noqa: F403
    from flambeau.functional import *  # noqa: F403
    from flambeau.random import *  # noqa: F403
    from flambeau.serialization import *  # noqa: F403

    # isort: split
    # Handwritten functions stand before what they call.
    from flambeau._C import *  # type: ignore[assignment]  # noqa: F403
    from flambeau._functions import *  # type: ignore[assignment]  # noqa: F403

from flambeau import _C
from flambeau._C import (
    Generator,
    Tensor,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    can_cast,
    clear_autocast_cache,
    default_generator,
    device,
    dtype,
    get_autocast_dtype,
    get_default_dtype,
    get_num_threads,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    layout,
    memory_format,
    promote_types,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    set_default_dtype,
    set_flush_denormal,
    set_num_threads,
    strided,
)
from flambeau._dtypes import *  # noqa: F403
from flambeau._info import finfo, iinfo
from flambeau._lazy import attributes as _attributes
from flambeau._size import Size
from flambeau._staleness import warn_if_stale as _warn_if_stale
from flambeau._surface import install as _install_surface

_install_surface()
_C.__getattr__ = _attributes("flambeau._C")[0]
_C._nn.__getattr__ = _attributes("flambeau._C._nn")[0]
_warn_if_stale(_C.__file__, getattr(_C, "_spec_hash", ""))

# Every function that the specification puts at the top level; what follows may wrap one of them.
globals().update({k: f for k, f in vars(_C._functions).items() if not k.startswith("__")})

from flambeau import _tensor  # noqa: E402  (adds the Python part of Tensor)
from flambeau._assertion import (  # noqa: E402
    _assert,
    _assert_async,
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_tensor_all,
    _check_tensor_all_with,
    _check_type,
    _check_value,
    _check_with,
)
from flambeau._calculus import gradient  # noqa: E402
from flambeau._conversion import (  # noqa: E402
    as_tensor,
    asarray,
    from_dlpack,
    from_file,
    from_numpy,
    frombuffer,
    tensor,
)
from flambeau._defaults import (  # noqa: E402
    TENSOR_TYPES,
    compiled_with_cxx11_abi,
    get_default_device,
    get_float32_matmul_precision,
    get_num_interop_threads,
    is_warn_always_enabled,
    set_default_device,
    set_default_tensor_type,
    set_float32_matmul_precision,
    set_num_interop_threads,
    set_warn_always,
)
from flambeau._determinism import (  # noqa: E402
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from flambeau._einsum import einsum, tensordot  # noqa: E402
from flambeau._errors import OutOfMemoryError as OutOfMemoryError  # noqa: E402
from flambeau._grouping import unique, unique_consecutive  # noqa: E402
from flambeau._inquiry import (  # noqa: E402
    get_file_path,
    is_complex,
    is_conj,
    is_distributed,
    is_floating_point,
    is_inference,
    is_neg,
    is_nonzero,
    is_storage,
    is_tensor,
    nonzero,
    numel,
    result_type,
    typename,
)
from flambeau._linear_algebra import (  # noqa: E402
    cdist,
    chain_matmul,
    embedding_renorm_,
    lu,
    norm,
    norm_except_dim,
    pca_lowrank,
    svd_lowrank,
)
from flambeau._lobpcg import lobpcg  # noqa: E402
from flambeau._overridable import offer as _offer  # noqa: E402
from flambeau._recurrent import (  # noqa: E402
    gru,
    gru_cell,
    lstm,
    lstm_cell,
    rnn_relu,
    rnn_relu_cell,
    rnn_tanh,
    rnn_tanh_cell,
)
from flambeau._sparse_tensor import (  # noqa: E402
    dsmm,
    hsmm,
    hspmm,
    resize_as_sparse_,
    saddmm,
    smm,
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    spmm,
    sspaddmm,
)
from flambeau._stft import istft, stft  # noqa: E402
from flambeau._symbols import (  # noqa: E402
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sqrt,
    sym_sum,
)
from flambeau._tensor_memory import detach_, get_device, is_same_size, is_signed  # noqa: E402
from flambeau._tensor_str import set_printoptions  # noqa: E402
from flambeau._windows import (  # noqa: E402
    bartlett_window,
    blackman_window,
    hamming_window,
    hann_window,
    kaiser_window,
)
from flambeau.amp import autocast  # noqa: E402
from flambeau.amp.older_names import (  # noqa: E402
    get_autocast_cpu_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cpu_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_gpu_dtype,
)
from flambeau.autograd.anomaly_mode import set_anomaly_enabled  # noqa: E402
from flambeau.autograd.grad_mode import (  # noqa: E402
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from flambeau.functional import (  # noqa: E402
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    meshgrid,
    split,
    unravel_index,
)
from flambeau.random import (  # noqa: E402
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from flambeau.serialization import load, save  # noqa: E402
from flambeau.version import __version__  # noqa: E402

_offer(globals())
globals().update(TENSOR_TYPES)
newaxis = None
has_lapack = has_openmp = has_spectral = True
has_mkl = False
legacy_contiguous_format = _C.contiguous_format
torch = _import_module(__name__)  # PyTorch's module has this name as well, and programs use it

# Submodules are imported when they are first used, so that `import flambeau` stays quick.
_attribute, __dir__ = _attributes(
    __name__,
    {
        "UntypedStorage": "flambeau._storage",
        "TypedStorage": "flambeau._typed_storage",
        "load_ipython_extension": "flambeau.compat",
        "compile": "flambeau.compiler",
        "vmap": "flambeau.func",
    },
)


def __getattr__(name: str) -> _Any:
    if name.endswith("Storage") and name not in ("UntypedStorage", "TypedStorage"):
        classes = _import_module("flambeau._typed_storage").CLASSES
        if name in classes:
            return classes[name]
    return _attribute(name)
