"""Guards in C++: the reads that they remember, errors in guards, wrong steps."""

import collections
import gc
import random
import sys
import weakref

import flambeau as fb
import pytest
from captured import Recorder, program, raised, same
from flambeau import _C, nn


class Box:
    """An object with instance attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def guards(*steps, roots=1, outputs=()):
    return _C._Guards(roots, list(steps), outputs, _C._ThreadGuard(), lambda a, b: a == b)


# --- remembered reads ---------------------------------------------------------------------------------


def read_box(box):
    x = box.x * box.n + box.inner.n
    x = x + box.table["a"] + box.table["b"]
    for key in box.ordered:
        x = x * 2 + box.ordered[key]
    if hasattr(box, "extra"):
        x = x * 3 + box.extra
    return x * box.numbers[1] + box.pair[0]


def box():
    kind = type("Own", (Box,), {})
    return kind(
        x=fb.arange(3.0), n=2, inner=Box(n=3), table={"a": 1, "b": 2.5}, numbers=[1, 5], pair=(7, 8),
        ordered=collections.OrderedDict(u=1, v=2),
    )  # fmt: skip


class Doubled(dict):
    """A dict whose subscripts return twice the stored numbers."""

    def __getitem__(self, key):
        return 2 * super().__getitem__(key)


class Marked(fb.Tensor):
    """A subclass of Tensor."""


class Nines(list):
    """A list whose elements are 9."""

    def __getitem__(self, index):
        return 9


class Shifted(Box):
    """A class that computes one attribute."""

    n = property(lambda self: self.__dict__["n"] * 3)


class Shouting(Box):
    """A class whose `__getattribute__` computes attributes."""

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return found * 3 if name == "n" else found


class Lazy(Box):
    """A class whose `__getattr__` computes missing attributes."""

    def __getattr__(self, name):
        if name == "n":
            return 11
        raise AttributeError(name)


def restored(box, name):
    value = box.__dict__.pop(name)
    read = raised(read_box, box)
    box.__dict__[name] = value
    return read


BOX_CHANGES = {
    "attribute": lambda b: setattr(b, "n", b.n + 1),
    "attribute through the dict": lambda b: b.__dict__.__setitem__("n", 9),
    "attribute through update": lambda b: vars(b).update(n=10),
    "attribute without its __setattr__": lambda b: object.__setattr__(b, "n", 8),
    "attribute and back": lambda b: (setattr(b, "n", 100), setattr(b, "n", 2)),
    "deleted": lambda b: delattr(b, "n"),
    "deleted and made again": lambda b: restored(b, "n"),
    "another dict": lambda b: setattr(b, "__dict__", {**b.__dict__, "n": 6}),
    "an equal dict": lambda b: setattr(b, "__dict__", {**b.__dict__}),
    "cleared": lambda b: b.__dict__.clear(),
    "a property of the class": lambda b: setattr(type(b), "n", property(lambda self: 40)),
    "a property that raises": lambda b: setattr(type(b), "n", property(lambda self: 1 / 0)),
    "a plain entry of the class": lambda b: setattr(type(b), "n", 77),
    "an entry of a base": lambda b: (setattr(type(b), "extra", 5), delattr(b, "x"))[0],
    "another class": lambda b: setattr(b, "__class__", Shifted),
    "inner class": lambda b: setattr(b.inner, "__class__", Shifted),
    "a class with __getattribute__": lambda b: setattr(b, "__class__", Shouting),
    "a class with __getattr__": lambda b: (b.__dict__.pop("n", None), setattr(b, "__class__", Lazy)),
    "inner object": lambda b: setattr(b, "inner", Box(n=4)),
    "inner attribute": lambda b: setattr(b.inner, "n", 5),
    "inner object and back": lambda b: b.__dict__.update(inner=b.__dict__.pop("inner")),
    "element": lambda b: b.table.__setitem__("a", 3),
    "element of another type": lambda b: b.table.__setitem__("a", True),
    "element removed": lambda b: b.table.pop("a"),
    "element moved": lambda b: b.table.__setitem__("a", b.table.pop("a")),
    "subclass of dict": lambda b: setattr(b, "table", Doubled(b.table)),
    "setdefault": lambda b: (b.table.clear(), b.table.setdefault("a", 6), b.table.setdefault("b", 7)),
    "popitem": lambda b: (b.table.popitem(), b.table.update(b=8)),
    "merged": lambda b: b.table.__ior__({"b": 9}),
    "order": lambda b: b.ordered.move_to_end("u"),
    "ordered element": lambda b: b.ordered.__setitem__("u", 5),
    "ordered key": lambda b: b.ordered.__setitem__("w", 5),
    "ordered emptied": lambda b: b.ordered.clear(),
    "list element": lambda b: b.numbers.__setitem__(1, 6),
    "list shortened": lambda b: b.numbers.pop(),
    "list to subclass": lambda b: setattr(b, "numbers", Nines([1, 5])),
    "tuple": lambda b: setattr(b, "pair", (6, 8)),
    "new attribute": lambda b: setattr(b, "extra", 1),
    "attribute of the class": lambda b: setattr(type(b), "extra", 2),
    "attribute of a class and back": lambda b: (setattr(type(b), "extra", 2), delattr(type(b), "extra")),
    "dtype of the tensor": lambda b: setattr(b.x, "data", b.x.double()),
    "tensor resized": lambda b: b.x.resize_(2),
    "class of the tensor": lambda b: setattr(b, "x", b.x.as_subclass(Marked)),
    "gradient": lambda b: setattr(b.x, "requires_grad", True),
}  # fmt: skip


@pytest.mark.parametrize("change", BOX_CHANGES.values(), ids=BOX_CHANGES)
def test_remembered_reads_see_a_change(change):
    """Make several calls before and after the change, so that reads are remembered, on two objects."""
    made = fb.compile(read_box, backend=Recorder())
    plain, recorded, other = box(), box(), box()
    for _ in range(3):
        assert same(read_box(plain), made(recorded)) and same(read_box(plain), made(other))
    before = read_box(other)
    for _ in range(2):
        change(plain), change(recorded)
        for _ in range(3):
            expected, got = raised(read_box, plain), raised(made, recorded)
            assert same(expected, got) or expected is got, (expected, got)
            assert same(before, made(other))
        if not isinstance(expected, fb.Tensor):  # the change cannot be made twice
            break


def random_change(rng, b):
    """Make a random change of a box; equal states of the generator make equal changes."""
    value = rng.choice([1, 2, 3, 0.5, True])
    match rng.randrange(9):
        case 0:
            b.n = value
        case 1:
            b.table[rng.choice("ab")] = value
        case 2:
            b.ordered.move_to_end(rng.choice("uv"))
        case 3:
            b.inner = Box(n=value) if rng.random() < 0.5 else b.inner
        case 4:
            b.inner.n = value
        case 5:
            b.__dict__ = dict(b.__dict__)
        case 6:
            b.table = {"b": value, "a": 1} if rng.random() < 0.5 else {"a": 1, "b": value}
        case 7:
            b.extra = value
        case 8:
            b.__dict__.pop("extra", None)


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_are_seen(seed):
    made = fb.compile(read_box, backend=Recorder())
    made_program = program(made)
    made_program.limit = 10_000
    plain, recorded = box(), box()
    for step in range(60):
        random_change(random.Random((seed + 1) * 1000 + step), plain)
        random_change(random.Random((seed + 1) * 1000 + step), recorded)
        assert same(read_box(plain), made(recorded)), step
    assert not made_program.is_given_up


def test_new_objects_at_reused_addresses_are_distinguished():
    made = fb.compile(lambda b: b.inner.n * b.table["a"] + fb.ones(1), backend=Recorder())
    program(made).limit = 10_000
    for i in range(300):  # the objects of one round may reuse addresses of the previous round
        b = Box(inner=Box(n=i % 7), table={"a": i % 5})
        assert made(b).item() == (i % 7) * (i % 5) + 1, i
        del b


def test_slots_and_descriptors_are_read_each_time():
    class Slotted:
        __slots__ = ("n",)

        def __init__(self):
            self.n = 2

    thing = Slotted()
    made = fb.compile(lambda x: x * thing.n, backend=Recorder())
    for n in (2, 2, 3, 2, 5):
        thing.n = n
        assert made(fb.ones(1)).item() == n


def hierarchy():
    class Top:
        scale = 2

        def go(self, x):
            return x * self.scale

        @property
        def half(self):
            return self.scale / 2

    class Middle(Top):
        pass

    class Bottom(Middle):
        def go(self, x):
            return super().go(x) + self.half + getattr(self, "late", 0) + hasattr(self, "flag")

    thing = Bottom()
    return Box(x=fb.ones(2), thing=thing, bases=Bottom.__mro__)


CLASS_CHANGES = {
    "a base between": lambda b: setattr(b.bases[1], "scale", 10),
    "the class": lambda b: setattr(b.bases[0], "scale", 10),
    "the owner": lambda b: setattr(b.bases[2], "scale", 10),
    "a method that super() finds": lambda b: setattr(b.bases[2], "go", lambda self, x: x - 9),
    "a method before that": lambda b: setattr(b.bases[1], "go", lambda self, x: x - 8),
    "a property": lambda b: setattr(b.bases[2], "half", property(lambda self: 70)),
    "a property hidden": lambda b: setattr(b.bases[1], "half", 60),
    "getattr's default": lambda b: setattr(b.bases[1], "late", 5),
    "hasattr": lambda b: setattr(b.bases[2], "flag", 5),
}


@pytest.mark.parametrize("change", CLASS_CHANGES.values(), ids=CLASS_CHANGES)
def test_a_change_anywhere_among_the_bases_is_seen(change):
    def go(b):
        return b.thing.go(b.x)

    made = fb.compile(go, backend=Recorder())
    b = hierarchy()
    for _ in range(3):
        assert same(go(b), made(b))
    change(b)
    for _ in range(3):
        assert same(go(b), made(b))
    if "flag" in b.bases[2].__dict__:
        del b.bases[2].flag
        assert same(go(b), made(b))


@pytest.mark.parametrize("key", [2**70, -(2**70), -1, 0, True, None, "a"])
def test_keys_of_any_kind_are_read(key):
    made = fb.compile(lambda x, table: x * table[key], backend=Recorder())
    for value in (1, 2, 2, 1):
        assert made(fb.ones(1), {key: value}).item() == value
    assert not program(made).is_given_up


def test_elements_from_the_end_are_read():
    made = fb.compile(lambda x, values, pair: x * values[-1] + pair[-2], backend=Recorder())
    for values in ([1, 2], [1, 3], [1, 3], [3]):
        assert made(fb.ones(1), values, (5, 6)).item() == values[-1] + 5


def test_guards_keep_no_reference_to_the_values_they_read():
    kind, key = type("Seen", (), {}), object()
    owner, table = kind(), {key: 1, "k": key}
    owner.__dict__["table"] = table
    check = guards(("attribute", 0, "table"), ("item", 1, "k"), ("type", 0, kind), outputs=(1, 2))
    check(owner)
    before = [sys.getrefcount(o) for o in (owner, table, key, kind)]
    for _ in range(100):
        assert check(owner) == (table, key)
        assert check(table) is None
    assert [sys.getrefcount(o) for o in (owner, table, key, kind)] == before


# --- errors in guards ---------------------------------------------------------------------------------


def test_an_error_in_a_guard_is_a_miss():
    for error in (AttributeError, KeyError, ValueError, ZeroDivisionError, RuntimeError, StopIteration):

        class Failing:
            def __getitem__(self, key, error=error):
                raise error

            def __len__(self, error=error):
                raise error

        for step in (("item", 0, 1), ("length", 0, 1), ("attribute", 0, "missing"), ("keys", 0, ())):
            assert guards(step)(Failing()) is None


def test_an_interruption_in_a_guard_propagates():
    class Interrupted:
        @property
        def n(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guards(("attribute", 0, "n"))(Interrupted())


def test_an_eq_method_that_raises_is_a_miss():
    class Key:
        def __eq__(self, other):
            raise RuntimeError("no")

        __hash__ = object.__hash__

    assert guards(("keys", 0, (1,)))({Key(): 1}) is None
    assert guards(("equals", 0, Key()))(Key()) is None


STEPS = {
    "unknown name": [("nothing", 0, None)],
    "a value that is not there": [("type", 1, int)],
    "negative value": [("type", -1, int)],
    "huge value": [("type", 2**70, int)],
    "no tuple": [["type", 0, int]],
    "too short": [("type", 0)],
    "no name": [(0, 0, int)],
    "attribute without a name": [("attribute", 0, 3)],
    "distinct without values": [("distinct", 0, 3)],
    "same with a value that is not there": [("same", 0, (5,))],
    "same with no other value": [("same", 0, ())],
    "keys that are not a tuple": [("keys", 0, ["a"])],
    "tensor without a guard": [("tensor", 0, fb.ones(1))],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_wrong_steps_are_errors(steps):
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
        guards(*steps)


def test_guards_refuse_another_number_of_values():
    for given in ((), (1, 2)):
        with pytest.raises(TypeError, match="expected 1 values"):
            guards()(*given)
    with pytest.raises(TypeError):
        guards()(x=1)


def test_guards_are_collected_with_their_function():
    class Held:
        pass

    kept = [Held()]
    made = fb.compile(lambda x, kind=kept[0]: x + (kind is None), backend=Recorder())
    made(fb.ones(1))
    reference, kept = weakref.ref(kept[0]), []
    del made
    gc.collect()
    assert reference() is None


def test_one_parameter_in_two_places_of_a_module():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(4)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = Tied()
    backend = Recorder()
    made = fb.compile(model, backend=backend)
    x = fb.ones(1, 2)
    for _ in range(2):
        assert same(made(x), model(x))
    model.layers[3].weight = model.layers[0].weight
    for _ in range(2):
        assert same(made(x), model(x))
    model.layers[3].weight = nn.Parameter(fb.ones(2, 2))
    for _ in range(2):
        assert same(made(x), model(x))
    assert len(backend.graphs) == 2
