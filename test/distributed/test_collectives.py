"""Collectives among 1 to 4 processes: values by dtype, layout, reduction; errors before anything is sent."""

import functools

import pytest
from distributed.ranks import run
from oracle import pytorch

# Everything runs in one job per number of ranks; each function returns what all ranks compare.
CASES = """
def value_of(dtype, k, shape=(2, 3)):
    base = fw.arange(6).reshape(2, 3) % 3 + 1 + k
    return (base % 2 == 0) if dtype is fw.bool else base.to(dtype)

def listed(x):
    x = x.detach()
    x = fw.view_as_real(x) if x.is_complex() else x
    return x.to(fw.float64).tolist() if x.dtype is not fw.bool else x.tolist()

NUMBERS = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]

def reductions():
    found = {}
    for name in [*NUMBERS, "bool", "complex64", "complex128"]:
        dtype = getattr(fw, name)
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"):
            x = value_of(dtype, rank)
            try:
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
                found[f"{name} {op}"] = listed(x)
            except (RuntimeError, ValueError):
                found[f"{name} {op}"] = "refused"
    return found

def layouts():
    found = []
    base = fw.arange(24.0).reshape(2, 3, 4) + rank
    for view in (base.transpose(0, 2), base[0, 0], base[0, 2, 3], base[:0]):
        dist.all_reduce(view)
        found.append(listed(view))
    found.append(listed(base))
    wide = fw.ones(1, 2).expand(3, 2) * 1
    dist.broadcast(wide, 0)
    found.append(listed(wide))
    leaf = fw.nn.Parameter(fw.ones(2) * rank)
    dist.all_reduce(leaf)
    found.append(listed(leaf))
    return found

def specials():
    inf, nan = float("inf"), float("nan")
    found = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN):
        for dtype in (fw.float32, fw.float64):
            x = fw.tensor([inf if rank == 0 else 1.0, -0.0, 1e30], dtype=dtype)
            dist.all_reduce(x, op)
            found.append([repr(v) for v in x.tolist()])
    return found

def nans():
    found = []
    for dtype in (fw.float16, fw.bfloat16, fw.float32, fw.float64):
        for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.SUM):
            first = float("nan") if rank == size - 1 else 1.0
            x = fw.tensor([first, float("nan") if rank == 0 else 2.0], dtype=dtype)
            dist.all_reduce(x, op)
            found.append([repr(v) for v in x.tolist()])
    return found

def strided():
    # gloo adds other elements than the view's
    whole, right = fw.arange(24.0).reshape(2, 3, 4), []
    takes = [lambda b: b[:, ::2], lambda b: b.permute(2, 0, 1)[1:3], lambda b: b[..., -1]]
    takes.append(lambda b: b[1, ::2, ::3])
    for take in takes:
        mine = whole + rank
        before = mine.clone()
        dist.all_reduce(take(mine))
        expected = before.clone()
        take(expected).copy_(sum(take(whole + r) for r in range(size)))
        right.append(fw.equal(mine, expected))
    return right

def uneven():
    parts = [fw.zeros(i + rank) for i in range(size)]
    dist.all_to_all(parts, [fw.ones(i + rank) * rank for i in range(size)])
    if rank == 0 and size > 1:
        spread = fw.zeros(3, 2).t()
        dist.recv(spread, 1)
        assert fw.equal(spread, fw.arange(6.0).reshape(2, 3))
    if rank == 1:
        dist.send(fw.arange(6.0).reshape(3, 2).reshape(2, 3), 0)
    lists = [fw.zeros(i + 1) for i in range(size)]
    dist.all_gather(lists, fw.ones(rank + 1) * rank)
    right = [listed(p) == [float(i)] * (i + rank) for i, p in enumerate(parts)]
    return all(right) and [listed(p) for p in lists] == [[float(i)] * (i + 1) for i in range(size)]

def large():
    # sums in several pieces, of lengths that the pieces do not divide
    right = []
    for dtype, count in ((fw.float32, (1 << 20) + 3), (fw.int8, (5 << 20) + 1), (fw.complex128, 200001)):
        x = (fw.arange(count) % 5).to(dtype) + rank
        expected = (fw.arange(count) % 5).to(dtype) * size + sum(range(size))
        pending = dist.all_reduce(x, async_op=True)
        y = fw.ones(3)
        dist.all_reduce(y)
        pending.wait()
        right.append(fw.equal(x, expected) and y.tolist() == [float(size)] * 3)
    z = fw.ones(1 << 20, dtype=fw.float16)
    dist.all_reduce(z, dist.ReduceOp.AVG)
    return [*right, fw.equal(z, fw.ones(1 << 20, dtype=fw.float16))]

def shared_memory():
    right = []
    whole = fw.zeros(2 * size)
    mine = whole[2 * rank : 2 * rank + 2]
    mine.fill_(rank + 1)
    dist.all_gather_into_tensor(whole, mine)
    expected = [float(i + 1) for i in range(size) for _ in range(2)]
    right.append(whole.tolist() == expected)
    parts = [whole[2 * i : 2 * i + 2] for i in range(size)]
    dist.all_gather(parts, parts[(rank + 1) % size])
    turned = [float((i + 1) % size + 1) for i in range(size) for _ in range(2)]
    right.append(whole.tolist() == turned)
    dist.all_to_all_single(whole, whole)
    dist.all_to_all(parts, parts)
    right.append(whole.tolist() == turned)
    dist.reduce_scatter_tensor(whole[:2], whole)
    right.append(whole[:2].tolist() == [float(((rank + 1) % size + 1) * size)] * 2)
    clone = fw.ones(3)
    lazy = clone._lazy_clone()
    dist.all_reduce(lazy)
    right.append([clone.tolist(), lazy.tolist()] == [[1.0] * 3, [float(size)] * 3])
    expanded = fw.ones(1, 2).expand(3, 2)
    errors = [raised(dist.all_reduce, expanded), raised(dist.broadcast, expanded, (rank + 1) % size)]
    if size == 1:
        errors[1] = errors[0]
    right.append(all(e and "clone" in e[1] for e in errors))
    dist.barrier()
    return right

def conjugates():
    z = fw.complex(fw.ones(2), fw.ones(2)) * (rank + 1)
    dist.all_reduce(z.conj())
    w = fw.complex(fw.ones(2), fw.ones(2)) * rank
    dist.broadcast(w.conj(), size - 1)
    total = size * (size + 1) / 2
    return [z.tolist() == [complex(total, total)] * 2, w.imag.tolist() == [size - 1.0] * 2]

def rooted():
    found = []
    for root in range(size):
        x = fw.ones(3) * (rank + 1)
        dist.reduce(x, root)
        found.append(listed(x) if rank == root else "other")
        x = fw.ones(2, 2).t() * (rank + 1)
        dist.broadcast(x, root)
        found.append(listed(x))
        parts = [fw.zeros(2) for _ in range(size)] if rank == root else None
        dist.gather(fw.ones(2) * rank, parts, root)
        found.append([listed(p) for p in parts] if parts else None)
        x = fw.zeros(2)
        parts = [fw.ones(2) * (10 * root + i) for i in range(size)] if rank == root else None
        dist.scatter(x, parts, root)
        found.append(listed(x))
    return found

def gathered():
    parts = [fw.zeros(2, dtype=fw.int32) for _ in range(size)]
    dist.all_gather(parts, fw.full((2,), rank, dtype=fw.int32))
    flat = fw.zeros(size * 2, 3)
    dist.all_gather_into_tensor(flat, fw.ones(2, 3) * rank)
    strided = fw.zeros(3, size * 2).t()
    dist.all_gather_into_tensor(strided, fw.ones(2, 3) * rank)
    empty = [fw.zeros(0) for _ in range(size)]
    dist.all_gather(empty, fw.zeros(0))
    back = list(reversed([fw.zeros(1) for _ in range(size)]))  # addresses in another order
    dist.all_gather(back, fw.ones(1) * rank)
    return [[listed(p) for p in parts], listed(flat), listed(strided), [listed(b) for b in back]]

def scattered():
    x = fw.zeros(3)
    dist.reduce_scatter(x, [fw.ones(3) * (i + rank) for i in range(size)])
    y = fw.zeros(2, 2).t()
    dist.reduce_scatter_tensor(y, fw.arange(4.0 * size).reshape(-1, 2) + rank, dist.ReduceOp.AVG)
    z = fw.zeros(2, dtype=fw.bfloat16)
    dist.reduce_scatter_tensor(z, fw.ones(2 * size, dtype=fw.bfloat16) * (rank + 1))
    return [listed(x), listed(y), listed(z)]

def exchanged():
    x = fw.zeros(size, 2)
    dist.all_to_all_single(x, fw.arange(2.0 * size).reshape(size, 2) + 100 * rank)
    sent = [i + 1 for i in range(size)]
    received = [rank + 1] * size
    y = fw.zeros(sum(received))
    dist.all_to_all_single(y, fw.arange(float(sum(sent))) + 100 * rank, received, sent)
    parts = [fw.zeros(3) for i in range(size)]
    dist.all_to_all(parts, [fw.ones(3) * rank for i in range(size)])
    return [listed(x), listed(y), [listed(p) for p in parts]]

def messages():
    if size == 1:
        return "alone"
    after, before = (rank + 1) % size, (rank - 1) % size
    ops = [dist.P2POp(dist.isend, fw.ones(2) * rank, after), dist.P2POp(dist.irecv, fw.zeros(2), before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    found = [listed(ops[1].tensor)]
    if rank == 0:
        x = fw.zeros(2, 3)
        senders = sorted(dist.recv(x) for _ in range(size - 1))
        found += [senders, listed(x) in [[[float(k)] * 3] * 2 for k in range(1, size)]]
        for tag in (7, 3):
            y = fw.zeros(1)
            dist.recv(y, 1, tag=tag)
            found.append(listed(y))
    else:
        dist.send(fw.ones(2, 3) * rank, 0)
        if rank == 1:
            works = [dist.isend(fw.ones(1) * tag, 0, tag=tag) for tag in (3, 7)]
            [work.wait() for work in works]
    dist.barrier()
    return found

def objects():
    found = []
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "ä" * rank})
    mine = [None]
    dist.scatter_object_list(mine, [("to", i) for i in range(size)] if rank == 0 else None, 0)
    said = [rank, "x" * 1000, None] if rank == size - 1 else [None, None, None]
    dist.broadcast_object_list(said, size - 1)
    collected = [None] * size if rank == 0 else None
    dist.gather_object([rank], collected, 0)
    if size > 1 and rank == 0:
        dist.send_object_list(["a", {1: 2}], 1)
    if size > 1 and rank == 1:
        got = [None, None]
        found.append([dist.recv_object_list(got, 0), str(got)])
    return [everyone, mine, said, collected, found]

def works():
    x = fw.ones(4) * rank
    work = dist.all_reduce(x, async_op=True)
    first = work.wait()
    y = fw.ones(2, 2).t() * rank
    future = dist.all_reduce(y, async_op=True).get_future().then(lambda f: f.value()[0].sum().item())
    total = future.wait()
    many = [fw.full((3,), float(i)) for i in range(20)]
    pending = [dist.all_reduce(m, async_op=True) for m in many]
    [p.wait() for p in reversed(pending)]
    dropped = fw.ones(1000)
    dist.all_reduce(dropped, async_op=True)  # nothing holds the work
    dist.barrier()
    several = [fw.ones(2) * rank, fw.ones(3)]
    dist.all_reduce_coalesced(several)
    return [listed(x), first, work.is_completed(), work.is_success(), total, [listed(m) for m in many],
            [listed(s) for s in several]]

def groups():
    found = []
    for ranks in ([0], list(range(size)), list(range(0, size, 2)), list(range(size - 1, -1, -1))):
        group = dist.new_group(ranks)
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = dist.all_reduce(fw.ones(1), group=group)
            found.append([result, len(caught), dist.get_rank(group), dist.get_world_size(group)])
            continue
        x = fw.ones(1) * (rank + 1)
        dist.all_reduce(x, group=group)
        y = fw.ones(1) * rank
        dist.broadcast(y, max(ranks), group=group)
        found.append([listed(x), listed(y), dist.get_rank(group), dist.get_process_group_ranks(group)])
        dist.destroy_process_group(group)
    mine, every = dist.new_subgroups(1)
    return [found, mine.size(), len(every)]

def refused():
    one = fw.ones(2)
    calls = {
        "no tensor": lambda: dist.all_reduce([one]),
        "no list": lambda: dist.all_gather(one, one),
        "short list": lambda: dist.all_gather([one] * (size - 1), one),
        "dtypes": lambda: dist.all_gather([one.double()] * size, one),
        "rank": lambda: dist.broadcast(one, size + 3),
        "self": lambda: dist.send(one, rank),
        "bits of floats": lambda: dist.all_reduce(one, dist.ReduceOp.BAND),
        "order of complex": lambda: dist.all_reduce(one.to(fw.complex64), dist.ReduceOp.MAX),
        "small output": lambda: dist.all_gather_into_tensor(fw.ones(1), one),
        "sparse": lambda: dist.all_reduce(one.to_sparse()),
        "ranks twice": lambda: dist.new_group([0, 0]),
        "no such rank": lambda: dist.new_group([size]),
        "float8": lambda: dist.all_reduce(one.to(fw.float8_e4m3fn)),
        "splits": lambda: dist.all_to_all_single(fw.ones(size), fw.ones(size), [2] * size, [1] * size),
        "twice": lambda: dist.init_process_group("gloo"),
    }
    found = {name: raised(call) for name, call in calls.items()}
    dist.barrier()  # nothing was sent: the group works on
    return {name: error[0] if error else None for name, error in found.items()}

CASES = [reductions, layouts, specials, rooted, gathered, scattered, exchanged, messages, objects]
CASES += [works, groups]
if fw.__name__ == "flambeau":
    CASES += [refused, large, shared_memory, nans, conjugates, strided, uneven]

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
found = {}
for case in CASES:
    try:
        found[case.__name__] = case()
    except Exception as error:
        import traceback
        found[case.__name__] = "".join(traceback.format_exception(error))
        break
dist.destroy_process_group()
put(found)
"""
NAMES = (
    "reductions layouts specials rooted gathered scattered exchanged messages objects works groups".split()
)


@functools.cache
def values(size: int, framework: str = "flambeau") -> list:
    return run(size, CASES, framework)


@pytest.fixture(scope="module")
def theirs():
    pytorch()
    return {size: values(size, "torch") for size in (2, 3)}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "case", [*NAMES, "refused", "nans", "conjugates", "strided", "uneven", "large", "shared_memory"]
)
def test_every_rank_has_a_result(case, size):
    for found in values(size):
        assert case in found and not isinstance(found[case], str) or found[case] == "alone", found


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("case", NAMES)
def test_as_in_pytorch(theirs, case, size):
    for ours, other in zip(values(size), theirs[size], strict=True):
        mine, expected = ours[case], other[case]
        if case == "reductions":  # what gloo does not have, and averages of truth values
            expected = {k: v for k, v in expected.items() if v != "refused"}
            mine = {k: mine[k] for k in expected}
        assert mine == expected


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reductions_are_those_of_one_process(size):
    import flambeau as fb

    for found in values(size):
        for key, value in found["reductions"].items():
            name, op = key.split()
            if name in ("bool", "complex64", "complex128"):
                continue
            if op in ("BAND", "BOR", "BXOR", "AVG") and (
                name.startswith(("float", "bfloat")) != (op == "AVG")
            ):
                assert value == "refused", key
                continue
            base = fb.stack([(fb.arange(6).reshape(2, 3) % 3 + 1 + k) for k in range(size)])
            functions = {
                "SUM": lambda b: b.sum(0),
                "PRODUCT": lambda b: b.prod(0),
                "MIN": lambda b: b.amin(0),
                "MAX": lambda b: b.amax(0),
                "AVG": lambda b: b.double().mean(0),
                "BAND": lambda b: functools.reduce(fb.bitwise_and, b),
                "BOR": lambda b: functools.reduce(fb.bitwise_or, b),
                "BXOR": lambda b: functools.reduce(fb.bitwise_xor, b),
            }
            expected = functions[op](base).to(getattr(fb, name)).double()
            assert fb.allclose(
                fb.tensor(value).double(), expected, rtol=1e-2 if "float16" in name else 1e-6
            ), key


@pytest.mark.parametrize("size", [2, 3, 4])
def test_nan_is_the_same_on_every_rank(size):
    results = [found["nans"] for found in values(size)]
    assert all(result == results[0] for result in results)
    assert results[0] == [["nan", "nan"]] * 12


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_views_are_written_through(size):
    assert all(found["conjugates"] == [True] * 2 and found["strided"] == [True] * 4 for found in values(size))
    assert all(found["uneven"] is True and found["large"] == [True] * 4 for found in values(size))
    assert all(found["shared_memory"] == [True] * 6 for found in values(size)), values(size)[0][
        "shared_memory"
    ]


def test_arguments_are_refused_before_anything_is_sent():
    for found in values(2):
        errors = found["refused"]
        assert None not in errors.values(), errors
        assert errors["no tensor"] == "TypeError" and errors["twice"] == "ValueError"
        assert errors["bits of floats"] == "RuntimeError" and errors["order of complex"] == "ValueError"
