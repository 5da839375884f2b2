"""A softmax over many classes whose rare ones are computed only where they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn.modules.containers import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


@described_by()
class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of many classes in clusters: frequent classes in the head, rarer ones in smaller
    tails.

    The head scores the frequent classes and the clusters. A cluster's layers run only for the samples whose
    target lies in it.

    Formula: result = log_softmax(head)[class], or log_softmax(head)[cluster] + log_softmax(tail)[class in
        cluster]

    Args:
        in_features: the number of features of the input.
        n_classes: the number of classes, the most frequent first.
        cutoffs: the first class of each cluster, rising, in [1, n_classes - 1]; classes below the first are
            in the head.
        div_value: each tail projects the input to this many times fewer features than the one before.
        head_bias: whether the head learns a bias.
    Shape: ``(N, in_features)`` and int64 ``(N)``, or both without N, to ``(N)`` log probabilities and a loss
        ``()``, as `output` and `loss` of a named tuple.
    Raises: ValueError for cutoffs that do not rise or leave the range; RuntimeError for shapes that do not
        fit or targets that are not classes.
    Source: Grave et al. 2017, "Efficient softmax approximation for GPUs".
    See also: CrossEntropyLoss

    Example:
        >>> layer = flambeau.nn.AdaptiveLogSoftmaxWithLoss(4, 10, cutoffs=[3, 6])
        >>> layer(flambeau.zeros(2, 4), flambeau.tensor([0, 7])).output.shape
        flambeau.Size([2])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = [int(c) for c in cutoffs]
        rising = bounds == sorted(set(bounds)) and bounds == list(cutoffs)
        if not bounds or not rising or bounds[0] <= 0 or bounds[-1] > n_classes - 1:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: expected cutoffs to be a sequence of unique, rising integers "
                f"between 1 and n_classes - 1 = {n_classes - 1}, got {list(cutoffs)}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = bounds[0]
        self.n_clusters = len(bounds)
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // div_value ** (i + 1))
            outer = self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, inner, bias=False, **place)
            self.tail.append(Sequential(first, Linear(inner, outer, bias=False, **place)))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        self.head.reset_parameters()
        for pair in self.tail:
            for layer in pair.children():
                layer.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities (N, n_classes) of all classes."""
        head = F.log_softmax(self.head(input), dim=-1)
        parts = [head[..., : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            cluster = head[..., self.shortlist_size + i].unsqueeze(-1)
            parts.append(F.log_softmax(tail(input), dim=-1) + cluster)
        return flambeau.cat(parts, -1)

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log probability of each target, and the negative of their mean."""
        if input_.dim() != target_.dim() + 1 or input_.shape[:-1] != target_.shape:
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: expected one target per row of input, got shapes "
                f"{tuple(input_.shape)} and {tuple(target_.shape)}"
            )
        rows = input_ if input_.dim() == 2 else input_.unsqueeze(0)
        labels = target_ if target_.dim() == 1 else target_.unsqueeze(0)
        outside = (labels < 0) | (labels >= self.n_classes)
        if bool(outside.any()):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: expected targets in [0, {self.n_classes - 1}], got others"
            )
        places = labels.clone()
        logs = flambeau.zeros(labels.shape, dtype=rows.dtype, device=rows.device)
        for i, tail in enumerate(self.tail):
            low, high = self.cutoffs[i : i + 2]
            members = ((labels >= low) & (labels < high)).nonzero().flatten()
            if members.numel() == 0:
                continue
            own = F.log_softmax(tail(rows.index_select(0, members)), dim=1)
            relative = labels.index_select(0, members) - low
            places = places.index_fill(0, members, self.shortlist_size + i)
            logs = logs.index_copy(0, members, own.gather(1, relative.unsqueeze(1)).squeeze(1))
        head = F.log_softmax(self.head(rows), dim=1)
        output = logs + head.gather(1, places.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() == 1 else output.squeeze(0), loss)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each row."""
        return self.log_prob(input).argmax(-1)


__getattr__, __dir__ = attributes(__name__)
