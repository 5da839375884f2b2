"""Names that flambeau has in other modules than PyTorch, and private names that programs import.

Each line of `TEXT` is a module of PyTorch (``.``: the package itself), then where its names are found: a
module of flambeau, or ``name=module`` for a single name, or ``name=module:other`` where it goes by another
name there. `EARLIER` does the same for files of flambeau that became rooms.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from flambeau._loading import lazy

TEXT = """
. _top.script _top.quantized _top.vendors _top.devices _top.symbolic _top.removed _top.dispatch
. Stream=_state.streams Event=_state.streams GradScaler=amp ScriptFunction=jit fork=jit wait=jit
. FileCheck=testing ScriptObject=classes ScriptClass=classes
_C ScriptObject=classes ScriptClass=classes
. Argument=library._schemas FunctionSchema=library._schemas parse_schema=library._schemas
. AnyType=_types.schema_types BoolType=_types.schema_types ComplexType=_types.schema_types
. DeviceObjType=_types.schema_types DictType=_types.schema_types FloatType=_types.schema_types
. IntType=_types.schema_types ListType=_types.schema_types NoneType=_types.schema_types
. NumberType=_types.schema_types OptionalType=_types.schema_types StreamObjType=_types.schema_types
. StringType=_types.schema_types SymBoolType=_types.schema_types SymIntType=_types.schema_types
. TensorType=_types.schema_types TupleType=_types.schema_types Type=_types.schema_types
_C Argument=library._schemas FunctionSchema=library._schemas parse_schema=library._schemas
_C AnyType=_types.schema_types BoolType=_types.schema_types ComplexType=_types.schema_types
_C DeviceObjType=_types.schema_types DictType=_types.schema_types FloatType=_types.schema_types
_C IntType=_types.schema_types ListType=_types.schema_types NoneType=_types.schema_types
_C NumberType=_types.schema_types OptionalType=_types.schema_types StreamObjType=_types.schema_types
_C StringType=_types.schema_types SymBoolType=_types.schema_types SymIntType=_types.schema_types
_C TensorType=_types.schema_types TupleType=_types.schema_types Type=_types.schema_types
. get_device_module=_state.device_modules _register_device_module=_state.device_modules
. DisableTorchFunction=_state.function_state DisableTorchFunctionSubclass=_state.function_state
. native_norm=_object.sparse
. indices_copy=_object.sparse values_copy=_object.sparse crow_indices_copy=_object.sparse
. col_indices_copy=_object.sparse ccol_indices_copy=_object.sparse row_indices_copy=_object.sparse
sparse sparse.semi_structured
fx.experimental.sym_node _top.sizes
. AggregationType=_surface.written SUM=_surface.written AVG=_surface.written
. thread_safe_generator=random init_num_threads=_state.defaults
. get_autocast_ipu_dtype=amp.older_names set_autocast_ipu_dtype=amp.older_names
. get_autocast_xla_dtype=amp.older_names set_autocast_xla_dtype=amp.older_names
. is_autocast_ipu_enabled=amp.older_names set_autocast_ipu_enabled=amp.older_names
. is_autocast_xla_enabled=amp.older_names set_autocast_xla_enabled=amp.older_names
. Storage=_object.typed_storage:TypedStorage StorageBase=_object.storage:Storage to_dlpack=utils.dlpack
. Future=futures
. FatalError=_top.devices classproperty=_surface.utils
. DispatchKey=_surface.dispatch_keys DispatchKeySet=_surface.dispatch_keys
_C _surface.questions DispatchKey=_surface.dispatch_keys DispatchKeySet=_surface.dispatch_keys
_C _ExcludeDispatchKeyGuard=_surface.dispatch_keys _after_autograd_keyset=_surface.dispatch_keys
_C _AutoDispatchBelowAutograd=_surface.dispatch_keys _surface.dispatch_questions
_C _DisableTorchDispatch=_object.subclass:DisableTorchDispatch
_custom_ops get_ctx=library impl_abstract=library
. ScriptModule=jit
. cond=_operators.control_flow while_loop=_operators.control_flow
. _pin_memory=_surface.aten_names _shape_as_tensor=_surface.aten_names _grouped_mm=_surface.aten_names
. _convolution=_surface.aten_names
. _sparse_addmm=_surface.aten_names
_C._nn _parse_to=nn.modules._target:target_of
_higher_order_ops cond=_operators.control_flow while_loop=_operators.control_flow
_higher_order_ops associative_scan=_operators.control_flow scan=_operators.control_flow
_higher_order_ops map=_operators.control_flow
_higher_order_ops.scan scan=_operators.control_flow
_higher_order_ops.map map=_operators.control_flow
_higher_order_ops.cond cond=_operators.control_flow
_higher_order_ops.while_loop while_loop=_operators.control_flow
_higher_order_ops.associative_scan associative_scan=_operators.control_flow
_prims_common is_contiguous_or_false=_surface.written
_C _TensorMeta=_surface.written
_dynamo._trace_wrapped_higher_order_op TransformGetItemToIndex=_surface.written
_tensor_str PRINT_OPTS=_object.printing:_options _str=_object.printing:show _tensor_str=_object.printing:show
backends.cuda SDPAParams=_surface.written can_use_flash_attention=_surface.written
backends.cuda can_use_efficient_attention=_surface.written can_use_cudnn_attention=_surface.written
jit.annotations List=_surface.written BroadcastingList=_surface.jit_internal:BroadcastingList1
nn.init _calculate_fan_in_and_fan_out=nn.init:_fans _calculate_correct_fan=_surface.written
nn.modules.transformer _get_activation_fn=nn.modules.transformer:_activation
optim.optimizer ParamsT=_surface.written _params_t=_surface.written:ParamsT
optim.optimizer _default_to_fused_or_foreach=_surface.written
optim.optimizer _use_grad_for_differentiable=_surface.written _get_value=_surface.written
optim.optimizer _get_capturable_supported_devices=_surface.written _dispatch_sqrt=_surface.written
nn.init _no_grad_uniform_=nn.init:uniform_ _no_grad_normal_=nn.init:normal_ _no_grad_fill_=nn.init:constant_
_tensor_str printoptions=_surface.written
backends fp32_precision=_surface.written
backends.cuda sdp_kernel=_surface.written
serialization MAP_LOCATION=_surface.written MAGIC_NUMBER=serialization._legacy:STREAM_START
serialization PROTOCOL_VERSION=serialization._legacy:STREAM_PROTOCOL
utils._pytree _get_node_type=_surface.written
utils.checkpoint get_device_states=_surface.written set_device_states=_surface.written
utils.data.dataloader _DatasetKind=_surface.written
_tensor _rebuild_from_type_v2=serialization._allowed:tensor_with_state
_utils _rebuild_tensor_v2=serialization._allowed:tensor_v2 _rebuild_tensor_v3=serialization._allowed:tensor_v3
_utils _rebuild_parameter=serialization._allowed:parameter
_utils _rebuild_parameter_with_state=serialization._allowed:parameter_with_state
_utils_internal _surface.utils
_C _functorch=_surface.functorch
_C _profiler=_surface.native_profiler
_C _top.script
_C _set_math_sdp_allow_fp16_bf16_reduction=_surface.written
_C _get_math_sdp_allow_fp16_bf16_reduction=_surface.written
_guards _surface.guards
_ops OpOverload=ops:Overload OpOverloadPacket=ops:OverloadPacket _OpNamespace=ops:Namespace
compiler load_compiled_function=_top.compiled
masked _top.masked
utils generate_methods_for_privateuse1_backend=utils.backend_registration
utils rename_privateuse1_backend=utils.backend_registration
utils set_privateuse1_fallback=utils.backend_registration privateuse1_generator=utils.backend_registration
utils._triton has_triton=_surface.written has_triton_package=_surface.written
_jit_internal RRef=distributed.rpc
_windows hann_window=_C._functions hamming_window=_C._functions blackman_window=_C._functions
_windows bartlett_window=_C._functions kaiser_window=_C._functions
_lowrank get_approximate_basis=_operators.linear_algebra
_lowrank pca_lowrank=_operators.linear_algebra svd_lowrank=_operators.linear_algebra
_logging._internal _logging
_tensor_str _str_intern=_surface.written
_vmap_internals vmap=func _vmap=_surface.names_of_libraries
_ops HigherOrderOperator=_surface.names_of_libraries
cuda _initialized=_surface.names_of_libraries
serialization DEFAULT_PROTOCOL=_surface.names_of_libraries
utils.data.dataloader _collate_fn_t=_surface.names_of_libraries
utils.data._utils.collate np_str_obj_array_pattern=_surface.names_of_libraries
_C _is_tracing=_surface.names_of_libraries
. _cast_Long=_surface.names_of_libraries
backends __allow_nonbracketed_mutation=_surface.names_of_libraries
nn.modules.utils _reverse_repeat_tuple=_surface.names_of_libraries
nn.utils.stateless _reparametrize_module=func._modules:reparametrized
autograd.functional _tuple_postprocess=_surface.names_of_libraries
autograd.functional _grad_postprocess=_surface.names_of_libraries
autograd.functional _construct_standard_basis_for=_surface.names_of_libraries
optim.lbfgs _strong_wolfe=_surface.names_of_libraries _cubic_interpolate=_surface.names_of_libraries
_compile _disable_dynamo=_dynamo:disable
_weights_only_unpickler _add_safe_globals=serialization:add_safe_globals
_weights_only_unpickler _get_safe_globals=serialization:get_safe_globals
_weights_only_unpickler _clear_safe_globals=serialization:clear_safe_globals
_weights_only_unpickler _safe_globals=serialization:safe_globals
autograd _profiler_enabled=autograd.profiler kineto_available=profiler
autograd _enable_profiler=_top.profiler _disable_profiler=_top.profiler
multiprocessing.reductions init_reductions=_object.shared_memory:register reduce_tensor=_object.shared_memory
multiprocessing.reductions reduce_storage=_object.shared_memory
multiprocessing.reductions rebuild_cuda_tensor=_top.events rebuild_event=_top.events
multiprocessing.reductions reduce_event=_top.events StorageWeakRef=_object.storage
nn._reduction get_enum=_surface.written legacy_get_enum=_surface.written
nn._reduction legacy_get_string=_surface.written
optim._muon Muon=optim
utils.tensorboard.summary utils.tensorboard._summaries utils.tensorboard._settings
utils.tensorboard.summary utils.tensorboard._charts utils.tensorboard._pictures
utils.tensorboard.summary make_np=utils.tensorboard._summaries:array_of
utils.tensorboard.summary _prepare_video=utils.tensorboard._pictures:frames_of
utils.tensorboard.writer utils.tensorboard._writer
autograd.variable Variable=autograd
autograd.grad_mode set_grad_enabled=autograd
cuda.graphs cuda
cuda.memory cuda
cuda.random cuda
cuda.streams cuda
nn factory_kwargs=_surface.written Container=nn.modules.containers
nn.functional grad=nn Tensor=_C DType=_surface.written BroadcastingList1=_surface.jit_internal
nn.functional BroadcastingList2=_surface.jit_internal BroadcastingList3=_surface.jit_internal
nn.functional boolean_dispatch=_surface.jit_internal
nn.functional assert_int_or_pair=_surface.written GRID_SAMPLE_INTERPOLATION_MODES=_surface.written
nn.functional GRID_SAMPLE_PADDING_MODES=_surface.written handle_torch_function=overrides
nn.functional has_torch_function=overrides has_torch_function_unary=overrides
nn.functional has_torch_function_variadic=overrides nn.functional._scaled
nn.functional reproducibility_notes=_surface.notes sparse_support_notes=_surface.notes
nn.functional tf32_notes=_surface.notes
linalg common_notes=_surface.notes
fft Tensor=_C
autograd NestedIOFunction=autograd.function enforce_grad_layout_policy=autograd.grad_mode
optim swap_in_optimizer_params_and_state=optim._swapped
func functionalize=func._functionalize rearrange=func._rearrange
. func._functional_tensors
nn.modules.activation MultiheadAttention=nn
nn.modules.adaptive AdaptiveLogSoftmaxWithLoss=nn
nn.modules.batchnorm nn.modules.normalization nn.modules.lazy _LazyNormBase=nn.modules.lazy:_LazyNorm
nn.modules.channelshuffle nn.modules.rearrange
nn.modules.container nn.modules.containers nn.modules.parameter_containers
nn.modules.conv _ConvTransposeNd=nn.modules.conv:_ConvTranspose
nn.modules.conv _ConvTransposeMixin=nn.modules.conv:_ConvTranspose
nn.modules.conv nn.modules.lazy
nn.modules.dropout _DropoutNd=nn.modules.dropout:_Dropout
nn.modules.linear nn.modules.lazy
nn.modules.loss nn.modules.margin_loss
nn.modules.module _EXTRA_STATE_KEY_SUFFIX=nn.modules.state:EXTRA_STATE
nn.modules.module nn.modules.hooks nn.modules.state _IncompatibleKeys=nn.modules.state:IncompatibleKeys
nn.modules.pooling nn.modules.unpooling _MaxPoolNd=nn.modules.pooling:_MaxPool
nn.modules.pooling _AvgPoolNd=nn.modules.pooling:_AvgPool
nn.modules.distance nn.modules.rearrange
nn.modules.flatten nn.modules.linear
nn.modules.fold nn.modules.rearrange
nn.modules.instancenorm nn.modules.normalization nn.modules.lazy
nn.modules.pixelshuffle nn.modules.rearrange
nn.modules.sparse nn.modules.linear EmbeddingBag=nn
nn.modules.upsampling nn.modules.rearrange
nn.utils.clip_grad nn.utils.parameters
nn.utils.convert_parameters nn.utils.parameters
nn.utils.fusion nn.utils.fusion
nn.utils.init skip_init=nn.utils
nn.utils.spectral_norm nn.utils.normalized SpectralNorm=nn.utils.normalized:_SpectralNorm
nn.utils.weight_norm nn.utils.normalized WeightNorm=nn.utils.normalized:_WeightNorm
optim.adadelta optim.adaptive adadelta=optim._functional
optim.adagrad optim.adaptive adagrad=optim._functional
optim.adam adam=optim._functional
optim.adamax optim.adam adamax=optim._functional
optim.adamw optim.adam adamw=optim._functional
optim.asgd optim.sgd asgd=optim._functional
optim.nadam optim.adam nadam=optim._functional
optim.radam optim.adam radam=optim._functional
optim.rmsprop optim.adaptive rmsprop=optim._functional
optim.rprop optim.sgd rprop=optim._functional
optim.sgd sgd=optim._functional
optim._adafactor optim.adaptive
utils._pytree utils._pytree_nodes
hub tqdm=utils.model_zoo
utils.data.dataloader utils.data.loader utils.data.collate _BaseDataLoaderIter=utils.data._passes:_Pass
utils.data.dataloader _SingleProcessDataLoaderIter=utils.data._passes:BatchesHere
utils.data.dataloader _MultiProcessingDataLoaderIter=utils.data._passes:BatchesOfWorkers
utils.data utils.data.datapipes.datapipe utils.data.datapipes._decorator
utils.data _DatasetKind=_surface.written
utils.data.datapipes.iter.callable utils.data.datapipes.iter
utils.data.datapipes.iter.combinatorics utils.data.datapipes.iter
utils.data.datapipes.iter.combining utils.data.datapipes.iter
utils.data.datapipes.iter.grouping utils.data.datapipes.iter
utils.data.datapipes.iter.selecting utils.data.datapipes.iter
utils.data.datapipes.iter.sharding utils.data.datapipes.iter
utils.data.datapipes.iter.utils utils.data.datapipes.iter
utils.data.datapipes.iter.filelister utils.data.datapipes.iter
utils.data.datapipes.iter.fileopener utils.data.datapipes.iter
utils.data.datapipes.iter.streamreader utils.data.datapipes.iter
utils.data.datapipes.utils
utils.data.datapipes.utils.common StreamWrapper=utils.data.datapipes.iter._files
utils.data.datapipes IterDataPipe=utils.data.datapipes.datapipe MapDataPipe=utils.data.datapipes.datapipe
utils.data.distributed DistributedSampler=utils.data.sampler
utils.data._utils
utils.data._utils.collate utils.data.collate
utils.data._utils.worker utils.data.worker
utils.data._utils.fetch utils.data.worker
"""


def _parse(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if words := line.split():
            found.setdefault(words[0].strip("."), []).extend(words[1:])
    return found


# Room -> modules that stood beside the package's `__init__`, under these names after an underscore: PyTorch
# has some of them there, and pickles name functions and classes of others. ``name=module``: renamed since.
EARLIER = """
_types errors info=limits size symbols typed=older_names
_arguments assertion
_state defaults determinism function_state generator profiling streams
_object conversion inquiry rebuild shared_memory sparse_tensor=sparse storage tensor tensor_exchange=exchange
_object tensor_memory=memory tensor_str=printing typed_storage
_operators calculus control_flow einsum grouping linear_algebra lobpcg recurrent stft
_surface file_check jit_internal sources utils
"""


def _of_rooms(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for room, modules in _parse(text).items():
        for module in modules:
            name, _, now = module.partition("=")
            found[f"_{name}"] = [f"{room}.{now or name}"]
    return found


MODULES = _of_rooms(EARLIER)
for _place, _entries in _parse(TEXT).items():
    MODULES.setdefault(_place, []).extend(_entries)


def find(module: str, name: str) -> Any:
    """Return what PyTorch has under a name of a module, from where it lies here; None if unknown."""
    for entry in MODULES.get(module.partition(".")[2], ()):
        single, is_single, home = entry.partition("=")
        home, _, other = (home if is_single else entry).partition(":")
        if not is_single or single == name:
            there = import_module(f"flambeau.{home}")
            value = getattr(there, other or name, None)
            if value is not None:
                return value
    return None


def fill(module: ModuleType) -> None:
    """Let a module find its names where they are."""
    key = module.__name__.partition(".")[2]
    homes = [f"flambeau.{entry}" for entry in MODULES[key] if "=" not in entry]
    module.__doc__ = f"PyTorch's place of names of {', '.join(homes) or 'other modules'}."
    found, listed = lazy.attributes(module.__name__)

    def __dir__() -> list[str]:
        return sorted({*listed(), *names_of(key)})

    vars(module)["__getattr__"], vars(module)["__dir__"] = found, __dir__


def names_of(key: str) -> set[str]:
    """Return the names that the table gives to a module."""
    entries = MODULES.get(key, [])
    single = {entry.partition("=")[0] for entry in entries if "=" in entry}
    whole = (dir(import_module(f"flambeau.{entry}")) for entry in entries if "=" not in entry)
    return single.union(*whole)
