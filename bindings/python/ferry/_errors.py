"""The exceptions of the package, under the names onnxruntime gives them."""

from __future__ import annotations


class FerryError(RuntimeError):
    """Anything the library refuses. The message says what is wrong, where, and what to do."""


class Fail(FerryError):
    """A failure that fits no other class."""


class InvalidArgument(FerryError, ValueError):
    """A wrong input: its name, type, rank or size."""


class InvalidGraph(FerryError):
    """A model that breaks the ONNX standard."""


class InvalidProtobuf(InvalidGraph):
    """A file that is no ONNX model at all."""


class NoSuchFile(FerryError, FileNotFoundError):
    """A file that is not there."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NoModel(FerryError):
    """A session without a model: it was closed."""


class NotImplemented(FerryError, NotImplementedError):  # noqa: A001 - onnxruntime's name
    """A valid model that asks for something Ferry does not do."""


class RuntimeException(FerryError):
    """An error while a model runs: a limit was reached, or the run was cancelled."""


class DeadlineExceeded(RuntimeException, TimeoutError):
    """A run, or the opening of a model, that took longer than its time limit."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class EngineError(FerryError):
    """A fault in Ferry itself."""


class _NeverRaised(FerryError):
    """Kept for `except` clauses written for onnxruntime; never raised here."""


class ModelLoaded(_NeverRaised):
    __doc__ = _NeverRaised.__doc__


class EPFail(_NeverRaised):
    __doc__ = _NeverRaised.__doc__


class ModelLoadCanceled(_NeverRaised):
    __doc__ = _NeverRaised.__doc__


class ModelRequiresCompilation(_NeverRaised):
    __doc__ = _NeverRaised.__doc__


class NotFound(_NeverRaised):
    __doc__ = _NeverRaised.__doc__


class DeviceReset(_NeverRaised):
    __doc__ = _NeverRaised.__doc__


_CLASS_OF = {
    "invalid argument": InvalidArgument,
    "invalid model": InvalidGraph,
    "not found": NoSuchFile,
    "unsupported": NotImplemented,
    "input/output error": Fail,
    "limit reached": RuntimeException,
    "cancelled": RuntimeException,
    "deadline passed": DeadlineExceeded,
    "internal error": EngineError,
}


def make_error(code: str, message: str) -> FerryError:
    if code == "invalid model" and "not an ONNX model" in message:
        return InvalidProtobuf(message)
    return _CLASS_OF.get(code, Fail)(message)
