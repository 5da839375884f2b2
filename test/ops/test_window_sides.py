"""Windows at the top level: PyTorch's values, lengths without a formula, arguments of wrong types."""

import flambeau
from sides import Scenarios, raised

scenario = Scenarios()
NAMES = "hann hamming blackman bartlett kaiser".split()


def windows(torch):
    return [getattr(torch, f"{name}_window") for name in NAMES]


def rounded(window):
    return [round(x, 9) + 0.0 for x in window.tolist()]


@scenario
def lengths(torch):
    cases = [(n, periodic) for n in (0, 1, 2, 3, 7) for periodic in (True, False)]
    return [rounded(made(*case, dtype=torch.float64)) for made in windows(torch) for case in cases]


@scenario
def one_point_is_1_whatever_the_coefficients(torch):
    made = [torch.hamming_window(1, periodic, 0.3, 0.2) for periodic in (True, False)]
    return [*made, torch.kaiser_window(1, False, 3.0)]


@scenario
def coefficients(torch):
    double = {"dtype": torch.float64}
    hamming = [
        torch.hamming_window(5, True, 0.5, **double),
        torch.hamming_window(5, False, 0.3, -0.2, **double),
    ]
    kaiser = [torch.kaiser_window(5, True, -2.0, **double), torch.kaiser_window(5, False, beta=0.0, **double)]
    return [rounded(window) for window in hamming + kaiser]


@scenario
def results_follow_their_options(torch):
    window = torch.hann_window(4, dtype=torch.float16, requires_grad=True)
    meta = torch.hann_window(4, device="meta")
    return [
        window.dtype == torch.float16,
        window.requires_grad,
        window.is_leaf,
        list(meta.shape),
        meta.is_meta,
    ]


@scenario
def arguments_of_wrong_types(torch):
    wrong = [(2.5,), (True,), (None,), (3, None), (3, 1), (3, "a"), ()]
    return [raised("", made, *args)[0] for made in windows(torch) for args in wrong]


@scenario
def wrong_values(torch):
    found = []
    for made in windows(torch):
        for length in (1, 4):
            found.append(raised("expects floating point dtypes, got", made, length, dtype=torch.int64))
            found.append(raised("window", made, length, layout=torch.sparse_coo)[0])
        found.append(raised("window_length", made, -1))
        found.append(raised("overflowed", made, 1 << 62))
        found.append(raised("unexpected keyword argument", made, 4, foo=1)[0])
    return found


def test_messages_name_the_window_that_was_called():
    for made, name in zip(windows(flambeau), NAMES, strict=True):
        assert raised(f"{name}_window: expected window_length >= 0, got -1", made, -1) == (
            "RuntimeError",
            True,
        )


test_as_in_pytorch = scenario.test()
