"""`compile` and the marks for it: arguments are checked, programs run as they are."""

import subprocess
import sys

import flambeau as fb
import pytest
from side_by_side import fail_alike


def test_compile_leaves_programs_as_they_are():
    model = fb.nn.Linear(2, 2)
    assert fb.compile(model, disable=True) is model

    @fb.compile(fullgraph=True, dynamic=False, backend="eager")
    def double(x):
        return x * 2

    assert double(fb.ones(1)).item() == 2
    assert not fb.compiler.is_compiling()


def test_the_warning_comes_once():
    program = "import flambeau as fb\nfor _ in range(3): assert fb.compile(fb.sin, backend='tvm') is fb.sin"
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.count("UserWarning") == 1, done.stderr


@pytest.mark.parametrize(
    "options", [{"mode": "default", "options": {}}, {"mode": "fast"}], ids=["mode and options", "mode"]
)
def test_options_that_are_refused(options):
    fail_alike(lambda torch: torch.compile(torch.sin, **options), match="mode")


def test_an_unknown_backend_is_refused():
    with pytest.raises(RuntimeError, match="backend"):
        fb.compile(fb.sin, backend="none such")
    with pytest.raises(TypeError, match="function or Module"):
        fb.compile(3)


def test_settings_are_patched_for_a_while():
    config = fb._dynamo.config
    assert config.cache_size_limit == 8
    with config.patch(cache_size_limit=64):
        assert config.cache_size_limit == 64
    with pytest.raises(ZeroDivisionError), config.patch("verbose", True):
        raise ZeroDivisionError
    assert config.cache_size_limit == 8 and config.verbose is False
    with pytest.raises(AttributeError, match="no_such"):
        config.patch(no_such=1)


def test_marks_and_numpy_functions():
    fb._dynamo.mark_dynamic(fb.ones(2), 0)
    assert not isinstance(fb.nn.Linear(1, 1), fb._dynamo.OptimizedModule)
    assert fb.compiler.wrap_numpy(lambda x: x + 1)(fb.ones(2)).tolist() == [2, 2]
    with fb.compiler.set_stance("force_eager"):
        pass
    with pytest.raises(RuntimeError, match="stance|expected"):
        fb.compiler.set_stance("wild")
