"""A barrier by the store: it names who is missing, and does not break the group when somebody is."""

from __future__ import annotations

import time
from datetime import timedelta

from flambeau.distributed._errors import DistStoreError
from flambeau.distributed._process_group import ProcessGroup

_ANSWER_GRACE = timedelta(seconds=1)  # beyond the time-out, for rank 0's answer


def wait_for_all(group: ProcessGroup, number: int, timeout: timedelta, all_ranks: bool) -> None:
    """Wait until all processes of a group have come.

    Args:
        group: the group.
        number: which barrier of the group it is.
        timeout: how long to wait.
        all_ranks: whether to name all that are missing, instead of the first.

    Raises: RuntimeError that names the missing ranks.
    """
    store, prefix = group.store, f"monitored_barrier/{number}"
    assert store is not None  # every group has one
    if group.rank() == 0:
        missing = _missing(group, prefix, timeout, all_ranks)
        late = int(timeout.total_seconds() * 1000)
        ranks = ", ".join(map(str, missing))
        word = "Ranks" if all_ranks else "Rank"
        answer = f"{word} {ranks} failed to pass monitoredBarrier in {late} ms" if missing else ""
        store.set(f"{prefix}/answer", answer or "all")
    else:
        store.set(f"{prefix}/{group.rank()}", "came")
        try:
            store.wait([f"{prefix}/answer"], timeout + _ANSWER_GRACE)
        except DistStoreError:
            late = int(timeout.total_seconds() * 1000)
            raise RuntimeError(
                f"monitored_barrier: expected rank 0, got Rank 0 failed to pass monitoredBarrier in {late} ms"
            ) from None
        answer = store.get(f"{prefix}/answer").decode()
        answer = "" if answer == "all" else answer
    if answer:
        raise RuntimeError(f"monitored_barrier: expected all ranks, got {answer}")


def _missing(group: ProcessGroup, prefix: str, timeout: timedelta, all_ranks: bool) -> list[int]:
    assert group.store is not None
    deadline = time.monotonic() + timeout.total_seconds()
    missing = []
    for rank in range(1, group.size()):
        left = timedelta(seconds=max(deadline - time.monotonic(), 0))
        try:
            group.store.wait([f"{prefix}/{rank}"], left)
        except DistStoreError:
            missing.append(rank)
            if not all_ranks:
                break
    return missing
