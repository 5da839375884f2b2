"""Random statements about sparse tensors `s0`, `s1`, ..., drawn with a look at what the variables hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .statements import Source

TENSORS = 4
DTYPES = ("float32", "float64", "int64", "complex64", "int16")
SIZES = ((2, 3), (2, 3), (3,), (2, 2, 3), (0, 3), (2, 0), (1, 1), (4, 1))


def sparse_names(s: Source) -> list[str]:
    """The names of sparse tensors."""
    return [name for name in s.names if name[0] == "s"]


def _create(s: Source) -> str:
    size = s.choice(SIZES)
    lead = s.integer(1, len(size))
    count = 0 if 0 in size[:lead] else s.integer(0, 4)
    indices = [[s.integer(0, n - 1) for _ in range(count)] for n in size[:lead]]
    numel = count
    for n in size[lead:]:
        numel *= n
    values = [s.integer(-3, 3) for _ in range(numel)]
    dtype = f"t.{s.choice(DTYPES)}"
    shape = (count, *size[lead:])
    parts = f"t.tensor({indices}, dtype=t.int64).reshape({lead}, {count}), "
    parts += f"t.tensor({values}, dtype={dtype}).reshape({shape})"
    return s.choice(
        (
            f"t.sparse_coo_tensor({parts}, {size})",
            f"t.sparse_coo_tensor({parts}, {size})",
            f"t.sparse_coo_tensor({parts}, {size}).coalesce()",
            f"t.zeros({size}, dtype={dtype}, layout=t.sparse_coo)",
            "t.sparse_coo_tensor([[0], [5]], t.tensor([1.0]), (2, 3), check_invariants=True)",
            "t.zeros((2**40, 2**40), layout=t.sparse_coo)",
        )
    )


def _compute(s: Source, name: str, x: Any, other: str) -> str:
    dim = s.integer(-x.dim(), x.dim() - 1) if x.dim() else 0
    # A view has entries of its own in PyTorch too, but only flambeau refuses writes to it: hence clone().
    made = (
        f"{name} + {other}",
        f"{name} - {other}",
        f"{name} * {other}",
        f"{name} * {s.integer(-2, 3)}",
        f"{name} / 2",
        f"-{name}",
        f"{name}.abs()",
        f"{name}.sqrt()",
        f"{name}.clone()",
        f"{name}.coalesce()",
        f"{name}.detach()",
        f"{name}.to(t.{s.choice(DTYPES)})",
        f"{name}.t().clone()",
        f"{name}.transpose({dim}, 0).clone()",
        f"{name}.unsqueeze({dim}).clone()",
        f"{name}.index_select({dim}, t.tensor([{s.integer(-1, 3)}, 0]))",
        f"{name}.select({dim}, {s.integer(0, 2)}).clone()",
        f"t.narrow_copy({name}, {dim}, 0, {s.integer(0, 2) if 0 not in x.shape else 0})",
        f"t.cat([{name}, {other}], {dim})",
        f"t.stack([{name}, {other}])",
        f"t.zeros_like({name})",
        f"t.sparse.sum({name}, {dim})",
        f"t.sparse.softmax({name}.to(t.float64), {dim})",
        f"{name}.sparse_mask({other})",
        f"{name} @ {other}",
        f"{name}.to_dense().to_sparse()",
        f"{name}.to_dense().to_sparse({s.integer(0, 3)})",
    )
    return s.choice(made)


def _reduce(s: Source, name: str, other: str) -> str:
    float64 = f"{name}.to(t.float64)"
    ones = "t.ones(3, 2, dtype=t.float64)"
    made = (
        f"{name}.to_dense()",
        f"{name}.sum()",
        f"{float64}.norm({s.integer(0, 3)})",
        f"{name}._values()",
        f"{name}.coalesce().values()",
        f"{name}.to_dense() + {other}",
        f"t.sparse.mm({float64}, {ones})",
        f"t.addmm(t.zeros(2, 2, dtype=t.float64), {float64}, {ones}, alpha=2)",
        f"gradient(lambda s: t.sparse.sum(s * s), {name})",
        f"gradient(lambda s: s.to_dense().exp().sum(), {name})",
        f"gradient(lambda s: s.coalesce().values().pow(3).sum(), {name})",
    )
    return f"{s.new()} = {s.choice(made)}"


def _larger(x: Any) -> tuple[int, ...]:
    lead = x.sparse_dim()
    return (*(n + 1 for n in x.shape[:lead]), *x.shape[lead:])


def _write(s: Source, name: str, x: Any, other: str) -> str:
    return s.choice(
        (
            f"{name} += {other}",
            f"{name} -= {other}",
            f"{name} *= {s.integer(-1, 2)}",
            f"{name}.mul_({other})",
            f"{name}.neg_()",
            f"{name}.zero_()",
            f"{name}.copy_({name} * 2)",
            f"{name}.t_()",
            f"{name}.requires_grad_()",
            f"{name}._values().mul_(2)",
            f"{name}._values().neg_()",  # linear: what it does to the elements depends on no entry's place
            f"{name}._values().zero_()",
            f"{name}._coalesced_(False)",
            f"{name}.sparse_resize_({_larger(x)}, {x.sparse_dim()}, {x.dense_dim()})",
            f"{name}.sparse_resize_and_clear_((2, 3), 2, 0)",
            f"{name}.resize_as_sparse_({other})",
        )
    )


def sparse(s: Source, name: str, x: Any) -> str:
    """A statement about sparse tensors, or the making of one."""
    names = sparse_names(s)
    new = f"s{s.random.randrange(TENSORS)}"
    if len(names) < 2 or s.random.random() < 0.15:
        return f"{new} = {_create(s)}"
    one, other = s.choice(names), s.choice(names)
    value = s.names[one]
    kind = s.random.random()
    if kind < 0.45:
        return f"{new} = {_compute(s, one, value, other)}"
    if kind < 0.65:
        return _reduce(s, one, other)
    return _write(s, one, value, other) if kind < 0.88 else f"damage({one}, {s.integer(0, 10**6)})"
