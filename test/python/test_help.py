"""What `help()` shows of an operator: arguments, shapes, errors and sources follow from its entry."""

import pydoc

import flambeau as fb
import pytest


def sections(function):
    """Title -> text of the sections of a docstring."""
    head, *found = ("\n" + function.__doc__).split("\n\n")
    parts = {part.split(":\n")[0]: part for part in found if ":\n    " in part}
    return {"": head, **parts}


def test_all_of_logsumexp():
    text = pydoc.plain(pydoc.render_doc(fb.logsumexp))
    assert "logsumexp(Tensor input, tuple of ints dim, bool keepdim=False, *, Tensor out=None)" in text
    assert "result = m + ln(sum e^(input - m))" in text
    found = sections(fb.logsumexp)
    assert "keepdim (bool, default False): Whether" in found["Arguments"]
    assert "input (Tensor): The input tensor." in found["Arguments"]
    assert "size 1 there" in found["Shapes"]
    assert "IndexError" in found["Raises"]
    assert "native_functions.yaml, logsumexp" in found["Source"]


def test_overloads_are_documented_together():
    found = sections(fb.add)
    assert "other (Tensor or Number)" in found["Arguments"]
    assert "input, other broadcast" in found["Shapes"]
    assert "complex128" in found["Dtypes"]
    assert "RuntimeError if the shapes do not broadcast." in found["Raises"]
    assert "native_functions.yaml, add.Tensor" in found["Source"]


def test_methods_do_not_list_themselves():
    assert "input" not in sections(fb.Tensor.logsumexp).get("Arguments", "")


def test_checks_are_listed():
    assert "RuntimeError unless chunks > 0." in sections(fb.chunk)["Raises"]
    with pytest.raises(RuntimeError):
        fb.chunk(fb.ones(3), 0)


def operators():
    """All functions that the generated binding defines."""
    for module in (fb, fb.nn.functional, fb.linalg, fb.fft, fb.special):
        for name, value in vars(module).items():
            if not name.startswith("_") and type(value).__name__ == "builtin_function_or_method":
                yield f"{module.__name__}.{name}", value


def test_every_operator_names_its_source():
    found = dict(operators())
    assert len(found) > 500
    generated = {name: f for name, f in found.items() if (f.__module__ or "").startswith("flambeau._C._")}
    assert len(generated) > 500
    assert [name for name, f in generated.items() if "Source" not in sections(f)] == []


def test_explain_says_the_same(capsys):
    from codegen.commands import explain

    assert explain.run(["cumsum"]) == 0
    shown = capsys.readouterr().out.partition("documentation:\n")[2]
    assert [line.strip() for line in shown.strip().split("\n")] == [
        line.strip() for line in fb.cumsum.__doc__.split("\n")
    ]
