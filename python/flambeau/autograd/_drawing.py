"""Pictures of the graph of recorded operations: by graphviz where its ``dot`` is installed, else text."""

from __future__ import annotations

import html
import shutil
import subprocess
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flambeau._C import Node, Tensor

_COLORS = {
    "operation": "#f4f1ea",
    "function": "#e6dcf2",
    "parameter": "#cfe3f5",
    "leaf": "#e2e2e2",
    "output": "#f8d9b0",
}


@dataclass
class _Box:
    """One node as it is drawn."""

    number: int
    title: str
    detail: str
    kind: str
    sources: list[int] = field(default_factory=list)


def _describe(tensor_info: Any) -> str:
    shape, dtype = tensor_info[0], str(tensor_info[1]).rpartition(".")[2]
    return f"{' × '.join(map(str, shape)) or 'scalar'}  {dtype}"


def _operation(node: Node) -> str:
    name = node.name().rpartition("::")[2]
    stem, _, number = name.rpartition("Backward")
    return stem if stem and (number.isdigit() or not number) else name


def _names(params: Any) -> dict[int, str]:
    """Return names by the identity of the tensor."""
    if params is None:
        return {}
    if hasattr(params, "named_parameters"):
        params = dict(params.named_parameters())
    if not isinstance(params, Mapping):
        raise TypeError(
            f"draw: expected a dict of tensors or a module as params, got {type(params).__name__}"
        )
    return {id(tensor): name for name, tensor in params.items()}


class _Walk:
    """Collects the boxes behind some outputs, nearest first."""

    def __init__(self, outputs: Iterable[Tensor], names: dict[int, str], limit: int) -> None:
        self.names = names
        self.boxes: list[_Box] = []
        self.numbers: dict[int, int] = {}
        self.nodes: list[Any] = []  # of the boxes; keeps their identities alive
        from flambeau.autograd.graph import get_gradient_edge

        roots = []
        for output in outputs:
            if not output.requires_grad:
                raise RuntimeError("draw: the tensor does not require a gradient: it has no graph")
            roots.append(get_gradient_edge(output).node)
        self._run(roots, limit)

    def _number(self, node: Any) -> int:
        if id(node) not in self.numbers:
            self.numbers[id(node)] = len(self.nodes)
            self.nodes.append(node)
            self.boxes.append(self._box(node, len(self.boxes)))
        return self.numbers[id(node)]

    def _run(self, roots: list[Any], limit: int) -> None:
        for root in roots:
            self.boxes[self._number(root)].kind = "output"
        at = 0
        left_out: set[int] = set()
        seen: list[Any] = []
        while at < len(self.nodes):
            for source, _ in self.nodes[at].next_functions:
                if source is None:
                    continue
                if id(source) in self.numbers or len(self.nodes) < limit:
                    self.boxes[at].sources.append(self._number(source))
                elif id(source) not in left_out:
                    left_out.add(id(source))
                    seen.append(source)
            at += 1
        self.left_out = self._count_behind(seen) if seen else 0

    def _count_behind(self, pending: list[Any]) -> int:
        known = set(self.numbers)
        kept = list(pending)
        known.update(map(id, pending))
        count = 0
        while pending:
            node = pending.pop()
            count += 1
            for source, _ in node.next_functions:
                if source is not None and id(source) not in known:
                    known.add(id(source))
                    pending.append(source)
                    kept.append(source)
        return count

    def _box(self, node: Any, number: int) -> _Box:
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            name = self.names.get(id(variable))
            detail = _describe((variable.shape, variable.dtype))
            return _Box(number, name or "leaf", detail, "parameter" if name else "leaf")
        details = [_describe(info) for info in node._output_info if info is not None]
        kind = "function" if hasattr(type(node), "_forward_cls") else "operation"
        return _Box(number, _operation(node), "\n".join(details[:3]), kind)


@dataclass
class Drawing:
    """Picture of a graph, which `draw` returns; ``print`` shows it as text, notebooks as a picture.

    Args:
        source: the graph in graphviz's language.
        text: the graph as indented text.
        nodes: the number of nodes shown.
        left_out: the number of nodes left out.

    Example:
        >>> x = flambeau.ones(3, requires_grad=True)
        >>> flambeau.autograd.graph.draw(x.exp().sum()).nodes
        3
    """

    source: str
    text: str
    nodes: int
    left_out: int

    def __str__(self) -> str:
        return self.text

    def render(self, format: str = "svg") -> bytes:
        """Return the picture. Raises: RuntimeError if graphviz's ``dot`` is not installed."""
        program = shutil.which("dot")
        if program is None:
            raise RuntimeError("draw: graphviz is not installed (its program 'dot' is not on the PATH)")
        made = subprocess.run(
            [program, f"-T{format}", "-Gdpi=96"], input=self.source.encode(), capture_output=True, check=False
        )
        if made.returncode:
            raise RuntimeError(f"draw: dot failed: {made.stderr.decode().strip()}")
        return made.stdout

    def save(self, file: str | Path, format: str | None = None) -> Path:
        """Write the picture, or without graphviz the text beside its place; return the file written."""
        path = Path(file)
        wanted = format or path.suffix.lstrip(".") or "svg"
        if wanted in ("txt", "text"):
            path.write_text(self.text)
        elif wanted in ("dot", "gv"):
            path.write_text(self.source)
        elif shutil.which("dot") is None:
            path = path.with_suffix(".txt")
            path.write_text(self.text)
            warnings.warn(f"draw: graphviz is not installed: wrote text to {path}", stacklevel=2)
        else:
            path.write_bytes(self.render(wanted))
        return path

    def _repr_svg_(self) -> str | None:
        return self.render("svg").decode() if shutil.which("dot") else None


def draw(
    output: Tensor | Iterable[Tensor],
    params: Any = None,
    file: str | Path | None = None,
    format: str | None = None,
    limit: int = 200,
) -> Drawing:
    """Draw the recorded operations that computed a tensor, from its leaves to the tensor itself.

    Args:
        output: a tensor with a graph, such as a loss, or several of them.
        params: the names of leaves: a module, or a dict from names to tensors. None shows no names.
        file: the file to write the picture to. Its suffix selects the format: svg, png, pdf, dot or txt.
        format: the format, where the suffix does not give it.
        limit: the largest number of nodes, 1 or more; those nearest to the output are drawn, with a warning
            if some are left out.
    Returns: the picture.
    Raises: RuntimeError if the tensor has no graph, ValueError for a limit below 1, TypeError for other
        `params`.

    Example:
        >>> w = flambeau.ones(3, requires_grad=True)
        >>> print(flambeau.autograd.graph.draw((w * 2).exp().sum(), {"w": w}))
        Sum            scalar  float32
        └─ Exp         3  float32
           └─ Mul      3  float32
              └─ w     3  float32
    """
    if limit < 1:
        raise ValueError(f"draw: expected a limit of at least 1, got {limit}")
    outputs = [output] if isinstance(output, Tensor) else list(output)
    walk = _Walk(outputs, _names(params), limit)
    if walk.left_out:
        warnings.warn(
            f"draw: the graph has {len(walk.boxes) + walk.left_out} nodes; the {len(walk.boxes)} nearest to "
            "the output are drawn (raise `limit` to see more)",
            stacklevel=2,
        )
    drawing = Drawing(_source(walk), _text(walk), len(walk.boxes), walk.left_out)
    if file is not None:
        drawing.save(file, format)
    return drawing


def _source(walk: _Walk) -> str:
    lines = [
        "digraph {",
        '  graph [rankdir=TB, nodesep=0.25, ranksep=0.3, bgcolor="white"];',
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11, margin="0.14,0.06", '
        'color="#8a8a8a", penwidth=0.8];',
        '  edge [color="#6b6b6b", arrowsize=0.6, penwidth=0.9];',
    ]
    for box in walk.boxes:
        detail = html.escape(box.detail).replace("\n", "<br/>")
        small = f'<br/><font point-size="8.5" color="#555555">{detail}</font>' if detail else ""
        shape = ', shape=ellipse, style="filled"' if box.kind in ("parameter", "leaf") else ""
        title = html.escape(box.title)
        lines.append(
            f'  n{box.number} [label=<<b>{title}</b>{small}>, fillcolor="{_COLORS[box.kind]}"{shape}];'
        )
    for box in walk.boxes:
        lines += [f"  n{source} -> n{box.number};" for source in box.sources]
    if walk.left_out:
        lines.append(f'  more [label="… {walk.left_out} more nodes", style="dashed"];')
    return "\n".join([*lines, "}"]) + "\n"


def _text(walk: _Walk) -> str:
    """Return the boxes as a list indented by depth; one that was listed before stands as its number."""
    uses = [0] * len(walk.boxes)
    for box in walk.boxes:
        for source in box.sources:
            uses[source] += 1
    rows: list[tuple[str, str]] = []
    listed: set[int] = set()
    targets = [b.number for b in walk.boxes if b.kind == "output"]
    # (box, prefix of its line, prefix of what is below it)
    pending = [(number, "", "") for number in reversed(targets)]
    while pending:
        number, prefix, below = pending.pop()
        box = walk.boxes[number]
        mark = f" #{number}" if uses[number] > 1 and box.kind not in ("parameter", "leaf") else ""
        if number in listed and box.sources:
            rows.append((f"{prefix}{box.title}{mark} (above)", ""))
            continue
        listed.add(number)
        rows.append((f"{prefix}{box.title}{mark}", box.detail.replace("\n", ", ")))
        last = len(box.sources) - 1
        children = [
            (source, below + ("└─ " if i == last else "├─ "), below + ("   " if i == last else "│  "))
            for i, source in enumerate(box.sources)
        ]
        pending += reversed(children)
    width = min(60, max(len(name) for name, _ in rows) + 4)
    lines = [f"{name:<{width}} {detail}".rstrip() for name, detail in rows]
    if walk.left_out:
        lines.append(f"… {walk.left_out} more nodes")
    return "\n".join(lines)
