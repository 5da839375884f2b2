"""Names of the package itself that belong to what is not built."""

from __future__ import annotations

# What is missing -> module -> kind and names; `absent` says what the kinds mean.
TABLES = {
    "flambeau does not have the classes of PyTorch's TorchScript in C++": """
_top.script
  class AliasDb ArgumentSpec AwaitType BenchmarkConfig
      BenchmarkExecutionStats Block BufferDict CallStack Capsule ClassType Code CompilationUnit
      CompleteArgumentSpec ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable
      DeserializationStorageContext EnumType ErrorReport ExecutionPlan
      FutureType Gradient Graph GraphExecutorState IODescriptor InferredType
      InterfaceType LiteScriptModule LockingLogger ModuleDict Node NoopLogger
      OperatorInfo ParameterDict PyObjectType PyTorchFileReader PyTorchFileWriter RRefType
      ScriptClassFunction ScriptDict ScriptDictIterator ScriptDictKeyIterator ScriptList
      ScriptListIterator ScriptModuleSerializer ScriptMethod ScriptObjectProperty
      SerializationStorageContext StaticModule
      ThroughputBenchmark TracingState UnionType Use Value
  def import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir
      parse_type_comment unify_type_list
  error JITException=RuntimeError
""",
    "flambeau has no quantized tensors": """
_top.quantized
  class qscheme
  def choose_qparams_optimized dequantize empty_quantized fake_quantize_per_channel_affine
      fake_quantize_per_tensor_affine fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
      fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight
      fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant int_repr
      q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point
      _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor
      quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
      quantized_gru_cell quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d
      quantized_rnn_relu_cell quantized_rnn_tanh_cell
""",
    "flambeau has no compressed sparse layouts, semi-structured ones included": """
sparse.semi_structured
  class SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS
  def to_sparse_semi_structured
""",
    "flambeau does not call this library by name; nn.functional has the operator": """
_top.vendors
  def batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
      batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
      cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu
      cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler miopen_batch_norm
      miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose
      miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution
      mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer
  answer cudnn_is_acceptable=False is_vulkan_available=False
""",
    "flambeau profiles with flambeau.profiler.profile": """
_top.profiler
  def _disable_profiler _enable_profiler
""",
    "flambeau is not compiled with CUDA enabled": """
cuda.comm
  def broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter
cuda.green_contexts
  class GreenContext
_top.events
  def rebuild_cuda_tensor rebuild_event reduce_event
""",
    "flambeau has no compiler": """
_top.compiled
  def load_compiled_function
""",
    "flambeau keeps no layout of oneDNN": """
utils.mkldnn
  class MkldnnBatchNorm MkldnnConv1d MkldnnConv2d MkldnnConv3d MkldnnLinear MkldnnPrelu
  def to_mkldnn
""",
    "flambeau does not optimize models for phones": """
utils.mobile_optimizer
  enum LintCode BUNDLED_INPUT REQUIRES_GRAD DROPOUT BATCHNORM
  enum MobileOptimizerType CONV_BN_FUSION INSERT_FOLD_PREPACK_OPS REMOVE_DROPOUT FUSE_ADD_RELU
      HOIST_CONV_PACKED_PARAMS VULKAN_AUTOMATIC_GPU_TRANSFER
  def optimize_for_mobile generate_mobile_module_lints
""",
    "flambeau has no masked tensors; flambeau.masked has reductions over masks": """
_top.masked
  class MaskedTensor
  def as_masked_tensor is_masked_tensor masked_tensor
masked.maskedtensor
  from MaskedTensor=_top.masked is_masked_tensor=_top.masked
masked.maskedtensor.core
  from MaskedTensor=_top.masked is_masked_tensor=_top.masked
masked.maskedtensor.creation
  from as_masked_tensor=_top.masked masked_tensor=_top.masked
""",
    "flambeau has no accelerator": """
_top.devices
  error AcceleratorError=RuntimeError FatalError=RuntimeError
""",
    "flambeau has no operators that constrain symbolic sizes; torch._check does": """
_top.symbolic
  def sym_constrain_range sym_constrain_range_for_size sym_fresh_size
""",
    "it was removed from PyTorch; linalg has it": """
_top.removed
  def eig lstsq matrix_rank solve symeig
""",
    "flambeau has no layers written in C++": """
cpp
  class OrderedModuleDict OrderedTensorDict
cpp.nn
  class Module
""",
    "flambeau does not open its dispatch to Python": """
_top.dispatch
  enum Tag core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated
      inplace inplace_view maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides
      needs_fixed_stride_order nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise
      pt2_compliant_tag reduction view_copy
  class ExcludeDispatchKeyGuard
""",
}
