"""Arguments that distributions and transforms share."""

from flambeau._arguments.glossary import described_by

described = described_by(
    {
        "validate_args": "whether parameters and values are checked. None means the default that\n"
        "            `Distribution.set_default_validate_args` sets.",
        "probs": "the probability of 1, in [0, 1]. Give either `probs` or `logits`.",
        "logits": "the log odds log(p / (1 - p)).",
        "cache_size": "0, or 1 to keep the last pair of argument and value, so that ``t.inv(t(x)) is x``.",
    }
)
