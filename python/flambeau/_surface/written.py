"""Private names of PyTorch's files that existing programs import, with the same behaviour."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import functools
import itertools
import math
import os
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import flambeau
from flambeau import _C, Tensor

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
MAP_LOCATION = Callable[[Any, str], Any] | flambeau.device | str | os.PathLike[str] | dict[str, str] | None
_TensorMeta = type(Tensor)
List = typing.List  # noqa: UP006  (the name itself is what programs import)


def _get_node_type(tree: Any) -> Any:
    """Return the class under which a node of a tree is registered."""
    from flambeau.utils import _pytree

    return _pytree.namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else type(tree)


class AggregationType(enum.Enum):
    """How the statistics of several calls become one number."""

    SUM = 0
    AVG = 1


SUM, AVG = AggregationType


class TransformGetItemToIndex:
    """Marks a region in which a tensor indexes by tensors; vmap here does so everywhere."""

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...


class SDPAParams(NamedTuple):
    """The arguments of an attention, about which a library asks which kernel takes them."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool


_reduced_sums = False


def _set_math_sdp_allow_fp16_bf16_reduction(enabled: bool) -> None:
    """Set whether attention on CUDA devices may keep sums in half types; there is no device."""
    global _reduced_sums
    _reduced_sums = enabled


def _get_math_sdp_allow_fp16_bf16_reduction() -> bool:
    """Return what was set."""
    return _reduced_sums


def has_triton() -> bool:
    """Whether there is a device that Triton compiles for: no."""
    return False


def has_triton_package() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether a CUDA kernel takes these arguments: False, there is no device."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return the number of inputs ("fan_in") or outputs ("fan_out") of a weight."""
    fans = dict(
        zip(("fan_in", "fan_out"), flambeau.nn.init._fans("_calculate_correct_fan", tensor), strict=True)
    )
    if mode.lower() not in fans:
        raise ValueError(f"_calculate_correct_fan: expected 'fan_in' or 'fan_out' as mode, got {mode!r}")
    return fans[mode.lower()]


def is_contiguous_or_false(a: Tensor, false_if_dde: bool = True) -> bool:
    """Whether a tensor is contiguous; with symbolic sizes, which there are none of, False if unknown."""
    return a.is_contiguous()


# --- settings and constants ------------------------------------------------------------------------

fp32_precision = "none"
default_pg_timeout = datetime.timedelta(minutes=30)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Print tensors within the block as `flambeau.set_printoptions` would with these options."""
    from flambeau._object import printing

    before = dataclasses.asdict(printing._options)
    try:
        flambeau.set_printoptions(**options)
        yield
    finally:
        for name, value in before.items():
            setattr(printing._options, name, value)


def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> contextlib.AbstractContextManager[None]:
    """Allow ways of computing attention within a block; `flambeau.nn.attention.sdpa_kernel` replaces it."""
    from flambeau.nn.attention import SDPBackend, sdpa_kernel

    allowed = {
        SDPBackend.FLASH_ATTENTION: enable_flash,
        SDPBackend.MATH: enable_math,
        SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient,
        SDPBackend.CUDNN_ATTENTION: enable_cudnn,
    }
    return sdpa_kernel([backend for backend, enabled in allowed.items() if enabled])


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return what `repr` says about a tensor, with other text in place of its elements if given."""
    from flambeau._object import printing

    return printing.show(inp, tensor_contents)


# --- layers ----------------------------------------------------------------------------------------

DType = int  # TorchScript's type of dtypes
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def get_enum(reduction: str) -> int:
    """Return the number of a reduction: none, mean, sum are 0, 1, 2."""
    numbers = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}
    if reduction not in numbers:
        raise ValueError(
            f"get_enum: {reduction} is not a valid value for reduction: expected none, mean or sum, "
            f"got {reduction!r}"
        )
    return numbers[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction that two older arguments of losses mean; None is True."""
    found = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce are deprecated: use reduction='{found}'", UserWarning, stacklevel=2
        )
    return found


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the number of `legacy_get_string`'s reduction."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def assert_int_or_pair(arg: list[int], arg_name: str, message: str) -> None:
    """Raise AssertionError with the message, in which {} is the name, unless it is an int or a pair."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise AssertionError(message.format(arg_name))


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments for making parameters among a layer's: device, dtype, memory_format.

    Raises: TypeError for any other, ValueError for one that is given directly and in ``factory_kwargs``.
    """
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    rest = {key: value for key, value in kwargs.items() if key != "factory_kwargs"}
    if odd := set(rest) - names:
        raise TypeError(f"factory_kwargs: expected only factory arguments, got unexpected kwargs {odd}")
    nested = dict(kwargs.get("factory_kwargs", {}))
    if twice := set(nested) & set(rest):
        raise TypeError(f"factory_kwargs: expected each argument once, got {sorted(twice)} twice")
    return nested | rest


# --- optimizers ------------------------------------------------------------------------------------


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return whether a step is fused, and whether it takes lists, where a program leaves that open."""
    return False, False


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `step` that is recorded if the optimizer was made with ``differentiable=True``."""

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with flambeau.set_grad_enabled(bool(self.defaults["differentiable"])):
            return step(self, *args, **kwargs)

    return run


def _get_value(x: Any) -> Any:
    """Return the number of a tensor with one element."""
    return x.item() if isinstance(x, Tensor) else x


def _dispatch_sqrt(x: Any) -> Any:
    """Return the square root of a number or tensor."""
    return x.sqrt() if isinstance(x, Tensor) else math.sqrt(x)


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the devices whose steps can be captured in a graph."""
    return ["cuda", "xpu", "hpu", _C._get_privateuse1_backend_name(), *(["xla"] if supports_xla else [])]


# --- data and checkpoints --------------------------------------------------------------------------


class _FetcherOf:
    """Fetches samples of a data set: `fetch` takes an index, or a list of them for a batch."""

    def __init__(
        self, kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self._stream = iter(dataset) if kind == _DatasetKind.Iterable else None
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return a batch, or a sample; of a stream the next one. StopIteration at the end of a stream."""
        from flambeau.utils.data.worker import Fetcher

        if self._stream is None:
            return Fetcher(self.collate_fn, False, self.auto_collation, None, self.drop_last).at(
                self.dataset, possibly_batched_index
            )
        if not self.auto_collation:
            return self.collate_fn(next(self._stream))
        count = len(possibly_batched_index)
        samples = list(itertools.islice(self._stream, count))
        if not samples or (self.drop_last and len(samples) < count):
            raise StopIteration
        return self.collate_fn(samples)


class _DatasetKind:
    """Kinds of data sets."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> _FetcherOf:
        """Return what fetches the samples of a data set; batches if `auto_collation`."""
        return _FetcherOf(kind, dataset, auto_collation, collate_fn, drop_last)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return two empty lists: no argument is on a device with a generator of its own."""
    return [], []


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: str | None = None) -> None:
    """Set the states of devices' generators; RuntimeError if there are any."""
    if len(devices):
        raise RuntimeError(f"set_device_states: expected no devices, got {list(devices)}")
