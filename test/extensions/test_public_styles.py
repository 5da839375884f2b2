"""Examples in the styles of public extensions: segments (pybind11), queue (classes), scan (setuptools)."""

import copy
import os
import pickle
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import flambeau as torch
import pytest
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils import cpp_extension

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "extensions"


# --- segments -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def segments(build_root):
    source = EXAMPLES / "segments" / "segments.cpp"
    return cpp_extension.load("segments", source, build_directory=build_root / "segments")


def boxes(count):
    torch.manual_seed(1)
    corners = torch.rand(count, 4, dtype=torch.float64)
    corners[:, 2:] += corners[:, :2]
    return corners, torch.rand(count, dtype=torch.float64)


def suppressed(corners, scores, threshold, classes):
    """The same by the definition, one box after another."""

    def overlap(a, b):
        width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
        height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
        areas = sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b))
        return width * height / (areas - width * height)

    kept = []
    rows = corners.tolist()
    for i in sorted(range(len(rows)), key=lambda i: -scores[i].item()):
        if all(classes[i] != classes[j] or overlap(rows[i], rows[j]) <= threshold for j in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize("kinds", [1, 3])
def test_suppression_agrees_with_its_definition(segments, kinds):
    corners, scores = boxes(60)
    classes = torch.arange(60) % kinds
    expected = suppressed(corners, scores, 0.3, classes.tolist())
    assert segments.suppress(corners, scores, 0.3, classes).tolist() == expected
    assert torch.ops.example_segments.suppress(corners, scores, 0.3, classes).tolist() == expected
    if kinds == 1:
        assert segments.suppress(corners.t().contiguous().t(), scores, threshold=0.3).tolist() == expected
    assert segments.suppress(corners[:0], scores[:0]).shape == (0,)


def test_suppression_refuses_other_arguments(segments):
    corners, scores = boxes(4)
    with pytest.raises(RuntimeError, match=r"expected boxes of shape \(n, 4\), got \[4\]"):
        segments.suppress(corners[0], scores)
    with pytest.raises(TypeError, match="expected one dtype, got Double and Float"):
        segments.suppress(corners, scores.float())
    with pytest.raises(NotImplementedError, match="\"suppress\" not implemented for 'Long'"):
        segments.suppress(corners.long(), scores.long())


@pytest.fixture
def rows():
    torch.manual_seed(0)
    values = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    return values, torch.tensor([0, 2, 2, -1, 0, 3]), torch.rand(6, dtype=torch.float64, requires_grad=True)


def test_sums_of_segments(segments, rows):
    values, index, weight = rows
    expected = torch.zeros(4, 5, dtype=torch.float64)
    for row, at in enumerate(index.tolist()):
        if at >= 0:
            expected[at] += (values[row] * weight[row]).detach()
    assert torch.allclose(segments.segment_sum(values, index, 4, weight), expected)
    assert torch.autograd.gradcheck(lambda v, w: segments.segment_sum(v, index, 4, w), (values, weight))
    assert torch.autograd.gradgradcheck(lambda v, w: segments.segment_sum(v, index, 4, w), (values, weight))
    assert torch.autograd.gradcheck(lambda v: torch.ops.example_segments.segment_sum(v, index, 4), (values,))
    half = segments.segment_sum(values.detach().half(), index, 4)
    assert half.dtype is torch.float16
    assert torch.allclose(half.double(), segments.segment_sum(values.detach(), index, 4), atol=1e-2)
    frozen = weight.detach()
    segments.segment_sum(values, index, 4, frozen).sum().backward()
    assert values.grad[3].tolist() == [0] * 5 and frozen.grad is None


def test_maxima_of_segments(segments, rows):
    values, index, _ = rows
    largest, chosen = segments.segment_max(values, index)
    assert chosen[1].tolist() == [-1] * 5 and largest[1].tolist() == [0] * 5
    assert largest[2].equal(values[1:3].max(0).values) and not chosen.requires_grad
    assert torch.autograd.gradcheck(lambda v: segments.segment_max(v, index)[0], (values,))
    integers, _ = segments.segment_max(torch.arange(-12, 0).view(6, 2), index, 5)
    assert integers.tolist() == [[-4, -3], [0, 0], [-8, -7], [-2, -1], [0, 0]]


def test_segments_refuse_other_arguments(segments, rows):
    values, index, weight = rows
    with pytest.raises(IndexError, match="expected indices from -1 to 2, got -1 to 3"):
        segments.segment_sum(values, index, 3)
    with pytest.raises(TypeError, match="expected int64 indices, got Int"):
        segments.segment_sum(values, index.int(), 4)
    with pytest.raises(RuntimeError, match=r"expected a weight per row, got \[2\]"):
        segments.segment_sum(values, index, 4, weight[:2])


def test_indexing_in_place(segments):
    x = torch.arange(5.0)
    assert segments.differences(x**2).tolist() == [1, 3, 5, 7, 16]
    assert segments.differences(x, inplace=True) is x and x.tolist() == [1, 1, 1, 1, 4]


# --- queue ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def queue(build_root):
    source = EXAMPLES / "queue" / "queue.cpp"
    cpp_extension.load("queue_ops", source, build_directory=build_root / "queue", is_python_module=False)
    return torch.ops.example_queue


@pytest.fixture
def window(queue):
    made = torch.classes.example_queue.Window(3, decay=0.25)
    x = torch.arange(3.0)
    made.push(x)
    made.push(x * 2)
    return made


def test_objects_of_a_class(window):
    x = torch.arange(3.0)
    assert isinstance(window, torch.ScriptObject)
    assert len(window) == 2 and window.latest().equal(x * 2) and not window.is_full
    assert [t.tolist() for t in window.tensors()] == [[0, 2, 4], [0, 1, 2]]
    assert (window.capacity, window.decay) == (3, 0.25)
    window.decay = 1
    assert window.decay == 1.0
    other = torch.classes.example_queue.Window.of([x, x])
    assert other.is_full and other.drain(window) is None
    assert (len(other), len(window)) == (2, 0)


def test_mistakes_with_objects(window):
    made = torch.classes.example_queue.Window
    with pytest.raises(ValueError, match="expected a capacity of 1 or more, got 0"):
        made(0)
    with pytest.raises(RuntimeError, match="missing value for argument 'capacity'"):
        made()
    with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'capacity'"):
        made("3")
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor'"):
        window.push(3)
    with pytest.raises(RuntimeError, match="Expected a value of type '__torch__.*Window' for argument '_0'"):
        window.drain(torch.ones(1))
    with pytest.raises(RuntimeError, match="expected two windows, got one twice"):
        window.drain(window)
    with pytest.raises(IndexError, match="expected a tensor in it, got none"):
        made(1).latest()
    with pytest.raises(RuntimeError, match="can't set attribute"):
        window.capacity = 5
    with pytest.raises(RuntimeError, match="got no attribute 'colour'"):
        window.colour = 5
    for wrong in (lambda: window.colour, lambda: window.of, lambda: made.push):
        with pytest.raises(AttributeError, match="Window"):
            wrong()
    with pytest.raises(NotImplementedError, match="__getitem__"):
        window[0]
    with pytest.raises(RuntimeError, match=r"example_queue\.Nothing', which does not exist"):
        _ = torch.classes.example_queue.Nothing
    with pytest.raises(TypeError):
        torch._C._CustomObject()


def test_objects_are_pickled_and_copied_by_def_pickle(window):
    for made in (pickle.loads(pickle.dumps(window)), copy.deepcopy(window), copy.copy(window)):
        assert (made.capacity, made.decay, len(made)) == (3, 0.25, 2)
        assert made.latest().equal(window.latest())
        made.push(torch.zeros(3))
        assert len(window) == 2


def test_an_operator_over_an_object(queue, window):
    x = torch.ones(3, requires_grad=True)
    result = queue.smoothed(x, window)
    expected = x + torch.tensor([0.0, 2, 4]) / 4 + torch.tensor([0.0, 1, 2]) / 16
    assert result.equal(expected)
    result.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    with torch.no_grad():
        assert not queue.smoothed(x, window).requires_grad
    assert queue.smoothed(torch.ones(3, device="meta"), window).is_meta
    for wrong in (None, torch.ones(3), 3):
        with pytest.raises(RuntimeError, match="Window"):
            queue.smoothed(x, wrong)


def test_the_program_of_the_page(queue):
    """What docs/extending.md shows, with the class and the operator that it shows beside."""
    page = (EXAMPLES.parents[1] / "docs" / "extending.md").read_text()
    source = " ".join((EXAMPLES / "queue" / "queue.cpp").read_text().split())
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.M | re.S)
    (declared,) = [text for _, text in blocks if "m.class_<Window>" in text]
    for line in declared.splitlines()[:3]:
        assert line.strip() in source
    (program,) = [text for _, text in blocks if "window.push(x)" in text]
    names = {"flambeau": torch, "x": torch.ones(2)}
    exec(compile(program, "docs/extending.md", "exec"), names)
    assert len(names["window"]) == 1


def test_boxed_kernels_and_calls_by_name(queue):
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    zero = torch.zeros(2)
    assert queue.gap(x, zero).item() == 5 and queue.gap(x, zero, 3).item() == 9
    queue.gap(x, zero).backward()
    assert x.grad.tolist() == [2, -4]
    assert queue.by_name("example_queue::gap", x, zero).item() == 5
    with pytest.raises(ValueError, match="expected an operator, got example_queue::none"):
        queue.by_name("example_queue::none", x, zero)
    assert (
        queue.described("example_queue::gap")
        == "example_queue::gap(Tensor x, Tensor y, int order=2) -> Tensor"
    )


# --- scan -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recurrence(build_root, run_python):
    pytest.importorskip("setuptools")
    folder = build_root / "scan"
    if not folder.exists():
        shutil.copytree(EXAMPLES / "scan", folder)
    before = os.environ.pop("WITH_CUDA", None)
    run_python("setup.py", "-q", "build_ext", "--inplace", cwd=folder)
    if before is not None:
        os.environ["WITH_CUDA"] = before
    sys.path.insert(0, str(folder))
    try:
        return import_module("recurrence")
    finally:
        sys.path.pop(0)


@pytest.fixture
def sequences():
    torch.manual_seed(0)
    return tuple(
        torch.rand(*shape, dtype=torch.float64, requires_grad=True)
        for shape in [(2, 5, 3), (2, 5, 3), (2, 3)]
    )


def test_the_recurrence_and_its_gradient(recurrence, sequences):
    x, decay, initial = sequences
    state, states = initial, []
    for t in range(5):
        state = decay[:, t] * state + x[:, t]
        states.append(state)
    assert torch.allclose(recurrence.scan(x, decay, initial), torch.stack(states, 1))
    assert torch.autograd.gradcheck(recurrence.scan, (x, decay, initial))
    assert torch.autograd.gradcheck(recurrence.scan, (x, decay))
    assert not recurrence.with_cuda


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_recurrence_in_mixed_dtypes(recurrence, sequences, dtype):
    x, decay, initial = sequences
    result = recurrence.scan(x.to(dtype), decay, initial.float())
    assert result.dtype is dtype
    assert torch.allclose(result.double(), recurrence.scan(x, decay, initial), atol=0.05)
    result.sum().backward()
    assert [t.grad.dtype for t in sequences] == [torch.float64] * 3
    with pytest.raises(NotImplementedError, match="\"scan\" not implemented for 'Long'"):
        recurrence.scan(x.long(), decay)
    with pytest.raises(RuntimeError, match=r"expected decay of the shape of x, \[2, 5, 3\], got \[1, 5, 3\]"):
        recurrence.scan(x, decay[:1])


def alignments(length, states):
    """All ways from state 0 to the last one."""
    ways = [[0]]
    for _ in range(length - 1):
        ways = [[*way, way[-1] + step] for way in ways for step in (0, 1)]
    return [way for way in ways if way[-1] == states - 1]


def test_scores_of_alignments(recurrence):
    torch.manual_seed(0)
    p = torch.randn(2, 6, 3, dtype=torch.float64).log_softmax(-1).requires_grad_()
    ways = alignments(6, 3)
    expected = torch.stack([torch.stack([sum(p[b, t, s] for t, s in enumerate(w)) for w in ways]).logsumexp(0)
                            for b in range(2)])  # fmt: skip
    score = recurrence.alignment_score(p)
    assert torch.allclose(score, expected)
    assert torch.autograd.gradcheck(recurrence.alignment_score, (p,))
    (posterior,) = torch.autograd.grad(score.sum(), p)
    assert torch.allclose(posterior.sum(-1), torch.ones(2, 6, dtype=torch.float64))
    with pytest.raises(ValueError, match="got 2 frames and 3 states"):
        recurrence.alignment_score(p[:, :2])


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_the_operators_in_graphs(recurrence, mode):
    x, decay = torch.randn(2, 5, 3), torch.rand(2, 5, 3)
    graph = make_fx(lambda x, d: recurrence.scan(x, d).tanh(), tracing_mode=mode)(x, decay)
    assert torch.ops.recurrence.scan.default in [node.target for node in graph.graph.nodes]
    assert graph(x, decay).equal(recurrence.scan(x, decay).tanh())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_the_operators_under_compile(recurrence, sequences, backend):
    x, decay, initial = sequences

    def loss(x, decay):
        return recurrence.scan(x, decay, initial.detach()).tanh().sum()

    expected = torch.autograd.grad(loss(x, decay), (x, decay))
    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    for _ in range(2):
        found = torch.autograd.grad(compiled(x, decay), (x, decay))
        assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))


def test_the_operators_pass_opcheck(recurrence, sequences):
    results = torch.library.opcheck(torch.ops.recurrence.scan.default, sequences)
    assert set(results.values()) == {"SUCCESS"}
