"""Probability distributions: samples, differentiable samples, densities, entropies, divergences.

Parameters are tensors that broadcast; `sample` draws, `rsample` draws with gradients, `log_prob`, `cdf`,
`icdf` and `entropy` are formulas, `kl_divergence` compares two distributions.

>>> import flambeau as fb
>>> from flambeau.distributions import Normal
>>> Normal(fb.zeros(2), 1.0).log_prob(fb.tensor(0.0))
tensor([-0.9189, -0.9189])
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import flambeau

# These two register the rules of `kl_divergence` when they are imported.
from flambeau.distributions import _kl_mixed, _kl_same, _matrix, constraints, transforms, utils
from flambeau.distributions._bounded import ContinuousBernoulli, GeneralizedPareto, Uniform
from flambeau.distributions._classes import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from flambeau.distributions._composed import Independent, MixtureSameFamily
from flambeau.distributions._gamma import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    _standard_gamma,
)
from flambeau.distributions._location import Cauchy, Laplace, Normal, StudentT, VonMises
from flambeau.distributions._matrix import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal
from flambeau.distributions._powers import InverseGamma, Kumaraswamy, Pareto, Weibull
from flambeau.distributions._relaxed import (
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from flambeau.distributions._transformed import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    LogisticNormal,
    LogNormal,
    TransformedDistribution,
)
from flambeau.distributions._trials import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from flambeau.distributions._wishart import Wishart
from flambeau.distributions.constraint_registry import biject_to, transform_to
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

# PyTorch has a file for each family; programs import from them.
_FILES = {
    "bernoulli": (Bernoulli,),
    "beta": (Beta, Dirichlet),
    "binomial": (Binomial,),
    "categorical": (Categorical,),
    "cauchy": (Cauchy,),
    "chi2": (Chi2, Gamma),
    "continuous_bernoulli": (ContinuousBernoulli,),
    "dirichlet": (Dirichlet,),
    "exponential": (Exponential,),
    "fishersnedecor": (FisherSnedecor, Gamma),
    "gamma": (Gamma, _standard_gamma),
    "generalized_pareto": (GeneralizedPareto,),
    "geometric": (Geometric,),
    "gumbel": (Gumbel,),
    "half_cauchy": (HalfCauchy,),
    "half_normal": (HalfNormal,),
    "independent": (Independent,),
    "inverse_gamma": (InverseGamma,),
    "kumaraswamy": (Kumaraswamy,),
    "laplace": (Laplace,),
    "lkj_cholesky": (LKJCholesky,),
    "log_normal": (LogNormal,),
    "logistic_normal": (LogisticNormal,),
    "lowrank_multivariate_normal": (
        LowRankMultivariateNormal,
        _matrix._batch_capacitance_tril,
        _matrix._batch_lowrank_logdet,
        _matrix._batch_lowrank_mahalanobis,
    ),
    "mixture_same_family": (MixtureSameFamily,),
    "multinomial": (Multinomial,),
    "multivariate_normal": (
        MultivariateNormal,
        _matrix._batch_mahalanobis,
        _matrix._batch_mv,
        _matrix._precision_to_scale_tril,
    ),
    "negative_binomial": (NegativeBinomial,),
    "normal": (Normal,),
    "one_hot_categorical": (OneHotCategorical, OneHotCategoricalStraightThrough),
    "pareto": (Pareto,),
    "poisson": (Poisson,),
    "relaxed_bernoulli": (LogitRelaxedBernoulli, RelaxedBernoulli),
    "relaxed_categorical": (ExpRelaxedCategorical, RelaxedOneHotCategorical),
    "studentT": (StudentT,),
    "transformed_distribution": (TransformedDistribution,),
    "uniform": (Uniform,),
    "von_mises": (VonMises,),
    "weibull": (Weibull,),
    "wishart": (Wishart,),
}

# What most of PyTorch's files import for themselves; programs take it from any of them.
_IN_EVERY_FILE = {
    "Distribution": Distribution,
    "ExponentialFamily": ExponentialFamily,
    "Tensor": flambeau.Tensor,
    "TransformedDistribution": TransformedDistribution,
    "_size": flambeau.types._size,
    "_standard_normal": utils._standard_normal,
    "broadcast_all": utils.broadcast_all,
    "clamp_probs": utils.clamp_probs,
    "constraints": constraints,
    "lazy_property": utils.lazy_property,
    "logits_to_probs": utils.logits_to_probs,
    "probs_to_logits": utils.probs_to_logits,
    "torch": flambeau,
}


def _make_files() -> None:
    for file, contents in _FILES.items():
        name = f"{__name__}.{file}"
        module = ModuleType(name, f"What PyTorch keeps in distributions/{file}.py.")
        module.__spec__ = ModuleSpec(name, None)
        module.__dict__.update(_IN_EVERY_FILE)
        module.__dict__.update({item.__name__: item for item in contents})
        module.__dict__["__all__"] = [i.__name__ for i in contents if not i.__name__.startswith("_")]
        sys.modules[name] = globals()[file] = module


_make_files()

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical",
    "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential",
    "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy",
    "HalfNormal", "Independent", "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky",
    "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "PositiveDefiniteTransform", "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform",
    "VonMises", "Weibull", "Wishart", "biject_to", "constraints", "identity_transform", "kl_divergence",
    "register_kl", "transform_to", "transforms",
]  # fmt: skip
