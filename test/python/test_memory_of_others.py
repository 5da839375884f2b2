"""Memory shared with NumPy, memoryview and DLPack outlives whatever happens to the tensor over it."""

import gc
import hashlib
import threading

import flambeau as fb
import numpy as np
import pytest
from flambeau.utils.dlpack import to_dlpack

SIZE = 200_000  # large enough to be given back to the system when it is freed


def as_array(t):
    return t.numpy()


def as_view(t):
    return np.asarray(memoryview(t))


def as_dlpack(t):
    return np.from_dlpack(t)


class _Old:
    """An exporter from before version 1.0 of DLPack, around a capsule of ours."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, stream=None):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def as_old_dlpack(t):
    return fb.from_dlpack(_Old(to_dlpack(t))).numpy()


def as_our_own(t):
    return fb.from_dlpack(t).numpy()


WAYS = (as_array, as_view, as_dlpack, as_old_dlpack, as_our_own)


def other_data(x):
    x.data = fb.zeros(3)


def other_memory(x):
    x.set_(fb.zeros(3))


def no_memory(x):
    x.set_()


def swapped(x):
    fb.utils.swap_tensors(x, fb.zeros(3))


def moved_to_shared_memory(x):
    with pytest.raises(RuntimeError, match="left behind"):
        x.share_memory_()


def loaded_into_a_module(x):
    module = fb.nn.Module()
    module.register_buffer("x", x)
    module.load_state_dict({"x": fb.zeros(x.shape)}, assign=True)
    del module


def cast_in_a_module(x):
    module = fb.nn.Module()
    module.p = fb.nn.Parameter(x, requires_grad=False)
    del x
    module.double()


def forgotten(x):
    del x


REPLACEMENTS = (
    other_data, other_memory, no_memory, swapped, moved_to_shared_memory, loaded_into_a_module,
    cast_in_a_module, forgotten,
)  # fmt: skip


def overwrite_free_memory():
    """Take what was freed, with other values."""
    gc.collect()
    fb._C._empty_cache()
    return [fb.full((SIZE,), -1.0) for _ in range(4)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("replace", REPLACEMENTS)
def test_exported_memory_outlives_its_tensor(way, replace):
    x = fb.arange(SIZE, dtype=fb.float32)
    shared = way(x)
    replace(x)
    del x
    taken = overwrite_free_memory()
    np.testing.assert_array_equal(shared, np.arange(SIZE, dtype=np.float32))
    assert all(bool((t == -1).all()) for t in taken)


def grown(x):
    x.resize_(4 * SIZE)


def grown_as_output(x):
    fb.add(fb.ones(4 * SIZE), 1, out=x)


def grown_as_another(x):
    x.resize_as_(fb.ones(4 * SIZE))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("grow", (grown, grown_as_output, grown_as_another))
def test_exported_memory_does_not_grow(way, grow):
    x = fb.arange(SIZE, dtype=fb.float32)
    shared = way(x)
    with pytest.raises(RuntimeError, match="not resizable"):
        grow(x)
    assert x.shape == (SIZE,)
    x[0] = 7
    assert shared[0] == 7
    x.resize_(2)  # stays where it is
    shared[1] = 8
    assert x.tolist() == [7, 8]
    del shared
    gc.collect()
    grow(x)
    assert x.numel() == 4 * SIZE


def test_each_export_counts():
    x = fb.ones(2)
    first, second = x.numpy(), x.__dlpack__(max_version=(1, 0))
    del first
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(100)
    del second
    assert x.resize_(100).numel() == 100


def test_an_unused_capsule_releases_its_memory():
    x = fb.ones(2)
    for version in (None, (1, 0)):
        x.__dlpack__(max_version=version)
    x.resize_(100)


def test_views_with_offsets():
    x = fb.arange(SIZE, dtype=fb.float32).reshape(-1, 4)
    shared = [way(x[1:, 2]) for way in WAYS]
    other_data(x)
    del x
    overwrite_free_memory()
    for array in shared:
        np.testing.assert_array_equal(array, np.arange(6, SIZE, 4, dtype=np.float32))


def test_subclasses_and_parameters():
    class Marked(fb.Tensor):
        pass

    for make in (lambda t: t.as_subclass(Marked), lambda t: fb.nn.Parameter(t, False)):
        x = make(fb.arange(SIZE, dtype=fb.float32))
        shared = [x.numpy(), np.from_dlpack(x)]
        x.data = fb.zeros(1)
        overwrite_free_memory()
        assert [float(a[-1]) for a in shared] == [SIZE - 1] * 2


def test_a_memoryview_is_released_in_any_order():
    x = fb.arange(8)
    first, second = memoryview(x), memoryview(x)
    x.data = fb.zeros(1, dtype=fb.int64)
    first.release()
    del x
    gc.collect()
    assert second.tolist() == list(range(8))


def test_buffers_that_must_be_in_order_are_refused():
    for strided in (fb.arange(6).reshape(2, 3).t(), fb.arange(6)[::2]):
        for read in (hashlib.md5, b"".join):
            with pytest.raises((BufferError, TypeError)):
                read([strided]) if read is not hashlib.md5 else read(strided)
        np.testing.assert_array_equal(np.asarray(memoryview(strided)), strided.tolist())


# --- memory of others -------------------------------------------------------------------------------


class Counted(np.ndarray):
    """An array that says when it goes."""

    gone = 0

    def __del__(self):
        Counted.gone += 1


IMPORTS = (
    lambda a: fb.from_numpy(a),
    lambda a: fb.as_tensor(a),
    lambda a: fb.from_dlpack(a),
    lambda a: fb.frombuffer(a, dtype=fb.float32),
    lambda a: fb.asarray(a),
)


@pytest.mark.parametrize("take", IMPORTS)
def test_imported_memory_keeps_its_owner(take):
    array = np.arange(SIZE, dtype=np.float32).view(Counted)
    before = Counted.gone
    x = take(array)
    view = x[1:]
    del array, x
    gc.collect()
    assert Counted.gone == before
    assert float(view[-1]) == SIZE - 1
    del view
    gc.collect()
    assert Counted.gone == before + 1


def test_owners_die_on_other_threads():
    before = Counted.gone
    tensors = [fb.from_numpy(np.ones(8).view(Counted)) for _ in range(64)]

    def drop(start):
        for i in range(start, 64, 4):
            tensors[i] = None

    threads = [threading.Thread(target=drop, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counted.gone == before + 64


def test_owners_are_let_go_where_taking_fails():
    before = Counted.gone
    for take in IMPORTS[:3]:
        for bad in (np.ones((4, 4))[::-1], np.ones(4, dtype=">f4"), np.array([None])):
            with pytest.raises((ValueError, TypeError, RuntimeError, BufferError)):
                take(bad.view(Counted))
    gc.collect()
    assert Counted.gone >= before + 9


def test_memory_cannot_grow_while_it_is_foreign():
    with pytest.raises(RuntimeError, match="not resizable"):
        fb.from_numpy(np.ones(2)).resize_(100)


def test_a_read_only_array_warns_and_goes_through_dlpack():
    array = np.broadcast_to(np.float32(3), (2, 4))
    with pytest.warns(UserWarning, match="not writable"):
        shared = fb.from_numpy(array)
    assert shared.stride() == (0, 0)
    assert fb.from_dlpack(array).tolist() == [[3.0] * 4] * 2
    assert np.from_dlpack(fb.from_dlpack(array)).tolist() == array.tolist()


def test_capsules_are_used_once():
    for capsule in (fb.ones(2).__dlpack__(), fb.ones(2).__dlpack__(max_version=(1, 0))):
        assert fb.from_dlpack(capsule).tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="once"):
            fb.from_dlpack(capsule)


def test_options_of_exports():
    x = fb.ones(2)
    copied = fb.from_dlpack(x, copy=True)
    copied[0] = 5
    assert x.tolist() == [1, 1]
    assert fb.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" not in repr(x.__dlpack__(max_version=(0, 8)))
    with pytest.raises(AssertionError, match="stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="stream"):
        x.__dlpack__(stream="x")
    with pytest.raises(BufferError):
        fb.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError):
        fb.ones(2, device="meta").__dlpack__()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,) * 20])
@pytest.mark.parametrize("dtype", ["float16", "uint16", "uint32", "uint64", "bool", "complex64", "int8"])
def test_round_trips(shape, dtype):
    array = np.ones(shape, dtype=dtype)
    for take in IMPORTS[:3]:
        x = take(array)
        assert (tuple(x.shape), str(x.dtype)) == (shape, f"flambeau.{dtype}")
        for give in (as_array, as_dlpack, as_our_own):
            np.testing.assert_array_equal(give(x), array)


def test_too_many_dimensions_for_numpy():
    with pytest.raises(ValueError, match="dimensions"):
        fb.ones((1,) * 65).numpy()


def test_errors_pass_the_end_of_foreign_memory_unharmed():
    class Failing(Exception):
        pass

    def fails():
        x = fb.from_numpy(np.ones(4).view(Counted))
        raise Failing(float(x.sum()))

    with pytest.raises(Failing):
        fails()


def misaligned(count, dtype):
    """An array that begins one byte after an address that its elements ask for."""
    array = np.zeros(count * np.dtype(dtype).itemsize + 1, np.uint8)[1:].view(dtype)
    array[:] = np.arange(count) % 7 + 1
    return array


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int64", "complex64"])
@pytest.mark.parametrize("count", [3, 4_000_000])
def test_misaligned_memory(dtype, count):
    x, out = fb.from_numpy(misaligned(count, dtype)), fb.from_numpy(misaligned(count, dtype))
    plain = x.clone()
    assert x.data_ptr() % 2 == 1
    for call in (
        lambda t: fb.add(t, t, out=out), lambda t: out.copy_(t).mul_(3), lambda t: out.fill_(2),
        lambda t: t.sum(),
        lambda t: t[: count // 3 * 3].view(-1, 3).sum(0), lambda t: t == 2, lambda t: t.cumsum(0),
        lambda t: t.to(fb.complex128), lambda t: fb.cat([t, t]), lambda t: t.nonzero(), lambda t: t.neg(),
    ):  # fmt: skip
        assert fb.equal(call(x).clone(), call(plain))
