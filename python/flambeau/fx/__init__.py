"""Programs as graphs: trace a program, inspect and change its graph, and generate code from it.

`symbolic_trace` runs a module on proxies and returns a `GraphModule`: a `Graph` of steps, and a ``forward``
generated from it.

>>> import flambeau as fb
>>> from flambeau.fx import symbolic_trace
>>> class Gate(fb.nn.Module):
...     def forward(self, x):
...         return fb.sigmoid(x) * x
>>> traced = symbolic_trace(Gate())
>>> [node.name for node in traced.graph.nodes]
['x', 'sigmoid', 'mul', 'output']
"""

from __future__ import annotations

from flambeau.fx import immutable_collections
from flambeau.fx._symbolic_trace import (
    PH,
    ProxyableClassMeta,
    Tracer,
    symbolic_trace,
    wrap,
)
from flambeau.fx.graph import CodeGen, Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter, Transformer
from flambeau.fx.node import Node, has_side_effect, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.fx.subgraph_rewriter import replace_pattern
