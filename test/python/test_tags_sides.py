"""Tags of overloads, opcheck on operators of the specification, py_impl, contexts of fake kernels."""

import re

import flambeau as fb
import pytest
from flambeau.ops import _schemas, overload_of
from flambeau.utils._python_dispatch import TorchDispatchMode
from oracle import pytorch

# Tags that an overload has here exactly where it has them in PyTorch.
EQUAL = ("pt2_compliant_tag", "out", "inplace")
# Operators of one side's tag, with the reason that they are not the other's.
FEWER = {
    # composites here, or operators with a size given: their parts have the tag
    "nondeterministic_seeded": "dropout|bernoulli|normal|rand|cauchy|exponential|geometric|uniform|random"
    "|poisson|binomial|multinomial|rrelu|dirichlet|gamma|scaled_dot",
    "dynamic_output_shape": "_ctc_loss|argwhere|index|lstsq|masked_select|one_hot",
    "data_dependent_output": "allclose|item",
    "inplace_view": "resize",
    "view_copy": "slice_scatter|split_copy",
}
MORE = {
    "dynamic_output_shape": "_coalesce|_indices|_lazy_clone|_to_dense|_to_sparse|_values",
    "view_copy": "_copy.*out",
}


def names(tags):
    return {str(tag).rpartition(".")[2] for tag in tags}


def common():
    """Overloads that both frameworks have, with the tags of each side."""
    torch = pytorch()
    for base, overload in _schemas():
        packet = getattr(torch.ops.aten, base, None)
        if packet is not None and overload in packet.overloads():
            ours = overload_of(f"{base}.{overload}")
            yield f"{base}.{overload}", names(ours.tags), names(getattr(packet, overload).tags)


def test_tags_that_derive_from_schemas_are_those_of_PyTorch():
    different = [
        (name, tag) for name, ours, theirs in common() for tag in EQUAL if (tag in ours) != (tag in theirs)
    ]
    assert different == []


@pytest.mark.parametrize("tag", FEWER)
def test_tags_of_traits(tag):
    found = list(common())
    fewer = [name for name, ours, theirs in found if tag in theirs and tag not in ours]
    more = [name for name, ours, theirs in found if tag in ours and tag not in theirs]
    assert [name for name in fewer if not re.search(FEWER[tag], name)] == []
    assert [name for name in more if not re.search(MORE.get(tag, "$^"), name)] == []
    assert sum(tag in ours and tag in theirs for _, ours, theirs in found) >= 2


def test_pointwise_operators():
    found = list(common())
    same = sum("pointwise" in ours and "pointwise" in theirs for _, ours, theirs in found)
    assert same > 300
    for name in ("add.Tensor", "relu.default", "where.self", "add_.Tensor", "exp.out"):
        assert fb.Tag.pointwise in overload_of(name).tags
    for name in ("sum.default", "matmul.default", "select.int", "clone.default", "sort.default"):
        assert fb.Tag.pointwise not in overload_of(name).tags


def test_tags_cannot_be_changed():
    fb.ops.aten.add.Tensor.tags.append("mine")
    assert "mine" not in fb.ops.aten.add.Tensor.tags


def test_schemas_of_all_operators_can_be_read():
    for base, overload in _schemas():
        assert overload_of(f"{base}.{overload}")._schema.returns is not None


CHECKED = {
    "mul.Tensor": lambda t: (t, t),
    "sum.dim_IntList": lambda t: (t, [0]),
    "select.int": lambda t: (t, 0, 1),
    "softmax.int": lambda t: (t, 1),
    "mm.default": lambda t: (t, t),
    "sort.default": lambda t: (t,),
    "nonzero.default": lambda t: (t,),
    "unique_dim.default": lambda t: (t.detach(), 0),
    "add_.Tensor": lambda t: (t.detach(), 1.0 * t.detach()),
    "cat.default": lambda t: ([t, t], 1),
    "linalg_inv.default": lambda t: (t,),
}


@pytest.mark.parametrize("name", CHECKED)
def test_opcheck_of_the_specification(name):
    t = fb.tensor([[2.0, 1.0], [0.5, 3.0]], requires_grad=True)
    found = fb.library.opcheck(overload_of(name), CHECKED[name](t))
    assert set(found.values()) == {"SUCCESS"}
    assert len(found) == 4


def test_opcheck_refuses_operators_with_overloads():
    with pytest.raises(RuntimeError, match="operators without overloads"):
        fb.library.opcheck(fb.ops.aten.mul, (fb.ones(2), fb.ones(2)))


def positions(name, fake):
    """An operator whose result's size is data, with a fake kernel."""
    operator = fb.library.custom_op(
        f"tags::{name}", lambda x: x.nonzero(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    operator.register_fake(fake)
    return operator


def test_sizes_that_depend_on_data():
    def fake(x):
        count = fb.library.get_ctx().new_dynamic_size()
        return x.new_empty([count, x.dim()], dtype=fb.int64)

    operator = positions("positions", fake)
    for x in (fb.ones(3), fb.zeros(0, 2), fb.eye(3)):
        assert fb.library.opcheck(operator, (x,))["test_faketensor"] == "SUCCESS"
    with pytest.raises(RuntimeError, match="meta Tensors"):
        operator(fb.ones(3, device="meta"))
    assert fb.library.get_ctx() is None


def test_bounds_of_sizes_are_checked():
    def fake(x):
        return x.new_empty([fb.library.get_ctx().new_dynamic_size(min=5, max=9), 1], dtype=fb.int64)

    operator = positions("bounded", fake)
    assert fb.library.opcheck(operator, (fb.ones(6),), test_utils="test_faketensor")
    with pytest.raises(RuntimeError, match="its fake kernel"):
        fb.library.opcheck(operator, (fb.ones(3),), test_utils="test_faketensor")


@pytest.mark.parametrize(
    ("bounds", "phrase"),
    [
        ({"min": -1}, "greater than or equal to 0"),
        ({"min": 3, "max": 2}, "max"),
        ({"min": 1.5}, "int"),
        ({"max": True}, "int"),
    ],
)
def test_bad_bounds(bounds, phrase):
    def fake(x):
        return x.new_empty([fb.library.get_ctx().new_dynamic_size(**bounds)])

    operator = positions(f"bad_{phrase[:3]}_{len(str(bounds))}", fake)
    with pytest.raises(RuntimeError, match=phrase) as raised:
        fb.library.opcheck(operator, (fb.ones(3),), test_utils="test_faketensor")
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_failed_check_leaves_no_context():
    def fake(x):
        fb.library.get_ctx()
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match="test_faketensor failed") as raised:
        fb.library.opcheck(positions("failing", fake), (fb.ones(3),), test_utils="test_faketensor")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert fb.library.get_ctx() is None


def test_py_impl():
    key = fb._C.DispatchKey
    overload = fb.ops.aten.sinh.default

    @overload.py_impl(key.CompositeImplicitAutograd)
    def parts(x):
        return (x.exp() - (-x).exp()) / 2

    try:
        assert overload.decompose(fb.zeros(1)).item() == 0
        assert overload.py_kernels[key.CompositeImplicitAutograd] is parts
        with pytest.raises(RuntimeError, match="override"):
            overload.py_impl(key.CompositeImplicitAutograd)(parts)
        with pytest.raises(AssertionError, match="expected DispatchKey"):
            overload.py_impl("CPU")
    finally:
        overload.py_kernels.clear()
    assert overload.decompose(fb.zeros(1)) is NotImplemented


def test_py_impl_for_a_mode():
    class Sevens(TorchDispatchMode):
        pass

    @fb.ops.aten.cosh.default.py_impl(Sevens)
    def sevens(mode, x):
        assert isinstance(mode, Sevens)
        return x * 0 + 7

    x = fb.ones(2)
    with Sevens():
        y = x.cosh()
    assert y.tolist() == [7, 7]
    assert fb.zeros(1).cosh().tolist() == [1]
