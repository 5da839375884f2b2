"""Storages of both frameworks: elements of a dtype, bytes, and what copies and files of them share."""

import copy
import io
import pickle

from sides import Scenarios, raised

scenario = Scenarios()


def alike(torch, storage):
    """The class's name and the printed elements."""
    return [
        type(storage).__name__,
        repr(storage).replace("torch.storage.", "").replace(f"{torch.__name__}.", ""),
    ]


@scenario
def elements(torch):
    x = torch.arange(4.0)
    s = x[1:].storage()
    s[0] = 7
    s[-1] = 2.5
    found = [s[0], s[-1], len(s), s.size(), s.nbytes(), s.element_size(), list(s), x, alike(torch, s)]
    found += [raised("out of range", lambda: s[4]), raised("slices", lambda: s[1:2])]
    found += [raised("index", lambda: s["a"]), s.data_ptr() == x.data_ptr(), str(s.device), s.filename]
    s[1:3] = 9
    return [
        *found,
        x,
        s.is_shared(),
        s.resizable(),
        s.untyped() == x.untyped_storage(),
        s == s,
        s.get_device(),
    ]


@scenario
def elements_of_each_dtype(torch):
    found = []
    for (
        name
    ) in "float64 float16 bfloat16 uint8 int8 int16 int32 int64 bool complex64 complex128 uint16".split():
        s = torch.tensor([1, 0, 1], dtype=getattr(torch, name)).storage()
        found += [s[0], s.tolist(), alike(torch, s), s.type().partition(".")[2].replace("storage.", "")]
    return found


@scenario
def conversions(torch):
    s = torch.tensor([1.5, -2.0, 3.0]).storage()
    found = [
        alike(torch, convert()) for convert in (s.double, s.float, s.half, s.int, s.long, s.short, s.bool)
    ]
    found += [alike(torch, convert()) for convert in (s.complex_double, s.complex_float, s.bfloat16, s.char)]
    found += [s.float().data_ptr() == s.data_ptr(), s.cpu().data_ptr() == s.data_ptr()]
    return [*found, alike(torch, torch.UntypedStorage([1, 200]).float()), alike(torch, s.clone())]


@scenario
def changes(torch):
    s = torch.tensor([1, 2, 3], dtype=torch.int16).storage()
    c = s.clone()
    found = [c.fill_(4).tolist(), s.tolist(), c.copy_(s).tolist()]
    found.append(
        raised("size does not match", lambda: c.copy_(torch.tensor([1], dtype=torch.int16).storage()))
    )
    c.resize_(5)
    found += [len(c), c.tolist()[:3]]
    c.resize_(2)
    return [*found, c.tolist(), len(c), torch.is_storage(c), torch.is_storage(c.untyped())]


@scenario
def a_storage_that_grows_behind_its_back(torch):
    x = torch.ones(2)
    own, typed = x.untyped_storage(), x.storage()
    x.resize_(10)
    x.fill_(3)
    return [own.nbytes(), len(typed), typed[9], own.data_ptr() == x.data_ptr()]


@scenario
def new_ones(torch):
    made = [
        torch.FloatStorage([1, 2]), torch.IntStorage([3]), torch.TypedStorage([1, 2], dtype=torch.int16),
        torch.TypedStorage([1.5], dtype=torch.float64),
        torch.TypedStorage(wrap_storage=torch.UntypedStorage([0, 0, 128, 63]), dtype=torch.float32),
        torch.FloatStorage(), torch.BoolStorage([True, False]), torch.ComplexFloatStorage([1j]),
    ]  # fmt: skip
    found = [alike(torch, s) for s in made] + [len(torch.DoubleStorage(3))]
    found += [isinstance(made[0], torch.FloatStorage), isinstance(made[0], torch.IntStorage)]
    found += [issubclass(torch.FloatStorage, torch.TypedStorage), torch.HalfStorage.dtype == torch.float16]
    found.append(raised("", lambda: torch.FloatStorage(torch.ones(2))))
    return [
        *found,
        raised("", lambda: torch.FloatStorage(torch.FloatStorage(2))),
        torch.ones(1).storage_type().__name__,
    ]


@scenario
def buffers(torch):
    data = b"\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40"
    from_buffer = torch.FloatStorage.from_buffer
    found = [from_buffer(data, "little").tolist(), from_buffer(data, "native", 2, 4).tolist()]
    found += [from_buffer(data, "little", offset=8).tolist(), from_buffer(data[::-1], "big").tolist()]
    found += [
        torch.ByteStorage.from_buffer(b"abc").tolist(),
        torch.BoolStorage.from_buffer(b"\0\1", "little").tolist(),
    ]
    found.append(torch.UntypedStorage.from_buffer(b"1234", "big", dtype=torch.int16).tolist())
    for arguments in (
        (b"12345", "little"),
        (b"1234",),
        (b"1234", "odd"),
        (b"1234", "little", 2),
        (b"12", "little", -1, 3),
    ):
        found.append(raised("", from_buffer, *arguments))
    s = torch.UntypedStorage(list(range(8)))
    s.byteswap(torch.int32)
    return [*found, s.tolist()]


@scenario
def bytes_of_memory(torch):
    u = torch.arange(4.0).untyped_storage()
    part = u[4:8]
    part[3] = 255
    u[0:2] = 300
    found = [u.tolist(), part.data_ptr() - u.data_ptr(), part.nbytes(), u[-1], len(u[9:3]), bytes(part)]
    found += [
        raised("step", lambda: u[::2]),
        raised("out of range", lambda: u[16]),
        raised("index", lambda: u["a"]),
    ]
    found += [
        raised("int", lambda: u.__setitem__(0, 1.5)),
        raised("int", lambda: u.fill_(1.5)),
        u.element_size(),
    ]
    u[0] = -1
    found += [u[0], u.fill_(-2)[5], u.new().nbytes(), torch.UntypedStorage([300, -1]).tolist()]
    found += [raised("", lambda: torch.UntypedStorage([1.5])), raised("", lambda: torch.UntypedStorage(1.5))]
    s = torch.UntypedStorage([1, 2, 3])
    found += [s.resize_(5).tolist()[:3], s.nbytes(), s.resize_(2).tolist(), raised("", lambda: s.resize_(-1))]
    return [*found, raised("size does not match", lambda: s.copy_(torch.UntypedStorage(3))), s.is_pinned()]


@scenario
def what_copies_share(torch):
    x = torch.arange(3.0)
    both = copy.deepcopy([x, x[1:], x.untyped_storage(), x.storage()])
    both[0][1] = 9
    found = [both[1], both[2].tolist(), both[3].tolist(), x]
    found.append(pickle.loads(pickle.dumps(x.storage())).tolist())
    shallow = copy.copy(x.untyped_storage())
    return [found, shallow.data_ptr() == x.data_ptr(), copy.copy(x.storage()).tolist()]


@scenario
def storages_in_files(torch):
    x = torch.arange(3, dtype=torch.int16)
    found = []
    for value in ([x, x.storage()], [x.storage(), x[1:]], x.storage()):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        loaded = torch.load(file)
        if isinstance(loaded, list):
            loaded[0][1] = 9
            found += [v.tolist() for v in loaded]
        else:
            found += [type(loaded).__name__, loaded.tolist()]
    return found


@scenario
def tensors_over_storages(torch):
    x = torch.zeros(1)
    x.set_(torch.FloatStorage([1, 2, 3]))
    found = [x, raised("storage", lambda: x.set_(torch.IntStorage([1])))]
    x.set_(torch.UntypedStorage([0, 0, 128, 63]))
    found.append(x.clone())
    small = torch.UntypedStorage(3)
    y = torch.zeros(0).set_(small, 1, (2, 2), (3, 1)).fill_(2)
    found += [
        small.nbytes(),
        y,
        small.tolist()[4:12],
        raised("", lambda: torch.zeros(0).set_(small, 0, (2,), (-1,))),
    ]
    found += [
        raised("", lambda: torch.zeros(0).set_(small, -1, (2,), (1,))),
        raised("", lambda: torch.zeros(0).set_(small, 0, (-2,), (1,))),
    ]
    return [
        *found,
        torch.FloatStorage._new_shared(3).is_shared(),
        torch.UntypedStorage._new_shared(3).nbytes(),
    ]


@scenario
def places(torch):
    file = io.BytesIO()
    torch.save({"x": torch.ones(2), "y": [torch.zeros(1)]}, file)
    seen = []

    def place(storage, location):
        seen.append([type(storage).__name__, storage.nbytes(), location])
        return None if storage.nbytes() == 4 else storage.fill_(0)

    found = []
    for where in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, place, "meta"):
        file.seek(0)
        x = torch.load(file, map_location=where)
        found += [str(x["x"].device), str(x["y"][0].device), x["x"].tolist() if where != "meta" else 0]
    return [*found, sorted(seen)]


@scenario
def attributes_in_files(torch):
    x, p = torch.ones(2), torch.nn.Parameter(torch.ones(1))
    x.note, p.note = {"a": 1}, "b"
    file = io.BytesIO()
    torch.save([x, p], file)
    file.seek(0)
    x, p = torch.load(file)
    return [x, x.note, p, p.note, type(p).__name__, p.requires_grad]


@scenario
def generators_in_files(torch):
    g = torch.Generator().manual_seed(3)
    torch.rand(2, generator=g)
    found = []
    for copied in (copy.deepcopy(g), pickle.loads(pickle.dumps(g)), copy.copy(g)):
        expected = torch.rand(3, generator=torch.Generator().set_state(g.get_state()))
        found += [bool((torch.rand(3, generator=copied) == expected).all()), copied.initial_seed()]
    return found


@scenario
def backward_notices_other_memory(torch):
    """Versions go on: a tensor that was set twice is not the one that was saved."""
    found = []
    for back in (lambda x, old: x.set_(*old), lambda x, old: x.set_(torch.zeros(4)), lambda x, old: x.set_()):
        x, w = torch.arange(4.0), torch.ones(1, requires_grad=True)
        old = x.untyped_storage(), x.storage_offset(), x.size(), x.stride()
        x.set_(torch.ones(2))
        loss = (w * x).sum()
        back(x, old)
        found += [raised("inplace operation", loss.backward), x._version > 1, list(x.shape)]
    with torch.inference_mode():
        found.append(torch.ones(3).set_(torch.zeros(2)))
    return found


test_as_in_pytorch = scenario.test()
