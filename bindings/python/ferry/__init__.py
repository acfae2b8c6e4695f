"""Ferry: carries trained models from PyTorch to wherever they run.

Who uses onnxruntime changes one import:

    import ferry as rt
    session = rt.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"input": array})
"""

from . import _ferry
from ._errors import (EngineError, EPFail, Fail, FerryError, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoaded,
                      NoModel, NoSuchFile, NotImplemented, RuntimeException, make_error)
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._session import InferenceSession, IOBinding, ModelMetadata, NodeArg, OrtValue

_ferry.set_error_factory(make_error)

__version__ = _ferry.version()

SessionIOBinding = IOBinding


def get_available_providers() -> list[str]:
    return ["CPUExecutionProvider"]


get_all_providers = get_available_providers


def get_device() -> str:
    return "CPU"


def get_version_string() -> str:
    return __version__


def set_default_logger_severity(severity: int) -> None:
    """Nothing is logged; errors are raised."""


set_default_logger_verbosity = set_default_logger_severity


def disable_telemetry_events() -> None:
    """There is no telemetry."""


enable_telemetry_events = disable_telemetry_events

__all__ = [
    "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "FerryError", "GraphOptimizationLevel",
    "IOBinding", "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoaded",
    "ModelMetadata", "NoModel", "NoSuchFile", "NodeArg", "NotImplemented", "OrtValue", "RunOptions",
    "RuntimeException", "SessionIOBinding", "SessionOptions", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_device", "get_version_string", "set_default_logger_severity",
    "set_default_logger_verbosity",
]
