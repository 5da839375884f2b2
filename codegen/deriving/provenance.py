"""Per operator and artefact: whether it is given in the YAML, derived by the generator, or missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving import batching
from codegen.language.forms import tensor_args
from codegen.language.show import show
from codegen.model import FormKind, Kernels, Kind, Model, Operator

ARTEFACTS = (
    "functional", "in-place", "out", "numbers", "shape", "cpu", "cuda", "backward", "forward",
    "python", "docs", "samples", "reference", "lowering", "vmap", "autocast", "flops", "onnx", "shard",
)  # fmt: skip
GIVEN, DERIVED, MISSING, ABSENT = "given", "derived", "missing", "-"


@dataclass(frozen=True, slots=True)
class Artefact:
    """One cell of the matrix. ABSENT: the artefact does not apply to the operator."""

    name: str
    status: str
    detail: str


def artefacts(op: Operator) -> Iterator[Artefact]:
    """Yield every artefact of one operator."""
    yield from _forms(op)
    yield _shape(op)
    yield from _backends(op)
    yield _backward(op)
    yield _forward(op)
    bound = not op.internal
    yield Artefact("python", DERIVED if bound else ABSENT, "binding and stub" if bound else "internal")
    undocumented = ABSENT if op.internal else MISSING
    yield Artefact("docs", GIVEN if op.doc.summary else undocumented, op.doc.summary)
    yield _samples(op)
    yield _reference(op)
    lowered = op.kind in (Kind.POINTWISE, Kind.REDUCE, Kind.COMPOSITE)
    yield Artefact("lowering", DERIVED if lowered else ABSENT, "from the expression" if lowered else "")
    extra = dict(op.extra)
    yield Artefact("vmap", *batching.status(op))
    shown = ", ".join(f"{device}: {policy}" for device, policy in op.autocast)
    yield Artefact("autocast", GIVEN if op.autocast else ABSENT, shown)
    yield _flops(op)
    for name in ("onnx", "shard"):
        yield Artefact(name, GIVEN if name in extra else ABSENT, str(extra.get(name, "")))


def _flops(op: Operator) -> Artefact:
    """The operations of a composite without `flops` are those of its parts."""
    if op.flops is None:
        is_composite = op.kind is Kind.COMPOSITE
        return Artefact("flops", DERIVED if is_composite else ABSENT, "of its parts" if is_composite else "")
    given = (("counter", op.flops.counter), ("profiler", op.flops.profiler))
    shown = [f"{name}: {show(expr)}" for name, expr in given if expr is not None]
    if op.flops.operator != op.schema.name.base:
        shown.append(f"as: {op.flops.operator}")
    return Artefact("flops", GIVEN, ", ".join(shown))


def _forms(op: Operator) -> Iterator[Artefact]:
    own = op.forms[0]
    origin = DERIVED if op.internal else GIVEN
    yield Artefact("functional" if not own.schema.name.inplace else "in-place", origin, own.name)
    rows = {
        "in-place": [f for f in op.forms[1:] if f.kind is FormKind.INPLACE and not f.numbers],
        "out": [f for f in op.forms if f.kind is FormKind.OUT and not f.numbers],
        "numbers": [f for f in op.forms if f.numbers],
    }
    for name, forms in rows.items():
        if name == "in-place" and own.schema.name.inplace:
            yield Artefact("functional", ABSENT, "")
            continue
        yield Artefact(name, DERIVED if forms else ABSENT, ", ".join(f.name for f in forms))


def _shape(op: Operator) -> Artefact:
    body = op.body
    if not isinstance(body, Kernels):
        return Artefact("shape", DERIVED, f"from the {op.kind.value} body")
    if body.shape is not None:
        return Artefact("shape", GIVEN, f"{body.shape.name}({', '.join(body.shape.args)})")
    if body.dynamic is not None:
        return Artefact("shape", ABSENT, f"dynamic: {body.dynamic}")
    return Artefact("shape", DERIVED, "that of self")


def _backends(op: Operator) -> Iterator[Artefact]:
    if isinstance(op.body, Kernels):
        kernels = dict(op.body.by_backend)
        for backend in ("CPU", "CUDA"):
            status = GIVEN if backend in kernels else MISSING
            yield Artefact(backend.lower(), status, kernels.get(backend, "no kernel"))
        return
    for backend in ("cpu", "cuda"):
        yield Artefact(backend, DERIVED, f"from the {op.kind.value} body")


def _backward(op: Operator) -> Artefact:
    has_tensors = bool(tensor_args(op.schema))
    if op.derivative is None:
        if op.kind is Kind.COMPOSITE and has_tensors:
            return Artefact("backward", DERIVED, "through its parts")
        return Artefact("backward", ABSENT, "not differentiable")
    given = [", ".join(f.args) for f in op.derivative.formulas if f.origin == "given" and f.body]
    derived = [", ".join(f.args) for f in op.derivative.formulas if f.origin == "derived"]
    gaps = [", ".join(f.args) for f in op.derivative.formulas if f.not_implemented]
    if gaps:
        return Artefact("backward", MISSING, f"not implemented: {', '.join(gaps)}")
    if given:
        more = f"; derived: {', '.join(derived)}" if derived else ""
        return Artefact("backward", GIVEN, ", ".join(given) + more)
    if derived:
        return Artefact("backward", DERIVED, ", ".join(derived))
    return Artefact("backward", ABSENT, "none")


def _forward(op: Operator) -> Artefact:
    if op.derivative is None:
        return Artefact("forward", *_backward_parts(op))
    if op.derivative.forward:
        rules = ", ".join(
            f"{name}: {rule if isinstance(rule, str) else 'formula'}" for name, rule in op.derivative.forward
        )
        given = any(f.origin == "given" for f in op.derivative.formulas)
        return Artefact("forward", GIVEN if given else DERIVED, rules)
    if op.kind is Kind.POINTWISE:
        return Artefact("forward", DERIVED, "from the partial derivatives")
    if _backward(op).status in (ABSENT, MISSING):
        return Artefact("forward", ABSENT, "not differentiable")
    return Artefact("forward", MISSING, "no rule in derivatives.yaml")


def _backward_parts(op: Operator) -> tuple[str, str]:
    backward = _backward(op)
    return backward.status, backward.detail


def _samples(op: Operator) -> Artefact:
    if op.test.samples:
        return Artefact("samples", GIVEN, f"{len(op.test.samples)} sample calls")
    if op.kind is Kind.POINTWISE:
        domains = ", ".join(f"{name} in [{low:g}, {high:g}]" for name, (low, high) in op.test.intervals)
        return Artefact("samples", DERIVED, domains or "default domains")
    internal = op.schema.name.base.startswith("_") or op.internal
    return Artefact("samples", ABSENT if internal else MISSING, "")


def _reference(op: Operator) -> Artefact:
    if op.test.reference is not None:
        return Artefact("reference", GIVEN, op.test.reference)
    if op.kind is Kind.POINTWISE:
        return Artefact("reference", DERIVED, "from the primitives' oracles")
    return Artefact("reference", ABSENT, "tested through its users or by properties")


def totals(model: Model) -> dict[str, dict[str, int]]:
    """Return artefact -> status -> count."""
    table = {name: {GIVEN: 0, DERIVED: 0, MISSING: 0, ABSENT: 0} for name in ARTEFACTS}
    for op in model.operators:
        for artefact in artefacts(op):
            table[artefact.name][artefact.status] += 1
    return table
