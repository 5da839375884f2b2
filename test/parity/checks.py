"""What is asked of one operator: each check takes an entry of the database, a dtype, and yields verdicts."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flambeau
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .compare import Different, same, same_choice
from .twin import Missing, NotDense, to_flambeau, to_torch, twin

DTYPES = ("float32", "float64", "int64", "bool", "complex64", "bfloat16", "float16")

SAMPLES = 12
SEED = 20260101


@dataclass(frozen=True)
class Verdict:
    """One sample of one check: `cause` is empty where both agree."""

    check: str
    cause: str


def seed_all() -> None:
    """Both libraries and Python at the same numbers."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    flambeau.manual_seed(SEED)


def samples(op: Any, dtype: torch.dtype, requires_grad: bool) -> list[Any]:
    """Up to SAMPLES of the database's samples, drawn with a seed."""
    seed_all()
    found = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    if len(found) > SAMPLES:
        chosen = sorted(random.Random(SEED).sample(range(len(found)), SAMPLES))
        found = [found[i] for i in chosen]
    return found


class NotApplicable(Exception):
    """PyTorch itself refuses this."""


def oracle(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    seed_all()
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise NotApplicable(str(error)) from error


def run_ours(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    seed_all()
    return function(*args, **kwargs)


def judged(check: str, compare: Callable[..., None], *args: Any) -> Iterator[Verdict]:
    """The verdict of one comparison; nothing if PyTorch or the layout rules it out."""
    try:
        compare(*args)
    except (NotApplicable, NotDense):
        return
    except Missing as error:
        yield Verdict(check, f"missing: {error}")
    except Different as error:
        yield Verdict(check, f"different: {error}")
    except Exception as error:
        yield Verdict(check, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    else:
        yield Verdict(check, "")


# --- values ----------------------------------------------------------------------------------------


def forward(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """Function, method, in-place and out= forms against PyTorch's function."""
    for sample in samples(op, dtype, False):
        args = (sample.input, *sample.args)
        yield from judged("function", _function, op, sample, args)
        yield from judged("method", _method, op, args, sample.kwargs)
        if not sample.broadcasts_input:
            yield from judged("inplace", _inplace, op, args, sample.kwargs)
        if op.supports_out:
            yield from judged("out", _out, op, args, sample.kwargs)


def unspecified(op: Any, args: Any, kwargs: Any) -> bool:
    """Whether values are whatever memory held: PyTorch's own change when it fills what is uninitialised,
    or when other values were in the memory that it takes.
    """
    plain = oracle(op.op, *copies(args), **copies(kwargs))
    if isinstance(plain, torch.Tensor) and plain.layout == torch.strided:
        zeros, ones = (_after_release(op, args, kwargs, plain.untyped_storage().nbytes(), v) for v in (0, 1))
        try:
            same(to_torch(zeros), to_torch(ones))
        except Different:
            return True
        plain = zeros
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        filled = oracle(op.op, *copies(args), **copies(kwargs))
    finally:
        torch.use_deterministic_algorithms(before)
    try:
        same(to_torch(filled), to_torch(plain))
    except Different:
        return True
    return False


class _Filled(TorchDispatchMode):
    """Writes `value` into what PyTorch's `empty` and similar functions return to a caller in Python."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.fill_(self.value) if "empty" in func.overloadpacket.__name__ else result


def _after_release(op: Any, args: Any, kwargs: Any, size: int, value: int) -> Any:
    """The result in memory whose bytes are likely `value`: they were when it was given back."""
    released = [torch.full((size,), value, dtype=torch.uint8) for _ in range(16)]
    del released
    with _Filled(value):  # the allocator itself writes into small blocks that are given back
        return oracle(op.op, *copies(args), **copies(kwargs))


def copies(value: Any) -> Any:
    """The same values in fresh memory, since some operators write to their arguments."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if (
        isinstance(value, tuple | list)
        and not hasattr(value, "_fields")
        and not isinstance(value, torch.Size)
    ):
        return type(value)(map(copies, value))
    if isinstance(value, dict):
        return {k: copies(v) for k, v in value.items()}
    return value


def _function(op: Any, sample: Any, args: Any) -> None:
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(sample.kwargs)
    theirs = oracle(op.op, *copies(args), **copies(sample.kwargs))
    ours = run_ours(twin(op.op), *ours_args, **ours_kwargs)
    same_result(op, (args, sample.kwargs), ours, theirs, sample.output_process_fn_grad)


def same_result(op: Any, call: Any, ours: Any, theirs: Any, process: Callable[[Any], Any]) -> None:
    """Raise Different unless the results of a call agree, by the rules of docs/parity.md."""
    args, kwargs = call
    try:
        same(to_torch(ours), theirs)
    except Different:
        same(to_torch(ours), theirs, values=False)
        if _as_exact(op, args, kwargs, ours, theirs):
            return
        if not kwargs.get("stable") and same_choice(to_torch(ours), theirs, args[0]):
            return
        if unspecified(op, args, kwargs):
            return
        # Where a result is not unique (the sign of an eigenvector), the database says what is.
        unique = process(theirs)
        if unique is theirs:
            raise
        same(to_torch(twin(process)(ours)), unique)


HALF = (torch.float16, torch.bfloat16)


def _as_exact(op: Any, args: Any, kwargs: Any, ours: Any, theirs: Any) -> bool:
    """Whether a result of half types, or of arguments of them, is the one that PyTorch gives in float64."""
    halves = [t.dtype for t in _tensors((theirs, args, kwargs)) if t.dtype in HALF]
    if not isinstance(theirs, torch.Tensor) or not halves:
        return False
    try:
        exact = oracle(op.op, *widened(copies(args)), **widened(copies(kwargs)))
        same(to_torch(ours).to(halves[0]), exact.to(halves[0]))
    except (Different, NotApplicable):
        return False
    return True


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return [value] if isinstance(value, torch.Tensor) else []


def widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in HALF else value
    if isinstance(value, tuple | list) and not hasattr(value, "_fields") and type(value) is not torch.Size:
        return type(value)(map(widened, value))
    if isinstance(value, dict):
        return {k: widened(v) for k, v in value.items()}
    return torch.float64 if value in HALF else value


def _method(op: Any, args: Any, kwargs: Any) -> None:
    method = op.method_variant
    if method is None or not isinstance(args[0], torch.Tensor):
        raise NotApplicable
    theirs = oracle(method, *copies(args), **copies(kwargs))
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(kwargs)
    ours = run_ours(_own_method(method), *ours_args, **ours_kwargs)
    known = not _not_unique(op, theirs, args, kwargs) and not unspecified(op, args, kwargs)
    same(to_torch(ours), theirs, "method", values=known)


def _own_method(method: Any) -> Any:
    name = getattr(method, "__name__", "<lambda>")  # a partial has none
    if name == "<lambda>":
        return twin(method)
    if not hasattr(flambeau.Tensor, name):
        raise Missing(f"Tensor.{name}")
    return getattr(flambeau.Tensor, name)


def _inplace(op: Any, args: Any, kwargs: Any) -> None:
    method = op.inplace_variant
    if method is None or not isinstance(args[0], torch.Tensor):
        raise NotApplicable
    theirs = oracle(method, *copies(args), **copies(kwargs))
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(kwargs)
    ours = run_ours(_own_method(method), *ours_args, **ours_kwargs)
    if isinstance(theirs, torch.Tensor) and ours is not ours_args[0]:
        raise Different("in-place form: not its own tensor returned")
    try:
        same(to_torch(ours), theirs, "in-place")
    except Different:
        same(to_torch(ours), theirs, "in-place", values=False)
        if not _as_exact(op, args, kwargs, ours, theirs):
            raise


def _out(op: Any, args: Any, kwargs: Any) -> None:
    expected = oracle(op.op, *copies(args), **copies(kwargs))
    tensors = isinstance(expected, torch.Tensor) or (
        isinstance(expected, tuple | list) and all(isinstance(x, torch.Tensor) for x in expected)
    )
    if not tensors:
        raise NotApplicable
    out = (
        torch.empty_like(expected)
        if isinstance(expected, torch.Tensor)
        else tuple(map(torch.empty_like, expected))
    )
    theirs = oracle(op.op, *copies(args), **copies(kwargs), out=out)
    place = to_flambeau(out)
    ours = run_ours(twin(op.op), *to_flambeau(args), **to_flambeau(kwargs), out=place)
    if theirs is None and ours is None:  # lists of tensors are filled, not returned
        theirs, ours = out, place
    pairs = [(ours, place)] if isinstance(place, flambeau.Tensor) else list(zip(ours, place, strict=True))
    if any(a is not b for a, b in pairs):
        raise Different("out=: another tensor than the one given")
    same(to_torch(ours), theirs, "out=", values=not _not_unique(op, theirs, args, kwargs))


def _not_unique(op: Any, theirs: Any, args: Any, kwargs: Any) -> bool:
    """Whether the function form already had to be compared in another way: out= then adds shape and dtype."""
    try:
        same(to_torch(run_ours(twin(op.op), *to_flambeau(args), **to_flambeau(kwargs))), theirs)
    except Different:
        return True
    return False


# --- errors --------------------------------------------------------------------------------------------


def errors(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """The database's wrong calls raise the same type of exception."""
    del dtype
    if op.error_inputs_func is None:
        return
    seed_all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wrong in op.error_inputs("cpu"):
            yield from judged("error", _error, op, wrong)


def _error(op: Any, wrong: Any) -> None:
    sample = wrong.sample_input
    try:
        op.op(*copies((sample.input, *sample.args)), **copies(sample.kwargs))
    except Exception as error:
        expected = type(error)
    else:
        raise NotApplicable
    args, kwargs = to_flambeau((sample.input, *sample.args)), to_flambeau(sample.kwargs)
    function = twin(op.op)
    try:
        function(*args, **kwargs)
    except Missing:
        raise
    except Exception as error:
        if not isinstance(error, _own_exception(expected)):
            message = " ".join(str(error).split())[:120]
            raise Different(f"{type(error).__name__} in place of {expected.__name__}: {message}") from error
    else:
        raise Different(f"no {expected.__name__}")


def _own_exception(theirs: type[BaseException]) -> type[BaseException]:
    if theirs.__module__ == "builtins":
        return theirs
    return getattr(flambeau.linalg, theirs.__name__, None) or theirs.__mro__[1]
