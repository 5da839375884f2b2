"""Arguments that optimizers and schedulers share."""

from flambeau._arguments.glossary import described_by

described = described_by(
    {
        "params": "the parameters to move: leaf tensors, pairs of a name and a tensor, or dicts (groups)\n"
        "            that hold ``params`` and hyperparameters of their own.",
        "weight_decay": "the coefficient of the L2 penalty, 0 or more; the gradient of the penalty is\n"
        "            ``weight_decay * p``.",
        "maximize": "whether to move along the gradient instead of against it.",
        "foreach": "whether each operation is one call over all parameters of a group. None means False.",
        "differentiable": "whether autograd records the step, so that gradients flow through it.",
        "capturable": "True is accepted for parameters on CUDA devices only, and changes nothing there.",
        "fused": "whether one operator makes the whole step, which needs floating parameters on the CPU.\n"
        "            None means True where that is possible and `foreach` and `differentiable` are off.",
        "optimizer": "the optimizer whose learning rates are set.",
        "last_epoch": "the epoch to resume from, with ``initial_lr`` in each group. -1 starts the schedule.",
    }
)
