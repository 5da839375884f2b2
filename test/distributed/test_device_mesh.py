"""Meshes of processes, against PyTorch."""

import functools

import pytest
from distributed.ranks import run
from oracle import pytorch

CASES = """
import pickle
from importlib import import_module
module = import_module(fw.__name__ + ".distributed.device_mesh")
DeviceMesh, init_device_mesh = module.DeviceMesh, module.init_device_mesh

def total(group):
    x = fw.tensor([rank])
    dist.all_reduce(x, group=group)
    return [x.item(), group.size(), dist.get_process_group_ranks(group)]

def facts(mesh):
    names, place = mesh.mesh_dim_names, mesh.get_coordinate()
    return [mesh.mesh.tolist(), list(mesh.shape), mesh.ndim, mesh.size(), names and list(names),
            place and list(place), mesh.get_rank(), mesh.device_type]

def line():
    mesh = init_device_mesh("cpu", (size,))
    return [facts(mesh), total(mesh.get_group()), mesh.get_local_rank(), mesh.get_group() is dist.group.WORLD]

def square():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found = [facts(mesh), [total(g) for g in mesh.get_all_groups()], mesh.size(0), mesh.size(1)]
    for name in ("dp", "tp"):
        part = mesh[name]
        found += [facts(part), total(part.get_group()), total(mesh.get_group(name)), part.get_local_rank(),
                  mesh.get_local_rank(name), part.get_group() is mesh.get_group(name)]
    found += [mesh.get_local_rank(0), mesh.get_local_rank(1), facts(mesh["dp", "tp"])]
    return found

def cube():
    mesh = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    part = mesh["a", "c"]
    return [facts(part), [total(g) for g in part.get_all_groups()], facts(mesh["b"]), facts(part["c"])]

def flat():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    whole = mesh["dp", "tp"]._flatten("all")
    again = mesh._flatten("all")
    found = [facts(whole), total(whole.get_group()), facts(mesh["all"]), facts(again)]
    other = init_device_mesh("cpu", (1, 2, 2), mesh_dim_names=("x", "y", "z"))
    part = other["x", "y"]._flatten()
    return [*found, facts(part), total(part.get_group()), total(other["x_y"].get_group())]

def explicit():
    mesh = DeviceMesh("cpu", [[3, 1], [2, 0]], mesh_dim_names=("a", "b"))
    pair = DeviceMesh("cpu", fw.tensor([1, 2]))
    inside = rank in (1, 2)
    found = [facts(mesh), total(mesh.get_group("b")), facts(pair)]
    return [*found, total(pair.get_group())[:2] if inside else None]

def values():
    every = [("a", "b"), ("a", "b"), ("a", "c"), None]
    meshes = [init_device_mesh("cpu", (2, 2), mesh_dim_names=names) for names in every]
    return [[a == b for a in meshes for b in meshes], hash(meshes[0]) == hash(meshes[1]), len(set(meshes)),
            meshes[0] == 3]

def texts():
    square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    others = [DeviceMesh("cpu", [0, 1]), DeviceMesh("cpu", [[3, 2], [1, 0]])]
    others += [init_device_mesh("cpu", shape) for shape in ((2, 1, 2), (4,))]
    return list(map(repr, [square, square["dp"], square["tp"], square._flatten("all"), *others]))

def of_group():
    half = [0, 1] if rank < 2 else [2, 3]
    groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    mine = groups[rank // 2]
    mesh = DeviceMesh.from_group(mine, "cpu", mesh_dim_names=("x",))
    return [facts(mesh), mesh.get_group() is mine, total(mesh.get_group())]

def refused():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plain = init_device_mesh("cpu", (2, 2))
    calls = {
        "names": lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a",)),
        "same names": lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")),
        "missing": lambda: mesh["pp"],
        "order": lambda: mesh["tp", "dp"],
        "without names": lambda: plain["dp"],
        "which": mesh.get_group,
    }
    return {name: raised(call)[0] for name, call in calls.items()}

def refused_by_flambeau():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    pair = DeviceMesh("cpu", [0, 1])
    calls = {
        "size": lambda: init_device_mesh("cpu", (2, 3)),
        "zero": lambda: init_device_mesh("cpu", (0, 2)),
        "negative rank": lambda: DeviceMesh("cpu", [-1, 0]),
        "twice": lambda: DeviceMesh("cpu", [0, 0]),
        "floating": lambda: DeviceMesh("cpu", [0.0, 1.0]),
        "empty": lambda: DeviceMesh("cpu", fw.zeros(0, dtype=fw.int64)),
        "device": lambda: init_device_mesh("tpu", (2, 2)),
        "dimension": lambda: mesh.get_group(2),
        "flat name": lambda: mesh._flatten("dp"),
        "other ranks": lambda: DeviceMesh.from_group(dist.group.WORLD, "cpu", [0, 1]),
        "no group": lambda: DeviceMesh.from_group(3, "cpu"),
    }
    found = {name: (raised(call) or ["none"])[0] for name, call in calls.items()}
    outside = raised(pair.get_group)
    return [found, outside and outside[0], pair.get_coordinate()]

if size > 1 and fw.__name__ == "torch":
    dist.init_process_group("gloo")
found = {}
CASES = [line, square, cube, flat, explicit, values, texts, of_group, refused]
if fw.__name__ == "flambeau":
    CASES.append(refused_by_flambeau)  # the first mesh makes the group of all processes
for case in CASES:
    try:
        found[case.__name__] = case()
    except Exception as error:
        import traceback
        found[case.__name__] = "".join(traceback.format_exception(error))
        break
else:
    dist.barrier()  # a process that ends resets connections that others are still making
put(found)
"""
SAME = "line square cube flat explicit values texts of_group refused".split()


@functools.cache
def values(framework: str = "flambeau") -> list:
    return run(4, CASES, framework, seconds=60)


@pytest.mark.parametrize("case", [*SAME, "refused_by_flambeau"])
def test_every_rank_has_a_result(case):
    for found in values():
        assert case in found and not isinstance(found[case], str), found


@pytest.mark.parametrize("case", SAME)
def test_as_in_pytorch(case):
    pytorch()
    for ours, theirs in zip(values(), values("torch"), strict=True):
        assert case in theirs, theirs
        assert ours[case] == theirs[case]


def test_groups_have_the_processes_along_their_dimension():
    for rank, found in enumerate(values()):
        row, column = divmod(rank, 2)
        first, second = found["square"][1]
        assert first == [2 * column + 2, 2, [column, column + 2]]
        assert second == [4 * row + 1, 2, [2 * row, 2 * row + 1]]
        assert found["flat"][1] == [6, 4, [0, 1, 2, 3]]


def test_wrong_meshes_are_errors():
    for rank, found in enumerate(values()):
        errors, outside, place = found["refused_by_flambeau"]
        assert errors.pop("floating") == "TypeError"
        assert errors.pop("dimension") == "IndexError"
        assert [errors.pop(name) for name in ("size", "negative rank")] == ["RuntimeError"] * 2
        assert set(errors.values()) == {"ValueError"}, errors
        assert (outside, place) == ((None, [rank]) if rank < 2 else ("RuntimeError", None))
