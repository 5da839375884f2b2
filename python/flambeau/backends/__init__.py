"""What operators are computed with: flags that programs set, and whether a library is there."""

from flambeau._loading.lazy import attributes
from flambeau.backends import cpu, cuda, cudnn, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum, quantized

__all__ = [
    "cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum", "quantized"
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__)
