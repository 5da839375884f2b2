"""Switches of `flambeau.fx`."""

from __future__ import annotations

# Let ShapeProp and ``FakeTensorProp`` raise where an operator fails, instead of going on.
disable_progress = True
verbose_progress = False
do_not_emit_stack_traces = False
