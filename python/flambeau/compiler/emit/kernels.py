"""C++ of typed loops: one function for each, one translation unit for a graph.

The formulas are those of the eager loops: ``cells/loop_cells.h``, which is generated from the specification.
"""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.compiler.ir.loops import Loop, Value, parsed

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
    "complex64": "complex<float>",
    "complex128": "complex<double>",
}


def has_kernel(loop: Loop) -> bool:
    """Whether a kernel can be written for a loop."""
    dtypes = {array.dtype for array in loop.arrays}
    dtypes |= {value.dtype for value in loop.values}
    dtypes |= {value.compute for value in loop.values if value.kind == "run"}
    return dtypes <= _MEMORY.keys()


def source_of(texts: Iterable[str]) -> str:
    """Return the translation unit whose functions ``kernel_0`` and so on are the loops of `texts`."""
    kernels = [_kernel(f"kernel_{i}", parsed(text)) for i, text in enumerate(texts)]
    return "\n".join(
        [
            '#include "torchgen_out/cells/loop_cells.h"',
            "namespace flambeau::loops {",
            *kernels,
            "}  // namespace flambeau::loops",
            "",
        ]
    )


def _kernel(name: str, loop: Loop) -> str:
    outside, per_row, inside = list[str](), list[str](), list[str]()
    for place, value in enumerate(loop.values):
        line = f"const auto v{place} = {_spelled(loop, place, value)};"
        steps = loop.arrays[value.operands[0]].steps if value.kind == "load" else ""
        if value.kind == "number" or steps == "one":
            outside.append(line)
        elif steps == "row":
            per_row.append(line)
        else:
            if value.kind == "run":
                inside.append(f"errors |= {_cell(value)}::errors({_arguments(place, value)});")
            inside.append(line)
        inside += [_store(loop, array, place) for array in value.stores]
        if value.kind == "run":
            outside += _params(place, value)
    rows = [f"char* const a{i} = data[{i}] + r * strides[{2 * i + 1}];" for i in range(len(loop.arrays))]
    steps_of = [
        f"[[maybe_unused]] const int64_t s{i} = strides[{2 * i}];"
        for i, array in enumerate(loop.arrays)
        if array.steps == "strided"
    ]
    lines = [
        f'extern "C" __attribute__((visibility("default"))) uint32_t {name}(int64_t columns, int64_t rows,',
        "    char* const* data, const int64_t* strides, [[maybe_unused]] const void* slots) {",
        "  uint32_t errors = 0;",
        *(f"  {line}" for line in [*steps_of, *outside]),
        "  for (int64_t r = 0; r < rows; ++r) {",
        *(f"    [[maybe_unused]] {line}" for line in rows),
        *(f"    {line}" for line in per_row),
        "#pragma omp simd reduction(| : errors)",
        "    for (int64_t i = 0; i < columns; ++i) {",
        *(f"      {line}" for line in inside),
        "    }",
        "  }",
        "  return errors;",
        "}",
    ]
    return "\n".join(lines)


def _value_type(dtype: str) -> str:
    return f"value_t<{_MEMORY[dtype]}>"


def _cell(value: Value) -> str:
    return f"{value.cell}_cell<{_value_type(value.compute)}>"


def _params(place: int, value: Value) -> list[str]:
    type_ = _value_type(value.compute)
    return [
        f"const {type_} p{place}_{k} = param<{type_}>(slots, {value.slot + k});" for k in range(value.params)
    ]


def _arguments(place: int, value: Value) -> str:
    params = [f"p{place}_{k}" for k in range(value.params)]
    return ", ".join([*(f"v{o}" for o in value.operands), *params])


def _address(loop: Loop, array: int) -> str:
    memory, steps = _MEMORY[loop.arrays[array].dtype], loop.arrays[array].steps
    step = {"unit": f" + i * int64_t(sizeof({memory}))", "strided": f" + i * s{array}"}.get(steps, "")
    base = f"data[{array}]" if steps == "one" else f"a{array}"
    return base + step


def _spelled(loop: Loop, place: int, value: Value) -> str:
    memory = _MEMORY[value.dtype]
    if value.kind == "number":
        return f"static_cast<{_value_type(value.dtype)}>(param<{memory}>(slots, {value.operands[0]}))"
    if value.kind == "load":
        own = loop.arrays[value.operands[0]].dtype
        text = f"load<{_MEMORY[own]}>({_address(loop, value.operands[0])})"
        return text if own == value.dtype else f"as<{memory}>({text})"
    if value.kind == "convert":
        return f"as<{memory}>(v{value.operands[0]})"
    text = f"{_cell(value)}::value({_arguments(place, value)})"
    return f"as<{memory}>({text})"


def _store(loop: Loop, array: int, place: int) -> str:
    memory = _MEMORY[loop.arrays[array].dtype]
    return f"*reinterpret_cast<{memory}*>({_address(loop, array)}) = stored<{memory}>(v{place});"
