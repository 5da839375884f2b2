"""What a checkpointed call keeps in the place of its intermediate tensors, and how it gets them again.

While the function runs, a placeholder stands for each tensor that the graph saves. The first placeholder
that a backward pass opens runs the function once more and hands every placeholder its tensor; the tensor
goes as soon as the pass has used it. A second pass over a retained graph runs the function again.
"""

from __future__ import annotations

import contextlib
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.function import Function
from flambeau.autograd.graph import saved_tensors_hooks

Metadata = dict[str, Any]


class CheckpointError(RuntimeError):
    """Exception in backward: the second call of a checkpointed function saved other tensors than the first.

    Example:
        >>> from flambeau.utils.checkpoint import CheckpointError
        >>> issubclass(CheckpointError, RuntimeError)
        True
    """


class _EnoughError(Exception):
    """Ends a recomputation that has made all tensors that were wanted; caught by its frame."""

    def __init__(self, frame: Frame) -> None:
        super().__init__("a checkpointed function caught the signal that ends its recomputation")
        self.frame = frame


def metadata_of(tensor: Tensor) -> Metadata:
    """Return what must agree between the passes unless the determinism check is off."""
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


DETERMINISM_CHECKS: dict[str, Callable[[Tensor], Metadata]] = {
    "default": metadata_of,
    "none": lambda _: {},
}


class _Inputs(Function):
    """Keeps the tensor arguments in the graph, where an enclosing checkpoint drops them as well."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, *tensors: Tensor) -> Tensor:
        """Return a tensor whose node owns the arguments."""
        ctx.save_for_backward(*tensors)
        return anchor.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Refuse: no gradient flows here."""
        raise AssertionError(
            "checkpoint: the arguments of a checkpoint are not part of its graph; differentiate its outputs"
        )


class _Arguments:
    """The positional arguments of a call, with the tensors among them kept as the graph keeps them."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.others = [None if isinstance(a, Tensor) else a for a in args]
        anchor = flambeau.empty(0, requires_grad=True)
        self.kept = _Inputs.apply(anchor, *(args[i] for i in self.places))

    def get(self) -> list[Any]:
        """Return the arguments."""
        args = list(self.others)
        for place, tensor in zip(self.places, self.kept.grad_fn.saved_tensors, strict=True):
            args[place] = tensor
        return args


class Placeholder:
    """Stands in the graph for one saved tensor."""

    def __init__(self, frame: Frame, index: int) -> None:
        self.frame = frame
        self.index = index
        self.recomputed: dict[int, Tensor] = {}  # by backward pass

    def open(self) -> Tensor:
        """Return the tensor for the pass that is running."""
        run = _C._current_pass()
        if not self.frame.has_run(run) or run == 0:
            self.frame.run_again(run)
        if self.index not in self.frame.given.get(run, ()):
            self.frame.check(run)
        if run not in self.recomputed:
            raise CheckpointError(
                "checkpoint: a tensor was unpacked twice in one backward pass. Read "
                "ctx.saved_tensors once in a Function's backward, copy the tensors, or pass "
                "retain_graph=True."
            )
        return self.recomputed.pop(run)


class Frame:
    """One checkpointed call.

    Args:
        function: makes the call again from its positional arguments, in the state it was first made in.
        args: the positional arguments.
        metadata: what must agree between the passes.
        early_stop: whether a recomputation ends once all tensors are there.
        debug: whether to note where each tensor was saved.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        metadata: Callable[[Tensor], Metadata],
        early_stop: bool,
        debug: bool,
    ) -> None:
        self.function = function
        self.arguments = _Arguments(args)
        self.metadata = metadata
        self.early_stop = early_stop
        self.debug = debug
        self.placeholders: list[weakref.ref[Placeholder]] = []
        self.expected: list[Metadata] = []
        self.places: dict[str, list[str]] = {"forward": [], "recomputation": []}
        self.given: dict[int, dict[int, Metadata]] = {}  # by pass: what was saved, by index
        self.counts: dict[int, int] = {}

    def forward_hooks(self) -> saved_tensors_hooks:
        """Return the hooks under which the function runs first."""
        return saved_tensors_hooks(self._pack, Placeholder.open)

    def _pack(self, tensor: Tensor) -> Placeholder:
        placeholder = Placeholder(self, len(self.placeholders))
        self.placeholders.append(weakref.ref(placeholder))
        self.expected.append(self.metadata(tensor))
        self._note_place("forward")
        return placeholder

    def _note_place(self, phase: str) -> None:
        if self.debug:
            self.places[phase].append("".join(traceback.format_stack()[:-2]))

    def has_run(self, run: int) -> bool:
        """Whether the function has run again for this pass."""
        return run in self.counts

    def run_again(self, run: int) -> None:
        """Run the function once more and hand the placeholders their tensors."""
        self.counts.clear()
        self.given.clear()
        self.counts[run] = 0
        self.given[run] = {}
        self.places["recomputation"].clear()
        hooks = saved_tensors_hooks(lambda t: self._take(run, t), lambda t: t)
        args = self.arguments.get()
        try:
            with hooks, flambeau.enable_grad():
                self.function(*args)
        except _EnoughError as signal:
            if signal.frame is not self:
                raise
        self.check(run)

    def _take(self, run: int, tensor: Tensor) -> Tensor:
        index = self.counts[run]
        self.counts[run] += 1
        plain = tensor.detach()
        self._note_place("recomputation")
        if index >= len(self.placeholders):
            return plain
        self.given[run][index] = self.metadata(tensor)
        placeholder = self.placeholders[index]()
        if placeholder is not None:
            placeholder.recomputed[run] = plain
        if self.early_stop and self.counts[run] == len(self.placeholders):
            raise _EnoughError(self)
        return plain

    def check(self, run: int) -> None:
        """Compare the passes. Raises: CheckpointError."""
        had, has = len(self.placeholders), self.counts[run]
        if had != has:
            raise CheckpointError(
                f"checkpoint: the recomputation saved {has} tensors, a different number than the "
                f"{had} of the forward pass{self._tip(min(had, has))}"
            )
        differing = [i for i, m in self.given[run].items() if m != self.expected[i]]
        if differing:
            lines = (
                f"tensor {i}:\nfirst: {self.expected[i]}\nrecomputed: {self.given[run][i]}\n"
                for i in differing
            )
            raise CheckpointError(
                "checkpoint: recomputed tensors have different metadata than those of the forward "
                f"pass.\n{''.join(lines)}{self._tip(differing[0])}"
            )

    def _tip(self, index: int) -> str:
        if not self.debug:
            return (
                "\nTip: with debug=True the error says where in the function both passes saved the first "
                "tensor that differs. A function that gives other operations on its second run must not "
                "be checkpointed."
            )
        text = ""
        for phase, places in self.places.items():
            where = places[index] if index < len(places) else "(nothing was saved there)\n"
            text += f"\n\nSaved tensor {index} during the {phase}:\n{where}"
        return text


@contextlib.contextmanager
def random_state(state: Tensor | None) -> Iterator[None]:
    """Draw from `state` on within the block, and then as if nothing had been drawn. None: no change."""
    with flambeau.random.fork_rng(enabled=state is not None):
        if state is not None:
            flambeau.set_rng_state(state)
        yield
