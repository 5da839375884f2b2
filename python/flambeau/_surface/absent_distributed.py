"""Names of distributed training."""

from __future__ import annotations

# What is missing -> module -> kind and names; `absent` says what the kinds mean.
TABLES = {
    "flambeau lacks this part of distributed training": """
distributed._unbuilt
  class C10dBackend DistAutogradContext Logger ProcessGroupGloo Reducer
  enum BuiltinCommHookType ALLREDUCE FP16_COMPRESS
  def as_functional_optim breakpoint get_default_backend_for_device record_comm shrink_group
      split_group
distributed.algorithms.ddp_comm_hooks.default_hooks
  from allreduce_hook=distributed._comm_hooks bf16_compress_hook=distributed._comm_hooks
      bf16_compress_wrapper=distributed._comm_hooks fp16_compress_hook=distributed._comm_hooks
      fp16_compress_wrapper=distributed._comm_hooks
distributed.algorithms._checkpoint
distributed.algorithms._checkpoint.checkpoint_wrapper
  class ActivationWrapper CheckpointWrapper OffloadWrapper
  enum CheckpointImpl REENTRANT NO_REENTRANT
  def apply_activation_checkpointing checkpoint_wrapper offload_wrapper
distributed.checkpoint._unbuilt
  class BlockingAsyncStager ChunkShardingSpec ExtensionRegistry FileSystem FileSystemBase
      Shard ShardTensorProperties ShardedTensor StreamTransformExtension
  enum SerializationFormat TORCH_SAVE SAFETENSORS
  def create_read_items_for_chunk_list dedup_save_plans find_state_dict_object flatten_state_dict
      load_sharded_optimizer_state_dict narrow_tensor_by_index set_element unflatten_state_dict
distributed.checkpoint.optimizer
  from BytesStorageMetadata=distributed.checkpoint ChunkShardingSpec=distributed.checkpoint._unbuilt
      ChunkStorageMetadata=distributed.checkpoint DTensor=distributed.tensor
      DefaultLoadPlanner=distributed.checkpoint LoadPlan=distributed.checkpoint
      LoadPlanner=distributed.checkpoint Metadata=distributed.checkpoint
      MetadataIndex=distributed.checkpoint.metadata Shard=distributed.checkpoint._unbuilt
      ShardTensorProperties=distributed.checkpoint._unbuilt ShardedTensor=distributed.checkpoint._unbuilt
      StorageReader=distributed.checkpoint TensorProperties=distributed.checkpoint.metadata
      TensorStorageMetadata=distributed.checkpoint
      create_read_items_for_chunk_list=distributed.checkpoint._unbuilt
      load_sharded_optimizer_state_dict=distributed.checkpoint load_state_dict=distributed.checkpoint
      unflatten_state_dict=distributed.checkpoint._unbuilt
distributed._composable
  def checkpoint contract replicate
distributed._composable.fsdp
  from FSDPModule=distributed.fsdp MixedPrecisionPolicy=distributed.fsdp fully_shard=distributed.fsdp
distributed._functional_unbuilt
  def all_gather_inplace all_gather_into_tensor_backward all_gather_into_tensor_coalesced_backward
      all_gather_into_tensor_coalesced_setup_context all_gather_into_tensor_setup_context
      all_gather_tensor_inplace all_reduce_backward all_reduce_coalesced_backward
      all_reduce_coalesced_setup_context all_reduce_inplace all_reduce_setup_context all_to_all_inplace
      all_to_all_single_backward all_to_all_single_setup_context
      allow_inflight_collective_as_graph_input_ctx backend_impl batch_p2p_ops_inplace irecv_inplace
      isend_inplace legacy_all_gather legacy_all_gather_base legacy_all_to_all_single legacy_allgather
      legacy_allgather_single legacy_allreduce legacy_batch_p2p_ops legacy_irecv legacy_isend
      legacy_reduce_scatter_base legacy_reducescatter legacy_reducescatter_single
      reduce_scatter_tensor_backward reduce_scatter_tensor_coalesced_backward
      reduce_scatter_tensor_coalesced_setup_context reduce_scatter_tensor_inplace
      reduce_scatter_tensor_setup_context wait_tensor_backward wait_tensor_setup_context
distributed._shard
  def load_with_process_group shard_module shard_parameter
distributed._shard.sharded_tensor
  class ShardMetadata ShardedTensorBase ShardedTensorMetadata TensorProperties
  def allclose constant_ custom_sharded_op_impl empty equal full init_from_local_shards kaiming_uniform_
      normal_ ones pre_load_state_dict_hook rand randn sharded_embedding sharded_embedding_bag
      state_dict_hook uniform_ zeros
  from Shard=distributed.checkpoint.optimizer ShardedTensor=distributed.checkpoint.optimizer
distributed._tensor
  from DTensor=distributed.tensor DeviceMesh=distributed Partial=distributed.tensor
      Placement=distributed.tensor Replicate=distributed.tensor Shard=distributed.tensor
      distribute_module=distributed.tensor distribute_tensor=distributed.tensor empty=distributed.tensor
      full=distributed.tensor init_device_mesh=distributed ones=distributed.tensor rand=distributed.tensor
      randn=distributed.tensor zeros=distributed.tensor
distributed.elastic
distributed.elastic.events
  class Event RdzvEvent
  enum EventSource AGENT WORKER
  enum NodeState INIT RUNNING SUCCEEDED FAILED
  def construct_and_record_rdzv_event get_logging_handler record record_rdzv_event
distributed.elastic.multiprocessing
  class DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext ProcessFailure RunProcsResult
      SubprocessContext
  enum Std NONE OUT ERR ALL
  error SignalException=Exception
  def get_logger start_processes to_map
distributed.elastic.multiprocessing.errors
  class ErrorHandler
  error ChildFailedError=Exception
  def get_error_handler
  decorator record
  from ProcessFailure=distributed.elastic.multiprocessing get_logger=distributed.elastic.multiprocessing
distributed.elastic.rendezvous
  class RendezvousHandler RendezvousHandlerRegistry RendezvousInfo RendezvousParameters RendezvousStoreInfo
  error RendezvousClosedError=Exception RendezvousConnectionError=Exception RendezvousError=Exception
      RendezvousGracefulExitError=Exception RendezvousStateError=Exception RendezvousTimeoutError=Exception
distributed.elastic.agent
distributed.elastic.agent.server
  class ElasticAgent RunResult SimpleElasticAgent Worker WorkerGroup WorkerSpec
  enum WorkerState UNKNOWN INIT HEALTHY UNHEALTHY STOPPED SUCCEEDED FAILED
distributed.fsdp._unbuilt
  class DataParallelMeshDims FlatParamHandle
  enum HandleTrainingState IDLE FORWARD BACKWARD_PRE BACKWARD_POST SUMMON_FULL_PARAMS
  enum TrainingState IDLE FORWARD_BACKWARD SUMMON_FULL_PARAMS
distributed.fsdp._common_utils
  class no_dispatch
  def collect_grad_tensors replace_grad_tensors
  from FullOptimStateDictConfig=distributed.fsdp FullStateDictConfig=distributed.fsdp
      HandleTrainingState=distributed.fsdp._unbuilt OptimStateDictConfig=distributed.fsdp
      ShardingStrategy=distributed.fsdp StateDictConfig=distributed.fsdp StateDictType=distributed.fsdp
      TrainingState=distributed.fsdp._unbuilt clean_tensor_name=distributed.fsdp._wrapped_states
distributed.fsdp._runtime_utils
  enum HandleShardingStrategy FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD _HYBRID_SHARD_ZERO2
  from BackwardPrefetch=distributed.fsdp FlatParamHandle=distributed.fsdp._unbuilt
      FlatParameter=distributed.fsdp HandleTrainingState=distributed.fsdp._unbuilt
      TrainingState=distributed.fsdp._unbuilt clean_tensor_name=distributed.fsdp._wrapped_states
distributed.launcher
  class LaunchConfig elastic_launch
  def launch_agent
distributed.launcher.api
  class HealthCheckServer LocalElasticAgent
  def create_healthcheck_server parse_rendezvous_endpoint
  from DefaultLogsSpecs=distributed.elastic.multiprocessing LaunchConfig=distributed.launcher
      LogsSpecs=distributed.elastic.multiprocessing RendezvousParameters=distributed.elastic.rendezvous
      SignalException=distributed.elastic.multiprocessing WorkerSpec=distributed.elastic.agent.server
      elastic_launch=distributed.launcher get_logger=distributed.elastic.multiprocessing
      launch_agent=distributed.launcher
  from ChildFailedError=distributed.elastic.multiprocessing.errors
      record=distributed.elastic.multiprocessing.errors
distributed.rpc._unbuilt
  class AllGatherStates PyRRef RemoteProfilerManager RpcAgent TensorPipeAgent
  def enable_gil_profiling method_factory new_method
distributed.tensor.device_mesh
  from DeviceMesh=distributed init_device_mesh=distributed
distributed.tensor.experimental._unbuilt
  def implicit_replication local_map register_sharding
distributed.tensor._utils
  def compute_local_shape_and_global_offset
distributed._tensor.experimental
  from implicit_replication=distributed.tensor.experimental._unbuilt
      local_map=distributed.tensor.experimental._unbuilt
distributed.tensor._unbuilt
  class MaskBuffer
  def fill_empty_tensor_to_shards maybe_run_for_local_tensor mesh_broadcast mesh_scatter pad_tensor
      shard_dim_alltoall unpad_tensor
distributed.utils
  def _sync_module_states _verify_param_shape_across_processes
""",
    "flambeau does not bind processes to NUMA nodes": """
numa.binding
  class NumaOptions
  enum AffinityMode NODE SOCKET EXCLUSIVE CORE_COMPLEX
  def maybe_wrap_command_args_with_numa_binding maybe_wrap_with_numa_binding
""",
}
