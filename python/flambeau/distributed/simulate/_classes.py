"""Classes of ranks that behave alike, each of which is simulated once.

Ranks begin in the same class if they have the same stage and speed. A class is divided while its ranks
differ in the links or classes of the groups that they are in, or of their neighbours in the pipeline. In the
end, all ranks of a class see the same classes around them. The equations for the times of their events are
then the same, and so are the times. This is the coarsest equitable partition (Paige, Tarjan 1987, "Three
partition refinement algorithms").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from flambeau.distributed.simulate._hardware import Cluster, Topology
from flambeau.distributed.simulate._plan import Layout


@dataclass(frozen=True)
class Group:
    """A group that the ranks of a class are in: a number that its classes know it by, and where it is."""

    number: Hashable
    at: Topology


@dataclass
class RankClass:
    """Ranks that behave alike.

    Args:
        number: the place among all classes.
        first: the lowest rank.
        ranks: how many there are.
        stage: the stage of all.
        slowdown: what times of computation are multiplied with.
        groups: dimension -> the group.
        following, before: the classes of the next and of the last stage, which are circular.
        to_following, to_before: whether they are in other nodes.
    """

    number: int
    first: int
    ranks: int
    stage: int
    slowdown: float
    groups: dict[str, Group]
    following: int
    before: int
    to_following: bool
    to_before: bool


class _Partition:
    def __init__(self, layout: Layout, cluster: Cluster, slow: Mapping[int, float], merges: bool) -> None:
        self.layout, self.cluster, self.slow = layout, cluster, slow
        everyone = range(layout.ranks)
        self.groups = [
            (name, groups, [cluster.topology(group) for group in groups]) for name, groups in layout.groups()
        ]
        first = [(layout.stage(r), slow.get(r, 1.0)) if merges else r for r in everyone]
        self.colours = _numbered(first)
        count = 0
        while count < (found := len(set(self.colours))):
            count = found
            self.signatures = self._signatures()
            self.colours = _numbered(self.signatures)

    def neighbour(self, rank: int, step: int) -> tuple[int, bool]:
        """Return a rank of another stage, and whether it is in another node."""
        other = (rank + step * self.layout.in_stage) % self.layout.ranks
        per_node = self.cluster.per_node
        return other, rank // per_node != other // per_node

    def _signatures(self) -> list[tuple[Hashable, ...]]:
        seen: list[list[Hashable]] = [[colour] for colour in self.colours]
        for name, groups, places in self.groups:
            for group, at in zip(groups, places, strict=True):
                members = Counter(self.colours[rank] for rank in group)
                signature = (name, at, tuple(sorted(members.items())))
                for rank in group:
                    seen[rank].append(signature)
        if self.layout.stages > 1:
            for rank, known in enumerate(seen):
                for step in (1, -1):
                    other, is_far = self.neighbour(rank, step)
                    known += [self.colours[other], is_far]
        return [tuple(known) for known in seen]

    def classes(self) -> list[RankClass]:
        dims = [name for name, _, _ in self.groups]
        places = {name: at for name, _, at in self.groups}
        index = {name: {r: i for i, g in enumerate(gs) for r in g} for name, gs, _ in self.groups}
        first: dict[int, int] = {}
        for rank, colour in enumerate(self.colours):
            first.setdefault(colour, rank)
        counts = Counter(self.colours)
        found = []
        for colour, rank in sorted(first.items()):
            following, to_following = self.neighbour(rank, 1)
            before, to_before = self.neighbour(rank, -1)
            groups = {
                name: Group(self.signatures[rank][1 + i], places[name][index[name][rank]])
                for i, name in enumerate(dims)
            }
            found.append(
                RankClass(
                    colour,
                    rank,
                    counts[colour],
                    self.layout.stage(rank),
                    self.slow.get(rank, 1.0),
                    groups,
                    self.colours[following],
                    self.colours[before],
                    to_following,
                    to_before,
                )
            )
        return found


def _numbered(values: Iterable[Hashable]) -> list[int]:
    """Return a number for each value, equal for equal ones, in the order of first occurrence."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


def rank_classes(
    layout: Layout, cluster: Cluster, slow: Mapping[int, float], merges: bool
) -> tuple[list[RankClass], list[int]]:
    """Return the classes, and the class of each rank.

    Args:
        layout: the parts of the ranks.
        cluster: where they are.
        slow: rank -> what its times of computation are multiplied with.
        merges: False: each rank is a class of its own.
    """
    partition = _Partition(layout, cluster, slow, merges)
    return partition.classes(), partition.colours
