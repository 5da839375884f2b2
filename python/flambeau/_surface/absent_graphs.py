"""Names of parts of `fx` and `jit` that are not built."""

from __future__ import annotations

# What is missing -> module -> kind and names; `absent` says what the kinds mean.
TABLES = {
    "flambeau.fx has no partitioner for accelerators": """
fx.experimental.accelerator_partitioner
  class DAG DAGNode PartitionResult Partitioner
  def check_dependency combine_two_partitions get_bfs_level_partition get_device_partition_stats
      get_device_to_partitions_mapping get_logical_id_to_device get_node_to_partition_mapping
      reorganize_partitions reset_partition_device set_parents_and_children
fx.experimental.partitioner_utils
  enum PartitionMode size_based sparse_nn cost_aware kl_based aot_based
  class Device NodeLatency Partition PartitionLatency PartitionerConfig
  def get_comm_latency_between get_extra_size_of get_latency_of_one_partition
      get_latency_of_partitioned_graph get_partition_to_latency_mapping
fx.passes.net_min_base
  error FxNetMinimizerBadModuleError=Exception FxNetMinimizerResultMismatchError=Exception
      FxNetMinimizerRunFuncError=Exception
fx.passes.splitter_base
  class FxNetAccNodesFinder NodeEvent NodeEventTracker SplitResult Subgraph
  error FxNetSplitterInternalError=Exception
  def generate_inputs_for_submodules
""",
    "flambeau.fx has no gradual types": """
fx.experimental.graph_gradual_typechecker
  class GraphTypeChecker Refine
  def adaptiveavgpool2d_check adaptiveavgpool2d_inference_rule add_inference_rule all_eq
      bn2d_inference_rule broadcast_types calculate_out_dimension conv2d_inference_rule
      conv_refinement_rule conv_rule element_wise_eq expand_to_tensor_dim first_two_eq flatten_check
      flatten_inference_rule flatten_refinement_rule get_attr_inference_rule get_greatest_upper_bound
      get_parameter linear_check linear_inference_rule linear_refinement_rule maxpool2d_check
      maxpool2d_inference_rule register_algebraic_expressions_inference_rule register_inference_rule
      register_refinement_rule relu_inference_rule reshape_inference_rule transpose_inference_rule
fx.experimental.refinement_types
  class Equality
fx.experimental.schema_type_annotation
  class AnnotateTypesWithSchema
""",
    "flambeau.fx does not trace by shapes alone or rewrite source; symbolic_trace records": """
fx.experimental.meta_tracer
  class MetaAttribute MetaDeviceAttribute MetaProxy MetaTracer
  def embedding_override functional_relu_override gen_constructor_wrapper nn_layernorm_override
      proxys_to_metas symbolic_trace torch_abs_override torch_nn_relu_override torch_relu_override
      torch_where_override
fx.experimental.rewriter
  class AST_Rewriter RewritingTracer
fx.experimental.merge_matmul
  def are_nodes_independent may_depend_on merge_matmul split_result_tensors
""",
    "flambeau does not record, replay or validate the events of a ShapeEnv": """
_top.sizes
  class DynamicInt
  def is_channels_last_contiguous_2d is_channels_last_contiguous_3d is_channels_last_strides_2d
      is_channels_last_strides_3d is_contiguous is_non_overlapping_and_dense_indicator
      method_to_operator sympy_is_channels_last_contiguous_2d sympy_is_channels_last_contiguous_3d
      sympy_is_channels_last_strides_2d sympy_is_channels_last_strides_3d
      sympy_is_channels_last_strides_generic sympy_is_contiguous sympy_is_contiguous_generic
      wrap_node
fx.experimental.recording
  class FakeTensorMeta ShapeEnvEvent
  error NotEqualError=Exception
  def record_shapeenv_event replay_shape_env_events shape_env_check_state_equal
fx.experimental.validator
  error BisectValidationException=Exception ValidationException=Exception
  def bisect translation_validation_enabled translation_validation_timeout
fx.passes.runtime_assert
  def insert_deferred_runtime_asserts
""",
    "flambeau has no compiler for graphs yet": """
fx.passes.regional_inductor
  def regional_inductor
fx.passes.reinplace
  def reinplace
fx.passes.graph_transform_observer
  class GraphTransformObserver
fx.passes.annotate_getitem_nodes
  def annotate_getitem_nodes
fx.passes.param_fetch
  def default_matching extract_attrs_for_lowering lift_lowering_attrs_to_nodes
fx.passes.backends.cudagraphs
  class CudaGraphsSupport
  def partition_cudagraphs
""",
    "flambeau does not have the classes of PyTorch's TorchScript in C++": """
jit.generate_bytecode
  def format_bytecode generate_upgraders_bytecode
""",
    "flambeau has no quantized tensors": """
jit.quantized
  class QuantizedGRU QuantizedGRUCell QuantizedLSTM QuantizedLSTMCell QuantizedLinear
      QuantizedLinearFP16 QuantizedRNNBase QuantizedRNNCell QuantizedRNNCellBase
  def quantize_linear_modules quantize_rnn_cell_modules quantize_rnn_modules
""",
}
