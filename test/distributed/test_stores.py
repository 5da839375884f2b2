"""Stores: values, waiting, hostile bytes, many threads and processes."""

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from datetime import timedelta

import flambeau as fb
import pytest
from distributed.ranks import environment
from flambeau.distributed import _tcp_server

dist = fb.distributed
SOON = timedelta(milliseconds=50)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        return dist.HashStore()
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"))
    tcp = dist.TCPStore("127.0.0.1", 0, is_master=True)
    return tcp if request.param == "tcp" else dist.PrefixStore("part", tcp)


def test_values(store):
    store.set("a", "text")
    store.set("b", b"\x00\xff\n=")
    store.set("", "the empty key")
    store.set("empty", "")
    assert (
        store.get("a") == b"text" and store.get("b") == b"\x00\xff\n=" and store.get("") == b"the empty key"
    )
    assert store.get("empty") == b"" and store.num_keys() == 4
    store.set("a", "new")
    assert store.get("a") == b"new" and store.num_keys() == 4
    assert store.delete_key("a") is True and store.delete_key("a") is False
    assert sorted(store.list_keys()) == ["", "b", "empty"]
    assert store.check(["b"]) and not store.check(["b", "a"]) and store.check([])
    store.set("ä/= \n", "x")
    assert store.get("ä/= \n") == b"x"


def test_numbers(store):
    assert [store.add("n", 1), store.add("n", 41), store.add("n", -50), store.add("n", 0)] == [1, 42, -8, -8]
    assert store.get("n") == b"-8"
    store.set("text", "no number")
    with pytest.raises(RuntimeError, match="whole number"):
        store.add("text", 1)
    assert store.get("text") == b"no number"


def test_compare_set(store):
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "other", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.compare_set("new", "expected", "value") == b"expected" and not store.check(["new"])


def test_several(store):
    store.append("log", "a")
    store.append("log", b"b")
    store.multi_set(["x", "y"], ["1", b"2"])
    assert store.multi_get(["log", "x", "y"]) == [b"ab", b"1", b"2"]
    with pytest.raises(ValueError, match="as many values as keys"):
        store.multi_set(["x"], [])


def test_waiting_ends_with_the_key_or_with_time(store):
    began = time.monotonic()
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: .*never"):
        store.wait(["never"], SOON)
    assert 0.04 < time.monotonic() - began < 5
    store.set_timeout(SOON)
    assert store.timeout == SOON
    with pytest.raises(dist.DistStoreError):
        store.get("never")
    store.set_timeout(timedelta(seconds=30))
    setter = threading.Timer(0.05, lambda: store.set("late", "value"))
    setter.start()
    assert store.get("late") == b"value"
    store.wait([])
    setter.join()


def test_wrong_arguments(store):
    for call in (
        lambda: store.set(1, "x"),
        lambda: store.set("x", 1),
        lambda: store.get(b"x"),
        lambda: store.add("x", 1.5),
        lambda: store.wait("x"),
        lambda: store.check(None),
        lambda: store.wait(["x"], 1.0),
        lambda: store.set_timeout(3),
    ):
        with pytest.raises(TypeError, match="expected"):
            call()
    assert not store.check(["x"])


def test_queues():
    for store in (dist.HashStore(), dist.TCPStore("127.0.0.1", 0, is_master=True)):
        store.queue_push("q", "a")
        store.queue_push("q", b"b")
        assert store.queue_len("q") == 2 and store.queue_pop("q") == b"a" and store.queue_pop("q") == b"b"
        with pytest.raises(dist.QueueEmptyError):
            store.queue_pop("q", block=False)
        store.set_timeout(SOON)
        with pytest.raises(dist.DistStoreError):
            store.queue_pop("q")
        pusher = threading.Timer(0.05, store.queue_push, ("q", "late"))
        store.set_timeout(timedelta(seconds=30))
        pusher.start()
        assert store.queue_pop("q") == b"late"
        pusher.join()


def test_each_addition_of_many_threads_counts(store):
    def add():
        for _ in range(20):
            store.add("n", 1)

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.add("n", 0) == 120


def test_prefixes_keep_stores_apart():
    whole = dist.HashStore()
    a, b = dist.PrefixStore("a", whole), dist.PrefixStore("b", whole)
    a.set("k", "1")
    assert (
        not b.check(["k"])
        and dist.PrefixStore("a", dist.PrefixStore("b", whole)).underlying_store is not whole
    )
    b.set("k", "2")
    assert (a.get("k"), whole.get("b/k"), a.num_keys()) == (b"1", b"2", 2)
    with pytest.raises(TypeError):
        dist.PrefixStore(1, whole)
    with pytest.raises(TypeError):
        dist.PrefixStore("a", {})


def test_a_store_in_python_can_be_a_base():
    class Mine(dist.Store):
        def __init__(self):
            super().__init__()
            self.data = {}

        def set(self, key, value):
            self.data[key] = value

        def get(self, key):
            return self.data[key]

    mine = Mine()
    dist.PrefixStore("p", mine).set("k", b"v")
    assert mine.get("p/k") == b"v"
    with pytest.raises(RuntimeError, match="Mine"):
        mine.add("n", 1)


# --- TCP ------------------------------------------------------------------------------------------


def test_clients_of_other_processes_see_the_same_keys():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    code = (
        "import flambeau as fb, sys\n"
        "store = fb.distributed.TCPStore('127.0.0.1', int(sys.argv[1]))\n"
        "store.set('answer', store.get('question') + b'!')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(store.port)], env=environment())
    store.set("question", "who?")
    assert store.get("answer") == b"who?!" and child.wait(20) == 0


def test_one_waiting_thread_does_not_block_another():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    waiter = threading.Thread(target=store.get, args=("late",))
    waiter.start()
    began = time.monotonic()
    store.set("other", "x")
    assert store.get("other") == b"x" and time.monotonic() - began < 5
    store.set("late", "x")
    waiter.join(10)
    assert not waiter.is_alive()


FRAME = _tcp_server.pack
HOSTILE = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(4096),
    "half a greeting": _tcp_server.GREETING[:5],
    "a huge length": _tcp_server.GREETING + b"\xff\xff\xff\xff",
    "a length of a gigabyte, then bytes": _tcp_server.GREETING + struct.pack("<I", 1 << 30) + bytes(1 << 16),
    "an unknown operation": _tcp_server.GREETING + FRAME(b"__class__"),
    "a private name": _tcp_server.GREETING + FRAME(b"values"),
    "no operation": _tcp_server.GREETING + FRAME(),
    "too few fields": _tcp_server.GREETING + FRAME(b"set", b"key"),
    "too many fields": _tcp_server.GREETING + FRAME(b"delete_key", b"key", b"x"),
    "a key that is no text": _tcp_server.GREETING + FRAME(b"set", b"\xff\xfe", b"x"),
    "a number that is none": _tcp_server.GREETING + FRAME(b"add", b"key", b"1e9"),
    "a number of a million digits": _tcp_server.GREETING + FRAME(b"add", b"key", b"9" * 1000000),
    "a field beyond its frame": _tcp_server.GREETING + struct.pack("<II", 8, 1 << 20) + b"abcd",
    "a wait for ever": _tcp_server.GREETING + FRAME(b"wait", b"9" * 30, b"never"),
    "a pickle": b"\x80\x04\x95" + b"cos\nsystem\n(S'false'\ntR.",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_change_nothing(what):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    store.set("key", "value")
    with socket.create_connection(("127.0.0.1", store.port)) as stranger:
        stranger.sendall(HOSTILE[what])
        time.sleep(0.01)
        assert store.get("key") == b"value" and store.num_keys() == 1
    assert store.add("alive", 1) == 1


def test_random_bytes_change_nothing():
    import random

    rng = random.Random(0)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    store.set("key", "value")
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            start = _tcp_server.GREETING if rng.random() < 0.7 else b""
            try:
                stranger.sendall(start + rng.randbytes(rng.randrange(200)))
            except ConnectionError:
                pass
    assert store.get("key") == b"value" and store.num_keys() == 1


def test_too_much_is_refused_before_it_is_sent():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(dist.DistStoreError, match="at most"):
        store.set("big", bytes(_tcp_server.FRAME_LIMIT))
    store.set("large", bytes(3 << 20))
    assert len(store.get("large")) == 3 << 20


def test_the_server_listens_on_its_interface_alone():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    listening = socket.socket()
    with pytest.raises(OSError):
        listening.connect(("127.0.0.2", store.port))
    listening.close()
    with pytest.raises(dist.DistNetworkError, match="interface of this machine"):
        dist.TCPStore("192.0.2.1", 0, is_master=True)


def test_ports_that_cannot_be_used():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(dist.DistNetworkError, match="EADDRINUSE"):
        dist.TCPStore("127.0.0.1", store.port, is_master=True)
    with pytest.raises(ValueError, match="65535"):
        dist.TCPStore("127.0.0.1", 1 << 16)
    with pytest.raises(dist.DistNetworkError, match="timed out"):
        dist.TCPStore("127.0.0.1", 1, timeout=SOON)
    with pytest.raises(dist.DistNetworkError):
        dist.TCPStore("no.such.host.invalid", 1, is_master=True)


def test_a_server_that_ends_is_an_error():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    client = dist.TCPStore("127.0.0.1", store.port, timeout=timedelta(seconds=1))
    client.set("key", "value")
    store._server.stop()
    with pytest.raises(dist.DistNetworkError):
        client.get("key")


def test_workers_are_awaited():
    began = time.monotonic()
    with pytest.raises(dist.DistStoreError, match="expected 2 clients, got 1"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(milliseconds=100))
    assert time.monotonic() - began < 5
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    assert store.num_keys() == 1  # the workers'


def test_two_stores_of_a_process_share_a_server():
    first = dist.TCPStore("127.0.0.1", 0, is_master=True, multi_tenant=True)
    second = dist.TCPStore("127.0.0.1", first.port, is_master=True, multi_tenant=True)
    first.set("key", "value")
    assert second.get("key") == b"value" and second.clone().get("key") == b"value"
    first._server.stop()


def test_a_forked_child_has_its_own_connection():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    store.set("key", "value")
    child = os.fork()
    if child == 0:
        ok = store.get("key") == b"value" and store.add("children", 1) == 1
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("children") == b"1" and store.get("key") == b"value"


# --- files ----------------------------------------------------------------------------------------


def test_processes_share_a_file(tmp_path):
    path = tmp_path / "store"
    code = (
        "import flambeau as fb, sys\n"
        "store = fb.distributed.FileStore(sys.argv[1])\n"
        "for _ in range(50):\n    store.add('n', 1)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], env=environment()) for _ in range(2)
    ]
    assert [child.wait(30) for child in children] == [0, 0]
    assert dist.FileStore(str(path)).get("n") == b"100"


def test_the_file_goes_with_the_last_process(tmp_path):
    path = tmp_path / "store"
    first, second = dist.FileStore(str(path), 2), dist.FileStore(str(path), 2)
    first.set("key", "value")
    assert second.num_keys() == 1
    del first
    assert path.exists()
    del second
    assert not path.exists()


def test_a_torn_record_is_cut_off(tmp_path):
    path = tmp_path / "store"
    store = dist.FileStore(str(path))
    store.set("key", "value")
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\x03\x00\x00\x00\x05\x00")  # of a writer that was killed
    other = dist.FileStore(str(path))
    assert other.get("key") == b"value"
    other.set("more", "x")
    assert store.get("more") == b"x" and path.stat().st_size > whole


def test_a_file_that_is_no_store(tmp_path):
    path = tmp_path / "text"
    path.write_text("this is a text that no store has written, and it is long enough\n" * 10)
    with pytest.raises(dist.DistStoreError, match="damaged"):
        dist.FileStore(str(path)).get("key")
    with pytest.raises(OSError):
        dist.FileStore(str(tmp_path / "no folder" / "store"))
