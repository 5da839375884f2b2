"""Build the package: the operators of signals.yaml, compiled, as signals/_operators.py."""

from flambeau.utils.cpp_extension import BuildExtension, OperatorExtension
from setuptools import setup

setup(
    packages=["signals"],
    ext_modules=[OperatorExtension("signals", "signals.yaml", "derivatives.yaml")],
    cmdclass={"build_ext": BuildExtension},
)
