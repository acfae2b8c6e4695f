"""Ferry: carries trained models from PyTorch to wherever they run.

Who uses onnxruntime changes one import:

    import ferry as rt
    session = rt.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"input": array})

and has more: `check` (is the model valid, and if not, why), `doctor` (what will hurt in deployment, and the fix),
`info` (what is in it), `compare` (with recordings or with another model), `convert` (to another opset), `optimize` (fewer
nodes, the same answers), `quantize` (fewer bits, the loss measured), `export` (from PyTorch).
"""

from . import _ferry
from ._compare import ComparedOutput, ComparedSample, Comparison, FaultyLayer, compare
from ._doctor import Diagnosis, Finding, Mending, ProofStep, doctor
from ._errors import (DeadlineExceeded, DeviceReset, EngineError, EPFail, Fail, FerryError, InvalidArgument, InvalidGraph,
                      InvalidProtobuf, ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound,
                      NotImplemented, RuntimeException, make_error)
from ._generate import Generated, Generator, Tokenizer
from ._optimize import OptimizedModel, optimize, simplify
from ._options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions,
                       set_global_thread_pool_sizes, warn_once)
from ._quantize import QuantizedModel, quantize
from ._session import _PROVIDERS, InferenceSession, IOBinding, ModelMetadata, NodeArg, example_model
from ._tools import CheckResult, ModelInfo, Problem, WrittenModel, check, convert, export, info
from ._values import OrtDevice, OrtValue, SparseTensor, provider_problems

_ferry.set_error_factory(make_error)

__version__ = _ferry.version()

SessionIOBinding = IOBinding


def get_available_providers() -> list[str]:
    """Those that can be used here: with an NVIDIA GPU and its libraries, 'CUDAExecutionProvider' comes first.

    >>> get_available_providers()[-1]
    'CPUExecutionProvider'
    """
    usable = [name for name in get_all_providers() if not provider_problems()[_PROVIDERS[name]]]
    return usable


def get_all_providers() -> list[str]:
    """Those that Ferry has, whether or not they can be used here.

    >>> get_all_providers()
    ['CUDAExecutionProvider', 'CPUExecutionProvider']
    """
    return [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if _PROVIDERS[name] in provider_problems()]


def get_device() -> str:
    """'GPU' where one can be used, else 'CPU'."""
    return "GPU" if "CUDAExecutionProvider" in get_available_providers() else "CPU"


def get_version_string() -> str:
    """The version of Ferry, as `ferry.__version__`."""
    return __version__


def get_build_info() -> str:
    """The version, for reports."""
    return f"Ferry {__version__}"


def has_collective_ops() -> bool:
    """Whether models can run on several machines at once: no."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """No effect: nothing is logged; errors are raised, and what an option does not do is warned of."""
    warn_once("logger severity", "Ferry logs nothing, errors are raised: set_default_logger_severity has no effect")


def set_default_logger_verbosity(verbosity: int) -> None:
    """No effect: nothing is logged."""
    warn_once("logger verbosity", "Ferry logs nothing, errors are raised: set_default_logger_verbosity has no effect")


def set_seed(seed: int) -> None:
    """No effect: an operator that draws by chance takes its seed from the model, or a new one for each run."""
    warn_once("seed", "operators that draw by chance take their seed from the model: set_seed has no effect in Ferry")


def disable_telemetry_events() -> None:
    """There is no telemetry."""


def enable_telemetry_events() -> None:
    """No effect: there is no telemetry."""
    warn_once("telemetry", "Ferry has no telemetry to enable")


__all__ = [
    "CheckResult", "ComparedOutput", "ComparedSample", "Comparison", "DeadlineExceeded", "DeviceReset", "Diagnosis", "EPFail",
    "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "FaultyLayer", "FerryError", "Finding", "Generated",
    "Generator", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "InvalidArgument", "InvalidGraph",
    "InvalidProtobuf", "Mending", "ModelInfo", "ModelLoadCanceled", "ModelLoaded", "ModelMetadata",
    "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NodeArg", "NotFound", "NotImplemented", "OrtDevice", "OrtValue",
    "Problem", "ProofStep", "QuantizedModel", "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions",
    "SparseTensor", "Tokenizer", "WrittenModel", "check", "compare", "convert", "disable_telemetry_events", "doctor",
    "enable_telemetry_events", "example_model", "export", "get_all_providers", "get_available_providers", "get_build_info",
    "get_device", "get_version_string", "has_collective_ops", "info", "quantize", "set_default_logger_severity",
    "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed",
]
