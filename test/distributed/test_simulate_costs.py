"""Collectives by formulas, and descriptions of hardware that are refused."""

import math

import pytest
from distributed.simulated_steps import device
from flambeau.distributed.simulate import Cluster, Device, Link, collective_time, preset
from flambeau.distributed.simulate._costs import COLLECTIVES, sent_bytes

LATENCY, BANDWIDTH = 1e-5, 1e9


def one_node(ranks, *algorithms):
    link = Link(LATENCY, BANDWIDTH)
    return Cluster(
        device=device(), per_node=ranks, inside=link, algorithms=algorithms or ("ring", "recursive")
    )


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("nbytes", [4, 1000, 10**9])
def test_rings(ranks, nbytes):
    cluster = one_node(ranks, "ring")
    once = (ranks - 1) * LATENCY + (ranks - 1) / ranks * nbytes / BANDWIDTH
    assert collective_time(cluster, "all_reduce", nbytes) == pytest.approx(2 * once)
    assert collective_time(cluster, "all_gather", nbytes) == pytest.approx(once)
    assert collective_time(cluster, "reduce_scatter", nbytes) == pytest.approx(once)
    assert collective_time(cluster, "all_to_all", nbytes) == pytest.approx(once)


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_exchanges_in_pairs(ranks):
    cluster, rounds = one_node(ranks, "recursive"), math.log2(ranks)
    assert collective_time(cluster, "all_reduce", 8) == pytest.approx(rounds * (LATENCY + 8 / BANDWIDTH))
    # Two ranks exchange the whole tensor once, which is as few bytes as halves back and forth.
    latencies = 1 if ranks == 2 else 2 * rounds
    long = latencies * LATENCY + 2 * (ranks - 1) / ranks * 1e9 / BANDWIDTH
    assert collective_time(cluster, "all_reduce", 1e9) == pytest.approx(long)
    gather = rounds * LATENCY + (ranks - 1) / ranks * 1e9 / BANDWIDTH
    assert collective_time(cluster, "all_gather", 1e9) == pytest.approx(gather)
    assert collective_time(cluster, "broadcast", 8) == pytest.approx(rounds * (LATENCY + 8 / BANDWIDTH))


def test_ranks_beyond_a_power_of_two_fold_in_and_out():
    cluster = one_node(6, "recursive")
    four = 2 * (LATENCY + 8 / BANDWIDTH)
    assert collective_time(cluster, "all_reduce", 8) == pytest.approx(four + 2 * (LATENCY + 8 / BANDWIDTH))


def test_the_fastest_algorithm_is_chosen_by_size():
    both, ring, pairs = one_node(6), one_node(6, "ring"), one_node(6, "recursive")
    fastest = {}
    for nbytes in (8, 10**9):
        costs = [collective_time(cluster, "all_reduce", nbytes) for cluster in (ring, pairs)]
        assert collective_time(both, "all_reduce", nbytes) == min(costs)
        fastest[nbytes] = costs.index(min(costs))
    assert fastest == {8: 1, 10**9: 0}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_times_grow_with_bytes_and_shrink_with_bandwidth(collective):
    times = [collective_time(one_node(8), collective, 10.0**power) for power in range(10)]
    assert times == sorted(times) and times[0] > 0
    faster = Cluster(device=device(), per_node=8, inside=Link(LATENCY, 2 * BANDWIDTH))
    assert collective_time(faster, collective, 1e9) < times[9]
    assert collective_time(one_node(8), collective, 0) == 0
    assert collective_time(one_node(1), collective, 1e9) == 0


def levels(*algorithms):
    return Cluster(
        device=device(),
        nodes=4,
        per_node=8,
        inside=Link(1e-6, 1e11),
        between=Link(1e-5, 1e9),
        algorithms=algorithms or ("ring", "recursive", "hierarchical"),
    )


def test_levels_add_up():
    """reduce_scatter within nodes, all_reduce of an eighth between them, all_gather within nodes."""
    nbytes = 8e9
    inside = 7 / 8 * nbytes / 1e11 + 7e-6
    between = 2 * (3 / 4 * nbytes / 8 / 1e9 + 3e-5)
    ring = Cluster(
        device=device(),
        nodes=4,
        per_node=8,
        inside=Link(1e-6, 1e11),
        between=Link(1e-5, 1e9),
        algorithms=("ring", "hierarchical"),
    )
    flat = 2 * (31e-5 + 31 / 32 * nbytes / 8e9)
    assert collective_time(ring, "all_reduce", nbytes) == pytest.approx(min(2 * inside + between, flat))
    # A short message crosses nodes in 3 rounds of 10 us each way instead of 31.
    assert collective_time(ring, "all_reduce", 8) == pytest.approx(2 * 7e-6 + 6e-5, rel=1e-2)
    assert collective_time(levels("ring"), "all_reduce", 8) == pytest.approx(62e-5, rel=1e-2)


def test_the_members_of_a_node_share_its_links():
    """One member per node has one link to other nodes; eight members have eight."""
    alone = collective_time(levels("ring"), "all_gather", 8e9, ranks=4, stride=8)
    assert alone == pytest.approx(3e-5 + 3 / 4 * 8)
    together = collective_time(levels("ring"), "all_gather", 8e9)
    assert together == pytest.approx(31e-5 + 31 / 32)
    within = collective_time(levels("ring"), "all_gather", 8e9, ranks=8)
    assert within == pytest.approx(7e-6 + 7 / 8 * 0.08)
    apart = collective_time(levels(), "all_to_all", 8e9)
    assert apart == pytest.approx(31e-5 + 31 / 32 * 8), "each device sends its own blocks"


def test_the_node_with_the_fewest_members_bounds_a_ring():
    """Twelve ranks are eight in one node and four in the next, whose four links carry all bytes."""
    uneven = collective_time(levels("ring", "hierarchical"), "all_gather", 8e9, ranks=12)
    assert uneven == pytest.approx(11e-5 + 11 / 12 * 8 / 4)


def test_rings_send_the_fewest_bytes():
    assert sent_bytes("all_reduce", 800.0, 4) == 1200 and sent_bytes("all_gather", 800.0, 4) == 600


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Link(-1e-6, 1.0), "Link: expected a finite number of at least 0 as latency, got -1e-06"),
        (lambda: Link(0.0, 0.0), "Link: expected a finite number above 0 as bandwidth, got 0.0"),
        (lambda: Link(0.0, -5e9), "got -5000000000.0"),
        (lambda: Link(math.nan, 1.0), "got nan"),
        (lambda: Link(0.0, math.inf), "got inf"),
        (lambda: device(memory=0), "expected a finite number above 0 as memory, got 0"),
        (lambda: device(bandwidth=math.nan), "as bandwidth, got nan"),
        (lambda: device(flops=-1.0), r"as flops\['float32'\], got -1.0"),
        (lambda: device(efficiency=1.5), "expected an efficiency of at most 1, got 1.5"),
        (lambda: device(overhead=-1.0), "as overhead, got -1.0"),
        (
            lambda: Device(flops={}, memory=1.0, bandwidth=1.0),
            "expected a dtype or more with its flop/s, got {}",
        ),
        (lambda: Device(flops={"f32": 1.0}, memory=1.0, bandwidth=1.0), "as dtype, got 'f32'"),
        (lambda: device().rate("bfloat16"), "expected one of float32 as dtype, got 'bfloat16'"),
        (lambda: one_node(0), "expected an integer of at least 1 as per_node, got 0"),
        (lambda: one_node(4, "tree"), "as algorithm, got 'tree'"),
        (lambda: one_node(4, "hierarchical"), "expected ring or recursive among the algorithms"),
        (
            lambda: Cluster(device=device(), nodes=2, per_node=4, inside=Link(0.0, 1.0)),
            "expected a link between 2 nodes, got None",
        ),
        (lambda: preset("h100", 12), "expected at most 8 ranks or a multiple of 8, got 12"),
        (lambda: preset("h100", 0), "at least 1 as ranks, got 0"),
        (lambda: preset("abacus", 8), "expected one of a100, h100, b200 as name, got 'abacus'"),
        (lambda: collective_time(one_node(4), "gossip", 1), "as collective, got 'gossip'"),
        (lambda: collective_time(one_node(4), "all_reduce", -1), "as nbytes, got -1"),
        (lambda: collective_time(one_node(4), "all_reduce", math.nan), "as nbytes, got nan"),
        (lambda: collective_time(one_node(4), "all_reduce", 1, ranks=5), "among the 4 of the cluster, got 5"),
        (lambda: collective_time(one_node(4), "all_reduce", 1, ranks=3, stride=2), "got 3 at stride 2"),
    ],
)
def test_impossible_hardware_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Link("fast", 1.0), "Link: expected a number as latency, got str"),
        (lambda: Link(True, 1.0), "got bool"),
        (lambda: one_node(2.0), "expected an integer as per_node, got float"),
        (lambda: Cluster(device=None, per_node=1, inside=Link(0.0, 1.0)), "expected a Device as device"),
        (lambda: Cluster(device=device(), per_node=1, inside=3), "expected a Link as inside, got int"),
        (lambda: collective_time(None, "all_reduce", 1), "expected a Cluster as cluster, got NoneType"),
    ],
)
def test_other_types_are_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()
