"""A custom Function that programs in transforms use."""


def cube(m, **members):
    """x ** 3, with a first derivative of its own."""

    class Cube(m.autograd.Function):
        generate_vmap_rule = members.get("generate", True)

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

        @staticmethod
        def jvp(ctx, t):
            return 3 * ctx.saved_tensors[0] ** 2 * t

    return Cube.apply
