"""Kernels in Python for operators of aten: the same programs in flambeau and PyTorch."""

import gc
import itertools
import threading
import warnings

import flambeau
import pytest
from oracle import pytorch
from sides import differences, plain, raised

_numbers = itertools.count()


def impl(fw, ns="aten", *kernels, kind="IMPL"):
    """A library with these kernels: (operator, function, key)."""
    made = fw.library.Library(ns, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of the first kernel that is overridden
        for name, function, key in kernels:
            made.impl(name, function, key)
    return made


def replaced_and_given_back(fw):
    calls = []

    def subtract(a, b, *, alpha=1):
        calls.append([type(b).__name__, alpha])
        return a - b * alpha

    x, y = fw.tensor([3.0, 4.0]), fw.tensor([1.0, 2.0])
    made = impl(fw, "aten", ("add.Tensor", subtract, "CPU"))
    during = [x + y, fw.add(x, y, alpha=2), x.add(y), fw.ops.aten.add.Tensor(x, y)]
    x.requires_grad_()
    recorded = x + y
    recorded.sum().backward()
    during += [recorded, x.grad]
    made._destroy()
    made._destroy()
    return [plain(during), plain(x.detach() + y), len(calls), calls[:2], recorded.grad_fn.name()]


def in_order_of_registration(fw):
    found, x = [], fw.ones(1)
    for remove in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        made = [impl(fw, "aten", ("exp", lambda a, n=n: a + n, "CPU")) for n in (10, 20, 30)]
        found.append(plain(fw.exp(x)))
        for i in remove:
            made[i]._destroy()
            found.append(plain(fw.exp(x)))
    return found


def ends_with_the_object(fw):
    made = impl(fw, "aten", ("neg", lambda a: a + 5, "CPU"))
    during = plain(-fw.ones(1))
    del made
    gc.collect()
    return [during, plain(-fw.ones(1))]


def in_place_and_out(fw):
    def exp_(a):
        a.fill_(7.0)
        return a

    def exp_out(a, *, out):
        out.fill_(9.0)
        return out

    made = impl(fw, "aten", ("exp_", exp_, "CPU"), ("exp.out", exp_out, "CPU"))
    x, out = fw.zeros(2), fw.zeros(2)
    before = x._version
    same = [x.exp_() is x, fw.exp(fw.ones(2), out=out) is out]
    leaf = fw.ones(2, requires_grad=True)
    saved = leaf * 1
    product = saved * saved
    saved.exp_()
    failure = raised("inplace operation", product.sum().backward)
    made._destroy()
    return [same, plain([x, out]), x._version > before, failure]


def several_results(fw):
    made = impl(fw, "aten", ("sort", lambda a, dim=-1, descending=False: (a * 2, a.long()), "CPU"))
    values, indices = fw.tensor([3.0, 1.0]).sort()
    made._destroy()
    lists = impl(fw, "aten", ("unbind.int", lambda a, dim=0: [a[1], a[0]], "CPU"))
    parts = fw.ops.aten.unbind.int(fw.tensor([3.0, 1.0]))
    lists._destroy()
    return [plain([values, indices]), plain(parts)]


def for_autograd(fw):
    seen = []
    exp = fw.ops.aten.exp.default

    def below(keys, a):
        seen.append([keys.has(fw._C.DispatchKey.AutogradCPU), keys.has(fw._C.DispatchKey.CPU)])
        return exp.redispatch(keys & fw._C._after_autograd_keyset, a) * 2

    made = fw.library.Library("aten", "IMPL")
    made.impl("exp", below, "Autograd", with_keyset=True)
    x = fw.zeros(2, requires_grad=True)
    found = [plain(fw.exp(fw.zeros(1))), plain(fw.exp(x)), fw.exp(x).requires_grad]
    with fw.no_grad():
        found.append(plain(fw.exp(x)))
    with fw._C._AutoDispatchBelowAutograd():
        found.append(plain(fw.exp(fw.zeros(1))))
    found.append(len(seen))
    made._destroy()

    class Thrice(fw.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            with fw._C._AutoDispatchBelowAutograd():
                return exp(a)

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    made = impl(fw, "aten", ("exp", Thrice.apply, "AutogradCPU"))
    fw.exp(x).sum().backward()
    made._destroy()
    return [found, seen[0], plain(x.grad)]


def backend_and_autograd(fw):
    order = []

    def at_backend(a):
        order.append("CPU")
        return a + 1

    def at_autograd(a):
        order.append("Autograd")
        with fw._C._AutoDispatchBelowAutograd():
            return fw.exp(a)

    made = impl(fw, "aten", ("exp", at_backend, "CPU"), ("exp", at_autograd, "Autograd"))
    found = plain(fw.exp(fw.zeros(1)))
    made._destroy()
    return [found, order]


def for_autocast(fw):
    keys = fw._C.DispatchKeySet(fw._C.DispatchKey.AutocastCPU)

    def cast(a):
        with fw._C._ExcludeDispatchKeyGuard(keys):
            return fw.exp(a.double())

    made = impl(fw, "aten", ("exp", cast, "AutocastCPU"))
    x = fw.zeros(1)
    found = [str(fw.exp(x).dtype)]
    with fw.autocast("cpu", dtype=fw.bfloat16):
        found += [str(fw.exp(x).dtype), str((x[None] @ x[:, None]).dtype)]
    made._destroy()
    with fw.autocast("cpu", dtype=fw.bfloat16):
        found.append(str(fw.exp(x).dtype))
    return [name.rpartition(".")[2] for name in found]


def for_composites(fw):
    made = impl(fw, "aten", ("exp", lambda a: a * 100, "CompositeImplicitAutograd"))
    x = fw.ones(1, requires_grad=True)
    kept = plain(fw.exp(fw.zeros(1)))  # the CPU kernel comes first
    made._destroy()
    made = impl(fw, "aten", ("pinverse", lambda a, rcond=1e-15: a * 10, "CompositeImplicitAutograd"))
    out = fw.pinverse(x[None])
    out.sum().backward()
    made._destroy()
    return [kept, plain(out), plain(x.grad), plain(fw.pinverse(fw.full((1, 1), 4.0)))]


def for_meta(fw):
    """Not of exp: PyTorch's fake tensors keep such a kernel, and other tests of the process call exp."""
    f = fw.special.erfcx
    made = impl(fw, "aten", ("special_erfcx", lambda a: fw.empty(7, device="meta"), "Meta"))
    found = [list(f(fw.empty(2, device="meta")).shape), list(f(fw.zeros(2)).shape)]
    made._destroy()
    return [*found, list(f(fw.empty(2, device="meta")).shape)]


def what_goes_wrong(fw):
    found, x = [], fw.zeros(2)
    kinds = {
        "number": lambda a: 3,
        "pair": lambda a: (a, a),
        "text": lambda a: "s",
        "list": lambda a: [a],
        "raises": lambda a: 1 // 0,
        "recurses": lambda a: fw.exp(a),
    }
    for name, kernel in kinds.items():
        made = impl(fw, "aten", ("exp", kernel, "CPU"))
        found.append([name, raised("", fw.exp, x)])
        made._destroy()
        found.append(plain(fw.exp(x)))
    made = impl(fw, "aten", ("sort", lambda a, dim=-1, descending=False: (a,), "CPU"))
    found.append(raised("", x.sort))
    made._destroy()
    library = fw.library.Library("aten", "IMPL")
    found += [
        raised("callable", library.impl, "exp", 3, "CPU"),
        raised("could not parse dispatch key", library.impl, "exp", lambda a: a, "NoKey"),
        raised("could not parse dispatch key", fw.library.Library, "aten", "IMPL", "NoKey"),
        raised("only a single", fw.library.Library, "aten", "DEF"),
        raised("reserved", fw.library.Library, "prim", "DEF"),
        raised("does not match namespace", library.impl, "other::exp", lambda a: a, "CPU"),
        raised("fallback can only be registered", library.fallback, lambda op, *a: a, "CPU"),
        raised("cannot define an operator", library.define, "f(Tensor x) -> Tensor"),
    ]
    anything = fw.library.Library("_", "IMPL")
    found.append(raised("multiple backend fallbacks", anything.fallback, lambda op, *a: a, "Conjugate"))
    library._destroy()
    return found


def captured_kernels(fw):
    original = fw.library.get_kernel("aten::exp", "CPU")
    keys = fw._C.DispatchKeySet(fw._C.DispatchKey.CPU)
    made = fw.library.Library("aten", "IMPL")
    made.impl("exp", lambda ks, a: original.call_boxed(ks, a) + 1, "CPU", with_keyset=True)
    x = fw.zeros(1)
    found = [plain(fw.exp(x)), plain(original.call_boxed(keys, x))]
    made._destroy()
    failures = [
        raised("does not exist", fw.library.get_kernel, "aten::no_such_operator", "CPU"),
        raised("invalid dispatch key", fw.library.get_kernel, "aten::exp", "NoKey"),
    ]
    return [found, plain(fw.exp(x)), failures]


def removed_by_itself(fw):
    def once(a):
        made._destroy()
        return fw.exp(a)

    made = impl(fw, "aten", ("exp", once, "CPU"))
    return plain([fw.exp(fw.zeros(1)), fw.exp(fw.zeros(1))])


def under_transforms(fw):
    made = impl(fw, "aten", ("exp", lambda a: a * 5, "CPU"))
    x = fw.arange(6.0).reshape(2, 3)
    found = [fw.vmap(fw.exp)(x), fw.func.grad(lambda a: fw.exp(a).sum())(x)]
    made._destroy()
    return plain([*found, fw.vmap(fw.exp)(x * 0)])


def of_other_namespaces(fw):
    space = f"later{next(_numbers)}"
    first = impl(fw, space, ("f", lambda x: x * 7, "CPU"))  # before the definition
    second = fw.library.Library(space, "FRAGMENT")
    second.define("f(Tensor x) -> Tensor", tags=(fw.Tag.pointwise,))
    operator = getattr(fw.ops, space).f
    found = [plain(operator(fw.ones(1)))]
    third = impl(fw, space, ("f", lambda x: x * 8, "CPU"))
    found.append(plain(operator(fw.ones(1))))
    third._destroy()
    found.append(plain(operator(fw.ones(1))))
    first._destroy()
    found.append(raised("", operator, fw.ones(1)))
    found.append(fw.Tag.pointwise in operator.default.tags)
    second._destroy()
    return [*found, hasattr(getattr(fw.ops, space), "f")]


def fragments_of_aten(fw):
    name = f"flambeau_added{next(_numbers)}"
    made = fw.library.Library("aten", "FRAGMENT")
    made.define(f"{name}(Tensor x, *, int n=2) -> Tensor")
    made.impl(name, lambda x, *, n=2: x * n, "CompositeImplicitAutograd")
    operator = getattr(fw.ops.aten, name)
    found = plain([operator(fw.ones(1)), operator.default(fw.ones(1), n=5)])
    made._destroy()
    return [found, hasattr(fw.ops.aten, name)]


def which_kernels_there_are(fw):
    c, key = fw._C, fw._C.DispatchKey
    made = impl(fw, "aten", ("exp", lambda a: a, "AutocastCPU"))
    space = f"asked{next(_numbers)}"
    own = fw.library.Library(space, "DEF")
    own.define("f(Tensor x) -> Tensor")
    undefined = c._dispatch_has_kernel(f"{space}::g")
    own.impl("f", lambda x: x, "CPU")
    name, has = f"{space}::f", c._dispatch_has_kernel_for_dispatch_key
    computed = c._dispatch_has_computed_kernel_for_dispatch_key
    found = [
        [has("aten::exp", k) for k in ("CPU", "Meta", "Autograd", "AutogradCPU", "AutocastCPU", key.CPU)],
        [has("aten::matmul", k) for k in ("AutocastCPU", "CPU")],
        [has("aten::dropout", k) for k in ("CompositeImplicitAutograd", "CPU")],
        [has(name, k) for k in ("CPU", "Meta", "Autograd", "CompositeImplicitAutograd")],
        [computed("aten::exp", "AutogradCPU"), computed("aten::dropout", "CPU"), computed(name, "CUDA")],
        c._dispatch_has_kernel_for_any_dispatch_key("aten::exp", c.DispatchKeySet(key.CPU)),
        [undefined, c._dispatch_has_kernel("aten::no_such"), c._dispatch_has_kernel(name)],
        [c._dispatch_dump("aten::exp").splitlines()[:2], c._dispatch_dump("aten::no_such")],
        name in c._dispatch_get_all_op_names(),
        name in c._dispatch_get_registrations_for_dispatch_key("CPU"),
        raised("does not exist", has, "aten::no_such", "CPU"),
        raised("could not parse", has, "aten::exp", "NoKey"),
        raised("could not find schema", c._dispatch_find_schema_or_throw, "aten::no_such", ""),
    ]
    made._destroy()
    own._destroy()
    return [*found, has("aten::exp", "AutocastCPU")]


def which_keys_there_are(fw):
    c, key, meta = fw._C, fw._C.DispatchKey, fw.empty(2, device="meta")
    return [
        [c._dispatch_key_set(t) for t in (fw.ones(2), meta, fw.ones(2, dtype=fw.cfloat).conj())],
        repr(c._dispatch_keys(fw.ones(1, requires_grad=True))),
        [c._dispatch_key_name(key.CPU), c._dispatch_key_parse("CPU").name, c._dispatch_num_backends()],
        [c._dispatch_key_for_device(d) for d in ("cpu", "cuda", "meta")],
        [c._dispatch_is_alias_key(k) for k in (key.Autograd, key.CPU, key.CompositeImplicitAutograd)],
        c._dispatch_is_included_in_alias(key.AutogradCPU, key.Autograd),
        [c._dispatch_has_backend_fallback(k) for k in (key.CPU, key.BackendSelect, key.Conjugate)],
        c._dispatch_keyset_full_after(key.AutogradCPU).has(key.CPU),
        repr(c._dispatch_tls_local_include_set()),
        [c._dispatch_tls_local_exclude_set().has(k) for k in (key.AutocastCPU, key.CPU, key.AutogradCPU)],
        c._dispatch_isTensorSubclassLike(fw.ones(1)),
        raised("device index", c._dispatch_key_for_device, "cuda:1"),
        raised("could not parse", c._dispatch_key_parse, "NoKey"),
        raised("", c._dispatch_keys, 3),
    ]


def sets_of_a_thread(fw):
    c, key = fw._C, fw._C.DispatchKey.AutogradCPU
    x, found = fw.ones(1, requires_grad=True), []
    for excluded in (True, False):
        c._dispatch_tls_set_dispatch_key_excluded(key, excluded)
        found.append([c._dispatch_tls_is_dispatch_key_excluded(key), x.exp().requires_grad])
    with fw.autocast("cpu"):
        found.append(c._dispatch_tls_is_dispatch_key_excluded(fw._C.DispatchKey.AutocastCPU))
    found.append(c._dispatch_tls_is_dispatch_key_excluded(fw._C.DispatchKey.AutocastCPU))
    found.append(c._dispatch_tls_is_dispatch_key_included(fw._C.DispatchKey.CPU))
    return found


PROGRAMS = [
    replaced_and_given_back, in_order_of_registration, ends_with_the_object, in_place_and_out,
    several_results, for_autograd, backend_and_autograd, for_autocast, for_composites, for_meta,
    what_goes_wrong, captured_kernels, removed_by_itself, under_transforms, of_other_namespaces,
    fragments_of_aten, which_kernels_there_are, which_keys_there_are, sets_of_a_thread,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_like_pytorch(program):
    found, expected = program(flambeau), program(pytorch())
    assert found == expected, differences(found, expected)


def test_a_kernel_for_a_form_with_tensors_serves_numbers():
    made = impl(flambeau, "aten", ("add.Tensor", lambda a, b, alpha=1: a * 10, "CPU"))
    try:
        assert (flambeau.ones(2) + 1).tolist() == [10, 10]
    finally:
        made._destroy()
    assert (flambeau.ones(2) + 1).tolist() == [2, 2]


def test_removal_while_other_threads_call():
    x, stop, failures = flambeau.zeros(3), threading.Event(), []

    def call():
        while not stop.is_set():
            value = flambeau.exp(x).tolist()
            if value not in ([1, 1, 1], [5, 5, 5]):
                failures.append(value)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        made = impl(flambeau, "aten", ("exp", lambda a: a + 5, "CPU"))
        flambeau.exp(x)
        made._destroy()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert flambeau.exp(x).tolist() == [1, 1, 1]


def test_a_large_call_without_the_lock_of_python():
    x = flambeau.zeros(100_000)
    made = impl(flambeau, "aten", ("exp", lambda a: a + 5, "CPU"))
    try:
        assert flambeau.exp(x).eq(5).all()
    finally:
        made._destroy()


def test_an_undefined_result_is_refused():
    made = impl(flambeau, "aten", ("exp", lambda a: None, "CPU"))
    try:
        with pytest.raises(RuntimeError, match=r"exp: expected the kernel to return a Tensor, got None"):
            flambeau.exp(flambeau.zeros(1))
    finally:
        made._destroy()


def test_a_recorded_argument_is_refused_as_a_result():
    made = impl(flambeau, "aten", ("exp", lambda a: a, "CPU"))
    try:
        with pytest.raises(RuntimeError, match="expected the kernel to return a new tensor"):
            flambeau.exp(flambeau.zeros(1, requires_grad=True))
    finally:
        made._destroy()


def test_a_fallback_serves_operators_without_a_kernel():
    names = []
    made = flambeau.library.Library("_", "IMPL")
    made.fallback(lambda op, *args, **kwargs: names.append(str(op)) or flambeau.ones(1), "PrivateUse1")
    assert flambeau._C._dispatch_has_backend_fallback("PrivateUse1")
    made._destroy()
    assert not flambeau._C._dispatch_has_backend_fallback("PrivateUse1")


def test_operators_without_an_entry_are_not_silently_ignored():
    made = flambeau.library.Library("aten", "IMPL")
    with pytest.raises(RuntimeError, match="einsum"):
        made.impl("einsum", lambda *a: None, "CPU")
