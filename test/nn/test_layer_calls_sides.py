"""Layers call the public functions of `nn.functional` by name, so that programs can count or replace them.

Profilers of operations and replacements of attention assign functions of their own to `nn.functional`.
"""

import pytest
from sides import Scenarios

scenario = Scenarios()

# Layer, arguments of its constructor, shapes of its inputs; "classes" are three class numbers.
LAYERS = [
    *[(name, (), ["images"]) for name in (
        "ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Hardtanh Hardsigmoid Hardswish Softplus LogSigmoid Softsign "
        "Tanhshrink Softshrink Hardshrink LeakyReLU PReLU GLU RReLU Sigmoid Tanh Softmax2d Dropout Dropout2d "
        "AlphaDropout FeatureAlphaDropout"
    ).split()],
    *[(name, (1,), ["images"]) for name in "Softmin Softmax LogSoftmax ZeroPad2d ReflectionPad2d".split()],
    *[(name, (2,), ["images"]) for name in (
        "MaxPool2d AvgPool2d AdaptiveAvgPool2d AdaptiveMaxPool2d PixelShuffle PixelUnshuffle ChannelShuffle "
        "LocalResponseNorm Unfold Upsample"
    ).split()],
    *[(name, (4,), ["images"]) for name in ("BatchNorm2d", "InstanceNorm2d")],
    *[(name, (4, 2, 3), ["images"]) for name in ("Conv2d", "ConvTranspose2d")],
    ("LayerNorm", (8,), ["images"]), ("RMSNorm", (8,), ["images"]), ("GroupNorm", (2, 4), ["images"]),
    ("Linear", (8, 2), ["images"]), ("LPPool2d", (2, 2), ["images"]), ("Threshold", (0.1, 2), ["images"]),
    ("Fold", ((8, 8), 2), ["columns"]), ("Embedding", (4, 4), ["classes"]),
    ("Bilinear", (4, 4, 2), ["rows"] * 2),
    *[(name, (), ["rows", "rows"]) for name in (
        "MSELoss L1Loss BCELoss BCEWithLogitsLoss KLDivLoss SmoothL1Loss HuberLoss CosineSimilarity "
        "PairwiseDistance HingeEmbeddingLoss PoissonNLLLoss SoftMarginLoss MultiLabelSoftMarginLoss"
    ).split()],
    *[(name, (), ["rows", "classes"]) for name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss")],
    *[(name, (), ["rows"] * 3) for name in ("TripletMarginLoss", "GaussianNLLLoss")],
]  # fmt: skip
# With these, the calls inside the function that the layer calls count as well.
WHOLE = [
    ("MultiheadAttention", (4, 2), ["sequences", "memory", "sequences"]),
    ("TransformerEncoderLayer", (4, 2, 8), ["sequences"]),
    ("TransformerDecoderLayer", (4, 2, 8), ["sequences", "memory"]),
]


def calls_of(torch, name, arguments, inputs):
    """The public functions of `nn.functional` that one call of a layer reaches, in order."""
    functional = torch.nn.functional
    shapes = {
        "images": (2, 4, 8, 8), "columns": (1, 16, 49), "rows": (3, 4),
        "sequences": (3, 2, 4), "memory": (3, 2, 4),
    }  # fmt: skip
    tensors = {kind: torch.rand(shape) for kind, shape in shapes.items()}
    tensors["classes"] = torch.tensor([0, 1, 2])
    layer = getattr(torch.nn, name)(*arguments)
    called = []

    def counting(label, function):
        def count(*args, **kwargs):
            called.append(label)
            return function(*args, **kwargs)

        return count

    with pytest.MonkeyPatch.context() as patch:
        for label, function in list(vars(functional).items()):
            internal = label.startswith(("_", "has_torch_function", "handle_torch_function"))
            if callable(function) and not internal and not isinstance(function, type):
                patch.setattr(functional, label, counting(label, function))
        layer(*[tensors[kind] for kind in inputs])
    return called


@scenario
def first_function_of_each_layer(torch):
    return [(name, calls_of(torch, name, *rest)[:1]) for name, *rest in LAYERS]


@scenario
def all_functions_of_attention(torch):
    return [(name, calls_of(torch, name, *rest)) for name, *rest in WHOLE]


@scenario
def attention_that_a_program_replaces(torch):
    """The replacement is used by layers that have been made before."""
    layer = torch.nn.MultiheadAttention(4, 2, bias=False)
    x = torch.ones(3, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", lambda q, *rest, **named: q * 0)
        return layer(x, x, x, need_weights=False)[0].tolist()


@scenario
def the_layer_that_limits_to_six(torch):
    layer = torch.nn.ReLU6(inplace=True)
    return isinstance(layer, torch.nn.Hardtanh), layer.min_val, layer.max_val, repr(layer)


test_as_in_pytorch = scenario.test()
