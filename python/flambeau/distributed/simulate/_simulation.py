"""simulate_step: runs the programs of all classes of ranks."""

from __future__ import annotations

from collections.abc import Mapping

from flambeau.distributed.simulate import _numbers as numbers
from flambeau.distributed.simulate._classes import RankClass, rank_classes
from flambeau.distributed.simulate._data_parallel import Buckets, Groups, base_memory
from flambeau.distributed.simulate._engine import Graph, Task
from flambeau.distributed.simulate._hardware import Cluster
from flambeau.distributed.simulate._plan import Layout, Plan
from flambeau.distributed.simulate._program import Program, Rank
from flambeau.distributed.simulate._report import RankReport, report_of
from flambeau.distributed.simulate._result import Result
from flambeau.distributed.simulate._stage import Stage
from flambeau.distributed.simulate._work import Model


def simulate_step(
    model: Model,
    cluster: Cluster,
    plan: Plan,
    *,
    slow: Mapping[int, float] | None = None,
    symmetry: bool = True,
) -> Result:
    """Predict the time and the memory of one training step, without data.

    Every computation, collective and message is an event in a stream of a rank. Collectives that use the same
    link of a rank run one after another. Ranks that behave alike are simulated once, so that the time of the
    simulation depends on the layers, micro-batches and stages, and little on the number of ranks.

    Args:
        model: what is trained: `transformer` or `measure` makes it.
        cluster: the hardware; all of its ranks take part.
        plan: how the step is divided.
        slow: rank -> what the times of its computations are multiplied with.
        symmetry: False: simulate each rank, which gives the same times.
    Returns: the result.
    Raises: ValueError if the plan does not fit the ranks or the layers, TypeError for other types.
    See also: distributed.simulate.transformer, distributed.simulate.preset

    Example:
        >>> from flambeau.distributed.simulate import Plan, preset, simulate_step, transformer
        >>> result = simulate_step(transformer("7b"), preset("h100", 64), Plan(schedule="fsdp"))
        >>> len(result.ranks), result.fits
        (1, True)
    """
    numbers.kind("simulate_step", "model", model, Model)
    numbers.kind("simulate_step", "cluster", cluster, Cluster)
    numbers.kind("simulate_step", "plan", plan, Plan)
    cluster.device.rate(model.arithmetic)
    cluster.device.rate(model.dtype)
    layout = plan.layout(cluster.ranks)
    _check_division(model, plan)
    slow = _checked_slow(slow, layout)
    stages = _stages(model, plan, layout)
    classes, numbers_of_ranks = rank_classes(layout, cluster, slow, symmetry)
    tasks = _graph(cluster, classes, stages).run()
    length = max(task.end for task in tasks)
    own: list[list[Task]] = [[] for _ in classes]
    for task in tasks:
        for number in {*task.ranks, *(change.rank for change in task.changes)}:
            own[number].append(task)

    def report(member: RankClass) -> RankReport:
        stage = stages[member.stage]
        base = base_memory(stage, layout.shard_of(member.first))
        return report_of(member, own[member.number], length, base)

    reports = tuple(report(member) for member in classes)
    return Result(model, cluster, plan, layout, length, reports, tuple(stages), tuple(numbers_of_ranks))


def simulated_tasks(
    model: Model, cluster: Cluster, plan: Plan, slow: Mapping[int, float], symmetry: bool
) -> tuple[list[Task], list[Task]]:
    """Return the tasks of a step in the order of their begin, and by number."""
    layout = plan.layout(cluster.ranks)
    classes, _ = rank_classes(layout, cluster, slow, symmetry)
    graph = _graph(cluster, classes, _stages(model, plan, layout))
    return graph.run(), graph.tasks


def _stages(model: Model, plan: Plan, layout: Layout) -> list[Stage]:
    return [Stage(model, plan, layout, index) for index in range(layout.stages)]


def _graph(cluster: Cluster, classes: list[RankClass], stages: list[Stage]) -> Graph:
    graph = Graph()
    for member in classes:
        _write(graph, cluster, member, stages[member.stage])
    return graph


def _write(graph: Graph, cluster: Cluster, member: RankClass, stage: Stage) -> None:
    rank = Rank(graph, cluster, member, stage)
    Program(rank, Buckets(rank) if stage.plan.schedule == "ddp" else Groups(rank)).write()


def _check_division(model: Model, plan: Plan) -> None:
    if plan.tensor == 1:
        return
    if model.divides is None:
        raise ValueError(
            f"simulate_step: expected tensor=1 for a model of measured modules, got {plan.tensor}"
        )
    for name, size in model.divides:
        numbers.divisor("simulate_step", "size of tensor parallelism", plan.tensor, f"the {name}", size)


def _checked_slow(slow: Mapping[int, float] | None, layout: Layout) -> dict[int, float]:
    found = dict(slow or {})
    for rank, factor in found.items():
        numbers.count("simulate_step", "slow rank", rank, 0)
        if rank >= layout.ranks:
            raise ValueError(f"simulate_step: expected slow ranks below {layout.ranks}, got {rank}")
        numbers.number("simulate_step", "slow factor", factor, above=True)
    return found
