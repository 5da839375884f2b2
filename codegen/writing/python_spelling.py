"""How the Python binding's C++ spells argument kinds, accessors and slots of the number protocol."""

from __future__ import annotations

from codegen.deriving.signatures import COMMUTATIVE
from codegen.model import ListType, OptionalType, Type

_PARAM_KINDS = {
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
_ACCESSORS = {
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
    return _PARAM_KINDS[type_.name]


def accessor(type_: Type) -> str:
    """The argument parser's accessor of a schema type."""
    name = _ACCESSORS[param_kind(type_)]
    optional = isinstance(type_, OptionalType) and name not in _NEVER_OPTIONAL
    return f"optional_{name}" if optional else name


_NUMBER_SLOTS = {
    ("+", 2): "nb_add",
    ("-", 2): "nb_subtract",
    ("*", 2): "nb_multiply",
    ("/", 2): "nb_true_divide",
    ("//", 2): "nb_floor_divide",
    ("%", 2): "nb_remainder",
    ("**", 2): "nb_power",
    ("@", 2): "nb_matrix_multiply",
    ("&", 2): "nb_and",
    ("|", 2): "nb_or",
    ("^", 2): "nb_xor",
    ("<<", 2): "nb_lshift",
    (">>", 2): "nb_rshift",
    ("-", 1): "nb_negative",
    ("~", 1): "nb_invert",
}
_COMPARISONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
# As Py_LT, Py_LE, ... number them.
COMPARISON_ORDER = ("lt", "le", "eq", "ne", "gt", "ge")


def number_slot(symbol: str, arity: int) -> tuple[str, bool]:
    """The slot of a Python operator, without its Py_; and whether it is a comparison, which share one."""
    if symbol in _COMPARISONS:
        return _COMPARISONS[symbol], True
    return _NUMBER_SLOTS[symbol, arity], False


# The middle of the method behind an infix operator: __pow__, __rpow__, __ipow__.
_METHOD_STEMS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "@": "matmul",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "lshift",
    ">>": "rshift",
    "~": "invert",
    "==": "eq",
}
# Infix operators that __torch_function__ sees as the method of the protocol, not as the operator's,
# as PyTorch's Tensor defines them; in place, // is the operator's method.
_SEEN_AS_PROTOCOL = frozenset("** // & | ^ << >> ~ ==".split())


def overridden_names(symbol: str, arity: int, operator: str, inplace: bool) -> tuple[str, str]:
    """The methods of Tensor that an override receives: as written, and with a number on the left."""
    protocol = symbol in _SEEN_AS_PROTOCOL
    if inplace:
        name = f"__i{_METHOD_STEMS[symbol]}__" if protocol and symbol != "//" else operator
        return name, name
    forward = f"__{_METHOD_STEMS[symbol]}__" if protocol else operator
    if arity == 1 or symbol in _COMPARISONS:
        return forward, forward
    return forward, operator if symbol in COMMUTATIVE else f"__r{_METHOD_STEMS[symbol]}__"
