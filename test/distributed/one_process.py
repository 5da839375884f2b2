"""Saves and loads of checkpoints by one process."""

import flambeau.distributed.checkpoint as dcp
import pytest
from flambeau.distributed.checkpoint.api import CheckpointException


def save(state, path, **options):
    return dcp.save(state, checkpoint_id=path, no_dist=True, **options)


def load(state, path, **options):
    dcp.load(state, checkpoint_id=path, no_dist=True, **options)
    return state


def failure(call, *args, **options):
    """The exception of the only rank that failed."""
    with pytest.raises(CheckpointException) as caught:
        call(*args, **options)
    ((rank, (error, stack)),) = caught.value.failures.items()
    assert rank == 0 and stack[-1].name
    assert f"rank 0: {type(error).__name__}: {error}" in str(caught.value)
    return error
