"""Groups that do not exist or hold other processes, wrong ranks, and lists of objects that do not fit."""

import pytest
from distributed.ranks import run

START = """
found = {}
def t(name, call):
    try:
        value = call()
        found[name] = ["fine", value if value is None or isinstance(value, list | int) else str(value)]
    except Exception as error:
        found[name] = [type(error).__name__, str(error)]
"""

STATES = (
    START
    + """
t("all_reduce before", lambda: dist.all_reduce(fw.ones(1)))
t("get_rank before", lambda: dist.get_rank())
t("destroy before", lambda: dist.destroy_process_group())
t("new_group before", lambda: dist.new_group([0]))
if fw.__name__ == "flambeau":  # PyTorch waits for the others first, and fails when called again
    t("backend", lambda: dist.init_process_group("nonsense"))
    kind, text = found.pop("backend")
    assert kind == "AssertionError" and "Unknown backend type nonsense" in text, (kind, text)
t("two ways", lambda: dist.init_process_group("gloo", init_method="env://", store=dist.HashStore(),
                                              rank=0, world_size=1))
t("store alone", lambda: dist.init_process_group("gloo", store=dist.HashStore()))
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
t("twice", lambda: dist.init_process_group("gloo"))
group = dist.new_group([0, 1])
dist.all_reduce(fw.ones(1), group=group)
dist.destroy_process_group(group)
t("rank", lambda: dist.get_rank(group))
t("size", lambda: dist.get_world_size(group))
t("group rank", lambda: dist.get_group_rank(group, 0))
t("backend of group", lambda: dist.get_backend(group))
t("destroyed again", lambda: dist.destroy_process_group(group))
mine = [dist.new_group([0]), dist.new_group([1])]
other = mine[1 - rank]
x, out = fw.ones(2), [fw.zeros(2)]
t("o.all_reduce", lambda: dist.all_reduce(x, group=other))
t("o.broadcast", lambda: dist.broadcast(x, 1 - rank, group=other))
t("o.all_gather", lambda: dist.all_gather(out, x, group=other))
t("o.reduce_scatter", lambda: dist.reduce_scatter(x, [x], group=other))
t("o.gather", lambda: dist.gather(x, None, 1 - rank, group=other))
t("o.scatter", lambda: dist.scatter(x, None, 1 - rank, group=other))
t("o.all_to_all", lambda: dist.all_to_all_single(x, x, group=other))
t("o.barrier", lambda: dist.barrier(group=other))
t("o.objects", lambda: dist.broadcast_object_list([1], 1 - rank, group=other))
t("o.isend", lambda: dist.isend(x, 1 - rank, group=other))
t("o.recv", lambda: dist.recv(x, 1 - rank, group=other))
t("o.rank", lambda: dist.get_rank(other))
assert x.tolist() == [1.0, 1.0] and out[0].tolist() == [0.0, 0.0]
if fw.__name__ == "flambeau":
    t("destroyed ranks", lambda: dist.get_process_group_ranks(group))
    t("destroyed all_reduce", lambda: dist.all_reduce(fw.ones(1), group=group))
    t("other's rank", lambda: dist.get_group_rank(other, 0))
    t("other's ranks", lambda: dist.get_process_group_ranks(other))
    t("no group", lambda: dist.get_process_group_ranks("all"))
    t("ranks", lambda: dist.new_group(["0"]))
    for name, call in (("broadcast", lambda r: dist.broadcast(x, r)), ("send", lambda r: dist.send(x, r)),
                       ("reduce", lambda r: dist.reduce(x, r)), ("gather", lambda r: dist.gather(x, None, r)),
                       ("recv", lambda r: dist.recv(x, r)), ("scatter", lambda r: dist.scatter(x, None, r))):
        for given in (-1, 7, "0", 0.0, True):
            t(f"{name} {given!r}", lambda: call(given))
# The group still works after these calls.
y = fw.ones(2)
dist.all_reduce(y)
assert y.tolist() == [2.0, 2.0]
dist.destroy_process_group()
t("after", lambda: dist.all_reduce(fw.ones(1)))
t("destroy after", lambda: dist.destroy_process_group())
put(found)
"""
)


def test_states_and_groups():
    """Exception types are PyTorch's where it does not crash or wait."""
    ours, theirs = run(2, STATES), run(2, STATES, "torch")
    for mine, other in zip(ours, theirs, strict=True):
        for case in other:
            assert mine[case][0] == other[case][0], (case, mine[case], other[case])
            if mine[case][0] == "fine":
                assert mine[case] == other[case]
        for case in ("destroyed ranks", "destroyed all_reduce"):
            assert mine[case][0] == "ValueError" and "got a destroyed one" in mine[case][1]
        for case in ("other's rank", "other's ranks"):
            assert mine[case][0] == "ValueError" and "that this process is in" in mine[case][1]
        assert mine["no group"][0] == "TypeError"
        assert mine["ranks"] == ["TypeError", "new_group: expected integers as ranks, got ['0']"]
        for name in ("broadcast", "reduce", "gather", "scatter", "send", "recv"):
            for given in ("-1", "7"):
                kind, text = mine[f"{name} {given}"]
                assert kind == "ValueError" and f"{name}: expected one of the ranks [0, 1]" in text, text
            for given in ("'0'", "0.0", "True"):
                kind, text = mine[f"{name} {given}"]
                assert kind == "TypeError" and f"{name}: expected an int as" in text, text


OBJECTS = (
    START
    + """
import pickle
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))

class NotPickled:
    def __reduce__(self):
        raise pickle.PicklingError("not this one")

class NotRead:
    def __reduce__(self):
        return int, ("x",)

def broadcast(values):
    dist.broadcast_object_list(values, 0)
    return values

def gathered(value, places):
    dist.all_gather_object(places, value)
    return places

def passed(values):
    dist.send_object_list(values, 1) if rank == 0 else dist.recv_object_list(values, 0)
    return values

def check():  # the group is usable, and no message of a failed call is left
    assert gathered(["a", rank], [None] * 2) == [["a", 0], ["a", 1]]
    assert broadcast([rank, "b" * rank]) == [0, ""]
    assert passed([rank, {1: rank}]) == [0, {1: 0}] or rank == 0

check()
t("not pickled", lambda: gathered(NotPickled(), [None] * 2))
t("a function", lambda: gathered(lambda: 3, [None] * 2))
check()
t("not read", lambda: gathered(NotRead(), [None] * 2))
check()
t("few places", lambda: gathered(1, [None]))
check()
t("few", lambda: broadcast([1, 2] if rank == 0 else [None]))
check()
t("many", lambda: broadcast([1] if rank == 0 else [None] * 5))
check()
t("none", lambda: broadcast([] if rank == 0 else [None]))
check()
t("received few", lambda: passed([1, 2] if rank == 0 else [None]))
check()
t("received many", lambda: passed([1] if rank == 0 else [None, None]))
check()
t("empty", lambda: broadcast([]))
check()
large = ["c" * 300_000, None, fw.arange(5)]
got = broadcast(large if rank == 0 else [None] * 3)
assert got[0] == large[0] and got[1] is None and got[2].tolist() == [0, 1, 2, 3, 4]
dist.destroy_process_group()
put(found)
"""
)


def test_lists_of_objects_that_do_not_fit():
    """Errors come before or after the messages of all ranks, so that the group stays usable."""
    sender, receiver = run(2, OBJECTS)
    for found in (sender, receiver):
        assert found["not pickled"] == ["PicklingError", "not this one"]
        assert found["a function"][0] == "AttributeError" and found["not read"][0] == "ValueError"
        assert found["few places"][0] == "RuntimeError" and found["empty"] == ["fine", []]
    expected = "expected a list of the length of the sender's"
    for case, (count, got) in {"few": (2, 1), "many": (1, 5), "none": (0, 1)}.items():
        assert sender[case][0] == "fine"
        assert receiver[case] == ["ValueError", f"broadcast_object_list: {expected}, {count}, got {got}"]
    for case, (count, got) in {"received few": (2, 1), "received many": (1, 2)}.items():
        assert sender[case][0] == "fine"
        assert receiver[case] == ["ValueError", f"recv_object_list: {expected}, {count}, got {got}"]


MEMORY = (
    START
    + """
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
grid = lambda k=0: fw.arange(6.0).view(2, 3) + k

def result(call, *tensors):
    call(*tensors)
    return [tensor.tolist() for tensor in tensors]

for dtype in (fw.float32, fw.int64, fw.bfloat16, fw.complex64):
    name = str(dtype).split(".")[1]
    made = grid(rank).to(dtype)
    values = lambda tensor: fw.view_as_real(tensor).tolist() if dtype.is_complex else tensor.tolist()
    w = made.clone().t()
    dist.all_reduce(w)
    found[f"all_reduce {name}"] = values(w.contiguous())
    w = made.clone().t()
    dist.broadcast(w, 1)
    found[f"broadcast {name}"] = values(w.contiguous())
    if fw.__name__ == "flambeau":  # PyTorch refuses these, or adds other elements
        w = made.clone()
        dist.all_reduce(w[:, ::2])
        total = (grid(0) + grid(1)).to(dtype)
        assert w[:, ::2].tolist() == total[:, ::2].tolist() and (w[:, 1] == made[:, 1]).all()
        out = fw.zeros(4, 3, dtype=dtype).t().contiguous().t()
        dist.all_gather_into_tensor(out, made)
        assert out.tolist() == fw.cat([grid(0), grid(1)]).to(dtype).tolist()
        outs = [fw.zeros(3, 2, dtype=dtype).t() for _ in range(size)]
        dist.all_gather(outs, made)
        assert [o.tolist() for o in outs] == [grid(k).to(dtype).tolist() for k in range(size)]
        part = fw.zeros(6, dtype=dtype)[::2]
        dist.reduce_scatter_tensor(part, made)
        assert part.tolist() == ((grid(0) + grid(1))[rank]).to(dtype).tolist()
        swapped = fw.zeros(6, dtype=dtype).view(3, 2).t()
        dist.all_to_all_single(swapped, made)
        assert swapped.tolist() == fw.stack([grid(0)[rank], grid(1)[rank]]).to(dtype).tolist()
        conjugate = (made * 1j if dtype.is_complex else made).conj()
        dist.all_reduce(conjugate)
        expected = (grid(0) + grid(1)).to(dtype) * (-1j if dtype.is_complex else 1)
        assert conjugate.resolve_conj().tolist() == expected.tolist()
    for shape in ((0,), (0, 3), (2, 0)):
        empty = fw.zeros(shape, dtype=dtype)
        dist.all_reduce(empty)
        outs = [fw.zeros(shape, dtype=dtype) for _ in range(size)]
        dist.all_gather(outs, empty)
        dist.broadcast(empty, 0)
        found[f"empty {name} {shape}"] = [list(o.shape) for o in (*outs, empty)]
if fw.__name__ == "flambeau":
    # An expanded tensor has no place for results; one that is only read is fine.
    one = fw.full((1,), rank + 1.0)
    t("expanded", lambda: dist.all_reduce(one.expand(3)))
    assert one.item() == rank + 1
    out = [fw.zeros(3) for _ in range(size)]
    dist.all_gather(out, one.expand(3))
    assert [o.tolist() for o in out] == [[1.0] * 3, [2.0] * 3]
    assert found["expanded"][0] == "RuntimeError" and "memory of their own" in found["expanded"][1]
    del found["expanded"]
dist.destroy_process_group()
put(found)
"""
)


@pytest.mark.parametrize("size", [2])
def test_memory_that_is_not_contiguous(size):
    ours, theirs = run(size, MEMORY), run(size, MEMORY, "torch")
    assert len(ours[0]) == 20
    differing = [case for case in theirs[0] if [r[case] for r in ours] != [r[case] for r in theirs]]
    assert not differing, (differing[0], ours[0][differing[0]], theirs[0][differing[0]])
