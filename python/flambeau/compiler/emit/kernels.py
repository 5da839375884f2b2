"""C++ of typed loops: one function for each, one translation unit for a graph.

The formulas are those of the eager loops: ``cells/loop_cells.h``, which is generated from the specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from flambeau.compiler.ir.loops import Loop, Value, parsed

NAME = "@name@"  # in the text of a loop that is C++ already (row_text.py)

# The types in memory; a loop with another dtype has no kernel.
_MEMORY = {
    "bool": "c10::StoredBool",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "float8_e4m3fn": "c10::Float8E4M3FN",
    "float8_e5m2": "c10::Float8E5M2",
    "float8_e4m3fnuz": "c10::Float8E4M3FNUZ",
    "float8_e5m2fnuz": "c10::Float8E5M2FNUZ",
}


def is_memory_type(dtype: str) -> bool:
    """Whether kernels can be written for a dtype."""
    return dtype in _MEMORY


def has_kernel(loop: Loop) -> bool:
    """Whether a kernel can be written for a loop."""
    dtypes = {array.dtype for array in loop.arrays}
    dtypes |= {value.dtype for value in loop.values}
    dtypes |= {value.compute for value in loop.values if value.kind == "run"}
    return dtypes <= _MEMORY.keys()


def source_of(texts: Iterable[str]) -> str:
    """Return the translation unit whose functions ``kernel_0`` and so on are the loops of `texts`."""
    kernels = [
        text.replace(NAME, f"kernel_{i}") if NAME in text else _kernel(f"kernel_{i}", parsed(text))
        for i, text in enumerate(texts)
    ]
    return "\n".join(
        [
            '#include "torchgen_out/cells/loop_cells.h"',
            "namespace flambeau::loops {",
            *kernels,
            "}  // namespace flambeau::loops",
            "",
        ]
    )


@dataclass
class _Lines:
    """The text of one loop: what comes before it, before each row, and for each element."""

    before: list[str]
    row: list[str]
    element: list[str]


def _kernel(name: str, loop: Loop) -> str:
    lines = _lines(loop)
    begins, pairs = "0", list[str]()
    if _is_of_pairs(loop):
        begins, pairs = "columns / 2 * 2", _pair_loop(loop)
    rows = [f"char* const a{i} = data[{i}] + r * strides[{2 * i + 1}];" for i in range(len(loop.arrays))]
    steps = [
        f"[[maybe_unused]] const int64_t s{i} = strides[{2 * i}];"
        for i, array in enumerate(loop.arrays)
        if array.steps == "strided"
    ]
    text = [
        f'extern "C" __attribute__((visibility("default"))) uint32_t {name}(int64_t columns, int64_t rows,',
        "    char* const* data, const int64_t* strides, [[maybe_unused]] const void* slots) {",
        "  uint32_t errors = 0;",
        *(f"  {line}" for line in [*steps, *lines.before]),
        "  for (int64_t r = 0; r < rows; ++r) {",
        *(f"    [[maybe_unused]] {line}" for line in rows),
        *(f"    {line}" for line in [*lines.row, *pairs]),
        "#pragma omp simd reduction(| : errors)",
        f"    for (int64_t i = {begins}; i < columns; ++i) {{",
        *(f"      {line}" for line in lines.element),
        "    }",
        "  }",
        "  return errors;",
        "}",
    ]
    return "\n".join(text)


def _lines(loop: Loop) -> _Lines:
    lines = _Lines([], [], [])
    for place, value in enumerate(loop.values):
        target = _place_of(loop, lines, value)
        if value.kind == "run":
            lines.before += params(place, value)
            target.append(f"errors |= {cell(value)}::errors({arguments(place, value)});")
        target.append(f"const auto v{place} = {spelled(loop, place, value)};")
        target += [store(loop, array, place) for array in value.stores]
    return lines


def _place_of(loop: Loop, lines: _Lines, value: Value) -> list[str]:
    steps = loop.arrays[value.operands[0]].steps if value.kind == "load" else ""
    if value.kind == "number" or steps == "one":
        return lines.before
    return lines.row if steps == "row" else lines.element


def _is_of_pairs(loop: Loop) -> bool:
    """Whether all arrays that differ by column hold neighbours in bfloat16.

    Compilers narrow and widen 16-bit elements in several steps; two of them in a word need none.
    """
    moving = {i for i, array in enumerate(loop.arrays) if array.steps in ("unit", "strided")}
    moving.update(i for value in loop.values for i in value.stores)
    return all(loop.arrays[i].dtype == "bfloat16" and loop.arrays[i].steps == "unit" for i in moving)


def _pair_loop(loop: Loop) -> list[str]:
    """Return the loop over pairs: the first of each in the lower half of a word."""
    empty, shared = _Lines([], [], []), set[int]()
    lines = list[str]()
    for place, value in enumerate(loop.values):
        if _place_of(loop, empty, value) is not empty.element:
            shared.add(place)
            continue
        for half in "xy":
            lines += _half(loop, place, value, half, shared)
        for array in value.stores:
            low, high = (f"__builtin_bit_cast(uint32_t, v{place}{half})" for half in "xy")
            lines.append(f"reinterpret_cast<BFloat16Pair*>(a{array})[i] = ({low} >> 16) | {high};")
    head = ['_Pragma("omp simd reduction(| : errors)")', "for (int64_t i = 0; i < columns / 2; ++i) {"]
    return [*head, *(f"  {line}" for line in lines), "}"]


def _half(loop: Loop, place: int, value: Value, half: str, shared: set[int]) -> list[str]:
    def named(text: str) -> str:
        return re.sub(r"\bv(\d+)\b", lambda m: m[0] if int(m[1]) in shared else m[0] + half, text)

    if value.kind == "load":
        word = f"reinterpret_cast<const BFloat16Pair*>(a{value.operands[0]})[i]"
        bits = f"{word} << 16" if half == "x" else f"{word} & 0xffff0000u"
        text = f"__builtin_bit_cast(float, {bits})"
        if value.dtype != "bfloat16":
            text = f"as<{_MEMORY[value.dtype]}>({text})"
        return [f"const auto v{place}{half} = {text};"]
    lines = [f"const auto v{place} = {spelled(loop, place, value)};"]
    if value.kind == "run":
        lines.insert(0, f"errors |= {cell(value)}::errors({arguments(place, value)});")
    return [named(line) for line in lines]


def value_type(dtype: str) -> str:
    """Return the C++ type of a value."""
    return f"value_t<{_MEMORY[dtype]}>"


def cell(value: Value) -> str:
    """Return the C++ type with the formula of a "run"."""
    return f"{value.cell}_cell<{value_type(value.compute)}>"


def params(place: int, value: Value) -> list[str]:
    """Return the definitions of the parameters of a "run"."""
    type_ = value_type(value.compute)
    return [
        f"const {type_} p{place}_{k} = param<{type_}>(slots, {value.slot + k});" for k in range(value.params)
    ]


def arguments(place: int, value: Value) -> str:
    """Return the arguments of a formula."""
    params = [f"p{place}_{k}" for k in range(value.params)]
    return ", ".join([*(f"v{o}" for o in value.operands), *params])


def _address(loop: Loop, array: int) -> str:
    memory, steps = _MEMORY[loop.arrays[array].dtype], loop.arrays[array].steps
    step = {"unit": f" + i * int64_t(sizeof({memory}))", "strided": f" + i * s{array}"}.get(steps, "")
    base = f"data[{array}]" if steps == "one" else f"a{array}"
    return base + step


def spelled(loop: Loop, place: int, value: Value) -> str:
    """Return the C++ expression of a value."""
    memory = _MEMORY[value.dtype]
    if value.kind == "number":
        return f"static_cast<{value_type(value.dtype)}>(param<{memory}>(slots, {value.operands[0]}))"
    if value.kind == "load":
        own = loop.arrays[value.operands[0]].dtype
        text = f"load<{_MEMORY[own]}>({_address(loop, value.operands[0])})"
        return text if own == value.dtype else f"as<{memory}>({text})"
    if value.kind == "convert":
        return f"as<{memory}>(v{value.operands[0]})"
    text = f"{cell(value)}::value({arguments(place, value)})"
    return f"as<{memory}>({text})"


def store(loop: Loop, array: int, place: int) -> str:
    """Return the statement that writes a value to an array."""
    memory = _MEMORY[loop.arrays[array].dtype]
    return f"*reinterpret_cast<{memory}*>({_address(loop, array)}) = stored<{memory}>(v{place});"
