"""Texts that PyTorch puts into docstrings, by its names, as far as they hold here."""

reproducibility_notes = {
    "forward_reproducibility_note": "The same inputs give the same values: sums have a fixed order.",
    "backward_reproducibility_note": "The same inputs give the same gradients: sums have a fixed order.",
    "cudnn_reproducibility_note": "cuDNN is not used.",
}
sparse_support_notes = {"sparse_beta_warning": "Layouts other than strided: see docs/parity.md."}
tf32_notes = {"tf32_note": "TensorFloat-32 is not used: products of float32 have its precision."}
common_notes = {
    "experimental_warning": "The function may change.",
    "sync_note": "On a CUDA device the call waits for the result.",
    "sync_note_ex": "On a CUDA device the call waits for the result if check_errors is True.",
    "sync_note_has_ex": "On a CUDA device the call waits for the result; that ending in _ex need not.",
}
