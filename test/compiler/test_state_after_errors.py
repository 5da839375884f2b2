"""Exceptions inside compiled regions leave modes and contexts as the plain program does."""

import threading

import flambeau as fb
import pytest
from flambeau import _C
from flambeau._higher_order_ops import associative_scan, cond, scan, while_loop
from flambeau._higher_order_ops import map as mapped
from flambeau.utils.checkpoint import checkpoint

BACKENDS = pytest.mark.parametrize("backend", ["eager", "inductor"])


def state():
    _C.autocast_increment_nesting()
    nesting = _C.autocast_decrement_nesting()
    return _C._get_grad_modes(), fb.is_autocast_enabled("cpu"), fb.get_autocast_dtype("cpu"), nesting


@pytest.fixture(autouse=True)
def unchanged():
    before = state()
    yield
    after = state()
    fb.compiler.reset()
    assert after == before


def failing(x, i):
    """Raise IndexError at run time, within two regions."""
    with fb.no_grad(), fb.autocast("cpu", dtype=fb.bfloat16):
        return x[i].float() * 2


PROGRAMS = {
    "plain": lambda x, i: failing(x, i) * 2,
    "cond": lambda x, i: cond(
        x.sum() > -9, lambda x, i: failing(x, i), lambda x, i: failing(x, i) * 3, (x, i)
    ),
    "map": lambda x, i: mapped(lambda row: row + failing(x, i), x),
    "scan": lambda x, i: scan(lambda c, r: ((c + failing(x, i)).detach(), c * 2), fb.zeros(1, 4), x)[0],
    "while_loop": lambda x, i: while_loop(
        lambda c: c.sum() < 100, lambda c: ((c + failing(x, i) + 1).detach(),), (fb.zeros(1, 4),)
    )[0],
    "associative_scan": lambda x, i: associative_scan(
        lambda a, b: a + b + failing(x, i).sum(), x, 0, combine_mode="generic"
    ),
    "checkpoint": lambda x, i: checkpoint(lambda x: failing(x, i) * x.sum(), x, use_reentrant=False),
}


@BACKENDS
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("outer", [False, True], ids=["outside", "inside autocast"])
def test_operators_that_raise_leave_the_state(name, backend, outer):
    program = PROGRAMS[name]
    compiled = fb.compile(program, backend=backend, fullgraph=True)
    x = fb.ones(3, 4, requires_grad=True)
    with fb.autocast("cpu", dtype=fb.float16, enabled=outer):
        before = state()
        for place in (0, 1, 7, 2, -9, 1):
            i = fb.tensor([place])
            try:
                expected = program(x, i)
            except IndexError:
                with pytest.raises(IndexError):
                    compiled(x, i)
            else:
                assert fb.equal(compiled(x, i), expected)
            assert state() == before


_noted: list = []


class _Noting:
    def __enter__(self):
        _noted.append("in")

    def __exit__(self, kind, *rest):
        _noted.append(kind)


def test_an_exception_in_a_later_segment_leaves_the_contexts_of_earlier_ones():
    log = _noted

    def program(x, i):
        with _Noting(), fb.no_grad():
            y = x * 2
            print(end="")  # ends the graph
            return y + x[i]

    compiled = fb.compile(program, backend="eager")
    x = fb.ones(3, 4, requires_grad=True)
    for place in (0, 0, 7, 1):
        found = []
        for function in (program, compiled):
            log.clear()
            try:
                function(x, fb.tensor([place]))
            except IndexError:
                log.append("raised")
            found.append(list(log))
        assert found[0] == found[1]


def test_an_exception_in_a_later_segment_is_caught_around_it():
    def program(x, i):
        try:
            with fb.no_grad():
                y = x * 2
                print(end="")
                y = y + x[i]
        except IndexError as error:
            return "caught", fb.is_grad_enabled(), type(error).__name__
        finally:
            x = None
        return y.shape, fb.is_grad_enabled(), x

    compiled = fb.compile(program, backend="eager")
    x = fb.ones(3, 4, requires_grad=True)
    for place in (0, 0, 7, 1, 7):
        assert compiled(x, fb.tensor([place])) == program(x, fb.tensor([place]))


def test_a_caller_that_is_interpreted_catches_it():
    def inner(x, i):
        with fb.no_grad():
            print(end="")
            return x[i] * 2

    def program(x, i):
        try:
            return inner(x, i)
        except IndexError:
            return x * 0

    compiled = fb.compile(program, backend="eager")
    x = fb.ones(3, 4, requires_grad=True)
    for place in (0, 0, 7, 1, 7):
        found, expected = compiled(x, fb.tensor([place])), program(x, fb.tensor([place]))
        assert fb.equal(found, expected) and found.requires_grad == expected.requires_grad


def test_checkpoints_that_stop_early_leave_the_state():
    def program(x, w):
        def body(x):
            with fb.autocast("cpu", dtype=fb.bfloat16):
                return ((x @ w).tanh() @ w) @ w

        return checkpoint(body, x, use_reentrant=False).float().sum()

    x, w = fb.randn(4, 4, requires_grad=True), fb.randn(4, 4, requires_grad=True)
    compiled = fb.compile(program, backend="eager")
    for _ in range(3):
        compiled(x, w).backward()
        assert not fb.is_autocast_enabled("cpu")


@BACKENDS
def test_operators_that_raise_in_backward_leave_the_state(backend):
    class Failing(Exception):
        pass

    def program(x):
        def body(x):
            with fb.autocast("cpu", dtype=fb.bfloat16):
                return (x @ x).tanh()

        return checkpoint(body, x * 1, use_reentrant=False).float() * 2

    compiled = fb.compile(program, backend=backend)
    x = fb.randn(3, 3, requires_grad=True)
    for _ in range(3):
        y = compiled(x)

        def refuse(grad):
            raise Failing

        y.register_hook(refuse)
        with pytest.raises(Failing):
            y.sum().backward()
        compiled(x).sum().backward()


def test_threads_keep_their_own_state():
    compiled = fb.compile(PROGRAMS["plain"], backend="eager")
    x = fb.ones(3, 4, requires_grad=True)
    compiled(x, fb.tensor([0]))
    found = []

    def work():
        with fb.no_grad():
            for _ in range(20):
                with pytest.raises(IndexError):
                    compiled(x, fb.tensor([7]))
                found.append(fb.is_grad_enabled())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [False] * 60


def test_modules_of_bodies_restore_the_state_when_they_are_called_alone():
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    x, i = fb.ones(3, 4), fb.tensor([0])
    fb.compile(PROGRAMS["map"], backend=keep)(x, i)
    body = next(module for name, module in graphs[0].named_modules() if "body" in name)
    with pytest.raises(IndexError):
        body(x[0], fb.ones(3, 4), fb.tensor([7]))
    assert fb.is_grad_enabled()
