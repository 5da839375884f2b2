"""Rarely run error branches: each raises PyTorch's exception type, and its message begins with a name.

A branch whose message names an undefined variable would raise NameError or AttributeError instead.
"""

from __future__ import annotations

import importlib
import re

import flambeau
import pytest
from oracle import pytorch


def sgd(fw):
    return fw.optim.SGD([fw.nn.Parameter(fw.ones(2))], lr=0.1, momentum=0.9)


def param(fw, *shape):
    return [fw.nn.Parameter(fw.ones(*(shape or (2,))))]


def module(fw, name):
    return importlib.import_module(f"{fw.__name__}.{name}")


def normal(fw):
    return fw.distributions.Normal(fw.zeros(2), fw.ones(2), validate_args=True)


BRANCHES = {
    # optim
    "Adadelta rho": lambda fw: fw.optim.Adadelta(param(fw), rho=1.1),
    "Adam betas": lambda fw: fw.optim.Adam(param(fw), betas=(1.0, 0.0)),
    "Adam betas mixed": lambda fw: fw.optim.Adam(param(fw), betas=(fw.tensor(0.5), 0.5)),
    "Adam lr in lists": lambda fw: fw.optim.Adam(param(fw), lr=fw.tensor(0.1), foreach=True),
    "Adam lr of two": lambda fw: fw.optim.Adam(param(fw), lr=fw.ones(2)),
    "Adam fused and foreach": lambda fw: fw.optim.Adam(param(fw), fused=True, foreach=True),
    "Adam fused differentiable": lambda fw: fw.optim.Adam(param(fw), fused=True, differentiable=True),
    "Adafactor beta2_decay": lambda fw: fw.optim.Adafactor(param(fw), beta2_decay=0.8),
    "Adafactor eps": lambda fw: fw.optim.Adafactor(param(fw), eps=(-1.0, 1e-3)),
    "Adafactor d": lambda fw: fw.optim.Adafactor(param(fw), d=0.0),
    "LBFGS lr": lambda fw: fw.optim.LBFGS(param(fw), lr=-1.0),
    "LBFGS groups": lambda fw: fw.optim.LBFGS([{"params": param(fw)}, {"params": param(fw)}]),
    "Muon dims": lambda fw: fw.optim.Muon(param(fw)),
    "Muon adjust": lambda fw: fw.optim.Muon(param(fw, 2, 2), adjust_lr_fn="no"),
    "Rprop etas": lambda fw: fw.optim.Rprop(param(fw), etas=(1.0, 0.5)),
    "SGD nesterov": lambda fw: fw.optim.SGD(param(fw), lr=0.1, nesterov=True),
    "SGD lr": lambda fw: fw.optim.SGD(param(fw), lr=-0.5),
    "SparseAdam lr": lambda fw: fw.optim.SparseAdam(param(fw), lr=-1.0),
    "params are a tensor": lambda fw: fw.optim.SGD(fw.ones(2), lr=0.1),
    "params are empty": lambda fw: fw.optim.SGD([], lr=0.1),
    "params are a set": lambda fw: fw.optim.SGD([{"params": set(param(fw))}], lr=0.1),
    "params are numbers": lambda fw: fw.optim.SGD([1], lr=0.1),
    "params are computed": lambda fw: fw.optim.SGD([param(fw)[0] * 2], lr=0.1),
    "a parameter in two groups": lambda fw: _twice(fw),
    "state of other groups": lambda fw: sgd(fw).load_state_dict({"state": {}, "param_groups": []}),
    "state of other sizes": lambda fw: sgd(fw).load_state_dict(
        {"state": {}, "param_groups": [{"params": [0, 1]}]}
    ),
    # optim.lr_scheduler
    "StepLR optimizer": lambda fw: fw.optim.lr_scheduler.StepLR(1, 2),
    "LambdaLR count": lambda fw: fw.optim.lr_scheduler.LambdaLR(sgd(fw), [abs, abs]),
    "ConstantLR factor": lambda fw: fw.optim.lr_scheduler.ConstantLR(sgd(fw), factor=2.0),
    "LinearLR start": lambda fw: fw.optim.lr_scheduler.LinearLR(sgd(fw), start_factor=0.0),
    "LinearLR end": lambda fw: fw.optim.lr_scheduler.LinearLR(sgd(fw), end_factor=2.0),
    "CyclicLR mode": lambda fw: fw.optim.lr_scheduler.CyclicLR(sgd(fw), 0.1, 1.0, mode="no"),
    "CyclicLR optimizer": lambda fw: fw.optim.lr_scheduler.CyclicLR(1, 0.1, 1.0),
    "CyclicLR lists": lambda fw: fw.optim.lr_scheduler.CyclicLR(sgd(fw), [0.1, 0.2], 1.0),
    "CyclicLR momentum": lambda fw: fw.optim.lr_scheduler.CyclicLR(
        fw.optim.Adagrad(param(fw)), 0.1, 1.0, cycle_momentum=True
    ),
    "OneCycleLR steps": lambda fw: fw.optim.lr_scheduler.OneCycleLR(sgd(fw), 0.1),
    "OneCycleLR total": lambda fw: fw.optim.lr_scheduler.OneCycleLR(sgd(fw), 0.1, total_steps=-1),
    "OneCycleLR share": lambda fw: fw.optim.lr_scheduler.OneCycleLR(
        sgd(fw), 0.1, total_steps=3, pct_start=2.0
    ),
    "OneCycleLR strategy": lambda fw: fw.optim.lr_scheduler.OneCycleLR(
        sgd(fw), 0.1, total_steps=3, anneal_strategy="no"
    ),
    "warm restarts T_0": lambda fw: fw.optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd(fw), 0),
    "warm restarts eta_min": lambda fw: fw.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        sgd(fw), 1, eta_min="no"
    ),
    "plateau factor": lambda fw: fw.optim.lr_scheduler.ReduceLROnPlateau(sgd(fw), factor=1.5),
    "plateau mode": lambda fw: fw.optim.lr_scheduler.ReduceLROnPlateau(sgd(fw), mode="no"),
    "plateau threshold": lambda fw: fw.optim.lr_scheduler.ReduceLROnPlateau(sgd(fw), threshold_mode="no"),
    "plateau min_lr": lambda fw: fw.optim.lr_scheduler.ReduceLROnPlateau(sgd(fw), min_lr=[0.0, 0.0]),
    "chained none": lambda fw: fw.optim.lr_scheduler.ChainedScheduler([]),
    "SWALR strategy": lambda fw: fw.optim.swa_utils.SWALR(sgd(fw), 0.1, anneal_strategy="no"),
    "SWALR epochs": lambda fw: fw.optim.swa_utils.SWALR(sgd(fw), 0.1, anneal_epochs=-1),
    "EMA decay": lambda fw: fw.optim.swa_utils.get_ema_multi_avg_fn(2.0),
    # nn
    "Conv groups": lambda fw: fw.nn.Conv2d(4, 4, 1, groups=0),
    "Conv channels in": lambda fw: fw.nn.Conv2d(3, 4, 1, groups=2),
    "Conv channels out": lambda fw: fw.nn.Conv2d(4, 3, 1, groups=2),
    "Conv padding": lambda fw: fw.nn.Conv2d(1, 1, 1, padding="no"),
    "Conv padding mode": lambda fw: fw.nn.Conv2d(1, 1, 1, padding_mode="no"),
    "Conv same stride": lambda fw: fw.nn.Conv2d(1, 1, 1, stride=2, padding="same"),
    "ConvTranspose mode": lambda fw: fw.nn.ConvTranspose2d(1, 1, 1, padding_mode="reflect"),
    "Embedding padding": lambda fw: fw.nn.Embedding(3, 2, padding_idx=5),
    "GroupNorm": lambda fw: fw.nn.GroupNorm(2, 3),
    "BatchNorm2d": lambda fw: fw.nn.BatchNorm2d(3)(fw.ones(2, 3)),
    "InstanceNorm2d": lambda fw: fw.nn.InstanceNorm2d(3)(fw.ones(2, 3)),
    "CircularPad2d": lambda fw: fw.nn.CircularPad2d(1)(fw.ones(3)),
    "HuberLoss": lambda fw: fw.nn.functional.huber_loss(fw.ones(2), fw.ones(2), delta=-1.0),
    "LSTM dropout": lambda fw: fw.nn.LSTM(2, 2, dropout=2.0),
    "GRU proj": lambda fw: fw.nn.GRU(2, 2, proj_size=1),
    "LSTM proj": lambda fw: fw.nn.LSTM(2, 2, proj_size=2),
    "LSTM size": lambda fw: fw.nn.LSTM(2, 0),
    "LSTM layers": lambda fw: fw.nn.LSTM(2, 2, num_layers=1.5),
    "LSTM bias": lambda fw: fw.nn.LSTM(2, 2, bias=1),
    "LSTM features": lambda fw: fw.nn.LSTM(2, 2)(fw.ones(1, 1, 3)),
    "LSTM hidden": lambda fw: fw.nn.LSTM(2, 2)(fw.ones(1, 1, 2), (fw.ones(1, 1, 3), fw.ones(1, 1, 2))),
    "GRU hidden": lambda fw: fw.nn.GRU(2, 2)(fw.ones(1, 1, 2), fw.ones(1, 1, 3)),
    "RNN nonlinearity": lambda fw: fw.nn.RNN(2, 2, nonlinearity="no"),
    "RNNCell nonlinearity": lambda fw: fw.nn.RNNCell(2, 2, nonlinearity="no")(fw.ones(1, 2)),
    "MultiheadAttention heads": lambda fw: fw.nn.MultiheadAttention(3, 2),
    "MultiheadAttention zero": lambda fw: fw.nn.MultiheadAttention(0, 2),
    "Transformer features": lambda fw: fw.nn.Transformer(4, 2, 1, 1, 4)(fw.ones(1, 1, 3), fw.ones(1, 1, 4)),
    "Transformer batches": lambda fw: fw.nn.Transformer(4, 2, 1, 1, 4)(fw.ones(1, 1, 4), fw.ones(1, 2, 4)),
    "encoder activation": lambda fw: fw.nn.TransformerEncoderLayer(4, 2, activation="no"),
    "FractionalMaxPool": lambda fw: fw.nn.FractionalMaxPool2d(2),
    "FractionalMaxPool ratio": lambda fw: fw.nn.FractionalMaxPool2d(2, output_ratio=(2.0, 0.5)),
    "Sequential +": lambda fw: fw.nn.Sequential() + 1,
    "Sequential *": lambda fw: fw.nn.Sequential(fw.nn.ReLU()) * 0,
    "Sequential []": lambda fw: fw.nn.Sequential()[1],
    "Sequential.insert": lambda fw: fw.nn.Sequential().insert(3, fw.nn.ReLU()),
    "ModuleDict.update": lambda fw: fw.nn.ModuleDict({}).update([1]),
    "ModuleDict.update pairs": lambda fw: fw.nn.ModuleDict({}).update([[1, 2, 3]]),
    "ParameterList()": lambda fw: fw.nn.ParameterList()(1),
    "ParameterDict()": lambda fw: fw.nn.ParameterDict()(1),
    "register_parameter": lambda fw: fw.nn.Module().register_parameter("w", 1),
    "register_parameter name": lambda fw: fw.nn.Module().register_parameter(1, None),
    "register_parameter computed": lambda fw: fw.nn.Module().register_parameter(
        "w", fw.nn.Parameter(fw.ones(1)).as_subclass(fw.nn.Parameter) * 2
    ),
    "register_buffer": lambda fw: fw.nn.Module().register_buffer("b", 1),
    "add_module": lambda fw: fw.nn.Module().add_module("m", 1),
    "assign a parameter": lambda fw: setattr(fw.nn.Linear(1, 1), "weight", 1),
    "train": lambda fw: fw.nn.Module().train(1),
    "uninitialized shape": lambda fw: fw.nn.UninitializedParameter().shape,
    "uninitialized add": lambda fw: fw.nn.UninitializedParameter() + 1,
    # nn.init, nn.utils
    "gain": lambda fw: fw.nn.init.calculate_gain("no"),
    "xavier": lambda fw: fw.nn.init.xavier_uniform_(fw.ones(2)),
    "kaiming": lambda fw: fw.nn.init.kaiming_normal_(fw.ones(2)),
    "kaiming mode": lambda fw: fw.nn.init.kaiming_uniform_(fw.ones(2, 2), mode="no"),
    "eye_": lambda fw: fw.nn.init.eye_(fw.ones(2)),
    "dirac_": lambda fw: fw.nn.init.dirac_(fw.ones(2)),
    "dirac_ groups": lambda fw: fw.nn.init.dirac_(fw.ones(3, 2, 1), groups=2),
    "orthogonal_": lambda fw: fw.nn.init.orthogonal_(fw.ones(2)),
    "sparse_": lambda fw: fw.nn.init.sparse_(fw.ones(2), 0.5),
    "fusion": lambda fw: module(fw, "nn.utils.fusion").fuse_conv_bn_eval(
        fw.nn.Conv1d(1, 1, 1), fw.nn.BatchNorm1d(1)
    ),
    "vector_to_parameters": lambda fw: fw.nn.utils.vector_to_parameters(1, param(fw)),
    "orthogonal name": lambda fw: fw.nn.utils.parametrizations.orthogonal(fw.nn.Linear(2, 2), "no"),
    "orthogonal map": lambda fw: fw.nn.utils.parametrizations.orthogonal(
        fw.nn.Linear(2, 2), orthogonal_map="no"
    ),
    "spectral_norm name": lambda fw: fw.nn.utils.parametrizations.spectral_norm(fw.nn.Linear(2, 2), "no"),
    "spectral_norm steps": lambda fw: fw.nn.utils.parametrizations.spectral_norm(
        fw.nn.Linear(2, 2), n_power_iterations=0
    ),
    "remove weight_norm": lambda fw: fw.nn.utils.remove_weight_norm(fw.nn.Linear(2, 2)),
    "parametrize name": lambda fw: module(fw, "nn.utils.parametrize").register_parametrization(
        fw.nn.Linear(2, 2), "no", fw.nn.ReLU()
    ),
    "remove parametrization": lambda fw: module(fw, "nn.utils.parametrize").remove_parametrizations(
        fw.nn.Linear(2, 2), "weight"
    ),
    "prune amount": lambda fw: module(fw, "nn.utils.prune").RandomUnstructured(2.0),
    "prune count": lambda fw: module(fw, "nn.utils.prune").l1_unstructured(fw.nn.Linear(1, 1), "weight", 9),
    "prune type": lambda fw: module(fw, "nn.utils.prune").RandomUnstructured("no"),
    "prune.remove": lambda fw: module(fw, "nn.utils.prune").remove(fw.nn.Linear(2, 2), "weight"),
    "prune channels": lambda fw: module(fw, "nn.utils.prune").random_structured(
        fw.nn.Linear(2, 2), "bias", 1, 0
    ),
    "prune dim": lambda fw: module(fw, "nn.utils.prune").random_structured(
        fw.nn.Linear(2, 2), "weight", 1, 5
    ),
    "prune several": lambda fw: module(fw, "nn.utils.prune").global_unstructured(
        1, module(fw, "nn.utils.prune").L1Unstructured, amount=1
    ),
    # nn.functional
    "gaussian_nll_loss": lambda fw: fw.nn.functional.gaussian_nll_loss(fw.ones(2), fw.ones(2), -fw.ones(2)),
    "gaussian_nll_loss size": lambda fw: fw.nn.functional.gaussian_nll_loss(
        fw.ones(2, 3), fw.ones(2, 3), fw.ones(4)
    ),
    "multi_margin_loss": lambda fw: fw.nn.functional.multi_margin_loss(
        fw.ones(2, 3), fw.tensor([0, 1]), weight=fw.ones(1, 3)
    ),
    "hardtanh": lambda fw: fw.nn.functional.hardtanh(fw.ones(2), 1.0, -1.0),
    "embedding_bag offsets": lambda fw: fw.nn.functional.embedding_bag(
        fw.tensor([[0]]), fw.ones(2, 2), fw.tensor([0])
    ),
    "embedding_bag max": lambda fw: fw.nn.functional.embedding_bag(
        fw.tensor([[0]]), fw.ones(2, 2), mode="max", scale_grad_by_freq=True
    ),
    "instance_norm": lambda fw: fw.nn.functional.instance_norm(fw.ones(1, 1, 1)),
    "batch_norm": lambda fw: fw.nn.functional.batch_norm(fw.ones(1, 1), None, None, training=True),
    "interpolate": lambda fw: fw.nn.functional.interpolate(fw.ones(1, 1, 2), 2, align_corners=True),
    "antialias": lambda fw: fw.nn.functional.interpolate(fw.ones(1, 1, 2), 2, antialias=True),
    # distributions
    "Bernoulli": lambda fw: fw.distributions.Bernoulli(),
    "Categorical": lambda fw: fw.distributions.Categorical(fw.tensor(1.0)),
    "Geometric": lambda fw: fw.distributions.Geometric(fw.tensor(0.0), validate_args=True),
    "Normal.log_prob": lambda fw: normal(fw).log_prob(1),
    "Normal.log_prob shape": lambda fw: normal(fw).log_prob(fw.ones(3)),
    "MultivariateNormal": lambda fw: fw.distributions.MultivariateNormal(fw.ones(2)),
    "MultivariateNormal loc": lambda fw: fw.distributions.MultivariateNormal(fw.tensor(1.0), fw.eye(2)),
    "MultivariateNormal matrix": lambda fw: fw.distributions.MultivariateNormal(fw.ones(2), fw.ones(2)),
    "MultivariateNormal event": lambda fw: fw.distributions.MultivariateNormal(
        fw.ones(2), fw.eye(2), validate_args=True
    ).log_prob(fw.ones(3)),
    "LowRank factor": lambda fw: fw.distributions.LowRankMultivariateNormal(
        fw.ones(2), fw.ones(3, 1), fw.ones(2)
    ),
    "LowRank diagonal": lambda fw: fw.distributions.LowRankMultivariateNormal(
        fw.ones(2), fw.ones(2, 1), fw.ones(3)
    ),
    "Wishart": lambda fw: fw.distributions.Wishart(fw.tensor(3.0)),
    "Multinomial": lambda fw: fw.distributions.Multinomial(fw.tensor([1, 2]), fw.ones(2)),
    "validate_args": lambda fw: fw.distributions.Distribution.set_default_validate_args(3),
    "ExpTransform cache": lambda fw: fw.distributions.ExpTransform(cache_size=3),
    "SoftmaxTransform": lambda fw: fw.distributions.SoftmaxTransform().forward_shape(()),
    "StickBreaking": lambda fw: fw.distributions.StickBreakingTransform().forward_shape(()),
    "StickBreaking back": lambda fw: fw.distributions.StickBreakingTransform().inverse_shape(()),
    "CorrCholesky": lambda fw: fw.distributions.CorrCholeskyTransform().forward_shape(()),
    "CorrCholesky back": lambda fw: fw.distributions.CorrCholeskyTransform().inverse_shape((2,)),
    "CorrCholesky square": lambda fw: fw.distributions.CorrCholeskyTransform().inverse_shape((2, 3)),
    "ReshapeTransform": lambda fw: fw.distributions.ReshapeTransform((2,), (1, 2)).forward_shape((3,)),
    "ReshapeTransform dims": lambda fw: fw.distributions.ReshapeTransform((2,), (1, 2)).forward_shape(()),
    "CatTransform": lambda fw: fw.distributions.CatTransform([1]),
    "StackTransform": lambda fw: fw.distributions.StackTransform([1]),
    "IndependentTransform": lambda fw: fw.distributions.IndependentTransform(
        fw.distributions.ExpTransform(), 2
    )(fw.ones(1)),
    "transform_to": lambda fw: fw.distributions.transform_to(
        fw.distributions.constraints.MixtureSameFamilyConstraint(fw.distributions.constraints.real)
    ),
    "register": lambda fw: fw.distributions.transform_to.register(1, abs),
    "broadcast_all": lambda fw: module(fw, "distributions.utils").broadcast_all("a"),
    "tril_matrix_to_vec": lambda fw: module(fw, "distributions.utils").tril_matrix_to_vec(fw.eye(2), 5),
    # utils.data
    "TensorDataset": lambda fw: fw.utils.data.TensorDataset(fw.ones(2), fw.ones(3)),
    "ConcatDataset": lambda fw: fw.utils.data.ConcatDataset([]),
    "ConcatDataset index": lambda fw: fw.utils.data.ConcatDataset([[1, 2]])[-5],
    "ChainDataset": lambda fw: list(fw.utils.data.ChainDataset([[1]])),
    "StackDataset": lambda fw: fw.utils.data.StackDataset(),
    "StackDataset both": lambda fw: fw.utils.data.StackDataset([1], a=[1]),
    "StackDataset sizes": lambda fw: fw.utils.data.StackDataset([1], [1, 2]),
    "random_split": lambda fw: fw.utils.data.random_split([1, 2], [3, 4]),
    "BatchSampler": lambda fw: fw.utils.data.BatchSampler([1], 0, False),
    "BatchSampler drop": lambda fw: fw.utils.data.BatchSampler([1], 1, 1),
    "weights": lambda fw: fw.utils.data.WeightedRandomSampler(fw.ones(2, 2), 1),
    "weights replacement": lambda fw: fw.utils.data.WeightedRandomSampler([1.0], 1, replacement=1),
    "DistributedSampler": lambda fw: fw.utils.data.DistributedSampler([1], num_replicas=2, rank=5),
    "workers": lambda fw: fw.utils.data.DataLoader([1], num_workers=-1),
    "timeout": lambda fw: fw.utils.data.DataLoader([1], timeout=-1),
    "persistent": lambda fw: fw.utils.data.DataLoader([1], persistent_workers=True),
    "prefetch": lambda fw: fw.utils.data.DataLoader([1], prefetch_factor=2),
    "context": lambda fw: fw.utils.data.DataLoader([1], multiprocessing_context="fork"),
    "context name": lambda fw: fw.utils.data.DataLoader([1], num_workers=1, multiprocessing_context="no"),
    "sampler and shuffle": lambda fw: fw.utils.data.DataLoader([1], sampler=[0], shuffle=True),
    "batch_sampler": lambda fw: fw.utils.data.DataLoader([1], batch_sampler=[[0]], drop_last=True),
    "drop_last": lambda fw: fw.utils.data.DataLoader([1], batch_size=None, drop_last=True),
    "set batch_size": lambda fw: setattr(fw.utils.data.DataLoader([1]), "batch_size", 3),
    # autograd, func
    "grad materialize": lambda fw: fw.autograd.grad(
        param(fw)[0].sum(), param(fw), allow_unused=False, materialize_grads=True
    ),
    "jacobian strategy": lambda fw: fw.autograd.functional.jacobian(fw.sin, fw.ones(1), strategy="no"),
    "jacobian strict": lambda fw: fw.autograd.functional.jacobian(
        lambda x: fw.ones(1), fw.ones(1), strict=True
    ),
    "hessian strict": lambda fw: fw.autograd.functional.hessian(
        lambda x: (2 * x).sum(), fw.ones(1), strict=True
    ),
    "vjp v": lambda fw: fw.autograd.functional.vjp(fw.sin, fw.ones(2)),
    "vjp size": lambda fw: fw.autograd.functional.vjp(fw.sin, fw.ones(2), fw.ones(3)),
    "jvp count": lambda fw: fw.autograd.functional.jvp(lambda a, b: a, (fw.ones(1), fw.ones(1)), fw.ones(1)),
    "exit_dual_level": lambda fw: module(fw, "autograd.forward_ad").exit_dual_level(),
    "Function keywords": lambda fw: fw.autograd.Function.apply(a=1),
    "grad argnums": lambda fw: fw.func.grad(fw.sum, argnums=(0, 0))(fw.ones(2)),
    "jacrev chunk": lambda fw: fw.func.jacrev(fw.sin, chunk_size=0)(fw.ones(2)),
    "vmap none": lambda fw: fw.func.vmap(fw.sin)(),
    "vmap in_dims": lambda fw: fw.func.vmap(fw.sin, in_dims=3)(fw.ones(2)),
    "vmap of a number": lambda fw: fw.func.vmap(fw.sin, in_dims=(0,))(1),
    "vmap out_dims": lambda fw: fw.func.vmap(fw.sin, out_dims="a")(fw.ones(2)),
    "vmap output": lambda fw: fw.func.vmap(lambda x: 1)(fw.ones(2)),
    "vmap randomness": lambda fw: fw.func.vmap(fw.sin, randomness="no")(fw.ones(2)),
    "functional_call": lambda fw: fw.func.functional_call(fw.nn.Linear(1, 1), [1], fw.ones(1)),
    "functional_call strict": lambda fw: fw.func.functional_call(
        fw.nn.Linear(1, 1), {"no": fw.ones(1)}, fw.ones(1), strict=True
    ),
    # others
    "asarray": lambda fw: fw.asarray([1], copy=False),
    "asarray dtype": lambda fw: fw.asarray(fw.ones(1), dtype=fw.int64, copy=False),
    "fill_diagonal_": lambda fw: fw.ones(2).fill_diagonal_(1),
    "fill_diagonal_ sizes": lambda fw: fw.ones(2, 3, 4).fill_diagonal_(1),
    "mT": lambda fw: fw.ones(2).mT,
    "from_file": lambda fw: fw.from_file("/nonexistent/file", size=1),
    "debug mode": lambda fw: fw.set_deterministic_debug_mode("no"),
    "debug mode number": lambda fw: fw.set_deterministic_debug_mode(7),
    "default tensor type": lambda fw: fw.set_default_tensor_type(int),
    "iinfo": lambda fw: fw.iinfo(fw.float32),
    "iinfo of bool": lambda fw: fw.iinfo(fw.bool),
    "hub source": lambda fw: fw.hub.load("a", "b", source="no"),
    "make_tensor": lambda fw: module(fw, "testing").make_tensor(
        (1,), dtype=fw.int64, device="cpu", requires_grad=True
    ),
    "assert_close": lambda fw: fw.testing.assert_close(fw.ones(1), fw.ones(1), rtol=1.0),
    "assert_close pair": lambda fw: fw.testing.assert_close(object(), 1),
    "checkpoint_sequential": lambda fw: module(fw, "utils.checkpoint").checkpoint_sequential(
        [fw.sin], 1, fw.ones(1), use_reentrant=True, no=1
    ),
    "storage index": lambda fw: fw.ones(2).untyped_storage()[99],
    "jit.load": lambda fw: fw.jit.load("/nonexistent/file.pt"),
    "sharing": lambda fw: module(fw, "multiprocessing").set_sharing_strategy("no"),
    "windows": lambda fw: fw.signal.windows.general_cosine(3, a=[]),
    "windows list": lambda fw: fw.signal.windows.general_cosine(3, a=1),
    "windows center": lambda fw: fw.signal.windows.exponential(3, center=1.0),
    "treespec": lambda fw: module(fw, "utils._pytree").tree_unflatten([1], 1),
    "treespec dumps": lambda fw: module(fw, "utils._pytree").treespec_dumps(1),
    "fx target": lambda fw: fw.fx.Graph().create_node("call_function", "no"),
    "fx lint": lambda fw: fw.fx.Graph().erase_node(fw.fx.Graph().placeholder("x")),
    "proxy": lambda fw: fw.fx.symbolic_trace(lambda x: 1 if x else 2),
    "proxy iterated": lambda fw: fw.fx.symbolic_trace(lambda x: list(x)),
    "infer_schema": lambda fw: fw.library.infer_schema(lambda x: x, mutates_args=()),
}


def _twice(fw):
    optimizer = sgd(fw)
    optimizer.add_param_group({"params": optimizer.param_groups[0]["params"]})


def outcome(branch, fw):
    """Return the exception that a branch raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  (the type is compared below)
        branch(fw)
    return caught.value


# What precedes the colon: names, calls of them, and values in brackets.
HEAD = re.compile(r"[A-Za-z_<][^:\n]{0,120}: |[a-z_]+\(\)")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_raises_pytorchs_type(name):
    found = outcome(BRANCHES[name], flambeau)
    assert HEAD.match(str(found)), str(found)
    torch = pytorch()
    expected = outcome(BRANCHES[name], torch)
    ours = [c.__name__ for c in type(found).__mro__]
    assert type(expected).__name__ in ours, (found, expected)
