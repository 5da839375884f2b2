"""Layers under capture: one graph each, with the results of a plain call."""

import flambeau as fb
import pytest
from captured import run_both
from flambeau import nn

G = fb.Generator().manual_seed(3)


def randn(*size):
    return fb.randn(*size, generator=G)


fb.manual_seed(0)
MODULES = {
    "linear": (nn.Linear(4, 3), randn(2, 4)),
    "convolution": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        ),
        randn(2, 3, 8, 8),
    ),
    "lstm": (nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), randn(2, 3, 4)),
    "gru": (nn.GRU(4, 5), randn(2, 3, 4)),
    "lstm cell": (nn.LSTMCell(4, 5), randn(2, 4)),
    "attention": (nn.MultiheadAttention(8, 2, batch_first=True), *(randn(2, 3, 8) for _ in range(3))),
    "encoder layer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), randn(2, 3, 8)),
    "transformer": (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), randn(2, 3, 8), randn(2, 4, 8)),
    "embedding": (nn.Embedding(10, 4), fb.tensor([[1, 2], [3, 4]])),
    "embedding bag": (nn.EmbeddingBag(10, 3), fb.tensor([1, 2, 4, 5]), fb.tensor([0, 2])),
    "dropout": (nn.Dropout(0.5), randn(3, 4)),
    "layer norm": (nn.LayerNorm(4), randn(2, 4)),
    "group norm": (nn.GroupNorm(2, 4), randn(2, 4, 3)),
    "instance norm": (nn.InstanceNorm2d(3), randn(2, 3, 4, 4)),
    "upsample": (nn.Upsample(scale_factor=2), randn(1, 2, 3, 3)),
    "bilinear": (nn.Bilinear(3, 4, 5), randn(2, 3), randn(2, 4)),
    "cross entropy": (nn.CrossEntropyLoss(), randn(3, 5), fb.tensor([1, 2, 3])),
    "weight norm": (nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), randn(2, 3)),
    "spectral norm": (nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), randn(2, 3)),
}


@pytest.mark.parametrize("is_training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_one_graph(name, is_training):
    module, *arguments = MODULES[name]
    module.train(is_training)
    graphs, program = run_both(module, arguments)
    assert len(graphs) == 1 and not program.log, program.log


def test_a_training_step_gives_the_gradients_of_a_plain_one():
    def build():
        fb.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))

    plain, model = build(), build()
    compiled = fb.compile(model, backend="eager")
    optimizers = [fb.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (plain, compiled)]
    x, y = randn(5, 4), fb.tensor([0, 1, 2, 0, 1])
    for _ in range(4):
        for m, optimizer in zip((plain, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(m(x), y).backward()
            optimizer.step()
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        assert fb.equal(p, q) and fb.equal(p.grad, q.grad)
    assert list(compiled.state_dict()) == ["_orig_mod." + name for name in plain.state_dict()]
