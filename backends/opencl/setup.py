"""OpenCL devices for flambeau: ``pip install --no-build-isolation .`` with OpenCL's headers and loader."""

from pathlib import Path

from flambeau.utils.cpp_extension import BuildExtension, CppExtension
from setuptools import setup

NATIVE = Path(__file__).parent / "flambeau_opencl" / "native"
SOURCES = sorted(path.stem for path in NATIVE.glob("*.cpp"))

setup(
    name="flambeau-opencl",
    version="1.0",
    description="OpenCL devices for flambeau",
    packages=["flambeau_opencl"],
    py_modules=["flambeau_opencl_entry"],
    entry_points={"flambeau.backends": ["opencl = flambeau_opencl_entry:register"]},
    package_data={"flambeau_opencl": ["native/*.h", "native/*.cpp"]},
    ext_modules=[
        CppExtension(
            "flambeau_opencl._native",
            [f"flambeau_opencl/native/{name}.cpp" for name in SOURCES],
            libraries=["OpenCL"],
            extra_compile_args={"cxx": ["-O2"]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
