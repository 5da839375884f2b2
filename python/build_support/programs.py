"""Makes the environment of `make programs`: pinned libraries, and a distribution that stands for torch.

The distribution has no files but its metadata, which satisfies the libraries' requirement on torch. Nothing
of PyTorch is in the environment; `python -m flambeau.compat` answers the import.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import venv
import zipfile
from pathlib import Path

from requirements import requirements  # type: ignore[import-not-found]

ROOT = Path(__file__).parents[2]
API = "2.13.0"


def stand_in(folder: Path) -> Path:
    """Write a wheel named torch that holds metadata alone."""
    info = f"torch-{API}+flambeau.dist-info"
    parts = {
        "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {API}+flambeau\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: flambeau\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    parts["RECORD"] = "".join(f"{info}/{name},,\n" for name in (*parts, "RECORD"))
    path = folder / f"torch-{API}+flambeau-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in parts.items():
            wheel.writestr(f"{info}/{name}", text)
    return path


def main() -> None:
    """Make the environment, or bring it up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    home = parser.parse_args().home
    venv.create(home, with_pip=True)
    pip = [str(home / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*pip, "--no-deps", str(stand_in(Path(folder)))], check=True)
    pins = ROOT / "test/programs/constraints.txt"
    subprocess.run([*pip, "--constraint", str(pins), *requirements(["programs"])], check=True)


if __name__ == "__main__":
    main()
