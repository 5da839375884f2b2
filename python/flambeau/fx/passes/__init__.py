"""Passes over graphs."""

from __future__ import annotations

from flambeau.fx.passes import (
    graph_drawer,
    graph_manipulation,
    operator_support,
    shape_prop,
    split_module,
    split_utils,
    tools_common,
)
