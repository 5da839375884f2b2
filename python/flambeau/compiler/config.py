"""Settings of the compiler that programs change; nothing reads them yet."""

from __future__ import annotations

from typing import Any

from flambeau.compiler._settings import patcher

job_id: str | None = None
dynamic_sources = ""
unbacked_sources = ""
cache_key_tag = ""
force_disable_caches = False

patch: Any = patcher(__name__)
