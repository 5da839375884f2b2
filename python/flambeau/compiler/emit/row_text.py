"""C++ of a loop over rows: sweeps along a row, one for each reduction and one for what is stored.

Each sweep computes its values anew from memory, except those that take several operations: an earlier sweep
writes them to the thread's scratch memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import flambeau
from flambeau.compiler.emit.kernels import NAME, arguments, cell, params, spelled, store, value_type
from flambeau.compiler.ir.loops import Loop
from flambeau.compiler.ir.row_loops import RowLoop, RowValue, Unfit

_RUN = 32  # rows whose sums are added in the type of the elements
SCRATCH_BYTES = 8  # of each column of an array of scratch memory


@dataclass
class _Sweep:
    """Lines for each element, and the values that they define."""

    lines: list[str] = field(default_factory=list)
    done: set[int] = field(default_factory=set)


class RowText:
    """Writes the kernel of a loop.

    `text` is the C++ of the kernel; `scratch` the number of scratch arrays that it needs.
    """

    def __init__(self, loop: RowLoop) -> None:
        self._loop, self._values = loop, loop.values
        self._as_loop = Loop(list(loop.arrays), list(loop.values))
        self._sums = list(dict.fromkeys(loop.sums.values()))
        self._folds = [i for i, value in enumerate(self._values) if value.kind == "fold"]
        self._needed = self._all_needed()
        self._kept = self._worth_keeping()
        self._written: set[int] = set()  # kept values that an earlier sweep wrote
        self.scratch = len(self._kept) + len(self._sums)
        self.text = "\n".join(self._kernel())

    def _ends(self) -> list[int]:
        """The values of the last sweep."""
        stores = [i for i, value in enumerate(self._values) if value.stores]
        return [*stores, *self._sums]

    def _all_needed(self) -> set[int]:
        needed, waiting = set[int](), self._ends()
        while waiting:
            place = waiting.pop()
            if place not in needed:
                needed.add(place)
                waiting += self._operands(place)
        return needed

    def _operands(self, place: int) -> list[int]:
        value = self._values[place]
        return value.operands if value.kind not in ("load", "number") else []

    def _elements_of(self, ends: list[int]) -> set[int]:
        """The values for each element that a sweep computes."""
        found, waiting = set[int](), list(ends)
        while waiting:
            place = waiting.pop()
            if place in found or self._values[place].is_row:
                continue
            found.add(place)
            waiting += self._operands(place)
        return found

    def _worth_keeping(self) -> list[int]:
        """The values that several sweeps need and that take two operations or more."""
        sweeps = [self._values[f].operands for f in self._folds if f in self._needed] + [self._ends()]
        uses = dict[int, int]()
        for ends in sweeps:
            for place in self._elements_of(ends):
                uses[place] = uses.get(place, 0) + 1
        found = list[int]()
        for place in sorted(uses):
            value = self._values[place]
            if value.kind != "run" or uses[place] == 1:
                continue
            if self._runs(place, set(found)) > 1 or flambeau._C._is_heavy_cell(value.cell):
                found.append(place)
        inner = {o for place in found for o in self._elements_of(self._operands(place))}
        # A value that is only read for another kept one is not read again.
        return [p for p in found if p not in inner or self._is_read_beside(p, set(found), sweeps)]

    def _is_read_beside(self, place: int, kept: set[int], sweeps: list[list[int]]) -> bool:
        readers = [
            i
            for i in self._needed
            if place in self._operands(i) and i not in kept and not self._values[i].is_row
        ]
        folds = [f for f in self._folds if place in self._values[f].operands and f in self._needed]
        return len(readers) + len(folds) + (place in self._ends()) > 1

    def _runs(self, place: int, kept: set[int]) -> int:
        found, waiting = set[int](), [place]
        while waiting:
            at = waiting.pop()
            if at not in found and not self._values[at].is_row and (at == place or at not in kept):
                found.add(at)
                waiting += self._operands(at)
        return sum(self._values[i].kind == "run" for i in found)

    # --- the text ------------------------------------------------------------------------------

    def _kernel(self) -> list[str]:
        arrays = self._loop.arrays
        steps = [
            f"[[maybe_unused]] const int64_t s{i} = strides[{2 * i}];"
            for i, array in enumerate(arrays)
            if array.steps == "strided"
        ]
        rows = [f"[[maybe_unused]] char* const a{i} = data[{i}] + r * strides[{2 * i + 1}];"
                for i in range(len(arrays))]  # fmt: skip
        return [
            f'extern "C" __attribute__((visibility("default"))) uint32_t {NAME}(int64_t columns,',
            "    int64_t rows, char* const* data, const int64_t* strides,",
            "    [[maybe_unused]] const void* slots, [[maybe_unused]] char* scratch,",
            "    [[maybe_unused]] double* sums) {",
            "  uint32_t errors = 0;",
            *(f"  {line}" for line in [*steps, *self._before()]),
            "  for (int64_t r = 0; r < rows; ++r) {",
            *(f"    {line}" for line in [*rows, *self._row()]),
            "  }",
            *(f"  {line}" for line in self._flushes()),
            "  return errors;",
            "}",
        ]

    def _scratch(self, at: int) -> str:
        return f"scratch + {at} * ((columns * {SCRATCH_BYTES} + 63) / 64 * 64)"

    def _before(self) -> list[str]:
        lines = list[str]()
        for at, place in enumerate([*self._kept, *self._sums]):
            name = f"k{place}" if at < len(self._kept) else f"t{place}"
            kind = value_type(self._values[place].dtype)
            lines.append(f"{kind}* const {name} = reinterpret_cast<{kind}*>({self._scratch(at)});")
            if at >= len(self._kept):
                lines.append(f"for (int64_t i = 0; i < columns; ++i) {name}[i] = 0;")
        for place in sorted(self._needed):
            value = self._values[place]
            if value.kind == "run":
                lines += params(place, value)
            if value.kind == "number":
                lines.append(f"const auto v{place} = {spelled(self._as_loop, place, value)};")
        return lines

    def _row(self) -> list[str]:
        lines = self._row_values(0)
        for level in range(1, 1 + max((self._values[f].level for f in self._folds), default=0)):
            for place in self._folds:
                if self._values[place].level == level and place in self._needed:
                    lines += self._fold(place)
            lines += self._row_values(level)
        return lines + self._last_sweep()

    def _row_values(self, level: int) -> list[str]:
        """The values of a row that need as many reductions as `level`."""
        lines = list[str]()
        for place in sorted(self._needed):
            value = self._values[place]
            if not value.is_row or value.level != level:
                continue
            if value.kind == "pick":
                lines += self._pick(place)
            if value.kind in ("load", "run", "convert"):
                if value.kind == "run":
                    lines.append(f"errors |= {cell(value)}::errors({arguments(place, value)});")
                lines.append(f"[[maybe_unused]] const auto v{place} = {self._text(place)};")
            lines += [
                store(self._as_loop, a, place) for a in value.stores if self._loop.arrays[a].steps == "row"
            ]
        return lines

    def _text(self, place: int) -> str:
        value = self._values[place]
        if value.kind == "place":
            given, index = value.operands
            return f"i == v{index} ? v{given} : decltype(v{given})(0)"
        return spelled(self._as_loop, place, self._values[place])

    def _add(self, sweep: _Sweep, place: int, checks: bool) -> None:
        """Define a value of an element and what it needs."""
        value = self._values[place]
        if value.is_row or place in sweep.done:
            return
        sweep.done.add(place)
        if place in self._written:
            sweep.lines.append(f"const auto v{place} = k{place}[i];")
            return
        for operand in self._operands(place):
            self._add(sweep, operand, checks)
        if value.kind == "run" and checks:
            sweep.lines.append(f"errors |= {cell(value)}::errors({arguments(place, value)});")
        sweep.lines.append(f"const auto v{place} = {self._text(place)};")
        if place in self._kept:
            sweep.lines.append(f"k{place}[i] = v{place};")

    def _fold(self, place: int) -> list[str]:
        value, sweep = self._values[place], _Sweep()
        for operand in value.operands:
            self._add(sweep, operand, checks=False)
        if not all(_is_sound(self._values[p]) for p in sweep.done):
            raise Unfit(None)
        self._written |= sweep.done & set(self._kept)
        fold = f"{value.cell}_fold<{value_type(value.compute)}>"
        given = ", ".join(f"v{o}" for o in value.operands)
        return [
            f"const auto v{place} = {fold}::finish(folded<{fold}>(columns,",
            "    [=]([[maybe_unused]] int64_t i) __attribute__((always_inline)) {",
            *(f"      {line}" for line in sweep.lines),
            f"      return {fold}::map({given});",
            "    }), columns);",
        ]

    def _pick(self, place: int) -> list[str]:
        """One element of a row; an index outside of it is an error."""
        element, index = self._values[place].operands
        sweep = _Sweep()
        self._add(sweep, element, checks=False)
        kept = sweep.done & (set(self._kept) - self._written)
        lines = [line for line in sweep.lines if not any(line.startswith(f"k{p}[i] =") for p in kept)]
        return [
            f"if (v{index} < 0 || v{index} >= columns) errors |= 1u << 31;",
            f"const auto v{place} = [=](int64_t i) {{",
            *(f"  {line}" for line in lines),
            f"  return v{element};",
            f"}}(v{index} < 0 || v{index} >= columns ? 0 : v{index});",
        ]

    def _last_sweep(self) -> list[str]:
        sweep = _Sweep()
        for place in dict.fromkeys(self._ends()):
            stores = [a for a in self._values[place].stores if self._loop.arrays[a].steps != "row"]
            if not stores and place not in self._sums:
                continue
            self._add(sweep, place, checks=True)
            sweep.lines += [store(self._as_loop, a, place) for a in stores]
            if place in self._sums:
                sweep.lines.append(f"t{place}[i] += v{place};")
        if not sweep.lines:
            return []
        lines = ["#pragma omp simd reduction(| : errors)", "for (int64_t i = 0; i < columns; ++i) {"]
        lines += [*(f"  {line}" for line in sweep.lines), "}"]
        if self._sums:
            lines += [f"if (r % {_RUN} == {_RUN - 1}) {{", *(f"  {line}" for line in self._flushes()), "}"]
        return lines

    def _flushes(self) -> list[str]:
        return [f"flush_sums(columns, t{p}, sums + {j} * columns);" for j, p in enumerate(self._sums)]


def _is_sound(value: RowValue) -> bool:
    """Whether a value may be computed in a sweep that reports no errors."""
    return value.kind != "run" or value.compute in ("float16", "bfloat16", "float32", "float64", "bool")
