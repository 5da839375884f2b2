"""The lines that capture and its backend print for ``TORCH_LOGS`` and `_logging.set_logs`."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from flambeau.compiler import trace

# Artifact -> the part of the compiler whose logger prints it, by PyTorch's names.
_PARTS = {
    "graph_breaks": "torch._dynamo",
    "recompiles": "torch._dynamo",
    "graph_code": "torch._dynamo",
    "guards": "torch._dynamo",
    "aot_joint_graph": "torch._functorch.aot_autograd",
    "aot_graphs": "torch._functorch.aot_autograd",
    "output_code": "torch._inductor",
}

# Their titles on the pages of FLAMBEAU_TRACE.
_TITLES = {
    "graph_breaks": "Graph break",
    "recompiles": "Recorded again",
    "graph_code": trace.CAPTURED,
    "guards": "Guards",
    "aot_joint_graph": "Forward and backward below autograd",
    "aot_graphs": "Forward and backward graphs",
    "output_code": "Program and groups",
}


@functools.cache
def _logger(artifact: str) -> logging.Logger:
    from flambeau._logging import getArtifactLogger

    return getArtifactLogger(_PARTS[artifact], artifact)


def say(artifact: str, text: Callable[[], str]) -> None:
    """Print an artifact if its logger is enabled.

    Args:
        artifact: the kind of text, such as "graph_breaks".
        text: returns the text; called only if the text is printed.
    """
    trace.add(_TITLES[artifact], text)
    logger = _logger(artifact)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s", text())
