"""Sparse tensors under abuse: bad files, changed memory, aliases, threads, views against strided tensors."""

import copy
import io
import itertools
import pickle
import random
import threading
import zipfile

import flambeau as fb
import pytest
from flambeau.serialization import _allowed

ANY_ERROR = (RuntimeError, IndexError, TypeError, ValueError, pickle.UnpicklingError)


def sample():
    return fb.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, -1.0], (2, 3))


def hybrid(sizes=(3, 2, 4, 1, 2), lead=3):
    dense = fb.arange(float(fb.Size(sizes).numel())).reshape(sizes) % 5 - 2
    return (dense * (dense > 0)).to_sparse(lead)


# --- views ----------------------------------------------------------------------------------------


def moves(ndim):
    """Calls that a random walk chooses from, for a tensor of this many dimensions."""
    pick = random.choice
    dims = range(ndim)
    yield lambda x: x.unsqueeze(random.randint(-x.dim() - 1, x.dim()))
    if ndim == 0:
        return
    yield lambda x: x.squeeze(pick(dims))
    yield lambda x: x.squeeze()
    yield lambda x: x.transpose(pick(dims), pick(dims))
    yield lambda x: x.permute(random.sample(list(dims), len(dims)))
    dim = pick(dims)
    yield lambda x: x.select(dim, random.randint(-x.shape[dim], x.shape[dim] - 1)) if x.shape[dim] else x
    yield lambda x: x.narrow(dim, 0, random.randint(0, x.shape[dim]))
    yield lambda x: fb.narrow_copy(x, dim, x.shape[dim] // 2, x.shape[dim] - x.shape[dim] // 2)
    yield lambda x: x[(slice(None),) * dim + (slice(random.randint(0, 2), None, random.randint(1, 3)),)]
    yield lambda x: x.split(2, dim)[-1]
    yield lambda x: x.unbind(dim)[0] if x.shape[dim] else x
    yield lambda x: x.index_select(dim, fb.tensor([0, 0])) if x.shape[dim] else x
    yield lambda x: fb.cat([x, x], dim)
    yield lambda x: fb.stack([x, x], dim)
    yield lambda x: x.sum(dim)


@pytest.mark.parametrize("seed", range(150))
def test_walks_agree_with_strided_tensors(seed):
    random.seed(seed)
    sizes = tuple(random.choice((1, 2, 3, 4)) for _ in range(random.randint(1, 5)))
    x = hybrid(sizes, random.randint(1, len(sizes)))
    expected = x.to_dense()
    for _ in range(8):
        move = random.choice(list(moves(x.dim())))
        state = random.getstate()
        try:
            after = move(x)
        except RuntimeError as error:
            assert "dense" in str(error), error  # sparse and dense dimensions do not mix
            continue
        random.setstate(state)
        expected = move(expected)
        if not after.is_sparse:
            assert fb.equal(after, expected)
            return
        x = after
        assert x.shape == expected.shape and fb.equal(x.to_dense(), expected)
        assert x.sparse_dim() + x.dense_dim() == x.dim()
        assert not x.is_coalesced() or x.coalesce() is x
        assert fb.equal(
            fb.sparse_coo_tensor(x._indices(), x._values(), x.shape).coalesce().to_dense(), expected
        )
        if x.is_coalesced():  # the claim holds
            fb.sparse_coo_tensor(x._indices(), x._values(), x.shape, is_coalesced=True, check_invariants=True)


def test_results_of_views_are_tensors_of_their_own():
    x = sample().coalesce()
    for piece in (x[0], x.t(), x.unsqueeze(0), x.narrow(0, 0, 1), x.permute(1, 0)):
        piece.mul_(10)
    assert fb.equal(x.to_dense(), sample().to_dense())
    y = x * 2
    for overwrite in (
        lambda: y.t().zero_(),
        lambda: y[0].copy_(y[1]),
        lambda: fb.select_scatter(y, y[1], 0, 0),
    ):
        with pytest.raises(RuntimeError, match="view of a sparse tensor"):
            overwrite()
    assert y.sum() == 22 and y.t().clone().zero_()._nnz() == 0


# --- changed memory, aliases ------------------------------------------------------------------------


def test_sizes_do_not_change_under_aliases():
    for change in (
        lambda x: x.t_(),
        lambda x: x.sparse_resize_((5, 5), 2, 0),
        lambda x: x.copy_(fb.sparse_coo_tensor((1, 1))),
        lambda x: fb.cat([sample(), sample()], out=x),
    ):
        x = sample()
        alias = x.detach()
        with pytest.raises(RuntimeError):
            change(x)
        assert x.shape == alias.shape == (2, 3) and fb.equal(x.to_dense(), alias.to_dense())


def test_parts_that_change_afterwards():
    x = sample().coalesce()
    x._values().set_(fb.ones(100))
    x._indices().resize_(2, 50)
    assert fb.equal(x.to_dense(), sample().to_dense())  # each call gives a tensor of its own
    x._indices().fill_(2**62)
    for use in (x.to_dense, lambda: x.clone().to_dense(), x.t, lambda: x @ fb.ones(3, 1), lambda: x.sin()):
        with pytest.raises(IndexError):
            use()
    assert "sparse_coo" in repr(x)


def test_the_tensor_given_as_indices_may_change():
    places, values = fb.tensor([[0, 1], [1, 0]]), fb.ones(2)
    x = fb.sparse_coo_tensor(places, values, (2, 2))
    places.fill_(-7)
    try:
        dense = x.to_dense()
    except IndexError:
        return
    assert fb.equal(dense, fb.tensor([[0.0, 1.0], [1.0, 0.0]]))


def test_threads_that_replace_parts():
    x = sample()
    errors = []

    def write():
        for _ in range(200):
            x.mul_(1.0).add_(sample(), alpha=0)
            x.zero_()
            x.copy_(sample())

    def read():
        for _ in range(400):
            try:
                x.to_dense(), x.coalesce()._nnz(), repr(x)
            except RuntimeError as error:
                errors.append(error)

    threads = [threading.Thread(target=target) for target in (write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and x.to_dense().shape == (2, 3)


# --- files ------------------------------------------------------------------------------------------


def saved(x):
    file = io.BytesIO()
    fb.save(x, file)
    return file.getvalue()


def rewritten(data, suffix, change):
    """The file with the bytes of the records of this suffix changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info, change(content) if info.filename.endswith(suffix) else content)
    return out.getvalue()


def load_both_ways(data):
    for weights_only in (True, False):
        yield lambda weights_only=weights_only: fb.load(io.BytesIO(data), weights_only=weights_only)


@pytest.mark.parametrize("value", [-1, 3, 2**40, -(2**63), 2**63 - 1])
def test_files_with_indices_out_of_range(value):
    data = rewritten(
        saved(sample()), "data/0", lambda raw: value.to_bytes(8, "little", signed=True) * (len(raw) // 8)
    )
    for load in load_both_ways(data):
        with pytest.raises(ANY_ERROR):
            load()


def test_files_whose_order_is_not_what_they_claim():
    x = fb.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), is_coalesced=True)
    data = rewritten(saved(x), "data/0", lambda raw: raw[8:] + raw[:8])
    for load in load_both_ways(data):
        with pytest.raises(ANY_ERROR):
            load()


def test_parts_that_no_writer_makes():
    place, values = fb.tensor([[0, 1]]), fb.ones(2)
    wrong = [
        (fb.sparse_coo, (place, values)),
        (fb.sparse_coo, (place, values, (2,), True, 1)),
        (fb.sparse_coo, (place, values, (-2,), True)),
        (fb.sparse_coo, (place, values, ("a",), True)),
        (fb.sparse_coo, (place, values, (2**70,), True)),
        (fb.sparse_coo, (place, values, 5, True)),
        (fb.sparse_coo, (None, values, (2,), True)),
        (fb.sparse_coo, (place, 5, (2,), True)),
        (fb.sparse_coo, (place, values.to_sparse(), (2,), True)),
        (fb.sparse_coo, [place, values, (2,), True]),
        (fb.sparse_csr, (place, values, (2,), True)),
        (fb.strided, (place, values, (2,), True)),
        (5, (place, values, (2,), True)),
        (fb.sparse_coo, None),
        (fb.sparse_coo, (place, values, (2,), lambda: 1)),
    ]
    for layout, data in wrong[:-1]:
        with pytest.raises((*ANY_ERROR, OverflowError)):
            _allowed.sparse_tensor(layout, data)


def test_copies_keep_what_is_known():
    for x in (sample(), sample().coalesce(), hybrid(), fb.sparse_coo_tensor((0, 3))):
        made = [copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x)), fb.load(io.BytesIO(saved(x)))]
        for twin in made:
            assert twin.is_coalesced() == x.is_coalesced() and twin._nnz() == x._nnz()
            assert fb.equal(twin.to_dense(), x.to_dense())
    shared = fb.load(io.BytesIO(saved([x, x])))
    assert shared[0] is shared[1]


# --- what has no memory -----------------------------------------------------------------------------


def test_memory_is_refused():
    x = sample()
    calls = [
        x.data_ptr,
        x.numpy,
        x.tolist,
        x.storage,
        x.untyped_storage,
        x.__dlpack__,
        x.share_memory_,
        lambda: x.nbytes,
        lambda: memoryview(x),
        lambda: x.as_strided((2,), (1,)),
        lambda: x.set_(fb.ones(2)),
        lambda: fb.ones(2).set_(x),
        lambda: x.resize_(3),
        lambda: x.view(fb.int32),
        lambda: x.view(-1),
        lambda: x.reshape(-1),
        lambda: x.flatten(),
        lambda: x.expand(2, 2, 3),
        lambda: x.unfold(0, 1, 1),
        lambda: x.diagonal(),
        lambda: fb.from_dlpack(x),
        lambda: x.fill_(1),
        lambda: x.random_(),
        lambda: x.__setitem__(0, 1.0),
        lambda: x[[0, 1]],
        lambda: fb.vmap(lambda r: r * 2)(x),
        lambda: x.copy_(fb.ones(2, 3)),
        lambda: fb.ones(2, 3).copy_(x),
        lambda: x.to("meta"),
        lambda: fb.zeros_like(x, device="meta"),
    ]
    for place, call in enumerate(calls):
        with pytest.raises((RuntimeError, TypeError, BufferError)):
            call()
            raise AssertionError(f"call {place} returned")


def test_modes_and_hooks():
    x = sample().coalesce()
    with fb.inference_mode():
        made = x * 2
        assert made.is_inference() and made.sum() == 22 and made.t().sum() == 22
    leaf = sample().coalesce().requires_grad_()
    seen = []
    with fb.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(t), t)[1], lambda t: t):
        loss = (leaf * leaf).to_dense().sum() + leaf.sin().to_dense().sum()
    loss.backward()
    assert any(t.is_sparse for t in seen)
    expected = 2 * leaf.detach().to_dense() + leaf.detach().to_dense().cos() * (leaf.detach().to_dense() != 0)
    assert fb.allclose(leaf.grad.to_dense(), expected)
    leaf.register_hook(lambda grad: grad * 2)
    leaf.grad = None
    leaf.to_dense().sum().backward()
    assert leaf.grad.to_dense().max() == 2
    with fb.no_grad():
        assert not (leaf * 2).requires_grad


def test_forward_derivatives():
    x, dense = sample().coalesce(), fb.ones(3, 2)
    value, tangent = fb.func.jvp(lambda d: fb.sparse.mm(x, d), (dense,), (dense,))
    assert fb.equal(value, tangent)
    value, tangent = fb.func.jvp(lambda s: (s * 3).to_dense(), (x,), (x,))
    assert fb.equal(value, tangent)


def test_zero_is_tried_out_with_the_numbers_of_the_call():
    x = sample().coalesce()
    assert (x**3).is_sparse and fb.clamp(x, -1, 4).is_sparse and fb.nn.functional.hardtanh(x).is_sparse
    assert fb.equal(fb.clamp(x, -1, 4).to_dense(), x.to_dense().clamp(-1, 4))
    for call in (
        lambda: x**0,
        lambda: fb.clamp(x, 1, 4),
        lambda: x == 0,
        lambda: x**-1,
        lambda: x + 1,
        lambda: 1 - x,
    ):
        with pytest.raises(RuntimeError):
            call()
    assert (x != 0).is_sparse and (x > 0).is_sparse and fb.maximum(x, x * 2).is_sparse
    strided = fb.maximum(x, fb.full((2, 3), 1.0))
    assert not strided.is_sparse and fb.equal(strided, fb.maximum(x.to_dense(), fb.full((2, 3), 1.0)))


def test_operands_that_do_not_match():
    x = sample()
    others = [
        fb.sparse_coo_tensor((3, 2)),
        fb.sparse_coo_tensor((2, 3)).to_sparse(1),
        fb.tensor(1.0).to_sparse(),
    ]
    for other, call in itertools.product(others, (fb.maximum, fb.atan2, fb.add, fb.sub)):
        with pytest.raises(RuntimeError):
            call(x, other)
