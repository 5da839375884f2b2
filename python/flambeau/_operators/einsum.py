"""Sums of products over named dimensions: einsum and tensordot.

Of three operands or more the cheapest pair is contracted first (greedily). A label is summed as soon as
no later operand and no output names it, so that most contractions are one batched matrix product.

In Python because einsum parses an equation, or takes lists of labels between its operands, and tensordot
takes dimensions as a number, a tensor or two lists. Calls `diagonal`, `permute`, `reshape`, `expand`,
`mul`, `sum`, `dot`, `mm` and `bmm`.
"""

from __future__ import annotations

import functools
import math
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from flambeau import _C
from flambeau._arguments.checks import require_all_tensors, require_tensors
from flambeau._C import Tensor
from flambeau._object.printing import described
from flambeau._operators import casts

__all__ = ["einsum", "tensordot"]

Labels = list[str]
Term = tuple[str, ...]
Shape = tuple[int, ...]
Sizes = dict[str, int]
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _terms_of(equation: str) -> tuple[list[Labels], Labels | None]:
    """Split "ij, j... -> i" into the labels of each operand and of the output; "..." is one label."""
    left, arrow, right = equation.partition("->")
    terms, start = [], 0
    for operand, text in enumerate(left.split(",")):
        terms.append(_labels_of(text, start, f"for operand {operand}"))
        start += len(text) + 1
    return terms, _labels_of(right, start + 1, "for output") if arrow else None


def _labels_of(text: str, start: int, place: str) -> Labels:
    labels: Labels = []
    i = 0
    while i < len(text):
        if text[i] == ".":
            if text[i : i + 3] != "...":
                raise RuntimeError(f"einsum(): found a '.' {place} outside of an ellipsis")
            if "..." in labels:
                raise RuntimeError(f"einsum(): found a '.' {place} after the ellipsis")
            labels.append("...")
            i += 3
            continue
        if text[i] in _LETTERS:
            labels.append(text[i])
        elif text[i] != " ":
            raise RuntimeError(
                f"einsum(): expected a letter at index {start + i} of the equation, got {text[i]!r}"
            )
        i += 1
    return labels


def _letters_of(sublist: Sequence[Any]) -> Labels:
    """The labels of a list of numbers below 52 and at most one Ellipsis."""
    labels: Labels = []
    for item in sublist:
        if item is not Ellipsis and not 0 <= item < len(_LETTERS):
            raise ValueError(f"einsum(): expected subscripts from 0 to 51, got {item}")
        labels.append("..." if item is Ellipsis else _LETTERS[item])
    return labels


def _expand_ellipses(terms: list[Labels], dims: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Replace "..." by numbered labels, aligned at the last dimension; also return all of these."""
    found: list[Labels] = []
    width = 0
    for k, (term, dim) in enumerate(zip(terms, dims, strict=True)):
        covered = dim - (len(term) - ("..." in term))
        if covered < 0 or (covered > 0 and "..." not in term):
            note = " and no ellipsis" if covered > 0 else ""
            raise RuntimeError(f"einsum(): expected {dim} subscripts for operand {k}, got {len(term)}{note}")
        numbered = [f"{i}." for i in range(covered - 1, -1, -1)]
        width = max(width, covered if "..." in term else 0)
        found.append([n for label in term for n in (numbered if label == "..." else [label])])
    return found, [f"{i}." for i in range(width - 1, -1, -1)]


def _output_of(output: Labels | None, terms: list[Labels], ellipsis: Labels) -> Labels:
    counts = Counter(label for term in terms for label in term)
    if output is None:
        return ellipsis + sorted(n for n, c in counts.items() if c == 1 and n in _LETTERS)
    expanded = [n for label in output for n in (ellipsis if label == "..." else [label])]
    for label in expanded:
        if expanded.count(label) > 1:
            raise RuntimeError(f"einsum(): the output names subscript {label} more than once")
        if label not in counts:
            raise RuntimeError(f"einsum(): the output's subscript {label} belongs to no operand")
    return expanded


def _resolved(terms: list[Labels], output: Labels | None, dims: Sequence[int]) -> tuple[list[Term], Term]:
    """The labels of each operand's dimensions, and those of the output."""
    expanded, ellipsis = _expand_ellipses(terms, dims)
    return [tuple(term) for term in expanded], tuple(_output_of(output, expanded, ellipsis))


@functools.lru_cache(maxsize=1024)
def _resolved_equation(equation: str, dims: Shape) -> tuple[list[Term], Term]:
    """The same of an equation."""
    terms, output = _terms_of(equation)
    if len(terms) != len(dims):
        _refuse_count(len(dims), len(terms))
    return _resolved(terms, output, dims)


def _refuse_count(operands: int, terms: int) -> NoReturn:
    relation = "fewer" if operands < terms else "more"
    raise RuntimeError(f"einsum(): got {relation} operands than the equation has terms")


def _diagonals(k: int, operand: Tensor, term: Term) -> tuple[Tensor, Term]:
    """Take diagonals until no label repeats."""
    if len(set(term)) == len(term):
        return operand, term
    labels = list(term)
    for label in [n for n, c in Counter(term).items() if c > 1]:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if operand.size(first) != operand.size(second):
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {k} but the sizes don't match, "
                    f"{operand.size(second)} != {operand.size(first)}"
                )
            operand = operand.diagonal(0, first, second).movedim(-1, first)
            del labels[second]
    return operand, tuple(labels)


@functools.lru_cache(maxsize=1024)
def _conflict(*labelled: tuple[Term, Shape]) -> str:
    """What is wrong with the sizes; empty if nothing."""
    seen: dict[str, int] = {}
    for k, (term, shape) in enumerate(labelled):
        for label, size in zip(term, shape, strict=True):
            known = seen.get(label, 1)
            if known != 1 and size not in (1, known):
                return f"subscript {label} has size {size} in operand {k}, but {known} before"
            seen[label] = known if size == 1 else size
    return ""


def _check_sizes(pairs: list[tuple[Tensor, Term]]) -> None:
    conflict = _conflict(*[(term, tuple(operand.shape)) for operand, term in pairs])
    if conflict:
        raise RuntimeError(f"einsum(): {conflict}: got {', '.join(described(t) for t, _ in pairs)}")


class _Factor(NamedTuple):
    """How an operand becomes a factor of a product; None for a step that changes nothing."""

    summed: list[int]  # in the operand's dtype, which a product keeps as well
    order: list[int] | None
    inserted: list[int]
    full: list[int] | None
    shape: list[int] | None

    def of(self, operand: Tensor) -> Tensor:
        """Return the factor."""
        if self.summed:
            operand = operand.sum(self.summed, dtype=operand.dtype)
        if self.order is not None:
            operand = operand.permute(self.order)
        for d in self.inserted:
            operand = operand.unsqueeze(d)
        if self.full is not None:
            operand = operand.expand(self.full)
        return operand if self.shape is None else operand.reshape(self.shape)


class _Product(NamedTuple):
    """How two operands are contracted. `matrices`: how many dimensions the factors have, 0: elementwise."""

    left: _Factor
    right: _Factor
    matrices: int
    shape: list[int] | None  # of the result, where the product has another
    labels: Term


def _factor(term: Term, own: Sizes, order: Labels) -> _Factor:
    """The dimensions in this order, of size 1 where the operand lacks a label, the others summed."""
    remaining = [label for label in term if label in own]
    places = [remaining.index(label) for label in order if label in own]
    return _Factor(
        summed=[d for d, label in enumerate(term) if label not in own],
        order=None if places == sorted(places) else places,
        inserted=[d for d, label in enumerate(order) if label not in own],
        full=None,
        shape=None,
    )


def _matrix(term: Term, own: Sizes, sizes: Sizes, groups: list[Labels]) -> _Factor:
    """The same with each group of adjacent dimensions as one; an empty first group is left out."""
    order = [label for group in groups for label in group]
    full = [sizes[label] for label in order]
    shape = [math.prod(sizes[label] for label in group) for group in (groups if groups[0] else groups[1:])]
    return _factor(term, own, order)._replace(
        full=None if full == [own[label] for label in order] else full,
        shape=None if full == shape else shape,
    )


@functools.lru_cache(maxsize=1024)
def _product(term_a: Term, shape_a: Shape, term_b: Term, shape_b: Shape, kept: frozenset[str]) -> _Product:
    """Contract two operands; labels that are not kept are summed."""
    a, b = dict(zip(term_a, shape_a, strict=True)), dict(zip(term_b, shape_b, strict=True))
    sizes = dict(a)
    for label, size in b.items():
        sizes[label] = max(size, sizes.get(label, size)) if sizes.get(label, size) != 0 and size != 0 else 0
    # A dimension of size 1 against a longer one is a factor of the sum.
    a = {n: size for n, size in a.items() if n in kept or b.get(n, 1) != 1}
    b = {n: size for n, size in b.items() if n in kept or a.get(n, 1) != 1}
    a = {n: size for n, size in a.items() if n in kept or n in b}
    batch = [n for n in a if n in b and n in kept]
    summed = [n for n in a if n in b and n not in kept]
    only_a, only_b = [n for n in a if n not in b], [n for n in b if n not in a]
    result = [*batch, *only_a, *only_b]
    if not summed:
        return _Product(_factor(term_a, a, result), _factor(term_b, b, result), 0, None, tuple(result))
    left = _matrix(term_a, a, sizes, [batch, only_a, summed])
    right = _matrix(term_b, b, sizes, [batch, summed, only_b])
    groups = [batch, only_a, only_b] if batch else [only_a, only_b]
    shape = None if all(len(group) == 1 for group in groups) else [sizes[n] for n in result]
    return _Product(left, right, len(groups), shape, tuple(result))


def _pair(a: Tensor, term_a: Term, b: Tensor, term_b: Term, kept: frozenset[str]) -> tuple[Tensor, Term]:
    """Contract two operands."""
    plan = _product(term_a, tuple(a.shape), term_b, tuple(b.shape), kept)
    left, right = plan.left.of(a), plan.right.of(b)
    if plan.matrices == 0:
        return left * right, plan.labels
    product = left.bmm(right) if plan.matrices == 3 else left.mm(right)
    return product if plan.shape is None else product.reshape(plan.shape), plan.labels


def einsum(*args: Any) -> Tensor:
    """Return the sum of products of the operands' elements over named dimensions.

    Args:
        args: an equation such as ``"bij,bjk->bik"`` and the operands. Each letter names a dimension, equal
            letters run together, those that the output lacks are summed; ``...`` stands for any
            further dimensions, which broadcast. Without ``->`` the output has every letter that appears
            once, in order. Or operands and lists of numbers below 52 in turn, and the output's list.
    Raises: RuntimeError for an equation that does not fit the operands.

    >>> from flambeau import tensor
    >>> einsum("ij,j->i", tensor([[1, 2], [3, 4]]), tensor([1, 10]))
    tensor([21, 43])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): expected an equation and its operands, or operands each with a list of "
            "subscripts, got other arguments"
        )
    if isinstance(args[0], str):
        single = len(args) == 2 and isinstance(args[1], list | tuple)
        operands = list(args[1] if single else args[1:])
    else:
        require_all_tensors("einsum", args[:1])
        operands = list(args[0 : len(args) // 2 * 2 : 2])
    if not operands:
        raise ValueError("einsum(): expected at least one operand, got none")
    require_all_tensors("einsum", operands)
    dims = tuple([operand.dim() for operand in operands])
    if isinstance(args[0], str):
        terms, wanted = _resolved_equation(args[0], dims)
    else:
        output = _letters_of(args[-1]) if len(args) % 2 else None
        terms, wanted = _resolved([_letters_of(term) for term in args[1::2]], output, dims)
    return casts.with_casts(casts.lower_precision, lambda given: _contract(given, terms, wanted), operands)


def _cheapest(pairs: list[tuple[Tensor, Term]]) -> tuple[int, int]:
    """The two operands whose product takes the fewest multiplications; the first of several."""
    best, chosen = None, (0, 1)
    if len(pairs) == 2:
        return chosen
    for i, (a, term_a) in enumerate(pairs):
        for j, (b, term_b) in enumerate(pairs[i + 1 :], start=i + 1):
            sizes = dict(zip(term_a, a.shape, strict=True))
            for label, size in zip(term_b, b.shape, strict=True):
                sizes[label] = max(size, sizes.get(label, 1))
            cost = math.prod(sizes.values())
            if best is None or cost < best:
                best, chosen = cost, (i, j)
    return chosen


def _contract(operands: Sequence[Tensor], terms: list[Term], wanted: Term) -> Tensor:
    pairs = [_diagonals(k, t, term) for k, (t, term) in enumerate(zip(operands, terms, strict=True))]
    _check_sizes(pairs)
    while len(pairs) > 1:
        i, j = _cheapest(pairs)
        (b, term_b), (a, term_a) = pairs.pop(j), pairs.pop(i)
        later = frozenset(wanted).union(*[other for _, other in pairs])
        pairs.insert(i, _pair(a, term_a, b, term_b, later))
    result, labels = pairs[0]
    if len(terms) > 1 and labels == wanted:
        return result
    if len(terms) == 1 and set(labels) > set(wanted):  # a mere sum: of integers it is int64
        result = result.sum([d for d, label in enumerate(labels) if label not in wanted])
        labels = tuple([label for label in labels if label in wanted])
    return result.permute([labels.index(label) for label in wanted])


def tensordot(
    a: Tensor, b: Tensor, dims: int | Sequence[Any] | Tensor = 2, out: Tensor | None = None
) -> Tensor:
    """Return the product of two tensors, summed over pairs of their dimensions.

    Args:
        a: the first factor.
        b: the second factor.
        dims: how many of a's last and b's first dimensions to sum over, or a list of a's dimensions and
            a list of b's.
        out: where the result goes.
    Shape: a's other dimensions, then b's.
    """
    require_tensors("tensordot", input=a, other=b)
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if not isinstance(dims, int | list | tuple):
        raise RuntimeError(f"tensordot: expected dims of an int or two lists of ints, got {dims!r}")
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot: expected dims >= 0, got {dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot: expected dims of at most the operands' dimensions, got {dims}")
        dims = (list(range(-dims, 0)), list(range(dims)))
    if any(not isinstance(side, list | tuple | Tensor) for side in dims):
        raise TypeError(f"tensordot(): expected two lists of ints as dims, got {dims!r}")
    of_a, of_b = map(list, dims)
    if len(of_a) != len(of_b):
        raise RuntimeError(f"tensordot: expected equally many dims of both operands, got {of_a} and {of_b}")
    of_a, of_b = _places(a, of_a), _places(b, of_b)
    for d, e in zip(of_a, of_b, strict=True):
        if a.size(d) != b.size(e) and 1 not in (a.size(d), b.size(e)):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match: got size {a.size(d)} in dim {d} and "
                f"{b.size(e)} in dim {e} of {described(a)} and {described(b)}"
            )
    if out is None:
        return casts.with_casts(
            casts.promote, lambda given: _summed_product(given[0], given[1], of_a, of_b), (a, b)
        )
    result = _summed_product(a, b, of_a, of_b)
    if isinstance(out, Tensor) and out.dtype != result.dtype:
        raise RuntimeError(f"tensordot: expected out of dtype {result.dtype}, got {out.dtype}")
    return _C._functions.mul(result, 1, out=out)


def _places(tensor: Tensor, dims: list[int]) -> list[int]:
    """Return dimensions as counted from the first; IndexError outside of the range, RuntimeError if twice."""
    count = tensor.dim()
    for d in dims:
        if not -count <= d < count:
            raise IndexError(f"tensordot: Dimension out of range: got {d} for {count} dimensions")
    found = [d % count for d in dims]
    if len(set(found)) < len(found):
        raise RuntimeError(f"tensordot: a dimension appears multiple times in the list of dims {dims}")
    return found


def _summed_product(a: Tensor, b: Tensor, of_a: list[int], of_b: list[int]) -> Tensor:
    """Return the product of two tensors, summed over pairs of dimensions.

    It is a matrix product, but for a single number the dot product of vectors; autocast tells them apart.
    """
    for d, e in zip(of_a, of_b, strict=True):
        if a.size(d) != b.size(e):  # one of them is 1
            a, b = (a, b.sum(e, keepdim=True)) if a.size(d) == 1 else (a.sum(d, keepdim=True), b)
    free_a = [d for d in range(a.dim()) if d not in of_a]
    free_b = [e for e in range(b.dim()) if e not in of_b]
    sizes = [a.size(d) for d in free_a], [b.size(e) for e in free_b]
    summed = math.prod(a.size(d) for d in of_a)
    left, right = a.permute([*free_a, *of_a]), b.permute([*of_b, *free_b])
    rows, columns = map(math.prod, sizes)
    if rows == columns == 1:
        product = _C._functions.dot(left.reshape([summed]), right.reshape([summed]))
    else:
        product = _C._functions.mm(left.reshape([rows, summed]), right.reshape([summed, columns]))
    return product.reshape([*sizes[0], *sizes[1]])
