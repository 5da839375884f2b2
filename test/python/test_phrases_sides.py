"""Words in messages that public programs look for: each stands in flambeau's message and in PyTorch's.

The sentence around the words is each framework's own. A row names the exception's type, the words, and a
statement that raises it.
"""

import copy
import re

import flambeau
import pytest
from oracle import pytorch


class Broken:
    """A dataset whose items cannot be read."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise ValueError("broken item")


def _load(state):
    return lambda fw: fw.nn.Linear(2, 3).load_state_dict(state(fw))


def _twice(fw):
    y = (fw.ones(2, requires_grad=True) ** 2).sum()
    y.backward()
    y.backward()


def _changed(fw):
    y = fw.ones(2, requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


def _unused(fw):
    x, y = fw.ones(1, requires_grad=True), fw.ones(1, requires_grad=True)
    fw.autograd.grad(x.sum(), [y])


def _conv(fw):
    return fw.nn.Conv2d(1, 1, 1)


def _worker(fw):
    list(fw.utils.data.DataLoader(Broken(), num_workers=1))


def _grads(fw, *shape):
    return fw.ones(*shape, requires_grad=True)


ROWS = [
    # memory: what accelerate and lightning look for before they try a smaller batch
    (RuntimeError, "DefaultCPUAllocator: can't allocate memory", lambda fw: fw.empty(2**50)),
    # shapes
    (RuntimeError, "must match the size of tensor", lambda fw: fw.ones(2) + fw.ones(3)),
    (RuntimeError, "shapes cannot be multiplied", lambda fw: fw.ones(2, 3) @ fw.ones(2, 3)),
    (RuntimeError, "shapes cannot be multiplied", lambda fw: fw.nn.Linear(3, 2)(fw.ones(4, 5))),
    (RuntimeError, "invalid for input of size 6", lambda fw: fw.ones(6).view(4)),
    (RuntimeError, "invalid for input of size 6", lambda fw: fw.ones(6).reshape(4)),
    (RuntimeError, "view size is not compatible", lambda fw: fw.ones(2, 3).t().view(6)),
    (RuntimeError, "must match the existing size", lambda fw: fw.ones(2, 3).expand(2, 4)),
    (RuntimeError, "expects each tensor to be equal size", lambda fw: fw.stack([fw.ones(2), fw.ones(3)])),
    (RuntimeError, "Sizes of tensors must match", lambda fw: fw.cat([fw.ones(2, 2), fw.ones(2, 3)])),
    (RuntimeError, "broadcast shape", lambda fw: fw.ones(1).add_(fw.ones(3))),
    (RuntimeError, "negative dimension", lambda fw: fw.empty(-1)),
    # indices
    (IndexError, "Dimension out of range", lambda fw: fw.ones(2).sum(3)),
    (IndexError, "out of bounds for dimension 0 with size 2", lambda fw: fw.ones(2)[5]),
    (IndexError, "out of bounds for dimension 0 with size 2", lambda fw: fw.ones(2)[fw.tensor([5])]),
    (IndexError, "too many indices", lambda fw: fw.ones(2)[0, 0]),
    (IndexError, "index out of range", lambda fw: fw.nn.Embedding(2, 3)(fw.tensor([5]))),
    (IndexError, "out of bounds", lambda fw: fw.nn.functional.nll_loss(fw.ones(2, 3), fw.tensor([0, 7]))),
    (RuntimeError, "out of bounds", lambda fw: fw.ones(3).gather(0, fw.tensor([5]))),
    (IndexError, "shape mismatch", lambda fw: fw.ones(4, 4)[fw.tensor([0, 1]), fw.tensor([0, 1, 2])]),
    (IndexError, "The shape of the mask", lambda fw: fw.ones(4)[fw.tensor([True, False])]),
    # truth and numbers
    (RuntimeError, "Boolean value of Tensor with more than one value", lambda fw: bool(fw.ones(2))),
    (RuntimeError, "Boolean value of Tensor with no values is ambiguous", lambda fw: bool(fw.ones(0))),
    (RuntimeError, "cannot be converted to Scalar", lambda fw: fw.ones(2).item()),
    (TypeError, "len() of a 0-d tensor", lambda fw: len(fw.tensor(1.0))),
    (TypeError, "iteration over a 0-d tensor", lambda fw: list(fw.tensor(1.0))),
    # autograd
    (RuntimeError, "does not require grad", lambda fw: fw.ones(1).sum().backward()),
    (RuntimeError, "does not have a grad_fn", lambda fw: fw.ones(1).sum().backward()),
    (RuntimeError, "a leaf Variable that requires grad", lambda fw: _grads(fw, 1).add_(1)),
    (RuntimeError, "modified by an inplace operation", _changed),
    (RuntimeError, "Trying to backward through the graph a second time", _twice),
    (RuntimeError, "retain_graph=True", _twice),
    (RuntimeError, "only for scalar outputs", lambda fw: (_grads(fw, 2) * 2).backward()),
    (RuntimeError, "only Tensors of floating point", lambda fw: fw.ones(2).long().requires_grad_()),
    (RuntimeError, "Can't call numpy() on Tensor that requires grad", lambda fw: _grads(fw, 2).numpy()),
    (RuntimeError, "not have been used in the graph", _unused),
    (RuntimeError, "created explicitly by the user", lambda fw: copy.deepcopy(_grads(fw, 2) * 2)),
    (RuntimeError, "support automatic differentiation", lambda fw: fw.neg(_grads(fw, 1), out=fw.ones(1))),
    # dtypes
    (RuntimeError, "can't be cast to", lambda fw: fw.ones(2).long().add_(1.5)),
    (RuntimeError, "same dtype", lambda fw: fw.ones(2, 2) @ fw.ones(2, 2).double()),
    (NotImplementedError, "not implemented for", lambda fw: fw.nn.functional.gelu(fw.ones(2).long())),
    (RuntimeError, "Input type", lambda fw: _conv(fw).bfloat16()(fw.ones(1, 1, 2, 2))),
    # devices
    (NotImplementedError, "Cannot copy out of meta tensor", lambda fw: fw.ones(2, device="meta").to("cpu")),
    (RuntimeError, "Invalid device string", lambda fw: fw.device("cpu:x")),
    # layers
    (RuntimeError, "to have 1 channels, but got 2 channels", lambda fw: _conv(fw)(fw.ones(1, 2, 2, 2))),
    (RuntimeError, "Output size is too small", lambda fw: fw.nn.MaxPool2d(3)(fw.ones(1, 2, 2))),
    (ValueError, "more than 1 value per channel", lambda fw: fw.nn.BatchNorm1d(2)(fw.ones(1, 2))),
    (RuntimeError, "Error(s) in loading state_dict", _load(lambda fw: {})),
    (RuntimeError, "Missing key(s)", _load(lambda fw: {})),
    (RuntimeError, "Unexpected key(s)", _load(lambda fw: {"x": fw.ones(1)})),
    (RuntimeError, "size mismatch for weight", _load(lambda fw: fw.nn.Linear(2, 4).state_dict())),
    (AttributeError, "object has no attribute 'nothing'", lambda fw: fw.nn.Linear(2, 2).nothing),
    (TypeError, "is not a Module subclass", lambda fw: fw.nn.Sequential(3)),
    (ValueError, "empty parameter list", lambda fw: fw.optim.SGD([], lr=0.1)),
    (ValueError, "Invalid learning rate", lambda fw: fw.optim.SGD([_grads(fw, 1)], lr=-1)),
    # linear algebra
    (RuntimeError, "batches of square matrices", lambda fw: fw.linalg.inv(fw.ones(2, 3))),
    (RuntimeError, "singular", lambda fw: fw.linalg.inv(fw.zeros(2, 2))),
    (RuntimeError, "positive-definite", lambda fw: fw.linalg.cholesky(-fw.eye(2))),
    # data
    (ValueError, "DataLoader worker", _worker),
    # memory that is shared
    (RuntimeError, "unsupported operation", lambda fw: fw.ones(1).expand(3).add_(1)),
    (RuntimeError, "unsupported operation", lambda fw: (x := fw.ones(3))[1:].copy_(x[:-1])),
]  # fmt: skip
NUMBERS = {re.sub(r"\W+", "_", f"{i} {row[1]}"): row for i, row in enumerate(ROWS)}


def message(fw, name):
    kind, _, call = NUMBERS[name]
    with pytest.raises(kind) as caught:
        call(fw)
    assert caught.type.__name__ in (kind.__name__, "_LinAlgError", "LinAlgError")
    return str(caught.value)


@pytest.mark.parametrize("name", NUMBERS)
def test_words(name):
    assert NUMBERS[name][1] in message(flambeau, name)


@pytest.mark.parametrize("name", NUMBERS)
def test_words_are_pytorchs(name):
    assert NUMBERS[name][1] in message(pytorch(), name)


def test_out_of_memory_has_one_type():
    assert flambeau.OutOfMemoryError is flambeau.cuda.OutOfMemoryError
    assert issubclass(flambeau.OutOfMemoryError, RuntimeError)
    assert flambeau.OutOfMemoryError.__module__ == "flambeau"


def test_words_of_devices():
    """PyTorch says them of CUDA tensors, which not every machine has."""
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        flambeau.ones(2, 2) @ flambeau.ones(2, 2, device="meta")
