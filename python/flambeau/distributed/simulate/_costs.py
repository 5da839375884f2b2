"""How long collectives take: formulas of latency and bandwidth; the fastest algorithm counts.

With n ranks, B bytes of the whole tensor, latency a and bandwidth w of the slowest link:

    ring            all_gather, reduce_scatter  (n-1) a + (n-1)/n B/w
                    all_reduce                  twice that
    recursive       all_gather, reduce_scatter  ceil(log2 n) a + (n-1)/n B/w
                    all_reduce, short           log2 n (a + B/w)
                    all_reduce, long            2 log2 n a + 2 (n-1)/n B/w
                    broadcast                   ceil(log2 n) (a + B/w)
    hierarchical    reduce_scatter within nodes, all_reduce of 1/k between nodes, all_gather within nodes

Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in MPICH";
Rabenseifner 2004, "Optimization of Collective Reduction Operations"; Patarasuk, Yuan 2009, "Bandwidth optimal
all-reduce algorithms for clusters of workstations". Arithmetic of the sums is not counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from flambeau.distributed.simulate import _numbers as numbers
from flambeau.distributed.simulate._hardware import Cluster, Link, Topology

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")


def sent_bytes(collective: str, nbytes: float, size: int) -> float:
    """Return the bytes that each rank sends by an algorithm that sends the fewest.

    Args:
        collective: the name.
        nbytes: bytes of the whole tensor: the result of all_gather, the input of the others.
        size: the number of ranks.
    """
    share = (size - 1) / size * nbytes
    return 2 * share if collective == "all_reduce" else share


def _rounds(size: int) -> int:
    return math.ceil(math.log2(size))


def _ring(collective: str, nbytes: float, size: int, link: Link) -> float:
    once = (size - 1) * link.latency + (size - 1) / size * nbytes / link.bandwidth
    if collective == "broadcast":  # scatter along a tree, then all_gather around the ring
        return _rounds(size) * link.latency + (size - 1) / size * nbytes / link.bandwidth + once
    return 2 * once if collective == "all_reduce" else once


def _recursive(collective: str, nbytes: float, size: int, link: Link) -> float:
    rounds, share = _rounds(size), (size - 1) / size * nbytes / link.bandwidth
    if collective == "broadcast":
        return rounds * link.seconds(nbytes)
    if collective == "all_to_all":  # each block passes through half of the rounds
        return rounds * link.seconds(nbytes / 2)
    if collective != "all_reduce":
        return rounds * link.latency + share
    power = 2 ** int(math.log2(size))
    folded = 0.0 if power == size else 2 * link.seconds(nbytes)  # ranks beyond a power of two fold in and out
    short = int(math.log2(size)) * link.seconds(nbytes)
    share = (power - 1) / power * nbytes / link.bandwidth
    return folded + min(short, 2 * (math.log2(power) * link.latency + share))


def _flat(
    cluster: Cluster, collective: str, nbytes: float, size: int, ring: Link, pairs: Link
) -> dict[str, float]:
    costs = {"ring": (_ring, ring), "recursive": (_recursive, pairs)}
    return {
        name: cost(collective, nbytes, size, link)
        for name, (cost, link) in costs.items()
        if name in cluster.algorithms
    }


def _levels(cluster: Cluster, collective: str, nbytes: float, at: Topology) -> float:
    """Return the time of the algorithm that first works within nodes, then between them."""
    assert cluster.between is not None

    def best(what: str, size: int, amount: float, link: Link) -> float:
        return min(_flat(cluster, what, amount, size, link, link).values()) if size > 1 else 0.0

    outer = best(collective, at.nodes, nbytes / at.per_node, cluster.between)
    if collective == "all_reduce":
        inner = best("reduce_scatter", at.per_node, nbytes, cluster.inside)
        return inner + outer + best("all_gather", at.per_node, nbytes, cluster.inside)
    if collective == "broadcast":  # scattered within the first node, gathered within each
        inner = best("reduce_scatter", at.per_node, nbytes, cluster.inside)
        return inner + outer + best("all_gather", at.per_node, nbytes, cluster.inside)
    return outer + best(collective, at.per_node, nbytes, cluster.inside)


def _candidates(
    cluster: Cluster, collective: str, nbytes: float, at: Topology
) -> Iterator[tuple[float, str]]:
    ring, pairs = _links(cluster, collective, at)
    flat = _flat(cluster, collective, nbytes, at.size, ring, pairs)
    yield from ((seconds, name) for name, seconds in flat.items())
    is_even = at.size == at.nodes * at.per_node
    has_levels = at.nodes > 1 and at.per_node > 1 and is_even and collective != "all_to_all"
    if has_levels and "hierarchical" in cluster.algorithms:
        yield _levels(cluster, collective, nbytes, at), "hierarchical"


def _links(cluster: Cluster, collective: str, at: Topology) -> tuple[Link, Link]:
    """Return the links that bound a ring, and an exchange in pairs.

    Around a ring the data leave a node once, over the links of all of its devices together. In pairs, and in
    all_to_all, each device sends to other nodes over its own link.
    """
    pairs = cluster.inside if at.nodes == 1 or cluster.between is None else cluster.between
    return (pairs if collective == "all_to_all" else cluster.link(at)), pairs


@functools.lru_cache(maxsize=4096)
def _chosen(cluster: _Key, collective: str, nbytes: float, at: Topology) -> tuple[float, str]:
    return min(_candidates(cluster.cluster, collective, nbytes, at))


class _Key:
    """A cluster as the key of a cache; dicts of rates can't be hashed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.cluster is other.cluster

    def __hash__(self) -> int:
        return id(self.cluster)


def chosen(cluster: Cluster, collective: str, nbytes: float, at: Topology) -> tuple[float, str]:
    """Return the seconds of the fastest algorithm, and its name.

    Args:
        cluster: the links, and the algorithms that may be chosen.
        collective: one of `COLLECTIVES`.
        nbytes: bytes of the whole tensor.
        at: where the ranks are.
    """
    if at.size == 1 or nbytes == 0:
        return 0.0, "none"
    return _chosen(_Key(cluster), collective, nbytes, at)


def collective_time(
    cluster: Cluster, collective: str, nbytes: float, ranks: int | None = None, stride: int = 1
) -> float:
    """Return how long a collective takes by the fastest algorithm of a cluster.

    Args:
        cluster: the links.
        collective: "all_reduce", "all_gather", "reduce_scatter", "broadcast" or "all_to_all".
        nbytes: bytes of the whole tensor: the result of all_gather, the input of the others.
        ranks: the number of ranks. Default: all ranks of the cluster that the stride reaches.
        stride: the distance between the numbers of successive ranks.
    Returns: seconds.
    Raises: ValueError for another collective, or ranks that the cluster does not have.
    Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in MPICH".

    Example:
        >>> from flambeau.distributed.simulate import Cluster, Device, Link, collective_time
        >>> device = Device(flops={"float32": 1e12}, memory=16e9, bandwidth=1e11)
        >>> cluster = Cluster(device=device, per_node=4, inside=Link(0.0, 1e9), algorithms=("ring",))
        >>> collective_time(cluster, "all_reduce", 2e9)  # 2 (n - 1) / n of the bytes
        3.0
    """
    numbers.kind("collective_time", "cluster", cluster, Cluster)
    numbers.choice("collective_time", "collective", collective, COLLECTIVES)
    numbers.number("collective_time", "nbytes", nbytes)
    numbers.count("collective_time", "stride", stride)
    size = -(-cluster.ranks // stride) if ranks is None else ranks
    numbers.count("collective_time", "ranks", size)
    if (size - 1) * stride >= cluster.ranks:
        raise ValueError(
            f"collective_time: expected ranks among the {cluster.ranks} of the cluster, got {size} at stride "
            f"{stride}"
        )
    at = cluster.topology(range(0, size * stride, stride))
    return chosen(cluster, collective, nbytes, at)[0]
