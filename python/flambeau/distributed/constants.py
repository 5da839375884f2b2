"""Settings of distributed communication."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
# The variable with the secret by which the workers of a job know each other.
RPC_SECRET = "FLAMBEAU_RPC_SECRET"
