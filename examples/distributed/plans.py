"""How the parts of the transformer are divided along a dimension of a mesh."""

from flambeau.distributed.tensor import Replicate, Shard
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def whole_sequence():
    return PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())


def divide(model, mesh):
    """Divide heads, hidden units and the vocabulary; between the layers, divide the sequence."""
    block = {
        "norm_1": SequenceParallel(),
        "attention": whole_sequence(),
        "attention.query": ColwiseParallel(),
        "attention.key": ColwiseParallel(),
        "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "norm_2": SequenceParallel(),
        "feed": whole_sequence(),
        "feed.up": ColwiseParallel(),
        "feed.down": RowwiseParallel(output_layouts=Shard(1)),
    }
    outer = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "places": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    }
    for each in model.blocks:
        parallelize_module(each, mesh, block)
    return parallelize_module(model, mesh, outer)
