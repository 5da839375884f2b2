"""What programs may do wrong with __torch_dispatch__: the process answers by an exception."""

import copy
import gc
import threading
import weakref

import flambeau
import numpy as np
import pytest
from flambeau.utils._python_dispatch import TorchDispatchMode


def wrapper(answer):
    """A class whose `__torch_dispatch__` returns whatever `answer` does."""

    class Wrapper(flambeau.Tensor):
        def __new__(cls, x, requires_grad=False):
            make = flambeau.Tensor._make_wrapper_subclass
            return make(cls, x.shape, dtype=x.dtype, requires_grad=requires_grad)

        def __init__(self, x, requires_grad=False):
            self.x = x

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return answer(func, args)

    return Wrapper


ANSWERS = {
    "None": lambda f, a: None,
    "number": lambda f, a: 3,
    "text": lambda f, a: "x",
    "list": lambda f, a: [flambeau.ones(2)],
    "pair": lambda f, a: (flambeau.ones(2), None),
    "itself": lambda f, a: a[0],
    "nothing": lambda f, a: NotImplemented,
    "error": lambda f, a: 1 // 0,
    "other sizes": lambda f, a: flambeau.ones(7),
    "no elements": lambda f, a: flambeau.ones(0),
    "meta": lambda f, a: flambeau.ones(2, 3, device="meta"),
    "integers": lambda f, a: flambeau.ones(2, 3, dtype=flambeau.int64),
}
CALLS = """w.exp();w.max(0);w.split(1);w.add_(1);w.view(3,2);w.sum().item();bool(w[0,0]);w.detach();w.data
fb.equal(w,w);w.numpy();w.tolist();w.data_ptr();w.untyped_storage();w[0];w.__setitem__(0,1.);fb.cat([w,fb.ones(2,3)])
fb.add(fb.ones(2,3),1,out=w);fb.ones(2,3).copy_(w);w.resize_(5);fb.ones(2).set_(w);setattr(fb.ones(2),'data',w)
len(w);list(w);copy.deepcopy(w);fb.ones(5)[w.long()];F.linear(fb.ones(1,3),w);fb.nn.LSTM(3,4)(w);fb.stack([w,w])
fb.where(w>0,w,0.);fb.einsum('ij,ij->i',w,w);fb.func.vmap(fb.exp)(w);fb.func.grad(lambda x:x.exp().sum())(w)
fb.func.jvp(fb.sin,(w,),(w,));w.to(fb.float64);w.cpu();repr(w);fb.empty_like(w);fb.bernoulli(w);fb.unique(w)
w.sort();w.nonzero();fb.fft.fft(w);fb.linalg.svd(w);fb._foreach_add([w,w],1);fb.nn.Parameter(w);fb.tensor(w)
fb.as_tensor([w.sum(),1]);np.asarray(w);fb.from_dlpack(w);w.to_sparse();w.conj().exp();w.share_memory_();w.T
g.exp().sum().backward();g.view(6).mul_(2);(g*2).sum().backward();fb.autograd.grad(g.exp().sum(),g);g.detach_()
g.retain_grad();g.register_hook(lambda t:t);setattr(g,'grad',w);fb.utils.checkpoint.checkpoint(fb.exp,g)
w.as_strided((2,),(1,));w.fill_(1);w.zero_();w.t_();w.unsqueeze_(0);w.requires_grad_().exp();w.storage_offset()
w.is_contiguous();w.contiguous();w.clone();w.expand(4,2,3);F.pad(w,(1,1));w.bfloat16();w.index_select(0,w)
F.conv2d(w.view(1,1,2,3),w.view(1,1,2,3));F.embedding(w.long(),w);F.cross_entropy(w,w);w.masked_select(w>0);w**w"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ANSWERS)
def test_no_answer_brings_the_process_down(kind):
    names = {"fb": flambeau, "F": flambeau.nn.functional, "copy": copy, "np": np}
    answered = 0
    for call in (c for line in CALLS.splitlines() for c in line.split(";")):
        cls = wrapper(ANSWERS[kind])
        names["w"] = cls(flambeau.ones(2, 3))
        names["g"] = cls(flambeau.ones(2, 3), requires_grad=True)
        try:
            eval(call, names)
            answered += 1
        except Exception as error:
            assert str(error), (call, error)
    assert answered


def test_results_with_a_history_are_refused():
    kept = flambeau.ones(2, 3, requires_grad=True) * 2
    cls = wrapper(lambda f, a: kept)
    with pytest.raises(RuntimeError, match="requires gradients"):
        cls(flambeau.ones(2, 3), requires_grad=True).exp()
    itself = wrapper(lambda f, a: a[0])
    leaf = itself(flambeau.ones(2, 3), requires_grad=True)
    for call in (leaf.exp, lambda: leaf.view(6)):
        with pytest.raises(RuntimeError, match="an argument that requires gradients"):
            call()
    assert leaf.is_leaf and leaf.grad_fn is None and not leaf._is_view()


def test_tensors_of_a_class_are_collected():
    cls = wrapper(lambda f, a: cls(flambeau.ones(2)))
    leaf = cls(flambeau.ones(2), requires_grad=True)
    out = leaf.exp()
    out.keeps = out  # a cycle through Python
    gone = weakref.ref(leaf), weakref.ref(out)
    del leaf, out
    gc.collect()
    assert [ref() is None for ref in gone] == [True, True]


class Log(TorchDispatchMode):
    """Notes which thread asked."""

    def __init__(self, threads):
        super().__init__()
        self.threads = threads

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.threads.append(threading.get_ident())
        return func(*args, **(kwargs or {}))


def test_threads_have_modes_of_their_own():
    log = []

    def work():
        with Log(log):
            for _ in range(50):
                flambeau.ones(30_000).exp()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        flambeau.ones(2).exp()
    for thread in threads:
        thread.join()
    assert len(log) == 400 and threading.get_ident() not in log


def test_redispatch_takes_the_kernel_of_a_key():
    x = flambeau.ones(2, requires_grad=True)
    exp = flambeau.ops.aten.exp.default
    assert exp.redispatch("CPU", x).requires_grad is False
    assert exp.redispatch("AutogradCPU", x).requires_grad is True
    meta = flambeau.ones(2, device="meta")
    assert exp.redispatch("Meta", meta).device.type == "meta"
    for keys in ("Autograd", "Python", "FuncTorchDynamicLayerFrontMode", "CUDA", "Meta"):
        with pytest.raises(RuntimeError, match="backend of the arguments, CPU"):
            exp.redispatch(keys, x)
    with pytest.raises(RuntimeError, match="backend of the arguments, Meta"):
        exp.redispatch("CPU", meta)


def test_operators_are_called_by_their_overload():
    aten = flambeau.ops.aten
    assert aten.add.Tensor(flambeau.ones(2), 1).tolist() == [2, 2]
    assert aten.max.dim(flambeau.tensor([[1, 3]]), 1)[1].tolist() == [1]
    assert isinstance(aten.split.Tensor(flambeau.ones(4), 2), list)
    assert aten._local_scalar_dense(flambeau.tensor(2.5)) == 2.5
    assert str(aten.add.Tensor) == "aten.add.Tensor" and aten.view.default.is_view
    assert aten.exp.default.decompose(flambeau.ones(2)) is NotImplemented
    assert aten.reshape.default.decompose(flambeau.ones(4), [2, 2]).shape == (2, 2)
    for wrong in (("x",), (flambeau.ones(2),), (flambeau.ones(2), 1, 2, 3)):
        with pytest.raises(RuntimeError, match="aten::add"):
            aten.add.Tensor(*wrong)
    with pytest.raises(RuntimeError, match="unknown keyword"):
        aten.sum.dim_IntList(flambeau.ones(2), axis=0)


def test_a_class_with_a_mixin_is_made_by_both():
    made = []

    class Mixin:
        def __init_subclass__(cls, **kwargs):
            made.append(kwargs)
            super().__init_subclass__()

    class Both(flambeau.Tensor, Mixin, colour="red"):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    assert made == [{"colour": "red"}]
    assert Both.__torch_function__ is flambeau._C._disabled_torch_function_impl


def test_the_schema_of_every_operator_is_read():
    for schema in flambeau._C._operator_schemas():
        name, _, rest = schema.partition("(")
        wrong = {"no argument has this name": 1}
        assert flambeau._C._call_operator(name, (), wrong, 0) is NotImplemented, schema
        optional = all(
            "=" in part for part in rest.rpartition(") ->")[0].split(", ") if part not in ("", "*")
        )
        if not optional:
            assert flambeau._C._call_operator(name, (), {}, 0) is NotImplemented, schema


def test_defaults_are_left_out_of_what_python_is_asked():
    asked = []

    class Ask(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            asked.append(([a for a in args if not isinstance(a, flambeau.Tensor)], kwargs))
            return func(*args, **kwargs)

    x = flambeau.ones(2, 3)
    with Ask():
        flambeau.ops.aten.sum.dim_IntList(x, [0], False)
        flambeau.ops.aten.sum.dim_IntList(x, [0], True)
        flambeau.ops.aten.argmax.default(x, None, False)
        flambeau.ops.aten.argmax.default(x, None, True)
        flambeau.ops.aten.add.Tensor(x, x, alpha=1)
        flambeau.ops.aten.add.Tensor(x, x, alpha=2)
    added = [([], {}), ([], {"alpha": 2})]
    assert asked == [([[0]], {}), ([[0], True], {}), ([], {}), ([None, True], {}), *added]


def test_wrappers_under_anomaly_mode():
    cls = wrapper(lambda f, a: 0.0 if "scalar" in str(f) else cls(flambeau.ones(2)))
    leaf = cls(flambeau.ones(2), requires_grad=True)
    with flambeau.autograd.set_detect_anomaly(True):
        leaf.exp().backward(cls(flambeau.ones(2)))
    assert type(leaf.grad) is cls


def test_unknown_options_of_wrappers_are_refused():
    cls = wrapper(lambda f, a: None)
    for make in (flambeau.Tensor._make_wrapper_subclass, flambeau.Tensor._make_subclass):
        with pytest.raises(TypeError, match="colour"):
            make(cls, flambeau.ones(2) if make is flambeau.Tensor._make_subclass else (2,), colour=1)


def test_modes_that_pass_on_views_do_not_disturb_autograd():
    class Pass(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def run(x):
        y = x * 2
        y[0].mul_(3)
        view = y.t()[1:]
        view.add_(view.exp())
        return (y.view(-1).unbind()[3] * x.diagonal().sum() + y.sum()).sum()

    found = []
    for mode in (flambeau.enable_grad(), Pass()):
        x = flambeau.arange(4.0, dtype=flambeau.float64).reshape(2, 2).requires_grad_()
        with mode:
            x[1].detach()
            run(x).backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]
