"""Print a CMake fragment with the places of the libraries that wheels brought along.

Reads the installed files of each distribution through importlib.metadata, so it needs no import of
the package and no guess about site-packages. A library that is not installed is left undefined.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

# CMake variable -> (distribution, end of the file's path)
WANTED = {
    "FLAMBEAU_DNNL_LIBRARY": ("onednn-cpu-gomp", "libdnnl.so.3"),
    "FLAMBEAU_DNNL_HEADER": ("onednn-devel-cpu-gomp", "oneapi/dnnl/dnnl.h"),
    "FLAMBEAU_DNNL_LICENSE": ("onednn-cpu-gomp", "doc/onednn/LICENSE"),
    "FLAMBEAU_DNNL_NOTICES": ("onednn-cpu-gomp", "doc/onednn/THIRD-PARTY-PROGRAMS"),
    "FLAMBEAU_PYBIND11_HEADER": ("pybind11", "include/pybind11/pybind11.h"),
    "FLAMBEAU_PYBIND11_LICENSE": ("pybind11", "licenses/LICENSE"),
    "FLAMBEAU_OPENBLAS_LIBRARY": ("scipy-openblas32", "lib/libscipy_openblas.so"),
    "FLAMBEAU_OPENBLAS_HEADER": ("scipy-openblas32", "include/cblas.h"),
    "FLAMBEAU_OPENBLAS_LICENSE": ("scipy-openblas32", "LICENSE.txt"),
}


def locate(distribution: str, tail: str) -> Path | None:
    """Return the installed file of `distribution` whose path ends in `tail`."""
    try:
        files = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file).endswith(tail):
            return Path(str(file.locate())).resolve()
    return None


def main() -> None:
    """Write one set() line per library found."""
    for variable, (distribution, tail) in WANTED.items():
        path = locate(distribution, tail)
        if path is not None and path.exists():
            sys.stdout.write(f'set({variable} "{path}")\n')


if __name__ == "__main__":
    main()
