"""How the table and the struct of a dispatcher entry are spelled."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.deriving import slots
from codegen.language import spelling
from codegen.model import BaseType, Form, Model, Operator, OptionalType
from codegen.writing import library_spelling

_DEVICE = (BaseType("Device"), OptionalType(BaseType("Device")))
# The order of c10::DispatchKey, as far as generated tables reach.
_KEYS = (
    "CPU",
    "CUDA",
    "Meta",
    "PrivateUse1",
    "PrivateUse2",
    "PrivateUse3",
    "BackendMode",
    "Conjugate",
    "Negative",
    "FuncTorchBack",
    "Autograd",
)


@dataclass(frozen=True, slots=True)
class EntryDecl:
    """All that the templates print about one dispatcher entry."""

    struct: str
    name: str
    schema: str
    returns: str
    kernel_type: str  # parameter types after the key set
    declared: str  # parameters with defaults
    parameters: str  # without
    passed: str
    names: str
    keys: str
    slots: tuple[str, ...]  # one per dispatch key: a function or nullptr
    externs: tuple[str, ...]  # declarations of those functions

    @classmethod
    def of(cls, model: Model, op: Operator, form: Form) -> EntryDecl:
        """Take every decision about one entry."""
        schema = form.schema
        struct = spelling.struct_name(form.name)
        suffixes = slots.backends(op, form)
        returns = spelling.return_type(schema.returns)
        types = [spelling.parameter(arg).rpartition(" ")[0] for arg in schema.args]
        kernel_type = ", ".join(["DispatchKeySet", *types])
        return cls(
            struct=struct,
            name=library_spelling.entry_name(model, form),
            schema=library_spelling.entry_schema(model, form),
            returns=returns,
            kernel_type=kernel_type,
            declared=spelling.parameters_with_defaults(schema.args),
            parameters=spelling.parameters(schema),
            passed=spelling.argument_names(schema),
            names="".join(f", {spelling.local(arg.name)}" for arg in schema.args),
            keys=_keys(form),
            slots=tuple(
                f"reinterpret_cast<void*>(&generated::{struct}_{suffixes[key]})"
                if key in suffixes
                else "nullptr"
                for key in _KEYS
            ),
            externs=tuple(
                f"{returns} {struct}_{suffix}({kernel_type})" for suffix in sorted(set(suffixes.values()))
            ),
        )


def _keys(form: Form) -> str:
    """The key set of a call: of its tensors, else of its device; and of the layout asked for."""
    layout = slots.layout_argument(form)
    keys = _keys_without_layout(form)
    return f"{keys} | keys_of({spelling.local(layout.name)})" if layout else keys


def _keys_without_layout(form: Form) -> str:
    args = form.schema.args
    tensors = [arg for arg in args if slots.is_tensor_like(arg.type)]
    if tensors:
        keys = " | ".join(
            f"keys_of({spelling.local(arg.name)}{'' if slots.may_be_absent(arg.type) else ', entry'})"
            for arg in tensors
        )
        surely = any(arg.type == slots.TENSOR for arg in tensors)
        return keys if surely else f"keys_or_cpu({keys})"
    device = next((arg for arg in args if arg.type in _DEVICE), None)
    return f"keys_of({spelling.local(device.name)})" if device else "DispatchKeySet(DispatchKey::CPU)"
