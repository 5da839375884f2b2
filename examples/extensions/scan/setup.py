"""Build the package from several sources; with kernels for CUDA where WITH_CUDA=1 asks for them."""

import os
from pathlib import Path

from flambeau.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension
from setuptools import setup

with_cuda = os.environ.get("WITH_CUDA") == "1"
sources = sorted(str(path) for path in Path("csrc").glob("*.cpp"))
if with_cuda:
    sources += sorted(str(path) for path in Path("csrc").glob("*.cu"))
extension = (CUDAExtension if with_cuda else CppExtension)(
    "recurrence._native",
    sources,
    include_dirs=[str(Path("csrc").resolve())],
    define_macros=[("WITH_CUDA", None)] if with_cuda else [],
    extra_compile_args={"cxx": ["-O2", "-Wall"], "nvcc": ["-O2"]},
)

setup(
    name="recurrence",
    packages=["recurrence"],
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=True)},
)
