"""What __torch_function__ is asked, in flambeau and in PyTorch: function, number of arguments, types."""

import inspect
import operator
import re
import warnings

import flambeau
import numpy as np
import pytest
from oracle import pytorch


def _logger(fw, log):
    class Logged(fw.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            name = fw.overrides.resolve_name(func)
            log.append((name and name.partition(".")[2], len(args), [t.__name__ for t in types]))
            with fw._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    return Logged


def _mode(fw, log):
    class Log(fw.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            name = fw.overrides.resolve_name(func)
            log.append((name and name.partition(".")[2], len(args)))
            return func(*args, **(kwargs or {}))

    return Log()


INFIX = """x+p;p+x;x+1;1+x;x-p;p-x;1-x;x-1;x*2;2*x;x/2;2/x;x//2;2//x;x%2;2%x;x**2;2**x;x@p;p@x;x==p;p==x
x!=1;x<1;x<=1;x>1;x>=1;1<x;-x;+x;abs(x);~b;b&True;True&b;b|p.bool();b^True;i<<1;1<<i;i>>1;1>>i;i|1;1^i
x[0];x[p>0];x[i];x[0,1];p[i];bool(x[0,0]);operator.index(x[0,0].long())"""
ATTRIBUTES = """x.shape;x.dtype;x.device;x.T;x.mT;x.H;x.real;x.grad;x.requires_grad;x.is_leaf;x.data;x.ndim
x.is_cuda;x.layout;x.grad_fn;x._version;x._base;x.itemsize;x.nbytes;x.output_nr;x.is_sparse;x.volatile;x.is_meta"""
METHODS = """x.size();x.size(0);x.dim();x.numel();x.stride();x.tolist();x.to(fw.float64);x.requires_grad_()
x.norm();x.float();x.cpu();x.type();x.detach();x.contiguous();x.is_contiguous();x.data_ptr();x.element_size()
x.is_floating_point();x.unique();x.split(1);x.new_tensor([1]);x.new_zeros(2);x.numpy();x.__array__();x.clone()
x.storage();x.untyped_storage();x.copy_(p);p.copy_(x);x.is_shared();x.max(0);x.sum(dim=0);x.lu();x.ndimension()
x.nelement();x.is_conj();x.is_neg();x.is_inference();x.storage_offset();x.get_device();x.is_signed();x.view(4)
x[0,0].item();len(x);list(x);1 in x;repr(x);format(x,'');reversed(x);hash(x);x.as_subclass(type(x))"""
FUNCTIONS = """fw.add(x,1);fw.absolute(x);fw.concat([x,x]);fw.cat([p,x]);fw.stack([x]);fw.einsum('ij->i',x)
fw.einsum('ij->i',[x]);fw.linalg.norm(x);fw.fft.fft(x);fw.special.expit(x);F.linear(x,p);F.relu(x);F.softmax(x,0)
F.dropout(x);F.mse_loss(x,p);F.one_hot(i);F.embedding(i,p);F.pad(x,(1,1));fw.norm(x);fw.split(x,1);fw.is_tensor(x)
fw.is_floating_point(x);fw.numel(x);fw.result_type(x,p);fw.zeros_like(x);fw.tensor(x);fw.as_tensor(x);fw.asarray(x)
fw.broadcast_tensors(x,p);fw.meshgrid(x[0],x[0]);fw.unique(x);fw.where(x>0,x,p);fw.max(x,0);fw.allclose(x,p)
fw.equal(x,p);fw.lu(x);fw.cdist(x,p);fw.gradient(x);fw.tensordot(x,p);fw.chunk(x,2);fw.detach(x);fw.get_device(x)
fw.is_complex(x);fw.is_conj(x);fw.is_nonzero(x[0,0]);fw.is_same_size(x,x);F.cross_entropy(x,i[0]);F.layer_norm(x,(2,))
F.max_pool1d(x,1);F.cosine_similarity(x,p);F.gelu(x);F.batch_norm(x,None,None,training=True)"""
STATEMENTS = """x+=1;x-=1;x*=1;x/=1;x//=1;x**=1;x%=1;x[0]=1;x.data=p;x.requires_grad=False
x.grad=None;p[0]=x[0]"""
FACTORIES = """fw.zeros(2);fw.tensor([1.]);fw.arange(3);fw.empty(2);fw.rand(2);fw.hann_window(3);fw.eye(2)
fw.manual_seed(0);fw.get_default_dtype();fw.is_grad_enabled();fw.Size([2]);fw.from_numpy(np.ones(2));fw.full((2,),1.)
fw.broadcast_shapes((1,),(2,));fw.complex(p,p);fw.get_num_threads();fw.ones(2).sum();fw.as_tensor(1)"""


def _rows(text):
    return [row for line in text.splitlines() for row in line.split(";")]


def _values(fw, make, log):
    p = fw.arange(4).reshape(2, 2) / 4 + 1
    i = fw.tensor([[0, 1], [1, 0]])
    x, i, b = make(fw, p), make(fw, i), make(fw, i.bool())
    p = fw.arange(4).reshape(2, 2) / 4 + 1
    values = {"fw": fw, "F": fw.nn.functional, "x": x, "p": p, "i": i, "b": b, "operator": operator, "np": np}
    log.clear()
    return values


def _asked(fw, row, run):
    log = []
    cls = _logger(fw, log)
    run(row, _values(fw, lambda fw, t: t.as_subclass(cls), log))
    return log


@pytest.mark.parametrize("row", _rows(f"{INFIX}\n{ATTRIBUTES}\n{METHODS}\n{FUNCTIONS}"))
def test_a_subclass_is_asked_for_the_same_function(row):
    assert _asked(flambeau, row, eval) == _asked(pytorch(), row, eval)


@pytest.mark.parametrize("row", _rows(STATEMENTS))
def test_a_subclass_is_asked_for_statements(row):
    assert _asked(flambeau, row, exec) == _asked(pytorch(), row, exec)


def _seen(fw, row):
    log = []
    values = _values(fw, lambda fw, t: t, log)
    with _mode(fw, log):
        eval(row, values)
    return log


@pytest.mark.parametrize("row", _rows(f"{INFIX}\n{ATTRIBUTES}\n{METHODS}\n{FUNCTIONS}\n{FACTORIES}"))
def test_a_mode_sees_the_same_calls_on_plain_tensors(row):
    assert _seen(flambeau, row) == _seen(pytorch(), row)


ARGUMENTS = """fw.add(a,1);fw.add(1,a);fw.add(p,1,alpha=a);p.view(a);fw.zeros(a);p.sum(a);p[a];p[(a,)];p+a
F.relu(a);F.dropout(a,0.2);F.mse_loss(a,p);F.softmax(a,dim=0);F.cross_entropy(a,p,reduction='sum')
fw.einsum('i',a);fw.norm(a);F.embedding(p,a);F.pad(a,(1,1));F.interpolate(a,scale_factor=2)
fw.where(p>0,a,1.);fw.cat([p,a]);fw.stack((a,a));fw.max(p,a);F.linear(p,a);F.conv1d(a,p);fw.linalg.inv(a)
fw.unique(a);fw.tensordot(a,p);p.copy_(a);p.__setitem__(0,a);F.layer_norm(a,(2,))"""


def _arguments(fw, row):
    log = []

    class Operand:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            shown = [type(a).__name__ for a in args]
            name = fw.overrides.resolve_name(func).partition(".")[2]
            names = [t.__name__ for t in types]
            log.append((name, shown, sorted(kwargs) if kwargs else None, names))
            return 7

    result = eval(row, {"fw": fw, "F": fw.nn.functional, "p": fw.ones(2), "a": Operand()})
    return result, log


@pytest.mark.parametrize("row", _rows(ARGUMENTS))
def test_any_object_is_asked_with_the_same_arguments(row):
    assert _arguments(flambeau, row) == _arguments(pytorch(), row)


# --- the inventory --------------------------------------------------------------------------------

# Names of PyTorch's inventory that belong to what flambeau does not have: quantized and nested tensors,
# kernels of MIOpen and fbgemm, batch norm across processes, compressed sparse layouts, members that exist
# for PyTorch's own sake; and copies of views and a norm of sparse tensors, which no argument can override.
NOT_THERE = re.compile(
    r"quantiz|q_scale|q_zero_point|q_per_channel|miopen|fbgemm|int_repr|fake_quant|qparams|nested_tensor"
    r"|batch_norm_(backward|elemt|gather|stats|update)|(col|row)_indices_copy|ccol|^indices_copy|^values_copy"
    r"|^native_norm|__cuda_array_interface__|__(div|long|nonzero)__|_autocast_to|_backward_hooks|_cdata|_clear_non"
    r"|\._grad|_post_accumulate|_sparse_mask|\._to_dense|_sym_int"
)


def test_the_inventory_has_the_names_of_PyTorch():
    torch = pytorch()

    def names(fw):
        found = (fw.overrides.resolve_name(f) for f in fw.overrides.get_testing_overrides())
        return {name.split(".", 1)[1] for name in found if name}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = names(torch) - names(flambeau)
    assert sorted(name for name in missing if not NOT_THERE.search(name)) == []


def test_methods_and_properties_are_distinguished_from_functions_as_in_PyTorch():
    torch = pytorch()

    def kinds(fw):
        ask, resolve = fw.overrides.is_tensor_method_or_property, fw.overrides.resolve_name
        found = {resolve(f): ask(f) for f in fw.overrides.get_testing_overrides()}
        return {name.split(".", 1)[1]: kind for name, kind in found.items() if name}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = kinds(flambeau), kinds(torch)
    assert [name for name in found.keys() & expected.keys() if found[name] != expected[name]] == []


def test_testing_overrides_take_the_arguments_of_their_functions():
    for function, dummy in flambeau.overrides.get_testing_overrides().items():
        required = [
            p
            for p in inspect.signature(dummy).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        assert dummy(*[0] * len(required)) == -1, flambeau.overrides.resolve_name(function)
