"""Modules that programs import: each exists, and what is not built says so when it is used."""

import ast
import importlib
import os
import subprocess
import sys
import threading
from collections import OrderedDict, namedtuple
from pathlib import Path

import flambeau as fb
import pytest
from api.compare import takes
from api.stubs import signature
from flambeau._surface import absent, places
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()

# What programs and libraries import; one line per module, with the names they take from it.
IMPORTS = """
nn.modules.activation MultiheadAttention ReLU
nn.modules.batchnorm _BatchNorm _NormBase BatchNorm2d SyncBatchNorm
nn.modules.container Sequential ModuleList ModuleDict ParameterList
nn.modules.conv _ConvNd _ConvTransposeNd Conv2d
nn.modules.dropout _DropoutNd Dropout
nn.modules.instancenorm _InstanceNorm InstanceNorm2d
nn.modules.loss _Loss _WeightedLoss CrossEntropyLoss CTCLoss TripletMarginLoss
nn.modules.pooling _MaxPoolNd MaxPool2d AdaptiveMaxPool2d
nn.modules.sparse Embedding EmbeddingBag
nn.modules.utils _pair _single _triple _ntuple
nn.modules.upsampling Upsample
nn.parallel replicate parallel_apply scatter gather DataParallel DistributedDataParallel data_parallel
nn.parallel._functions Broadcast Scatter Gather
nn.parallel.parallel_apply parallel_apply get_a_var
nn.parallel.replicate replicate
nn.parallel.scatter_gather scatter_kwargs gather
nn.parallel.distributed DistributedDataParallel
nn.utils.clip_grad clip_grad_norm_
nn.utils.weight_norm weight_norm
optim.lr_scheduler _LRScheduler LRScheduler StepLR
optim.adamw AdamW
optim.rmsprop RMSprop
autograd.variable Variable
utils.data.dataloader DataLoader default_collate _BaseDataLoaderIter _SingleProcessDataLoaderIter
utils.data.dataset Dataset IterableDataset Subset random_split
utils.data.distributed DistributedSampler
utils.data.sampler Sampler BatchSampler
utils.data._utils.collate default_collate default_convert default_collate_err_msg_format
utils.model_zoo load_url
utils._pytree register_pytree_node tree_map_with_path
utils.checkpoint checkpoint
utils.weak WeakTensorKeyDictionary
utils._contextlib _DecoratorContextManager
utils._python_dispatch is_traceable_wrapper_subclass
utils.benchmark Timer Compare Measurement
utils.collect_env get_pretty_env_info
utils.cpp_extension load BuildExtension CUDA_HOME
storage TypedStorage UntypedStorage
futures Future collect_all wait_all
hub load load_state_dict_from_url download_url_to_file get_dir
_utils _flatten_dense_tensors _unflatten_dense_tensors _rebuild_tensor_v2 ExceptionWrapper
torch_version TorchVersion
cuda.streams Stream Event
cuda.graphs CUDAGraph graph
cuda.memory memory_allocated
distributed ReduceOp ProcessGroup init_process_group is_available is_initialized
distributed.fsdp FullyShardedDataParallel ShardingStrategy StateDictType
distributed.fsdp.fully_sharded_data_parallel FullOptimStateDictConfig StateDictType
distributed.tensor DTensor Replicate Shard
distributed.device_mesh DeviceMesh init_device_mesh
distributed.algorithms.join Join Joinable
distributed.algorithms.ddp_comm_hooks.default_hooks fp16_compress_hook
distributed.elastic.multiprocessing.errors record
distributed.checkpoint save load
onnx.symbolic_helper parse_args
export.decomp_utils CustomDecompTable
distributed._composable.fsdp fully_shard FSDPModule
distributed._tensor.experimental implicit_replication
distributed.checkpoint.hf_storage HuggingFaceStorageReader HuggingFaceStorageWriter
distributed.checkpoint.state_dict_loader _load_state_dict load
distributed.checkpoint.format_utils _EmptyStateDictLoadPlanner
distributed.constants default_pg_timeout
distributed.distributed_c10d _get_default_group _pg_map
distributed.fsdp.wrap _or_policy
distributed.launcher.api LaunchConfig elastic_launch
distributed.pipelining Pipe PipelineStage SplitPoint build_stage pipe_split pipeline ScheduleDualPipeV
distributed.pipelining.microbatch TensorChunkSpec merge_chunks split_args_kwargs_into_chunks
distributed.pipelining.schedules get_schedule_class PipelineScheduleMulti PipelineScheduleSingle _Action
distributed.pipelining.stage PipelineStage build_stage
distributed.run run get_args_parser
distributed.rpc init_rpc rpc_sync rpc_async remote RRef shutdown WorkerInfo BackendType Store RpcAgent
distributed.rpc.api _require_initialized _all_gather RRef
distributed.rpc.options TensorPipeRpcBackendOptions
distributed.autograd context backward get_gradients DistAutogradContext
distributed.nn RemoteModule all_gather functional ReduceOp
distributed.nn.api.remote_module RemoteModule
distributed.optim DistributedOptimizer ZeroRedundancyOptimizer
distributed.optim.optimizer DistributedOptimizer
distributed.tensor.experimental._attention set_rotate_method
distributed.tensor.placement_types _StridedShard
distributed.utils _sync_module_states
numa.binding AffinityMode NumaOptions
profiler.profiler profile ProfilerAction
utils._sympy.numbers IntInfinity
utils._sympy.value_ranges ValueRanges
_subclasses.fake_tensor FakeTensor FakeTensorMode is_fake
_inductor.cpu_vec_isa pick_vec_isa
_higher_order_ops.associative_scan associative_scan
ao.quantization QuantStub DeQuantStub get_default_qconfig
quantization QuantStub
nn.quantized FloatFunctional
package PackageExporter PackageImporter
profiler profile record_function ProfilerActivity
autograd.profiler record_function profile
_compile _disable_dynamo
_guards TracingContext CompileContext detect_fake_mode active_fake_mode
_logging getArtifactLogger set_logs warning_once LazyString trace_structured
_lowrank svd_lowrank pca_lowrank get_approximate_basis
_ops OpOverload OpOverloadPacket
_sources get_source_lines_and_file normalize_source_lines parse_def ParsedDef SourceContext
_vmap_internals vmap
_weights_only_unpickler _add_safe_globals _get_safe_globals _clear_safe_globals
accelerator.memory memory_allocated max_memory_allocated empty_cache get_memory_info
ao.quantization.fx prepare fuse convert
classes load_library
cuda.comm broadcast gather scatter reduce_add
export._trace _export
masked MaskedTensor masked_tensor is_masked_tensor as_masked_tensor
masked.maskedtensor MaskedTensor is_masked_tensor
masked.maskedtensor.core MaskedTensor is_masked_tensor
masked.maskedtensor.creation masked_tensor as_masked_tensor
monitor Event Stat Aggregation EventHandlerHandle TensorboardEventHandler data_value_t log_event
multiprocessing.reductions StorageWeakRef init_reductions reduce_tensor reduce_storage rebuild_cuda_tensor
optim._muon Muon
profiler.profiler _default_schedule_fn
quasirandom SobolEngine
utils._foreach_utils _group_tensors_by_device_and_dtype _has_foreach_support
utils._triton has_triton has_triton_package
utils.backend_registration rename_privateuse1_backend generate_methods_for_privateuse1_backend
utils.data.datapipes.iter.fileopener FileOpenerIterDataPipe
utils.data.datapipes.utils.common StreamWrapper
utils.mkldnn to_mkldnn MkldnnLinear
utils.mobile_optimizer optimize_for_mobile MobileOptimizerType LintCode generate_mobile_module_lints
utils.model_dump get_model_info hierarchical_pickle burn_in_info
utils.show_pickle FakeObject FakeClass DumpUnpickler main
"""
LINES = [line.split() for line in IMPORTS.splitlines() if line]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_what_programs_import(line):
    theirs = importlib.import_module(f"{pytorch().__name__}.{line[0]}")
    ours = importlib.import_module(f"flambeau.{line[0]}")
    for name in line[1:]:
        assert hasattr(theirs, name), f"PyTorch has no {line[0]}.{name}"
        mine = getattr(ours, name)
        assert isinstance(mine, type) or isinstance(mine, object) and mine is getattr(ours, name)
        assert isinstance(mine, type) == isinstance(getattr(theirs, name), type), (line[0], name)


@pytest.mark.parametrize("key", sorted(places.MODULES))
def test_every_place_leads_somewhere(key):
    module = importlib.import_module(f"flambeau.{key}".rstrip("."))
    for entry in places.MODULES[key]:
        single, is_single, home = entry.partition("=")
        if is_single:
            there, _, other = home.partition(":")
            expected = getattr(importlib.import_module(f"flambeau.{there}"), other or single)
            assert getattr(module, single) is expected
        else:
            names = [n for n in dir(importlib.import_module(f"flambeau.{entry}")) if not n.startswith("_")]
            assert names and all(hasattr(module, name) for name in names), entry


@pytest.mark.parametrize("key", sorted(absent.MODULES))
def test_what_is_not_built_says_so(key):
    missing, lines = absent.MODULES[key]
    module = importlib.import_module(f"flambeau.{key}")
    for kind, *words in lines:
        for word in words:
            name = word.partition("=")[0].partition(":")[0]
            if kind in ("class", "def"):
                with pytest.raises(RuntimeError, match=missing):
                    getattr(module, name)()
            if kind == "class":
                assert not isinstance(1, getattr(module, name))
                assert getattr(module, name)[int] is getattr(module, name)
            if kind == "from":
                assert getattr(module, name) is not None, f"{key}.{name}"
            if kind == "answer" and name.startswith("is_"):
                assert getattr(module, name)() is False
            if kind == "error":
                assert issubclass(getattr(module, name), BaseException)
        if kind == "enum":
            assert [m.name for m in getattr(module, words[0])] == words[1:]


def test_an_absent_class_can_be_named_in_annotations_and_as_a_base():
    from flambeau.distributed import Reducer
    from flambeau.distributed.checkpoint.optimizer import ShardedTensor

    def function(group: Reducer | None = None) -> "Reducer":
        return group

    class Mine(ShardedTensor, fb.nn.Module):
        pass

    assert function() is None and issubclass(Mine, fb.nn.Module)
    with pytest.raises(RuntimeError, match="lacks this part of distributed training"):
        Mine()
    with pytest.raises(AttributeError, match="lacks this part of distributed training"):
        Reducer.no_such_thing  # noqa: B018


def test_instance_norm_is_not_a_batch_norm():
    from flambeau.nn.modules.batchnorm import _BatchNorm, _NormBase

    assert not isinstance(fb.nn.InstanceNorm2d(2), _BatchNorm)
    assert isinstance(fb.nn.InstanceNorm2d(2), _NormBase) and isinstance(fb.nn.BatchNorm2d(2), _NormBase)


def test_older_base_classes_are_bases():
    from flambeau.nn.modules.loss import _WeightedLoss
    from flambeau.optim.lr_scheduler import _LRScheduler

    class Halving(_LRScheduler):
        def get_lr(self):
            return [group["lr"] / 2 for group in self.optimizer.param_groups]

    class Weighted(_WeightedLoss):
        pass

    schedule = Halving(fb.optim.SGD([fb.ones(1, requires_grad=True)], 1.0))
    assert schedule.get_last_lr() == [0.5]
    assert isinstance(fb.nn.CrossEntropyLoss(fb.ones(2)), _WeightedLoss)
    assert list(Weighted(fb.ones(2)).state_dict()) == ["weight"]


@scenario
def futures_of_threads(torch):
    futures = importlib.import_module(torch.__name__ + ".futures")
    future, seen = futures.Future(), []
    future.add_done_callback(lambda f: seen.append(f.value()))
    then = future.then(lambda f: f.value() + 1).then(lambda f: 2 * f.value())
    before = [future.done(), then.done()]
    thread = threading.Thread(target=future.set_result, args=(4,))
    thread.start()
    found = [future.wait(), then.wait()]
    thread.join()
    failed = futures.Future()
    failed.set_exception(ValueError("no"))
    follows = failed.then(lambda f: f.value())
    every = futures.collect_all([future, then]).wait()
    return [
        [before, found, seen, future.done(), [f.value() for f in every]],
        raised("no", failed.wait),
        raised("no", follows.wait)[1],
        raised("", future.set_result, 5)[0],
        raised("", futures.Future().value)[0],
        futures.wait_all([future, then]),
    ]


@scenario
def flat_tensors(torch):
    functions = importlib.import_module(torch.__name__ + "._utils")
    parts = [torch.arange(4.0).reshape(2, 2), torch.ones(3), torch.zeros(0)]
    flat = functions._flatten_dense_tensors(parts)
    back = functions._unflatten_dense_tensors(flat * 2, parts)
    taken = [len(group) for group in functions._take_tensors(parts, 20)]
    return [flat, list(back), [list(b.shape) for b in back], taken]


@scenario
def batches_by_a_table(torch):
    collate = importlib.import_module(torch.__name__ + ".utils.data._utils.collate")
    Pair = namedtuple("Pair", "a b")  # noqa: PYI024

    class Own:
        def __init__(self, value):
            self.value = value

    table = {Own: lambda batch, collate_fn_map=None: [o.value for o in batch]}
    table |= collate.default_collate_fn_map
    table |= collate.default_collate_fn_map
    ordered = collate.default_collate([OrderedDict(x=1, y="a"), OrderedDict(x=2, y="b")])
    return [
        [type(ordered).__name__, ordered["x"], ordered["y"]],
        collate.collate([(Own(1), 2.0), (Own(3), 4.0)], collate_fn_map=table),
        type(collate.default_collate([Pair(1, 2), Pair(3, 4)])).__name__,
        raised("must contain", collate.default_collate, [Own(1)]),
        raised("equal size", collate.default_collate, [[1], [1, 2]]),
    ]


@scenario
def replicas(torch):
    parallel = importlib.import_module(torch.__name__ + ".nn.parallel")
    functions = importlib.import_module(torch.__name__ + ".nn.parallel.scatter_gather")
    rows = functions.scatter_kwargs((), {}, ["cpu", "cpu"])
    named = functions.is_namedtuple(torch.ones(2).max(0)), functions.is_namedtuple((1, 2))
    return [rows, named[1], sorted(n for n in dir(parallel) if n in ("gather", "replicate", "scatter"))]


def test_replicas_share_gradients():
    net = fb.nn.Sequential(fb.nn.Linear(2, 2), fb.nn.BatchNorm1d(2))
    copies = fb.nn.parallel.replicate(net, ["cpu", "cpu"])
    sum(copy(fb.ones(2, 2) + i).square().sum() for i, copy in enumerate(copies)).backward()
    assert net[0].weight.grad is not None and list(net.state_dict())[0] == "0.weight"
    with pytest.raises(ValueError, match="in replica 1"):
        fb.nn.parallel.parallel_apply([net, _Failing()], [fb.ones(2, 2)] * 2)


class _Failing(fb.nn.Module):
    def forward(self, x):
        raise ValueError("never")


@scenario
def shapes_of_trees_as_text(torch):
    trees = importlib.import_module(torch.__name__ + ".utils._pytree")
    tree = {"a": [1, (2, 3)], "b": OrderedDict(x=4)}
    spec = trees.tree_structure(tree)
    text = trees.treespec_dumps(spec)
    again = trees.treespec_loads(text)

    class Own:
        def __init__(self, parts, mark):
            self.parts, self.mark = parts, mark

    trees.register_pytree_node(
        Own,
        lambda o: (o.parts, o.mark),
        Own,
        serialized_type_name="test.Own",
        to_dumpable_context=lambda mark: [mark],
        from_dumpable_context=lambda text: text[0],
        flatten_with_keys_fn=lambda o: ([(trees.SequenceKey(i), p) for i, p in enumerate(o.parts)], o.mark),
    )
    own = trees.treespec_loads(trees.treespec_dumps(trees.tree_structure([Own([1, 2], "m")])))
    made = trees.tree_unflatten([5, 6], own)[0]
    paths = trees.tree_map_with_path(lambda path, leaf: trees.keystr(path), {"k": Own([1], "")})
    keyed = trees._dict_flatten_with_keys({"u": 1})
    return [
        [again == spec, text, str(dict(trees.tree_unflatten([5, 6, 7, 8], again)["b"]))],
        [made.parts, made.mark, paths["k"].parts, str(keyed[0][0][0]), keyed[0][0][1], keyed[1]],
        raised("protocol", trees.treespec_loads, "[2, {}]"),
    ]


def test_methods_of_what_is_not_built():
    for name, word in (("q_scale", "quantized"), ("symeig", "removed"), ("to_mkldnn", "oneDNN")):
        with pytest.raises(RuntimeError, match=word):
            getattr(fb.ones(1), name)()


@pytest.mark.parametrize("mark", ["distributed.elastic.multiprocessing.errors.record"])
def test_marks_of_what_is_not_built_leave_functions_as_they_are(mark):
    """Libraries mark functions when they are imported, long before anybody calls one."""
    module, _, name = mark.rpartition(".")
    assert getattr(importlib.import_module(f"flambeau.{module}"), name)(len) is len


def test_weak_keys():
    from flambeau.utils.weak import WeakTensorKeyDictionary

    x, y = fb.ones(2), fb.ones(2)
    known = WeakTensorKeyDictionary({x: 1, y: 2})
    assert known[x] == 1 and known[y] == 2 and x in known and fb.ones(2) not in known and 3 not in known
    del y
    assert len(known) == 1 and list(known.values()) == [1]


def test_times_of_statements():
    benchmark = importlib.import_module("flambeau.utils.benchmark")
    clock = iter(range(10**9))
    timer = benchmark.Timer(
        "x + 1", globals={"x": 1}, label="sums", sub_label="one", timer=lambda: next(clock)
    )
    one = timer.timeit(10)
    assert one.raw_times == [1] and one.times == [0.1] and one.median == 0.1 and one.number_per_run == 10
    other = benchmark.Measurement(1, [1.0, 2.0, 3.0, 4.0], benchmark.TaskSpec("y", "pass", label="sums"))
    assert (other.median, other.mean, other.iqr) == (2.5, 2.5, 1.5)
    table = str(benchmark.Compare([one, other]))
    assert "[" in table and " sums " in table and "2500.0" in table and "Times are in milliseconds" in table
    with pytest.raises(ZeroDivisionError):
        benchmark.Timer("1 / 0").timeit(1)
    merged = benchmark.Measurement.merge([one, one])
    assert len(merged) == 1 and merged[0].raw_times == [0.1, 0.1]
    found = benchmark.Timer("pass").blocked_autorange(min_run_time=1e-4)
    assert found.median > 0 and sum(found.raw_times) >= 1e-4


def test_a_decorating_context():
    from flambeau.utils._contextlib import _DecoratorContextManager

    events = []

    class Marked(_DecoratorContextManager):
        def __enter__(self):
            events.append("in")

        def __exit__(self, *exc):
            events.append("out")

    @Marked()
    def numbers():
        got = yield 1
        events.append(got)
        return 2

    running = numbers()
    assert next(running) == 1 and events == ["in", "out"]
    with pytest.raises(StopIteration) as stop:
        running.send("sent")
    assert stop.value.value == 2 and events == ["in", "out", "in", "sent", "out"]


def test_devices_that_there_are_none_of():
    assert fb.cuda.memory_allocated() == fb.xpu.memory_allocated() == fb.accelerator.device_count() == 0
    assert fb.cuda.memory_stats() == {} and fb.cuda.get_rng_state_all() == []
    for name in ("Stream", "Event", "CUDAGraph"):
        assert not isinstance(1, getattr(fb.cuda, name))
        with pytest.raises(RuntimeError, match="not compiled with CUDA"):
            getattr(fb.cuda, name)()
    with fb.cuda.stream(None), fb.cuda.device(-1):
        pass
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        fb.cuda.synchronize()
    with fb.cpu.stream(fb.cpu.Stream()) as _:
        assert fb.cpu.current_stream() is not None
    with pytest.raises(AssertionError):
        fb.ones(1).xpu()


MODULES_OF_FUNCTIONS = """
import FRAMEWORK
import FRAMEWORK.nn.utils.weight_norm, FRAMEWORK.nn.utils.spectral_norm
import FRAMEWORK._higher_order_ops.associative_scan
from FRAMEWORK._higher_order_ops.while_loop import while_loop
from FRAMEWORK.nn.utils.weight_norm import WeightNorm, weight_norm
utils = FRAMEWORK.nn.utils
assert utils.weight_norm is weight_norm and utils.spectral_norm(FRAMEWORK.nn.Linear(2, 2)).weight_u.dim() == 1
assert callable(FRAMEWORK._higher_order_ops.associative_scan)
assert FRAMEWORK._higher_order_ops.while_loop is while_loop
"""


@pytest.mark.parametrize("name", ["flambeau", "torch"])
def test_a_function_keeps_the_name_of_its_module(name):
    start = "import flambeau.compat as compat; compat.install()\n" if name == "torch" else ""
    text = start + MODULES_OF_FUNCTIONS.replace("FRAMEWORK", name)
    subprocess.run(
        [sys.executable, "-c", text],
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(fb.__file__).parents[1])},
    )


def test_the_import_reads_no_table():
    code = (
        "import sys, flambeau\n"
        "tables = ('flambeau._surface.places', 'flambeau._surface.absent')\n"
        "late = [m for m in sys.modules if m in tables]\n"
        "late += [m for m in ('distributed', 'hub', 'compat', 'cuda') if f'flambeau.{m}' in sys.modules]\n"
        "print(late)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(fb.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("ours", ["(a, b=1)", "(a, b=1, *, c=2)", "(a, *args, **kwargs)"])
def test_the_tool_takes_a_signature_that_takes_every_call(ours):
    assert takes(parameters_of(ours), parameters_of("(a, b=1)"))


@pytest.mark.parametrize("ours", ["(a)", "(b, a=1)", "(a, b)", "(a, *, b=1)", "(a, c, b=1)", "(a, c=1)"])
def test_the_tool_refuses_a_signature_that_refuses_a_call(ours):
    assert not takes(parameters_of(ours), parameters_of("(a, b=1)"))


def parameters_of(text):
    return signature(ast.parse(f"def f{text}: ...").body[0])
