"""Names of quantization."""

from __future__ import annotations

# What is missing -> module -> kind and names; `absent` says what the kinds mean.
TABLES = {
    "flambeau has no quantized tensors": """
ao.quantization
  class AffineQuantizedObserverBase DeQuantStub FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize
      FixedQParamsObserver FusedMovingAvgObsFakeQuantize Granularity HistogramObserver MinMaxObserver
      MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver ObserverBase PerAxis
      PerBlock PerChannelMinMaxObserver PerGroup PerRow PerTensor PerToken PlaceholderObserver QConfig
      QConfigDynamic QConfigMapping QuantStub QuantWrapper RecordingObserver ReuseInputObserver
      UniformQuantizationObserverBase default_affine_fixed_qparams_fake_quant
      default_affine_fixed_qparams_observer default_debug_observer default_dynamic_fake_quant
      default_dynamic_quant_observer default_embedding_fake_quant default_embedding_fake_quant_4bit
      default_fake_quant default_fixed_qparams_range_0to1_fake_quant
      default_fixed_qparams_range_0to1_observer default_fixed_qparams_range_neg1to1_fake_quant
      default_fixed_qparams_range_neg1to1_observer default_float_qparams_observer
      default_float_qparams_observer_4bit default_fused_act_fake_quant
      default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_histogram_fake_quant
      default_histogram_observer default_observer default_per_channel_weight_fake_quant
      default_per_channel_weight_observer default_placeholder_observer default_reuse_input_observer
      default_symmetric_fixed_qparams_fake_quant default_symmetric_fixed_qparams_observer
      default_weight_fake_quant default_weight_observer fused_per_channel_wt_fake_quant_range_neg_127_to_127
      fused_wt_fake_quant_range_neg_127_to_127 per_channel_weight_observer_range_neg_127_to_127
      weight_observer_range_neg_127_to_127
  enum MappingType SYMMETRIC SYMMETRIC_NO_CLIPPING_ERR ASYMMETRIC
  enum QuantType DYNAMIC STATIC QAT WEIGHT_ONLY
  enum TorchAODType INT1 INT2 INT3 INT4 INT5 INT6 INT7
  enum ZeroPointDomain INT FLOAT NONE
  def ObserverOrFakeQuantize QConfigAny add_quant_dequant convert convert_dynamic_jit convert_jit
      default_eval_fn disable_fake_quant disable_observer enable_fake_quant enable_observer fuse_conv_bn
      fuse_conv_bn_jit fuse_conv_bn_relu fuse_convtranspose_bn fuse_linear_bn fuse_modules fuse_modules_qat
      get_block_size get_default_compare_output_module_list get_default_custom_config_dict
      get_default_dynamic_quant_module_mappings get_default_dynamic_sparse_quant_module_mappings
      get_default_float_to_quantized_operator_mappings get_default_qat_module_mappings
      get_default_qat_qconfig get_default_qat_qconfig_dict get_default_qat_qconfig_mapping
      get_default_qconfig get_default_qconfig_dict get_default_qconfig_mapping
      get_default_qconfig_propagation_list get_default_static_quant_module_mappings
      get_default_static_quant_reference_module_mappings get_default_static_sparse_quant_module_mappings
      get_dynamic_quant_module_class get_embedding_qat_module_mappings
      get_embedding_static_quant_module_mappings get_fuser_method get_fuser_method_new
      get_observer_state_dict get_quantized_operator get_static_quant_module_class load_observer_state_dict
      no_observer_set prepare prepare_dynamic_jit prepare_jit prepare_qat propagate_qconfig_ qconfig_equals
      quantize quantize_dynamic quantize_dynamic_jit quantize_jit quantize_qat script_qconfig
      script_qconfig_dict swap_module
ao.quantization.observer
  class default_affine_fixed_qparams_observer default_dynamic_quant_observer
      default_fixed_qparams_range_0to1_observer default_fixed_qparams_range_neg1to1_observer
      default_float_qparams_observer default_float_qparams_observer_4bit default_histogram_observer
      default_observer default_per_channel_weight_observer default_symmetric_fixed_qparams_observer
      default_weight_observer per_channel_weight_observer_range_neg_127_to_127
      weight_observer_range_neg_127_to_127
  def calculate_qmin_qmax check_min_max_valid is_per_channel is_per_tensor validate_qmin_qmax
  from AffineQuantizedObserverBase=ao.quantization FixedQParamsObserver=ao.quantization
      Granularity=ao.quantization HistogramObserver=ao.quantization MappingType=ao.quantization
      MinMaxObserver=ao.quantization MovingAverageMinMaxObserver=ao.quantization
      MovingAveragePerChannelMinMaxObserver=ao.quantization NoopObserver=ao.quantization
      ObserverBase=ao.quantization PerAxis=ao.quantization PerBlock=ao.quantization
      PerChannelMinMaxObserver=ao.quantization PerGroup=ao.quantization PerRow=ao.quantization
      PerTensor=ao.quantization PerToken=ao.quantization PlaceholderObserver=ao.quantization
      RecordingObserver=ao.quantization ReuseInputObserver=ao.quantization TorchAODType=ao.quantization
      UniformQuantizationObserverBase=ao.quantization ZeroPointDomain=ao.quantization
      default_debug_observer=ao.quantization default_placeholder_observer=ao.quantization
      default_reuse_input_observer=ao.quantization get_block_size=ao.quantization
      get_observer_state_dict=ao.quantization load_observer_state_dict=ao.quantization
ao.quantization.fx
  class ObservedGraphModule
  def convert fuse prepare
ao.quantization.fake_quantize
  class default_affine_fixed_qparams_fake_quant default_dynamic_fake_quant default_embedding_fake_quant
      default_embedding_fake_quant_4bit default_fake_quant default_fixed_qparams_range_0to1_fake_quant
      default_fixed_qparams_range_0to1_observer default_fixed_qparams_range_neg1to1_fake_quant
      default_fixed_qparams_range_neg1to1_observer default_fused_act_fake_quant
      default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_histogram_fake_quant
      default_per_channel_weight_fake_quant default_symmetric_fixed_qparams_fake_quant
      default_weight_fake_quant fused_per_channel_wt_fake_quant_range_neg_127_to_127
      fused_wt_fake_quant_range_neg_127_to_127
  from FakeQuantize=ao.quantization FakeQuantizeBase=ao.quantization
      FixedQParamsFakeQuantize=ao.quantization FixedQParamsObserver=ao.quantization
      FusedMovingAvgObsFakeQuantize=ao.quantization HistogramObserver=ao.quantization
      MovingAverageMinMaxObserver=ao.quantization MovingAveragePerChannelMinMaxObserver=ao.quantization
      disable_fake_quant=ao.quantization disable_observer=ao.quantization enable_fake_quant=ao.quantization
      enable_observer=ao.quantization
ao.quantization.qconfig
  class default_dynamic_fake_quant default_dynamic_quant_observer default_embedding_fake_quant
      default_embedding_fake_quant_4bit default_fake_quant default_float_qparams_observer
      default_float_qparams_observer_4bit default_fused_act_fake_quant
      default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_observer
      default_per_channel_weight_fake_quant default_per_channel_weight_observer default_weight_fake_quant
      default_weight_observer fused_per_channel_wt_fake_quant_range_neg_127_to_127
      fused_wt_fake_quant_range_neg_127_to_127 per_channel_weight_observer_range_neg_127_to_127
      weight_observer_range_neg_127_to_127
  from FakeQuantize=ao.quantization FakeQuantizeBase=ao.quantization
      FusedMovingAvgObsFakeQuantize=ao.quantization HistogramObserver=ao.quantization
      MinMaxObserver=ao.quantization MovingAverageMinMaxObserver=ao.quantization
      NoopObserver=ao.quantization ObserverBase=ao.quantization PlaceholderObserver=ao.quantization
      QConfig=ao.quantization QConfigAny=ao.quantization QConfigDynamic=ao.quantization
      ReuseInputObserver=ao.quantization default_debug_observer=ao.quantization
      default_placeholder_observer=ao.quantization default_reuse_input_observer=ao.quantization
      get_default_qat_qconfig=ao.quantization get_default_qat_qconfig_dict=ao.quantization
      get_default_qconfig=ao.quantization get_default_qconfig_dict=ao.quantization
      qconfig_equals=ao.quantization
ao.quantization.qconfig_mapping
  class default_fixed_qparams_range_0to1_observer default_fixed_qparams_range_neg1to1_observer
      default_weight_fake_quant default_weight_observer
  from FixedQParamsFakeQuantize=ao.quantization QConfig=ao.quantization QConfigAny=ao.quantization
      QConfigMapping=ao.quantization default_placeholder_observer=ao.quantization
      get_default_qat_qconfig=ao.quantization get_default_qat_qconfig_mapping=ao.quantization
      get_default_qconfig=ao.quantization get_default_qconfig_mapping=ao.quantization
ao.quantization.quantize
  def get_qparam_dict has_no_children_ignoring_parametrizations is_activation_post_process
  from DeQuantStub=ao.quantization QuantWrapper=ao.quantization add_quant_dequant=ao.quantization
      convert=ao.quantization get_default_custom_config_dict=ao.quantization
      get_default_dynamic_quant_module_mappings=ao.quantization
      get_default_qat_module_mappings=ao.quantization get_default_qconfig_propagation_list=ao.quantization
      get_default_static_quant_module_mappings=ao.quantization
      get_default_static_quant_reference_module_mappings=ao.quantization no_observer_set=ao.quantization
      prepare=ao.quantization prepare_qat=ao.quantization propagate_qconfig_=ao.quantization
      quantize=ao.quantization quantize_dynamic=ao.quantization quantize_qat=ao.quantization
      swap_module=ao.quantization
ao.quantization.quantize_fx
  class BackendConfig ConvertCustomConfig FuseCustomConfig ObservedGraphModule PrepareCustomConfig
      QuantizationTracer ScopeContextManager
  def attach_preserved_attrs_to_model convert convert_fx convert_to_reference_fx fuse fuse_fx
      get_custom_module_class_keys get_skipped_module_name_and_classes get_tensorrt_backend_config prepare
      prepare_fx prepare_qat_fx
  from QConfigMapping=ao.quantization
ao.quantization.fuse_modules
  def fuse_known_modules
  from fuse_conv_bn=ao.quantization fuse_conv_bn_relu=ao.quantization fuse_modules=ao.quantization
      fuse_modules_qat=ao.quantization get_fuser_method=ao.quantization
ao.quantization.fuser_method_mappings
  class MatchAllNode
  def Pattern get_combined_dict
  from fuse_conv_bn=ao.quantization fuse_conv_bn_relu=ao.quantization fuse_convtranspose_bn=ao.quantization
      fuse_linear_bn=ao.quantization get_fuser_method=ao.quantization get_fuser_method_new=ao.quantization
ao.quantization.quantization_mappings
  class default_fixed_qparams_range_0to1_fake_quant default_fixed_qparams_range_neg1to1_fake_quant
  from DeQuantStub=ao.quantization QuantStub=ao.quantization
      get_combined_dict=ao.quantization.fuser_method_mappings
      get_default_compare_output_module_list=ao.quantization
      get_default_dynamic_quant_module_mappings=ao.quantization
      get_default_dynamic_sparse_quant_module_mappings=ao.quantization
      get_default_float_to_quantized_operator_mappings=ao.quantization
      get_default_qat_module_mappings=ao.quantization get_default_qconfig_propagation_list=ao.quantization
      get_default_static_quant_module_mappings=ao.quantization
      get_default_static_quant_reference_module_mappings=ao.quantization
      get_default_static_sparse_quant_module_mappings=ao.quantization
      get_dynamic_quant_module_class=ao.quantization get_embedding_qat_module_mappings=ao.quantization
      get_embedding_static_quant_module_mappings=ao.quantization get_quantized_operator=ao.quantization
      get_static_quant_module_class=ao.quantization no_observer_set=ao.quantization
ao.quantization.stubs
  from DeQuantStub=ao.quantization QConfig=ao.quantization QuantStub=ao.quantization
      QuantWrapper=ao.quantization
ao.quantization.utils
  def NodePattern activation_dtype activation_is_dynamically_quantized activation_is_int32_quantized
      activation_is_int8_quantized activation_is_statically_quantized check_node determine_qparams
      get_fqn_to_example_inputs get_qconfig_dtypes get_quant_type get_swapped_custom_module_class
      getattr_from_fqn is_per_channel is_per_tensor op_is_int8_dynamically_quantized to_underlying_dtype
      weight_dtype weight_is_quantized weight_is_statically_quantized
  from MatchAllNode=ao.quantization.fuser_method_mappings Pattern=ao.quantization.fuser_method_mappings
      QuantType=ao.quantization calculate_qmin_qmax=ao.quantization.observer
      check_min_max_valid=ao.quantization.observer get_combined_dict=ao.quantization.fuser_method_mappings
      get_qparam_dict=ao.quantization.quantize
      has_no_children_ignoring_parametrizations=ao.quantization.quantize
      validate_qmin_qmax=ao.quantization.observer
ao.quantization.backend_config
  class BackendPatternConfig DTypeConfig DTypeWithConstraints
  enum ObservationType OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT OUTPUT_SHARE_OBSERVER_WITH_INPUT
      INPUT_OUTPUT_NOT_OBSERVED
  def get_executorch_backend_config get_fbgemm_backend_config get_native_backend_config
      get_native_backend_config_dict get_onednn_backend_config get_qnnpack_backend_config
      get_tensorrt_backend_config_dict
  from BackendConfig=ao.quantization.quantize_fx get_tensorrt_backend_config=ao.quantization.quantize_fx
ao.quantization.quant_type
  from QuantType=ao.quantization
ao.nn.quantized
  class BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
      DeQuantize Dropout ELU Embedding EmbeddingBag FXFloatFunctional FloatFunctional GroupNorm Hardswish
      InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LayerNorm LeakyReLU Linear MultiheadAttention PReLU
      QFunctional Quantize ReLU6 Sigmoid Softmax
ao.nn.quantized.dynamic
  class Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d GRU GRUCell LSTM LSTMCell
      Linear RNNCell
ao.nn.quantizable
  class LSTM LSTMCell MultiheadAttention
ao.nn.intrinsic
  class BNReLU2d BNReLU3d ConvAdd2d ConvAddReLU2d ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d
      ConvBnReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearBn1d LinearLeakyReLU LinearReLU LinearTanh
ao.nn.intrinsic.qat
  class ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU1d ConvReLU2d ConvReLU3d
      LinearBn1d LinearReLU
  def freeze_bn_stats update_bn_stats
ao.nn.qat
  class Conv1d Conv2d Conv3d Embedding EmbeddingBag Linear
ao.nn.sparse
ao.pruning
  class BaseScheduler BaseSparsifier CubicSL FakeSparsity LambdaSL NearlyDiagonalSparsifier
      WeightNormSparsifier
  def fqn_to_module get_arg_info_from_tensor_fqn get_dynamic_sparse_quantized_mapping
      get_static_sparse_quantized_mapping module_to_fqn
quantization
  class default_fake_quant default_fixed_qparams_range_0to1_fake_quant
      default_fixed_qparams_range_neg1to1_fake_quant default_histogram_fake_quant default_observer
      default_per_channel_weight_fake_quant default_per_channel_weight_observer default_weight_fake_quant
      default_weight_observer
  def default_eval_fn
  from DeQuantStub=ao.quantization HistogramObserver=ao.quantization ObserverBase=ao.quantization
      QConfig=ao.quantization QuantStub=ao.quantization QuantType=ao.quantization
      QuantWrapper=ao.quantization add_quant_dequant=ao.quantization convert=ao.quantization
      default_placeholder_observer=ao.quantization fuse_modules=ao.quantization
      get_default_compare_output_module_list=ao.quantization
      get_default_dynamic_quant_module_mappings=ao.quantization
      get_default_qat_module_mappings=ao.quantization get_default_qconfig_propagation_list=ao.quantization
      get_default_static_quant_module_mappings=ao.quantization get_fuser_method=ao.quantization
      get_quantized_operator=ao.quantization get_static_quant_module_class=ao.quantization
      prepare=ao.quantization prepare_qat=ao.quantization propagate_qconfig_=ao.quantization
      quantize=ao.quantization quantize_dynamic=ao.quantization quantize_dynamic_jit=ao.quantization
      quantize_jit=ao.quantization quantize_qat=ao.quantization swap_module=ao.quantization
quantization.observer
quantization.fake_quantize
quantization.quantize
quantization.qconfig
quantization.quantize_fx
quantization.stubs
quantization.fuse_modules
nn.quantized
  class MaxPool2d
  from BatchNorm2d=ao.nn.quantized BatchNorm3d=ao.nn.quantized Conv1d=ao.nn.quantized Conv2d=ao.nn.quantized
      Conv3d=ao.nn.quantized ConvTranspose1d=ao.nn.quantized ConvTranspose2d=ao.nn.quantized
      ConvTranspose3d=ao.nn.quantized DeQuantize=ao.nn.quantized Dropout=ao.nn.quantized ELU=ao.nn.quantized
      Embedding=ao.nn.quantized EmbeddingBag=ao.nn.quantized FXFloatFunctional=ao.nn.quantized
      FloatFunctional=ao.nn.quantized GroupNorm=ao.nn.quantized Hardswish=ao.nn.quantized
      InstanceNorm1d=ao.nn.quantized InstanceNorm2d=ao.nn.quantized InstanceNorm3d=ao.nn.quantized
      LSTM=ao.nn.quantized LayerNorm=ao.nn.quantized LeakyReLU=ao.nn.quantized Linear=ao.nn.quantized
      MultiheadAttention=ao.nn.quantized PReLU=ao.nn.quantized QFunctional=ao.nn.quantized
      Quantize=ao.nn.quantized ReLU6=ao.nn.quantized Sigmoid=ao.nn.quantized Softmax=ao.nn.quantized
nn.quantized.dynamic
nn.intrinsic
  from BNReLU2d=ao.nn.intrinsic BNReLU3d=ao.nn.intrinsic ConvBn1d=ao.nn.intrinsic ConvBn2d=ao.nn.intrinsic
      ConvBn3d=ao.nn.intrinsic ConvBnReLU1d=ao.nn.intrinsic ConvBnReLU2d=ao.nn.intrinsic
      ConvBnReLU3d=ao.nn.intrinsic ConvReLU1d=ao.nn.intrinsic ConvReLU2d=ao.nn.intrinsic
      ConvReLU3d=ao.nn.intrinsic LinearBn1d=ao.nn.intrinsic LinearReLU=ao.nn.intrinsic
nn.intrinsic.qat
nn.qat
  from Conv1d=ao.nn.qat Conv2d=ao.nn.qat Conv3d=ao.nn.qat Embedding=ao.nn.qat EmbeddingBag=ao.nn.qat
      Linear=ao.nn.qat
nn.quantizable
""",
}
