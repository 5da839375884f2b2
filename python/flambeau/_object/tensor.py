"""The part of Tensor that is written in Python: protocols, conversions, pickling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, device, dtype
from flambeau._loading.absence import absent_function
from flambeau._object.exchange import ExchangeMethods
from flambeau._object.memory import MemoryMethods
from flambeau._object.rebuild import slots_of
from flambeau._object.sparse import SparseMethods
from flambeau._object.subclass import SubclassMethods, another_wrapper, copied_wrapper
from flambeau._object.transposes import alone, matrices, warn_of_transpose
from flambeau._overrides.overridable import offer_members
from flambeau._state.function_state import DisableTorchFunctionSubclass
from flambeau._types import naming, older_names

# Operators that the methods below extend.
_nonzero = Tensor.nonzero
_EXTENDED = frozenset(("nonzero", "norm"))


# Results of these keep their class.
NOT_CONVERTED = tuple(vars(Tensor)[name].__get__ for name in ("_base", "grad"))


class _TensorMethods:
    """Every attribute that does not exist yet in Tensor is copied there."""

    __slots__ = ()

    def __repr__(self: Any, *, tensor_contents: None = None) -> str:
        from flambeau._object.printing import show

        with DisableTorchFunctionSubclass():
            return show(self)

    def __format__(self: Any, spec: str) -> str:
        if self.dim() == 0 and not self.is_meta and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __iter__(self: Any) -> Iterator[Tensor]:
        if self.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self: Any) -> Tensor:
        return self if self.dim() == 0 else self.flip(0)

    def __contains__(self: Any, element: Any) -> bool:
        if not isinstance(element, Tensor | int | float | complex):
            raise RuntimeError(f"__contains__: expected a Tensor or a number, got {type(element)}")
        return bool((self == element).any().item())

    def __abs__(self: Any) -> Tensor:
        return self.abs()

    def __nonzero__(self: Any) -> bool:
        return bool(self)

    def __long__(self: Any) -> int:
        return int(self)

    def __pos__(self: Any) -> Tensor:
        return self.positive()

    def __div__(self: Any, other: Any) -> Tensor:
        return self / other

    def __idiv__(self: Any, other: Any) -> Tensor:
        self /= other
        return self

    def __rdiv__(self: Any, other: Any) -> Tensor:
        return self.reciprocal() * other

    # --- complex numbers ---------------------------------------------------------------------------

    @property
    def real(self: Any) -> Tensor:
        """The real part, as a view; the tensor itself where it is real."""
        return _C._functions.real(self)

    @real.setter
    def real(self: Any, value: Any) -> None:
        _C._functions.real(self).copy_(_as_source(value))

    @property
    def imag(self: Any) -> Tensor:
        """The imaginary part of a complex tensor, as a view."""
        return _C._functions.imag(self)

    @imag.setter
    def imag(self: Any, value: Any) -> None:
        _C._functions.imag(self).copy_(_as_source(value))

    # --- spectra -----------------------------------------------------------------------------------

    def stft(self: Any, n_fft: int, *args: Any, **options: Any) -> Tensor:
        """Fourier transforms of windowed frames; as flambeau.stft."""
        from flambeau._operators.stft import stft

        return stft(self, n_fft, *args, **options)

    def istft(self: Any, n_fft: int, *args: Any, **options: Any) -> Tensor:
        """Inverse of stft; as flambeau.istft."""
        from flambeau._operators.stft import istft

        return istft(self, n_fft, *args, **options)

    # --- Python functions, element by element ------------------------------------------------------

    def apply_(self: Any, callable: Any) -> Tensor:
        """Replace each element by what the Python function gives for it; slow."""
        return _fill_from(self, map(callable, self.detach().flatten().tolist()))

    def map_(self: Any, other: Tensor, callable: Any) -> Tensor:
        """Replace each element by the Python function of it and of the element of `other`; slow."""
        values = other.expand(self.shape).detach().flatten().tolist()
        return _fill_from(self, map(callable, self.detach().flatten().tolist(), values))

    def map2_(self: Any, x: Tensor, y: Tensor, callable: Any) -> Tensor:
        """Replace each element by what the Python function gives for it and those of `x` and `y`; slow."""
        others = [t.expand(self.shape).detach().flatten().tolist() for t in (x, y)]
        return _fill_from(self, map(callable, self.detach().flatten().tolist(), *others))

    def __len__(self: Any) -> int:
        if self.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    @classmethod
    def __torch_function__(
        cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator on plain tensors and give its results this class."""
        return _C._default_torch_function(cls, func, types, args, kwargs)

    # --- conversions -----------------------------------------------------------------------------

    def type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the type, or convert to another dtype."""
        if dtype is None:
            space = f"{naming.root}.sparse" if self.is_sparse else naming.root
            return f"{space}.{older_names.NAMES[naming.short(self.dtype)]}Tensor"
        return self.to(older_names.dtype_of(dtype))

    def type_as(self: Any, other: Tensor) -> Tensor:
        """Convert to the dtype and device of another tensor."""
        return self.to(dtype=other.dtype, device=other.device)

    def cpu(self: Any, memory_format: Any = _C.preserve_format) -> Tensor:
        """Copy to the host's memory; itself if it is there already."""
        return self.to(device="cpu", memory_format=memory_format)

    def cuda(
        self: Any,
        device: int | device | str | None = None,
        non_blocking: bool = False,
        memory_format: Any = _C.preserve_format,
    ) -> Tensor:
        """Copy to a CUDA device."""
        where = f"cuda:{device}" if isinstance(device, int) else device or "cuda"
        return self.to(device=where, non_blocking=non_blocking, memory_format=memory_format)

    def _to_kind(self: Any, kind: str, device: Any, options: dict[str, Any]) -> Tensor:
        return self.to(device=f"{kind}:{device}" if isinstance(device, int) else device or kind, **options)

    def ipu(self: Any, device: Any = None, non_blocking: bool = False, **options: Any) -> Tensor:
        """Copy to an IPU."""
        return self._to_kind("ipu", device, {"non_blocking": non_blocking, **options})

    def xpu(
        self: Any,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: Any = _C.preserve_format,
    ) -> Tensor:
        """Copy to an Intel GPU."""
        return self._to_kind("xpu", device, {"non_blocking": non_blocking, "memory_format": memory_format})

    def mtia(self: Any, device: Any = None, non_blocking: bool = False, **options: Any) -> Tensor:
        """Copy to an MTIA device."""
        return self._to_kind("mtia", device, {"non_blocking": non_blocking, **options})

    def record_stream(self: Any, s: Any) -> None:
        """Mark memory as in use by a stream. Raises: NotImplementedError, as memory of the CPU has none."""
        raise NotImplementedError("record_stream: expected a tensor of an accelerator, got one of the CPU")

    def new_tensor(
        self: Any,
        data: Any,
        dtype: dtype | None = None,
        device: device | str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Copy data into a new tensor; dtype and device are this tensor's unless given."""
        from flambeau._object.conversion import warn_of_copy

        warn_of_copy(data)
        out = _C.tensor(
            data, self.dtype if dtype is None else dtype, self.device if device is None else device
        )
        return out.requires_grad_() if requires_grad else out

    def is_pinned(self: Any, device: Any = None) -> bool:
        """Whether the memory is pinned for copies to a device; never, here."""
        return False

    def const_data_ptr(self: Any) -> int:
        """Return the memory address of element 0."""
        return self.data_ptr()

    def is_distributed(self: Any) -> bool:
        """Whether several processes hold parts; never."""
        return False

    def pin_memory(self: Any, device: Any = None) -> Tensor:
        """Return the tensor: memory of the host needs no pinning.

        Raises: RuntimeError for tensors on other devices, meta tensors excepted.
        """
        if self.device.type not in ("cpu", "meta"):
            raise RuntimeError(
                f"pin_memory: cannot pin: expected a dense CPU tensor, got one on {self.device}"
            )
        return self

    def nonzero(self: Any, *, as_tuple: bool = False) -> Any:
        """Return the positions of elements that are not 0.

        Args:
            as_tuple: one tensor of indices per dimension, instead of one row per element.
        """
        return tuple(self.nonzero_numpy()) if as_tuple else _nonzero(self)

    def norm(self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """Return the norm of order `p` along `dim`; see flambeau.norm."""
        from flambeau._operators.linear_algebra import norm

        return norm(self, p, dim, keepdim, dtype=dtype)

    def lu(self: Any, pivot: bool = True, get_infos: bool = False) -> Any:
        """Return the packed LU factors and the pivots; see flambeau.lu."""
        from flambeau._operators.linear_algebra import lu

        return lu(self, pivot, get_infos)

    # --- classes ---------------------------------------------------------------------------------

    def as_subclass(self: Any, cls: Any) -> Any:
        """Return this tensor as an object of a subclass, with the same data and history."""
        return _C._as_subclass(self, cls)

    # --- storage, pickling, copies -----------------------------------------------------------------

    def untyped_storage(self: Any) -> Any:
        """Return the memory, which views share."""
        from flambeau._object.storage import storage_of

        return storage_of(self)

    def storage(self: Any) -> Any:
        """Return the memory as elements of the tensor's dtype."""
        from flambeau._object.typed_storage import TypedStorage

        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)

    _typed_storage = storage

    def storage_type(self: Any) -> Any:
        """Return the class of storages of the dtype."""
        from flambeau._object.typed_storage import CLASS_OF_DTYPE, CLASSES

        return CLASSES[CLASS_OF_DTYPE[self.dtype]]

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        from flambeau._object.rebuild import reduced

        with DisableTorchFunctionSubclass():
            return reduced(self)

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "__deepcopy__: expected a leaf (only Tensors that are created explicitly by the user support "
                "the deepcopy protocol), got a computed tensor; copy its detach()"
            )
        if id(self) in memo:
            return memo[id(self)]
        import copy

        if _C._has_no_memory(self):
            memo[id(self)] = copied_wrapper(self, memo)
            return memo[id(self)]
        if self.is_meta or self.is_sparse:
            from flambeau._object.rebuild import reduced

            function, arguments = reduced(self.detach().clone() if self.is_sparse else self)
            memo[id(self)] = function(*arguments)
            if self.is_sparse and self.requires_grad:
                memo[id(self)].requires_grad_()
            return memo[id(self)]
        storage = copy.deepcopy(self.untyped_storage(), memo)
        geometry = (self.storage_offset(), tuple(self.shape), self.stride())
        out = _rebuild_tensor(type(self), storage, self.dtype, *geometry, self.requires_grad, _pending(self))
        memo[id(self)] = out
        if self.grad is not None:
            out.grad = copy.deepcopy(self.grad, memo)
        for name, value in {**vars(self), **slots_of(self)}.items():
            setattr(out, name, copy.deepcopy(value, memo))
        return out

    def __copy__(self: Any) -> Any:
        if _C._has_no_memory(self):
            out = another_wrapper(self)
        else:
            out = _C._as_subclass(self, type(self)) if type(self) is not Tensor else self.detach()
            if self.requires_grad:
                out = out.detach().as_subclass(type(self)).requires_grad_()
        vars(out).update(vars(self))
        for name, value in slots_of(self).items():
            setattr(out, name, value)
        return out

    def __setstate__(self: Any, state: dict[str, Any]) -> None:
        vars(self).update(state)

    # --- shapes ------------------------------------------------------------------------------------

    @property
    def T(self: Any) -> Tensor:
        """All dimensions in reverse order."""
        if self.dim() != 2:
            warn_of_transpose("T", self.dim())
        return self.permute(*range(self.dim() - 1, -1, -1)) if self.dim() else self

    @property
    def mT(self: Any) -> Tensor:
        """The last two dimensions swapped."""
        return matrices("mT", self).transpose(-2, -1) if self.dim() else alone("mT", self)

    @property
    def mH(self: Any) -> Tensor:
        """The last two dimensions swapped, complex numbers conjugated."""
        return matrices("mH", self).transpose(-2, -1).conj() if self.dim() else alone("mH", self).conj()

    @property
    def H(self: Any) -> Tensor:
        """The conjugate transpose of a matrix; a tensor without dimensions is its own."""
        if self.dim() > 2:
            raise RuntimeError(f"H: expected a matrix, got {self.dim()} dimensions; mH is for batches")
        return matrices("H", self).transpose(0, 1).conj() if self.dim() else alone("H", self).conj()

    # --- groups ------------------------------------------------------------------------------------

    def unique(
        self: Any,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """Return the different elements; see `flambeau.unique`."""
        from flambeau._operators.grouping import unique

        return unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(
        self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """Return the first of each group of equal neighbours; see `flambeau.unique_consecutive`."""
        from flambeau._operators.grouping import unique_consecutive

        return unique_consecutive(self, return_inverse, return_counts, dim)


def _as_source(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else _C._functions.scalar_tensor(value)


def _fill_from(target: Any, values: Iterable[Any]) -> Tensor:
    """Write one value per element, in row-major order."""
    if target.requires_grad:
        raise RuntimeError(
            "__setstate__: expected a tensor without requires_grad, got one whose values have a history"
        )
    import flambeau

    flat = flambeau.tensor(list(values), dtype=target.dtype)
    return target.copy_(flat.reshape(target.shape))


def _pending(tensor: Tensor) -> tuple[str, ...]:
    """Return the views that make a tensor of what its memory holds."""
    views = {"_conj": tensor.is_conj(), "_neg_view": tensor.is_neg()}
    return tuple(name for name, is_pending in views.items() if is_pending)


def _rebuild_tensor(
    cls: type[Tensor],
    storage: Any,
    dtype: dtype,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    pending: tuple[str, ...] = (),
) -> Tensor:
    out = _C._rebuild(storage.tensor, dtype, size, stride, offset)
    for view in pending:
        out = getattr(_C._functions, view)(out).detach()
    if cls is not Tensor:
        out = out.as_subclass(cls)
    return out.requires_grad_() if requires_grad else out


def _caster(name: str, to: dtype) -> Any:
    def cast(self: Any, memory_format: Any = None) -> Tensor:
        return self.to(to) if memory_format is None else self.to(to, memory_format=memory_format)

    cast.__name__ = name
    cast.__doc__ = f"Convert to {to}; itself if it has that dtype."
    return cast


def _always(value: Any) -> Callable[[Tensor], Any]:
    return lambda self: value


# Methods that PyTorch has for what is not built, or had.
_ABSENT = {
    "flambeau has no quantized tensors": (
        "dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
        "q_zero_point qscheme"
    ),
    "flambeau has no nested tensors": "to_padded_tensor",
    "flambeau has no first-class dimensions": "index",
    "flambeau keeps no layout of oneDNN": "to_mkldnn",
    "it was removed from PyTorch; linalg has it": "eig lstsq solve symeig",
    "it was removed from PyTorch; distributions have it": "reinforce",
}


def _install() -> None:
    own = {"__module__", "__dict__", "__weakref__", "__doc__", "__slots__", "__qualname__"}
    written = (_TensorMethods, SubclassMethods, ExchangeMethods, MemoryMethods, SparseMethods)
    for name, value in (item for methods in written for item in vars(methods).items()):
        replaces = name.startswith("__") or name in _EXTENDED
        if name not in own and (replaces or name not in vars(Tensor)):
            setattr(Tensor, name, value)
    _C._set_default_torch_function(vars(Tensor)["__torch_function__"], NOT_CONVERTED)
    names = "float double half int long short bool bfloat16 chalf cfloat cdouble".split()
    # Kinds of memory and of devices that do not exist here.
    for name in "ipu maia mkldnn mps mtia nested sparse_csr vulkan xla xpu".split():
        if f"is_{name}" not in vars(Tensor):
            setattr(
                Tensor,
                f"is_{name}",
                property(lambda self: False, doc=f"Whether it is of the kind {name}: no."),
            )
    for name, value in (("name", None), ("volatile", False)):  # of PyTorch's first versions
        if name not in vars(Tensor):
            setattr(Tensor, name, property(_always(value)))
    for missing, absent in _ABSENT.items():
        for name in absent.split():
            if name not in vars(Tensor):
                setattr(Tensor, name, absent_function(name, "flambeau.Tensor", missing))
    for name, to in [*((n, getattr(_C, n)) for n in names), ("char", _C.int8), ("byte", _C.uint8)]:
        if name not in vars(Tensor):
            setattr(Tensor, name, _caster(name, to))


_install()
offer_members()
