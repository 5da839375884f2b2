"""The functions behind the layers, with PyTorch's names and arguments.

Most translate arguments (``reduction="mean"``, ``inplace=True``, ``training``) and leave the computing to
operators; operators that need no translation are here under their own names.
"""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau import bilinear as bilinear
from flambeau import conv1d as conv1d
from flambeau import conv2d as conv2d
from flambeau import conv3d as conv3d
from flambeau import conv_tbc as conv_tbc
from flambeau import conv_transpose1d as conv_transpose1d
from flambeau import conv_transpose2d as conv_transpose2d
from flambeau import conv_transpose3d as conv_transpose3d
from flambeau._C._nn import linear as linear  # type: ignore[import-not-found]
from flambeau._loading.lazy import attributes as _attributes
from flambeau._overrides.overridable import offer as _offer
from flambeau.nn.functional._activation import *  # noqa: F403
from flambeau.nn.functional._attention import *  # noqa: F403
from flambeau.nn.functional._distance import *  # noqa: F403
from flambeau.nn.functional._dropout import *  # noqa: F403
from flambeau.nn.functional._embedding import *  # noqa: F403
from flambeau.nn.functional._fold import *  # noqa: F403
from flambeau.nn.functional._grouped import *  # noqa: F403
from flambeau.nn.functional._linear_loss import *  # noqa: F403
from flambeau.nn.functional._loss import *  # noqa: F403
from flambeau.nn.functional._margin_loss import *  # noqa: F403
from flambeau.nn.functional._normalization import *  # noqa: F403
from flambeau.nn.functional._padding import *  # noqa: F403
from flambeau.nn.functional._pooling import *  # noqa: F403
from flambeau.nn.functional._resample import *  # noqa: F403

_attribute, __dir__ = _attributes(__name__)
_offer(globals())


def __getattr__(name: str) -> Any:
    """Operators of the specification's namespace ``nn`` that need no translation, under their own names."""
    function = None if name.startswith("__") else getattr(_C._nn, name, None)
    return _attribute(name) if function is None else function
