"""Switches of `flambeau.fx`."""

from __future__ import annotations

# Whether `ShapeProp` and `FakeTensorProp` raise an error if an operator fails, instead of continuing.
disable_progress = True
verbose_progress = False
do_not_emit_stack_traces = False
