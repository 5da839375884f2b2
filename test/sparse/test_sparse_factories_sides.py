"""Sparse tensors by `layout=`, by their sizes, and with other sizes, as in PyTorch."""

import flambeau
from sparse_cases import agreeing, dense, hybrid, sample


def sizes_of(x):
    """All but the values: PyTorch leaves those that are new as its memory is."""
    return [list(x.shape), list(x._values().shape), x._indices().tolist(), x.dense_dim()]


CASES = {
    "zeros": lambda t: t.zeros(2, 3, layout=t.sparse_coo),
    "zeros of a list": lambda t: t.zeros((2, 3), dtype=t.float64, layout=t.sparse_coo),
    "zeros that want gradients": lambda t: t.zeros(2, layout=t.sparse_coo, requires_grad=True),
    "zeros with an empty size": lambda t: t.zeros(0, 3, layout=t.sparse_coo),
    "zeros of no dimension": lambda t: t.zeros((), layout=t.sparse_coo),
    "zeros beyond int64": lambda t: t.zeros(2**40, 2**40, layout=t.sparse_coo),
    "zeros of a negative size": lambda t: t.zeros(2, -1, layout=t.sparse_coo),
    "zeros into a strided tensor": lambda t: t.zeros(2, layout=t.sparse_coo, out=t.zeros(2)),
    "empty": lambda t: t.empty(2, 3, layout=t.sparse_coo),
    "empty, integers": lambda t: t.empty((0, 3), layout=t.sparse_coo, dtype=t.int32),
    "empty with a format": lambda t: t.empty(2, 3, layout=t.sparse_coo, memory_format=t.contiguous_format),
    "ones": lambda t: t.ones(2, 3, layout=t.sparse_coo),
    "full": lambda t: t.full((2, 3), 0.0, layout=t.sparse_coo),
    "rand": lambda t: t.rand(2, 3, layout=t.sparse_coo),
    "arange": lambda t: t.arange(3, layout=t.sparse_coo),
    "zeros_like of a strided tensor": lambda t: t.zeros_like(dense(t, 2, 3), layout=t.sparse_coo),
    "zeros_like as strided": lambda t: t.zeros_like(sample(t), layout=t.strided),
    "zeros_like of a hybrid": lambda t: t.zeros_like(hybrid(t), dtype=t.float32),
    "empty_like": lambda t: t.empty_like(hybrid(t)),
    "empty_like as strided": lambda t: t.empty_like(sample(t), layout=t.strided).shape,
    "rand_like": lambda t: t.rand_like(sample(t)),
    "new_zeros": lambda t: sample(t).new_zeros((2, 2)),
    "new_zeros as strided": lambda t: sample(t).new_zeros((2, 2), layout=t.strided),
    "new_zeros of a strided tensor": lambda t: dense(t, 2).new_zeros((2, 2), layout=t.sparse_coo),
    "new_empty": lambda t: sample(t).new_empty((2, 2), dtype=t.int32),
    "new_ones": lambda t: sample(t).new_ones((2, 2)),
    "new": lambda t: sample(t).new(2, 2),
    "new without sizes": lambda t: sample(t).new(),
    "tensor of a sparse one": lambda t: t.tensor(sample(t)),
    "tensor of another dtype": lambda t: t.tensor(sample(t), dtype=t.float32),
    "as_tensor": lambda t: t.as_tensor(sample(t)),
    "type_as": lambda t: sample(t).type_as(t.zeros(2, layout=t.sparse_coo)),
    "to takes no other layout": lambda t: dense(t, 2).to(layout=t.sparse_coo),
    "by size=": lambda t: t.sparse_coo_tensor(size=(2, 3)),
    "by one size": lambda t: t.sparse_coo_tensor((3,), dtype=t.int64),
    "one value for two places": lambda t: t.sparse_coo_tensor([[0, 1]], 1.0, (3,)),
    "an index too large": lambda t: t.sparse_coo_tensor([[5]], [1.0], (3,), check_invariants=True),
    "an index below 0": lambda t: t.sparse_coo_tensor([[-1]], [1.0], (3,), check_invariants=True),
    "resize": lambda t: sample(t).sparse_resize_((4, 5), 2, 0),
    "resize of values": lambda t: sizes_of(hybrid(t).sparse_resize_((2, 3, 3), 2, 1)),
    "resize of both": lambda t: sizes_of(hybrid(t).sparse_resize_((4, 5, 3), 2, 1)),
    "resize to a smaller size": lambda t: sample(t).sparse_resize_((1, 5), 2, 0),
    "resize to smaller values": lambda t: hybrid(t).sparse_resize_((2, 3, 1), 2, 1),
    "resize to more dimensions": lambda t: sample(t).sparse_resize_((4, 5, 2), 2, 1),
    "resize to other kinds": lambda t: sample(t).sparse_resize_((4, 5), 1, 1),
    "resize beyond int64": lambda t: sample(t).sparse_resize_((2**40, 2**40), 2, 0),
    "resize without entries": lambda t: t.zeros(2, 3, layout=t.sparse_coo).sparse_resize_((1,), 1, 0),
    "resize of a strided tensor": lambda t: dense(t, 2, 3).sparse_resize_((2, 3), 2, 0),
    "clear": lambda t: sample(t).sparse_resize_and_clear_((4, 5), 1, 1),
    "clear, wrong dimensions": lambda t: sample(t).sparse_resize_and_clear_((4, 5), 1, 2),
    "clear, negative size": lambda t: sample(t).sparse_resize_and_clear_((4, -5), 1, 1),
    "resize as": lambda t: t.zeros(1, dtype=t.float64, layout=t.sparse_coo).resize_as_sparse_(hybrid(t)),
    "resize as, function": lambda t: t.resize_as_sparse_(
        sample(t), t.zeros(4, 5, dtype=t.float64, layout=t.sparse_coo)
    ),
    "resize as another kind": lambda t: sample(t).resize_as_sparse_(hybrid(t)),
    "resize as a strided tensor": lambda t: sample(t).resize_as_sparse_(dense(t, 2, 3)),
    "csr": lambda t: t.zeros(2, 3, layout="sparse_csr"),
}

test_factories = agreeing(CASES)


def test_empty_like_takes_the_layout():
    """PyTorch has it for zeros_like alone."""
    made = flambeau.empty_like(dense(flambeau, 2, 3), layout=flambeau.sparse_coo)
    assert made.is_sparse and made.shape == (2, 3) and made.sparse_dim() == 2 and made._nnz() == 0
