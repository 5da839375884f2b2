"""What a well-formed schema may still get wrong: aliases, outputs, defaults, names."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence

from codegen.language.schema import BASE_TYPES, default_fits, show_type
from codegen.language.spelling import CPP_KEYWORDS
from codegen.model import Argument, BaseType, ListType, OptionalType, Schema, Type
from codegen.reading import keys
from codegen.source.diagnostics import Collector
from codegen.source.nodes import Text

# PyTorch's language has more types; these are the ones an operator of ours may take.
SUPPORTED = (
    "Tensor Scalar int SymInt float bool str ScalarType Layout Device MemoryFormat Generator"
).split()


def _shown(types: Sequence[Type]) -> str:
    return show_type(types[0]) if len(types) == 1 else f"{len(types) or 'no'} results"


def _base(type_: Type) -> str:
    while isinstance(type_, OptionalType | ListType):
        type_ = type_.elem
    return type_.name


def check_schema(
    schema: Schema, offsets: Mapping[str, int], func: Text, kind: str, collector: Collector
) -> bool:
    """Report what is wrong; return whether the schema can be used."""
    check = _Check(schema, offsets, func, collector)
    before = len(collector)
    check.names()
    check.arguments()
    check.order()
    check.aliases(kind)
    check.returns(kind)
    check.inplace()
    return len(collector) == before


class _Check:
    def __init__(self, schema: Schema, offsets: Mapping[str, int], func: Text, collector: Collector) -> None:
        self.schema = schema
        self.offsets = offsets
        self.func = func
        self.collector = collector

    def report(self, offset: int, code: str, message: str, hint: str, length: int = 1) -> None:
        self.collector.add(self.func.at(offset), code, message, hint, length)

    def at_argument(self, arg: Argument, code: str, message: str, hint: str) -> None:
        self.report(self.offsets[arg.name], code, message, hint, len(arg.name))

    def names(self) -> None:
        base = self.schema.name.base
        if base in CPP_KEYWORDS or keyword.iskeyword(base):
            hint = "it is a keyword of C++ or Python: choose another name"
            self.report(0, "FB0108", f"reserved operator name '{base}'", hint, len(base))
        elif base.startswith("__"):
            hint = "Python calls names with two underscores by itself: choose another name"
            self.report(0, "FB0108", f"reserved operator name '{base}'", hint, len(base))
        for arg in self.schema.args:
            if arg.name in CPP_KEYWORDS or keyword.iskeyword(arg.name):
                message = f"reserved argument name '{arg.name}'"
                hint = "it is a keyword of C++ or Python: choose another name"
                self.at_argument(arg, "FB0108", message, hint)
            elif arg.name in keys.RESERVED_ARGS:
                message = f"reserved argument name '{arg.name}'"
                hint = "formulas and generated code use it themselves"
                if arg.name == "grad":
                    hint += ": call it grad_output"
                self.at_argument(arg, "FB0108", message, hint)

    def arguments(self) -> None:
        for arg in self.schema.args:
            base = _base(arg.type)
            if base not in BASE_TYPES:
                continue
            if base not in SUPPORTED:
                message = f"type {show_type(arg.type)} is not supported"
                self.at_argument(arg, "FB0202", message, f"types: {', '.join(SUPPORTED)}")
            if arg.default is not None and not default_fits(arg.type, arg.default):
                message = f"default {arg.default} is not a {show_type(arg.type)}"
                self.at_argument(arg, "FB0205", message, _default_hint(arg))

    def order(self) -> None:
        seen: Argument | None = None
        for arg in self.schema.args:
            if arg.kwarg_only:
                break
            if arg.default is not None:
                seen = arg
            elif seen is not None:
                message = f"'{arg.name}' has no default but follows '{seen.name}', which has one"
                self.at_argument(arg, "FB0206", message, f"give '{arg.name}' a default or move it forward")

    def aliases(self, kind: str) -> None:
        written = {b for a in self.schema.args if a.alias for b in a.alias.before}
        for arg in self.schema.args:
            self._argument_alias(arg)
        for result in self.schema.returns:
            if result.alias is None:
                continue
            unknown = [b for b in result.alias.before if b not in written and b != "*"]
            if unknown:
                message = f"returned alias ({unknown[0]}) is not an argument's"
                hint = f"mark the argument that the result shares memory with: Tensor({unknown[0]}) self"
                self.report(self._returns_offset(), "FB0203", message, hint)
        if kind == "view":
            self._view()

    def _argument_alias(self, arg: Argument) -> None:
        if arg.name == "out" and not (arg.alias and arg.alias.is_write):
            message = "argument 'out' is not marked as written to"
            self.at_argument(
                arg, "FB0204", message, "derived: put `out` into variants, and remove the argument"
            )
        elif arg.is_out:
            message = f"out argument '{arg.name}' in a schema"
            hint = "derived: put `out` into variants, and remove the argument"
            self.at_argument(arg, "FB0204", message, hint)
        elif arg.alias and _base(arg.type) != "Tensor":
            message = f"alias annotation on a {show_type(arg.type)}"
            self.at_argument(arg, "FB0203", message, "only Tensors share memory: remove it")

    def returns(self, kind: str) -> None:
        """Loops and rules make one result; what returns nothing writes to a list."""
        types = [r.type for r in self.schema.returns]
        if kind in ("pointwise", "reduce") and types != [BaseType("Tensor")]:
            if all(_base(type_) in BASE_TYPES for type_ in types):
                hint = "return one Tensor; several results come from a composite or from kernels"
                message = f"a {kind} operator returns {_shown(types)}"
                self.report(self._returns_offset(), "FB0306", message, hint, 6)
        elif kind == "view" and len(types) != 1:
            message, hint = f"a view returns {_shown(types)}", "return Tensor(a) or Tensor(a)[]"
            self.report(self._returns_offset(), "FB0306", message, hint)
        elif not types and not any(a.alias and a.alias.is_write for a in self.schema.args):
            hint = "say what is returned: '-> Tensor'"
            self.report(self._returns_offset(), "FB0306", "nothing is returned and nothing written to", hint)

    def _returns_offset(self) -> int:
        return self.func.value.rfind("->") + 3

    def _view(self) -> None:
        """A view says which argument it is a view of: Tensor(a) self -> Tensor(a)."""
        alias = self.schema.args[0].alias if self.schema.args else None
        is_tensor = bool(self.schema.args) and self.schema.args[0].type == BaseType("Tensor")
        if not is_tensor or alias is None or alias.is_write:
            message = "a view's first argument is not marked as shared"
            self.report(0, "FB0203", message, "write Tensor(a) self and return Tensor(a) or Tensor(a)[]")
            return
        for result in self.schema.returns:
            if result.alias is None:
                message = "a view's result is not marked as shared"
                self.report(self._returns_offset(), "FB0203", message, "return Tensor(a) or Tensor(a)[]")

    def inplace(self) -> None:
        """`add_` writes to self and returns it; what writes to a list returns nothing."""
        if not self.schema.name.inplace or not self.schema.args:
            for arg in self.schema.args:
                if arg.name == "self" and arg.alias and arg.alias.is_write:
                    hint = f"call the operator {self.schema.name.base}_, or remove '!'"
                    message = "self is written to but the operator's name does not end with _"
                    self.at_argument(arg, "FB0203", message, hint)
            return
        first = self.schema.args[0]
        if not (first.alias and first.alias.is_write):
            message = f"in-place operator does not write to '{first.name}'"
            self.at_argument(first, "FB0203", message, "write Tensor(a!) self")
            return
        good = len(self.schema.returns) == 1 and self.schema.returns[0].alias == first.alias
        good |= not self.schema.returns and isinstance(first.type, ListType)
        if not good:
            message = "in-place operator does not return self"
            self.report(self._returns_offset(), "FB0207", message, "return Tensor(a!)")


def _default_hint(arg: Argument) -> str:
    match arg.type:
        case OptionalType(elem):
            return f"write None or a {show_type(elem)}"
        case ListType(elem, size):
            return f"write [..] of {show_type(elem)}" + ("" if size is None else " or one for all")
        case BaseType("str"):
            return "quote it: 'text'"
        case BaseType("bool"):
            return "write True or False"
        case BaseType("int" | "SymInt"):
            return "write an integer; for a number with a fraction declare float"
        case _:
            return "write a value of the type, make the type optional (Type?), or drop the default"
