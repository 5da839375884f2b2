"""Tables of functions that capture does not interpret."""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import inspect
import itertools
import math
import operator
import sysconfig
import types
from typing import Any

import flambeau
from flambeau._operators import control_flow as loops
from flambeau.nn.attention.flex_attention import flex_attention
from flambeau.utils.checkpoint import checkpoint

# Tensor attributes that the guard of the tensor determines, and methods that return such values.
METADATA = frozenset(
    "shape dtype device ndim requires_grad is_leaf layout itemsize nbytes names is_sparse is_cuda "
    "is_cpu is_meta is_mps is_xpu is_xla is_quantized is_nested is_mkldnn is_sparse_csr is_vulkan "
    "is_ipu is_mtia is_maia size stride dim numel nelement ndimension element_size "
    "get_device is_contiguous is_floating_point is_complex is_signed is_conj is_neg is_inference "
    "has_names is_pinned is_same_size __len__ type is_non_overlapping_and_dense "
    "dim_order is_distributed sparse_dim dense_dim output_nr".split()
)
# The attributes in METADATA that depend on sizes and strides.
SIZED = frozenset(
    "shape size stride numel nelement nbytes is_contiguous __len__ is_non_overlapping_and_dense dim_order "
    "is_same_size".split()
)
# The attributes in METADATA that a loop may change without changing sizes or dtypes.
UNSTEADY = frozenset(
    "requires_grad is_leaf stride is_contiguous is_non_overlapping_and_dense dim_order output_nr".split()
)
# Tensor attributes whose values are tensors.
TENSOR_ATTRIBUTES = frozenset("T mT H mH real imag data".split())
# Methods and functions that read the elements of tensors, or their addresses in memory.
READS_ELEMENTS = frozenset(
    "item tolist numpy __bool__ __int__ __float__ __index__ __complex__ __contains__ __array__ "
    "__dlpack__ equal allclose is_nonzero __repr__ __str__ __format__ __reduce_ex__ data_ptr storage "
    "untyped_storage _typed_storage const_data_ptr storage_offset is_shared is_set_to is_coalesced "
    "backward register_hook "
    "register_post_accumulate_grad_hook retain_grad share_memory_ pin_memory nonzero argwhere "
    "masked_select unique unique_consecutive unique_dim bincount repeat_interleave to_sparse coalesce "
    "index_put_ set_ resize_ resize_as_ requires_grad_ detach_ swap_tensors".split()
) - {"index_put_"}
# Functions of the package that return no tensors, and whose results the guards keep constant.
CONSTANT = frozenset(
    "is_tensor is_storage is_floating_point is_complex is_signed is_conj is_neg is_inference "
    "is_grad_enabled is_inference_mode_enabled get_default_dtype get_default_device "
    "is_autocast_enabled get_autocast_dtype is_autocast_cpu_enabled get_autocast_cpu_dtype "
    "get_autocast_gpu_dtype is_autocast_cache_enabled is_autocast_available promote_types result_type "
    "can_cast broadcast_shapes finfo iinfo numel is_same_size "
    "are_deterministic_algorithms_enabled is_available is_deterministic_algorithms_warn_only_enabled "
    "typename has_torch_function has_torch_function_unary has_torch_function_variadic calculate_gain "
    "_is_functional_tensor _get_grad_modes _transform_depth _is_autocast_available is_anomaly_enabled "
    "is_scripting is_tracing _get_privateuse1_backend_name".split()
)
# Functions that change the thread state that operators read; graphs contain calls of them.
STATE = frozenset(
    "_set_grad_enabled _set_grad_modes set_autocast_enabled set_autocast_dtype "
    "set_autocast_cache_enabled autocast_increment_nesting autocast_decrement_nesting "
    "clear_autocast_cache _set_fwd_grad_enabled".split()
)
# Functions that tell whether a graph is being captured.
ASKS_FOR_CAPTURE = frozenset({"is_compiling", "is_dynamo_compiling"})

# Functions without effects, whose results depend on their arguments alone.
_PURE_BUILTINS = (
    "abs all any ascii bin bool bytes callable chr complex dict divmod enumerate float format frozenset "
    "getattr hasattr hash hex int isinstance issubclass iter len list max min oct ord pow range repr "
    "reversed round set slice sorted str sum tuple type zip object staticmethod classmethod property"
)
PURE: set[Any] = {getattr(builtins, name) for name in _PURE_BUILTINS.split()}
PURE |= {next, functools.reduce}
PURE |= {value for value in vars(math).values() if isinstance(value, types.BuiltinFunctionType)}
PURE |= {value for value in vars(operator).values() if isinstance(value, types.BuiltinFunctionType)}
PURE |= {
    itertools.chain, itertools.product, itertools.combinations, itertools.permutations, itertools.repeat,
    itertools.count, itertools.islice, itertools.zip_longest, itertools.accumulate,
    itertools.chain.from_iterable, collections.OrderedDict, collections.deque, collections.defaultdict,
    collections.Counter, functools.partial, inspect.isgeneratorfunction, inspect.iscoroutinefunction,
    inspect.isfunction, inspect.ismethod, inspect.isclass,
    types.MethodType, types.MappingProxyType, types.SimpleNamespace, copy.copy, types.CellType,
    object.__new__, dict.fromkeys, type(None), type(iter([])), type(iter({}.values())), types.GenericAlias,
    operator.itemgetter, operator.attrgetter, operator.methodcaller, tuple.__new__, builtins.vars,
}  # fmt: skip
PURE |= {
    BaseException,
    *(v for v in vars(builtins).values() if isinstance(v, type) and issubclass(v, Exception)),
}
_TORCH_VALUES = (flambeau.Size, flambeau.device, flambeau.dtype, flambeau.finfo, flambeau.iinfo)
PURE |= {*_TORCH_VALUES}

FLEX_ATTENTION: Any = flex_attention
# Higher-order functions, whose function arguments become graphs inside the graph.
HIGHER_ORDER: frozenset[Any] = frozenset(
    {loops.cond, loops.while_loop, loops.scan, loops.map, loops.associative_scan, checkpoint, flex_attention}
)

# Global variables and attributes of classes in flambeau that calls of its functions change; others stay.
CHANGING = frozenset(
    {
        ("flambeau.nn.modules.hooks", "everywhere"),
        ("flambeau.nn.modules.hooks", "registration"),
        ("flambeau.nn.utils.parametrize", "_depth"),
        ("flambeau.nn.utils.parametrize", "_cache"),
        ("flambeau.distributions.distribution", "Distribution._validate_args"),
        ("flambeau.autograd.forward_ad", "_current_level"),
    }
)

# Function -> Python function that capture interprets instead (`compiler.substitute_in_graph`).
SUBSTITUTES: dict[Any, Any] = {}


def substitute_of(function: Any) -> Any:
    """Return the substitute that a program registered for a function, or None."""
    try:
        return SUBSTITUTES.get(function)
    except TypeError:
        return None


# Methods of builtin classes that change the object.
MUTATORS: dict[type, frozenset[str]] = {
    list: frozenset(
        "append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__ __imul__".split()
    ),
    dict: frozenset(
        "pop popitem clear update setdefault __setitem__ __delitem__ __ior__ move_to_end".split()
    ),
    set: frozenset(
        "add remove discard pop clear update difference_update intersection_update "
        "symmetric_difference_update".split()
    ),
    collections.deque: frozenset(
        "append appendleft extend extendleft pop popleft clear insert remove rotate reverse".split()
    ),
}
# Classes of values whose methods are all pure.
PURE_OWNERS: tuple[type, ...] = (
    str, bytes, int, float, complex, bool, tuple, range, slice, frozenset, type(None), type({}.keys()),
    type({}.values()), type({}.items()), types.MappingProxyType, type, property, flambeau.Size,
    flambeau.dtype, flambeau.device,
)  # fmt: skip

# Modules of the standard library whose functions are interpreted; calls of others end a graph.
_INTERPRETED = frozenset(
    "contextlib functools collections dataclasses enum operator typing types abc _collections_abc "
    "string numbers copy itertools statistics fractions bisect heapq keyword reprlib textwrap".split()
)
# Methods of builtin containers that iterate over their arguments.
ITERATES = frozenset(
    "extend extendleft update join __iadd__ difference difference_update union intersection "
    "intersection_update symmetric_difference issubset issuperset isdisjoint fromkeys __init__".split()
)
_STANDARD = sysconfig.get_path("stdlib")
_THIRD_PARTY = ("site-packages", "dist-packages")
_NATIVE_PACKAGES = frozenset({"numpy", "torch", "matplotlib", "pandas", "scipy", "PIL", "sympy"})
# Modules of the package whose functions are interpreted; its other functions become nodes of a graph.
_INLINED = (
    "flambeau.nn.modules", "flambeau.autograd", "flambeau.utils._contextlib", "flambeau.amp",
    "flambeau.distributions", "flambeau.nn.parameter", "flambeau.optim", "flambeau.nn.utils",
    "flambeau.utils._pytree", "flambeau._state", "flambeau.compiler.capture.polyfills", "flambeau._types",
    "flambeau._dynamo.eval_frame",
)  # fmt: skip


def module_of(function: Any) -> str:
    """Return the name of the module that defines a function, under flambeau's own names."""
    name = getattr(function, "__module__", None) or ""
    if isinstance(function, types.FunctionType):
        name = function.__globals__.get("__name__", name)
    return (
        "flambeau" + name[5:] if name == "torch" or (name.startswith("torch.") and is_standing_in()) else name
    )


def is_standing_in() -> bool:
    """Whether `flambeau.compat` presents flambeau as torch."""
    return flambeau.Tensor.__module__.startswith("torch")


def is_own(function: Any) -> bool:
    """Whether flambeau defines a function."""
    return module_of(function).partition(".")[0] == "flambeau"


def is_own_module(module: types.ModuleType) -> bool:
    """Whether a module belongs to flambeau, also under the names of `flambeau.compat`."""
    return module.__name__.partition(".")[0] in ("flambeau", "torch")


def is_interpreted(function: types.FunctionType) -> bool:
    """Whether a call of a Python function is interpreted instead of run."""
    module = module_of(function)
    top = module.partition(".")[0]
    if top == "flambeau":
        return module.startswith(_INLINED)
    if top in _NATIVE_PACKAGES:
        return False
    path = function.__code__.co_filename
    is_standard = path.startswith(_STANDARD) and not any(part in path for part in _THIRD_PARTY)
    if path.startswith("<frozen"):
        is_standard = True
    return not is_standard or top in _INTERPRETED
