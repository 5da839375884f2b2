"""Names of devices that there are no kernels for."""

from __future__ import annotations

# What is missing -> module -> kind and names; `absent` says what the kinds mean.
TABLES = {
    "flambeau has no kernels for Intel GPUs": """
xpu
  class Event MemPool Stream StreamContext XPUGraph XPUPluggableAllocator device device_of graph
  def can_device_access_peer change_current_allocator clock_rate current_device current_stream
      device_memory_used get_device_capability get_device_name get_device_properties get_gencode_flags
      get_per_process_memory_fraction get_rng_state get_rng_state_all get_stream_from_external
      graph_pool_handle init initial_seed make_graphed_callables mem_get_info memory_snapshot memory_usage
      power_draw set_device set_per_process_memory_fraction set_rng_state set_rng_state_all set_stream
      stream synchronize temperature use_mem_pool utilization
  answer device_count=0 empty_cache=None get_arch_list=[] is_available=False is_bf16_supported=False
      is_current_stream_capturing=False is_initialized=False is_tf32_supported=False manual_seed=None
      manual_seed_all=None max_memory_allocated=0 max_memory_reserved=0 memory_allocated=0 memory_reserved=0
      memory_stats={} memory_stats_as_nested_dict={} reset_accumulated_memory_stats=None
      reset_peak_memory_stats=None seed=None seed_all=None
xpu.memory
  answer is_initialized=False
  from MemPool=xpu XPUPluggableAllocator=xpu change_current_allocator=xpu empty_cache=xpu
      get_per_process_memory_fraction=xpu max_memory_allocated=xpu max_memory_reserved=xpu mem_get_info=xpu
      memory_allocated=xpu memory_reserved=xpu memory_snapshot=xpu memory_stats=xpu
      memory_stats_as_nested_dict=xpu reset_accumulated_memory_stats=xpu reset_peak_memory_stats=xpu
      set_per_process_memory_fraction=xpu use_mem_pool=xpu
xpu.random
  answer is_initialized=False
  from current_device=xpu device_count=xpu get_rng_state=xpu get_rng_state_all=xpu initial_seed=xpu
      manual_seed=xpu manual_seed_all=xpu seed=xpu seed_all=xpu set_rng_state=xpu set_rng_state_all=xpu
xpu.streams
  from Event=xpu Stream=xpu
""",
    "flambeau has no kernels for Apple GPUs": """
mps
  class Event
  def compile_shader get_rng_state load_metallib recommended_max_memory set_per_process_memory_fraction
      set_rng_state synchronize
  answer current_allocated_memory=0 device_count=0 driver_allocated_memory=0 empty_cache=None
      is_available=False manual_seed=None seed=None
mps.event
  from Event=mps
mps.profiler
  def is_capturing_metal is_metal_capture_enabled metal_capture profile start stop
""",
    "flambeau has no kernels for MTIA devices": """
mtia
  class MTIAGraph StreamContext device graph
  error DeferredMtiaCallError=Exception
  def attach_out_of_memory_observer current_device current_stream default_stream get_device_capability
      get_device_properties get_rng_state get_rng_state_all graph_pool_handle init initial_seed
      record_memory_history set_device set_rng_state set_rng_state_all set_stream snapshot stream
      synchronize
  answer device_count=0 empty_cache=None is_available=False is_bf16_supported=False is_initialized=False
      manual_seed=None manual_seed_all=None max_memory_allocated=0 memory_allocated=0 memory_stats={}
      reset_peak_memory_stats=None seed=None seed_all=None
""",
    "flambeau is not compiled with CUDA enabled": """
cuda.tunable
  def enable get_filename get_max_tuning_duration get_max_tuning_iterations get_results
      get_rotating_buffer_size get_validators is_enabled mgpu_tune_gemm_in_file read_file
      record_untuned_enable record_untuned_is_enabled set_filename set_max_tuning_duration
      set_max_tuning_iterations set_numerical_check_tolerances set_rotating_buffer_size tune_gemm_in_file
      tuning_enable tuning_is_enabled
cuda.nvtx
  from range=_surface.names_of_libraries
  def mark range_end range_pop range_push range_start
cuda.profiler
  def check_error cudart profile start stop
cuda.nccl
  def all_gather all_reduce broadcast init_rank reduce reduce_scatter unique_id version
  answer is_available=False
cuda.sparse
  class BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
      ShortTensor
cuda.jiterator
cuda.gds
  class GdsFile
  def gds_deregister_buffer gds_register_buffer
""",
}
