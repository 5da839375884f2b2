"""Recurrent networks as functions with PyTorch's arguments: sequences in layers and directions.

The projections of all inputs of a layer are one matrix product; what is left per step is one product with the
hidden state, which adds to the projection, and one or two pointwise operators. The hidden weight is
transposed in memory once per layer, so that no step has to. The steps of a padded LSTM layer in float32 or
float64 without projections are one operator, `_lstm`, which autocast on the CPU casts; the operators of
single steps promote instead.

In Python because a layer takes its cell as a function, and because padded and packed sequences are told apart
by the types of the first arguments. Calls `linear`, `addmm`, `matmul`, `_lstm`, `_lstm_state`,
`_lstm_output`, `_gru_content`, `_gru_state`, `cat`, `stack` and `dropout`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, dtype
from flambeau._operators import casts

__all__ = ["gru", "lstm", "rnn_relu", "rnn_tanh"]

_linear = _C._nn.linear
_ops = _C._functions

# A cell: (projected input, hidden state(s), transposed hidden weight, hidden bias) -> hidden state(s), the
# output first. The bias is None where there is none, or where the projection has it already.
State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State, Tensor, Tensor | None], State]


def _gates(gates: Tensor, h: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """Projected input + h w + b."""
    gates = gates if b is None else gates + b
    return _ops.addmm(gates, h, w) if h.ndim == 2 else gates + _ops.matmul(h, w)


def _lstm_step(gates: Tensor, state: State, w: Tensor, b: Tensor | None) -> State:
    i, f, g, o = _gates(gates, state[0], w, b).chunk(4, -1)
    c = _ops._lstm_state(i, f, g, state[1])
    return _ops._lstm_output(o, c), c


def _gru_step(gates: Tensor, state: State, w: Tensor, b: Tensor | None) -> State:
    (h,) = state
    hidden = _ops.matmul(h, w) if b is None else _gates(b, h, w, None)
    width = h.shape[-1]
    reset, update = (gates.narrow(-1, 0, 2 * width) + hidden.narrow(-1, 0, 2 * width)).chunk(2, -1)
    content = _ops._gru_content(
        reset, gates.narrow(-1, 2 * width, width), hidden.narrow(-1, 2 * width, width)
    )
    return (_ops._gru_state(update, content, h),)


def _tanh_step(gates: Tensor, state: State, w: Tensor, b: Tensor | None) -> State:
    return (_gates(gates, state[0], w, b).tanh(),)


def _relu_step(gates: Tensor, state: State, w: Tensor, b: Tensor | None) -> State:
    return (_gates(gates, state[0], w, b).relu(),)


def _run(
    cell: Cell,
    x: Tensor,
    sizes: Sequence[int] | None,
    state: State,
    weights: Sequence[Tensor],
    has_biases: bool,
    reverse: bool,
) -> tuple[Tensor, State]:
    """One layer in one direction over (time, batch, features), or over packed rows with `sizes` per time."""
    w_ih, w_hh = weights[:2]
    b_ih, b_hh = weights[2:4] if has_biases else (None, None)
    projection = weights[-1] if len(weights) in (3, 5) else None
    # A GRU scales its hidden bias by the reset gate.
    if b_ih is not None and b_hh is not None and cell is not _gru_step:
        b_ih, b_hh = b_ih + b_hh, None
    gates = _linear(x, w_ih, b_ih)
    is_plain = sizes is None and projection is None
    if cell is _lstm_step and is_plain and _is_one_operator(x, gates, state, w_hh):
        return _lstm_steps(gates, state, w_hh, reverse)
    transposed = w_hh.t().contiguous()
    steps = list(gates.unbind(0) if sizes is None else gates.split(list(sizes)))
    if reverse:
        steps.reverse()
    outputs: list[Tensor] = []
    finished: list[State] = []
    initial = state
    if sizes is not None and reverse:
        state = tuple(s.narrow(0, 0, steps[0].shape[0]) for s in initial)
    for step in steps:
        state = _resized(state, initial, step.shape[0], finished) if sizes is not None else state
        state = cell(step, state, transposed, b_hh)
        if projection is not None:
            state = (_linear(state[0], projection), *state[1:])
        outputs.append(state[0])
    if finished:
        parts = [state, *reversed(finished)]
        state = tuple(_ops.cat(list(part), 0) for part in zip(*parts, strict=True))
    if reverse:
        outputs.reverse()
    return (_ops.stack(outputs, 0) if sizes is None else _ops.cat(outputs, 0)), state


def _is_one_operator(x: Tensor, gates: Tensor, state: State, weight: Tensor) -> bool:
    """Whether `_lstm` takes a sequence of these sums; the operators of single steps report other ones."""
    if gates.ndim != 3 or len(state) != 2:
        return False
    steps, batch, width = gates.shape
    fits = (
        steps > 0
        and weight.shape == (width, width // 4)
        and all(s.shape == (batch, width // 4) for s in state)
        and all(t.device == gates.device for t in (*state, weight))
    )
    dtypes = {gates.dtype, weight.dtype, *(s.dtype for s in state)}
    return fits and (dtypes in ({_C.float32}, {_C.float64}) or _casts_sequence(x, dtypes - {gates.dtype}))


def _casts_sequence(x: Tensor, dtypes: set[dtype]) -> bool:
    """Whether autocast casts the state and the weight of an LSTM as it has cast the sums of a layer's input.

    As in PyTorch, where this is the layer of a library, which a flag turns off, and which takes neither
    inputs in float16 nor empty ones.
    """
    from flambeau.backends import mkldnn

    return (
        x.is_cpu
        and _C.is_autocast_enabled("cpu")
        and mkldnn.enabled
        and x.numel() > 0
        and x.dtype in (_C.float32, _C.bfloat16)
        and dtypes <= {_C.float32, _C.bfloat16, _C.float16}
    )


def _lstm_steps(gates: Tensor, state: State, weight: Tensor, reverse: bool) -> tuple[Tensor, State]:
    with_gates = _C.is_grad_enabled() and any(t.requires_grad for t in (gates, *state, weight))
    output, cells, _ = _ops._lstm(gates, *state, weight, reverse, with_gates)
    last = 0 if reverse else -1
    return output, (output[last], cells[last])


def _resized(state: State, initial: State, rows: int, finished: list[State]) -> State:
    """The states of the `rows` sequences that go on: shorter ones end, or begin where time runs backwards."""
    have = state[0].shape[0]
    if rows < have:
        finished.append(tuple(s.narrow(0, rows, have - rows) for s in state))
        return tuple(s.narrow(0, 0, rows) for s in state)
    if rows > have:
        return tuple(
            _ops.cat([s, start.narrow(0, have, rows - have)], 0)
            for s, start in zip(state, initial, strict=True)
        )
    return state


def _layers(
    cell: Cell,
    x: Tensor,
    sizes: Sequence[int] | None,
    initial: tuple[Tensor, ...],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    """All layers; returns the output, then the final states stacked as the initial ones are."""
    directions = 2 if bidirectional else 1
    per_direction = len(params) // (num_layers * directions)
    finals: list[State] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            weights = params[at * per_direction : (at + 1) * per_direction]
            state = tuple(s.select(0, at) for s in initial)
            output, state = _run(cell, x, sizes, state, weights, has_biases, direction == 1)
            outputs.append(output)
            finals.append(state)
        x = outputs[0] if directions == 1 else _ops.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = _ops.dropout(x, dropout, True)
    return (x, *(_ops.stack(list(part), 0) for part in zip(*finals, strict=True)))


def _cast_layers(
    cell: Cell,
    x: Tensor,
    sizes: Sequence[int] | None,
    initial: tuple[Tensor, ...],
    params: Sequence[Tensor],
    *options: Any,
) -> tuple[Tensor, ...]:
    """`_layers` with the casts of CUDA's autocast."""
    first = 1 + len(initial)

    def run(given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return _layers(cell, given[0], sizes, tuple(given[1:first]), given[first:], *options)

    return casts.with_casts(casts.lower_precision, run, [x, *initial, *params])


def _padded(
    cell: Cell,
    states: int,
    input: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    x = input.transpose(0, 1) if batch_first else input
    initial = tuple(hx) if states == 2 else (hx,)
    options = (has_biases, num_layers, dropout, train, bidirectional)
    found = _cast_layers(cell, x, None, initial, params, *options)
    return (found[0].transpose(0, 1), *found[1:]) if batch_first else found


def _packed(
    cell: Cell,
    states: int,
    data: Tensor,
    batch_sizes: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    sizes = batch_sizes.tolist()
    initial = tuple(hx) if states == 2 else (hx,)
    options = (has_biases, num_layers, dropout, train, bidirectional)
    return _cast_layers(cell, data, sizes, initial, params, *options)


def _sequence(cell: Cell, name: str, states: int) -> Callable[..., tuple[Tensor, ...]]:
    def network(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        packed = "batch_sizes" in kwargs or (len(args) > 3 and isinstance(args[3], list | tuple))
        return (_packed if packed else _padded)(cell, states, *args, **kwargs)

    network.__name__ = network.__qualname__ = name
    network.__doc__ = f"""Run {name} layers over a sequence.

    Called as {name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first), or for packed rows as {name}(data, batch_sizes, hx, params, has_biases, num_layers,
    dropout, train, bidirectional).
    Returns: the last layer's outputs, and the final state{"s (h, c)" if states == 2 else ""}.
    """
    return network


lstm = _sequence(_lstm_step, "lstm", 2)
gru = _sequence(_gru_step, "gru", 1)
rnn_tanh = _sequence(_tanh_step, "rnn_tanh", 1)
rnn_relu = _sequence(_relu_step, "rnn_relu", 1)
