"""Data pipes: streams and data sets by index that are chained, their random order, and their DataLoader."""

import importlib

import flambeau as fb
import pytest
from sides import Scenarios, raised

scenario = Scenarios()


def pipes(torch, kind="iter"):
    return importlib.import_module(f"{torch.__name__}.utils.data.datapipes.{kind}")


def wrapped(torch, items):
    return pipes(torch).IterableWrapper(items)


CHAINS = {
    "batch": lambda w: w(range(7)).batch(3),
    "batch of full size": lambda w: w(range(7)).batch(3, drop_last=True),
    "unbatch": lambda w: w([[1, [2]], [3]]).unbatch(),
    "unbatch all": lambda w: w([[1, [2]], [3]]).unbatch(unbatch_level=-1),
    "map": lambda w: w(range(5)).map(lambda x: x * 2),
    "map of a column": lambda w: w([(1, 2), (3, 4)]).map(lambda a: a + 10, input_col=1),
    "map of columns": lambda w: w([(1, 2), (3, 4)]).map(lambda a, b: a + b, input_col=[0, 1]),
    "map to the end": lambda w: w([(1, 2)]).map(lambda a, b: a + b, input_col=[0, 1], output_col=-1),
    "map of a key": lambda w: w([{"a": 1}]).map(lambda a: a + 1, input_col="a", output_col="b"),
    "filter": lambda w: w(range(5)).filter(lambda x: x % 2 == 1),
    "filter of a column": lambda w: w([(1, 0), (3, 4)]).filter(lambda x: x > 1, input_col=1),
    "concat": lambda w: w(range(3)).concat(w(range(2))),
    "zip": lambda w: w(range(3)).zip(w(range(2))),
    "mux": lambda w: w(range(3)).mux(w(range(10, 14))),
    "collate": lambda w: w(range(3)).collate(lambda item: [item]),
    "shuffle": lambda w: w(range(10)).shuffle().set_seed(3),
    "shuffle by parts": lambda w: w(range(10)).shuffle(buffer_size=3).set_seed(3),
    "no shuffle": lambda w: w(range(10)).shuffle().set_shuffle(False),
    "groupby": lambda w: w(["a1", "b1", "a2", "c1"]).groupby(lambda x: x[0]),
    "groups of two": lambda w: w(["a1", "b1", "a2", "a3"]).groupby(lambda x: x[0], group_size=2),
    "groups with keys": lambda w: w(["a1", "b1", "a2"]).groupby(lambda x: x[0], keep_key=True),
    "sharding_filter": lambda w: w(range(5)).sharding_filter(),
    "nothing": lambda w: w([]).shuffle().batch(2),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain(name):
    from oracle import pytorch

    def seen(torch):
        pipe = CHAINS[name](lambda items: wrapped(torch, items))
        try:
            length = len(pipe)
        except TypeError:
            length = "none"
        return [list(pipe), list(pipe) if "shuffle" not in name else None, length]

    assert seen(fb) == seen(pytorch())


@scenario
def streams_of_one_source(torch):
    one, two = wrapped(torch, range(4)).fork(2)
    even, odd = wrapped(torch, range(6)).demux(2, lambda x: x % 2)
    read = wrapped(torch, iter(range(3)))
    first, second = read.fork(2)
    return [[list(one), list(two), list(one)], [list(even), list(odd)], [list(first), list(second)]]


@scenario
def refusals(torch):
    w = wrapped(torch, range(4))
    return [
        raised("", list, w.filter(lambda x: 3))[0],
        raised("", list, wrapped(torch, [1]).unbatch())[0],
        raised("", w.batch, 0)[0],
        raised("", w.shuffle, buffer_size=0)[0],
        raised("", w.zip, [1])[0],
        raised("", w.map, abs, output_col=1)[0],
        raised("", list, wrapped(torch, range(3)).demux(2, lambda x: x)[0])[0],
        raised("valid length", len, wrapped(torch, iter([1]))),
    ]


@scenario
def data_sets_by_index(torch):
    kinds = pipes(torch, "map")
    w = kinds.SequenceWrapper
    loaded = w({"a": 1})
    return [
        list(w(range(4)).map(str)),
        list(w(range(5)).batch(2)),
        len(w(range(5)).batch(2, drop_last=True)),
        [w(range(3)).concat(w(range(2)))[i] for i in range(5)],
        list(w(range(3)).zip(w("abcd"))),
        loaded["a"],
        list(w(range(6)).shuffle().set_seed(1)),
        list(w(range(6)).shuffle(indices=[4, 5]).set_shuffle(False)),
        raised("", w(range(3)).concat(w("a")).__getitem__, 4)[0],
    ]


@scenario
def batches_of_pipes(torch):
    loader = torch.utils.data.DataLoader
    pipe = wrapped(torch, range(10)).shuffle().sharding_filter()
    found = []
    for shuffle in (False, True, None):
        torch.manual_seed(1)
        batches = loader(pipe, batch_size=4, shuffle=shuffle)
        found.append([[b.tolist() for b in batches] for _ in range(2)])
    torch.manual_seed(2)
    added = [b.tolist() for b in loader(wrapped(torch, range(6)), batch_size=3, shuffle=True)]
    return [found, added]


@scenario
def settings_of_a_chain(torch):
    settings = importlib.import_module(torch.__name__ + ".utils.data.graph_settings")
    pipe = wrapped(torch, range(6)).shuffle().sharding_filter().map(abs)
    settings.apply_shuffle_settings(pipe, shuffle=False)
    settings.apply_sharding(pipe, 2, 1)
    return list(pipe)


test_as_in_pytorch = scenario.test()


def test_workers_share_a_stream():
    pipe = wrapped(fb, range(9)).shuffle().sharding_filter()
    batches = fb.utils.data.DataLoader(pipe, batch_size=2, num_workers=2, shuffle=True)
    assert sorted(n for batch in batches for n in batch.tolist()) == list(range(9))


def test_files_in_which_pytorch_has_them():
    where = importlib.import_module("flambeau.utils.data.datapipes.iter.combinatorics")
    assert where.ShufflerIterDataPipe is pipes(fb).Shuffler
