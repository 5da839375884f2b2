"""What is asked of one operator: each check takes an entry of the database, a dtype, and yields verdicts."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

import flambeau

from .compare import Different, same
from .twin import Missing, NotDense, to_flambeau, to_torch, twin

DTYPES = ("float32", "float64", "int64", "bool", "complex64", "bfloat16", "float16")
GRADIENT_DTYPES = ("float64", "complex128")
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


def _oracle(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    seed_all()
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise NotApplicable(str(error)) from error


def _ours(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    seed_all()
    return function(*args, **kwargs)


def judged(check: str, run: Callable[[], None]) -> Iterator[Verdict]:
    """The verdict of one comparison; nothing if PyTorch or the layout rules it out."""
    try:
        run()
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
        yield from judged("function", lambda: _function(op, sample, args))
        yield from judged("method", lambda: _method(op, args, sample.kwargs))
        if not sample.broadcasts_input:
            yield from judged("inplace", lambda: _inplace(op, args, sample.kwargs))
        if op.supports_out:
            yield from judged("out", lambda: _out(op, args, sample.kwargs))


def _unspecified(op: Any, args: Any, kwargs: Any) -> bool:
    """Whether values are whatever memory held: PyTorch's own change when it fills what is uninitialised."""
    plain = _oracle(op.op, *_copies(args), **_copies(kwargs))
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        filled = _oracle(op.op, *_copies(args), **_copies(kwargs))
    finally:
        torch.use_deterministic_algorithms(before)
    try:
        same(to_torch(filled), to_torch(plain))
    except Different:
        return True
    return False


def _copies(value: Any) -> Any:
    """The same values in fresh memory, since some operators write to their arguments."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields") and not isinstance(value, torch.Size):
        return type(value)(map(_copies, value))
    if isinstance(value, dict):
        return {k: _copies(v) for k, v in value.items()}
    return value


def _function(op: Any, sample: Any, args: Any) -> None:
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(sample.kwargs)
    theirs = _oracle(op.op, *_copies(args), **_copies(sample.kwargs))
    ours = _ours(twin(op.op), *ours_args, **ours_kwargs)
    try:
        same(to_torch(ours), theirs)
    except Different:
        same(to_torch(ours), theirs, values=False)
        if _unspecified(op, args, sample.kwargs):
            return
        # Where a result is not unique (the sign of an eigenvector), the database says what is.
        process = sample.output_process_fn_grad
        unique = process(theirs)
        if unique is theirs:
            raise
        same(to_torch(twin(process)(ours)), unique)


def _method(op: Any, args: Any, kwargs: Any) -> None:
    method = op.method_variant
    if method is None or not isinstance(args[0], torch.Tensor):
        raise NotApplicable
    theirs = _oracle(method, *_copies(args), **_copies(kwargs))
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(kwargs)
    ours = _ours(_own_method(method), *ours_args, **ours_kwargs)
    same(to_torch(ours), theirs, "method", values=False)


def _own_method(method: Any) -> Any:
    name = method.__name__
    if name == "<lambda>":
        return twin(method)
    if not hasattr(flambeau.Tensor, name):
        raise Missing(f"Tensor.{name}")
    return getattr(flambeau.Tensor, name)


def _inplace(op: Any, args: Any, kwargs: Any) -> None:
    method = op.inplace_variant
    if method is None or not isinstance(args[0], torch.Tensor):
        raise NotApplicable
    theirs = _oracle(method, *_copies(args), **_copies(kwargs))
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(kwargs)
    ours = _ours(_own_method(method), *ours_args, **ours_kwargs)
    if isinstance(theirs, torch.Tensor) and ours is not ours_args[0]:
        raise Different("in-place form: not its own tensor returned")
    same(to_torch(ours), theirs, "in-place")


def _out(op: Any, args: Any, kwargs: Any) -> None:
    expected = _oracle(op.op, *_copies(args), **_copies(kwargs))
    tensors = isinstance(expected, torch.Tensor) or (
        isinstance(expected, tuple | list) and all(isinstance(x, torch.Tensor) for x in expected)
    )
    if not tensors:
        raise NotApplicable
    out = torch.empty_like(expected) if isinstance(expected, torch.Tensor) else tuple(map(torch.empty_like, expected))
    theirs = _oracle(op.op, *_copies(args), **_copies(kwargs), out=out)
    place = to_flambeau(out)
    ours = _ours(twin(op.op), *to_flambeau(args), **to_flambeau(kwargs), out=place)
    pairs = [(ours, place)] if isinstance(place, flambeau.Tensor) else list(zip(ours, place, strict=True))
    if any(a is not b for a, b in pairs):
        raise Different("out=: another tensor than the one given")
    same(to_torch(ours), theirs, "out=", values=not _not_unique(op, theirs, args, kwargs))


def _not_unique(op: Any, theirs: Any, args: Any, kwargs: Any) -> bool:
    """Whether the function form already had to be compared in another way: out= then adds shape and dtype."""
    try:
        same(to_torch(_ours(twin(op.op), *to_flambeau(args), **to_flambeau(kwargs))), theirs)
    except Different:
        return True
    return False


# --- derivatives ----------------------------------------------------------------------------------------


def _tensors(value: Any, wanted: Callable[[Any], bool]) -> list[Any]:
    if isinstance(value, torch.Tensor | flambeau.Tensor):
        return [value] if wanted(value) else []
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v, wanted)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v, wanted)]
    return []


def _requires_grad(tensor: Any) -> bool:
    return tensor.requires_grad


def _zero_if_none(gradients: Any, inputs: list[Any], framework: Any) -> tuple[Any, ...]:
    return tuple(framework.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True))


def _directions(like: list[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    return [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in like]


def _results(framework: Any, op: Callable[..., Any], process: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    del framework
    return _tensors(process(op(*args, **kwargs)), lambda t: t.requires_grad)


def _chain(framework: Any, outputs: list[Any], inputs: list[Any], order: int, directions: list[list[Any]]) -> Any:
    """Gradients of the given order along given directions; `directions` holds one list per order."""
    for step in range(order):
        last = step == order - 1
        gradients = framework.autograd.grad(
            outputs, inputs, directions[step], create_graph=not last, allow_unused=True
        )
        gradients = _zero_if_none(gradients, inputs, framework)
        if last:
            return gradients
        outputs = [g for g in gradients if g.requires_grad]
        if not outputs:
            raise NotApplicable


def backward(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """First- and second-order gradients along random directions."""
    if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu"):
        return
    for sample in samples(op, dtype, True):
        yield from judged("backward", lambda: _backward(op, sample, 1))
        if op.supports_gradgrad:
            yield from judged("second", lambda: _backward(op, sample, 2))


def _backward(op: Any, sample: Any, order: int) -> None:
    args = _copies((sample.input, *sample.args))
    kwargs = _copies(sample.kwargs)
    ours_args, ours_kwargs = to_flambeau(args), to_flambeau(kwargs)
    process = sample.output_process_fn_grad
    inputs = _tensors((args, kwargs), _requires_grad)
    if not inputs:
        raise NotApplicable
    outputs = _oracle(_results, torch, op.op, process, args, kwargs)
    if not outputs:
        raise NotApplicable
    directions = [_directions(outputs), _directions(inputs)]
    theirs = _oracle(_second_checked, torch, outputs, inputs, order, directions)
    mine = _ours(_results, flambeau, twin(op.op), twin(process), ours_args, ours_kwargs)
    if len(mine) != len(outputs):
        raise Different(f"{len(mine)} outputs require grad in place of {len(outputs)}")
    ours_inputs = _tensors((ours_args, ours_kwargs), _requires_grad)
    ours = _ours(_second_checked, flambeau, mine, ours_inputs, order, to_flambeau(directions))
    same(to_torch(ours), theirs, f"gradient of order {order}")


def _second_checked(framework: Any, outputs: Any, inputs: Any, order: int, directions: Any) -> Any:
    if order == 1:
        return _chain(framework, outputs, inputs, 1, directions)
    gradients = framework.autograd.grad(outputs, inputs, directions[0], create_graph=True, allow_unused=True)
    pairs = [
        (g, d) for g, d in zip(gradients, directions[1], strict=True) if g is not None and g.requires_grad
    ]
    if not pairs:
        return _zero_if_none([None] * len(inputs), inputs, framework)
    second = framework.autograd.grad([g for g, _ in pairs], inputs, [d for _, d in pairs], allow_unused=True)
    return _zero_if_none(second, inputs, framework)


def tangent(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """Forward-mode derivatives along random directions."""
    if not op.supports_forward_ad or dtype not in op.supported_backward_dtypes("cpu"):
        return
    for sample in samples(op, dtype, True):
        yield from judged("tangent", lambda: _tangent(op, sample))


def _tangent(op: Any, sample: Any) -> None:
    args, kwargs = _copies((sample.input, *sample.args)), _copies(sample.kwargs)
    inputs = _tensors((args, kwargs), _requires_grad)
    if not inputs:
        raise NotApplicable
    directions = _directions(inputs)
    ours_args, ours_kwargs, ours_directions = map(to_flambeau, (args, kwargs, directions))
    process = sample.output_process_fn_grad
    theirs = _oracle(_pushed, torch, forward_ad, op.op, process, args, kwargs, directions)
    ours_ad = flambeau.autograd.forward_ad
    ours = _ours(_pushed, flambeau, ours_ad, twin(op.op), twin(process), ours_args, ours_kwargs, ours_directions)
    same(to_torch(ours), theirs, "tangent")


def _pushed(framework: Any, ad: Any, op: Any, process: Any, args: Any, kwargs: Any, directions: list[Any]) -> Any:
    remaining = iter(directions)

    def dual(value: Any) -> Any:
        if isinstance(value, torch.Tensor | flambeau.Tensor):
            return ad.make_dual(value.detach(), next(remaining)) if value.requires_grad else value
        if isinstance(value, tuple | list):
            return type(value)(map(dual, value)) if not hasattr(value, "_fields") else value
        if isinstance(value, dict):
            return {k: dual(v) for k, v in value.items()}
        return value

    with ad.dual_level():
        outputs = process(op(*dual(args), **dual(kwargs)))
        found = []
        for output in _tensors(outputs, lambda t: t.is_floating_point() or t.is_complex()):
            primal, along = ad.unpack_dual(output)
            found.append(framework.zeros_like(primal) if along is None else along)
        return tuple(found)


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
            yield from judged("error", lambda: _error(op, wrong))


def _error(op: Any, wrong: Any) -> None:
    sample = wrong.sample_input
    try:
        op.op(*_copies((sample.input, *sample.args)), **_copies(sample.kwargs))
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
