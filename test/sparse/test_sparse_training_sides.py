"""A graph network and embeddings with sparse gradients give PyTorch's losses."""

import flambeau
import pytest
from oracle import pytorch


def graph(torch):
    """A ring of 12 nodes with chords, normalised by degree, and features and classes of the nodes."""
    sources = [i for i in range(12) for _ in range(3)]
    targets = [(i + step) % 12 for i in range(12) for step in (0, 1, 5)]
    edges = torch.tensor([sources, targets])
    adjacency = torch.sparse_coo_tensor(edges, torch.full((36,), 1 / 3), (12, 12))
    features = torch.sin(torch.arange(12 * 4).reshape(12, 4).float())
    return adjacency, edges, features, torch.arange(12) % 3


def weights(torch, *shape):
    count = 1
    for size in shape:
        count *= size
    return (torch.cos(torch.arange(count).float()) * 0.5).reshape(shape).requires_grad_()


def train(torch, params, loss_of, make, steps=30):
    optimizer, losses = make(torch, params), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def sgd(torch, params):
    return torch.optim.SGD(params, lr=0.2, momentum=0.9)


def gcn(torch):
    adjacency, _, features, classes = graph(torch)
    first, second = weights(torch, 4, 8), weights(torch, 8, 3)

    def loss(step):
        hidden = torch.relu(torch.spmm(adjacency, features @ first))
        return torch.nn.functional.cross_entropy(torch.sparse.mm(adjacency, hidden @ second), classes)

    return train(torch, [first, second], loss, sgd)


def gat(torch):
    """Attention over edges: a sparse matrix whose values are learnt."""
    _, edges, features, classes = graph(torch)
    first, attention, last = weights(torch, 4, 8), weights(torch, 16), weights(torch, 8, 3)

    def loss(step):
        hidden = features @ first
        pairs = torch.cat([hidden[edges[0]], hidden[edges[1]]], 1)
        scores = torch.nn.functional.leaky_relu(pairs @ attention)
        shares = torch.sparse.softmax(torch.sparse_coo_tensor(edges, scores, (12, 12)), 1)
        return torch.nn.functional.cross_entropy(torch.sparse.mm(shares, hidden) @ last, classes)

    return train(torch, [first, attention, last], loss, sgd)


def words(torch, make):
    table, readout = weights(torch, 20, 6), weights(torch, 6, 4)
    batches = torch.arange(4 * 10).reshape(4, 10) * 7 % 20

    def loss(step):
        rows = torch.nn.functional.embedding(batches[step % 4], table, padding_idx=3, sparse=True)
        return torch.nn.functional.cross_entropy(rows @ readout.detach(), batches[step % 4] % 4)

    return train(torch, [table], loss, make)


PROGRAMS = {
    "gcn": gcn,
    "gat": gat,
    "SparseAdam": lambda torch: words(torch, lambda t, p: t.optim.SparseAdam(p, lr=0.05)),
    "Adagrad": lambda torch: words(torch, lambda t, p: t.optim.Adagrad(p, lr=0.1)),
    "SGD": lambda torch: words(torch, lambda t, p: t.optim.SGD(p, lr=0.5)),
    "momentum": lambda torch: words(torch, sgd),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_are_pytorchs(program):
    torch = pytorch()
    expected = PROGRAMS[program](torch)
    found = PROGRAMS[program](flambeau)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert found[-1] < found[0]
