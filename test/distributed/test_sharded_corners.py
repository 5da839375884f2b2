"""Operators on tensors with uneven and empty parts against plain tensors: values, shapes, gradients."""

import pytest
from distributed.ranks import run

# One expression a line; I, Z and O make an index, zeros of the shape and ones, divided as x is or not.
EXPRESSIONS = """
(lambda y: (y.__setitem__((Ellipsis, -1), 7.0), y)[1])(x.clone())
(lambda y: (y.__setitem__(0, 7.0), y)[1])(x.clone())
(lambda y: (y.__setitem__(I(x, [0]), 7.0), y)[1])(x.clone())
(lambda y: (y.__setitem__(slice(1, None), 7.0), y)[1])(x.clone())
(lambda y: (y.__setitem__(y > 2, 7.0), y)[1])(x.clone())
(x > 1).argwhere()
(x > 2).nonzero()
(x > 3).all(0)
(x > 3).any()
(x @ x.mT + 2 * fw.eye(1)[0, 0] * 1).sum() if x.dim() == 2 else x
(x.flatten() * x.flatten()).sum()
F.batch_norm(x, None, None, training=True) if x.dim() > 1 and x.numel() > 8 else x
F.conv1d(x, O(x, (1, x.shape[1], 1))) if x.dim() == 3 else x
F.cosine_similarity(x, x, 0)
F.cross_entropy(x, Z(x)[:, 0]) if x.dim() == 2 else x
F.dropout(x, 0.0)
F.glu(fw.cat([x, x], -1))
F.group_norm(x, 1) if x.dim() == 3 else x
F.huber_loss(x, x * 2)
F.interpolate(x, scale_factor=2) if x.dim() == 3 else x
F.layer_norm(x, x.shape[-1:])
F.linear(x, O(x, (2, x.shape[-1])))
F.max_pool1d(x, 1) if x.dim() == 3 else x
F.mse_loss(x, x * 2, reduction="none")
F.normalize(x, dim=0)
F.one_hot(x.detach().long(), 40)
F.pad(x, (1, 2))
F.prelu(x, O(x, (1,)))
[r for r in x]
fw.addmm(O(x, (1,)), x, x.t()) if x.dim() == 2 else x
fw.atleast_3d(x)
fw.block_diag(x, x) if x.dim() == 2 else x
fw.bmm(x, x.transpose(1, 2)) if x.dim() == 3 else x
fw.broadcast_to(x, (2, *x.shape))
fw.bucketize(x, I(x, [1.0, 2.0]))
fw.cat([x, x], 0)
fw.cat([x, x], 0).chunk(3, 0)
fw.cdist(x, x) if x.dim() == 2 else x
fw.count_nonzero(x > 2)
fw.dist(x, x * 2)
fw.einsum("...i,...i->...", x, x)
fw.histc(x, 3)
fw.hstack([x, x])
fw.isin(x, I(x, [1.0, 2.0]))
fw.kron(x, fw.ones(2))
fw.linalg.vector_norm(x, 3, dim=0)
fw.linalg.vector_norm(x, float("inf"))
fw.meshgrid(x.flatten(), x.flatten(), indexing="ij")
fw.outer(x.flatten(), x.flatten())
fw.searchsorted(x.flatten().sort()[0], I(x, [1.0, 2.0]))
fw.stack([x, x * 2], 1)
fw.tensor(bool((x >= 0).all()))
fw.tensor(fw.allclose(x, x * 1))
fw.tensor(fw.equal(x, x.clone()))
fw.tensor(len(x))
fw.tensor(x.sum().item())
fw.var_mean(x, 0)
fw.vstack([x, x])
fw.where(x > 2, x, -x)
x + x[:1]
x @ O(x, (x.shape[-1],))
x @ x.transpose(-1, -2) if x.dim() == 2 else x * x
x.amax(0)
x.aminmax()
x.argmax()
x.argmax(0)
x.argmin(-1)
x.argsort(0)
x.chunk(2, -1)
x.clamp(1, 3)
x.clone().add_(1).mul_(2)
x.clone().index_add_(0, I(x, [0]), O(x, (1, *x.shape[1:])))
x.clone().index_put_((I(x, [0, 0]),), O(x, (2, *x.shape[1:])), accumulate=True)
x.clone().index_put_((I(x, [0]),), O(x, (1, *x.shape[1:])))
x.clone().zero_()
x.contiguous().as_strided((2,), (1,))
x.cov() if x.dim() == 2 else x
x.cummax(0)
x.cumprod(-1)
x.cumsum(0)
x.diagonal() if x.dim() > 1 else x
x.diff(dim=0)
x.flatten()
x.flatten().long().bincount()
x.flip(0)
x.flip(0).cumsum(0)
x.gather(-1, Z(x))
x.gather(0, Z(x))
x.gather(0, Z(x)[:1])
x.index_copy(0, I(x, [0]), O(x, (1, *x.shape[1:])))
x.index_fill(0, I(x, [0]), 5.0)
x.index_select(-1, I(x, [0]))
x.index_select(0, I(x, [x.shape[0] - 1, 0]))
x.kthvalue(1, 0)
x.lerp(O(x, (1,)), 0.3)
x.log_softmax(-1)
x.logcumsumexp(0)
x.logsumexp(0)
x.mT if x.dim() > 1 else x
x.masked_fill(x > 2, 9)
x.masked_scatter(x > 1, x.flatten())
x.masked_select(x > 1)
x.max()
x.max(0)
x.mean((0, -1)) if x.dim() > 1 else x
x.mean()
x.mean(0)
x.median()
x.median(0)
x.min(-1)
x.mode(0)
x.movedim(0, -1)
x.nanmedian()
x.nansum(0)
x.narrow(0, 1, max(x.shape[0] - 2, 0)) if x.shape[0] > 1 else x
x.norm()
x.permute(*reversed(range(x.dim())))
x.prod()
x.prod(0)
x.quantile(0.5)
x.ravel()
x.renorm(2, 0, 1.0) if x.dim() > 1 else x
x.repeat(*[2] * x.dim())
x.repeat_interleave(2, 0)
x.reshape(-1)
x.reshape(-1, x.shape[-1])
x.reshape(x.shape[-1], -1)
x.reshape(x.shape[0], -1, 1)
x.roll(1, 0)
x.rot90() if x.dim() > 1 else x
x.scatter(0, Z(x), 1.0)
x.scatter_add(0, Z(x), x)
x.scatter_reduce(0, Z(x), x, "amax")
x.softmax(0)
x.sort(0, descending=True)
x.split(2, 0)
x.split([1, x.shape[0] - 1], 0)
x.std((0, -1)) if x.dim() > 1 else x
x.std(-1, correction=0)
x.sum((0, -1)) if x.dim() > 1 else x
x.sum()
x.sum(-1, keepdim=True)
x.sum(0)
x.take(I(x, [0, -1]))
x.take_along_dim(Z(x), 0)
x.tensor_split(3, 0)
x.tile(2)
x.topk(1, 0)
x.transpose(-1, -2) @ x if x.dim() == 2 else x * x
x.transpose(0, -1)
x.tril() if x.dim() > 1 else x
x.triu(1) if x.dim() > 1 else x
x.unbind(0)
x.unflatten(-1, (1, -1))
x.unfold(0, 1, 1)
x.unsqueeze(-1).squeeze(-1)
x.unsqueeze(0)
x.unsqueeze(0).expand(3, *x.shape)
x.var()
x.var(0, unbiased=False)
x.view(1, *x.shape)
x.view(x.numel())
x[-1]
x[..., 0]
x[..., ::2]
x[..., I(x, [0, x.shape[-1] - 1])]
x[0]
x[0].sum()
x[1:]
x[:-1]
x[::2]
x[I(x, [-1])]
x[I(x, [0, 0, x.shape[0] - 1])]
x[I(x, [0])[:0]]
x[I(x, [[0, 0], [0, -1]])]
x[None]
x[x > 3]
"""

PROGRAM = """
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
import flambeau.nn.functional as F

warnings.simplefilter("ignore")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
mesh = init_device_mesh("cpu", (size,))

def like(x, plain):
    return distribute_tensor(plain, mesh, [Replicate()]) if isinstance(x, DTensor) else plain

def I(x, numbers): return like(x, fw.tensor(numbers))
def Z(x): return like(x, fw.zeros(x.shape, dtype=fw.int64))
def O(x, shape): return like(x, fw.ones(shape))
def whole(value): return value.full_tensor() if isinstance(value, DTensor) else value
def flat(value): return [w for v in value for w in flat(v)] if isinstance(value, list | tuple) else [value]

def outcome(call, x):
    try:
        return flat(call(x)), None
    except Exception as error:
        return None, error

def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and fw.allclose(
        a.detach().double(), b.detach().double(), equal_nan=True, atol=1e-4)

def compare(call, plain, divided):
    expected, error = outcome(call, plain)
    got, other = outcome(call, divided)
    if error is not None or other is not None:
        assert type(error) is type(other), (error, other)
        return False
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and same(whole(a), b), (whole(a).tolist(), b.tolist())
    if any(b.requires_grad for b in expected):
        sum(b.sum() for b in expected if b.requires_grad).backward()
        sum(a.sum() for a in got if a.requires_grad).backward()
        assert same(whole(divided.grad), plain.grad), (whole(divided.grad).tolist(), plain.grad.tolist())
    return True

fw.manual_seed(3)
shape, failed, compared = tuple(json.loads(os.environ["SHAPE"])), [], 0
x = fw.randperm(max(1, fw.Size(shape).numel())).float()[: fw.Size(shape).numel()].reshape(shape)
for line in filter(None, os.environ["EXPRESSIONS"].splitlines()):
    for dim in range(len(shape)):
        divided = distribute_tensor(x.clone(), mesh, [Shard(dim)]).requires_grad_()
        try:
            compared += compare(eval("lambda x: " + line), x.clone().requires_grad_(), divided)
        except Exception as error:
            failed.append(f"{line} along {dim}: {type(error).__name__} {error}")
put([compared, failed])
dist.destroy_process_group()
"""


@pytest.mark.parametrize("shape", [[4], [1], [5, 3], [2, 1, 4], [0, 3], [3, 0]], ids=str)
def test_uneven_and_empty_parts(shape):
    cases = len(shape) * len(EXPRESSIONS.splitlines())
    for compared, failed in run(3, PROGRAM, seconds=120, SHAPE=str(shape), EXPRESSIONS=EXPRESSIONS):
        assert not failed, failed[:5]
        assert compared > cases / 3  # the others raise one exception for both


EMPTY_COLUMNS = """
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (size,))
for dim in (0, 1):
    weight = distribute_tensor(fw.zeros(3, 0), mesh, [Shard(dim)]).requires_grad_()
    rows = fw.nn.functional.embedding(distribute_tensor(fw.tensor([0, 2]), mesh, [Replicate()]), weight)
    rows.sum().backward()
    assert tuple(rows.shape) == (2, 0) and tuple(weight.grad.shape) == (3, 0)
put(1)
dist.destroy_process_group()
"""


def test_an_embedding_without_columns():
    assert run(2, EMPTY_COLUMNS) == [1, 1]
