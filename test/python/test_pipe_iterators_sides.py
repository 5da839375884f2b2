"""Iterators over streams: one at a time, streams of one source, and their buffers; as in PyTorch."""

import importlib
import pickle
import warnings

from sides import Scenarios, raised, warned

scenario = Scenarios()


def source(torch, items, **options):
    pipes = importlib.import_module(f"{torch.__name__}.utils.data.datapipes.iter")
    return pipes.IterableWrapper(items, **options)


def classes(torch):
    class Yields(torch.utils.data.IterDataPipe):
        resets = 0

        def __iter__(self):
            yield from range(4)

        def reset(self):
            self.resets += 1

    class Returns(torch.utils.data.IterDataPipe):
        def __iter__(self):
            return iter([1, 2, 3])

    class Itself(torch.utils.data.IterDataPipe):
        place = 0

        def __iter__(self):
            self.place = 0
            return self

        def __next__(self):
            if self.place == 3:
                raise StopIteration
            self.place += 1
            return self.place

    class OnlyNext(torch.utils.data.IterDataPipe):
        place = 0
        __next__ = Itself.__next__

    return Yields, Returns, Itself, OnlyNext


@scenario
def a_second_iterator(torch):
    found = []
    for cls in classes(torch)[:3]:
        pipe = cls()
        first = iter(pipe)
        found.append(next(first))
        second = iter(pipe)
        found.append(raised("iterator has been invalidated", next, first))
        found += [next(second), raised("iterator has been invalidated", next, first), list(second)]
        found += [list(pipe), list(pipe), getattr(pipe, "resets", None), iter(second) is second]
    return found


@scenario
def a_generator_begins_with_its_first_item(torch):
    pipe = source(torch, range(4)).map(lambda x: 2 * x)
    first = iter(pipe)
    found = [next(first)]
    second = iter(pipe)
    found += [next(first), next(second), raised("invalidated", next, first), list(second)]
    return found


@scenario
def a_stream_within_a_chain(torch):
    start = source(torch, range(3))
    doubled = start.map(lambda x: 2 * x)
    over = iter(doubled)
    found = [next(over), list(start), raised("invalidated", next, over)]
    pairs = [
        raised("invalidated", list, p) for p in (start.zip(start), doubled.zip(doubled), start.mux(start))
    ]
    return [*found, *pairs, list(start.concat(start)), list(doubled)]


@scenario
def classes_without_an_iterator(torch):
    class Nothing(torch.utils.data.IterDataPipe):
        pass

    only = classes(torch)[3]()
    return [raised("not an iterator", list, Nothing()), list(only), raised("", next, only)]


@scenario
def methods_of_a_base_class(torch):
    kind = type(source(torch, []))

    class Generates(kind):
        def __iter__(self):
            yield from super().__iter__()

    class Collects(kind):
        def __iter__(self):
            return iter(list(super().__iter__()))

    return raised("invalidated", list, Generates([1, 2])), list(Collects([1, 2]))


@scenario
def values_sent_and_closing(torch):
    seen = []

    class Talks(torch.utils.data.IterDataPipe):
        def __iter__(self):
            try:
                seen.append((yield 1))
                yield 2
            finally:
                seen.append("closed")

    pipe = Talks()
    first = iter(pipe)
    found = [next(first), first.send(5)]
    first.close()
    second, third = iter(pipe), iter(pipe)
    found += [next(second), next(third), raised("invalidated", next, second), list(seen)]
    return found, raised("", list, third)


@scenario
def passes_over_forks(torch):
    one, two = source(torch, range(5)).fork(2)
    first, second = iter(one), iter(two)
    found = [next(first), next(first), next(second), list(first), list(second), list(one), list(two)]
    first, second = iter(one), iter(two)
    found += [next(first), next(second)]
    third = iter(one)  # a new pass: both others end
    found += [raised("invalidated", next, first), raised("invalidated", next, second), list(third), list(two)]
    return [*found, len(one), len(two)]


@scenario
def warnings_about_unread_streams(torch):
    phrase = "Some child DataPipes are not exhausted"
    one, two = source(torch, range(3)).fork(2)
    even, odd = source(torch, range(4)).demux(2, classifier)
    every = [
        warned(phrase, list, pipe) for pipe in (one, one, two, two, one, two, even, even, odd, even, odd)
    ]
    endless = [warned("Unlimited buffer size", source(torch, []).fork, 2, -1)]
    return [
        *every,
        *endless,
        warned("Unlimited buffer size", source(torch, []).demux, 2, classifier, False, -1),
    ]


def classifier(item):
    return item % 2


def read(pipe, count):
    """The first items, as many as there are before an exception, and that."""
    found, iterator = [], iter(pipe)
    try:
        for _ in range(count):
            found.append(next(iterator))
    except (BufferError, StopIteration, ValueError) as error:
        found.append(type(error).__name__)
    return found


@scenario
def buffers_of_forks(torch):
    found = []
    for size in (-1, 0, 1, 3):
        for counts in ((1, 9), (3, 9), (4, 1), (9, 9), (11, 11)):
            pipes = source(torch, range(10)).fork(2, buffer_size=size)
            found.append([read(pipe, count) for pipe, count in zip(pipes, counts, strict=True)])
    one, two = source(torch, range(10)).fork(2, buffer_size=2)
    both = zip(one, two, strict=True)
    return found, list(both)


@scenario
def buffers_of_demux(torch):
    found = []
    for size in (-1, 0, 2, 3):
        for border in (0, 2, 3, 8):
            pipes = source(torch, range(8)).demux(
                2, lambda x, border=border: int(x >= border), buffer_size=size
            )
            found.append([read(pipe, 9) for pipe in reversed(pipes)])
    return found


@scenario
def copies_of_items(torch):
    found = []
    for way in (None, "shallow", "deep"):
        inner = [1]
        items = [[inner]]
        one, two = (list(pipe)[0] for pipe in source(torch, items, deepcopy=False).fork(2, copy=way))
        found.append([one == two, one is two, one is items[0], one[0] is two[0], one[0] is inner])
    return found


@scenario
def what_demux_is_given(torch):
    def third(item):
        return None if item % 3 == 2 else item % 3

    w = source(torch, range(8))
    dropped = [list(pipe) for pipe in w.demux(2, third, drop_none=True)]
    wrong = [read(w.demux(2, function)[0], 9) for function in (third, lambda x: 2, lambda x: -1)]
    even, _ = w.demux(2, classifier)
    single = [list(pipe) for pipe in w.demux(1, lambda x: 0)], w.fork(1) is w
    return [dropped, wrong, single, raised("", len, even)[0], raised("", w.fork, "x")[0]]


@scenario
def wrong_arguments(torch):
    w = source(torch, range(2))
    return [
        raised("larger than 0", w.fork, 0),
        raised("larger than 0", w.demux, 0, classifier),
        raised("Unknown copy method", w.fork, 2, copy="x"),
        raised("invalid number", w.fork, 2, copy="x")[0],
    ]


@scenario
def pickled_in_the_middle(torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forks = source(torch, range(4)).fork(2)
        sorts = source(torch, range(4)).demux(2, classifier)
        for pipes in (forks, sorts):
            next(iter(pipes[0]))
        again = pickle.loads(pickle.dumps((forks, sorts)))
        return [[list(pipe) for pipe in pipes] for pipes in again], [list(pipe) for pipe in forks]


test_as_in_pytorch = scenario.test()
