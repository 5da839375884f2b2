"""Schemas of operators, asked in PyTorch's words."""

import copy
import pickle

import flambeau
import pytest
from oracle import pytorch

torch = pytorch()

SETS = [
    (name, overload)
    for name in dir(flambeau.ops.aten)
    if not name.startswith("__") and hasattr(getattr(torch.ops.aten, name, None), "overloads")
    for overload in sorted(
        set(getattr(flambeau.ops.aten, name).overloads()) & set(getattr(torch.ops.aten, name).overloads())
    )
]
# Public overloads with more or other arguments: most are factories, which take `dtype` beside `out`.
OTHERS = 58


def schema_of(fw, name, overload):
    return getattr(getattr(fw.ops.aten, name), overload)._schema


def alias(argument):
    info = argument.alias_info
    return info and [info.is_write, sorted(info.before_set), sorted(info.after_set)]


def described(argument):
    """Everything except the name and the default value."""
    kind = type(argument.type).__name__.replace("_Named", "Type")
    return [str(argument.type), kind, argument.kwarg_only, alias(argument), argument.N, argument.is_out]


def pairs():
    for name, overload in SETS:
        try:
            yield schema_of(flambeau, name, overload), schema_of(torch, name, overload)
        except AttributeError:  # written in Python: it has no schema
            continue


def test_names_results_and_writes_are_pytorchs():
    counted = 0
    for ours, theirs in pairs():
        assert (ours.name, ours.overload_name) == (theirs.name, theirs.overload_name)
        assert ours.is_mutable == theirs.is_mutable
        assert [str(r.type) for r in ours.returns] == [str(r.type) for r in theirs.returns], str(ours)
        counted += 1
    assert counted > 1400


def test_arguments_of_public_operators_are_pytorchs():
    different = []
    for ours, theirs in pairs():
        mine, other = ours.arguments, theirs.arguments
        if [a.name for a in mine] != [a.name for a in other]:
            different.append(ours.name)
            continue
        known = {a.name: a for a in mine}
        if any(str(known[a.name].type) != str(a.type) for a in other):
            different.append(ours.name)
            continue
        sides = ([[a.kwarg_only, alias(a), a.is_out] for a in side] for side in (mine, other))
        if next(sides) != next(sides):
            different.append(ours.name)
    assert len([name for name in different if "::_" not in name]) <= OTHERS


CASES = [
    "sin", "add.Tensor", "add_.Tensor", "add.out", "sum.dim_IntList", "index.Tensor", "split.Tensor", "view",
    "sort.stable", "linalg_svd", "_foreach_add_.Scalar", "select.int", "clamp", "var.correction",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_text_and_every_property(case):
    name, _, overload = case.partition(".")
    ours, theirs = (schema_of(fw, name, overload or "default") for fw in (flambeau, torch))
    assert str(ours) == str(theirs)
    for mine, other in zip(
        [*ours.arguments, *ours.returns], [*theirs.arguments, *theirs.returns], strict=True
    ):
        assert described(mine) == described(other)
        assert (mine.name, mine.has_default_value()) == (other.name, other.has_default_value())
        assert mine.default_value == other.default_value


TEXTS = """my::f.x(Tensor x) -> ()|f() -> ()|f(Tensor[] x) -> Tensor[]|f(t[] x) -> t
f(int[2] k=1, *, Tensor(a!)? o=None) -> (Tensor y, Tensor)|f(str z="a", bool b=True, float y=0.5) -> int
f(Tensor(a -> *) x) -> Tensor(a)
f(SymInt[]? s=None, ScalarType? d=None, Device? e=None) -> (Tensor, int, bool)
f(Banana x) -> Tensor|f(Tensor x) -> Banana|f|f(Tensor x)||f(Tensor x -> Tensor|f(int x=1, int y) -> int
f(Tensor? x, float?[] y, Generator? g, Storage s, complex c) -> Scalar"""


@pytest.mark.parametrize("text", TEXTS.replace("\n", "|").split("|"))
def test_schemas_are_read_alike(text):
    found = []
    for fw in (flambeau, torch):
        try:
            schema = fw._C.parse_schema(text)
        except Exception as error:
            found.append(type(error).__name__)
            continue
        found.append(
            [schema.name, schema.overload_name, str(schema), [described(a)[:5] for a in schema.arguments]]
            + [[a.name, a.default_value] for a in schema.arguments]
            + [[r.name, str(r.type), alias(r)] for r in schema.returns]
        )
    assert found[0] == found[1]


def types_of(fw):
    simple = "Tensor Number Int Float Bool Complex String DeviceObj None Any StreamObj SymInt SymBool".split()
    made = [getattr(fw._C, f"{name}Type").get() for name in simple]
    tensor, integer, optional = made[0], made[2], fw.OptionalType
    compound = [
        fw.ListType(integer),
        fw.ListType(fw.OptionalType(tensor)),
        fw.OptionalType(fw.ListType(integer)),
    ]
    more = [
        optional(optional(integer)),
        optional.ofTensor(),
        fw.TupleType([integer, tensor]),
        fw.TupleType([]),
    ]
    return [
        *made,
        *compound,
        *more,
        fw.DictType(made[6], tensor),
        fw.ListType.ofFloats(),
        fw.OptionalType.ofTensor(),
    ]


def test_types_are_compared_and_spelled_alike():
    ours, theirs = types_of(flambeau), types_of(torch)
    for mine, other in zip(ours, theirs, strict=True):
        assert [mine.kind(), mine.str(), str(mine)] == [other.kind(), other.str(), str(other)]
        assert [str(t) for t in mine.containedTypes()] == [str(t) for t in other.containedTypes()]
        for a, b in zip(ours, theirs, strict=True):
            if "Sym" not in mine.kind() + a.kind():
                assert (mine.isSubtypeOf(a), mine == a) == (other.isSubtypeOf(b), other == b), (mine, a)


WRONG = {
    "element": lambda fw: fw.ListType(3),
    "class": lambda fw: fw.TensorType(),
    "missing": lambda fw: fw.OptionalType(),
    "compared": lambda fw: fw.ListType.ofInts() == 3,
    "key": lambda fw: fw.DictType(fw.ListType.ofInts(), fw.IntType.get()),
    "tuple": lambda fw: fw.TupleType(fw.IntType.get()),
    "supertype": lambda fw: fw.IntType.get().isSubtypeOf(3),
    "text": lambda fw: fw._C.parse_schema(3),
    "no operator": lambda fw: fw._C._get_schema("aten::no_such", ""),
    "define a type": lambda fw: fw.library.Library("schemas_wrong", "FRAGMENT").define(
        "f(Banana x) -> Tensor"
    ),
    "define nothing": lambda fw: fw.library.define("schemas_wrong::g", ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_raise_the_same_exception(case):
    with pytest.raises(Exception) as ours:
        WRONG[case](flambeau)
    with pytest.raises(Exception) as theirs:
        WRONG[case](torch)
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value)


def test_overloads_are_objects_of_their_names():
    for fw in (flambeau, torch):
        packet, overload = fw.ops.aten.add, fw.ops.aten.add.Tensor
        assert copy.deepcopy([packet, overload]) == [packet, overload]
        assert (overload._opname, overload._overloadname, overload.namespace) == ("add", "Tensor", "aten")
        assert repr(overload) == "<OpOverload(op='aten.add', overload='Tensor')>"
        assert repr(packet) == "<OpOverloadPacket(op='aten.add')>"
        assert "Tensor" in list(packet) and "Tensor" in packet._schemas
        assert packet._schemas["Tensor"] == overload._schema == fw._C._get_schema("aten::add", "Tensor")
        assert overload.op(fw.ones(1), fw.ones(1)).item() == packet.op(fw.ones(1), 1).item() == 2
        assert overload._schema == fw._C.parse_schema(str(overload._schema))
        assert not fw._C._jit_get_schemas_for_operator("aten::no_such_operator")
    ours = flambeau.ops.aten.add
    assert pickle.loads(pickle.dumps([ours, ours.Tensor])) == [ours, ours.Tensor]


def test_a_defined_operator_shows_its_schema():
    for fw in (flambeau, torch):

        @fw.library.custom_op("schemas_shown::f", mutates_args={"x"})
        def f(x: fw.Tensor, n: int = 3, *, k: float = 1.5) -> None:
            x.mul_(n * k)

        schema = f._opoverload._schema
        assert str(schema) == "schemas_shown::f(Tensor(a0!) x, SymInt n=3, *, float k=1.5) -> ()"
        assert [a.default_value for a in schema.arguments] == [None, 3, 1.5]
        assert schema.arguments[0].is_write and not schema.arguments[1].is_write and not schema.returns
