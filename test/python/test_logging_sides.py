"""TORCH_LOGS, set_logs and the lines of the log, in processes of their own beside PyTorch's."""

import os
import re
import subprocess
import sys

import pytest
from flambeau._logging import _settings
from flambeau._logging._tables import ARTIFACTS, COMPONENTS
from forks import PYTORCH
from oracle import pytorch

PROGRAM = """
import logging, {framework}
from {framework}._logging import getArtifactLogger
loggers = [logging.getLogger(name) for name in ("torch._dynamo.mine", "torch._inductor.x", "torch.nn.y")]
loggers += [getArtifactLogger("torch._dynamo.mine", name) for name in ("graph_breaks", "guards", "sym_node")]
{setting}
for logger in loggers:
    logger.debug("value %s", 1)
    logger.info("inform")
    logger.warning("warn")
    logger.error("first\\nsecond")
"""
SETTINGS = (
    "dynamo", "+dynamo", "-dynamo", "graph_breaks", "+graph_breaks", "-guards", "dynamo,+inductor,guards",
    "all", "+all", "dynamo,-dynamo", "sym_node", "+dynamo,sym_node", "+autograd", "json", "+json",
)  # fmt: skip
NUMBERS = re.compile(r"\d{4} \d\d:\d\d:\d\d\.\d{3}000 \d+ \S*(?=<string>)")


def lines(framework, setting="", **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_LOGS")}
    program = PROGRAM.format(framework=framework, setting=setting.format(framework=framework))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    shown = [line for line in done.stderr.splitlines() if "<string>" in line]
    return done, [NUMBERS.sub("NUMBERS ", line) for line in shown]


def started(**environment):
    return lines("flambeau", **environment)[1]


# PyTorch reads the settings when it is imported, and again in a fork of the process that has imported it.
OF_PYTORCH = """
import torch, warnings
warnings.simplefilter("ignore")
torch._logging._init_logs()
exec(compile({program!r}, "<string>", "exec"), {{"__name__": "__main__"}})
"""


@pytest.fixture
def of_pytorch(tmp_path):
    """Return a function that returns the lines of PyTorch."""
    pytorch()

    def run(setting="", **environment):
        program = PROGRAM.format(framework="torch", setting=setting.format(framework="torch"))
        script, output = tmp_path / "script.py", tmp_path / "output"
        script.write_text(OF_PYTORCH.format(program=program))
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_LOGS")}
        status = PYTORCH.start(script, output, {**kept, **environment}).wait(60)
        assert status == 0, output.read_text()
        return [NUMBERS.sub("NUMBERS ", x) for x in output.read_text().splitlines() if "<string>" in x]

    return run


@pytest.mark.parametrize("setting", SETTINGS)
def test_lines_are_those_of_pytorch(setting, of_pytorch):
    found = started(TORCH_LOGS=setting)
    assert found == of_pytorch(TORCH_LOGS=setting)
    assert any("NUMBERS <string>:" in line for line in found)


CALLS = (
    "{framework}._logging.set_logs(dynamo=logging.DEBUG)",
    "{framework}._logging.set_logs(guards=True, inductor=logging.ERROR)",
    "{framework}._logging.set_logs(sym_node=True); {framework}._logging.set_logs()",
    "{framework}._logging.set_logs(all=logging.INFO)",
)


@pytest.mark.parametrize("call", CALLS)
def test_calls_give_the_lines_of_pytorch(call, of_pytorch):
    assert lines("flambeau", call)[1] == of_pytorch(call)


def test_the_environment_keeps_priority_over_calls():
    call = "{framework}._logging.set_logs(dynamo=logging.DEBUG)"
    done, found = lines("flambeau", call, TORCH_LOGS="guards")
    assert "TORCH_LOGS is set and keeps priority" in done.stderr
    assert found == started(TORCH_LOGS="guards")


def test_formats_and_files_of_the_environment(tmp_path):
    path = tmp_path / "log.txt"
    done, found = lines("flambeau", TORCH_LOGS="dynamo", TORCH_LOGS_OUT=str(path))
    assert path.read_text() == done.stderr and found
    done, _ = lines("flambeau", TORCH_LOGS="dynamo", TORCH_LOGS_FORMAT="%(levelname)s=%(message)s")
    assert done.stderr.startswith("INFO=inform\nWARNING=warn\nERROR=first\nsecond\n")


@pytest.mark.parametrize(
    "setting", ["nonsense", "dynamo,nonsense", "+torch.nonsense", "++dynamo", "a b", "+"]
)
def test_wrong_names_raise_with_the_valid_ones(setting):
    done, _ = lines("flambeau", TORCH_LOGS=setting)
    assert done.returncode == 1 and "ValueError: TORCH_LOGS: Invalid log settings" in done.stderr
    assert "graph_breaks" in done.stderr and "dynamo" in done.stderr


@pytest.mark.parametrize("setting", ["", " ", ",,", " dynamo , guards "])
def test_spaces_and_empty_names_are_ignored(setting):
    done, found = lines("flambeau", TORCH_LOGS=setting)
    assert done.returncode == 0
    assert found == started(TORCH_LOGS=",".join(s.strip() for s in setting.split(",") if s.strip()))


def test_help_lists_parts_and_artifacts():
    done, _ = lines("flambeau", TORCH_LOGS="help")
    assert done.returncode == 1 and "Parts:" in done.stderr and "guards" in done.stderr
    assert "verbose_guards" not in done.stderr
    long = _settings.help_text(is_long=True)
    assert all(f"  {name}" in long for name in (*ARTIFACTS, *COMPONENTS))


def test_the_table_has_the_artifacts_of_pytorch():
    pytest.importorskip("torch")
    from torch._logging._internal import log_registry

    made_for_its_tests = {"custom_format_test_artifact"}
    assert set(ARTIFACTS) == log_registry.artifact_names - made_for_its_tests
    by_name = {name for name, one in ARTIFACTS.items() if one.needs_name}
    assert by_name == log_registry.off_by_default_artifact_names
    assert {name for name, one in ARTIFACTS.items() if one.in_help} == log_registry.visible_artifacts
    of_other_tests = {name for name, names in log_registry.log_alias_to_log_qnames.items() if names == [name]}
    assert set(log_registry.log_alias_to_log_qnames) - of_other_tests <= set(COMPONENTS)


def test_exceptions_are_part_of_the_message():
    call = "\ntry: 1 / 0\nexcept ZeroDivisionError: loggers[0].exception('failed')"
    done, _ = lines("flambeau", call)
    shown = [line for line in done.stderr.splitlines() if line.startswith("E")]
    assert "] failed" in shown[0] and "] ZeroDivisionError: division by zero" in shown[3]
