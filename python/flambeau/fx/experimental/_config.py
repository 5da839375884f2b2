"""Switches of symbolic sizes, which programs set and read; flambeau does not use them yet."""

from __future__ import annotations

translation_validation = False
translation_validation_timeout = 600000
translation_validation_no_bisect = False
check_shape_env_recorded_events = False
extended_debug_guard_added: str | None = None
extended_debug_create_symbol: str | None = None
extended_debug_cpp = False
symbol_guard_limit_before_specialize: int | None = None
use_duck_shape = True
print_specializations = False
backed_size_oblivious = False
enrich_profiler_metadata = False
meta_nonzero_assume_all_nonzero = False
skip_dtype_check_in_meta_registrations = False
