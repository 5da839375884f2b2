"""`where OP`: every place of an operator or family, as file:line."""

from __future__ import annotations

import argparse

from codegen.commands.authors import add_option, author_of
from codegen.commands.explain import chosen
from codegen.commands.places import of_operators, parts_of
from codegen.commands.wrappers import wrappers_of


def run(argv: list[str]) -> int:
    """Print one place per line, in the form that editors open."""
    parser = argparse.ArgumentParser(prog="codegen where", description=__doc__)
    parser.add_argument(
        "operator", help="an operator, a form such as add_.Tensor, a family, or a function in Python"
    )
    add_option(parser)
    options = parser.parse_args(argv)
    name, author = options.operator, author_of(parser, options)
    result = chosen(name, "where", author)
    if result is None:
        return 1
    model, operators = result
    for wrapper in wrappers_of(name):
        print(wrapper.place)
    for place in of_operators(operators, parts_of(operators, model), author):
        print(place)
    return 0
