"""Orders of micro-batches in the stages of a pipeline.

Source: Huang et al. 2019, "GPipe"; Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on
GPU Clusters Using Megatron-LM" (1F1B, interleaved); Qi et al. 2023, "Zero Bubble Pipeline Parallelism".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FORWARD, BACKWARD, INPUTS, WEIGHTS = "forward", "backward", "input grads", "weight grads"
PIPELINES = ("gpipe", "1f1b", "interleaved", "zero_bubble")


@dataclass(frozen=True, slots=True)
class Action:
    """One pass of a micro-batch through a part of the stage."""

    kind: str
    micro: int
    chunk: int = 0


def order(schedule: str, stage: int, stages: int, micros: int, chunks: int) -> list[Action]:
    """Return the actions of a stage in their order.

    Args:
        schedule: one of `PIPELINES`.
        stage: the number of the stage.
        stages: how many there are.
        micros: the number of micro-batches.
        chunks: parts of the model in each stage; more than one only for "interleaved".
    """
    orders = {"gpipe": _gpipe, "1f1b": _one_forward_one_backward, "zero_bubble": _zero_bubble}
    if schedule == "interleaved":
        return list(_interleaved(stage, stages, micros, chunks))
    return list(orders[schedule](stage, stages, micros))


def _gpipe(stage: int, stages: int, micros: int) -> Iterator[Action]:
    yield from (Action(FORWARD, micro) for micro in range(micros))
    yield from (Action(BACKWARD, micro) for micro in range(micros))


def _one_forward_one_backward(stage: int, stages: int, micros: int) -> Iterator[Action]:
    warm = min(stages - stage - 1, micros)
    yield from (Action(FORWARD, micro) for micro in range(warm))
    for micro in range(warm, micros):
        yield Action(FORWARD, micro)
        yield Action(BACKWARD, micro - warm)
    yield from (Action(BACKWARD, micro) for micro in range(micros - warm, micros))


def _interleaved(stage: int, stages: int, micros: int, chunks: int) -> Iterator[Action]:
    """Yield 1F1B over parts of the model: `stages` micro-batches pass through one part, then the next one."""
    total = micros * chunks
    warm = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)

    def forward(step: int) -> Action:
        turn, place = divmod(step, stages * chunks)
        return Action(FORWARD, turn * stages + place % stages, place // stages)

    def backward(step: int) -> Action:
        one = forward(step)
        return Action(BACKWARD, one.micro, chunks - 1 - one.chunk)

    yield from (forward(step) for step in range(warm))
    for step in range(warm, total):
        yield forward(step)
        yield backward(step - warm)
    yield from (backward(step) for step in range(total - warm, total))


def _zero_bubble(stage: int, stages: int, micros: int) -> Iterator[Action]:
    """Yield 1F1B with gradients of parameters put off: a stage may owe as many of them as its number.

    Before it goes on, a stage that owes more computes one. The last stage owes the most: all others wait
    for its gradients of inputs.
    """
    done = 0
    warm = min(stages - stage - 1, micros)
    yield from (Action(FORWARD, micro) for micro in range(warm))
    for ended in range(micros):  # micro-batches whose gradients of inputs are known
        if ended - done > stage:
            yield Action(WEIGHTS, done)
            done += 1
        if ended + warm < micros:
            yield Action(FORWARD, ended + warm)
        yield Action(INPUTS, ended)
    yield from (Action(WEIGHTS, micro) for micro in range(done, micros))
