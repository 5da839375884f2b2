"""Ways to start: init methods, stores, mpiexec, Slurm, spawned processes, a second group, other backends."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import flambeau as fb
import pytest
from distributed.ranks import environment, free_port, run
from flambeau.distributed import _pmi
from flambeau.distributed.rendezvous import first_host

dist = fb.distributed

METHODS = """
found = []
port = os.environ["MASTER_PORT"]
for method in (f"tcp://127.0.0.1:{port}?rank={rank}&world_size={size}", f"file://{folder}/rendezvous"):
    where = {} if "rank=" in method else {"rank": rank, "world_size": size}
    dist.init_process_group("gloo", init_method=method, **where)
    x = fw.ones(1) * rank
    dist.all_reduce(x)
    found.append([x.item(), dist.get_rank(), dist.get_world_size(), dist.get_backend()])
    dist.destroy_process_group()
    found.append(dist.is_initialized())
store = dist.FileStore(f"{folder}/store", size)
dist.init_process_group("mpi", store=store, rank=rank, world_size=size)
found.append(dist.get_backend())
found.append(raised(dist.init_process_group, "mpi"))
dist.destroy_process_group()
found.append(raised(dist.destroy_process_group))
found.append(raised(dist.all_reduce, fw.ones(1)))
put(found)
"""


def test_init_methods_one_after_the_other():
    for rank, found in enumerate(run(2, METHODS)):
        assert found[:4] == [[1.0, rank, 2, "gloo"], False] * 2
        assert found[4] == "mpi" and found[5][0] == "ValueError" and "twice" in found[5][1]
        assert found[6][0] == "AssertionError" and found[7][0] == "ValueError"


def test_other_processes_cannot_be_connected_later():
    code = """
dist.init_process_group("gloo")
dist.destroy_process_group()
other = {0: 1, 1: 0}[rank]
store = dist.FileStore(f"{folder}/store", 2)
put(raised(dist.init_process_group, "gloo", store=store, rank=other, world_size=2))
"""
    for error in run(2, code):
        assert error[0] == "RuntimeError" and "MPI connects a process once" in error[1]


def test_missing_facts():
    for name, value in environment().items():
        assert name not in ("RANK", "WORLD_SIZE") or not value
    with pytest.raises(ValueError, match="environment variable RANK expected"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="rank parameter missing"):
        next(dist.rendezvous("tcp://127.0.0.1:1?world_size=1"))
    with pytest.raises(ValueError, match="port number missing"):
        next(dist.rendezvous("tcp://127.0.0.1?rank=0&world_size=1"))
    with pytest.raises(RuntimeError, match="No rendezvous handler for ftp"):
        dist.rendezvous("ftp://host")
    with pytest.raises(AssertionError, match="rank and world_size"):
        dist.init_process_group("gloo", store=dist.HashStore())
    with pytest.raises(ValueError, match="expected a rank from 0 to 0"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=1, world_size=1)
    assert not dist.is_initialized()


def test_backends_that_do_not_exist():
    store = dist.HashStore()
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in"):
        dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    with pytest.raises(AssertionError, match="Unknown backend type carrier"):
        dist.init_process_group("carrier", store=store, rank=0, world_size=1)
    with pytest.raises(ValueError, match="duplicate device type"):
        dist.init_process_group("cpu:gloo,cpu:mpi", store=store, rank=0, world_size=1)
    dist.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)
    assert dist.get_backend() == "gloo"
    dist.destroy_process_group()


def test_without_the_library_there_is_an_error():
    code = """
error = raised(dist.init_process_group, "gloo")
put([dist.is_mpi_available(), error])
"""
    for available, error in run(2, code, FLAMBEAU_MPI_LIBRARY="/nonexistent/libmpi.so"):
        assert not available and error[0] == "RuntimeError" and "flambeau[distributed]" in error[1]


def test_a_library_that_is_none_is_an_error():
    code = "put(raised(dist.init_process_group, 'gloo'))"
    for error in run(2, code, FLAMBEAU_MPI_LIBRARY=str(next(Path("/lib").rglob("libm.so.6")))):
        assert error[0] == "RuntimeError" and "standard ABI" in error[1]


def test_the_import_loads_no_library():
    code = "import flambeau, sys; assert not [m for m in sys.modules if 'flambeau.distributed' in m]"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
    code = (
        "import flambeau, flambeau.distributed as d, sys\n"
        "d.init_process_group('gloo', store=d.HashStore(), rank=0, world_size=1)\n"
        "d.all_reduce(flambeau.ones(1))\n"
        "assert 'flambeau.distributed._engine' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


# Both processes write to one pipe: a line is one write, so that lines do not mix.
MPIEXEC = """
import sys
import flambeau as fb
dist = fb.distributed
dist.init_process_group("mpi")
x = fb.ones(1) * dist.get_rank()
dist.all_reduce(x)
sys.stdout.write(f"found {x.item()} {dist.get_world_size()}\\n")
"""


def test_mpiexec_starts_a_job():
    launcher = Path(sys.executable).with_name("mpiexec")
    if not launcher.exists():
        found = shutil.which("mpiexec")
        assert found, "the wheel mpich brings mpiexec"
        launcher = Path(found)
    command = [str(launcher), "-n", "2", sys.executable, "-c", MPIEXEC]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("found 1.0 2") == 2


def test_slurm_starts_a_job():
    children = []
    for rank in range(2):
        variables = {
            "SLURM_PROCID": str(rank),
            "SLURM_NTASKS": "2",
            "SLURM_LOCALID": str(rank),
            "SLURM_JOB_NODELIST": "localhost",
            "SLURM_JOB_ID": str(free_port()),
        }
        children.append(variables)
    for variables in children:
        variables["SLURM_JOB_ID"] = children[0]["SLURM_JOB_ID"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MPIEXEC], env=environment(**v), stdout=subprocess.PIPE, text=True
        )
        for v in children
    ]
    outputs = [p.communicate(timeout=60)[0] for p in processes]
    assert [p.returncode for p in processes] == [0, 0]
    assert all("found 1.0 2" in output for output in outputs)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a", "a"), ("a,b", "a"), ("n[03-07,9],m", "n03"), ("r1-[2,4]-ib", "r1-2-ib"), ("", ""), ("n[1]", "n1")],
)
def test_the_first_host_of_slurm(nodes, first):
    assert first_host(nodes) == first


@pytest.mark.parametrize(
    ("hosts", "mapping"),
    [
        ("a", "(vector,(0,1,1))"),
        ("aab", "(vector,(0,1,2),(1,1,1))"),
        ("aba", "(vector,(0,1,1),(1,1,1),(0,1,1))"),
    ],
)
def test_processes_are_mapped_to_hosts(hosts, mapping):
    assert _pmi.mapping_of(list(hosts)) == mapping


SPAWNED = """
import flambeau as fb, flambeau.multiprocessing as mp
dist = fb.distributed

def work(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    x = fb.ones(1) * rank
    dist.all_reduce(x)
    assert x.item() == 1
    print("done", flush=True)

if __name__ == "__main__":
    mp.spawn(work, args=(%d,), nprocs=2)
"""


def test_spawned_processes_start_a_job(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SPAWNED % free_port())
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stderr


class Recorder(dist.ProcessGroup):
    """A backend in Python."""

    def allreduce(self, tensors, opts):
        for tensor in tensors:
            tensor.mul_(self.size() + 1)
        return dist.Work()

    def name(self):
        return "recorder"


def test_a_registered_backend_is_called():
    made = []

    def create(store, rank, size, timeout):
        made.append((rank, size, timeout.total_seconds()))
        store.set("key", "value")
        return Recorder(rank, size)

    dist.Backend.register_backend("recorder", create)
    try:
        store = dist.HashStore()
        dist.init_process_group("recorder", store=store, rank=0, world_size=1)
        x = fb.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [2, 2] and made == [(0, 1, 1800.0)] and dist.get_backend() == "recorder"
        assert dist.is_backend_available("recorder") and dist.Backend.RECORDER == "recorder"
        with pytest.raises(RuntimeError, match="expected a backend that has it, got recorder"):
            dist.broadcast(x, 0)
        with pytest.raises(RuntimeError, match="registered"):
            dist.Backend.register_backend("recorder", create)
    finally:
        dist.destroy_process_group()
        del dist.Backend.RECORDER, dist.Backend._plugins["RECORDER"]
        dist.Backend.backend_list.remove("recorder")
        del dist.Backend.backend_capability["recorder"]


def test_local_rank(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(RuntimeError, match="LOCAL_RANK"):
        dist.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert dist.get_node_local_rank() == 3 and os.environ["LOCAL_RANK"] == "3"
