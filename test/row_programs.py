"""Programs with row groups, whose slices are small in tests, and their comparison with plain runs."""

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau._dynamo.utils import counters
from flambeau.compiler.emit import rows as emitted
from flambeau.compiler.passes import fusion
from flambeau.compiler.passes import rows as grouped

made = []
own_call = emitted.Sliced.__call__


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Slices of some hundred bytes, always used, so that small tensors have many."""
    monkeypatch.setenv("FLAMBEAU_TIER", "0")  # kernels of rows would replace slices
    monkeypatch.setattr(grouped, "_CACHE_BYTES", 1024)
    monkeypatch.setattr(grouped, "_LARGE_BYTES", 1024)
    monkeypatch.setattr(grouped, "_SLICE_BYTES", 512)
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()
    made.clear()
    init = emitted.Sliced.__init__

    def note(self, group):
        init(self, group)
        made.append(self)

    monkeypatch.setattr(emitted.Sliced, "__init__", note)
    monkeypatch.setattr(emitted.Sliced, "__call__", emitted.Sliced.run)


def results_and_gradients(function, inputs):
    leaves = [v.detach().clone().requires_grad_(v.requires_grad) for v in inputs]
    result = function(*leaves)
    results = [result] if isinstance(result, fb.Tensor) else list(result)
    weights = [fb.arange(r.numel()).view(r.size()).cos() for r in results]
    total = sum((r.double() * w).sum() for r, w in zip(results, weights, strict=True) if r.requires_grad)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    found = fb.autograd.grad(total, wanted, allow_unused=True) if wanted else ()
    return [r.detach() for r in results], found


def check(function, *inputs, groups=None, exact=True):
    """Compare results bit for bit and gradients closely; returns the row groups that were made."""
    compiled = fb.compile(function)
    for _ in range(2):
        one, by_one = results_and_gradients(compiled, inputs)
        two, by_two = results_and_gradients(function, inputs)
        for x, y in zip(one, two, strict=True):
            assert x.dtype == y.dtype and x.size() == y.size() and x.stride() == y.stride()
            assert fb.equal(x.isnan(), y.isnan())
            if exact:
                assert fb.equal(x.nan_to_num(), y.nan_to_num())
            else:
                assert fb.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True)
        for x, y in zip(by_one, by_two, strict=True):
            assert (x is None) == (y is None)
            bound = 1e-5 if y is None or y.dtype in (fb.float32, fb.float64) else 2e-2
            assert x is None or fb.allclose(x, y, rtol=bound, atol=bound, equal_nan=True)
    assert groups is None or len(made) == groups, (len(made), dict(counters["fusion"]))
    return list(made)


def t(*sizes, grad=True, dtype=fb.float32):
    return fb.randn(sizes).to(dtype).requires_grad_(grad)


def softmax_in_words(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def without_keepdim(x):
    centred = x - x.mean(-1).unsqueeze(-1)
    return centred * (centred.square().mean(-1) + 1e-5).rsqrt().unsqueeze(-1) * 2


def masked(x, mask):
    return F.softmax((x * 0.5).masked_fill(mask, -float("inf")), -1) * 2


def two_depths(x):
    y = x * 2
    return (y - y.mean((-1, -2), keepdim=True)).relu() + F.softmax(y, -1)


ROWS = {
    "softmax": (lambda x: F.softmax(x * 2 + 1, -1), (t(40, 16),)),
    "softmax in words": (softmax_in_words, (t(40, 16),)),
    "log_softmax": (lambda x: F.log_softmax(x * 2, 1) * 3, (t(40, 16),)),
    "masked softmax": (masked, (t(40, 16), t(40, 16, grad=False) > 0.3)),
    "mask of a row": (masked, (t(40, 16), t(16, grad=False) > 0.3)),
    "layer_norm": (lambda x, w, b: F.gelu(F.layer_norm(x, (16,), w, b)), (t(40, 16), t(16), t(16))),
    "rms_norm": (lambda x, w: F.silu(F.rms_norm(x, (16,), w)), (t(40, 16), t(16))),
    "cross entropy": (lambda x: F.cross_entropy(x * 2, fb.arange(40) % 16), (t(40, 16),)),
    "smooth cross entropy": (
        lambda x: F.cross_entropy(x * 2, fb.arange(40) % 16, label_smoothing=0.1, reduction="none"),
        (t(40, 16),),
    ),
    "without keepdim": (without_keepdim, (t(40, 16),)),
    "broadcast rows": (lambda x, y: F.softmax(x + y, -1) * x, (t(40, 16), t(1, 16))),
    "broadcast columns": (lambda x, y: F.softmax(x * y, -1) * x, (t(40, 16), t(40, 1))),
    "an odd tail": (lambda x: F.softmax(x * 2, -1) + 1, (t(41, 17),)),
    "two leading dimensions": (lambda x: F.softmax(x * 2, -1) + x, (t(3, 30, 16),)),
    "few long slices": (lambda x: F.softmax(x * 2, -1) + x, (t(2, 30, 16),)),
    "a batch of matrices": (two_depths, (t(12, 4, 8),)),
    "a middle dimension": (lambda x: F.softmax(x * 2, 1) + x, (t(12, 4, 8),)),
    "largest with indices": (lambda x: (x * 2).max(-1, keepdim=True)[0] + x, (t(40, 16),)),
    "two reductions": (lambda x: (x.sum(-1), (x * x).sum(-1)), (t(40, 16),)),
    "a group in a square": (lambda x, y: F.softmax(x * y, -1) * x, (t(16, 16), t(16))),
}  # fmt: skip
