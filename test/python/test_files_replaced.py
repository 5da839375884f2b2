"""`save` replaces a file as a whole: whatever ends it, the old file or the new one is there."""

import errno
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import flambeau as fb
import pytest
from flambeau.serialization import _replacement

# Saves again and again; each file holds one number throughout.
SAVER = """
import itertools, sys
import flambeau
from flambeau.serialization import _replacement
if sys.argv[2] == "named":
    _replacement._NAMELESS = 0
print("ready", flush=True)
for i in itertools.count(1):
    flambeau.save(flambeau.full((50_000,), float(i)), sys.argv[1])
"""


@pytest.fixture(params=["nameless", "named"])
def way(request, monkeypatch):
    """With the files without names of Linux, and as elsewhere."""
    if request.param == "named":
        monkeypatch.setattr(_replacement, "_NAMELESS", 0)
    return request.param


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def whole(path):
    x = fb.load(path)
    assert x.shape == (50_000,) and bool((x == x[0]).all())
    return x[0].item()


# Forks a process that saves and is killed at its first line of the package, another one that is killed at its
# second line, and so on. Prints what the file holds after each, until one ends by itself. The forks are those
# of a small process: the memory of the process that runs all tests takes long to copy.
KILLED_AT_ANY_LINE = """
import itertools, json, os, signal, sys
from pathlib import Path
import flambeau as fb
from flambeau.serialization import _archive, _replacement
if sys.argv[2] == "named":
    _replacement._NAMELESS = 0
_archive._CHUNK = 1 << 16  # bytes: the storage is several chunks
path = Path(sys.argv[1])

def killed_at(line):
    x = fb.full((50_000,), float(line))
    child = os.fork()
    if child == 0:
        seen = itertools.count()

        def trace(frame, event, _):
            if Path(frame.f_code.co_filename).name not in ("_replacement.py", "_archive.py"):
                return None
            if event == "line" and next(seen) == line:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        fb.save(x, path)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

def found():
    x = fb.load(path)
    assert x.shape == (50_000,) and bool((x == x[0]).all())
    names = os.listdir(path.parent)
    assert len(names) <= 2, names  # one name at most, which the next process uses again
    return x[0].item()

fb.save(fb.full((50_000,), -1.0), path)
values = [found()]
for line in itertools.count():
    killed = killed_at(line)
    values.append(found())
    if not killed:
        break
print(json.dumps(values))
"""


def test_a_process_killed_at_any_line(tmp_path, way):
    path = tmp_path / "state"
    command = [sys.executable, "-c", KILLED_AT_ANY_LINE, str(path), way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *values, last = json.loads(done.stdout)
    line = len(values) - 1  # of the process that was not killed
    assert line > 50 and values[:2] == [-1, -1] and whole(path) == last == line
    assert all(after in (before, i) for i, (before, after) in enumerate(itertools.pairwise(values)))
    assert names(tmp_path) == ["state"]


def test_a_process_killed_at_any_time(tmp_path, way):
    path = tmp_path / "state"
    for moment in range(6):
        saver = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(path), way], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert saver.stdout.readline() == b"ready\n", saver.stderr.read()
        time.sleep(0.003 * moment)
        saver.kill()
        saver.communicate()
        if path.exists():
            whole(path)
        assert len(names(tmp_path)) <= 2
    fb.save(fb.full((50_000,), 0.0), path)
    assert whole(path) == 0 and names(tmp_path) == ["state"]


LIMITED = """
import resource, sys
import flambeau
from flambeau.serialization import _replacement
way, size, *paths = sys.argv[1:]
if way == "named":
    _replacement._NAMELESS = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
for path in paths:
    try:
        flambeau.save(flambeau.full((50_000,), 2.0), path)
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.parametrize("size", [1, 700, 4096, 100_000, 200_000])
def test_a_full_disk_leaves_the_old_file(tmp_path, way, size):
    path = tmp_path / "state"
    fb.save(fb.full((50_000,), 1.0), path)
    command = [sys.executable, "-c", LIMITED, way, str(size), str(path), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.count(os.strerror(errno.EFBIG)) == done.stdout.count("save: File ") == 2, done
    assert whole(path) == 1 and names(tmp_path) == ["state"]


def test_what_cannot_be_pickled_leaves_the_old_file(tmp_path):
    path = tmp_path / "state"
    fb.save(fb.ones(2), path)
    with pytest.raises(Exception, match="pickle"):
        fb.save([fb.ones(2), lambda: None], path)
    assert fb.load(path).tolist() == [1, 1] and names(tmp_path) == ["state"]


def test_permissions(tmp_path, way):
    path = tmp_path / "state"
    before = os.umask(0o027)
    try:
        fb.save(1, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o666, 0o755):
            path.chmod(mode)
            fb.save(2, path)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_links_are_followed(tmp_path, way):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    target, link, second = tmp_path / "a" / "state", tmp_path / "b" / "link", tmp_path / "second"
    link.symlink_to("../a/state")
    second.symlink_to(link)
    for value in (1, 2):  # the first time it leads nowhere
        fb.save(value, second)
        assert fb.load(target) == value and link.is_symlink() and second.is_symlink()
        assert names(tmp_path / "a") == ["state"] and names(tmp_path / "b") == ["link"]
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(RuntimeError, match="File"):
        fb.save(1, tmp_path / "circle")


def test_names_as_long_as_names_can_be(tmp_path, way):
    path = tmp_path / ("x" * 255)
    fb.save(1, path)
    fb.save(2, str(path))
    assert fb.load(path) == 2


def test_relative_names(tmp_path, way, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fb.save(1, "state")
    fb.save(2, Path("state"))
    assert fb.load("state") == 2 and names(tmp_path) == ["state"]


def test_places_that_cannot_be_written(tmp_path, way):
    with pytest.raises(RuntimeError, match="Parent directory"):
        fb.save(1, tmp_path / "none" / "state")
    with pytest.raises(RuntimeError, match="File"):
        fb.save(1, tmp_path)
    with pytest.raises(RuntimeError, match="File"):
        fb.save(1, tmp_path / ("x" * 256))


def test_what_may_not_be_written(way):
    """To root everything is allowed: the process is nobody then."""
    with tempfile.TemporaryDirectory() as name:
        path, folder = Path(name, "state"), Path(name, "folder")
        folder.mkdir()
        for place in (path, folder / "state"):
            fb.save(1, place)
        path.chmod(0o444)
        (folder / "state").chmod(0o666)
        folder.chmod(0o555)
        Path(name).chmod(0o777)
        child = os.fork()
        if child == 0:
            if os.geteuid() == 0:
                os.seteuid(65534)
            os._exit(sum(map(refused, (path, folder / "state", folder / "new"))))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        folder.chmod(0o755)
        assert (status, fb.load(path), fb.load(folder / "state")) == (3, 1, 1)
        assert names(Path(name)) == ["folder", "state"] and names(folder) == ["state"]


def refused(path):
    try:
        fb.save(2, path)
    except RuntimeError as error:
        return os.strerror(errno.EACCES) in str(error)
    return False


def test_pipes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    fb.save({"x": fb.ones(100_000)}, path)
    reader.join()
    (tmp_path / "copy").write_bytes(found[0])
    assert fb.load(tmp_path / "copy")["x"].sum() == 100_000
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_standard_output(tmp_path):
    program = "import flambeau; flambeau.save(flambeau.ones(3), '/dev/stdout')"
    through_pipe = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60).stdout
    (tmp_path / "pipe").write_bytes(through_pipe)
    with (tmp_path / "file").open("wb") as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True, timeout=60)
    for name in ("pipe", "file"):
        assert fb.load(tmp_path / name).tolist() == [1, 1, 1]
    fb.save(1, os.devnull)


def test_open_files(tmp_path):
    class OnlyWrite:
        def __init__(self):
            self.parts = []

        def write(self, part):
            assert type(part) is bytes
            self.parts.append(part)

    target = OnlyWrite()
    fb.save(fb.ones(3), target)
    (tmp_path / "a").write_bytes(b"".join(target.parts))
    with (tmp_path / "b").open("wb", buffering=0) as file:
        fb.save(fb.ones(3), file)
    with (tmp_path / "c").open("w+b") as file:
        fb.save(fb.ones(3), file)
        file.seek(0)
        assert fb.load(file).tolist() == [1, 1, 1]
    contents = {(tmp_path / name).read_bytes() for name in "abc"}
    assert len(contents) == 1


def test_processes_that_save_at_once(tmp_path, way):
    path = tmp_path / "state"
    command = [sys.executable, "-c", SAVER, str(path), way]
    savers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    for saver in savers:
        saver.stdout.readline()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if path.exists():
            whole(path)
    assert all(saver.poll() is None for saver in savers), [s.stderr.read() for s in savers if s.poll()]
    for saver in savers:
        saver.send_signal(signal.SIGKILL)
        saver.communicate()
    whole(path)


def test_a_name_that_is_deleted_during_its_lookup(tmp_path, monkeypatch):
    """Another process renames the file between the lock and the look at its name."""
    monkeypatch.setattr(_replacement, "_NAMELESS", 0)
    looks, look = itertools.count(), os.fstat

    def fstat(descriptor):
        if next(looks) == 0:
            for path in tmp_path.iterdir():
                path.unlink()
        return look(descriptor)

    monkeypatch.setattr(os, "fstat", fstat)
    fb.save(fb.ones(2), tmp_path / "state")
    assert next(looks) > 1 and fb.load(tmp_path / "state").tolist() == [1, 1]
    assert names(tmp_path) == ["state"]


def test_mapped_files(tmp_path):
    path = tmp_path / "state"
    x = fb.arange(100_000.0)
    fb.save({"x": x, "y": fb.ones(3, dtype=fb.int8), "none": fb.empty(0), "view": x[5:]}, path)
    before = path.read_bytes()
    state = fb.load(path, mmap=True)
    assert bool((state["x"] == x).all()) and state["x"].data_ptr() % 64 == 0
    state["x"][7] = -1
    assert state["view"][2] == -1 and state["none"].shape == (0,) and state["y"].tolist() == [1, 1, 1]
    state["y"].add_(1)
    assert path.read_bytes() == before
    fb.save(2, path)  # the mapped file stays as it was, without a name
    assert state["x"][99_999] == 99_999


def test_memory_while_saving_and_loading(tmp_path):
    """One copy when loading, none when saving."""
    program = f"""
import resource, sys
import flambeau
x = flambeau.ones(16 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
flambeau.save(x, {str(tmp_path / "state")!r})
saved = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
y = flambeau.load({str(tmp_path / "state")!r})
loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(saved - before, loaded - saved)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    saved, loaded = map(int, done.stdout.split())
    assert saved < 16_000 and loaded < 82_000, (saved, loaded, done.stderr)
