"""Normalisations that return their statistics, and weights more exact than what they scale."""

import flambeau as fb
import pytest


def test_native_batch_norm_moves_the_running_statistics() -> None:
    x = fb.randn(6, 3)
    mean, var = fb.zeros(3), fb.ones(3)
    out, save_mean, save_invstd = fb.native_batch_norm(x, None, None, mean, var, True, 0.5, 1e-5)
    assert fb.allclose(mean, 0.5 * x.mean(0))
    assert fb.allclose(var, 0.5 + 0.5 * x.var(0))
    assert fb.allclose(save_mean, x.mean(0), atol=1e-6)
    assert fb.allclose(save_invstd, (x.var(0, correction=0) + 1e-5).rsqrt())
    assert fb.allclose(out, fb.batch_norm(x, None, None, None, None, True, 0.5, 1e-5))


def test_native_batch_norm_saves_nothing_in_evaluation() -> None:
    x, mean, var = fb.randn(6, 3), fb.zeros(3), fb.ones(3)
    _, save_mean, save_invstd = fb.native_batch_norm(x, None, None, mean, var, False, 0.5, 1e-5)
    assert save_mean.shape == save_invstd.shape == (0,)


def test_only_the_first_result_of_native_layer_norm_has_a_gradient() -> None:
    x = fb.randn(2, 3, requires_grad=True)
    out, mean, rstd = fb.native_layer_norm(x, (3,), None, None, 1e-5)
    assert out.requires_grad and not mean.requires_grad and not rstd.requires_grad
    assert mean.shape == rstd.shape == (2, 1)


def test_statistics_of_native_group_norm_have_gradients() -> None:
    x = fb.randn(2, 4, 3, requires_grad=True)
    out, mean, rstd = fb.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
    assert out.requires_grad and mean.requires_grad and rstd.requires_grad
    assert mean.shape == (2, 2)
    with pytest.raises(RuntimeError, match="elements"):
        fb.native_group_norm(x, None, None, 2, 4, 2, 2, 1e-5)


def test_the_inputs_dtype_stays_with_exact_weights() -> None:
    x = fb.randn(2, 3).to(fb.bfloat16)
    assert fb.nn.functional.layer_norm(x, (3,), fb.ones(3), fb.zeros(3)).dtype == fb.bfloat16


def test_softmax_of_nothing() -> None:
    scores = fb.tensor([[-float("inf")] * 2, [0.0, 0.0]])
    assert fb.ops.aten._safe_softmax(scores, 1).tolist() == [[0.0, 0.0], [0.5, 0.5]]
