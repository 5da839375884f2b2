"""The operators that torchvision's compiled library defines, on flambeau's own kernels.

`ops.load_library` calls `define` for torchvision's ``_C``, which is linked against PyTorch and cannot be
loaded. Arguments go to the operator of the same name with an underscore by their positions. The two for
quantized tensors have a schema and no kernel.
"""

from __future__ import annotations

from flambeau import ops
from flambeau.library import Library

_SCALE = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_WINDOWS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
_KERNELS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"

SCHEMAS = f"""
nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
roi_align(Tensor input, Tensor rois, {_SCALE}, int sampling_ratio, bool aligned) -> Tensor
_roi_align_backward(Tensor grad, Tensor rois, {_SCALE}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor
roi_pool(Tensor input, Tensor rois, {_SCALE}) -> (Tensor, Tensor)
_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_SCALE}, {_SIZES}) -> Tensor
ps_roi_align(Tensor input, Tensor rois, {_SCALE}, int sampling_ratio) -> (Tensor, Tensor)
_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_SCALE}, int sampling_ratio, {_SIZES}) -> Tensor
ps_roi_pool(Tensor input, Tensor rois, {_SCALE}) -> (Tensor, Tensor)
_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_SCALE}, {_SIZES}) -> Tensor
deform_conv2d({_KERNELS}, {_WINDOWS}) -> Tensor
_deform_conv2d_backward(Tensor grad, {_KERNELS}, {_WINDOWS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
"""  # noqa: E501

QUANTIZED = f"""
qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, {_SCALE}, int sampling_ratio, bool aligned) -> Tensor
"""  # noqa: E501

_library = Library("torchvision", "FRAGMENT")


def _cuda_version() -> int:
    """Return the version of CUDA that the operators were compiled with: -1, without it."""
    return -1


def define() -> None:
    """Define the operators of namespace `torchvision`, once."""
    if ("torchvision", "nms") in ops.CUSTOM:
        return
    for schema in SCHEMAS.split("\n")[1:-1]:
        name = _library.define(schema)
        kernel = getattr(ops.aten, f"_{name.removeprefix('_')}")
        _library.impl(name, kernel, "CompositeImplicitAutograd")  # differentiable by itself
    for schema in QUANTIZED.split("\n")[1:-1]:
        _library.define(schema)
    _library.impl(_library.define("_cuda_version() -> int"), _cuda_version, "CompositeExplicitAutograd")
