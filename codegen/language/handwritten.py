"""The C++ functions that an entry expects by hand: kernels, shape rules and view rules, with their types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.language import spelling
from codegen.model import Body, Kernels, ListType, Rule, Schema, View

Sparse = tuple[tuple[str, str], ...]  # Operator.sparse


@dataclass(frozen=True, slots=True)
class Function:
    """One function; `role` is kernel, sparse rule, shape rule or view rule."""

    role: str
    namespace: str  # below flambeau
    name: str
    returns: str
    parameters: tuple[tuple[str, str], ...]  # type and name

    @property
    def types(self) -> tuple[str, ...]:
        """Return the parameters' types."""
        return tuple(type_ for type_, _ in self.parameters)

    def __str__(self) -> str:
        params = ", ".join(f"{type_} {name}" for type_, name in self.parameters)
        return f"{self.returns} {self.name}({params})"


def sparse_functions(schema: Schema, sparse: Sparse) -> Iterator[Function]:
    """Yield what `sparse:` names; a function that writes to its first argument returns nothing."""
    params = tuple(_parameter(schema, arg.name) for arg in schema.args)
    for key, name in sparse:
        if key == "functional":
            yield Function("sparse rule", "ops", name, spelling.return_type(schema.returns), params)
        else:
            written = (("Tensor&", params[0][1]), *params[1:])
            yield Function("sparse rule", "ops", name, "void", written)


def functions(schema: Schema, body: Body | None) -> Iterator[Function]:
    """Yield what the body of an operator expects."""
    if isinstance(body, View):
        several = isinstance(schema.returns[0].type, ListType)
        returns = "std::vector<ViewGeometry>" if several else "ViewGeometry"
        yield Function("view rule", "view", body.rule.name, returns, _rule_parameters(schema, body.rule))
    if isinstance(body, Kernels):
        if body.shape is not None:
            params = (*_rule_parameters(schema, body.shape), ("OutSpec*", "out"))
            yield Function("shape rule", "shape", body.shape.name, "void", params)
        preallocated = body.dynamic is None and not schema.name.inplace
        returns = "void" if body.dynamic is None else spelling.return_type(schema.returns)
        params = tuple(_parameter(schema, arg.name) for arg in schema.args)
        outs = tuple(_outputs(schema)) if preallocated else ()
        for _, name in body.by_backend:
            yield Function("kernel", "ops", name, returns, (*params, *outs))


def _parameter(schema: Schema, name: str) -> tuple[str, str]:
    arg = next(a for a in schema.args if a.name == name)
    type_, _, local = spelling.parameter(arg).rpartition(" ")
    return type_, local


def _rule_parameters(schema: Schema, rule: Rule) -> tuple[tuple[str, str], ...]:
    return tuple(_parameter(schema, name) for name in rule.args)


def _outputs(schema: Schema) -> Iterator[tuple[str, str]]:
    """Kernels fill their outputs; a named one must not hide an argument of that name."""
    several = len(schema.returns) > 1
    for i, result in enumerate(schema.returns):
        bare = f"out{i}" if several else "out"
        yield "Tensor&", f"{result.name}_out" if result.name else bare
