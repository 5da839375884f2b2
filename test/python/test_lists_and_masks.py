"""Operators over lists, masked operators, operators by their PyTorch name, tensors that are resized."""

import flambeau as fb
import numpy as np
import pytest


def test_lists() -> None:
    a, b = fb.tensor([1.0, 2.0]), fb.tensor([[3.0]])
    assert [t.tolist() for t in fb._foreach_add([a, b], [b[0], a], alpha=2)] == [[7.0, 8.0], [[5.0, 7.0]]]
    assert [t.tolist() for t in fb._foreach_mul([a, b], [2, 3])] == [[2.0, 4.0], [[9.0]]]
    fb._foreach_sqrt_([a, b])
    np.testing.assert_allclose(a.numpy(), np.sqrt([1.0, 2.0], dtype=np.float32))
    fb._foreach_zero_([a, b])
    assert (a.tolist(), b.tolist()) == ([0.0, 0.0], [[0.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 1), "expected one tensor"),
        (([fb.ones(1)], [fb.ones(1), fb.ones(1)]), "got 1 and 2"),
        (([fb.ones(1)], [1, 2]), "one number per tensor"),
    ],
)
def test_lists_must_fit(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        fb._foreach_add(*arguments)


def test_masked() -> None:
    x = fb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mask = fb.tensor([[True, False, True], [False, False, False]])
    assert fb.masked.sum(x, 1, mask=mask).tolist() == [4.0, 0.0]
    assert fb.masked.amax(x, 1, mask=mask).tolist() == [3.0, -float("inf")]
    mean = fb.masked.mean(x, 1, mask=mask)
    assert mean[0].item() == 2.0 and mean[1].isnan()
    assert fb.masked.softmax(x, 1, mask=mask)[0, 1].item() == 0.0
    with pytest.raises(IndexError, match="mask dimensionality"):
        fb.masked.sum(x, mask=fb.ones(1, 2, 3, dtype=fb.bool))


def test_operators_by_name() -> None:
    aten = fb.ops.aten
    assert aten.add.Tensor(fb.ones(2), fb.ones(2)).tolist() == [2.0, 2.0]
    assert "Tensor" in aten.add.overloads()
    with pytest.raises(AttributeError):
        _ = aten.no_such_operator
    with pytest.raises(AttributeError, match="overload"):
        _ = aten.add.no_such_overload


def test_resize_keeps_what_fits() -> None:
    x = fb.arange(4.0)
    assert x.resize_(2, 2) is x
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.resize_(8).shape == (8,)
    assert x[:4].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_pieces_of_a_base_that_changed_have_no_gradient() -> None:
    base = fb.ones(3, requires_grad=True) * 1
    first, *_ = base.unbind()
    base.add_(1)
    with pytest.raises(RuntimeError, match="has been modified inplace"):
        _ = first.grad_fn


def test_clamp_needs_a_bound() -> None:
    with pytest.raises(RuntimeError, match="'min' or 'max'"):
        fb.ones(2).clamp()


@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal_equals_numpy(wrap: bool) -> None:
    x = np.zeros((7, 2))
    np.fill_diagonal(x, 3.0, wrap=wrap)
    assert fb.zeros(7, 2, dtype=fb.float64).fill_diagonal_(3.0, wrap).tolist() == x.tolist()
    assert fb.zeros(2, 2, 2).fill_diagonal_(1.0).sum().item() == 2.0


def test_set_sees_other_memory() -> None:
    base = fb.arange(6.0)
    x = fb.empty(0).set_(base.untyped_storage(), 1, (2, 2))
    x[0, 0] = 9.0
    assert base.tolist() == [0.0, 9.0, 2.0, 3.0, 4.0, 5.0]
    assert fb.empty(0).set_(base).is_set_to(base)


@pytest.mark.parametrize("wanted", [[True, False], [], [True] * 4])
def test_a_list_of_bools_has_the_length_that_the_schema_says(wanted):
    x, statistics = fb.ones(2, 3), fb.ones(2, 1)
    with pytest.raises(TypeError, match="_normalize_affine_gradients"):
        fb._normalize_affine_gradients(x, x, statistics, statistics, None, None, [1], 1e-5, wanted)
