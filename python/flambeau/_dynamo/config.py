"""Settings of the capture of graphs that programs change; nothing reads them yet."""

from __future__ import annotations

from typing import Any

from flambeau.compiler._settings import patcher

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
disable = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level: int | None = None
optimize_ddp: Any = True
recompile_limit = 8
skip_fwd_side_effects_in_bwd_under_checkpoint = False
specialize_int = False
suppress_errors = False
verbose = False

patch: Any = patcher(__name__)
