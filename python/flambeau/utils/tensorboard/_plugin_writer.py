"""What SummaryWriter writes for TensorBoard's plugins: curves, charts, meshes, sound, video, embeddings."""

from __future__ import annotations

from typing import Any

from flambeau.utils.tensorboard import _charts, _pictures, _summaries
from flambeau.utils.tensorboard._embeddings import Projector
from flambeau.utils.tensorboard._event_file import FileWriter
from flambeau.utils.tensorboard._graphs import graph_of
from flambeau.utils.tensorboard._onnx_graphs import onnx_graph_of


class PluginWriter:
    """The methods of SummaryWriter that write for a plugin of TensorBoard."""

    _projector: Projector

    def _get_file_writer(self) -> FileWriter:
        raise NotImplementedError  # SummaryWriter opens the file

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram that the caller counted.

        Args:
            tag: the name.
            min: the least value.
            max: the greatest value.
            num: how many values.
            sum: of the values.
            sum_squares: the sum of their squares.
            bucket_limits: the upper limit of each bucket.
            bucket_counts: how many values each bucket has.
            global_step: the step.
            walltime: seconds since 1970; default: now.
        Raises: ValueError unless there are as many limits as counts.
        """
        found = _summaries.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a tensor with its dtype and shape.

        Raises: TypeError for what is not a tensor, ValueError for a dtype that the format does not have.
        """
        self._get_file_writer().add_summary(_summaries.tensor_proto(tag, tensor), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Write a picture with boxes drawn into it.

        Args:
            tag: the name.
            img_tensor: bytes, or numbers from 0 to 1.
            box_tensor: left, top, right and bottom of each box, in pixels.
            global_step: the step.
            walltime: seconds since 1970; default: now.
            rescale: the factor by which the picture is scaled in the end.
            dataformats: a letter per dimension of the picture.
            labels: a text per box, or one for a single box; other numbers of labels are not drawn.
        Shape: img_tensor: as `dataformats`; box_tensor: `(N, 4)`.
        Raises: IndexError for boxes of another shape; as `add_image` for the picture.
        """
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        found = _pictures.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Write videos, which run beside one another, as a GIF.

        Args:
            tag: the name.
            vid_tensor: bytes, or numbers from 0 to 1; frames have 256 colors at most.
            global_step: the step.
            fps: frames per second; a frame lasts whole hundredths of a second.
            walltime: seconds since 1970; default: now.
        Shape: vid_tensor: `(N, T, C, H, W)`.
        Raises: ValueError for another number of dimensions, for other than 1, 3 or 4 channels, without frames
            and unless `fps` is positive.
        """
        self._get_file_writer().add_summary(_pictures.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: float = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write sound of one channel with 16 bits per sample.

        Args:
            tag: the name.
            snd_tensor: samples from -1 to 1; others are clipped, with a warning.
            global_step: the step.
            sample_rate: samples per second.
            walltime: seconds since 1970; default: now.
        Shape: snd_tensor: `(L,)` or `(1, L)`.
        Raises: AssertionError for another shape, ValueError without samples, wave.Error for a rate below 1.
        """
        found = _charts.audio(tag, snd_tensor, sample_rate)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision and recall by threshold.

        Args:
            tag: the name.
            labels: 1 or True for positive; 0 or False for negative.
            predictions: probabilities of being positive; those outside `[0, 1]` are not counted.
            global_step: the step.
            num_thresholds: how many thresholds, 127 at most.
            weights: of each prediction; default: 1.
            walltime: seconds since 1970; default: now.
        Shape: labels, predictions and weights: the same.
        Raises: ValueError if the shapes differ or `num_thresholds` is less than 1.
        """
        found = _charts.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write counts, precision and recall by threshold that the caller computed; `weights` is ignored.

        Raises: ValueError unless all have the same length.
        """
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        found = _charts.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Write which scalars are shown in one chart; the last call of a log directory counts.

        Args:
            layout: from categories to charts: from titles to a kind and tags. The kind "Margin" has three
                tags: a value, its lower and its upper bound. Every other kind, such as "Multiline", shows a
                line per tag, which can be a regular expression.
        Raises: TypeError for a layout of another form, AssertionError for a margin of other than three tags.
        """
        self._get_file_writer().add_summary(_charts.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write that scalars are shown as lines of one chart: see `add_custom_scalars`."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write that a scalar is shown between two others: see `add_custom_scalars`.

        Raises: AssertionError for other than three tags: the value, the lower and the upper bound.
        """
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Any = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write points or triangles in space.

        Args:
            tag: the name.
            vertices: coordinates.
            colors: red, green and blue of each vertex, from 0 to 255.
            faces: three numbers of vertices per triangle.
            config_dict: settings of the page's scene: of three.js, by name.
            global_step: the step.
            walltime: seconds since 1970; default: now.
        Shape: vertices and colors: `(B, N, 3)`; faces: `(B, F, 3)`.
        Raises: ValueError for another number of dimensions, TypeError for settings that JSON does not have.
        """
        found = _charts.mesh(tag, vertices, colors, faces, config_dict)
        self._get_file_writer().add_summary(found, global_step, walltime)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Write points for TensorBoard's projector, in a folder of the log directory.

        Args:
            mat: a row per point.
            metadata: a label per point, or with a header a list of labels.
            label_img: a picture per point; bytes, or numbers from 0 to 1.
            global_step: the step; default: 0. A step that is given twice overwrites the first.
            tag: the name.
            metadata_header: the names of the columns of `metadata`.
        Shape: mat: `(N, D)`; label_img: `(N, C, H, W)`.
        Raises: AssertionError for another shape, another number of labels or pictures, and labels that do not
            match the header.
        """
        self._projector.add(mat, metadata, label_img, global_step, tag, metadata_header)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Write the graph of a model: the functions that a call runs, in the scopes of its modules.

        The model runs once, in evaluation mode and without gradients.

        Args:
            model: a module.
            input_to_model: a tensor, or a list or tuple of arguments.
            verbose: print the graph.
            use_strict_trace: ignored; results can be lists and dicts.
        Raises: TypeError for what is not a module; what the module raises.
        """
        from tensorboard.compat.proto.config_pb2 import RunMetadata
        from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats

        graph = graph_of(model, input_to_model)
        if verbose:
            print(graph)
        run = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
        self._get_file_writer().add_graph((graph, run))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Write the graph of an ONNX file, which the package onnx reads.

        Args:
            prototxt: the path of the file.
        Raises: ModuleNotFoundError without the package onnx; what the package raises for the file.
        """
        from tensorboard.compat.proto.config_pb2 import RunMetadata

        self._get_file_writer().add_graph((onnx_graph_of(prototxt), RunMetadata()))
