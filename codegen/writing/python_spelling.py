"""How the Python binding's C++ spells argument kinds, accessors and slots of the number protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from codegen.deriving.signatures import COMMUTATIVE, Callable
from codegen.model import ListType, OptionalType, Type

PARAM_KINDS = {
    "Tensor": "Tensor",
    "Scalar": "Scalar",
    "int": "Int",
    "SymInt": "Int",
    "DeviceIndex": "Int",
    "float": "Float",
    "bool": "Bool",
    "SymBool": "Bool",
    "str": "String",
    "ScalarType": "ScalarType",
    "Layout": "Layout",
    "Device": "Device",
    "MemoryFormat": "MemoryFormat",
    "Generator": "Generator",
}
ACCESSORS = {
    "Tensor": "tensor",
    "TensorList": "tensor_list",
    "Scalar": "scalar",
    "ScalarList": "scalar_list",
    "Int": "integer",
    "IntList": "int_list",
    "Float": "real",
    "FloatList": "real_list",
    "Bool": "boolean",
    "BoolList": "bool_list",
    "String": "string",
    "ScalarType": "scalar_type",
    "Layout": "layout",
    "Device": "device",
    "MemoryFormat": "memory_format",
    "Generator": "generator",
}
_NEVER_OPTIONAL = ("tensor", "tensor_list", "generator")
ACCESSORS_WITH_DEFAULT = (
    "scalar integer real boolean string int_list bool_list scalar_type memory_format".split()
)


def param_kind(type_: Type) -> str:
    """The argument parser's kind of a schema type."""
    if isinstance(type_, OptionalType):
        return param_kind(type_.elem)
    if isinstance(type_, ListType):
        return f"{param_kind(type_.elem)}List"
    return PARAM_KINDS[type_.name]


def accessor(type_: Type) -> str:
    """The argument parser's accessor of a schema type."""
    name = ACCESSORS[param_kind(type_)]
    optional = isinstance(type_, OptionalType) and name not in _NEVER_OPTIONAL
    return f"optional_{name}" if optional else name


@dataclass(frozen=True, slots=True)
class InfixRow:
    """A Python operator: the stem of its special methods, and its slot in the number protocol."""

    stem: str  # of __add__, __radd__, __iadd__
    slot: str  # "" for comparisons, which share one


# Symbol and number of operands -> what Python calls the operator.
_INFIX = {
    ("+", 2): InfixRow("add", "nb_add"),
    ("-", 2): InfixRow("sub", "nb_subtract"),
    ("*", 2): InfixRow("mul", "nb_multiply"),
    ("/", 2): InfixRow("truediv", "nb_true_divide"),
    ("//", 2): InfixRow("floordiv", "nb_floor_divide"),
    ("%", 2): InfixRow("mod", "nb_remainder"),
    ("**", 2): InfixRow("pow", "nb_power"),
    ("@", 2): InfixRow("matmul", "nb_matrix_multiply"),
    ("&", 2): InfixRow("and", "nb_and"),
    ("|", 2): InfixRow("or", "nb_or"),
    ("^", 2): InfixRow("xor", "nb_xor"),
    ("<<", 2): InfixRow("lshift", "nb_lshift"),
    (">>", 2): InfixRow("rshift", "nb_rshift"),
    ("-", 1): InfixRow("neg", "nb_negative"),
    ("~", 1): InfixRow("invert", "nb_invert"),
    # In the order of Py_LT, Py_LE, ...
    ("<", 2): InfixRow("lt", ""),
    ("<=", 2): InfixRow("le", ""),
    ("==", 2): InfixRow("eq", ""),
    ("!=", 2): InfixRow("ne", ""),
    (">", 2): InfixRow("gt", ""),
    (">=", 2): InfixRow("ge", ""),
}
COMPARISON_ORDER = tuple(row.stem for row in _INFIX.values() if not row.slot)


def method_stem(symbol: str, arity: int) -> str:
    """Return the middle of the special method behind a Python operator: `pow` of `__rpow__`."""
    return _INFIX[symbol, arity].stem


def is_comparison(symbol: str, arity: int) -> bool:
    """Whether a Python operator shares its slot with the other comparisons."""
    return not _INFIX[symbol, arity].slot


def number_slot(symbol: str, arity: int) -> str:
    """Return the slot of a Python operator, without its Py_; of a comparison its stem."""
    return _INFIX[symbol, arity].slot or _INFIX[symbol, arity].stem


# Infix operators that __torch_function__ sees as the method of the protocol, not as the operator's,
# as PyTorch's Tensor defines them; in place, // is the operator's method.
_SEEN_AS_PROTOCOL = frozenset("** // & | ^ << >> ~ ==".split())


def overridden_names(symbol: str, arity: int, operator: str, inplace: bool) -> tuple[str, str]:
    """The methods of Tensor that an override receives: as written, and with a number on the left."""
    protocol, stem = symbol in _SEEN_AS_PROTOCOL, method_stem(symbol, arity)
    if inplace:
        name = f"__i{stem}__" if protocol and symbol != "//" else operator
        return name, name
    forward = f"__{stem}__" if protocol else operator
    if arity == 1 or is_comparison(symbol, arity):
        return forward, forward
    return forward, operator if symbol in COMMUTATIVE else f"__r{stem}__"


def symbol_of(namespace: str | None, name: str) -> str:
    """Return the C++ name of what binds a function, or a method (no namespace)."""
    return f"method_{name}" if namespace is None else f"function_{namespace or 'top'}_{name}"


def key_of_texts(callables: Iterable[Callable]) -> str:
    """Return what a file of texts and the tables of the binding have in common if they fit together."""
    names = "\n".join(symbol_of(c.namespace, c.name) for c in callables)
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def text_numbers(numbers: Iterable[int]) -> str:
    """Spell the items of an array of numbers of texts."""
    return ", ".join(map(str, numbers))
