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


class NoModel(FerryError):
    """A session without a model."""


class NotImplemented(FerryError, NotImplementedError):  # noqa: A001 - onnxruntime's name
    """A valid model that asks for something Ferry does not do."""


class RuntimeException(FerryError):
    """An error while a model runs."""


class EngineError(FerryError):
    """A fault in Ferry itself."""


class ModelLoaded(FerryError):
    """Kept for `except` clauses written for onnxruntime; never raised here."""


class EPFail(FerryError):
    """A provider that failed."""


_CLASS_OF = {
    "invalid argument": InvalidArgument,
    "invalid model": InvalidGraph,
    "not found": NoSuchFile,
    "unsupported": NotImplemented,
    "input/output error": Fail,
    "limit reached": RuntimeException,
    "cancelled": RuntimeException,
    "internal error": EngineError,
}


def make_error(code: str, message: str) -> FerryError:
    return _CLASS_OF.get(code, Fail)(message)
