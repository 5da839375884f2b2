"""The tensor object: the Python part of Tensor, its storage, printing, pickling, exchange of memory."""
