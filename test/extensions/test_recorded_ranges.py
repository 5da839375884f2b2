"""RECORD_FUNCTION of C++ programs in profiles, and what they ask about dtypes."""

import flambeau as torch
import pytest
from flambeau.utils import cpp_extension

SOURCE = r"""
#include <ATen/OpMathType.h>
#include <ATen/record_function.h>
#include <c10/util/Logging.h>
#include <torch/extension.h>

at::Tensor outer(const at::Tensor& x, int64_t n) {
  RECORD_FUNCTION("mine::outer", std::vector<c10::IValue>({x, n, 2.5, "text"}));
  for (int64_t i = 0; i < n; ++i) {
    RECORD_USER_SCOPE("step");
    if (i == 3) TORCH_CHECK(false, "expected at most 3 steps, got ", n);
    x.add(1);
  }
  return x * 2;
}
int64_t in_parts() {
  at::RecordFunction part(at::RecordScope::USER_SCOPE);
  const bool is_recorded = part.isActive();
  part.before("first");
  part.before("second");  // ends the first
  part.end();
  part.end();
  return is_recorded;
}
void equal(int64_t a, int64_t b) { TORCH_CHECK_EQ(a, b); }
std::vector<bool> asked() {
  static_assert(std::is_same_v<at::opmath_type<at::Half>, float>);
  static_assert(std::is_same_v<at::opmath_type<double>, double>);
  return {at::isSignedType(at::kByte), c10::canCast(at::kFloat, at::kLong),
          c10::promoteTypes(at::kHalf, at::kBFloat16) == at::kFloat,
          at::toOpMathType(at::kHalf) == at::kFloat, at::isReducedFloatingType(at::kBFloat16),
          c10::toRealValueType(c10::toComplexType(at::kDouble)) == at::kDouble};
}
"""


@pytest.fixture(scope="module")
def program(build_root):
    folder = build_root / "recorded_ranges"
    folder.mkdir(exist_ok=True)
    functions = ["outer", "in_parts", "equal", "asked"]
    return cpp_extension.load_inline("recorded_ranges", SOURCE, functions=functions, build_directory=folder)


def events(profile):
    return [e for e in profile.events() if e.name in ("mine::outer", "step", "first", "second")]


def test_ranges_hold_their_inputs_and_what_runs_in_them(program):
    x = torch.ones(2, 3)
    with torch.profiler.profile(record_shapes=True) as profile:
        program.outer(x, 2)
    (outer,) = [e for e in events(profile) if e.name == "mine::outer"]
    steps = [e for e in events(profile) if e.name == "step"]
    assert outer.input_shapes == [[2, 3], [], [], []]
    assert outer.concrete_inputs[1:] == [2, 2.5, "text"]
    assert len(steps) == 2 and all(s.cpu_parent is outer for s in steps)
    assert [c.name for c in steps[0].cpu_children] == ["aten::add"]
    assert [c.name for c in outer.cpu_children] == ["step", "step", "aten::mul"]


def test_a_range_that_is_left_by_an_error_ends(program):
    with torch.profiler.profile() as profile:
        with pytest.raises(RuntimeError, match="at most 3 steps, got 9"):
            program.outer(torch.ones(1), 9)
        torch.zeros(1)
    after = next(e for e in profile.events() if e.name == "aten::zeros")
    assert after.cpu_parent is None
    assert len([e for e in events(profile) if e.name == "step"]) == 4


def test_ranges_end_once_and_cost_nothing_outside_of_a_profile(program):
    assert program.in_parts() == 0
    with torch.profiler.profile() as profile:
        assert program.in_parts() == 1
    assert [(e.name, e.cpu_parent) for e in events(profile)] == [("first", None), ("second", None)]


def test_checks_of_pairs_name_both_values(program):
    program.equal(3, 3)
    with pytest.raises(RuntimeError, match="a == b: expected it to hold, got 3 and 4"):
        program.equal(3, 4)


def test_questions_about_dtypes(program):
    assert program.asked() == [False, False, True, True, True, True]
