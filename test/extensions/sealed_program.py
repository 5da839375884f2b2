"""Programs on a device whose memory the host cannot touch; prints a line of JSON for each.

Arguments: the folder in which the device is built, and names of programs.
"""

import copy
import gc
import io
import json
import pickle
import sys
import threading
import traceback
import warnings
from pathlib import Path

import flambeau as torch
from flambeau.utils import cpp_extension

DEVICE = "sealed"


def raised(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def on_device(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape).to(DEVICE)


def same(found, expected):
    assert found.device.type == DEVICE, found.device
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert torch.equal(found.cpu(), expected), (found, expected)


def factories(native):
    assert torch.empty(2, 3, device=DEVICE).device == torch.device("sealed:0")
    assert torch.empty(2, device="sealed:1").get_device() == 1
    same(torch.zeros(2, device=DEVICE), torch.zeros(2))
    same(torch.ones(2, dtype=torch.int8, device=DEVICE), torch.ones(2, dtype=torch.int8))
    same(torch.full((2,), 3.5, device=DEVICE), torch.full((2,), 3.5))
    same(torch.arange(5, device=DEVICE), torch.arange(5))
    same(torch.eye(3, device=DEVICE), torch.eye(3))
    same(torch.linspace(0, 1, 3, device=DEVICE), torch.linspace(0, 1, 3))
    same(torch.tensor([[1, 2], [3, 4]], device=DEVICE), torch.tensor([[1, 2], [3, 4]]))
    same(torch.zeros_like(on_device(2)), torch.zeros(2))
    same(torch.zeros(2, 0, device=DEVICE), torch.zeros(2, 0))
    same(torch.empty_strided((2, 2), (1, 2), device=DEVICE).fill_(1), torch.ones(2, 2))
    assert torch.rand_like(torch.ones(2), device=DEVICE).device.type == DEVICE
    assert raised(torch.empty, 2, device="sealed:2") == "RuntimeError"
    assert raised(torch.empty, 1 << 40, device=DEVICE) in ("MemoryError", "OutOfMemoryError")
    with torch.device("sealed:1"):
        assert torch.zeros(2).get_device() == 1


def copies(native):
    x = on_device(2, 3)
    assert x.cpu().tolist() == [[1, 2, 3], [4, 5, 6]]
    same(x.to(torch.float64), x.cpu().double())
    same(x.to("sealed:1"), x.cpu())
    assert x.to("sealed:1").get_device() == 1 and x.to(DEVICE) is x and x.to("sealed:0") is x
    y = torch.zeros(2, 6, device=DEVICE)
    y[:, ::2].copy_(x)
    same(y, torch.tensor([[1.0, 0, 2, 0, 3, 0], [4, 0, 5, 0, 6, 0]]))
    y[:, 1::2].copy_(torch.tensor([7, 8, 9]))
    same(y[0], torch.tensor([1.0, 7, 2, 8, 3, 9]))
    y[:, 1:].copy_(y[:, :-1].clone())
    z = on_device(4)
    overlapping = z.cpu()
    assert raised(z[1:].copy_, z[:-1]) == raised(overlapping[1:].copy_, overlapping[:-1]) == "RuntimeError"
    host = torch.zeros(2, 3)
    host.t().copy_(x.t())
    assert torch.equal(host, x.cpu())
    same(x.t().contiguous(), x.cpu().t().contiguous())
    same(x.clone(), x.cpu())
    assert raised(x.copy_, torch.ones(4)) == "RuntimeError"


def views(native):
    x = on_device(2, 3)
    x[0].add_(10)
    x[:, 1].neg_()
    x.t()[2].zero_()
    same(x, torch.tensor([[11.0, -12, 0], [4, -5, 0]]))
    same(x.view(torch.int32), x.cpu().view(torch.int32))
    same(x.unfold(1, 2, 1), x.cpu().unfold(1, 2, 1))
    assert x.view(-1).data_ptr() == x.data_ptr() and x[0, 1:].data_ptr() == x.data_ptr() + 4
    assert [part.shape for part in torch.split(x, 1)] == [(1, 3), (1, 3)]
    z = torch.tensor([1 + 2j, 3j]).to(DEVICE)
    assert z.conj().is_conj()
    same(z.conj().clone(), z.cpu().conj().resolve_conj())
    same(z.conj() * 2, z.cpu().conj() * 2)
    same(torch.view_as_real(z), torch.view_as_real(z.cpu()))
    z.imag.fill_(0)
    same(z, torch.tensor([1 + 0j, 0j]))


def reading(native):
    x = on_device(2, 2)
    assert x[1, 0].item() == 3 and bool(x[0, 0]) and int(x[1, 1]) == 4 and x.tolist() == [[1, 2], [3, 4]]
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], device='sealed:0')"
    assert "device='sealed:0'" in repr(torch.ones(3000, device=DEVICE))
    for read in (x.numpy, x.__dlpack__, lambda: memoryview(x), lambda: native.read_directly(x)):
        assert raised(read) in ("TypeError", "BufferError", "RuntimeError")
    assert raised(x.pin_memory) == "RuntimeError" and torch.ones(2).pin_memory().tolist() == [1, 1]
    storage = x.untyped_storage()
    assert bytes(storage) == bytes(x.cpu().untyped_storage()) and storage.device == x.device
    assert storage[3] == bytes(storage)[3] and "..." in repr(storage)
    assert raised(x.item) == "RuntimeError" and raised(x.__float__) == "ValueError"
    assert raised(x.share_memory_) == "RuntimeError"


def operators_without_kernels(native):
    x, host = on_device(2, 3), on_device(2, 3).cpu()
    same(x + x * 2, host * 3)
    same(x + torch.tensor(1.0), host + 1)
    same(torch.add(x, 1, alpha=2), host + 2)
    same(x.sum(1), host.sum(1))
    same(x @ x.t(), host @ host.t())
    same(torch.cat([x, x]), torch.cat([host, host]))
    same(x[torch.tensor([1, 0])], host[[1, 0]])
    same(x[x > 2], host[host > 2])
    same(torch.sort(x, descending=True)[1], torch.sort(host, descending=True)[1])
    same(torch._foreach_add([x, x], 1)[1], host + 1)
    assert raised(torch.add, x, torch.ones(3)) == "RuntimeError"
    assert raised(torch.add, x, x.to("sealed:1")) == "RuntimeError"
    assert raised(torch.matmul, x, x) == "RuntimeError"
    assert raised(x.to_sparse) == "NotImplementedError"
    indices = torch.zeros(1, 2, dtype=torch.int64, device=DEVICE)
    assert raised(torch.sparse_coo_tensor, indices, on_device(2)) == "NotImplementedError"
    assert torch.equal(x, x.clone()) and torch.allclose(x, x.clone())


def writes_without_kernels(native):
    x = on_device(4)
    x[1:].mul_(x[:-1].clone())
    same(x, torch.tensor([1.0, 2, 6, 12]))
    out = torch.zeros(2, 4, device=DEVICE)
    torch.sub(x, 1, out=out[:, ::2][0][:0].resize_(0))
    torch.stack([x, x], out=out)
    same(out, torch.stack([x.cpu(), x.cpu()]))
    target = torch.zeros(2, 8, device=DEVICE)
    torch.mul(out, 2, out=target[:, 1::2])
    assert target[:, ::2].sum().item() == 0
    same(target[:, 1::2], out.cpu() * 2)
    empty = torch.empty(0, device=DEVICE)
    torch.exp(x, out=empty)
    same(empty, x.cpu().exp())
    assert raised(torch.exp, x, out=torch.empty(4)) == "RuntimeError"
    values, places = torch.empty(0, device=DEVICE), torch.empty(0, dtype=torch.int64, device=DEVICE)
    torch.max(out, 1, out=(values, places))
    same(places, torch.tensor([3, 3]))
    version = x._version
    x.exp_()
    torch.sin(x, out=x)
    assert x._version == version + 2
    x.set_(out)
    same(x, out.cpu())
    grown = on_device(2).resize_(3)
    same(grown[:2], torch.tensor([1.0, 2]))
    same(
        on_device(3).index_add_(0, torch.tensor([0], device=DEVICE), on_device(1)), torch.tensor([2.0, 2, 3])
    )
    y = on_device(2, 3)
    y[0] = 7
    y[y > 6] = 0
    same(y, torch.tensor([[0.0, 0, 0], [4, 5, 6]]))


def autograd(native):
    host = torch.rand(3, 4, dtype=torch.float64)
    results = []
    for device in ("cpu", DEVICE):
        w = host.clone().to(device).requires_grad_()
        loss = ((w.t() @ w).sin() * w[0]).sum() + w[1:].exp().mean()
        (first,) = torch.autograd.grad(loss, w, create_graph=True)
        first.pow(2).sum().backward()
        results.append((first.detach(), w.grad))
    for expected, found in zip(*results, strict=True):
        assert found.device.type == DEVICE and torch.allclose(found.cpu(), expected)
    w = on_device(2).requires_grad_()
    saved = w * 1
    (saved * saved).sum()
    product = saved * saved
    saved.detach().add_(1)
    assert raised(product.sum().backward) == "RuntimeError"


def transforms(native):
    x = on_device(2, 3)
    same(torch.vmap(lambda row: row.sum())(x), x.cpu().sum(1))
    same(torch.func.grad(lambda t: (t**2).sum())(x), 2 * x.cpu())
    same(torch.func.jvp(torch.sin, (x,), (x,))[1], x.cpu().cos() * x.cpu())
    same(torch.func.functionalize(lambda t: t.clone().add_(1))(x), x.cpu() + 1)
    same(torch.compile(lambda t: (t + 1).relu())(x), x.cpu() + 1)


def modules_and_optimizers(native):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3),
        torch.nn.BatchNorm2d(2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(18, 3),
    )
    twin = copy.deepcopy(model).sealed()
    x, target = torch.rand(4, 1, 5, 5), torch.tensor([0, 1, 2, 0])
    for net, device in ((model, "cpu"), (twin, DEVICE)):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x.to(device)), target.to(device)).backward()
            optimizer.step()
    for (name, expected), found in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert found.device.type == DEVICE and torch.allclose(found.cpu(), expected, atol=1e-5), name
    assert twin(x.to(DEVICE)).is_sealed
    torch.nn.LSTM(3, 4).to(DEVICE)(torch.ones(2, 3, device=DEVICE))


def files(native):
    x = on_device(2, 3)
    model = torch.nn.Linear(3, 1).to(DEVICE)
    file = io.BytesIO()
    torch.save({"whole": x, "row": x[1], "model": model.state_dict()}, file)
    file.seek(0)
    loaded = torch.load(file)
    same(loaded["whole"], x.cpu())
    loaded["row"].zero_()
    assert loaded["whole"][1].tolist() == [0, 0, 0]
    file.seek(0)
    assert torch.load(file, map_location="cpu")["whole"].device.type == "cpu"
    file.seek(0)
    assert torch.load(file, map_location="sealed:1")["whole"].get_device() == 1
    same(pickle.loads(pickle.dumps(x)), x.cpu())
    shared = copy.deepcopy([x, x[0]])
    shared[1].zero_()
    same(shared[0], torch.tensor([[0.0, 0, 0], [4, 5, 6]]))
    same(x, torch.tensor([[1.0, 2, 3], [4, 5, 6]]))
    same(copy.deepcopy(model).weight.detach(), model.weight.detach().cpu())


def random_numbers(native):
    def draw():
        return torch.randn(3, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(1))

    assert torch.equal(draw(), draw())
    torch.manual_seed(5)
    first = torch.rand(3, device=DEVICE)
    on_host = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), on_host), "the streams of the devices are separate"
    assert torch.equal(torch.rand(3, device=DEVICE), first)
    assert raised(torch.rand, 2, device=DEVICE, generator=torch.Generator()) == "RuntimeError"
    assert raised(torch.rand, 2, generator=torch.Generator(DEVICE)) == "RuntimeError"
    assert raised(torch.Generator, "sealed:7") == "RuntimeError"
    generator = torch.Generator(DEVICE)
    state = generator.get_state()
    one = torch.randperm(9, device=DEVICE, generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.randperm(9, device=DEVICE, generator=generator), one)
    assert not torch.equal(torch.randperm(9, device=DEVICE, generator=generator), one)
    assert 0 < torch.nn.functional.dropout(torch.ones(100, device=DEVICE)).eq(0).sum().item() < 100


def warnings_and_errors(native):
    x = on_device(2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.tan(x)
        torch.acosh(x)
        x.neg()
    assert [str(w.message).split(":")[0] for w in seen] == ["tan", "acosh"], seen
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert raised(torch.atan, x) == "UserWarning"
    assert torch.utils.set_privateuse1_fallback("error") == "warn"
    assert raised(torch.sin, x) == "NotImplementedError"
    calls = native.negated()
    same(-x, -x.cpu())
    assert native.negated() == calls + 1
    assert torch.utils.set_privateuse1_fallback("silent") == "error"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.asin(x / 2)
    assert raised(torch.utils.set_privateuse1_fallback, "loud") == "ValueError"
    torch.utils.set_privateuse1_fallback("warn")


def memory_is_given_back(native):
    gc.collect()
    before = native.allocated(0)
    x = on_device(1000)
    assert native.allocated(0) == before + 4000
    y = (x + 1).exp().reshape(10, 100).sum(0)
    del x, y
    gc.collect()
    assert native.allocated(0) == before


def guards_and_threads(native):
    assert native.guarded(1) == 1 and native.current_device() == 0
    native.set_device(1)
    try:
        assert torch.empty(1, device=DEVICE).get_device() == 1
    finally:
        native.set_device(0)
    failures = []

    def work(k):
        try:
            native.set_device(k % 2)
            for _ in range(20):
                x = torch.full((64,), float(k), device=DEVICE)
                assert x.get_device() == k % 2 and (x * 2).sum().item() == 128 * k
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures, failures
    assert raised(native.register_another) == "RuntimeError"


def accelerators(native):
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.device_count() == 2
    assert accelerator.current_accelerator() == torch.device(DEVICE)
    assert accelerator.current_accelerator(check_available=True).index is None
    assert torch.get_device_module() is native and torch._utils._get_available_device_type() == DEVICE
    accelerator.set_device_index(1)
    assert native.current_device() == accelerator.current_device_index() == 1
    accelerator.set_device_index(-1)
    assert native.current_device() == 1
    accelerator.set_device_index(torch.device("sealed:0"))
    block = accelerator.device_index(1)
    with block:
        assert torch.empty(1, device=DEVICE).get_device() == 1
        accelerator.set_device_index(0)
        with block:
            assert native.current_device() == 1
        assert native.current_device() == 0
    assert native.current_device() == 0
    try:
        with accelerator.device_index(1):
            raise KeyError
    except KeyError:
        assert native.current_device() == 0
    assert torch.device(1) == torch.device("sealed:1")
    assert torch.zeros(2, device=1).get_device() == torch.zeros(2).to(1).get_device() == 1
    assert raised(torch.device, -1) == raised(torch.device, 128) == "RuntimeError"
    assert raised(torch.zeros, 2, device=2) == "RuntimeError"
    assert raised(accelerator.set_device_index, 2) == "RuntimeError"
    for device in ("cpu", DEVICE):
        assert raised(accelerator.set_device_index, device) == "ValueError"
    for device in (1.5, True):
        assert raised(accelerator.set_device_index, device) == "TypeError"
    assert raised(accelerator.synchronize) == "RuntimeError", "the module has no function of this name"
    assert raised(accelerator.Graph) == "RuntimeError"


def custom_operators(native):
    torch.library.define("sealed::twice", "(Tensor x) -> Tensor")
    torch.library.impl("sealed::twice", "CPU", lambda x: x * 2)
    assert raised(torch.ops.sealed.twice, on_device(2)) == "NotImplementedError"
    torch.library.impl("sealed::twice", "PrivateUse1", lambda x: x + x)
    same(torch.ops.sealed.twice(on_device(2)), torch.tensor([2.0, 4]))
    library = torch.library.Library("aten", "IMPL")
    library.impl("cos", lambda x: torch.full_like(x, 7), "PrivateUse1")
    same(torch.cos(on_device(2)), torch.tensor([7.0, 7]))
    library._destroy()
    assert torch.allclose(torch.cos(on_device(2)).cpu(), torch.tensor([1.0, 2]).cos())


def main():
    folder, *names = sys.argv[1:]
    torch.utils.rename_privateuse1_backend(DEVICE)
    assert raised(torch.empty, 2, device=DEVICE) == "ModuleNotFoundError"
    source = Path(__file__).with_name("sealed_device.cpp")
    native = cpp_extension.load("sealed_device", [source], build_directory=folder)
    native.register()
    torch._register_device_module(DEVICE, native)
    torch.utils.generate_methods_for_privateuse1_backend()
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                globals()[name](native)
                outcome = "ok"
            except BaseException:
                outcome = traceback.format_exc()
        print(json.dumps([name, outcome]), flush=True)


if __name__ == "__main__":
    main()
