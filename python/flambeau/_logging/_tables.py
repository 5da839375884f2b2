"""What can be logged: parts of the framework by short names, and kinds of artifacts."""

from __future__ import annotations

from dataclasses import dataclass

_SYMBOLS = ("torch.fx.experimental.symbolic_shapes", "torch.fx.experimental.sym_node")

# Short name -> loggers. They go by PyTorch's names, since programs set and read them by those.
COMPONENTS: dict[str, tuple[str, ...]] = {
    "all": ("torch",),
    "torch": ("torch",),
    "dynamo": ("torch._dynamo", *_SYMBOLS),
    "aot": ("torch._functorch.aot_autograd", "torch._functorch._aot_autograd"),
    "autograd": ("torch.autograd",),
    "dynamic": _SYMBOLS,
    "inductor": ("torch._inductor",),
    "fake_tensor": ("torch._subclasses.fake_tensor",),
    "cache": ("torch._inductor.remote_cache",),
    "async_compile": ("torch._inductor.async_compile",),
    "distributed": ("torch.distributed", "torch.nn.parallel.distributed"),
    "c10d": ("torch.distributed.distributed_c10d", "torch.distributed.rendezvous"),
    "ddp": ("torch.nn.parallel.distributed",),
    "fsdp": ("torch.distributed.fsdp", "torch.distributed._composable.fsdp"),
    "dtensor": ("torch.distributed._tensor", "torch.distributed.tensor"),
    "pp": ("torch.distributed.pipelining",),
    "native_dsl": ("torch._native",),
    "onnx": ("torch.onnx",),
    "export": ("torch.export", "torch._export", "torch._dynamo", *_SYMBOLS),
}


@dataclass(frozen=True)
class Artifact:
    """A kind of artifact.

    Args:
        description: what is logged.
        needs_name: whether it is logged only where it is named, not with the part that it belongs to.
        in_help: whether the short help has it.
    """

    description: str
    needs_name: bool = False
    in_help: bool = False


ARTIFACTS: dict[str, Artifact] = {
    "annotation": Artifact("annotations of nodes of a graph", needs_name=True),
    "aot_graphs": Artifact("forward and backward graphs after the division by autograd", in_help=True),
    "aot_graphs_effects": Artifact("the same graphs with their effects", in_help=True),
    "aot_joint_graph": Artifact("the graph of forward and backward before it is divided"),
    "auto_chunker": Artifact("decisions about chunks of batches", needs_name=True),
    "autotuning": Artifact("choices of kernels by measurement", needs_name=True),
    "benchmarking": Artifact("measurements of kernels", needs_name=True),
    "bytecode": Artifact("bytecode of captured functions, before and after", needs_name=True),
    "caching": Artifact("hits and misses of caches of compiled code", needs_name=True),
    "compiled_autograd": Artifact("graphs of compiled backward passes", in_help=True),
    "compiled_autograd_verbose": Artifact("the same with causes of recompilation", needs_name=True),
    "compute_dependencies": Artifact("dependencies between nodes", needs_name=True),
    "cudagraph_static_inputs": Artifact("inputs of CUDA graphs that keep their address", needs_name=True),
    "cudagraphs": Artifact("recording and replay of CUDA graphs"),
    "ddp_graphs": Artifact("graphs divided for DistributedDataParallel"),
    "fusion": Artifact("decisions to fuse nodes", needs_name=True),
    "graph": Artifact("captured graphs as a table"),
    "graph_breaks": Artifact("places where capture stops, with the reason", in_help=True),
    "graph_code": Artifact("captured graphs as code"),
    "graph_code_verbose": Artifact("captured graphs as code, after each pass"),
    "graph_region_expansion": Artifact("repeated regions of graphs", needs_name=True),
    "graph_sizes": Artifact("sizes of the tensors in captured graphs"),
    "guards": Artifact("conditions under which a captured graph is reused", in_help=True),
    "hierarchical_compile": Artifact("regions that are compiled once", needs_name=True),
    "incremental": Artifact("lines of a report that is written step by step", needs_name=True),
    "inductor_metrics": Artifact("counters of the compiler", needs_name=True),
    "ir_post_fusion": Artifact("nodes of the compiler after fusion", needs_name=True),
    "ir_pre_fusion": Artifact("nodes of the compiler before fusion", needs_name=True),
    "kernel_code": Artifact("code of each compiled kernel", needs_name=True, in_help=True),
    "loop_ordering": Artifact("orders of loops", needs_name=True),
    "loop_tiling": Artifact("tiles of loops", needs_name=True),
    "node_runtime_estimation": Artifact("estimated times of nodes", needs_name=True),
    "not_implemented": Artifact("calls that an override did not take"),
    "onnx_diagnostics": Artifact("diagnostics of the export to ONNX", needs_name=True),
    "output_code": Artifact("code that the compiler wrote, as a whole", needs_name=True, in_help=True),
    "overlap": Artifact("overlap of computation and communication", needs_name=True),
    "overlap_scheduling": Artifact("order of computation and communication", needs_name=True),
    "perf_hints": Artifact("advice on faster code", needs_name=True),
    "post_grad_graphs": Artifact("graphs after the passes that follow autograd"),
    "pre_grad_graphs": Artifact("graphs before the passes that precede autograd"),
    "recompiles": Artifact("reasons why a function is compiled again", in_help=True),
    "recompiles_verbose": Artifact("all conditions that failed", needs_name=True, in_help=True),
    "schedule": Artifact("order of the nodes of the compiler", needs_name=True),
    "side_effects": Artifact("changes of variables and attributes by captured code", in_help=True),
    "sym_node": Artifact("computations of symbolic sizes", needs_name=True),
    "trace_bytecode": Artifact("instructions as they are captured"),
    "trace_call": Artifact("calls as they are captured, with their source"),
    "trace_shape_events": Artifact("calls that can be replayed for symbolic shapes", needs_name=True),
    "trace_source": Artifact("source lines as they are captured"),
    "verbose_guards": Artifact("conditions with the code that evaluates them", needs_name=True),
}
