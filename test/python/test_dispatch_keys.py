"""Dispatch keys as values beside PyTorch, kernels for autocast, and torchvision's library."""

import itertools

import flambeau as fb
import pytest
from flambeau import library
from oracle import pytorch

_numbers = itertools.count()


def _sets(torch):
    key, of = torch._C.DispatchKey, torch._C.DispatchKeySet
    both = of(key.AutocastCPU) | of(key.AutocastXPU) | of(key.CPU)
    less = both - of(key.AutocastCPU)
    return [
        {name: int(value) for name, value in key.__members__.items()},
        {name: repr(of(value)) for name, value in key.__members__.items()},
        [repr(both), repr(less), repr(both & less), repr(both.add(key.AutogradCPU)), str(of("Meta"))],
        [both.has(key.CPU), less.has(key.AutocastCPU), less == both, (less | of(key.CPU)) == less],
        [repr(both.highestPriorityTypeId()), repr(of(key.Undefined).highestPriorityTypeId())],
    ]


def test_keys_and_sets_are_those_of_pytorch():
    assert _sets(fb) == _sets(pytorch())


@pytest.mark.parametrize("argument", [None, 3, []], ids=["none", "number", "list"])
def test_sets_are_made_of_a_key(argument):
    with pytest.raises((TypeError, ValueError)):
        fb._C.DispatchKeySet(argument)


def test_excluding_autocast_keys_turns_autocast_off():
    x, autocast = fb.ones(2, 2), fb._C.DispatchKeySet(fb._C.DispatchKey.AutocastCPU)
    autocast |= fb._C.DispatchKeySet(fb._C.DispatchKey.AutocastXPU)  # a device that is not there
    with fb.autocast("cpu"):
        with fb._C._ExcludeDispatchKeyGuard(autocast):
            assert (x @ x).dtype == fb.float32
        assert (x @ x).dtype == fb.bfloat16
        with pytest.raises(KeyError), fb._C._ExcludeDispatchKeyGuard(autocast):
            raise KeyError
        assert fb.is_autocast_enabled("cpu")
        cuda = fb._C.DispatchKeySet(fb._C.DispatchKey.AutocastCUDA)
        with fb._C._ExcludeDispatchKeyGuard(cuda):
            assert (x @ x).dtype == fb.bfloat16


def test_other_keys_are_left_out_of_dispatch():
    x = fb.ones(2, requires_grad=True)
    recording = fb._C.DispatchKeySet(fb._C.DispatchKey.AutogradCPU)
    with fb._C._ExcludeDispatchKeyGuard(recording):
        assert not x.exp().requires_grad
        with pytest.raises(KeyError), fb._C._ExcludeDispatchKeyGuard(recording):
            raise KeyError
        assert not x.exp().requires_grad
    assert x.exp().requires_grad
    with fb._C._ExcludeDispatchKeyGuard(fb._C.DispatchKeySet(fb._C.DispatchKey.CPU)):
        assert x.exp().requires_grad  # a call needs its backend


def test_a_kernel_for_autocast_runs_under_autocast_only():
    space = f"cast{next(_numbers)}"
    made = library.Library(space, "DEF")
    made.define("kind(Tensor x) -> Tensor")
    made.impl("kind", lambda x: x.clone(), "CPU")
    keys = fb._C.DispatchKeySet(fb._C.DispatchKey.AutocastCPU)

    def below(x):
        with fb._C._ExcludeDispatchKeyGuard(keys):
            return getattr(fb.ops, space).kind(x.double())

    made.impl("kind", below, "AutocastCPU")
    operator = getattr(fb.ops, space).kind
    assert operator(fb.ones(1)).dtype == fb.float32
    with fb.autocast("cpu"):
        assert operator(fb.ones(1)).dtype == fb.float64


@pytest.mark.parametrize("name", ["torchvision/image.so", "other/_C.so", "torchvision/_Cuda.so"])
def test_other_libraries_are_refused(tmp_path, name):
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).touch()
    with pytest.raises(OSError, match="compiled for PyTorch"):
        fb.ops.load_library(tmp_path / name)


def test_a_library_that_is_not_there_is_refused():
    with pytest.raises(OSError, match="nowhere"):
        fb.ops.load_library("/nowhere/torchvision/_C.so")


def test_loading_torchvision_defines_its_operators_once(tmp_path):
    file = tmp_path / "torchvision" / "_C.so"
    file.parent.mkdir()
    file.touch()
    for _ in range(2):
        fb.ops.load_library(file)
    assert str(file) in fb.ops.loaded_libraries
    assert fb.ops.torchvision._cuda_version() == -1
    assert str(fb.ops.torchvision.nms.default._schema).startswith(
        "torchvision::nms(Tensor dets, Tensor scores,"
    )
    with pytest.raises(NotImplementedError, match="kernel"):
        fb.ops.torchvision.qnms(fb.zeros(1, 4), fb.zeros(1), 0.5)


def test_operators_of_torchvision_compute_and_have_gradients(tmp_path):
    file = tmp_path / "torchvision" / "_C.so"
    file.parent.mkdir()
    file.touch()
    fb.ops.load_library(file)
    operators, x = fb.ops.torchvision, fb.ones(1, 4, 4, 4, requires_grad=True)
    rois = fb.tensor([[0.0, 0, 0, 2, 2]])
    assert operators.nms(fb.zeros(2, 4), fb.zeros(2), iou_threshold=0.5).tolist() == [0, 1]
    pooled, places = operators.roi_pool(x, rois, 1.0, 2, 2)
    assert places.dtype == fb.int32
    both = operators.ps_roi_align(x, rois, 1.0, 2, 2, 2)[0], operators.ps_roi_pool(x, rois, 1.0, 2, 2)[0]
    total = sum(out.sum() for out in (pooled, *both, operators.roi_align(x, rois, 1.0, 2, 2, -1, True)))
    total.backward()
    assert x.grad.sum().item() == pytest.approx(total.item())  # ones: every output is linear in them
    weight, offset = fb.ones(2, 4, 1, 1), fb.zeros(1, 2, 4, 4)
    out = operators.deform_conv2d(
        x, weight, offset, fb.zeros(1, 0), fb.zeros(2), 1, 1, 0, 0, 1, 1, 1, 1, False
    )
    assert out.unique().tolist() == [4]
