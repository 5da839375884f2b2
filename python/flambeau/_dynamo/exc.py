"""Exceptions of the capture of graphs, for ``except``."""


class TorchDynamoException(RuntimeError):
    """Any failure of a capture."""


class InternalTorchDynamoError(TorchDynamoException):
    """An internal error of graph capture."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend failed."""


class Unsupported(TorchDynamoException):
    """The program contains something that a graph cannot represent."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """The function of a loop or branch returns what the loop or branch cannot continue with."""


class UserError(Unsupported):
    """The program misuses graph capture."""


class TorchRuntimeError(TorchDynamoException):
    """An operator failed while a graph was captured."""


class RecompileLimitExceeded(Unsupported):
    """A function was compiled too often."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """Graph capture restarts."""


class InvalidBackend(TorchDynamoException):
    """No backend has this name."""
