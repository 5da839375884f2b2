"""Device, Link and Cluster: how fast they compute and communicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flambeau.distributed.simulate import _numbers as numbers

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}


def bytes_of(where: str, dtype: str) -> int:
    """Return the bytes of an element. Raises: ValueError for an unknown dtype."""
    numbers.choice(where, "dtype", dtype, tuple(BYTES))
    return BYTES[dtype]


@dataclass(frozen=True, kw_only=True)
class Device:
    """One processor with its memory.

    Work takes `overhead` per kernel, plus the longer one of its arithmetic at `efficiency` of the peak and of
    reading its weights, plus the traffic of operators that only move memory.

    Args:
        flops: dtype name -> peak floating-point operations per second.
        memory: bytes.
        bandwidth: bytes per second between the processor and its memory.
        overhead: seconds that each kernel takes in addition.
        efficiency: the share of the peak that matrix products reach, above 0 and up to 1.
        overlaps: whether collectives run beside kernels; False: the processor also runs the collectives.
        name: what tables show.
    Raises: ValueError for numbers out of range, TypeError for what is no number.

    Example:
        >>> from flambeau.distributed.simulate import Device
        >>> device = Device(flops={"float32": 1e12}, memory=16e9, bandwidth=1e11)
        >>> device.seconds("float32", flops=2e12)
        2.0
    """

    flops: Mapping[str, float]
    memory: float
    bandwidth: float
    overhead: float = 0.0
    efficiency: float = 1.0
    overlaps: bool = True
    name: str = "device"

    def __post_init__(self) -> None:
        if not isinstance(self.flops, Mapping) or not self.flops:
            raise ValueError(f"Device: expected a dtype or more with its flop/s, got {self.flops!r}")
        for dtype, rate in self.flops.items():
            bytes_of("Device", dtype)
            numbers.number("Device", f"flops[{dtype!r}]", rate, above=True)
        numbers.number("Device", "memory", self.memory, above=True)
        numbers.number("Device", "bandwidth", self.bandwidth, above=True)
        numbers.number("Device", "overhead", self.overhead)
        if numbers.number("Device", "efficiency", self.efficiency, above=True) > 1:
            raise ValueError(f"Device: expected an efficiency of at most 1, got {self.efficiency}")

    def rate(self, dtype: str) -> float:
        """Return the peak flop/s of a dtype. Raises: ValueError if the device has none."""
        if dtype not in self.flops:
            raise ValueError(f"Device: expected one of {', '.join(self.flops)} as dtype, got {dtype!r}")
        return self.flops[dtype]

    def seconds(
        self, dtype: str, *, flops: float = 0.0, weights: float = 0.0, moved: float = 0.0, kernels: float = 0
    ) -> float:
        """Return how long work takes.

        Args:
            dtype: the dtype of the arithmetic.
            flops: floating-point operations of matrix products.
            weights: bytes that these products read.
            moved: bytes that other operators read and write.
            kernels: the number of kernels.
        Returns: seconds.
        """
        arithmetic = flops / (self.rate(dtype) * self.efficiency)
        products = max(arithmetic, weights / self.bandwidth)
        return kernels * self.overhead + products + moved / self.bandwidth


@dataclass(frozen=True)
class Link:
    """What connects two devices: a message of B bytes takes ``latency + B / bandwidth``.

    Args:
        latency: seconds.
        bandwidth: bytes per second of one device, in each direction.
    Raises: ValueError for numbers out of range, TypeError for what is no number.

    Example:
        >>> from flambeau.distributed.simulate import Link
        >>> Link(1e-6, 1e9).seconds(3e9)
        3.000001
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        numbers.number("Link", "latency", self.latency)
        numbers.number("Link", "bandwidth", self.bandwidth, above=True)

    def seconds(self, nbytes: float) -> float:
        """Return how long a message of some bytes takes."""
        return self.latency + nbytes / self.bandwidth


@dataclass(frozen=True)
class Topology:
    """Where the members of a group are: `size` devices in `nodes` nodes, at least `per_node` in each."""

    size: int
    nodes: int
    per_node: int


ALGORITHMS = ("ring", "recursive", "hierarchical")


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Nodes of equal devices, with fast links within a node and slower ones between nodes.

    Ranks are numbered node by node. `between` is the link of one device: the devices of a node send to other
    nodes at the same time, each with this bandwidth.

    Args:
        device: the device of each rank.
        nodes: the number of nodes.
        per_node: devices of a node.
        inside: the link of a device to others of its node.
        between: the link of a device to other nodes; None for a single node.
        algorithms: the algorithms that collectives may choose from: "ring", "recursive", "hierarchical".
        name: what tables show.
    Raises: ValueError for numbers out of range or a missing link, TypeError for other types.

    Example:
        >>> from flambeau.distributed.simulate import Cluster, Device, Link
        >>> device = Device(flops={"float32": 1e12}, memory=16e9, bandwidth=1e11)
        >>> Cluster(device=device, per_node=4, inside=Link(1e-6, 1e10)).ranks
        4
    """

    device: Device
    per_node: int
    inside: Link
    nodes: int = 1
    between: Link | None = None
    algorithms: tuple[str, ...] = ALGORITHMS
    name: str = field(default="cluster")

    def __post_init__(self) -> None:
        numbers.kind("Cluster", "device", self.device, Device)
        numbers.kind("Cluster", "inside", self.inside, Link)
        numbers.count("Cluster", "nodes", self.nodes)
        numbers.count("Cluster", "per_node", self.per_node)
        if self.between is not None:
            numbers.kind("Cluster", "between", self.between, Link)
        elif self.nodes > 1:
            raise ValueError(f"Cluster: expected a link between {self.nodes} nodes, got None")
        for name in self.algorithms:
            numbers.choice("Cluster", "algorithm", name, ALGORITHMS)
        if "ring" not in self.algorithms and "recursive" not in self.algorithms:
            raise ValueError(
                f"Cluster: expected ring or recursive among the algorithms, got {self.algorithms}"
            )

    @property
    def ranks(self) -> int:
        """The number of devices."""
        return self.nodes * self.per_node

    def topology(self, ranks: Iterable[int]) -> Topology:
        """Return where some ranks are."""
        counts = Counter(rank // self.per_node for rank in ranks)
        return Topology(sum(counts.values()), len(counts), min(counts.values()))

    def link(self, topology: Topology) -> Link:
        """Return the slowest link of a group, with the bandwidth of all members of a node together.

        A ring that passes through the nodes one after another leaves a node once. It is divided among the
        devices of the node, each of which carries a part over its own link.
        """
        if topology.nodes == 1 or self.between is None:
            return self.inside
        bandwidth = self.between.bandwidth * topology.per_node
        if topology.per_node > 1:
            bandwidth = min(bandwidth, self.inside.bandwidth)
        return Link(self.between.latency, bandwidth)


# Peaks of data sheets, without sparsity; bandwidths of links per direction. Latencies and efficiencies are
# assumptions of ours. name -> flop/s in bfloat16 and float32, GiB, bytes/s, bytes/s inside and between.
_PRESETS: dict[str, tuple[float, float, float, float, float, float]] = {
    "a100": (312e12, 19.5e12, 80, 2.039e12, 300e9, 25e9),
    "h100": (989e12, 67e12, 80, 3.35e12, 450e9, 50e9),
    "b200": (2250e12, 75e12, 180, 7.7e12, 900e9, 50e9),
}
_PER_NODE, _EFFICIENCY, _OVERHEAD = 8, 0.6, 3e-6
_LATENCY_INSIDE, _LATENCY_BETWEEN = 3e-6, 10e-6


def preset(name: str, ranks: int, algorithms: tuple[str, ...] = ALGORITHMS) -> Cluster:
    """Make a cluster of a known kind: nodes of eight devices, each with its own link to other nodes.

    Peaks and bandwidths are those of data sheets. Matrix products are assumed to reach 0.6 of the peak, a
    kernel to take 3 us in addition, and a message 3 us within a node and 10 us between nodes.

    Args:
        name: "a100", "h100" or "b200".
        ranks: the number of devices; up to eight are one node, more are a multiple of eight.
        algorithms: as for `Cluster`.
    Returns: the cluster.
    Raises: ValueError for another name or number.
    Source: NVIDIA's data sheets of A100 80GB SXM, H100 SXM and HGX B200.

    Example:
        >>> from flambeau.distributed.simulate import preset
        >>> preset("h100", 64).nodes
        8
    """
    numbers.choice("preset", "name", name, tuple(_PRESETS))
    numbers.count("preset", "ranks", ranks)
    per_node = min(ranks, _PER_NODE)
    if ranks % per_node:
        raise ValueError(f"preset: expected at most 8 ranks or a multiple of 8, got {ranks}")
    half, single, memory, bandwidth, inside, between = _PRESETS[name]
    device = Device(
        flops={"bfloat16": half, "float16": half, "float32": single},
        memory=memory * 2**30,
        bandwidth=bandwidth,
        overhead=_OVERHEAD,
        efficiency=_EFFICIENCY,
        name=name,
    )
    return Cluster(
        device=device,
        nodes=ranks // per_node,
        per_node=per_node,
        inside=Link(_LATENCY_INSIDE, inside),
        between=Link(_LATENCY_BETWEEN, between),
        algorithms=algorithms,
        name=name,
    )


PRESETS = tuple(_PRESETS)
