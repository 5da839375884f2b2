"""Docstrings completed from operators, functions and base classes."""

import inspect
import subprocess
import sys

import flambeau as fb
from flambeau._loading.documentation import described_by


def scale():
    """scale(Tensor input, Number by)

    Scaled tensor.

    Formula:
        result = input * by

    Arguments:
        input (Tensor): The input tensor.
        by (Number): The factor,
            not 0.
        out (Tensor, default None): Where the result is written.

    Raises:
        RuntimeError unless by != 0.

    Example:
        >>> 1

        2
    """


scale.__doc__ = inspect.cleandoc(scale.__doc__)


def test_a_function_has_what_its_operator_says_beside_its_own():
    @described_by(scale)
    def scaled(input, by=2.0, *rest, inplace=False, **options):
        """Scale a tensor.

        Args:
            *rest: no effect.
            **options: no effect either.
        Raises: TypeError for text.
        """

    assert scaled.__doc__ == inspect.cleandoc(
        """Scale a tensor.

        Formula:
            result = input * by

        Args:
            input (Tensor): The input tensor.
            by (Number): The factor,
                not 0.
            inplace: whether to overwrite `input` and return it.
            *rest: no effect.
            **options: no effect either.

        Raises:
            TypeError for text.
            RuntimeError unless by != 0.

        Example:
            >>> 1

            2
        """
    )


def test_own_sections_win_over_those_of_the_operator():
    @described_by(scale)
    def scaled(input, by):
        """Scale a tensor.

        Formula: result = by * input
        Args:
            by: the factor.
        """

    assert "Formula:\n    result = by * input\n" in scaled.__doc__
    assert "    by: the factor." in scaled.__doc__ and "by (Number)" not in scaled.__doc__


def test_a_class_has_sections_of_its_base_and_arguments_of_its_constructor():
    class Base:
        """A base.

        Args:
            size: the size.
            gone: not taken by the other class.
        Shape: ``(size)``.
        """

    @described_by(Base)
    class Derived(Base):
        """A class.

        Args:
            rate: the rate.
        """

        def __init__(self, size, rate):
            pass

    wanted = "A class.\n\nArgs:\n    size: the size.\n    rate: the rate.\n\nShape:\n    ``(size)``."
    assert inspect.getdoc(Derived) == Derived.__doc__ == Derived(1, 2).__doc__ == wanted


def test_a_layer_has_the_formula_and_the_paper_of_its_function_but_not_its_entry():
    text = fb.nn.SiLU.__doc__
    assert "input * (1 / (1 + e^-input))" in text and "Elfwing" in text and "native_functions" not in text


def test_documentation_is_absent_where_python_drops_docstrings():
    program = "import flambeau as fb; print(fb.nn.functional.silu.__doc__, fb.nn.SiLU.__doc__)"
    found = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["None", "None"]
