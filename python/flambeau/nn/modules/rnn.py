"""Recurrent networks: layers over sequences, and single cells."""

from __future__ import annotations

import itertools
import math
import warnings
import weakref
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by
from flambeau._loading.lazy import attributes
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_NETWORKS = {
    "LSTM": flambeau.lstm,
    "GRU": flambeau.gru,
    "RNN_TANH": flambeau.rnn_tanh,
    "RNN_RELU": flambeau.rnn_relu,
}


def _permuted(states: tuple[Tensor, ...], order: Tensor | None) -> tuple[Tensor, ...]:
    return states if order is None else tuple(s.index_select(1, order) for s in states)


def _casts(x: Tensor) -> bool:
    """Whether autocast is on for the input's device, where operators cast inputs of other dtypes."""
    kind = x.device.type
    return flambeau.amp.is_autocast_available(kind) and flambeau.is_autocast_enabled(kind)


def _replaced(seen: Any, weight: Any) -> bool:
    return seen is not None and weight is not None and seen() is not weight


def _check_positive(who: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int):
            raise TypeError(f"{who}: expected {name} to be an int, got {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{who}: expected {name} >= 1, got {size}")


def _check_switches(who: str, **switches: bool) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"{who}: expected {name} to be a bool, got {type(value).__name__}")


def _check_projection(name: str, mode: str, proj_size: int, hidden_size: int) -> None:
    if proj_size and mode != "LSTM":
        raise ValueError(f"{name}: expected proj_size=0, as it is for LSTM only, got {proj_size}")
    if not 0 <= proj_size < hidden_size:
        raise ValueError(f"{name}: expected 0 <= proj_size < hidden_size={hidden_size}, got {proj_size}")


def _check_dropout(who: str, dropout: float, num_layers: int) -> None:
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(f"{who}: expected dropout to be a probability from 0 to 1, got {dropout!r}")
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            f"dropout acts between layers, and num_layers=1 has none between: dropout={dropout} does nothing",
            stacklevel=4,
        )


@described_by()
class RNNBase(Module):
    """Base class of recurrent networks: `RNN`, `LSTM` and `GRU`.

    All weights are drawn from U(-1 / sqrt(hidden_size), 1 / sqrt(hidden_size)). A call takes a padded or
    packed sequence and an initial state (None: zeros); it returns the outputs of the last layer and the final
    state of all layers.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        num_layers: the number of layers; each takes the outputs of the one below.
        bias: whether to learn biases.
        batch_first: whether input and output are (batch, time, features) instead of (time, batch, features).
        dropout: the probability with which outputs between layers become 0 in training.
        bidirectional: whether to run backwards in time too, and to join both outputs.
        proj_size: with "LSTM", the size to which outputs are projected; 0 means no projection.
    Shape: input ``(time, batch, input_size)`` or ``(time, input_size)``, state ``(layers * directions, batch,
        hidden_size)``; output ``(time, batch, directions * hidden_size)``.
    Raises: ValueError for sizes below 1, a `dropout` outside [0, 1], or a `proj_size` without "LSTM" or not
        below `hidden_size`; TypeError for arguments of another type.
    See also: LSTM, GRU, RNN

    Example:
        >>> flambeau.nn.RNNBase("GRU", 2, 3)
        RNNBase(2, 3)
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_positive(
            type(self).__name__, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers
        )
        _check_switches(type(self).__name__, bias=bias, batch_first=batch_first, bidirectional=bidirectional)
        _check_dropout(type(self).__name__, dropout, num_layers)
        _check_projection(type(self).__name__, mode, proj_size, hidden_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._flat_weights_names: list[str] = []
        suffixes = ("", "_reverse") if bidirectional else ("",)
        for layer, suffix in itertools.product(range(num_layers), suffixes):
            self._add_layer(layer, f"_l{layer}{suffix}", {"device": device, "dtype": dtype})
        self._flat_weights: list[Any] = []
        self._flat_weight_refs: list[Any] = []
        self._update_flat_weights(force=True)
        self.reset_parameters()

    def _add_layer(self, layer: int, suffix: str, place: dict[str, Any]) -> None:
        gates = _GATES[self.mode] * self.hidden_size
        out = self.proj_size or self.hidden_size
        features = self.input_size if layer == 0 else out * (2 if self.bidirectional else 1)
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, features), "weight_hh": (gates, out)}
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            self.register_parameter(name + suffix, Parameter(flambeau.empty(shape, **place)))
            self._flat_weights_names.append(name + suffix)

    def reset_parameters(self) -> None:
        """Draw new initial values from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _update_flat_weights(self, force: bool = False) -> None:
        """Read `_flat_weights`, the list that forward uses, by name if a weight has been replaced since.

        Programs may assign a list of their own, which is used until then.
        """
        weights = [getattr(self, name, None) for name in self._flat_weights_names]
        seen = self.__dict__.get("_flat_weight_refs")  # files of scripted modules do not keep them
        if force or seen is None or any(map(_replaced, seen, weights)):
            self._flat_weights = weights
            self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in weights]

    def __setattr__(self, name: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names", ())
        if name in names and len(self._flat_weights) == len(names):
            self._flat_weights[names.index(name)] = value
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("_flat_weights", "_flat_weight_refs")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._update_flat_weights(force=True)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        found = super()._apply(fn, recurse)
        self._update_flat_weights(force=True)
        return found

    def flatten_parameters(self) -> None:
        """Keep the weights where they are: there is no packed form to bring up to date."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights, layer by layer and direction by direction."""
        count = len(self._flat_weights_names) // (self.num_layers * (2 if self.bidirectional else 1))
        weights = [getattr(self, name) for name in self._flat_weights_names]
        return [weights[i : i + count] for i in range(0, len(weights), count)]

    def _states(self, batch: int, like: Tensor) -> tuple[Tensor, ...]:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size] + [self.hidden_size] * (self.mode == "LSTM")
        return tuple(flambeau.zeros(layers, batch, n, dtype=like.dtype, device=like.device) for n in sizes)

    def _checked(self, hx: Any, batch: int, like: Tensor) -> tuple[Tensor, ...]:
        expected = self._states(batch, like[:0])
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        for state, want, name in zip(given, expected, ("hidden[0]", "hidden[1]"), strict=False):
            if state.shape != want.shape:
                label = name if self.mode == "LSTM" else "hidden"
                raise RuntimeError(
                    f"{self.mode}: Expected {label} size {tuple(want.shape)}, got {list(state.shape)}"
                )
        return given

    def _options(self) -> tuple[Any, ...]:
        self._update_flat_weights()
        return self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional

    def _check_input(self, x: Tensor) -> None:
        kept = self._flat_weights[0].dtype
        if x.dtype != kept and not _casts(x):
            raise ValueError(f"RNN: expected input of dtype {kept}, got {x.dtype}")
        if x.size(-1) != self.input_size:
            raise RuntimeError(
                f"{type(self).__name__}: expected input_size={self.input_size} features, got {x.size(-1)}"
            )

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise an error unless the input has the layer's dtype, features and dimensions."""
        self._check_input(input)
        if input.dim() != (2 if batch_sizes is not None else 3):
            raise RuntimeError(
                f"{type(self).__name__}: input must have {2 if batch_sizes is not None else 3} "
                f"dimensions: expected these, got {input.dim()}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the first hidden state."""
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return layers, batch, self.proj_size or self.hidden_size

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the first cell state of an LSTM."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: Any, msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise RuntimeError unless a state has a shape."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise an error unless input and states fit the layer."""
        self.check_input(input, batch_sizes)
        size = self.get_expected_hidden_size(input, batch_sizes)
        if self.mode != "LSTM":
            return self.check_hidden_size(hidden, size)
        self.check_hidden_size(hidden[0], size, "Expected hidden[0] size {}, got {}")
        cell = self.get_expected_cell_size(input, batch_sizes)
        return self.check_hidden_size(hidden[1], cell, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return states with their batch in another order."""
        found = _permuted(hx if self.mode == "LSTM" else (hx,), permutation)
        return found if self.mode == "LSTM" else found[0]

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        data, sizes, order, inverse = input
        self._check_input(data)
        batch = int(sizes[0])
        states = self._states(batch, data) if hx is None else _permuted(self._checked(hx, batch, data), order)
        state = states if self.mode == "LSTM" else states[0]
        output, *final = _NETWORKS[self.mode](data, sizes, state, *self._options())
        finals = _permuted(tuple(final), inverse)
        packed = PackedSequence(output, sizes, order, inverse)
        return packed, finals if self.mode == "LSTM" else finals[0]

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Run over (time, batch, features), (time, features) or a packed sequence.

        Returns: the last layer's outputs, and the final hidden states of all layers.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: expected 2 or 3 dimensions, got {input.dim()}")
        batched = input.dim() == 3
        time = 1 if self.batch_first else 0
        if not batched:
            input = input.unsqueeze(1 - time)
            if hx is not None:
                hx = tuple(s.unsqueeze(1) for s in hx) if self.mode == "LSTM" else hx.unsqueeze(1)
        self._check_input(input)
        batch = input.size(1 - time)
        states = self._states(batch, input) if hx is None else self._checked(hx, batch, input)
        state = states if self.mode == "LSTM" else states[0]
        output, *final = _NETWORKS[self.mode](input, state, *self._options(), self.batch_first)
        if not batched:
            output, final = output.squeeze(1 - time), [s.squeeze(1) for s in final]
        return output, tuple(final) if self.mode == "LSTM" else final[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, default in {**defaults, "bidirectional": False}.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """Elman network: a recurrent network with one tanh or rectifier per step.

    Formula: h_t = f(W_ih x_t + b_ih + W_hh h_(t - 1) + b_hh), f = tanh or relu
    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        num_layers: the number of layers; each takes the outputs of the one below.
        nonlinearity: f, "tanh" or "relu".
        *args: the further arguments of `RNNBase` in its order: `bias`, `batch_first`, `dropout`,
            `bidirectional`.
        **kwargs: the same by keyword, and `device` and `dtype`.
    Shape: input ``(time, batch, input_size)``, ``(batch, time, input_size)`` with `batch_first`, or without
        batch; output the same with ``directions * hidden_size`` features; states ``(layers * directions,
        batch, hidden_size)``.
    Raises: ValueError for another nonlinearity, or as `RNNBase`.
    Source: Elman 1990, "Finding Structure in Time".
    See also: RNNCell, LSTM, GRU

    Example:
        >>> output, state = flambeau.nn.RNN(2, 3)(flambeau.zeros(5, 1, 2))
        >>> output.shape, state.shape
        (flambeau.Size([5, 1, 3]), flambeau.Size([1, 1, 3]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: expected nonlinearity 'relu' or 'tanh', got {nonlinearity!r}")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: a recurrent network whose cell state is changed through gates.

    The state is a pair (h, c).

    Formula: i, f, o = sigmoid(W_i? x + b_i? + W_h? h + b_h?), g = tanh(W_ig x + b_ig + W_hg h + b_hg), c' = f
        c + i g, h' = o tanh(c')

    Args:
        *args: the arguments of `RNNBase` after `mode`, in its order: `input_size`, `hidden_size`,
            `num_layers`, `bias`, `batch_first`, `dropout`, `bidirectional`, `proj_size`.
        **kwargs: the same by keyword, and `device` and `dtype`.
    Shape: input ``(time, batch, input_size)``, ``(batch, time, input_size)`` with `batch_first`, or without
        batch; output the same with ``directions * (proj_size or hidden_size)`` features; h ``(layers *
        directions, batch, proj_size or hidden_size)``, c with `hidden_size`.
    Raises: ValueError and TypeError as `RNNBase`.
    Source: Hochreiter & Schmidhuber 1997, "Long Short-Term Memory"; Sak, Senior & Beaufays 2014 for
        `proj_size`.
    See also: LSTMCell, GRU

    Example:
        >>> output, (h, c) = flambeau.nn.LSTM(2, 3, num_layers=2)(flambeau.zeros(5, 1, 2))
        >>> output.shape, h.shape, c.shape
        (flambeau.Size([5, 1, 3]), flambeau.Size([2, 1, 3]), flambeau.Size([2, 1, 3]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit: a recurrent network with a reset gate and an update gate.

    Formula: r, z = sigmoid(W_i? x + b_i? + W_h? h + b_h?), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' =
        (1 - z) n + z h
    Args:
        *args: the arguments of `RNNBase` after `mode`, in its order: `input_size`, `hidden_size`,
            `num_layers`, `bias`, `batch_first`, `dropout`, `bidirectional`.
        **kwargs: the same by keyword, and `device` and `dtype`.
    Shape: input ``(time, batch, input_size)``, ``(batch, time, input_size)`` with `batch_first`, or without
        batch; output the same with ``directions * hidden_size`` features; states ``(layers * directions,
        batch, hidden_size)``.
    Raises: ValueError and TypeError as `RNNBase`.
    Notes: The reset gate acts after the product with h, so that one matrix product gives all three parts.
    Source: Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for Statistical
        Machine Translation".
    See also: GRUCell, LSTM

    Example:
        >>> output, state = flambeau.nn.GRU(2, 3, bidirectional=True)(flambeau.zeros(5, 1, 2))
        >>> output.shape, state.shape
        (flambeau.Size([5, 1, 6]), flambeau.Size([2, 1, 3]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


@described_by()
class RNNCellBase(Module):
    """Base class of single recurrent steps: their weights, drawn from U(-1 / sqrt(hidden_size), 1 /
    sqrt(hidden_size)).

    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        bias: whether to learn biases.
        num_chunks: the number of gates, whose weights stand below each other: 1, 3 or 4.
    Shape: input ``(batch, input_size)`` or ``(input_size)``, state ``(batch, hidden_size)`` or
        ``(hidden_size)``.
    See also: RNNCell, LSTMCell, GRUCell

    Example:
        >>> flambeau.nn.RNNCellBase(2, 3, True, num_chunks=4).weight_ih.shape
        flambeau.Size([12, 2])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        shapes = {"weight_ih": (num_chunks * hidden_size, input_size)}
        shapes["weight_hh"] = (num_chunks * hidden_size, hidden_size)
        for name, shape in shapes.items():
            self.register_parameter(name, Parameter(flambeau.empty(shape, device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            value = (
                Parameter(flambeau.empty(num_chunks * hidden_size, device=device, dtype=dtype))
                if bias
                else None
            )
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, cell: Any, input: Tensor, hx: Any, states: int) -> tuple[Tensor, ...]:
        """Call `cell` on (batch, features) or (features)."""
        if input.dim() not in (1, 2):
            name = type(self).__name__
            raise ValueError(f"{name}: expected 1 or 2 dimensions, got {input.dim()}")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = flambeau.zeros(x.size(0), self.hidden_size, dtype=x.dtype, device=x.device)
            given = (zeros,) * states
        else:
            given = tuple(hx) if states == 2 else (hx,)
            for number, part in enumerate(given):
                if part.dim() not in (1, 2):
                    label = f"hx[{number}]" if states == 2 else "hidden"
                    name = type(self).__name__
                    raise ValueError(f"{name}: expected {label} of 1 or 2 dimensions, got {part.dim()}")
            given = given if batched else tuple(s.unsqueeze(0) for s in given)
        state: Any = given if states == 2 else given[0]
        found = cell(x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        results = tuple(found) if states == 2 else (found,)
        return results if batched else tuple(s.squeeze(0) for s in results)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text + ("" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")


@described_by(RNNCellBase)
class RNNCell(RNNCellBase):
    """Single step of an Elman network.

    Formula: h' = f(W_ih x + b_ih + W_hh h + b_hh), f = tanh or relu
    Args:
        nonlinearity: f, "tanh" or "relu".
    Raises: RuntimeError for another nonlinearity, ValueError for another number of dimensions.
    Source: Elman 1990, "Finding Structure in Time".
    See also: RNN

    Example:
        >>> flambeau.nn.RNNCell(2, 3)(flambeau.zeros(1, 2)).shape
        flambeau.Size([1, 3])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        cells = {"tanh": flambeau.rnn_tanh_cell, "relu": flambeau.rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(
                f"RNNCell: Unknown nonlinearity: expected 'tanh' or 'relu', got {self.nonlinearity!r}"
            )
        return self._step(cells[self.nonlinearity], input, hx, 1)[0]


@described_by(RNNCellBase)
class LSTMCell(RNNCellBase):
    """Single step of a long short-term memory; the state is a pair (h, c).

    Formula: i, f, o = sigmoid(W_i? x + b_i? + W_h? h + b_h?), g = tanh(W_ig x + b_ig + W_hg h + b_hg), c' = f
        c + i g, h' = o tanh(c')
    Raises: ValueError for another number of dimensions.
    Source: Hochreiter & Schmidhuber 1997, "Long Short-Term Memory".
    See also: LSTM

    Example:
        >>> h, c = flambeau.nn.LSTMCell(2, 3)(flambeau.zeros(1, 2))
        >>> h.shape, c.shape
        (flambeau.Size([1, 3]), flambeau.Size([1, 3]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        """Return the next hidden and cell state."""
        return self._step(flambeau.lstm_cell, input, hx, 2)


@described_by(RNNCellBase)
class GRUCell(RNNCellBase):
    """Single step of a gated recurrent unit.

    Formula: r, z = sigmoid(W_i? x + b_i? + W_h? h + b_h?), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' =
        (1 - z) n + z h
    Raises: ValueError for another number of dimensions.
    Source: Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for Statistical
        Machine Translation".
    See also: GRU

    Example:
        >>> flambeau.nn.GRUCell(2, 3)(flambeau.zeros(1, 2)).shape
        flambeau.Size([1, 3])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state."""
        return self._step(flambeau.gru_cell, input, hx, 1)[0]


__getattr__, __dir__ = attributes(__name__)
