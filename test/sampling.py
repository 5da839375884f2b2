"""Sampling of tests: `pytest -p sampling --sample N` keeps one of N, always the same ones.

A hash of a test's name decides, so that neither other tests nor the machine change the choice. What depends
most on the instruction set is always kept: tests marked `products`, and the generated tests of operators
made of products.
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[1] / "torchgen_out" / "tests"
FAMILIES = ("attention", "conv", "linear", "matmul", "rnn")


@cache
def operators_of_products() -> frozenset[str]:
    """The operators of the families that end in matrix products."""
    records = [json.loads((DATA / f"{family}.json").read_text()) for family in FAMILIES]
    return frozenset(record["name"] for family in records for record in family)


def is_kept(item: pytest.Item, count: int) -> bool:
    """Whether a test is in the sample of one of `count`."""
    callspec = getattr(item, "callspec", None)
    name = callspec.params.get("name") if callspec else None
    always = item.get_closest_marker("products") or name in operators_of_products()
    return bool(always) or zlib.crc32(item.nodeid.encode()) % count == 0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --sample."""
    parser.addoption(
        "--sample", type=int, default=1, metavar="N", help="run one test of N, chosen by its name"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what is not in the sample."""
    count = config.getoption("--sample")
    kept = [item for item in items if is_kept(item, count)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not is_kept(item, count)])
        items[:] = kept
