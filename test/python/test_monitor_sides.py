"""Events, their handlers and statistics, as in PyTorch."""

import datetime
import importlib
import time

import flambeau as fb
import pytest
from sides import Scenarios, raised

scenario = Scenarios()
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
HOUR = datetime.timedelta(hours=1)


def monitor(torch):
    return importlib.import_module(f"{torch.__name__}.monitor")


def logged(torch, program):
    """What handlers saw while the program ran: names, sorted values, types of times."""
    events, m = [], monitor(torch)
    handle = m.register_event_handler(
        lambda e: events.append([e.name, sorted(e.data.items()), type(e.timestamp).__name__])
    )
    try:
        result = program(m)
    finally:
        m.unregister_event_handler(handle)
    return [result, events]


@scenario
def fields_of_an_event(torch):
    data = {"i": 1, "f": 2.5, "s": "x", "b": True}
    event = monitor(torch).Event("n", WHEN, data)
    found = [event.name, str(event.timestamp), sorted(event.data.items(), key=str), event.data is data]
    event.name, event.data = "other", {"q": 1}
    return [*found, event.name, event.data, monitor(torch).Event(name="k", timestamp=WHEN, data={}).data]


@scenario
def what_is_no_event(torch):
    event = monitor(torch).Event
    wrong = [("n", 1.0, {}), (1, WHEN, {}), ("n", WHEN, {"a": None}), ("n", WHEN, {"a": [1]}), ()]
    wrong += [("n", WHEN, {1: "a"}), ("n", WHEN, {"a": 1 << 70}), ("n", WHEN, 3)]
    return [raised("", event, *arguments) for arguments in wrong]


@scenario
def handlers(torch):
    m, seen = monitor(torch), []
    event = m.Event("n", WHEN, {})
    first = m.register_event_handler(seen.append)
    second = m.register_event_handler(lambda e: seen.append(e.name))
    m.log_event(event)
    m.unregister_event_handler(first)
    m.log_event(event)
    m.unregister_event_handler(second)
    m.log_event(event)
    return [seen[0] is event, *seen[1:], type(first).__name__]


@scenario
def errors_of_handlers(torch):
    m = monitor(torch)

    def fails(event):
        raise KeyError("mine")

    handle = m.register_event_handler(fails)
    found = raised("mine", m.log_event, m.Event("n", WHEN, {}))
    m.unregister_event_handler(handle)
    calls = (m.log_event, m.register_event_handler, m.unregister_event_handler)
    made = (m.EventHandlerHandle, m.data_value_t)
    return [found, *(raised("", call, 3) for call in calls), *(raised("", call) for call in made)]


@scenario
def aggregations(torch):
    kinds = monitor(torch).Aggregation
    names = {name: int(kind) for name, kind in kinds.__members__.items()}
    return [names, str(kinds.SUM), repr(kinds.SUM), kinds.SUM == 4, kinds(4).name]


@scenario
def a_window_that_fills(torch):
    def program(m):
        kinds = [kind for name, kind in m.Aggregation.__members__.items() if name != "VALUE"]
        stat = m.Stat("loss", kinds, HOUR, 3)
        found = [stat.name, stat.count, sorted((k.name, v) for k, v in stat.get().items())]
        for value in (1, 5.5, -1, 100, True):  # the window is closed by the third
            stat.add(value)
            found += [stat.count, sorted((k.name, v) for k, v in stat.get().items())]
        return found

    return logged(torch, program)


@scenario
def the_end_of_a_stat_closes_its_window(torch):
    def program(m):
        stat = m.Stat(name="w", aggregations=(m.Aggregation.SUM, m.Aggregation.SUM), window_size=HOUR)
        stat.add(v=2)
        stat.add(float("inf"))
        del stat
        m.Stat("empty", [m.Aggregation.MEAN], HOUR)

    return logged(torch, program)


@scenario
def windows_by_time(torch):
    def program(m):
        stat = m.Stat("w", [m.Aggregation.SUM, m.Aggregation.COUNT], datetime.timedelta(milliseconds=100))
        for value in (1, 2, 4):  # each soon after a window began, however busy the machine is
            stat.add(value)
            time.sleep(0.15)
        return stat.count

    return logged(torch, program)


@scenario
def wrong_statistics(torch):
    m = monitor(torch)
    stat = m.Stat("s", [m.Aggregation.SUM], 3600.0)
    wrong = [("s", [3], HOUR), ("s", m.Aggregation.SUM, HOUR), ("s", [m.Aggregation.SUM])]
    return [
        *(raised("", m.Stat, *arguments) for arguments in wrong),
        *(raised("", stat.add, value) for value in ("1", None, torch.tensor(2.0))),
        raised("", setattr, stat, "name", "t"),
    ]


@scenario
def scalars_for_tensorboard(torch):
    written, m = [], monitor(torch)

    class Writer:
        def add_scalar(self, *args, **kwargs):
            written.append([args, kwargs])

    handler = m.TensorboardEventHandler(Writer())
    handler(m.Event(m.STAT_EVENT, WHEN, {"loss.sum": 1.5}))
    handler(m.Event("other", WHEN, {"loss.sum": 2.5}))
    return [m.STAT_EVENT, written]


def test_the_last_value_is_reported():
    def program(m):
        stat = m.Stat("v", [m.Aggregation.VALUE], HOUR, 2)
        stat.add(3)
        stat.add(4)
        return stat.get()[m.Aggregation.VALUE]

    assert logged(fb, program) == [4.0, [["torch.monitor.Stat", [("v.value", 4.0)], "datetime"]]]


def test_a_window_without_length():
    with pytest.raises(ValueError, match="window_size > 0"):
        fb.monitor.Stat("v", [], datetime.timedelta(0))


test_scenarios = scenario.test()
