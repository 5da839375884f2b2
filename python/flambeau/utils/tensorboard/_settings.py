"""Records of TensorBoard's plugin for settings of runs ("hparams")."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.utils.tensorboard._summaries import array_of

_PLUGIN = "hparams"


def _value(name: str, value: Any) -> tuple[str, Any]:
    """Return the field of a protocol buffer that holds a setting, and the value in it."""
    if isinstance(value, str):
        return "string_value", value
    if isinstance(value, Tensor):
        return "number_value", float(array_of(value).reshape(-1)[0])
    if isinstance(value, bool | int | float):
        return "number_value", float(value)
    raise ValueError(f"hparams: expected a number, str, bool or tensor as {name}, got {value!r}")


def _summary(tag: str, **content: Any) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    data = HParamsPluginData(version=0, **content).SerializeToString()
    plugin = SummaryMetadata.PluginData(plugin_name=_PLUGIN, content=data)
    return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))])


def _check(settings: Any, metrics: Any, domains: Any) -> None:
    for name, given in (
        ("hparam_dict", settings),
        ("metric_dict", metrics),
        ("hparam_domain_discrete", domains),
    ):
        if not isinstance(given, dict):
            raise TypeError(f"hparams: {name} should be a dictionary: expected a dict, got {given!r}")
    for name, values in domains.items():
        same = name in settings and isinstance(values, list)
        if not same or not all(isinstance(value, type(settings[name])) for value in values):
            raise TypeError(f"hparams: expected values of one type with the setting {name}, got {values!r}")


def _described(name: str, value: Any, domain: list[Any] | None) -> Any:
    from tensorboard.plugins.hparams.api_pb2 import DATA_TYPE_FLOAT64, DATA_TYPE_STRING, HParamInfo

    kind = DATA_TYPE_STRING if isinstance(value, str) else DATA_TYPE_FLOAT64
    info = HParamInfo(name=name, type=kind)
    for item in domain or ():
        field, plain = _value(name, item)
        setattr(info.domain_discrete.values.add(), field, plain)
    return info


def hparams(
    hparam_dict: dict[str, Any] | None = None,
    metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """Return three summaries: what an experiment's settings are, and where a run with them starts and ends.

    Args:
        hparam_dict: number, str, bool or tensor by name; None is left out.
        metric_dict: the names of the results, whose values are written as scalars.
        hparam_domain_discrete: the values that a setting can have, by name.
    Raises: TypeError for an argument that is not a dict and for values of another type than their setting,
        ValueError for a setting of another type.
    """
    from tensorboard.plugins.hparams.api_pb2 import Experiment, MetricInfo, MetricName, Status
    from tensorboard.plugins.hparams.plugin_data_pb2 import SessionEndInfo, SessionStartInfo

    domains = {} if hparam_domain_discrete is None else hparam_domain_discrete
    _check(hparam_dict, metric_dict, domains)
    assert hparam_dict is not None and metric_dict is not None
    start, infos = SessionStartInfo(), []
    for name, value in hparam_dict.items():
        if value is not None:
            field, plain = _value(name, value)
            setattr(start.hparams[name], field, plain)
            infos.append(_described(name, value, domains.get(name)))
    names = [MetricInfo(name=MetricName(tag=name)) for name in metric_dict]
    end = SessionEndInfo(status=Status.Value("STATUS_SUCCESS"))
    return (
        _summary("_hparams_/experiment", experiment=Experiment(hparam_infos=infos, metric_infos=names)),
        _summary("_hparams_/session_start_info", session_start_info=start),
        _summary("_hparams_/session_end_info", session_end_info=end),
    )
