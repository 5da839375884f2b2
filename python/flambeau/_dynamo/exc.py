"""Exceptions of the capture of graphs, for ``except``."""


class TorchDynamoException(RuntimeError):
    """Any failure of a capture."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the capture itself."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend failed."""


class Unsupported(TorchDynamoException):
    """The program does what a graph cannot hold."""


class UserError(Unsupported):
    """The program uses the capture wrongly."""


class TorchRuntimeError(TorchDynamoException):
    """An operator failed while a graph was captured."""


class RecompileLimitExceeded(Unsupported):
    """A function was compiled too often."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """A capture begins again."""
