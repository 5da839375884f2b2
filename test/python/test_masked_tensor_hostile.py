"""What programs may do wrong with masked tensors, and what goes beyond PyTorch's."""

import copy
import gc
import pickle
import threading
import weakref

import flambeau as fb
import numpy as np
import pytest
from flambeau.masked import MaskedTensor, as_masked_tensor, masked_tensor


def pair():
    return fb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), fb.tensor(
        [[True, False, True], [False, True, True]]
    )


def numbers(x):
    """Unmasked values, and the mask."""
    return x.to_tensor(0).tolist(), x.get_mask().tolist()


def test_nan_and_infinity_behind_the_mask_stay_there():
    data = fb.tensor([[float("nan"), 1.0], [float("inf"), 2.0]])
    x = masked_tensor(data, fb.tensor([[False, True], [False, True]]), requires_grad=True)
    for result in (x.sum(), x.mean(), x.amax(), x.prod(), x.var(), fb.softmax(x, 0).sum()):
        assert np.isfinite(result.item())
        (grad,) = fb.autograd.grad(result, x)
        assert np.isfinite(grad.to_tensor(0).numpy()).all()


def test_the_copy_and_the_original_do_not_share():
    data, mask = pair()
    x = masked_tensor(data, mask)
    data.fill_(9)
    mask.fill_(True)
    assert numbers(x) == ([[1, 0, 3], [0, 5, 6]], [[True, False, True], [False, True, True]])


def test_writes_reach_views_and_the_data():
    x = masked_tensor(*pair())
    row, data = x[0], x.get_data()
    row.mul_(10)
    assert data.tolist() == [[10, 20, 30], [4, 5, 6]]
    x[1] = 7.0
    x[:, 0] += 1
    assert numbers(x) == ([[11, 0, 30], [0, 7, 7]], [[True, False, True], [False, True, True]])


def test_a_plain_tensor_is_not_written_from_a_masked_one():
    data, mask = pair()
    with pytest.raises(TypeError, match="add_: expected a masked tensor"):
        data.add_(masked_tensor(data, mask))
    with pytest.raises(TypeError, match="copy_: expected a masked tensor"):
        data.copy_(masked_tensor(data, mask))
    assert data.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_plain_operand_may_be_larger():
    x = masked_tensor(fb.tensor([1.0, 2.0]), fb.tensor([True, False]))
    assert numbers(fb.ones(2, 2) + x) == ([[2, 0], [2, 0]], [[True, False], [True, False]])


def test_empty_and_zero_dim():
    x = masked_tensor(fb.zeros(0, 3), fb.zeros(0, 3, dtype=fb.bool))
    assert x.sum().get_mask().item() is False
    assert (x + 1).shape == (0, 3)
    assert repr(masked_tensor(fb.tensor(2), fb.tensor(True))) == "MaskedTensor(2, True)"
    assert masked_tensor(fb.tensor(2.0), fb.tensor(True)).sum().item() == 2
    assert "MaskedTensor" in repr(masked_tensor(fb.zeros(3, 0), fb.zeros(3, 0, dtype=fb.bool)))


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "tanh", "sigmoid", "softplus", "elu", "mish"])
def test_activations_and_their_gradients(name):
    data, mask = pair()
    x = masked_tensor(data - 3, mask, requires_grad=True)
    plain = (data - 3).requires_grad_()
    function = getattr(fb.nn.functional, name)
    function(x).sum().backward()
    function(plain).masked_fill(~mask, 0).sum().backward()
    np.testing.assert_allclose(x.grad.to_tensor(0).numpy(), plain.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["permute", "squeeze", "unbind", "flip", "roll", "index_select", "diagonal"])
def test_more_operators_that_move_elements(name):
    arguments = {"permute": (1, 0), "flip": (0,), "roll": (1,), "index_select": (1, fb.tensor([2, 0]))}
    data, mask = pair()
    x = masked_tensor(data, mask, requires_grad=True)
    results = getattr(x, name)(*arguments.get(name, ()))
    expected = [getattr(given, name)(*arguments.get(name, ())) for given in (data, mask)]
    result = results[0] if isinstance(results, tuple) else results
    expected = [given[0] if isinstance(given, tuple) else given for given in expected]
    assert result.get_data().tolist() == expected[0].tolist()
    assert result.get_mask().tolist() == expected[1].tolist()
    result.sum().backward()
    assert x.grad.get_data().sum().item() == expected[1].sum().item()


def test_functions_of_masked_take_masked_tensors():
    data, mask = pair()
    x = masked_tensor(data, mask)
    for name in ("sum", "mean", "amax", "prod", "logsumexp", "var"):
        function = getattr(fb.masked, name)
        assert function(x, 1).tolist() == function(data, 1, mask=mask).tolist()
        assert function(input=x, dim=1).tolist() == function(data, 1, mask=mask).tolist()
    other = fb.tensor([True, True, False])
    assert fb.masked.sum(x, 1, mask=other).tolist() == [1, 5]
    leaf = masked_tensor(data, mask, requires_grad=True)
    fb.masked.sum(leaf).backward()
    assert numbers(leaf.grad) == ([[1, 0, 1], [0, 1, 1]], mask.tolist())


@pytest.mark.parametrize("p", ["fro", 1, 2, float("inf")])
def test_norm(p):
    data, mask = pair()
    found = masked_tensor(data, mask).norm(p, 1)
    rows = [[1, 3], [5, 6]]
    expected = [np.linalg.norm(row, None if p == "fro" else p) for row in rows]
    np.testing.assert_allclose(found.get_data().numpy(), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="norm: expected a number"):
        masked_tensor(data, mask).norm("nuc")


def test_a_gradient_of_a_plain_operand_that_was_broadcast():
    data, mask = pair()
    weight = fb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (masked_tensor(data, mask) * weight).sum().backward()
    assert weight.grad.to_tensor(0).tolist() == [1, 5, 9]


def test_an_optimizer_steps_on_data_behind_a_mask():
    data, mask = pair()
    weight = data.clone().requires_grad_()
    as_masked_tensor(weight, mask).sum().backward()
    weight.grad = weight.grad.to_tensor(0)
    fb.optim.SGD([weight], lr=1.0).step()
    assert weight.tolist() == [[0, 2, 2], [4, 4, 5]]


def test_data_that_requires_gradients_warns():
    data, mask = pair()
    with pytest.warns(UserWarning, match="as_masked_tensor"):
        assert not masked_tensor(data.requires_grad_(), mask).requires_grad


def test_results_are_neither_copied_deeply_nor_pickled():
    x = masked_tensor(*pair(), requires_grad=True)
    for refused in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="expected a leaf"):
            refused(x * 2)
    again = copy.deepcopy([x, x])
    assert again[0] is again[1]
    assert again[0].requires_grad


@pytest.mark.parametrize(
    "call", [lambda x: fb.add(x, x, out=x), lambda x: x.sum(0, out=x), lambda x: x @ x.t()]
)
def test_refused(call):
    with pytest.raises(TypeError):
        call(masked_tensor(*pair()))


def test_subclasses_keep_their_type_as_leaves():
    class Mine(MaskedTensor):
        pass

    made = Mine(*pair())
    assert type(made) is Mine
    assert fb.masked.is_masked_tensor(made * 2)


def test_cycles_and_weak_references():
    x = masked_tensor(*pair(), requires_grad=True)
    x.own = x
    reference = weakref.ref(x)
    (x * 2).sum().backward()
    del x
    gc.collect()
    assert reference() is None


def test_threads():
    x = masked_tensor(*pair())
    failures = []

    def work():
        for _ in range(50):
            if numbers((x + 1).sum(1) * 2)[0] != [12, 26]:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_sparse_gradients_keep_the_layout_of_the_leaf():
    data, mask = pair()
    x = masked_tensor(data, mask).to_sparse_coo().detach()
    assert x.is_sparse
    with pytest.raises(NotImplementedError, match="csr"):
        masked_tensor(data, mask).to_sparse_csr()
    with pytest.raises(ValueError, match="same layout"):
        x + masked_tensor(data, mask)
    with pytest.raises(RuntimeError, match="sparse"):
        x + data
