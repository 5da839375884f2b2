"""Calls with shapes that do not fit: the error says the operator, and every tensor's dtype and shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau as fb
import pytest
from op_cases import Op, calls, flat, is_tensor, names, operators, run, tensors


def shown(tensor: Any) -> str:
    """A tensor as messages have it: float32[2, 3]."""
    return f"{str(tensor.dtype).removeprefix('flambeau.')}{list(tensor.shape)}"


def larger(tensor: Any) -> Iterator[Any]:
    """The same kind of tensor in shapes that fit few others: one dimension longer, and two more of them."""
    for d in range(tensor.dim()):
        yield fb.cat([tensor, *[tensor.narrow(d, 0, 1)] * 3], d) if tensor.shape[d] else tensor
    yield tensor.reshape(1, 1, *tensor.shape).expand(7, 5, *tensor.shape).clone()


def mismatches(op: Op) -> Iterator[dict[str, Any]]:
    """Sample calls in which one tensor has another shape."""
    for call in calls(op):
        arguments = tensors(call.materialise(op.main_dtype()), op.main_dtype())
        for name, value in arguments.items():
            if is_tensor(value):
                yield from (arguments | {name: other} for other in larger(value))
            elif isinstance(value, list) and value and is_tensor(value[-1]):
                yield from (arguments | {name: [*value[:-1], other]} for other in larger(value[-1]))


def errors(op: Op) -> Iterator[tuple[dict[str, Any], Exception]]:
    """The mismatches that the operator refuses; a TypeError is about the types of arguments, not shapes."""
    for arguments in mismatches(op):
        try:
            run(op, arguments)
        except (RuntimeError, IndexError, ValueError) as error:
            yield arguments, error


def takes_several(op: Op) -> bool:
    return len(op.tensor_names) >= 2 and bool(op.record["samples"])


def public_name(op: Op) -> str:
    return op.call.replace(f"{op.namespace}_", f"{op.namespace}.", 1) if op.namespace else op.call


@pytest.mark.parametrize("name", names(takes_several))
def test_a_mismatch_names_the_operator_and_its_tensors(name: str):
    op = operators()[name]
    for arguments, error in errors(op):
        message = str(error)
        assert f" {public_name(op)}(" in message, message
        for value in flat(list(arguments.values())):
            assert not is_tensor(value) or shown(value) in message, message


def test_most_operators_refuse_some_mismatch():
    """The test above would pass if nothing were refused."""
    several = names(takes_several)
    refusing = [name for name in several if any(errors(operators()[name]))]
    assert len(refusing) > 0.8 * len(several)


def test_an_infix_operator_is_named_by_its_method():
    with pytest.raises(RuntimeError, match=r"in matmul\(float32\[2, 3\], float16\[4, 5\]\)"):
        fb.zeros(2, 3) @ fb.zeros(4, 5, dtype=fb.float16)
    with pytest.raises(RuntimeError, match=r"in add_\(float32\[3\], float32\[2, 3\]\)"):
        x = fb.zeros(3)
        x += fb.zeros(2, 3)


def test_lists_numbers_and_keywords_are_shown():
    with pytest.raises(RuntimeError, match=r"in cat\(\[float32\[2\], int64\[1, 1\]\], dim=0\)"):
        fb.cat([fb.zeros(2), fb.zeros(1, 1, dtype=fb.int64)], dim=0)


def test_long_lists_and_values_are_cut_short():
    with pytest.raises(RuntimeError) as caught:
        fb.stack([fb.zeros(1)] * 20 + [fb.zeros(2)], dim=0)
    call = str(caught.value).split("\n  in ")[1]
    assert call == f"stack([{', '.join(['float32[1]'] * 8)}, ...], dim=0)"
    with pytest.raises(RuntimeError, match=r"in einsum|in reshape"):
        fb.zeros(3).reshape(10**18, 10**18)


def test_a_subclass_is_shown_without_running_its_code():
    class Index(int):
        def __repr__(self) -> str:
            raise AssertionError

    with pytest.raises(IndexError, match=r"in sum\(float32\[3\], <Index>\)"):
        fb.sum(fb.zeros(3), Index(5))


def test_the_operator_that_was_called_is_named_where_another_one_fails():
    with pytest.raises(RuntimeError, match=r"^matmul: shapes cannot be multiplied.*\n  in matmul\("):
        fb.matmul(fb.zeros(2, 3), fb.zeros(4, 5))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("linear", lambda: fb.nn.Linear(3, 2)(fb.zeros(2, 4))),
        ("conv2d", lambda: fb.nn.functional.conv2d(fb.zeros(1, 1, 3, 3), fb.zeros(1, 2, 1, 1))),
        ("add_", lambda: fb.zeros(2).add_(fb.zeros(3))),
        ("linspace", lambda: fb.linspace(0, 1, -1)),
        ("arange", lambda: fb.arange(0, 1, 0)),
        ("narrow", lambda: fb.zeros(3).narrow(0, 2, 5)),
        ("diagonal", lambda: fb.zeros(3, 3).diagonal(0, 0, 0)),
        ("sum", lambda: fb.zeros(2).sum(3)),
        ("__getitem__", lambda: fb.zeros(2)[5]),
        ("linalg.solve", lambda: fb.linalg.solve(fb.zeros(2, 3), fb.zeros(2))),
        ("empty", lambda: fb.empty(-1)),
        ("poisson", lambda: fb.poisson(fb.tensor([-1.0]))),
    ],
)
def test_a_message_begins_with_what_the_user_called(name, call):
    with pytest.raises((RuntimeError, IndexError)) as caught:
        call()
    assert str(caught.value).startswith((f"{name}: ", f"{name}(): "))


def test_indexing_is_named():
    with pytest.raises(
        IndexError, match=r"^__getitem__: The shape of the mask \[3\].*\n  in __getitem__\(float32\[2\]"
    ):
        fb.zeros(2)[fb.zeros(3, dtype=fb.bool)]
