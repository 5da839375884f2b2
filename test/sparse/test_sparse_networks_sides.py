"""Graph networks over sparse adjacency matrices: 50 losses and the last weights are PyTorch's."""

import flambeau
import pytest
from oracle import pytorch

NODES, FEATURES, CLASSES, STEPS = 24, 6, 4, 50


def edges(torch):
    """A ring with chords and a few edges that occur twice: two rows, sources and targets."""
    sources = [i for i in range(NODES) for _ in range(3)] + [0, 5, 9]
    targets = [(i + step) % NODES for i in range(NODES) for step in (1, 4, 11)] + [1, 9, 20]
    return torch.tensor([sources, targets])


def adjacency(torch, dtype):
    """Edges both ways and loops, of weight 1; edges that occur twice add up when it is coalesced."""
    one = edges(torch)
    loops = torch.arange(NODES).expand(2, NODES)
    places = torch.cat([one, one.flip(0), loops], 1)
    return torch.sparse_coo_tensor(
        places, torch.ones(places.shape[1], dtype=dtype), (NODES, NODES)
    ).coalesce()


def normalised(torch, matrix):
    """D^-1/2 A D^-1/2 (Kipf & Welling 2017, eq. 2), by products with sparse diagonal matrices."""
    degree = torch.sparse.sum(matrix, 1).to_dense()
    places = torch.arange(NODES).expand(2, NODES)
    scale = torch.sparse_coo_tensor(places, degree**-0.5, (NODES, NODES))
    return torch.sparse.mm(torch.sparse.mm(scale, matrix), scale)


def weights(torch, dtype, *shape, shift=0):
    count = 1
    for size in shape:
        count *= size
    return (torch.cos(torch.arange(count, dtype=dtype) * 1.7 + shift) * 0.4).reshape(shape).requires_grad_()


def task(torch, dtype):
    features = torch.sin(torch.arange(NODES * FEATURES, dtype=dtype)).reshape(NODES, FEATURES)
    return features, torch.arange(NODES) * 7 % CLASSES


def gcn(torch, dtype):
    matrix = normalised(torch, adjacency(torch, dtype))
    features, classes = task(torch, dtype)
    first, second = weights(torch, dtype, FEATURES, 8), weights(torch, dtype, 8, CLASSES, shift=1)

    def loss():
        hidden = torch.relu(torch.sparse.mm(matrix, features @ first))
        return torch.nn.functional.cross_entropy(torch.spmm(matrix, hidden @ second), classes)

    return [first, second], loss


def learnt_edges(torch, dtype):
    """The values of the adjacency matrix are weights as well, normalised by row sums in each step."""
    places = adjacency(torch, dtype).indices()
    strength = weights(torch, dtype, places.shape[1])
    features, classes = task(torch, dtype)
    first = weights(torch, dtype, FEATURES, CLASSES, shift=2)

    def loss():
        matrix = torch.sparse_coo_tensor(places, strength.exp(), (NODES, NODES))
        total = torch.sparse.sum(matrix, 1).to_dense()
        mixed = torch.sparse.mm(matrix, features @ first) / total.unsqueeze(1)
        return torch.nn.functional.cross_entropy(torch.sparse.addmm(mixed, matrix, mixed, alpha=0.1), classes)

    return [strength, first], loss


def gat(torch, dtype):
    """Two heads of attention (Velickovic et al. 2018, eq. 1-5): a sparse softmax over neighbours."""
    places = adjacency(torch, dtype).indices()
    features, classes = task(torch, dtype)
    heads = [
        (weights(torch, dtype, FEATURES, CLASSES, shift=h), weights(torch, dtype, 2 * CLASSES, shift=h + 0.5))
        for h in range(2)
    ]

    def head(projection, attention):
        hidden = features @ projection
        pairs = torch.cat([hidden[places[0]], hidden[places[1]]], 1)
        scores = torch.nn.functional.leaky_relu(pairs @ attention, 0.2)
        shares = torch.sparse.softmax(torch.sparse_coo_tensor(places, scores, (NODES, NODES)), 1)
        return torch.sparse.mm(shares, hidden)

    def loss():
        mean = sum(head(*parts) for parts in heads) / len(heads)
        return torch.nn.functional.cross_entropy(mean, classes)

    return [part for parts in heads for part in parts], loss


def masked(torch, dtype):
    """Scores of all pairs, reduced to the edges by sparse_mask, and their log-softmax."""
    matrix = adjacency(torch, dtype)
    features, classes = task(torch, dtype)
    query, key = weights(torch, dtype, FEATURES, 5), weights(torch, dtype, FEATURES, 5, shift=1)
    value = weights(torch, dtype, FEATURES, CLASSES, shift=2)

    def loss():
        scores = ((features @ query) @ (features @ key).t()).sparse_mask(matrix)
        shares = torch.sparse.log_softmax(scores, 1)
        return torch.nn.functional.cross_entropy(torch.sparse.mm(shares, features @ value), classes)

    return [query, key, value], loss


NETWORKS = {"gcn": gcn, "learnt edges": learnt_edges, "gat": gat, "masked": masked}
OPTIMIZERS = {
    "SGD": lambda torch, params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "Adam": lambda torch, params: torch.optim.Adam(params, lr=0.02),
}


def curve(torch, network, optimizer, dtype):
    params, loss_of = NETWORKS[network](torch, getattr(torch, dtype))
    stepping, losses = OPTIMIZERS[optimizer](torch, params), []
    for _ in range(STEPS):
        stepping.zero_grad()
        loss = loss_of()
        loss.backward()
        stepping.step()
        losses.append(float(loss.detach()))
    return losses, [p.detach().reshape(-1).tolist() for p in params]


@pytest.mark.parametrize(("optimizer", "dtype"), [("SGD", "float32"), ("Adam", "float64")])
@pytest.mark.parametrize("network", NETWORKS)
def test_losses_and_weights_are_pytorchs(network, optimizer, dtype):
    expected, theirs = curve(pytorch(), network, optimizer, dtype)
    found, ours = curve(flambeau, network, optimizer, dtype)
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    assert found[-1] < found[0]
    for a, b in zip(ours, theirs, strict=True):
        assert a == pytest.approx(b, rel=10 * tolerance, abs=10 * tolerance)
