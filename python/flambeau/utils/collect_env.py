"""A report of the environment, for questions and bug reports: ``python -m flambeau.utils.collect_env``."""

from __future__ import annotations

import importlib.metadata
import locale
import platform
import subprocess
import sys
from typing import Any, NamedTuple

_PACKAGES = ("flambeau", "torch", "numpy", "mypy", "flake8", "optree", "triton", "onnx", "nvidia")


class SystemEnv(NamedTuple):
    """The contents of the report."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str | None
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    pip_version: str
    pip_packages: str
    cpu_info: str


def run(command: str | list[str]) -> tuple[int, str, str]:
    """Run a command and return its status, output and errors."""
    try:
        done = subprocess.run(command, shell=isinstance(command, str), capture_output=True, check=False)
    except OSError as error:
        return 127, "", str(error)
    encoding = locale.getpreferredencoding()
    out, err = (text.decode(encoding, "replace").strip() for text in (done.stdout, done.stderr))
    return done.returncode, out, err


def _first_line(*command: str) -> str | None:
    status, out, _ = run(list(command))
    return out.splitlines()[0] if status == 0 and out else None


def _operating_system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = platform.system()
    return f"{name} ({platform.machine()})"


def get_cpu_info() -> str:
    """Return what lscpu says."""
    status, out, _ = run(["lscpu"])
    return out if status == 0 else platform.processor()


def get_pip_packages() -> str:
    """Return the installed packages that matter, one per line."""
    found = {
        f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions() if d.metadata["Name"]
    }
    return "\n".join(sorted(name for name in found if name.lower().startswith(_PACKAGES)))


def get_env_info() -> SystemEnv:
    """Collect the facts of the report."""
    import flambeau

    bits = sys.maxsize.bit_length() + 1
    return SystemEnv(
        torch_version=str(flambeau.__version__),
        is_debug_build="False",
        cuda_compiled_version="None",
        gcc_version=_first_line("gcc", "--version"),
        clang_version=_first_line("clang", "--version"),
        cmake_version=_first_line("cmake", "--version"),
        os=_operating_system(),
        libc_version="-".join(platform.libc_ver()),
        python_version=f"{sys.version.splitlines()[0]} ({bits}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available=str(flambeau.cuda.is_available()),
        pip_version=f"pip{sys.version_info.major}",
        pip_packages=get_pip_packages(),
        cpu_info=get_cpu_info(),
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """Return the report as text."""
    facts: dict[str, Any] = envinfo._asdict()
    packages, cpu = facts.pop("pip_packages"), facts.pop("cpu_info")
    lines = [
        f"{name.replace('_', ' ')}: {'Could not collect' if v is None else v}" for name, v in facts.items()
    ]
    return "\n".join([*lines, "", "CPU:", cpu, "", "Versions of relevant libraries:", packages])


def get_pretty_env_info() -> str:
    """Return the report of this environment."""
    return pretty_str(get_env_info())


def main() -> None:
    """Print the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
