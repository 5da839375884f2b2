"""Forward mode."""

import flambeau as fb
import flambeau.autograd.forward_ad as fw
import pytest


def value(*values):
    return fb.tensor(list(values), dtype=fb.float64)


def test_tangents_travel():
    with fw.dual_level():
        x = fw.make_dual(value(2.0, 3.0), value(1.0, 10.0))
        primal, tangent = fw.unpack_dual((x * x).sin())
        assert primal.tolist() == value(4, 9).sin().tolist()
        assert fb.allclose(tangent, value(4, 60) * value(4, 9).cos())


def test_unpack_without_tangent():
    x = value(1)
    assert fw.unpack_dual(x) == (x, None)
    with fw.dual_level():
        assert fw.unpack_dual(x + 1).tangent is None


def test_tangents_end_with_the_level():
    with fw.dual_level():
        x = fw.make_dual(value(1), value(1))
    with fw.dual_level():
        assert fw.unpack_dual(x).tangent is None


def test_levels():
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(value(1), value(1))
    with fw.dual_level(), pytest.raises(RuntimeError, match="Nested forward mode"):
        fw.enter_dual_level()
    with pytest.raises(RuntimeError, match="Dual level must be"):
        fw.exit_dual_level()
    with fw.dual_level():
        with pytest.raises(RuntimeError, match="forward AD level"):
            fw.exit_dual_level(level=3)
        with pytest.raises(RuntimeError, match="Invalid level given"):
            fw.unpack_dual(value(1), level=1)


def test_tangents_may_be_left_behind():
    with fw.dual_level():
        x = fw.make_dual(value(2), value(1))
        with fw._set_fwd_grad_enabled(False):
            assert not fw._is_fwd_grad_enabled()
            assert fw.unpack_dual(x * x).tangent is None
        assert fw.unpack_dual(x * x).tangent.tolist() == [4]


@pytest.mark.parametrize(
    ("tangent", "match"),
    [(value(1, 2), "size")],
)
def test_make_dual_checks_the_tangent(tangent, match):
    with fw.dual_level(), pytest.raises(RuntimeError, match=match):
        fw.make_dual(value(1), tangent)


def test_make_dual_needs_floating_numbers():
    with fw.dual_level(), pytest.raises(ValueError, match="Expected primal"):
        fw.make_dual(fb.ones(1, dtype=fb.int64), fb.ones(1, dtype=fb.int64))


def test_in_place_and_views():
    with fw.dual_level():
        x = fw.make_dual(value(1, 2), value(1, 1))
        y = x * 1
        y[0:1].mul_(5)
        y.add_(x)
        assert fw.unpack_dual(y).tangent.tolist() == [6, 2]


def test_forward_over_reverse():
    with fw.dual_level():
        x = fw.make_dual(value(2).requires_grad_(), value(1))
        (g,) = fb.autograd.grad((x * x * x).sum(), x, create_graph=True)
        assert fw.unpack_dual(g).tangent.item() == 12


def test_no_tangents_where_switched_off():
    with fw.dual_level():
        x = fw.make_dual(value(1), value(1))
        with fw._set_fwd_grad_enabled(False):
            y = x * 2
        assert fw.unpack_dual(y).tangent is None


def test_gradcheck_forward():
    x = fb.tensor([[0.3, 0.6], [0.9, 1.2]], dtype=fb.float64, requires_grad=True)
    assert fb.autograd.gradcheck(lambda t: (t @ t).tanh().sum(0), x, check_forward_ad=True)


def test_changes_through_as_strided_reach_the_tangent():
    def changed(x):
        out = x * 2
        out.as_strided((2,), (2,), 1).copy_(x[:2] * x[:2])
        out.as_strided((1,), (1,), 0).zero_()
        return out

    with fw.dual_level():
        dual = fw.make_dual(fb.tensor([1.0, 2.0, 3.0, 4.0]), fb.ones(4))
        value, tangent = fw.unpack_dual(changed(dual))
    assert value.tolist() == [0, 1, 6, 4]
    assert tangent.tolist() == [0, 2, 2, 4]


def test_forward_over_reverse_through_changed_parts():
    def changed(x):
        out = x * 2
        out[0] = x[0] * x[1]
        out[1:] *= x[:2]
        return out.pow(3).sum()

    x = fb.tensor([1.0, 2.0, 3.0], dtype=fb.float64, requires_grad=True)
    assert fb.autograd.gradgradcheck(changed, x, check_fwd_over_rev=True)
