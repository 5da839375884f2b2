"""Programs whose code can be shown and saved: `script` and `trace`.

A traced program is a graph of `flambeau.fx`. A scripted program keeps its Python source and runs it, so
control flow that depends on values works. Neither is compiled yet.
"""

from flambeau._surface.jit_internal import (
    Attribute,
    Final,
    _overload,
    _overload_method,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    unused,
)
from flambeau._surface.jit_internal import isinstance_ as isinstance
from flambeau.jit import annotations
from flambeau.jit._async import Future, fork, wait
from flambeau.jit._freeze import freeze, optimize_for_inference, run_frozen_optimizations
from flambeau.jit._fuser import (
    enable_onednn_fusion,
    fuser,
    last_executed_optimized_graph,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    strict_fusion,
)
from flambeau.jit._script import (
    CompilationUnit,
    Error,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    script,
    script_method,
)
from flambeau.jit._serialization import (
    export_opnames,
    jit_module_from_flatbuffer,
    load,
    save,
    save_jit_module_to_flatbuffer,
)
from flambeau.jit._trace import (
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    TracingCheckError,
    _get_trace_graph,
    _script_if_tracing,
    script_if_tracing,
    trace,
    trace_module,
)

_fork, _wait = fork, wait
onednn_fusion = enable_onednn_fusion
