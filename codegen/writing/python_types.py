"""How schema types and signatures read in Python: for error messages, stubs and reference pages."""

from __future__ import annotations

from codegen.deriving.signatures import Callable, Signature, is_factory, python_name
from codegen.model import Argument, BaseType, Form, ListType, OptionalType, Return, Type
from codegen.model.enumerations import ENUM_INTS, PYTHON_ENUM_DEFAULT

_NAMES = {
    "Tensor": "Tensor",
    "Scalar": "Number",
    "int": "int",
    "SymInt": "int",
    "DeviceIndex": "int",
    "float": "float",
    "bool": "bool",
    "SymBool": "bool",
    "str": "str",
    "ScalarType": "dtype",
    "Layout": "layout",
    "Device": "device",
    "MemoryFormat": "memory_format",
    "Generator": "Generator",
}
_STUB_NAMES = {"Scalar": "Number", "Device": "DeviceLike"}


def shown_type(type_: Type) -> str:
    """Return a type for people: ``tuple of ints``."""
    if isinstance(type_, OptionalType):
        return shown_type(type_.elem)
    if isinstance(type_, ListType):
        return f"tuple of {shown_type(type_.elem)}s"
    return _NAMES[type_.name]


def stub_type(type_: Type) -> str:
    """Return an argument's annotation in a .pyi file."""
    if isinstance(type_, OptionalType):
        return f"{stub_type(type_.elem)} | None"
    if isinstance(type_, ListType):
        inner = f"Sequence[{stub_type(type_.elem)}]"
        return f"{stub_type(type_.elem)} | {inner}" if type_.size is not None else inner
    return _STUB_NAMES.get(type_.name, _NAMES[type_.name])


def stub_result(op_returns: tuple[Return, ...]) -> str:
    """Return the annotation of a result."""
    if not op_returns:
        return "None"
    items = [_result(ret.type) for ret in op_returns]
    return items[0] if len(items) == 1 else f"tuple[{', '.join(items)}]"


def _result(type_: Type) -> str:
    if isinstance(type_, OptionalType):
        return f"{_result(type_.elem)} | None"
    if isinstance(type_, ListType):
        return f"tuple[{_result(type_.elem)}, ...]"
    return _NAMES[type_.name] if type_.name != "Scalar" else "Number"


def shown_default(arg: Argument) -> str:
    """Return a default as Python source."""
    assert arg.default is not None
    text = arg.default
    if isinstance(arg.type, ListType) and text.startswith("["):
        inner = text[1:-1].strip()
        return f"({inner},)" if inner and "," not in inner else f"({inner})"
    core = arg.type.elem if isinstance(arg.type, OptionalType) else arg.type
    if core == BaseType("ScalarType") and text != "None":
        return f"flambeau.{text}"
    if core == BaseType("float") and text in ("inf", "-inf", "nan"):
        return f'float("{text}")'
    if text in ENUM_INTS:
        return PYTHON_ENUM_DEFAULT
    return {"contiguous_format": "flambeau.contiguous_format"}.get(text, text)


def show_signature(callable_: Callable, signature: Signature) -> str:
    """Return ``add(Tensor input, Tensor other, *, Number alpha=1, Tensor out=None)``."""
    method = callable_.namespace is None
    parts: list[str] = []
    starred = False
    for arg in signature.args[1:] if method else signature.args:
        if arg.kwarg_only and not starred:
            parts.append("*")
            starred = True
        default = "" if arg.default is None else f"={shown_default(arg)}"
        parts.append(f"{shown_type(arg.type)} {python_name(arg, method)}{default}")
    if is_factory(signature.form):
        parts += [*(["*"] * (not starred)), "bool requires_grad=False"]
        starred = True
    if signature.out is not None:
        parts += ["*"] * (not starred)
        kind = "Tensor" if len(signature.out_args) == 1 else "tuple of Tensors"
        parts.append(f"{kind} out=None")
    return f"{callable_.name}({', '.join(parts)})"


def shown_result(form: Form, op_fields: tuple[str, ...]) -> str:
    """Return what a call yields, for people."""
    if op_fields:
        return f"({', '.join(op_fields)})"
    return stub_result(form.schema.returns)
