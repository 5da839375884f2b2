"""One entry of native_functions.yaml: keys, schema and forms, before its expressions are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from codegen.language.forms import can_inplace, can_out, derive, is_tensor
from codegen.language.schema import SchemaError, parse
from codegen.model import Doc, Form, Kind, Position, Schema
from codegen.reading import keys
from codegen.reading.copies import can_copy, copy_of
from codegen.reading.decompositions import decomposition_of
from codegen.reading.documentation import read_doc
from codegen.reading.fields import Fields, check_keys, is_identifier, repair_keys
from codegen.reading.foreach import foreach_of
from codegen.reading.functionals import functional_of
from codegen.reading.schema_check import check_schema
from codegen.source.diagnostics import Collector, closest, did_you_mean, edits_apart
from codegen.source.nodes import Mapping, Node, Text

_KINDS = {kind.value: kind for kind in Kind}


@dataclass(slots=True)
class Draft:
    """An entry whose keys and schema are known."""

    fields: Fields
    func: Text
    schema: Schema
    offsets: dict[str, int]
    kind: Kind
    kind_key: str
    family: str
    variants: tuple[str, ...]
    scalars: tuple[tuple[str, ...], ...]
    namespace: str
    infix: str | None
    doc: Doc
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    orders: tuple[tuple[str, ...], ...]
    broken: bool  # a mistake was found that leaves the operator unusable
    forms: tuple[Form, ...] = ()
    name: str = field(init=False)  # the operator's, with its overload

    def __post_init__(self) -> None:
        self.name = str(self.schema.name)

    @property
    def position(self) -> Position:
        """Where the entry begins."""
        return self.fields.node.position

    @property
    def is_derived(self) -> bool:
        """Whether the entry was made from another one, whose texts it shares."""
        return self.func.is_made

    @property
    def is_internal(self) -> bool:
        """Whether users never see the operator."""
        return self.schema.name.base.startswith("_")

    def argument_position(self, name: str) -> Position:
        """Where an argument stands in the schema."""
        return self.func.at(self.offsets.get(name, 0))


def read_entry(node: Node, collector: Collector) -> Draft | None:
    """Read one entry; None when too little is known to go on."""
    if not isinstance(node, Mapping):
        hint = "write '- func: name(...) -> Type' and its keys below"
        collector.add(node.position, "FB0004", "expected an entry with keys", hint)
        return None
    fields = Fields(node, collector)
    repair_keys(fields, keys.ENTRY)
    kind_key = _kind(fields)
    check_keys(fields, keys.ENTRY, kind_key)
    func = fields.scalar("func")
    parsed = None if func is None else _parse_schema(func, collector)
    family = _family(fields)
    variants = fields.choices("variants", keys.VARIANTS)
    namespace = fields.choice("namespace", keys.NAMESPACES) or ""
    infix = fields.choice("infix", keys.INFIX)
    doc = read_doc(fields)
    tags = tuple(tag for tag, _ in fields.choices("tags", keys.TAGS) or ())
    aliases = tuple(_aliases(fields))
    if func is None or parsed is None or kind_key is None:
        return None
    schema, offsets, broken = parsed
    broken |= not check_schema(schema, offsets, func, kind_key, collector)
    chosen = _variants(fields, schema, variants, broken)
    scalars = () if broken else _scalars(fields, schema)
    orders = () if broken else tuple(_orders(fields, schema))
    return Draft(
        fields, func, schema, offsets, _KINDS[kind_key], kind_key, family, chosen, scalars,
        namespace, infix, doc, tags, aliases, orders, broken,
    )  # fmt: skip


def read_entries(node: Node, collector: Collector) -> Iterator[Draft | None]:
    """Read one entry, the entries that are made from it, and its overloads over lists."""
    draft = read_entry(node, collector)
    yield draft
    if draft is not None and not draft.broken and "copy" in draft.variants:
        yield read_entry(copy_of(draft.fields.node, draft.func, draft.schema), collector)
    name = draft.fields.scalar("functional") if draft is not None and not draft.broken else None
    if draft is not None and name is not None:
        yield read_entry(functional_of(draft.fields.node, draft.func, draft.schema, name), collector)
    if draft is not None and not draft.broken and draft.fields.node.get("decomposition"):
        yield read_entry(decomposition_of(draft.fields.node, draft.func, draft.schema), collector)
    if draft is not None and not draft.broken:
        rows = foreach_of(draft.fields.node.get("foreach"), draft.schema, draft.variants, draft.scalars)
        yield from (read_entry(row, collector) for row in rows)


def check_families(drafts: Sequence[Draft], sections: frozenset[str]) -> None:
    """A family without a section, and close to one that has others, is misspelt: take it for that one."""
    counts = Counter(draft.family for draft in drafts)
    for draft in drafts:
        text = draft.fields.scalar("family")
        if text is None or draft.family in sections or not _names_files(draft.family):
            continue
        larger = sections.union(f for f in counts if counts[f] > counts[draft.family])
        guess = closest(draft.family, sorted(larger))
        if guess is not None and edits_apart(draft.family, guess) <= 2:
            message = f"no section '{draft.family}' in the file"
            hint = f"did you mean '{guess}'? A new family begins with a line '# ==== {draft.family} ===='"
            draft.fields.collector.add(text.position, "FB0104", message, hint, text.length)
            draft.family = guess


def derive_forms(drafts: Iterable[Draft]) -> None:
    """Give each entry its forms; names depend on which overloads its neighbours have."""
    sound = [draft for draft in drafts if not draft.broken]
    bare_out = {d.schema.name.base for d in sound if not d.schema.name.overload and "out" in d.variants}
    for draft in sound:
        taken = draft.schema.name.base in bare_out
        draft.forms = tuple(derive(draft.schema, draft.variants, draft.scalars, taken))


def _parse_schema(func: Text, collector: Collector) -> tuple[Schema, dict[str, int], bool] | None:
    try:
        parsed = parse(func.value)
    except SchemaError as error:
        at = func.at(error.offset)
        collector.add(at, error.code, error.message, error.hint, error.length)
        return None
    for problem in parsed.problems:
        at = func.at(problem.offset)
        collector.add(at, problem.code, problem.message, problem.hint, problem.length)
    return parsed.schema, parsed.offsets, bool(parsed.problems)


def _kind(fields: Fields) -> str | None:
    """Return the one key that says how the operator computes."""
    given = [key for key in keys.KIND_KEYS if fields.node.get(key) is not None]
    if len(given) == 1:
        return given[0]
    allowed = ", ".join(keys.KIND_KEYS)
    if given:
        at = fields.key_position(given[1])
        message = f"'{given[1]}' beside '{given[0]}': an operator computes in one way"
        fields.collector.add(at, "FB0105", message, f"keep one of {allowed}", len(given[1]))
        return given[0]
    message = "no key says how the operator computes"
    typo = [did_you_mean(k.value, keys.KIND_KEYS) for k, _ in fields.node.items if k.value not in keys.ENTRY]
    hint = next((t for t in typo if t), f"give exactly one of {allowed}")
    fields.collector.add(fields.node.position, "FB0105", message, hint)
    return None


def _names_files(family: str) -> bool:
    return is_identifier(family) and family == family.lower()


def _family(fields: Fields) -> str:
    text = fields.scalar("family")
    if text is None:
        return ""
    if not _names_files(text.value):
        message = f"family: expected a lower-case identifier, got '{text.value}'"
        hint = "a family names files: letters, digits and _"
        fields.collector.add(text.position, "FB0103", message, hint, text.length)
    return text.value


def _aliases(fields: Fields) -> Iterator[str]:
    """`aliases: [absolute, special.expit]`: names, in a namespace of their own where one is given."""
    for text in fields.texts("aliases"):
        namespace, _, name = text.value.rpartition(".")
        if is_identifier(name) and (not namespace or namespace in keys.NAMESPACES):
            yield text.value
            continue
        message = f"aliases: expected name or namespace.name, got '{text.value}'"
        hint = did_you_mean(namespace, keys.NAMESPACES, "namespaces")
        fields.collector.add(text.position, "FB0103", message, hint, text.length)


def _orders(fields: Fields, schema: Schema) -> Iterator[tuple[str, ...]]:
    """`orders: ["self, value, tensor1, tensor2"]`: each names what is given by position, in that order."""
    known = [a.name for a in schema.args]
    required = [a.name for a in schema.args if a.default is None]
    for text in fields.texts("orders"):
        names = tuple(name.strip() for name in text.value.split(","))
        strange = [name for name in names if name not in known]
        missing = [name for name in required if name not in names]
        if not strange and not missing and len(set(names)) == len(names):
            yield names
            continue
        hint = did_you_mean(strange[0], known, "arguments") if strange else "name each argument once"
        what = f"'{strange[0]}' is not an argument" if strange else f"expected {', '.join(required)}"
        fields.collector.add(text.position, "FB0104", f"orders: {what}", hint, text.length)


def _variants(
    fields: Fields, schema: Schema, given: tuple[tuple[str, Text], ...] | None, broken: bool
) -> tuple[str, ...]:
    """Return the forms in `variants`; none if the schema is broken."""
    has_self = any(a.name == "self" and is_tensor(a.type) for a in schema.args)
    if given is None:
        return ("function", "method") if has_self else ("function",)
    kept: list[str] = []
    for variant, text in given:
        problem = None if broken else _variant_problem(variant, schema, has_self)
        if problem:
            message, hint = problem
            group = f"variants {schema.name}" if has_self else f"name {schema.name} self"
            fields.collector.add(text.position, "FB0208", message, hint, text.length, group=group)
        else:
            kept.append(variant)
    return tuple(kept)


def _variant_problem(variant: str, schema: Schema, has_self: bool) -> tuple[str, str] | None:
    if variant == "method" and not has_self:
        return "variant method without an argument 'self'", "remove it, or call the tensor self"
    if variant == "copy" and not can_copy(schema):
        return (
            "variant copy of an operator that makes no view",
            "write the alias: Tensor(a) self -> Tensor(a)",
        )
    if variant != "function" and variant != "method" and schema.name.inplace:
        return f"variant {variant} of an in-place operator", "declare the functional operator"
    if variant.startswith("inplace") and not can_inplace(schema):
        hint = "an in-place form takes a Tensor self and returns one Tensor"
        return "variant inplace does not fit the schema", hint
    if variant == "out" and not can_out(schema):
        return "variant out does not fit the schema", "an out form returns new Tensors only"
    return None


def _scalars(fields: Fields, schema: Schema) -> tuple[tuple[str, ...], ...]:
    """`scalars: [[other], [self]]`: one overload for each inner list."""
    tensors = [a.name for a in schema.args if is_tensor(a.type)]
    found: list[tuple[str, ...]] = []
    for group in fields.lists("scalars"):
        names: list[str] = []
        for text in group:
            if text.value in tensors:
                names.append(text.value)
                continue
            hint = did_you_mean(text.value, tensors, "Tensor arguments")
            message = f"scalars: '{text.value}' is not a Tensor argument"
            fields.collector.add(text.position, "FB0104", message, hint, text.length)
        if names and len(names) == len(tensors):
            message = "scalars: no Tensor argument is left"
            at = group[0].position
            fields.collector.add(at, "FB0104", message, "keep at least one Tensor argument")
        elif names:
            found.append(tuple(names))
    return tuple(found)
