"""Files for TensorBoard: what both frameworks write for one program, read again record by record."""

import importlib
import inspect
import io
import wave
from pathlib import Path

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

pytest.importorskip("tensorboard")
Image = pytest.importorskip("PIL.Image")

LABELS, PREDICTIONS = [0, 1, 1, 0, 1, 0, 0, 1], [0.1, 0.9, 0.8, 0.4, 0.35, 0.7, 0.2, 1.0]
PICTURE_PARTS = ("image", "encoded_image_string")


def module_of(torch, name="utils.tensorboard"):
    return importlib.import_module(f"{torch.__name__}.{name}")


def read_events(path):
    """The events of a file, without their times; the first has the file's version."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    events = [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]
    for event in events:
        assert event.wall_time > 0
        event.ClearField("wall_time")
    return events


def fields_of(message, places=7):
    """A record as plain values, pictures decoded and floats rounded."""
    found = {}
    for field, value in message.ListFields():
        single = [value] if not field.is_repeated else list(value)
        if field.type == field.TYPE_MESSAGE:
            single = [fields_of(one) for one in single]
        elif field.name == "encoded_image_string":
            picture = Image.open(io.BytesIO(value))
            single = [picture.format, picture.mode, np.asarray(picture).tolist()]
        elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
            single = [repr(float(f"{one:.{places}g}")) for one in single]
        found[field.name] = single
    return found


def steps(torch, first, last, *sizes):
    """Equal steps as float32; `linspace` of both frameworks can differ in the last bit."""
    return torch.tensor(np.linspace(first, last, int(np.prod(sizes)), dtype=np.float32).reshape(sizes))


def pixels_of(file):
    return np.asarray(Image.open(file)).tolist()


def written(torch, program, folder):
    """All that a program writes: the fields of the events, and the other files."""
    with module_of(torch).SummaryWriter(str(folder)) as writer:
        program(torch, writer)
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if "tfevents" in name:
            name = str(Path(name).parent)
            found[name] = [fields_of(event) for event in read_events(path)]
        else:
            found[name] = pixels_of(path) if path.suffix == ".png" else path.read_bytes()
    return found


PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def numbers(torch, writer):
    writer.add_scalar("a", 1.5, 1, new_style=True)
    writer.add_scalar("a", torch.tensor([[0.1]]), 2, new_style=True, double_precision=True)
    writer.add_scalar("a", True, 3, double_precision=True)
    writer.add_scalars("group/x", {"p": 1, "q": 2.5}, 4)
    writer.add_text("words", "*é*", 5)


@program
def histograms(torch, writer):
    values = torch.tensor([1.0, -1.0, 0.0, 5.0, 1e-3])
    writer.add_histogram("default", values, 1)
    writer.add_histogram("number", 5.0, 1)
    writer.add_histogram("few", values, 1, max_bins=7)
    writer.add_histogram("integers", torch.arange(10), 1, bins="auto")
    for most in (1, 3, 4, 5, 20):
        writer.add_histogram("edges", torch.tensor([1.0, 2, 3, 4, 7.5]), 1, np.linspace(-2, 8, 11), 9.5, most)


@program
def histograms_counted_before(torch, writer):
    writer.add_histogram_raw("lists", 0, 3, 4, 5.0, 9.0, [1, 2, 3], [1, 2, 1], 2)
    writer.add_histogram_raw("arrays", -1.5, 3, 4, 5, 9, np.array([1.0, 2.5]), np.array([1, 3]), 2)


@program
def tensors(torch, writer):
    for dtype in "float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128".split():
        writer.add_tensor(dtype, torch.tensor([[1, 0], [3, 2]]).to(getattr(torch, dtype)), 1)
    writer.add_tensor("negative", torch.tensor([-1, -(2**40)]))
    writer.add_tensor("scalar", torch.tensor(2.5))
    writer.add_tensor("empty", torch.zeros(0, 3))
    writer.add_tensor("strided", torch.arange(6.0).reshape(2, 3).t())
    writer.add_tensor("leaf", torch.ones(1, requires_grad=True))
    writer.add_tensor("imaginary", torch.tensor([1 + 2j]))


@program
def curves(torch, writer):
    labels, predictions = torch.tensor(LABELS), torch.tensor(PREDICTIONS, dtype=torch.float64)
    for count in (1, 2, 5, 127, 200):
        writer.add_pr_curve("curve", labels, predictions, 3, num_thresholds=count)
    writer.add_pr_curve("default", labels.reshape(2, 4), predictions.reshape(2, 4))
    writer.add_pr_curve("bool", labels.bool(), predictions, num_thresholds=4)
    writer.add_pr_curve("outside", labels, predictions * 3 - 1, num_thresholds=4)
    writer.add_pr_curve("weights", labels, predictions, num_thresholds=4, weights=np.arange(8.0))
    writer.add_pr_curve("weight", np.array(LABELS), np.array(PREDICTIONS), num_thresholds=4, weights=2.0)
    writer.add_pr_curve("none", labels[:0], predictions[:0], num_thresholds=3)


@program
def curves_counted_before(torch, writer):
    rows = [[1, 2, 3], [1, 1, 1], [0, 0, 0], [2, 3, 4], [0.1, 0.2, 0.3], [0.3, 0.4, 0.5]]
    writer.add_pr_curve_raw("lists", *rows, 3, num_thresholds=3)
    writer.add_pr_curve_raw("tensors", *map(torch.tensor, rows), 3, num_thresholds=500)


@program
def charts(torch, writer):
    writer.add_custom_scalars(
        {"T": {"a": ["Multiline", ["x", "y"]], "b": ["Margin", ["p", "q", "r"]]}, "U": {}}
    )
    writer.add_custom_scalars({"T": {"a": ["Other", ["loss/.*"]]}})
    writer.add_custom_scalars_multilinechart(["x", "y"])
    writer.add_custom_scalars_multilinechart(["x"], category="c", title="t")
    writer.add_custom_scalars_marginchart(["x", "y", "z"], "c", "t")


@program
def meshes(torch, writer):
    points = torch.arange(12.0).reshape(1, 4, 3)
    settings = {"material": {"cls": "PointsMaterial", "size": 0.5}, "camera": {"cls": "PerspectiveCamera"}}
    writer.add_mesh("points", points, global_step=1)
    writer.add_mesh("colors", points.double(), colors=torch.full((1, 4, 3), 7, dtype=torch.uint8))
    writer.add_mesh("faces", points, faces=torch.tensor([[[0, 1, 2], [1, 2, 3]]]), config_dict=settings)
    writer.add_mesh("all", points.numpy(), torch.ones(1, 4, 3), torch.tensor([[[0, 1, 2]]]), {})
    writer.add_mesh("list", [[[1.0, 2, 3]]])


@program
def sounds(torch, writer):
    writer.add_audio("one", torch.tensor([0.0, 0.5, -0.5, 1, -1, 0.1, -0.1]), 1, 8000)
    writer.add_audio("row", steps(torch, -1, 1, 1, 50))
    writer.add_audio("loud", torch.tensor([[0.0, 2, -2]]), sample_rate=1)
    writer.add_audio("integers", torch.tensor([[0, 1, -1]], dtype=torch.int16), sample_rate=8000.7)


@program
def pictures(torch, writer):
    shades = steps(torch, 0, 1, 60)
    writer.add_image("color", shades.reshape(3, 4, 5), 1)
    writer.add_image("outside", shades.reshape(3, 4, 5) * 3 - 1, 1)
    writer.add_image("bytes", (shades.reshape(4, 5, 3) * 255).to(torch.uint8), 1, dataformats="HWC")
    writer.add_image("gray", shades.reshape(1, 6, 10), 1)
    writer.add_image("plain", shades.reshape(6, 10), 1, dataformats="HW")
    writer.add_image("transposed", shades.reshape(6, 10), 1, dataformats="wh")
    writer.add_image("alpha", shades.reshape(4, 3, 5), 1)
    writer.add_image("bool", torch.eye(4).bool(), dataformats="HW")
    for count in (1, 5, 10):
        writer.add_images("grid", steps(torch, 0, 1, count, 3, 2, 2), count)
    writer.add_images("gray grid", steps(torch, 0, 1, 9, 1, 2, 2))
    writer.add_images("last", steps(torch, 0, 1, 2, 2, 2, 3), dataformats="NHWC")


@program
def figures(torch, writer):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    drawn = [Figure((1.2, 0.8), 50) for _ in range(3)]
    for i, figure in enumerate(drawn):
        figure.subplots().plot([0, i, 1])
    writer.add_figure("one", drawn[0], 1)
    writer.add_figure("list", drawn, 2, close=False)
    writer.add_figure("list of one", drawn[:1])


@program
def boxes(torch, writer):
    picture = steps(torch, 0, 1, 3, 40, 50)
    frames = torch.tensor([[2, 2, 28, 30.0], [20, 10, 45, 33]])
    writer.add_image_with_boxes("frames", picture, frames, 1)
    writer.add_image_with_boxes("labels", picture, frames, 1, labels=["Wq", "x"])
    writer.add_image_with_boxes("one", picture, frames[:1], 1, labels="Wq")
    writer.add_image_with_boxes("other number", picture, frames, 1, labels=["a"])
    writer.add_image_with_boxes("outside", picture, torch.tensor([[-5, -5, 200, 300]]), 1)
    writer.add_image_with_boxes("backwards", picture, torch.tensor([[28, 30, 2, 2.0]]), 1)
    writer.add_image_with_boxes("small", picture, frames, 1, rescale=0.5, labels=["a", "b"])
    writer.add_image_with_boxes("large", picture[0], frames, 1, rescale=1.7, dataformats="HW")
    writer.add_image_with_boxes("none", picture, torch.zeros(0, 4), 1)


@program
def embeddings(torch, writer):
    points = torch.tensor([[0.1, 1], [2, -3.5], [1e-9, 1e20]])
    shades = steps(torch, 0, 1.2, 3, 3, 4, 5)
    writer.add_embedding(points)
    writer.add_embedding(points, metadata=["a", "b", "é"], global_step=2)
    writer.add_embedding(points, metadata=[1, None, 2.5], global_step=3, tag="a/b\\c%d é")
    rows, header = [["a", 1], ["b", 2], ["c", 3]], ["x", "y"]
    writer.add_embedding(points, rows, shades, global_step=123456, tag="all", metadata_header=header)
    writer.add_embedding(points, rows, global_step=4)
    writer.add_embedding(points.numpy(), label_img=shades[:, :1, :4, :4], global_step=5)
    writer.add_embedding(torch.tensor([[1, 2]]), global_step=6)
    writer.add_embedding(points[:2].bfloat16(), torch.arange(2).tolist(), global_step=7)
    writer.add_embedding(points, global_step="late")


@program
def embeddings_of_one_step(torch, writer):
    points = torch.arange(4.0).reshape(2, 2)
    writer.add_embedding(points)
    writer.add_embedding(points + 1)


@pytest.mark.parametrize("written_by", PROGRAMS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore")
def test_a_program_writes_the_same(written_by, tmp_path):
    found = written(fb, written_by, tmp_path / "flambeau")
    expected = written(pytorch(), written_by, tmp_path / "pytorch")
    assert sorted(found) == sorted(expected)
    for name, content in expected.items():
        if name == ".":
            assert len(content) > 1 or len(expected) > 1, "nothing was written"
        assert found[name] == content, name


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_all_of_them(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tags = []
    for torch in (fb, pytorch()):
        with module_of(torch).SummaryWriter(str(tmp_path / torch.__name__)) as writer:
            for write in PROGRAMS:
                write(torch, writer)
        tags.append(EventAccumulator(str(tmp_path / torch.__name__)).Reload().Tags())
    assert tags[0] == tags[1]
    assert all(tags[0][kind] for kind in ("images", "audio", "histograms", "scalars", "tensors"))


def only_value(folder):
    (event,) = [e for path in folder.iterdir() for e in read_events(path) if e.HasField("summary")]
    (value,) = event.summary.value
    return value


def one(tmp_path, method, *args, **kwargs):
    """The value that one call writes."""
    with fb.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        getattr(writer, method)("tag", *args, **kwargs)
    return only_value(tmp_path)


def test_a_later_run_hides_the_steps_of_one_that_crashed(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = {}
    for torch in (fb, pytorch()):
        folder = tmp_path / torch.__name__
        for first, purge_step in ((0, None), (3, 3)):
            options = {"purge_step": purge_step, "filename_suffix": f".{first}"}
            with module_of(torch).SummaryWriter(str(folder), **options) as writer:
                for step in range(first, first + 6):
                    writer.add_scalar("loss", 10 * first + step, step)
        events = EventAccumulator(str(folder)).Reload().Scalars("loss")
        seen[torch.__name__] = [(event.step, event.value) for event in events]
    assert seen["flambeau"] == [(0, 0), (1, 1), (2, 2), *((step, 30 + step) for step in range(3, 9))]
    assert seen["flambeau"] == seen["torch"]


def test_a_file_that_fails_leaves_no_other_one_open(tmp_path, monkeypatch):
    writer = module_of(fb).SummaryWriter(str(tmp_path))
    writer.add_scalars("losses", {"a": 1.0, "b": 2.0})
    first, *others = writer.all_writers.values()
    closed = []

    def full():
        raise OSError("no space left")

    monkeypatch.setattr(first, "flush", full)
    for one in (first, *others):
        monkeypatch.setattr(one, "close", lambda close=one.close: closed.append(close()))
    with pytest.raises(OSError, match="no space left"):
        writer.close()
    assert len(closed) == 3 and writer.all_writers is None
    writer.add_scalar("losses", 3.0)  # opens a new file
    writer.close()


@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16])
def test_half_floats_are_their_bits(dtype, tmp_path):
    """PyTorch writes the bits of the number as float32, which no reader takes for float16."""
    given = fb.tensor([1.0, -1.5, float("inf")], dtype=dtype)
    proto = one(tmp_path, "add_tensor", given).tensor
    assert proto.dtype == {fb.float16: 19, fb.bfloat16: 14}[dtype]
    if dtype == fb.float16:
        from tensorboard.util.tensor_util import make_ndarray

        assert make_ndarray(proto).tolist() == given.tolist()
    bits = fb.tensor(list(proto.half_val), dtype=fb.int32).to(fb.int16)
    assert bits.view(dtype).equal(given) and min(proto.half_val) >= 0


def test_sound_is_a_wave_file(tmp_path):
    record = one(tmp_path, "add_audio", fb.tensor([0.0, 0.5, float("nan"), -1]), sample_rate=16000).audio
    with wave.open(io.BytesIO(record.encoded_audio_string)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000)
        samples = np.frombuffer(file.readframes(10), "<i2")
    assert samples.tolist() == [0, 16383, 0, -32767]
    assert (record.length_frames, record.content_type) == (4, "audio/wav")


def test_clipped_samples_and_overwritten_embeddings_are_told(tmp_path):
    writer = fb.utils.tensorboard.SummaryWriter(tmp_path)
    with pytest.warns(UserWarning, match="outside") as told:
        writer.add_audio("loud", fb.tensor([1.5]))
    writer.add_embedding(fb.ones(1, 2))
    with pytest.warns(UserWarning, match="exists and is overwritten") as again:
        writer.add_embedding(fb.ones(1, 2))
    assert {w.filename for w in (*told, *again)} == {__file__}


def frames_of_gif(data):
    """Frame and milliseconds; pillow joins frames that are equal."""
    picture, found = Image.open(io.BytesIO(data)), []
    for i in range(picture.n_frames):
        picture.seek(i)
        found.append((np.asarray(picture.convert("RGB")), picture.info["duration"]))
    return found


@pytest.mark.parametrize("channels", [1, 3])
def test_a_video_is_a_gif(channels, tmp_path):
    frames = fb.zeros(2, 3, channels, 4, 6)
    frames[0, 1], frames[0, 2], frames[1, 1] = 1.0, 0.25, 0.5
    record = one(tmp_path, "add_video", frames, fps=5).image
    assert (record.height, record.width, record.colorspace) == (4, 12, channels)
    shown = frames_of_gif(record.encoded_image_string)
    assert [duration for _, duration in shown] == [200] * 3
    for (pixels, _), left, right in zip(shown, (0, 255, 63), (0, 127, 0), strict=True):
        assert pixels.shape == (4, 12, 3)
        assert (pixels[:, :6] == left).all() and (pixels[:, 6:] == right).all()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 16, 17])
def test_videos_run_beside_one_another(count):
    """PyTorch needs moviepy to encode them; how it arranges the frames can be asked without it."""
    videos = np.arange(count * 2 * 3 * 2 * 4, dtype=np.float32).reshape(count, 2, 3, 2, 4)
    found, expected = (
        module_of(torch, "utils.tensorboard.summary")._prepare_video(videos) for torch in (fb, pytorch())
    )
    assert found.tolist() == expected.tolist()


def test_embeddings_that_pytorch_does_not_write(tmp_path):
    with fb.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_embedding(fb.ones(2, 2), ["red", "blue"], metadata_header=["color"])
        bright = fb.full((1, 3, 5, 2), 254, dtype=fb.uint8)  # PyTorch takes bytes for numbers from 0 to 1
        writer.add_embedding(fb.ones(1, 2), label_img=bright, global_step=fb.tensor(7))
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "color\nred\nblue\n"
    square = Image.open(tmp_path / "00007/default/sprite.png")
    assert square.size == (5, 5)
    assert np.asarray(square)[:, :2].min() == 254 and np.asarray(square)[:, 2:].max() == 0


X = [[1.0, 2.0], [3.0, 4.0]]
# method, arguments of plain values that become tensors where they are lists of numbers, words of the error
BAD = [
    ("add_scalar", (X,), {}, "expected one number, got shape"),
    ("add_scalar", ("x",), {}, "add_scalar: expected a number, got 'x'"),
    ("add_scalar", (1j,), {}, "expected a number, got 1j"),
    ("add_histogram", ([],), {}, "expected values, got none"),
    ("add_histogram", ([9.0],), {"bins": [0, 2, 3.5]}, "expected values from 0"),
    ("add_histogram", ([9.0],), {"bins": "nope"}, "nope"),
    ("add_histogram_raw", (0, 1, 2, 3, 4, (1, 2), (1,)), {}, "2 limits and 1 counts"),
    ("add_tensor", (np.ones(2),), {}, "expected a tensor, got ndarray"),
    ("add_pr_curve", ([1.0], [0.5, 0.6]), {}, r"same shape, got \(1,\), \(2,\)"),
    ("add_pr_curve", ([1.0, 0.0], [0.5, 0.6]), {"weights": np.ones(3)}, r"and \(3,\)"),
    ("add_pr_curve", ([1.0], [0.5]), {"num_thresholds": 0}, "at least 1, got 0"),
    ("add_pr_curve", ([1.0], [0.5]), {"num_thresholds": 2.5}, "an integer as num_thresholds, got 2.5"),
    ("add_pr_curve_raw", ([1.0], [1.0], [1.0], [1.0], [1.0], [1.0, 2.0]), {}, "six rows of the same length"),
    ("add_mesh", (X,), {}, "BxNx3"),
    ("add_mesh", ([X],), {"config_dict": {"x": {1}}}, "not JSON serializable"),
    ("add_audio", (X,), {}, "1 dimensional"),
    ("add_audio", ([],), {}, "expected samples, got none"),
    ("add_audio", ([0.5, 0.5],), {"sample_rate": 0}, "sample_rate of at least 1, got 0"),
    ("add_image", (X,), {}, "3 dimensions 'CHW'"),
    ("add_image", (X,), {"dataformats": "HH"}, "each letter once"),
    ("add_image", (X,), {"dataformats": "XY"}, "dataformats of N, C, H and W, got 'XY'"),
    ("add_images", ([[X, X]],), {}, r"1 or 3 channels, got shape \(1, 2, 2, 2\)"),
    ("add_image_with_boxes", ([X],), {"box_tensor": [1.0, 2.0, 3.0, 4.0]}, r"boxes \(N, 4\)"),
    ("add_video", ([X],), {}, r"expected videos \(N, T, C, H, W\)"),
]


def tensors_for(torch, value):
    if isinstance(value, list) and not any(isinstance(item, str) for item in value):
        return torch.tensor(value)
    return value


@pytest.mark.parametrize(("method", "args", "kwargs", "words"), BAD, ids=str)
def test_bad_input(method, args, kwargs, words, tmp_path):
    kinds = []
    for torch in (fb, pytorch()):
        with module_of(torch).SummaryWriter(str(tmp_path / torch.__name__)) as writer:
            given = [tensors_for(torch, value) for value in args]
            named = {name: tensors_for(torch, value) for name, value in kwargs.items()}
            with pytest.raises(Exception, match=words if torch is fb else None) as found:
                getattr(writer, method)("tag", *given, **named)
        kinds.append(found.type)
    accidental = (AttributeError, IndexError) if method == "add_tensor" else ()
    assert kinds[0] is kinds[1] or kinds[1] in accidental


LAYOUTS = [
    ({"T": {"a": ["Margin", ["x", "y"]]}}, AssertionError, "len.tags. != 3.*got .'x', 'y'."),
    ({"T": {"a": ["Margin", list("wxyz")]}}, AssertionError, "len.tags. != 3"),
    ({"T": {"a": ["Multiline"]}}, TypeError, "a kind and tags as 'a'"),
    ({"T": 3}, TypeError, "a dict of charts for the category 'T', got 3"),
    ({1: {}}, TypeError, "by name, got {1"),
    ([1], TypeError, r"a dict of categories, got \[1\]"),
]


@pytest.mark.parametrize(("layout", "kind", "words"), LAYOUTS, ids=str)
def test_layouts_of_another_form(layout, kind, words, tmp_path):
    with fb.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        with pytest.raises(kind, match=words):
            writer.add_custom_scalars(layout)
    with pytest.raises((kind, AttributeError, IndexError)):  # PyTorch's accidents of other layouts
        module_of(pytorch(), "utils.tensorboard.summary").custom_scalars(layout)


P = [[1.0, 2.0], [3.0, 4.0]]
EMBEDDINGS = [
    ((P[0],), {}, r"a row per point, got .*\[2\]"),
    ((P, ["a"]), {}, "expected 2 labels, got 1"),
    ((P, []), {}, "expected 2 labels, got 0"),
    ((P, None, [[P]]), {}, r"expected 2 pictures .* got shape \(1, 1, 2, 2\)"),
    ((P, [["a", "b"], ["c", "d"]]), {"metadata_header": ["x"]}, "1 columns .*got .'a', 'b'."),
]


@pytest.mark.parametrize(("args", "kwargs", "words"), EMBEDDINGS, ids=str)
def test_wrong_embeddings(args, kwargs, words, tmp_path):
    for torch in (fb, pytorch()):
        with module_of(torch).SummaryWriter(str(tmp_path / torch.__name__)) as writer:
            mat, *rest = args
            given = [torch.tensor(mat), *rest[:1], *map(torch.tensor, rest[1:])]
            with pytest.raises(AssertionError, match=words if torch is fb else None):
                writer.add_embedding(*given, **kwargs)


def test_signatures_are_those_of_pytorch():
    theirs = module_of(pytorch()).SummaryWriter
    for name in (name for name in dir(theirs) if not name.startswith("_")):
        found, expected = (
            [(p.name, p.default) for p in inspect.signature(getattr(c, name)).parameters.values()]
            for c in (fb.utils.tensorboard.SummaryWriter, theirs)
        )
        assert found == expected, name
