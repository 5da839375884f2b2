"""An author's file: the operators of an extension, beside those of flambeau.

The file begins with `- extension: name`, the namespace of its operators. Its entries are written in the
language of native_functions.yaml. Each gets the family of its namespace, and no method of Tensor.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from codegen.language.spelling import CPP_KEYWORDS
from codegen.reading import keys
from codegen.reading.entries import Draft
from codegen.reading.fields import Fields, check_keys, is_identifier
from codegen.source.diagnostics import Collector, did_you_mean
from codegen.source.nodes import Loaded, Mapping, Node, Sequence, Text, load_entries

KEY = "extension"


@dataclass(frozen=True, slots=True)
class Author:
    """The files of an extension; `derivatives` is None if every gradient is derived."""

    native: Path
    derivatives: Path | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """What the first entry of an author's file says."""

    text: Text  # the name, where it stands
    sources: tuple[Path, ...]  # files in C++ with the author's kernels and rules
    loaded: Loaded  # the other entries

    @property
    def name(self) -> str:
        """The namespace, which is the family of all entries."""
        return self.text.value


def read_library(path: Path, shown: str, collector: Collector) -> Library | None:
    """Read an author's file; None if it does not say which namespace its operators have."""
    loaded = load_entries(path, shown, collector)
    if loaded.is_absent:
        if not collector.found:
            hint = f"begin it with '- {KEY}: name'; an operator is an entry that begins with '- func: '"
            collector.add(loaded.place, "FB0004", "no entries in the file", hint)
        return None
    first, *entries = loaded.entries
    if not isinstance(first, Mapping) or first.get(KEY) is None:
        hint = f"begin the file with '- {KEY}: name': the namespace in which users find its operators"
        collector.add(first.position, "FB0102", f"missing key '{KEY}'", hint)
        return None
    fields = Fields(first, collector)
    before = len(collector)
    check_keys(fields, keys.EXTENSION)
    name = fields.scalar(KEY)
    if name is None or len(collector) > before or not _is_name(name, collector):
        return None
    sources = tuple(_sources(fields, path.resolve().parent))
    made = [_prepared(node, name, collector) for node in entries if not _is_second(node, collector)]
    return Library(name, sources, replace(loaded, entries=made))


def is_taken(library: Library, families: Collection[str], collector: Collector) -> bool:
    """Whether flambeau uses the namespace itself, which is reported."""
    text = library.text
    if text.value not in families and text.value not in _RESERVED:
        return False
    message = f"{KEY}: flambeau itself uses the name '{text.value}'"
    collector.add(text.position, "FB0108", message, "choose another namespace", text.length)
    return True


_RESERVED = frozenset(
    ("aten", "prim", "prims", "torch", "flambeau", "higher_order", "codegen", *keys.NAMESPACES)
)


def _is_name(text: Text, collector: Collector) -> bool:
    name = text.value
    if is_identifier(name) and name == name.lower() and not name.startswith("_"):
        if name not in CPP_KEYWORDS and not keyword.iskeyword(name):
            return True
        hint = "it is a keyword of C++ or Python: choose another name"
        collector.add(text.position, "FB0108", f"reserved namespace '{name}'", hint, text.length)
        return False
    message = f"{KEY}: expected a lower-case identifier, got '{name}'"
    hint = "it names a package, a folder and a namespace: a letter, then letters, digits and _"
    collector.add(text.position, "FB0103", message, hint, text.length)
    return False


def _sources(fields: Fields, folder: Path) -> Iterable[Path]:
    """`sources: [kernels/*.cpp]`: the files of the patterns, relative to the author's file."""
    for text in fields.texts("sources"):
        pattern = text.value
        inside = not Path(pattern).is_absolute() and ".." not in Path(pattern).parts
        found = sorted(p for p in folder.glob(pattern) if p.suffix == ".cpp") if inside and pattern else []
        if found:
            yield from found
            continue
        message = f"sources: no file in C++ (.cpp) is called '{pattern}'"
        hint = f"write a path or a pattern below {folder.name or folder}/, such as kernels/*.cpp"
        fields.collector.add(text.position, "FB0005", message, hint, text.length)


# Keys that change Tensor, or namespaces of flambeau, or need the parts of flambeau that are not public.
_ABSENT = {
    "family": "the operators of an extension are one family: remove it",
    "namespace": f"users find the operator in the namespace that '- {KEY}:' names: remove it",
    "infix": "Python's operators belong to flambeau: remove it",
    "aliases": "declare a composite of that name",
    "orders": "declare an overload with that order of arguments",
    "element": "remove it: compilers read the operators of flambeau",
    "flops": "register a formula in Python: utils.flop_counter.register_flop_formula",
    "foreach": "declare an operator over Tensor[]",
    "functional": "declare the functional operator and put inplace into its variants",
    "sparse": "an extension has no functions for sparse tensors: remove it",
    "view": "write a composite of views of flambeau, or kernels with a copy",
    "read_back": "remove it",
}
_VARIANTS = {
    "method": "an extension adds no methods to Tensor: remove it",
    "inplace_function": "write inplace",
    "copy": "an extension makes no views: remove it",
}


def _is_second(node: Node, collector: Collector) -> bool:
    """Whether an entry would begin another extension, which is reported."""
    if not isinstance(node, Mapping) or node.get(KEY) is None:
        return False
    hint = "one file describes one extension: write a second file"
    collector.add(node.position, "FB0003", f"a second '{KEY}' in the file", hint, len(KEY))
    return True


def _prepared(node: Node, name: Text, collector: Collector) -> Node:
    """Give an entry its family and its variants; report what only operators of flambeau can have."""
    if not isinstance(node, Mapping):
        return node
    for key, _ in node.items:
        if key.value in _ABSENT:
            message = f"'{key.value}' does not belong to an operator of an extension"
            collector.add(key.position, "FB0106", message, _ABSENT[key.value], key.length)
    kept = [(key, value) for key, value in node.items if key.value not in ("family", "namespace", "variants")]
    variants = _kept_variants(node, name, collector)
    key = name.replaced("family")
    return replace(node, items=(*kept, (key, name.replaced(name.value)), variants))


def _kept_variants(node: Mapping, name: Text, collector: Collector) -> tuple[Text, Node]:
    given, key = node.get("variants"), node.key("variants")
    if key is None or not isinstance(given, Sequence):
        made = Sequence((name.replaced("function"),), node.position)
        return (key or name.replaced("variants"), given or made)
    kept: list[Node] = []
    for item in given.items:
        if isinstance(item, Text) and item.value in _VARIANTS:
            message = f"variant {item.value} of an operator of an extension"
            collector.add(item.position, "FB0208", message, _VARIANTS[item.value], item.length)
        else:
            kept.append(item)
    return key, Sequence(tuple(kept), given.position)


# Functions and variables of generated C++, which an argument of the same name would hide.
_HIDING = frozenset(
    (
        "add_tangents allocate any_requires_grad below check check_apart check_inplace check_inplace_grad "
        "check_sharing choose_case dual exact_outs fail fitted_tangent forward_grad gradients "
        "has_forward_grad is_view keep make_node make_writable output part pointwise pointwise_dtypes "
        "pointwise_inplace pointwise_out pointwise_spec primal_of rebase_history records reduce "
        "reduce_dtypes reduce_out reduce_spec refuse_gradient refuse_out require_castable require_dtype "
        "require_meta save_list set_forward_grad set_history should_compute tangent tensors_of total view_of "
        "wrapped_number_tensor"
    ).split()
)
_NUMBERED = re.compile(r"(?:out|result|shared|spec|tangent|target)\d+|forward_grad_or_zeros")


def refuse_hiding(drafts: Iterable[Draft], collector: Collector) -> None:
    """Report arguments whose names generated code uses for itself."""
    for draft in drafts:
        own = {f"{arg.name}{ending}" for arg in draft.schema.args for ending in ("_t", "_p")}
        if draft.fields.node.get("pointwise") is not None:
            own.add("grad_output")  # an argument of the derived gradient
        for arg in draft.schema.args:
            if arg.name in _HIDING or arg.name in own or _NUMBERED.fullmatch(arg.name):
                message = f"reserved argument name '{arg.name}'"
                hint = "generated code uses the name itself: choose another one"
                collector.add(draft.argument_position(arg.name), "FB0108", message, hint, len(arg.name))


def refuse_taken(drafts: Iterable[Draft], taken: Collection[str], collector: Collector) -> list[Draft]:
    """Return the author's drafts without those whose names are operators of flambeau."""
    kept: list[Draft] = []
    for draft in drafts:
        base = draft.schema.name.base
        if base not in taken:
            kept.append(draft)
            continue
        message = f"'{base}' is an operator of flambeau"
        hint = "entries call operators by this name: choose another one"
        collector.add(draft.func.at(0), "FB0107", message, hint, len(base))
    return kept


def refuse_foreign(formulas: Iterable[Node], taken: Collection[str], collector: Collector) -> list[Node]:
    """Return an author's derivatives without those of operators of flambeau."""
    kept: list[Node] = []
    for node in formulas:
        name = node.get("name") if isinstance(node, Mapping) else None
        if not isinstance(name, Text) or name.value not in taken:
            kept.append(node)
            continue
        message = f"derivative of '{name.value}', an operator of flambeau"
        hint = (
            did_you_mean(name.value, ()) or "an extension differentiates its own operators: remove the entry"
        )
        collector.add(name.position, "FB0401", message, hint, name.length)
    return kept
