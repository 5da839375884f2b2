"""Statements in C++, compiled as an extension whose function runs them in a loop."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

_SOURCE = """
#include <chrono>
#include <cstdint>

{global_setup}

// Callgrind collects while a function of this name runs.
extern "C" [[gnu::noinline, gnu::visibility("hidden")]] void flambeau_counted_call(void (*loop)(void*),
                                                                                  void* state) {{
  loop(state);
}}

namespace {{

[[gnu::noinline]] double measured(int64_t number, bool is_counted) {{
  {setup}
  auto loop_of_timer = [&] {{
    for (int64_t run_of_timer = 0; run_of_timer < number; ++run_of_timer) {{
      {stmt}
    }}
  }};
  void (*const call)(void*) = [](void* state) {{ (*static_cast<decltype(loop_of_timer)*>(state))(); }};
  const auto start = std::chrono::steady_clock::now();
  is_counted ? flambeau_counted_call(call, &loop_of_timer) : call(&loop_of_timer);
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - start).count();
}}

}}  // namespace

// Without the lock of Python, except where the statement takes it.
double timed(int64_t number, bool is_counted) {{
  pybind11::gil_scoped_release unlocked;
  return measured(number, is_counted);
}}
"""


def _ended(code: str) -> str:
    """Return code whose last statement ends, so that another one can follow."""
    code = code.strip()
    return code if not code or code.endswith((";", "}")) or code == "pass" else code + ";"


def module(stmt: str, setup: str, global_setup: str) -> Any:
    """Return the compiled module; equal code is compiled once per machine."""
    from flambeau.utils.cpp_extension import load_inline

    includes = re.findall(r"^\s*#\s*include.*$", setup, flags=re.MULTILINE)
    for line in includes:
        setup = setup.replace(line, "", 1)
    parts = {
        "stmt": "" if stmt == "pass" else _ended(stmt),
        "setup": "" if setup == "pass" else _ended(setup),
        "global_setup": "\n".join([*(line.strip() for line in includes), global_setup]),
    }
    source = _SOURCE.format(**parts)
    name = f"timer_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    return load_inline(name, [source], functions=["timed"], extra_cflags=["-O2"])


class CppTimer:
    """Counterpart of `timeit.Timer`; the clock is that of C++."""

    def __init__(self, stmt: str, setup: str, global_setup: str, timer: Callable[[], float]) -> None:
        self._parts = (stmt, setup, global_setup)
        self.timer = timer
        self._module: Any = None

    def timeit(self, number: int) -> float:
        """Return the seconds of `number` runs."""
        if self._module is None:
            self._module = module(*self._parts)
        return float(self._module.timed(number, False))
