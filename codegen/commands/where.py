"""`where OP`: every place of an operator or family, as file:line."""

from __future__ import annotations

import argparse

from codegen.commands.explain import chosen
from codegen.commands.places import of_operators, parts_of
from codegen.commands.wrappers import wrappers_of
from codegen.reading.files import DERIVATIVES


def run(argv: list[str]) -> int:
    """Print one place per line, in the form that editors open."""
    parser = argparse.ArgumentParser(prog="codegen where", description=__doc__)
    parser.add_argument(
        "operator", help="an operator, a form such as add_.Tensor, a family, or a function in Python"
    )
    name = parser.parse_args(argv).operator
    result = chosen(name, "where")
    if result is None:
        return 1
    model, operators = result
    for wrapper in wrappers_of(name):
        print(wrapper.place)
    for place in of_operators(operators, parts_of(operators, model), DERIVATIVES):
        print(place)
    return 0
