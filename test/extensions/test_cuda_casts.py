"""Autocast of CUDA: the operators that cast, and the dtypes of their results, are those of PyTorch.

No GPU is needed: PyTorch computes dtypes of fake CUDA tensors, and flambeau those of an out-of-tree device,
which casts as the entries of the specification say for CUDA.
"""

import json
import subprocess
import sys
from pathlib import Path

import flambeau
import pytest
from oracle import pytorch

PROGRAM = Path(__file__).with_name("cuda_casts_program.py")
# Why the dtypes of these operators differ -> the operators.
OTHER_DTYPES = {
    "kernels of CUDA keep the statistics of float16 images in float32": {
        "native_batch_norm", "_native_batch_norm_legit",
    },
    "parts of fake operators do not cast as those of real ones do": {"mvlgamma", "trace"},
    "fake operators take float16, which real ones refuse": {"svd_lowrank", "pca_lowrank"},
    "eigenvectors are multiplied within one operator": {"linalg.pinv", "pinverse"},
}  # fmt: skip
# Operators that flambeau computes by others, which cast.
BY_OTHERS = {
    "AutocastCUDA": {
        "_convolution", "_convolution.deprecated", "_scaled_dot_product_flash_attention",
        "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell", "_upsample_bicubic2d_aa",
        "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
        "cudnn_convolution", "cudnn_convolution_transpose", "einsum", "nll_loss", "nll_loss2d", "pow.Scalar",
        "tensordot", "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d",
        "upsample_nearest2d", "upsample_nearest3d", "upsample_trilinear3d",
    },
    "AutocastCPU": {
        "_addmm_activation", "_convolution.deprecated", "_grid_sampler_2d_cpu_fallback", "_lu_with_info",
        "_native_multi_head_attention", "fake_quantize_per_tensor_affine", "fractional_max_pool2d",
        "fractional_max_pool3d", "max_unpool2d", "max_unpool3d", "mkldnn_rnn_layer",
        "multilabel_margin_loss_forward", "nll_loss", "nll_loss2d", "reflection_pad1d", "reflection_pad2d",
        "replication_pad1d", "replication_pad2d", "replication_pad3d", "stft", "stft.center",
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def outcomes(build_root):
    """Results of the program: how many operators it compared, those that differ, and recurrent layers."""
    pytorch()
    folder = build_root / "sealed_device"
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-W", "ignore", str(PROGRAM), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_result_dtypes_are_pytorchs(outcomes):
    known = set().union(*OTHER_DTYPES.values())
    assert outcomes["compared"] > 500
    assert not {name: pair for name, pair in outcomes["wrong"].items() if name.split()[0] not in known}


def test_recurrent_layers_compute_in_the_lower_precision(outcomes):
    """Kernels of CUDA, which cast input, states and weights; PyTorch has no fake form of them."""
    assert set(outcomes["recurrent"]) == {"LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"}
    assert set().union(*outcomes["recurrent"].values()) == {"float16"}


@pytest.mark.parametrize("key", BY_OTHERS)
def test_the_operators_that_cast_are_pytorchs(key):
    torch = pytorch()
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    names = [name for name in names if name.startswith("aten::")]  # other tests register operators
    assert len(names) > 80
    asked = flambeau._C._dispatch_has_kernel_for_dispatch_key
    others, without = set(), set()
    for name in names:
        try:
            if not asked(name, key):
                without.add(name.removeprefix("aten::"))
        except RuntimeError:  # no operator of this name
            others.add(name.removeprefix("aten::"))
    assert not without
    assert others == BY_OTHERS[key]
