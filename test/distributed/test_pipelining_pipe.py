"""Division of arguments and of traced models, in one process."""

import copy

import flambeau as fb
import pytest
from distributed.test_pipelining_tables import oracle
from flambeau.distributed import pipelining
from flambeau.distributed.pipelining import SplitPoint, microbatch, pipe_split, pipeline
from flambeau.fx.proxy import TraceError
from oracle import pytorch

nn = fb.nn

# --- micro-batches -----------------------------------------------------------------------------------------


def values(found):
    """Tensors as lists, in any framework."""
    if isinstance(found, list | tuple):
        return [values(one) for one in found]
    if isinstance(found, dict):
        return {key: values(one) for key, one in found.items()}
    return found.tolist() if hasattr(found, "tolist") else found


SPLITS = [
    lambda t, m: ((t.arange(8),), {}, 3),
    lambda t, m: ((t.arange(2),), None, 4),
    lambda t, m: ((t.arange(8), 5), {"a": {"b": t.arange(16).view(8, 2)}, "c": None}, 2),
    lambda t, m: (([t.arange(6), t.arange(7)],), {}, 2),
    lambda t, m: ((), {}, 3),
    lambda t, m: ((t.arange(8).view(2, 4), t.arange(4)), {}, 2, m.TensorChunkSpec.from_tuple((1, 0))),
    lambda t, m: ((), {"a": t.ones(3, 4)}, 2, None, m.TensorChunkSpec.from_dict({"a": 1})),
    lambda t, m: ((t.arange(4), t.arange(4)), {}, 2, (m.TensorChunkSpec(0), m._Replicate)),
    lambda t, m: ((t.arange(8).view(2, 4),), {}, 2, (m.TensorChunkSpec(-1),)),
]


@pytest.mark.parametrize("case", range(len(SPLITS)))
def test_arguments_are_divided_as_in_pytorch(case):
    torch, theirs = pytorch(), oracle("microbatch")
    mine = microbatch.split_args_kwargs_into_chunks(*SPLITS[case](fb, microbatch))
    args, kwargs = theirs.split_args_kwargs_into_chunks(*SPLITS[case](torch, theirs))
    assert values(mine) == values((args, kwargs))


def test_what_cannot_be_divided():
    split, spec = microbatch.split_args_kwargs_into_chunks, microbatch.TensorChunkSpec
    x = fb.arange(8)
    for call, error, words in (
        (lambda: split((x,), {"a": x[:2]}, 4), ValueError, "expected the same number of micro-batches"),
        (lambda: split((x,), {}, 0), ValueError, "expected a positive number of chunks, got 0"),
        (lambda: split((x,), {}, 2, (spec(1),)), IndexError, "Dimension out of range"),
        (lambda: split((fb.tensor(3),), {}, 2), IndexError, "Dimension out of range"),
        (lambda: split((x,), {}, 2, (0,)), TypeError, "Expected TensorChunkSpec, got int"),
        (lambda: split((x, x), {}, 2, (spec(0),)), ValueError, "expected 2 specifications"),
        (lambda: split((x[:0],), {}, 2), ValueError, "expected a batch with elements"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_results_are_joined_as_in_pytorch():
    torch, theirs = pytorch(), oracle("microbatch")
    for make in (
        lambda t, m: ([t.arange(3), t.arange(2)], None),
        lambda t, m: ([(t.arange(3), 1), (t.arange(2), 1)], (m.TensorChunkSpec(0), None)),
        lambda t, m: ([{"a": t.ones(1, 2), "b": (t.zeros(1),)}] * 2, None),
        lambda t, m: ([t.arange(8).view(2, 4)] * 2, m.TensorChunkSpec(1)),
        lambda t, m: ([t.arange(8).view(2, 4)] * 2, (m.TensorChunkSpec(1),)),
        lambda t, m: ([t.tensor(1.0), t.tensor(2.0)], m._CustomReducer(t.tensor(0.0), lambda a, b: a + b)),
    ):
        assert values(microbatch.merge_chunks(*make(fb, microbatch))) == values(
            theirs.merge_chunks(*make(torch, theirs))
        )
    for chunks, error, words in (
        ([], ValueError, "expected results of micro-batches, got none"),
        ([fb.tensor(1.0)] * 2, RuntimeError, "zero-dimensional tensor"),
        ([1, 2], ValueError, "expected equal values in all micro-batches, got 1 and 2"),
        ([fb.ones(1), (fb.ones(1),)], ValueError, "expected results of the structure"),
    ):
        with pytest.raises(error, match=words):
            microbatch.merge_chunks(chunks, None)


# --- traced models -----------------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())])
        self.rnn, self.drop = nn.LSTM(3, 3, batch_first=True), nn.Dropout(0.5)
        self.shift = nn.Parameter(fb.ones(3))
        self.register_buffer("offset", fb.ones(3))

    def forward(self, x, mask=None, scale=2.0, *, double=False):
        y = self.a(x)
        rows, sequence = x.size(0), self.rnn(y[:, None])  # a number, and a tuple with a tuple
        pipe_split()
        if mask is not None:
            y = y * mask
        y = self.norm(self.b(y) * scale + self.offset)
        pipe_split()
        for layer in self.layers:
            y = layer(y)
        y = self.drop(y).reshape(rows, 3) + x + sequence[0][:, 0] + self.shift
        return {"out": y * 2 if double else y, "rows": rows}


def test_a_model_with_calls_of_pipe_split():
    model, x = Model(), fb.randn(4, 3)
    mean, state = model.norm.running_mean.clone(), fb.get_rng_state()
    pipe = pipeline(model, (x,))
    assert (model.norm.running_mean == mean).all() and (fb.get_rng_state() == state).all()
    assert pipe.num_stages == 3 and not pipe.has_loss_and_backward and pipe.info().num_stages == 3
    keys = [set(pipe.get_stage_module(i).state_dict()) for i in range(3)]
    assert set().union(*keys) == set(model.state_dict()) and sum(map(len, keys)) == len(model.state_dict())
    assert keys[2] == {"layers.0.weight", "layers.0.bias", "layers.1.0.weight", "layers.1.0.bias", "shift"}
    assert all(name.startswith("split_gm.submod_pp_") for name in pipe.state_dict())
    assert pipe.get_stage_module(0).get_submodule("a").weight is model.a.weight
    for training in (True, False):
        model.train(training)
        pipe.train(training)
        fb.manual_seed(3)
        mine = pipe(x)
        fb.manual_seed(3)
        wanted = copy.deepcopy(model)(x)
        assert (mine["out"] == wanted["out"]).all() and mine["rows"] == wanted["rows"] == 4
        model.norm.reset_running_stats()


def test_arguments_that_are_no_tensors_become_constants():
    model, x, mask = Model().eval(), fb.randn(4, 3), fb.rand(4, 3)
    pipe = pipeline(model, (x,), {"mask": mask, "scale": 3.0, "double": True})
    assert (pipe(x, mask=mask)["out"] == model(x, mask, 3.0, double=True)["out"]).all()
    with pytest.raises(AssertionError, match="scale is specialized to have value 3.0"):
        pipe(x, mask=mask, scale=2.0)


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        ({"b": SplitPoint.BEGINNING}, ["a.", "b."]),
        ({"a": SplitPoint.END}, ["a.", "b."]),
        ({"layers.1": SplitPoint.BEGINNING, "a": SplitPoint.END}, ["a.", "b.", "layers.1"]),
        ({"layers.1.1": SplitPoint.BEGINNING}, ["a.", None]),
        ({}, ["a."]),
    ],
)
def test_split_points_at_submodules(spec, keys):
    class Plain(Model):
        def forward(self, x):
            y = self.b(self.a(x))
            for layer in self.layers:
                y = layer(y)
            return y

    model, x = Plain(), fb.randn(2, 3)
    pipe = pipeline(model, (x,), split_spec=spec)
    assert pipe.num_stages == len(keys) and (pipe(x) == model(x)).all()
    for number, key in enumerate(keys):
        state = list(pipe.get_stage_module(number).state_dict())
        assert state == [] if key is None else state[0].startswith(key)


def test_layers_inside_a_transformer_and_a_policy():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 3)
    x = fb.randn(2, 3, 4)
    spec = {"layers.1": SplitPoint.BEGINNING, "layers.2": SplitPoint.BEGINNING}
    pipe = pipeline(encoder.eval(), (x,), split_spec=spec)
    assert pipe.num_stages == 3 and fb.allclose(pipe(x), encoder(x), atol=1e-6)
    assert {name.split(".")[1] for name in pipe.get_stage_module(1).state_dict()} == {"1"}

    def policy(graph_module):
        for node in graph_module.graph.nodes:
            if node.op == "call_module" and node.target in ("1", "3"):
                with graph_module.graph.inserting_before(node):
                    graph_module.graph.call_function(pipe_split, (), {})
        return graph_module

    layers = nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))
    for make in (pipelining.Pipe.from_tracing, lambda m, args, **o: pipeline(m, args, **o)):
        pipe = make(layers, (fb.ones(1, 3),), split_policy=policy)
        assert [list(pipe.get_stage_module(i).state_dict())[0][0] for i in range(3)] == ["0", "1", "3"]


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Pairs(nn.Module):
    def forward(self, x):
        found = fb.split(x, 1)
        pipe_split()
        return fb.cat(found)


class Stars(nn.Module):
    def forward(self, *xs):
        return xs[0]


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(self.layer(x))


LAYER, X = nn.Linear(3, 3), fb.ones(2, 3)
LAYERS, TIED = nn.Sequential(LAYER, nn.ReLU(), nn.Linear(3, 3)), nn.Sequential(LAYER, nn.ReLU(), LAYER)
END, BEGINNING = {"split_spec": {"2": SplitPoint.END}}, {"split_spec": {"0": SplitPoint.BEGINNING}}
REFUSED = [
    (LAYERS, {"split_spec": {"zz": SplitPoint.END}}, AttributeError, "no attribute 'zz'"),
    (LAYERS, {"split_spec": {"0": 3}}, ValueError, "Unknown split point type"),
    (LAYERS, {"split_spec": {}, "split_policy": lambda g: g}, ValueError, "Cannot specify both"),
    (LAYERS, {"split_policy": lambda g: None}, TypeError, "expected a GraphModule"),
    (LAYERS, {"mb_args": X}, TypeError, "expected a tuple as mb_args, got Tensor"),
    (LAYERS, {"mb_args": (X, X, X)}, TypeError, "of Sequential.forward, got others: too many"),
    (LAYERS, {"mb_args": (fb.ones(2, 4),)}, RuntimeError, "shapes cannot be multiplied"),
    (LAYERS, END, ValueError, r"expected computations in each stage, got none in \[1\]"),
    (LAYERS, BEGINNING, ValueError, r"expected computations in each stage, got none in \[0\]"),
    (
        TIED,
        {"split_spec": {"1": SplitPoint.END}},
        ValueError,
        "each parameter in one stage, got 0 in stages 0 and 1",
    ),
    (
        Twice(),
        {"split_spec": {"layer": SplitPoint.END}},
        ValueError,
        "expected one call of the submodule 'layer'",
    ),
    (Branches(), {}, TraceError, "cannot decide control flow"),
    (Pairs(), {}, ValueError, "expected tensors and numbers between stages, got tuple"),
    (Stars(), {}, ValueError, r"expected a forward with named arguments, got \*xs"),
]


@pytest.mark.parametrize(("model", "options", "error", "words"), REFUSED)
def test_what_cannot_be_split(model, options, error, words):
    with pytest.raises(error, match=words):
        pipeline(model, **{"mb_args": (X,), **options})
    assert pipe_split() is None  # a failed trace leaves no mark


def test_stages_that_a_pipe_lacks():
    pipe = pipeline(LAYERS, (X,))
    for call, words in (
        (lambda: pipe.get_stage_module(1), "Invalid stage index 1"),
        (lambda: pipe.build_stage(-1, "cpu"), "Invalid stage index -1"),
        (lambda: pipelining.Pipe(pipe.split_gm, 3), "expected a split_gm with 3 stages, got fewer"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_model_without_memory():
    with fb.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    pipe = pipeline(model, (fb.ones(2, 3),), split_spec={"1": SplitPoint.BEGINNING})
    second = pipe.get_stage_module(1).to_empty(device="cpu")
    assert second(fb.ones(2, 4)).shape == (2, 2)
