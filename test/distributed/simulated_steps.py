"""Models and clusters whose steps have closed forms."""

from flambeau.distributed.simulate import (
    Amount,
    Cluster,
    Device,
    Layer,
    Link,
    Model,
    Plan,
    Weight,
    simulate_step,
)

FAST = 1e30


def device(memory=1e12, bandwidth=FAST, flops=1.0, **options) -> Device:
    return Device(flops={"float32": flops}, memory=memory, bandwidth=bandwidth, **options)


def node(ranks=1, link=None, **options) -> Cluster:
    """One node whose devices compute one operation per second and send in no time."""
    return Cluster(device=device(**options), per_node=ranks, inside=link or Link(0.0, FAST))


def layers(count=4, work=(1.0, 1.0, 1.0), elements=0, saved=0.0, output=0.0) -> Model:
    """Equal layers, each a group: `work` is the operations of forward and of both kinds of gradients."""
    weights = (Weight("weight", (elements,)),) if elements else ()
    forward, inputs, own = work
    return Model(
        tuple(
            Layer(
                name=f"layer {i}",
                group=f"layer {i}",
                weights=weights,
                forward=forward,
                input_grads=inputs,
                weight_grads=own,
                saved=Amount(0.0, saved),
                output=output,
            )
            for i in range(count)
        )
    )


def step(model, cluster, symmetry=True, slow=None, **plan):
    plan = {"optimizer": "sgd", **plan}
    return simulate_step(model, cluster, Plan(**plan), symmetry=symmetry, slow=slow)
