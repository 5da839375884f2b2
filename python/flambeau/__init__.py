"""flambeau: a tensor framework with eager autograd, generated from two YAML files.

>>> import flambeau as fb
>>> fb.arange(3) + 1
tensor([1, 2, 3])
"""

from __future__ import annotations

import os as _os
import typing as _typing
from importlib import import_module as _import_module
from math import e, inf, nan, pi

from flambeau import _C
from flambeau._loading.backends import autoload as _autoload
from flambeau._loading.lazy import attributes as _attributes
from flambeau._loading.staleness import warn_if_stale as _warn_if_stale
from flambeau._loading.tables import install as _install_surface
from flambeau._types.dtypes import *
from flambeau._types.limits import *
from flambeau._types.size import *

if not _typing.TYPE_CHECKING:  # type checkers read the stub, below
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

_install_surface()
_C.__getattr__ = _attributes("flambeau._C")[0]
_C._nn.__getattr__ = _attributes("flambeau._C._nn")[0]
_warn_if_stale(_C.__file__, getattr(_C, "_spec_hash", ""))

# Every function that the specification puts at the top level; what follows may wrap one of them.
globals().update({k: f for k, f in vars(_C._functions).items() if not k.startswith("__")})

_import_module("flambeau._object.tensor")  # adds the Python part of Tensor
from flambeau._arguments.assertion import *
from flambeau._object.conversion import *
from flambeau._object.inquiry import *
from flambeau._object.memory import *
from flambeau._object.printing import *
from flambeau._object.sparse import *
from flambeau._operators.calculus import *
from flambeau._operators.einsum import *
from flambeau._operators.grouping import *
from flambeau._operators.linear_algebra import *
from flambeau._operators.lobpcg import *
from flambeau._operators.recurrent import *
from flambeau._operators.stft import *
from flambeau._overrides.overridable import offer as _offer
from flambeau._state.defaults import *
from flambeau._state.defaults import TENSOR_TYPES as _TENSOR_TYPES
from flambeau._state.determinism import *
from flambeau._types.errors import *
from flambeau._types.symbols import *
from flambeau.amp import autocast as autocast
from flambeau.amp.older_names import *
from flambeau.autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
from flambeau.autograd.grad_mode import enable_grad as enable_grad
from flambeau.autograd.grad_mode import inference_mode as inference_mode
from flambeau.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from flambeau.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from flambeau.autograd.grad_mode import no_grad as no_grad
from flambeau.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from flambeau.functional import *
from flambeau.random import fork_rng as fork_rng
from flambeau.random import get_rng_state as get_rng_state
from flambeau.random import initial_seed as initial_seed
from flambeau.random import manual_seed as manual_seed
from flambeau.random import seed as seed
from flambeau.random import set_rng_state as set_rng_state
from flambeau.serialization import load as load
from flambeau.serialization import save as save
from flambeau.version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from flambeau import autograd as autograd
    from flambeau import fft as fft
    from flambeau import linalg as linalg
    from flambeau import nn as nn
    from flambeau import optim as optim
    from flambeau import special as special
    from flambeau import utils as utils

    # isort: split
    # A name that stands above as well is the handwritten function, which calls the generated one.
    from flambeau._C import *  # type: ignore[assignment]
    from flambeau._functions import *  # type: ignore[assignment]

_offer(globals())
globals().update(_TENSOR_TYPES)
newaxis = None
has_lapack = has_openmp = has_spectral = True
has_mkl = False
legacy_contiguous_format = _C.contiguous_format
torch = _import_module(__name__)  # PyTorch's module has this name as well, and programs use it

# Submodules are imported when they are first used, so that `import flambeau` stays quick.
_attribute, __dir__ = _attributes(
    __name__,
    {
        "UntypedStorage": "flambeau._object.storage",
        "TypedStorage": "flambeau._object.typed_storage",
        "load_ipython_extension": "flambeau.compat",
        "compile": "flambeau.compiler",
        **dict.fromkeys(("SymBool", "SymFloat", "SymInt"), "flambeau.fx.experimental._sizes.numbers"),
        "vmap": "flambeau.func",
    },
)


def __getattr__(name: str) -> _typing.Any:
    if name.endswith("Storage") and name not in ("UntypedStorage", "TypedStorage"):
        classes = _import_module("flambeau._object.typed_storage").CLASSES
        if name in classes:
            return classes[name]
    return _attribute(name)


if _os.environ.get("TORCH_LOGS"):
    _import_module("flambeau._logging")
_autoload()
