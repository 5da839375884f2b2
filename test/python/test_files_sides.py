"""Files of one framework read by the other: states, plain values, whole layers."""

import io

import flambeau as fb
import pytest
from oracle import pytorch

OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "LBFGS")
VALUES = {
    "containers": lambda t: [1, 2.5, "text", None, True, (1,), {3}, {"a": [b"x"]}],
    "complex": lambda t: 1 + 2j,
    "dtype": lambda t: [t.float16, t.bool],
    "size": lambda t: t.Size([2, 3]),
    "device": lambda t: t.device("cpu"),
    "layout": lambda t: t.strided,
    "strides": lambda t: t.arange(6).reshape(2, 3).t()[1:],
    "numbers": lambda t: [t.tensor(1j), t.tensor([True]), t.zeros(0), t.ones(2, dtype=t.bfloat16)],
    "gradients": lambda t: [t.ones(2, requires_grad=True), t.nn.Parameter(t.ones(1))],
}


def sent(source, target, value, **options):
    file = io.BytesIO()
    source.save(value, file)
    file.seek(0)
    return target.load(file, **options)


def directions():
    torch = pytorch()
    return ((torch, fb), (fb, torch))


def network(torch):
    nn = torch.nn
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3), nn.Dropout(0.5),
        nn.LSTM(3, 4), nn.TransformerEncoderLayer(4, 2, 8), nn.Embedding(3, 2), nn.ModuleList([nn.PReLU()]),
    )  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    for source, target in directions():
        assert repr(sent(source, target, VALUES[name](source))) == repr(VALUES[name](target))


def test_memory_that_two_tensors_share():
    for source, target in directions():
        x = source.zeros(4)
        both = sent(source, target, [x, x[1:]])
        both[0][2] = 7
        assert both[1].tolist() == [0, 7, 0]


def test_states_of_layers():
    for source, target in directions():
        state = network(source).state_dict()
        other = network(target)
        for p in other.parameters():
            p.data.zero_()
        assert str(other.load_state_dict(sent(source, target, state))) == "<All keys matched successfully>"
        assert [v.tolist() for v in other.state_dict().values()] == [v.tolist() for v in state.values()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_states_of_optimizers(name):
    def run(torch, state=None):
        leaf = torch.tensor([1.0, -2.0], requires_grad=True)
        optimizer = getattr(torch.optim, name)([leaf], lr=0.1)
        if state is not None:
            optimizer.load_state_dict(state)

        def loss():
            optimizer.zero_grad()
            out = (leaf**4).sum()
            out.backward()
            return out

        optimizer.step(loss)
        optimizer.step(loss)
        return optimizer, leaf.tolist()

    for source, target in directions():
        state = run(source)[0].state_dict()
        assert run(target, sent(source, target, state))[1] == pytest.approx(run(source, state)[1], rel=1e-5)


def test_whole_layers_of_pytorch():
    torch = pytorch()
    theirs = network(torch)
    ours = sent(torch, fb, theirs, weights_only=False)
    assert type(ours[6]) is fb.nn.LSTM
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = torch.rand(2, 1, 4, 4)
    for layers, given, torch_ in ((ours, fb.tensor(x.numpy()), fb), (theirs, x, torch)):
        layers.eval()
        out, _ = layers[6](layers[:6](given))
        found = (layers[7](out.unsqueeze(0)), layers[8](torch_.tensor([2])))
        if torch_ is fb:
            first = found
    for a, b in zip(first, found, strict=True):
        assert a.flatten().tolist() == pytest.approx(b.flatten().tolist(), abs=1e-5)
    with pytest.raises(Exception, match="Weights only load failed"):
        sent(torch, fb, theirs)


def test_names_of_layouts_do_not_reach_further():
    file = io.BytesIO()
    fb.save([fb.strided], file)
    forged = file.getvalue().replace(b"torch.strided", b"torch._tensor")
    with pytest.raises(Exception, match="_tensor|CRC"):
        fb.load(io.BytesIO(forged))
