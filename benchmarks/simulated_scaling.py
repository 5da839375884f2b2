"""Predict weak and strong scaling of two transformers: tables, and pictures for docs/simulate.md.

    PYTHONPATH=python python benchmarks/simulated_scaling.py --images docs/images

Weak scaling keeps the samples per rank, strong scaling keeps those of a step: 1,024 of 4,096 tokens.
"""

import argparse
import html
import math
from pathlib import Path

from flambeau.autograd._event_table import format_memory
from flambeau.distributed.simulate import Plan, preset, simulate_step, transformer

RANKS = (8, 16, 64, 256, 1024, 4096, 16384)
MOST_MICRO_BATCHES = 64  # of a step that is simulated; more take minutes and change little
BATCH = 1024
RINGS = ("ring",)
COLOURS = ("#d1605e", "#4f7cac", "#5aa469", "#8a63b8")


class Line:
    """One plan at all numbers of ranks: `weak` is its micro-batches if they don't follow from the batch."""

    def __init__(self, label, algorithms=None, weak=1, copies=False, **plan):
        self.label, self.weak, self.copies, self.plan = label, weak, copies, plan
        self.algorithms = {} if algorithms is None else {"algorithms": algorithms}

    def result(self, model, ranks, strong):
        """Return the simulated step; None if the ranks are too few, or too many for the batch."""
        parts = self.plan.get("tensor", 1) * self.plan.get("pipeline", 1)
        data, micro = ranks // parts, self.plan.get("micro_batch", 1)
        if ranks % parts or data == 0 or (self.copies and data % 8):
            return None
        micros = BATCH // (data * micro) if strong else self.weak
        is_uneven = micros * data * micro != BATCH if strong else False
        if is_uneven or not self.plan.get("pipeline", 1) <= micros <= MOST_MICRO_BATCHES:
            return None
        copies = {"copies": data // 8} if self.copies else {}
        plan = Plan(micro_batches=micros, **self.plan, **copies)
        return simulate_step(model, preset("h100", ranks, **self.algorithms), plan)


FSDP = {"schedule": "fsdp", "recompute": True}
PIPELINE = {
    "schedule": "fsdp",
    "tensor": 8,
    "sequence_parallel": True,
    "pipeline_schedule": "interleaved",
}
LINES = {
    "7b": (
        Line("fsdp, rings only", RINGS, **FSDP),
        Line("fsdp", **FSDP),
        Line("fsdp in a node, copies", copies=True, **FSDP),
        Line("fsdp, tensor 8, pipeline 4", weak=16, pipeline=4, chunks=4, **PIPELINE),
    ),
    "70b": (
        Line("fsdp, rings only", RINGS, **FSDP),
        Line("fsdp", **FSDP),
        Line("fsdp, tensor 8", tensor=8, sequence_parallel=True, micro_batch=8, **FSDP),
        Line("fsdp, tensor 8, pipeline 8", weak=32, pipeline=8, chunks=5, **PIPELINE),
    ),
}


def results(name, strong, ranks=RANKS):
    """Yield each line with its results by number of ranks."""
    model = transformer(name, sequence=4096)
    for line in LINES[name]:
        found = {n: line.result(model, n, strong) for n in ranks}
        yield line, {n: result for n, result in found.items() if result is not None}


def row(result):
    """Return the cells of a result: utilisation, exposed communication, waiting, memory."""
    fits = "" if result.fits else " (too much)"
    return (
        f"{result.utilisation:.1%}",
        f"{result.exposed / result.step:.1%}",
        f"{result.bubble:.1%}",
        f"{format_memory(result.peak)}{fits}",
    )


def table(name, strong, ranks=RANKS):
    """Return the rows of a table in Markdown."""
    head = ("plan", "ranks", "batch", "utilisation", "exposed", "waits", "memory")
    rows = [
        (line.label, f"{n:,}", f"{result.batch:,}", *row(result))
        for line, found in results(name, strong, ranks)
        for n, result in found.items()
    ]
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def largest_micro_batch(name, ranks, **plan):
    """Return the most samples of a micro-batch whose memory suffices."""
    model, cluster, least, most = transformer(name), preset("h100", ranks), 0, 4096
    while least < most:
        middle = (least + most + 1) // 2
        fits = simulate_step(model, cluster, Plan(micro_batch=middle, **plan)).fits
        least, most = (middle, most) if fits else (least, middle - 1)
    return least


# --- the picture ---------------------------------------------------------------------------------------

WIDE, HIGH, LEFT, TOP = 420, 240, 46, 40


class Panel:
    """Utilisation over the number of ranks."""

    def __init__(self, title, x, lines):
        self.title, self.x0, self.lines = title, x, lines

    def x(self, ranks):
        return self.x0 + LEFT + (math.log2(ranks) - 3) / 11 * (WIDE - LEFT - 28)

    def y(self, share):
        return TOP + (0.6 - share) / 0.6 * (HIGH - TOP - 30)

    def text(self):
        yield f'<text x="{self.x0 + LEFT}" y="20" class="t">{html.escape(self.title)}</text>'
        for percent in range(0, 70, 10):
            y = self.y(percent / 100)
            yield f'<path d="M{self.x(8):.1f} {y:.1f}H{self.x(16384):.1f}" stroke="#e6e9ee"/>'
            yield f'<text x="{self.x(8) - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{percent}%</text>'
        for ranks in (8, 64, 512, 4096, 16384):
            x = self.x(ranks)
            yield f'<text x="{x:.1f}" y="{HIGH - 12}" text-anchor="middle">{ranks:,}</text>'
        for (_, found), colour in zip(self.lines, COLOURS, strict=True):
            points = [(self.x(n), self.y(result.utilisation), result.fits) for n, result in found.items()]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
            yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            for x, y, fits in points:
                fill = colour if fits else "#fff"
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{fill}" stroke="{colour}"/>'
        for i, ((line, _), colour) in enumerate(zip(self.lines, COLOURS, strict=True)):
            x, y = self.x0 + LEFT + i % 2 * 180, HIGH + 8 + i // 2 * 18
            yield f'<rect x="{x}" y="{y}" width="10" height="10" fill="{colour}"/>'
            yield f'<text x="{x + 15}" y="{y + 9}">{html.escape(line.label)}</text>'


def picture(strong):
    """Return the curves of both models as SVG."""
    kind = "strong" if strong else "weak"
    panels = [
        Panel(
            f"{name} transformer, {kind} scaling: utilisation over ranks",
            i * WIDE,
            list(results(name, strong)),
        )
        for i, name in enumerate(LINES)
    ]
    parts = "\n".join(part for panel in panels for part in panel.text())
    size = f"0 0 {2 * WIDE} {HIGH + 46}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" width="{2 * WIDE}">'
        "<style>text{font:11px system-ui,sans-serif;fill:#3a4654}.t{font-weight:600}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>\n{parts}\n</svg>\n'
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", default="", help="folder of the pictures")
    parser.add_argument("--ranks", type=int, nargs="*", default=RANKS, help="numbers of ranks in the tables")
    options = parser.parse_args()
    for strong in (False, True):
        for name in LINES:
            print(f"\n{name}, {'strong' if strong else 'weak'} scaling\n")
            print("\n".join(table(name, strong, options.ranks)))
        if options.images:
            kind = "strong" if strong else "weak"
            Path(options.images, f"simulate-{kind}.svg").write_text(picture(strong))
    print("\nlargest micro-batch of 7b under fsdp on 64 ranks, of 4,096 tokens each:")
    for recompute in (False, True):
        found = largest_micro_batch("7b", 64, schedule="fsdp", recompute=recompute)
        print(f"recompute={recompute}: {found}")


if __name__ == "__main__":
    main()
