"""Work on the parameters of a network: limited gradients, one vector of all, other forms of weights."""

from flambeau._loading.lazy import attributes
from flambeau.nn.utils import rnn
from flambeau.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
    skip_init,
)
from flambeau.nn.utils.normalized import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from flambeau.nn.utils.parameters import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)

__getattr__, __dir__ = attributes(
    __name__,
    {
        "convert_conv2d_weight_memory_format": "flambeau.nn.utils.memory_format",
        "convert_conv3d_weight_memory_format": "flambeau.nn.utils.memory_format",
    },
)

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
