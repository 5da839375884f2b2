"""Checkpoints of several processes: any number of them reads what any number has written."""

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
import pytest
from distributed.one_process import load
from distributed.ranks import Job, run
from oracle import pytorch

PREAMBLE = """
from importlib import import_module
dcp = import_module(fw.__name__ + ".distributed.checkpoint")
module = import_module(fw.__name__ + ".distributed.tensor")
distribute_tensor, DTensor = module.distribute_tensor, module.DTensor
Partial, Replicate, Shard = module.Partial, module.Replicate, module.Shard
warnings.simplefilter("ignore")
dist.init_process_group("gloo")
place = pathlib.Path(os.environ["PLACE"])

def failed(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except dcp.CheckpointException as error:
        return {str(r): [type(e).__name__, str(e)] for r, (e, _) in error.failures.items()}
    return None

SHAPES = [(7, 5), (2, 3), (0, 4), (6,), (), (3, 1, 4)]
wholes = [fw.arange(float(fw.Size(s).numel())).reshape(s) + 100 * i for i, s in enumerate(SHAPES)]

def kinds(shape, count):
    one = [Replicate(), *[Shard(d) for d in range(len(shape))]]
    found = [[]]
    for _ in range(count):
        found = [[*f, k] for f in found for k in one]
    return found

def parts(mesh, blank=False):
    "DTensors of all shapes and placements; a key names the placements of the saved tensor."
    found = {}
    for i, whole in enumerate(wholes):
        for placements in kinds(SHAPES[i], mesh.ndim):
            value = fw.zeros_like(whole) if blank else whole.clone()
            found[f"{i} {placements}"] = distribute_tensor(value, mesh, placements)
    return found

def rotated(mesh, state):
    "Zeros under the same keys, with placements that differ from the saved ones."
    found = {}
    for i in range(len(wholes)):
        for shift in range(1, 3):
            keys = [k for k in state if k.startswith(f"{i} ")]
            choices = kinds(SHAPES[i], mesh.ndim)
            for n, key in enumerate(keys):
                blank = fw.zeros(SHAPES[i])
                found.setdefault(shift, {})[key] = distribute_tensor(
                    blank, mesh, choices[(n + shift) % len(choices)])
    return found.values()

def differing(state):
    return [k for k, v in state.items()
            if not (v.full_tensor() if isinstance(v, DTensor) else v).equal(wholes[int(k.split()[0])])]
"""

SAVE = (
    PREAMBLE
    + """
mesh = dist.init_device_mesh("cpu", (size,))
state = parts(mesh)
plain = {"plain": fw.arange(5.0), "own": {f"of {rank}": rank}, "all": [1, {"x": rank * 0 + 2}]}
metadata = dcp.save(state | plain, checkpoint_id=place / str(size))
again = dcp.save(state | plain, checkpoint_id=place / str(size))  # over the first
chunks = [len(metadata.state_dict_metadata[k].chunks) for k in (f"0 {[Shard(0)]}", f"0 {[Replicate()]}")]
sizes = [r.length for r in metadata.storage_data.values()]
put([chunks, len(sizes), len(state), again.planner_data == metadata.planner_data])
"""
)

LOAD = (
    PREAMBLE
    + """
mesh = dist.init_device_mesh("cpu", (size,))
wrong = []
for saved in "123":
    keys = dcp.FileSystemReader(place / saved).read_metadata().state_dict_metadata
    state = {k: None for k in keys if k[0].isdigit()}
    for wanted in rotated(mesh, state):
        before = {k: v.placements for k, v in wanted.items()}
        dcp.load(wanted, checkpoint_id=place / saved)
        wrong += [[saved, k] for k in differing(wanted)]
        wrong += [[saved, k] for k, v in wanted.items() if v.placements != before[k]]
    plain = {k: fw.zeros(SHAPES[int(k[0])]) for k in state}
    rest = {"plain": distribute_tensor(fw.zeros(5), mesh, [Shard(0)]), "all": [0, {"x": 0}],
            "own": {f"of {i}": None for i in range(int(saved))}}
    dcp.load(plain | rest, checkpoint_id=place / saved)
    wrong += [[saved, k] for k in differing(plain)]
    if rest["plain"].full_tensor().tolist() != [0, 1, 2, 3, 4] or rest["all"] != [1, {"x": 2}]:
        wrong.append([saved, "plain"])
    if rest["own"] != {f"of {i}": i for i in range(int(saved))}:
        wrong.append([saved, "own", str(rest["own"])])
put(wrong)
"""
)


def test_any_number_of_processes_reads_what_any_number_wrote(tmp_path):
    for size in (1, 2, 3):
        for chunks, places, count, equal in run(size, SAVE, PLACE=str(tmp_path)):
            assert chunks == [size, 1] and places > count and equal
        files = sorted(p.name for p in (tmp_path / str(size)).iterdir())
        assert len(files) == size + 1 and files[0] == ".metadata"
    for size in (1, 2, 3):
        assert run(size, LOAD, PLACE=str(tmp_path)) == [[]] * size


MESHES = (
    PREAMBLE
    + """
square, line = dist.init_device_mesh("cpu", (2, 2)), dist.init_device_mesh("cpu", (4,))
state = parts(square)
wrong = []
dcp.save(state, checkpoint_id=place / "square")
for mesh in (square, line):
    for wanted in rotated(mesh, state):
        dcp.load(wanted, checkpoint_id=place / "square")
        wrong += differing(wanted)
half, group = module.DeviceMesh("cpu", [1, 3]), dist.new_group([1, 3])
if half.get_coordinate() is not None:
    value = {"h": distribute_tensor(wholes[0], half, [Shard(1)])}
    dcp.save(value, checkpoint_id=place / "half", process_group=group)
    back = {"h": distribute_tensor(fw.zeros(SHAPES[0]), half, [Shard(0)])}
    dcp.load(back, checkpoint_id=place / "half", process_group=group)
    wrong += [] if back["h"].full_tensor().equal(wholes[0]) else ["half"]
else:
    wrong.append(raised(dcp.save, {"h": 1}, checkpoint_id=place / "no", process_group=group))
put(wrong)
"""
)


def test_meshes_of_two_dimensions_and_of_some_processes(tmp_path):
    found = run(4, MESHES, PLACE=str(tmp_path), seconds=90)
    assert found[1] == found[3] == []
    assert found[0] == found[2] and [error[0] for error in found[0]] == ["ValueError"]
    assert (
        load({"h": fb.zeros(7, 5)}, tmp_path / "half")["h"].tolist() == fb.arange(35.0).reshape(7, 5).tolist()
    )


OTHER = (
    PREAMBLE
    + """
mesh = module.init_device_mesh("cpu", (size,)) if hasattr(module, "init_device_mesh") else (
    import_module(fw.__name__ + ".distributed.device_mesh").init_device_mesh("cpu", (size,)))
state = parts(mesh) | {"plain": fw.arange(5.0), "step": 7}
dcp.save(state, checkpoint_id=place / fw.__name__)
put(sorted(state))
dist.barrier()
dist.destroy_process_group()  # PyTorch's threads may abort the process otherwise
"""
)


def test_pytorch_and_flambeau_read_each_others_parts(tmp_path):
    """Both write with two processes and read with one."""
    torch = pytorch()
    import torch.distributed.checkpoint as other

    names = [run(2, OTHER, framework, PLACE=str(tmp_path)) for framework in ("flambeau", "torch")]
    assert names[0][0] == names[0][1] and len(names[0][0]) == len(names[1][0])
    for reader, framework, writer in ((dcp, fb, "torch"), (other, torch, "flambeau")):
        metadata = reader.FileSystemReader(tmp_path / writer).read_metadata().state_dict_metadata
        state = {k: framework.zeros(tuple(m.size)) for k, m in metadata.items() if k != "step"} | {"step": 0}
        reader.load(state, checkpoint_id=tmp_path / writer, no_dist=True)
        assert state["step"] == 7 and len(state) == len(names[0][0])
        for key, value in state.items():
            if key[0].isdigit():
                want = framework.arange(float(value.numel())).reshape(value.shape) + 100 * int(key[0])
                assert value.equal(want), (writer, key)


ERRORS = (
    PREAMBLE
    + """
mesh = dist.init_device_mesh("cpu", (size,))
found = {}
bad = {f"own{rank}": (lambda: 0) if rank == 1 else 2}
found["write"] = failed(dcp.save, bad, checkpoint_id=place / "a")
found["sizes"] = failed(dcp.save, {"x": fw.ones(2 + rank)}, checkpoint_id=place / "a")
other = fw.ones(2, dtype=[fw.float32, fw.int64][rank])
found["dtypes"] = failed(dcp.save, {"x": other}, checkpoint_id=place / "a")
found["kinds"] = failed(dcp.save, {"x": fw.ones(2) if rank else 3}, checkpoint_id=place / "a")

class Odd(Exception):
    "Cannot be sent to another process."

    def __init__(self):
        super().__init__("odd")
        self.function = lambda: 0

class Raises(dcp.DefaultSavePlanner):
    def create_local_plan(self):
        if rank == 1:
            raise Odd
        return super().create_local_plan()

found["odd"] = failed(dcp.save, {"x": 1}, checkpoint_id=place / "a", planner=Raises())

class Failing:
    def state_dict(self):
        if rank == 1:
            raise KeyError("own")
        return {}

    def load_state_dict(self, state):
        pass

for name, call in (("save", dcp.save), ("load", dcp.load)):
    try:
        call({"o": Failing()}, checkpoint_id=place / "a")
    except dcp.CheckpointException as error:
        own = [rank, str(error)]
    except KeyError as error:
        own = [rank, repr(error)]
    everyone = [None] * size
    dist.all_gather_object(everyone, own)
    found[f"object {name}"] = everyone
sums = DTensor.from_local(fw.ones(2), mesh, [Partial()])
found["partial"] = failed(dcp.save, {"x": sums}, checkpoint_id=place / "a")
dcp.save({"x": fw.ones(2), "n": (lambda: 0) if rank else 5}, checkpoint_id=place / "b")  # rank 0 writes n
found["key"] = failed(dcp.load, {"x": fw.ones(2), **({"q": 1} if rank else {})}, checkpoint_id=place / "b")
found["size"] = failed(dcp.load, {"x": fw.ones(2 + rank)}, checkpoint_id=place / "b")
found["absent"] = failed(dcp.load, {"x": fw.ones(2)}, checkpoint_id=place / "c")
total = fw.ones(1)
dist.all_reduce(total)  # the group is usable
put([found, total.item(), (place / "a" / ".metadata").exists()])
"""
)


def test_a_failure_of_one_process_is_raised_by_all(tmp_path):
    first, second = run(2, ERRORS, PLACE=str(tmp_path))
    assert first == second
    found, total, exists = first
    assert total == 2 and not exists
    for name in ("save", "load"):
        (_, others), own = found.pop(f"object {name}")
        assert own == [1, "KeyError('own')"]
        assert f"{name}: states of objects failed on ranks [1]" in others and "KeyError: 'own'" in others
    kinds = {name: {rank: error for rank, (error, _) in f.items()} for name, f in found.items()}
    assert kinds["write"].keys() == {"1"}
    assert found["odd"] == {"1": ["RuntimeError", "Odd: odd"]}
    assert kinds["sizes"] == kinds["dtypes"] == kinds["kinds"] == {"0": "ValueError"}
    assert kinds["partial"] == {"0": "ValueError", "1": "ValueError"}
    assert kinds["key"] == {"1": "RuntimeError"} and kinds["size"] == {"1": "ValueError"}
    assert kinds["absent"] == {"0": "FileNotFoundError"}
    assert "'x'" in found["sizes"]["0"][1] and "sharded or replicated" in found["partial"]["0"][1]


ORDER = (
    PREAMBLE
    + """
class Sum:
    "Communicates when it is asked for its state, and when it gets one."

    def __init__(self, n):
        self.n = n

    def state_dict(self):
        total = fw.tensor(self.n)
        dist.all_reduce(total)
        return {"total": total.item()}

    def load_state_dict(self, state):
        got = fw.tensor(state["total"])
        dist.all_reduce(got)
        self.got = got.item()

names = ["a", "b", "c"] if rank == 0 else ["c", "a", "b"]
objects = {name: Sum(ord(name) + rank) for name in names}
dcp.save(dict(objects), checkpoint_id=place)
dcp.load(dict(objects), checkpoint_id=place)
put([[objects[name].got for name in "abc"], [ord(name) * 2 + 1 for name in "abc"]])
"""
)


def test_objects_may_communicate_whatever_the_order_of_keys(tmp_path):
    for got, sums in run(2, ORDER, PLACE=str(tmp_path)):
        assert got == [2 * total for total in sums]


ASYNC = (
    PREAMBLE
    + """
mesh = dist.init_device_mesh("cpu", (size,))
weight = distribute_tensor(fw.ones(6, 2), mesh, [Shard(0)])
wrong, futures = [], []
for step in range(4):
    futures.append(dcp.async_save({"w": weight, "n": step}, checkpoint_id=place / str(step % 2)))
    weight.mul_(2)
    for _ in range(20):  # the program goes on to use the default group
        total = fw.full((3,), float(rank))
        dist.all_reduce(total)
        if total.tolist() != [size * (size - 1) / 2] * 3:
            wrong.append(step)
done = [sorted(f.result(30).state_dict_metadata) for f in futures]
back = {"w": distribute_tensor(fw.zeros(6, 2), mesh, [Shard(1)]), "n": 0}
dcp.load(back, checkpoint_id=place / "1")
bad = dcp.async_save({"x": fw.ones(1 + rank)}, checkpoint_id=place / "2")
error = type(bad.exception(30)).__name__
dist.barrier()
dist.destroy_process_group()
put([wrong, done, back["w"].placements == (Shard(1),), back["n"], error])
"""
)


def test_training_goes_on_while_a_thread_saves(tmp_path):
    for wrong, done, placed, step, error in run(2, ASYNC, PLACE=str(tmp_path)):
        assert wrong == [] and done == [["n", "w"]] * 4 and placed and step == 3
        assert error == "CheckpointException"
    found = load({"w": fb.zeros(6, 2), "n": 0}, tmp_path / "1")
    assert found["n"] == 3 and found["w"].eq(8).all()


KILLED = (
    PREAMBLE
    + """
import signal
dcp.save({"w": fw.full((3,), 1.0), f"own{rank}": fw.zeros(4)}, checkpoint_id=place)

class Dying(dcp.FileSystemWriter):
    def write_data(self, plan, planner):
        if rank == 1 and os.environ["WHEN"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = super().write_data(plan, planner)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

state = {"w": fw.full((3,), 2.0), f"own{rank}": fw.ones(4)}
if os.environ["KIND"] == "async":
    future = dcp.async_save(state, storage_writer=Dying(place))
    error = future.exception(40)
    rest = (fw.ones(2) @ fw.ones(2)).item()  # nothing else breaks
    put([type(error).__name__, rest])
else:
    put([raised(dcp.save, state, storage_writer=Dying(place))[0], 2])
"""
)


@pytest.mark.parametrize(("kind", "when"), [("sync", "before"), ("sync", "after"), ("async", "after")])
def test_a_process_that_dies_in_a_save_leaves_the_checkpoint_from_before(tmp_path, kind, when):
    job = Job(2, KILLED, PLACE=str(tmp_path), KIND=kind, WHEN=when)
    first, second = job.ends(60)
    assert second.status == -9 and first.values == ["DistBackendError", 2], first.output
    found = load({"w": fb.zeros(3), "own0": fb.ones(4), "own1": fb.ones(4)}, tmp_path)
    assert found["w"].tolist() == [1, 1, 1] and found["own1"].tolist() == [0] * 4
