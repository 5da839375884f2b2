"""The operators that torchaudio's compiled library defines; loops over time are in Python.

`ops.load_library` calls `define` for torchaudio's libraries, which are linked against PyTorch. Alignment and
the RNN transducer loss are missing: torchaudio finds a library that was compiled without alignment.
"""

from __future__ import annotations

from flambeau import Tensor, ops
from flambeau.library import Library

_SCHEMAS = {
    "_torchaudio": ("is_align_available() -> bool", "cuda_version() -> int?"),
    "torchaudio": (
        "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, "
        "Tensor(a!) padded_output_waveform) -> Tensor(a!)",
        "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, "
        "Tensor(c!) output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
    ),
}
_libraries: list[Library] = []


def is_align_available() -> bool:
    """Return whether there is an operator for forced alignment."""
    return False


def cuda_version() -> None:
    """Return the version of CUDA that the operators were compiled with."""
    return None


def _lfilter_core_loop(windows: Tensor, coefficients: Tensor, output: Tensor) -> Tensor:
    """Recursive filter: ``y[t] = x[t] - sum_k a[k] y[t - k]``, after as many zeros as there are delays.

    Args:
        windows: x, ``(batch, channel, time)``.
        coefficients: a with the last delay first and a[0] at the end, ``(channel, order)``.
        output: y, preceded by ``order - 1`` zeros; written in place.
    """
    order = coefficients.shape[1]
    for i in range(windows.shape[2]):
        past = (output[:, :, i : i + order] * coefficients).sum(2)
        output[:, :, i + order - 1] = windows[:, :, i] - past
    return output


def _overdrive_core_loop(
    waveform: Tensor, distorted: Tensor, last_in: Tensor, last_out: Tensor, output: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """High-pass filter of the distorted signal, mixed with the signal, ``(channel, time)``, in place.

    ``h[t] = d[t] - d[t - 1] + 0.995 h[t - 1]``, ``y = 0.5 x + 0.75 h``.
    """
    for i in range(waveform.shape[-1]):
        last_out.copy_(distorted[:, i] - last_in + 0.995 * last_out)
        last_in.copy_(distorted[:, i])
        output[:, i] = 0.5 * waveform[:, i] + 0.75 * last_out
    return last_in, last_out, output


def define() -> None:
    """Define the operators of namespaces `_torchaudio` and `torchaudio`, once."""
    if ("_torchaudio", "cuda_version") in ops.CUSTOM:
        return
    for namespace, schemas in _SCHEMAS.items():
        library = Library(namespace, "FRAGMENT")
        for schema in schemas:
            name = library.define(schema)
            library.impl(name, globals()[name], "CompositeExplicitAutograd")
        _libraries.append(library)
