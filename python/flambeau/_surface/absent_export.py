"""Names of ONNX, export, packages and nested tensors."""

from __future__ import annotations

# What is missing -> module -> kind and names; `absent` says what the kinds mean.
TABLES = {
    "flambeau has no ONNX exporter": """
onnx
  class ExportableModule InputObserver ONNXProgram
  enum JitScalarType UINT8 INT8 INT16 INT INT64 HALF FLOAT DOUBLE COMPLEX32 COMPLEX64 COMPLEX128 BOOL QINT8
      QUINT8 QINT32 BFLOAT16 FLOAT8E5M2 FLOAT8E4M3FN FLOAT8E5M2FNUZ FLOAT8E4M3FNUZ UNDEFINED
  enum OperatorExportTypes ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH
  enum TensorProtoDataType UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE
      UINT32 UINT64 COMPLEX64 COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ
  enum TrainingMode EVAL PRESERVE TRAINING
  error OnnxExporterError=RuntimeError
  def export select_model_mode_for_export
  answer is_in_onnx_export=False register_custom_op_symbolic=None unregister_custom_op_symbolic=None
onnx.errors
  error OnnxExporterWarning=UserWarning SymbolicValueError=RuntimeError
      UnsupportedOperatorError=RuntimeError
  from OnnxExporterError=onnx
onnx.symbolic_helper
  def _get_const _get_tensor_rank _get_tensor_sizes _is_none _is_value _maybe_get_const _reshape_helper
      _slice_helper _squeeze_helper _unimplemented _unsqueeze_helper args_have_same_dtype
      cast_pytorch_to_onnx check_training_mode dequantize_helper is_complex_value quantize_helper
      requantize_bias_helper
  decorator parse_args quantized_args
onnx.utils
  def disable_apex_o2_state_dict_hook export exporter_context model_signature setup_onnx_logging
      unconvertible_ops unpack_quantized_tensor warn_on_static_input_change
  from register_custom_op_symbolic=onnx select_model_mode_for_export=onnx unregister_custom_op_symbolic=onnx
onnx.operators
  def reshape_from_tensor_shape shape_as_tensor
onnx.verification
  class VerificationInfo
  def verify_onnx_program
onnx.symbolic_opset9
  def add cat conv2d div embedding expand gather index_select layer_norm linear masked_fill matmul mul permute
      relu reshape select sigmoid slice softmax squeeze sub tanh transpose unsqueeze view where
onnx.symbolic_opset11
  def add arange cat clamp gather hardtanh index index_put pad select slice sort squeeze topk unsqueeze
onnx.symbolic_opset10
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx.symbolic_opset12
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx.symbolic_opset13
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx.symbolic_opset14
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx.symbolic_opset15
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx.symbolic_opset16
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx.symbolic_opset17
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx.symbolic_opset18
  def dropout einsum flip slice softmax split topk unsqueeze where
onnx._constants
  value ONNX_DEFAULT_OPSET=18
onnx._globals
  class GLOBALS
""",
    "flambeau has no exporter of programs": """
export
  class AdditionalInputs CustomDecompTable Dim:AUTO=AUTO:DYNAMIC=DYNAMIC:STATIC=STATIC
      ExportBackwardSignature ExportGraphSignature ExportedProgram
      FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection UnflattenedModule
  def default_decompositions dims draft_export export load register_dataclass save unflatten
export.exported_program
  class ConstantArgument CustomObjArgument InputSpec OutputSpec SymBoolArgument SymFloatArgument
      SymIntArgument TensorArgument TokenArgument
  enum InputKind USER_INPUT PARAMETER BUFFER CONSTANT_TENSOR CUSTOM_OBJ TOKEN
  enum OutputKind USER_OUTPUT LOSS_OUTPUT BUFFER_MUTATION PARAMETER_MUTATION GRADIENT_TO_PARAMETER
      GRADIENT_TO_USER_INPUT USER_INPUT_MUTATION TOKEN
  def is_equivalent reorder_kwargs
  from CustomDecompTable=export ExportGraphSignature=export ExportedProgram=export ModuleCallEntry=export
      ModuleCallSignature=export default_decompositions=export
export.graph_signature
  from ConstantArgument=export.exported_program CustomObjArgument=export.exported_program
      ExportBackwardSignature=export ExportGraphSignature=export InputKind=export.exported_program
      InputSpec=export.exported_program OutputKind=export.exported_program
      OutputSpec=export.exported_program SymBoolArgument=export.exported_program
      SymFloatArgument=export.exported_program SymIntArgument=export.exported_program
      TensorArgument=export.exported_program TokenArgument=export.exported_program
export._trace
  class ExportArtifact
  def _export _export_to_torch_ir
export.dynamic_shapes
  def refine_dynamic_shapes_from_suggested_fixes
  from AdditionalInputs=export Dim=export ExportedProgram=export ShapesCollection=export dims=export
export.decomp_utils
  from CustomDecompTable=export
export.unflatten
  class InterpreterModule InterpreterModuleDispatcher
  from ConstantArgument=export.exported_program ExportGraphSignature=export ExportedProgram=export
      FlatArgsAdapter=export InputKind=export.exported_program ModuleCallSignature=export
      SymBoolArgument=export.exported_program SymFloatArgument=export.exported_program
      SymIntArgument=export.exported_program TensorArgument=export.exported_program UnflattenedModule=export
      reorder_kwargs=export.exported_program unflatten=export
""",
    "flambeau has no reader or writer of torch.package archives": """
package
  class Directory GlobGroup Importer OrderedImporter PackageExporter PackageImporter
  error EmptyMatchError=Exception ObjMismatchError=Exception ObjNotFoundError=Exception
      PackagingError=Exception
  def is_from_package
package.package_exporter
  class DiGraph
  enum PackagingErrorReason IS_EXTENSION_MODULE NO_DUNDER_FILE SOURCE_FILE_NOT_FOUND
      DEPENDENCY_RESOLUTION_FAILED NO_ACTION DENIED MOCKED_BUT_STILL_USED
  def create_pickler demangle find_files_source_depends_on is_mangled is_stdlib_module
  from EmptyMatchError=package GlobGroup=package Importer=package OrderedImporter=package
      PackageExporter=package PackagingError=package
package.package_importer
  class DirectoryReader PackageMangler PackageUnpickler
  from Directory=package Importer=package PackageImporter=package demangle=package.package_exporter
package.importer
  def get_mangle_prefix is_mangled
  from Importer=package ObjMismatchError=package ObjNotFoundError=package OrderedImporter=package
      demangle=package.package_exporter
package.glob_group
  from GlobGroup=package
""",
    "flambeau has one profiler, flambeau.profiler, and no older one": """
autograd.profiler_legacy
  class profile
""",
    "flambeau has no compiler": """
_inductor
  def compile list_mode_options list_options standalone_compile
  from cudagraph_mark_step_begin=compiler
_inductor.exc
  error InductorError=RuntimeError
_inductor.cpu_vec_isa
  def pick_vec_isa
_inductor.runtime.cache_dir_utils
  def cache_dir
""",
    "flambeau keeps the bounds of symbolic sizes in ShapeEnv": """
utils._sympy.numbers
  class IntInfinity NegativeIntInfinity
utils._sympy.value_ranges
  class ValueRanges
""",
    "flambeau has no nested tensors": """
nested
  def as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged to_padded_tensor
""",
}
