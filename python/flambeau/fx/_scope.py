"""The module whose call a tracer records."""

from __future__ import annotations

import copy
from typing import Any


class Scope:
    """The module that is being called.

    Attributes:
        module_path: its dotted path; "" for the root.
        module_type: its class.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Changes a scope for a block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *_: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type
