"""A package with an extension in C++: ``pip install --no-build-isolation .``"""

from flambeau.utils.cpp_extension import BuildExtension, CppExtension
from setuptools import setup

setup(
    name="windowed",
    version="1.0",
    packages=["windowed"],
    ext_modules=[
        CppExtension("windowed._native", ["windowed/native.cpp"], extra_compile_args={"cxx": ["-O3"]})
    ],
    cmdclass={"build_ext": BuildExtension},
)
