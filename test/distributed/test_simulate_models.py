"""Models from sizes and from modules, and plans that do not fit them."""

import math

import flambeau
import pytest
from distributed.simulated_gpt import GPT, SIZES, described, tokens
from distributed.simulated_steps import layers, node, step
from flambeau import nn
from flambeau.distributed.simulate import (
    Amount,
    Layer,
    Model,
    Plan,
    Weight,
    measure,
    preset,
    simulate_step,
    transformer,
)
from flambeau.utils.checkpoint import checkpoint
from flambeau.utils.flop_counter import FlopCounterMode

# --- sizes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, parameters", [("7b", 6738415616), ("13b", 13015864320), ("70b", 68976648192)])
def test_known_models_have_their_numbers_of_parameters(name, parameters):
    """Those of the published Llama 2 models."""
    assert transformer(name).parameters == parameters


def test_operations_are_two_per_parameter_and_token_and_those_of_attention():
    model = transformer("7b", sequence=1024)
    matrices = model.parameters - 32000 * 4096 - 65 * 4096
    assert sum(layer.forward for layer in model.layers) == 1024 * (2 * matrices + 32 * 4 * 1024 * 4096)


def test_sizes_replace_those_of_a_name():
    model = transformer("7b", layers=2)
    assert len(model.layers) == 6 and model.layers[1].group == "blocks.0"


# --- modules -------------------------------------------------------------------------------------------


def test_a_measured_module_has_the_operations_of_its_sizes():
    model, found = described(), measure(GPT(**SIZES), tokens(4), units=["blocks.*"])
    assert [layer.group for layer in found.layers] == ["", "blocks.0", "blocks.1", "blocks.2", ""]
    assert found.parameters == model.parameters
    pairs = [
        (model.layers[0:1], 0),
        *((model.layers[i : i + 2], (i + 1) // 2) for i in (1, 3, 5)),
        (model.layers[7:], 4),
    ]
    for known, index in pairs:
        layer = found.layers[index]
        assert layer.forward == sum(part.forward for part in known)
        assert layer.weight_grads == sum(part.weight_grads for part in known)
        assert layer.parameters == sum(part.parameters for part in known)
    assert found.layers[1].output == known[-1].output * 0 + model.layers[2].output


def test_measured_operations_and_kept_bytes_are_those_of_a_real_pass():
    module, batch = GPT(**SIZES), tokens(4)
    found = measure(module, batch, units=["blocks.*"])
    kept = {}

    def keep(t):
        storage = t.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes(), t
        return t

    with (
        FlopCounterMode(display=False) as counter,
        flambeau.autograd.graph.saved_tensors_hooks(keep, lambda t: t),
    ):
        loss = module(batch)
        assert counter.get_total_flops() == 4 * sum(layer.forward for layer in found.layers)
        loss.backward()
    total = sum(layer.forward + layer.input_grads + layer.weight_grads for layer in found.layers)
    assert counter.get_total_flops() == 4 * total
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    real = sum(nbytes for address, (nbytes, _) in kept.items() if address not in own)
    assert real == 4 * sum(layer.saved.whole for layer in found.layers)


def test_measuring_changes_nothing():
    module, batch = GPT(**SIZES), tokens(2)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    first = measure(module, batch, units=["blocks.*"])
    assert measure(module, batch, units=["blocks.*"]) == first
    for name, p in module.named_parameters():
        assert p.grad is None and p.requires_grad and flambeau.equal(p, before[name])
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    module(batch).backward()


def test_amounts_are_per_sample():
    few, many = (measure(GPT(**SIZES), tokens(n), units=["blocks.*"]) for n in (2, 8))
    for one, other in zip(few.layers, many.layers, strict=True):
        assert one.forward == other.forward and one.weight_grads == other.weight_grads
        assert one.saved.whole == pytest.approx(other.saved.whole, rel=0.01)
    named = measure(GPT(**SIZES), tokens(2), units=["blocks.*"], samples=1)
    assert named.layers[1].forward == 2 * few.layers[1].forward


class Odd(nn.Module):
    """A convolution, views, a part that gets no gradient, a parameter without a matrix."""

    def __init__(self):
        super().__init__()
        self.conv, self.scale = nn.Conv2d(3, 8, 3, padding=1), nn.Parameter(flambeau.ones(()))
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        kept, dropped = self.norm(self.conv(x)).chunk(2, 1)
        return {"out": (kept * self.scale).flatten(1), "count": dropped.shape[1]}


def test_other_modules_are_measured():
    found = measure(Odd(), flambeau.zeros(2, 3, 5, 5), units=["conv"])
    conv, rest = found.layers
    assert conv.forward == 2 * 3 * 9 * 8 * 25 and conv.weight_grads == conv.forward
    assert conv.input_grads == 0, "the image needs no gradient"
    assert rest.forward == 0 and rest.parameters == 17 and rest.moved.whole > 0
    assert step(found, node(2, flops=1e6)).step > 0


class Again(nn.Module):
    """A layer that runs twice, and a checkpoint."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def forward(self, x):
        return self.a(checkpoint(self.b, self.a(x).relu(), use_reentrant=False))


def test_repeated_layers_belong_to_their_group():
    model = measure(Again(), flambeau.ones(4, 8), units=["a", "b"])
    assert [layer.name for layer in model.layers] == ["a", "outside", "b", "a"]
    assert [layer.parameters for layer in model.layers] == [72, 0, 72, 0]
    assert [layer.forward for layer in model.layers] == [128, 0, 128, 128]
    # The input needs no gradient; backward of b repeats its product, since tanh keeps its own result.
    assert [layer.input_grads for layer in model.layers] == [0, 0, 256, 128]
    assert model.layers[2].saved.whole == 0, "the checkpoint keeps the result of relu, which a has kept"
    result = step(model, node(4), schedule="fsdp")
    assert [kind for kind, _, _ in result.ranks[0].collectives()].count("reduce_scatter") == 2
    with pytest.raises(ValueError, match="layers of a group in one place for a pipeline, got a twice"):
        step(model, node(2), pipeline=2)


def test_a_measured_model_is_simulated():
    model = measure(GPT(**SIZES), tokens(4), units=["blocks.*"])
    result = step(model, node(4, flops=1e9), schedule="fsdp", optimizer="adamw")
    assert [kind for kind, _, _ in result.ranks[0].collectives()].count("all_gather") == 1 + 2 * 3
    pipeline = step(model, node(3, flops=1e9), pipeline=3, micro_batches=3)
    assert [rank.stage for rank in pipeline.ranks] == [0, 1, 2]
    with pytest.raises(ValueError, match="expected tensor=1 for a model of measured modules, got 2"):
        step(model, node(4), tensor=2)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: measure(nn.ReLU(), flambeau.ones(2)), "expected parameters of one dtype among .*, got none"),
        (
            lambda: measure(nn.Linear(2, 2).requires_grad_(False), flambeau.ones(2, 2)),
            "got weight, bias without",
        ),
        (
            lambda: measure(nn.Linear(2, 2), flambeau.ones(2, 2), units=["layer"]),
            "expected units that name modules",
        ),
        (lambda: measure(GPT(**SIZES), tokens(1), units=["blocks.0", "blocks.0.up"]), "beside each other"),
        (lambda: measure(nn.Linear(2, 2), flambeau.ones(0, 2)), "expected samples"),
        (lambda: measure(nn.Linear(2, 2), flambeau.ones(2, 2), samples=0), "at least 1 as samples, got 0"),
        (
            lambda: measure(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()), flambeau.ones(2, 2)),
            "got float32, float64",
        ),
    ],
)
def test_modules_that_cannot_be_measured_are_refused(make, message):
    with pytest.raises(ValueError, match=f"measure: .*{message}"):
        make()


# --- what does not fit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Model(()), r"expected a tuple of one layer or more, got \(\)"),
        (lambda: Model((Layer(name="a"),), "float33"), "as dtype, got 'float33'"),
        (lambda: Layer(name="a", forward=-1.0), "as forward, got -1.0"),
        (lambda: Layer(name="a", output=math.nan), "as output, got nan"),
        (lambda: Layer(name="a", kernels=(-1, 0)), "as kernels and sums, got -1"),
        (lambda: Amount(math.inf), "as divided, got inf"),
        (lambda: Weight("w", (0, 3)), "size of w, got 0"),
        (lambda: Weight("w", ()), "expected a size or more of w, got"),
        (lambda: Weight("w", (4, 3), 2), "expected a dimension of"),
        (lambda: transformer("7b", layers=0), "at least 1 as layers, got 0"),
        (lambda: transformer("7b", heads=33), "a number of heads that divides the width, got 33 and 4096"),
        (
            lambda: transformer("70b", kv_heads=3),
            "number of kv_heads that divides that of heads, got 3 and 64",
        ),
        (lambda: transformer("8x7b"), "as name, got '8x7b'"),
        (lambda: transformer("7b", compute_dtype="int8"), "as dtype, got 'int8'"),
        (lambda: Plan(schedule="zero"), "expected one of ddp, fsdp as schedule, got 'zero'"),
        (lambda: Plan(tensor=0), "at least 1 as tensor, got 0"),
        (lambda: Plan(micro_batches=0), "at least 1 as micro_batches, got 0"),
        (lambda: Plan(prefetch=-1), "at least 0 as prefetch, got -1"),
        (lambda: Plan(bucket_cap_mb=math.nan), "as bucket_cap_mb, got nan"),
        (lambda: Plan(bucket_cap_mb=-1), "as bucket_cap_mb, got -1"),
        (lambda: Plan(copies=2), "expected copies only for fsdp, got 2 for ddp"),
        (lambda: Plan(sequence_parallel=True), "expected tensor of at least 2 for sequence_parallel"),
        (lambda: Plan(chunks=2, pipeline=2), "expected chunks only for interleaved, got 2"),
        (lambda: Plan(pipeline=2, pipeline_schedule="interleaved"), "at least 2 stages and 2 chunks"),
        (
            lambda: Plan(pipeline=4, chunks=2, micro_batches=6, pipeline_schedule="interleaved"),
            "a multiple of the stages for interleaved, got 6 and 4",
        ),
        (lambda: Plan(optimizer="lion"), "as optimizer, got 'lion'"),
        (lambda: Plan(reduce_dtype="int4"), "as dtype, got 'int4'"),
        (
            lambda: step(layers(4), node(6), tensor=2, pipeline=2),
            r"a multiple of tensor \* pipeline \* copies, got 6",
        ),
        (lambda: step(layers(4), node(3), pipeline=3), "to divide the 4 groups of layers, got 3"),
        (lambda: step(layers(1), node(2), pipeline=2), "to divide the 1 groups of layers, got 2"),
        (lambda: step(layers(2, elements=9), node(2), slow={2: 1.5}), "expected slow ranks below 2, got 2"),
        (lambda: step(layers(2), node(2), slow={0: 0.0}), "above 0 as slow factor, got 0.0"),
        (lambda: step(layers(2), node(2), slow={0: math.nan}), "as slow factor, got nan"),
        (
            lambda: simulate_step(transformer("70b"), preset("h100", 16), Plan(tensor=16)),
            "a size of tensor parallelism that divides the kv_heads, got 16 and 8",
        ),
        (
            lambda: simulate_step(transformer("7b", vocabulary=32001), preset("h100", 8), Plan(tensor=2)),
            "expected a tensor size that divides dimension 0 of weight",
        ),
        (
            lambda: simulate_step(transformer("7b", compute_dtype="float8"), preset("h100", 8), Plan()),
            "as dtype, got 'float8'",
        ),
        (lambda: step(layers(2), node(2)).memory_of(2), "expected a rank below 2, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: transformer("7b", depth=3), "expected sizes among layers, .*, got depth"),
        (lambda: transformer(layers=3), "expected a name or all sizes, got no"),
        (lambda: transformer("7b", layers=2.5), "expected an integer as layers, got float"),
        (lambda: Plan(tensor=True), "expected an integer as tensor, got bool"),
        (lambda: simulate_step(nn.ReLU(), node(1), Plan()), "expected a Model as model, got ReLU"),
        (lambda: simulate_step(layers(1), None, Plan()), "expected a Cluster as cluster, got NoneType"),
        (lambda: simulate_step(layers(1), node(1), "fsdp"), "expected a Plan as plan, got str"),
        (lambda: measure(print, 3), "measure: expected a Module as module"),
    ],
)
def test_other_types_are_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_transformer_needs_no_division_of_the_vocabulary():
    model = transformer("7b", vocabulary=32001, divide_vocabulary=False)
    assert simulate_step(model, preset("h100", 8), Plan(tensor=2)).step > 0
