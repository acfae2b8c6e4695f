"""SessionOptions and RunOptions as onnxruntime has them. What has no meaning here warns once and says so."""

from __future__ import annotations

import enum
import os
import sys
import warnings
from typing import Any, Sequence

from . import _ferry
from ._errors import InvalidArgument, NotImplemented
from ._values import OrtValue

_warned: set[str] = set()


def warn_once(key: str, message: str) -> None:
    """Warns at the caller's line, the first time `key` comes up in this process."""
    if key not in _warned:
        _warned.add(key)
        package = os.path.dirname(__file__)
        level, frame = 2, sys._getframe(1)
        while frame.f_back and os.path.dirname(frame.f_code.co_filename) == package:
            level, frame = level + 1, frame.f_back
        warnings.warn(message, UserWarning, stacklevel=level)


class GraphOptimizationLevel(enum.IntEnum):
    """Ferry knows two levels: ORT_DISABLE_ALL runs the graph as written, every other one rewrites it."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Steps run in order, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Steps run in the order of the model."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _without_meaning(owner: str, name: str, default: Any, why: str) -> property:
    """A property that is remembered, and whose change warns once that it does nothing here."""
    field = "_" + name

    def read(self: Any) -> Any:
        return getattr(self, field, default)

    def write(self: Any, value: Any) -> None:
        if value != default:
            warn_once(f"{owner}.{name}", f"{owner}.{name} has no effect in Ferry: {why}")
        setattr(self, field, value)

    return property(read, write, doc=f"No effect: {why}.")


# Ferry's own settings that are numbers: what kind, and the least that makes sense.
_LIMITS: dict[str, tuple[type, float]] = {
    "time_limit": (float, 0), "max_bytes": (int, 0), "max_iterations": (int, 1), "max_expanded_nodes": (int, 0),
    "max_programs": (int, 1)}


def _limit(name: str, value: Any) -> Any:
    """A number for one of _LIMITS, from a number or from text."""
    kind, least = _LIMITS[name]
    try:
        number = kind(value)
    except (TypeError, ValueError):
        number = least - 1
    if not least <= number < float("inf"):
        what = "a number of seconds" if kind is float else "a whole number"
        raise InvalidArgument(f"{name} must be {what} of at least {least}, got {value!r}")
    return number


_shared_runtime: _ferry.Runtime | None = None
_shared_threads = 0


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Threads that sessions with use_per_session_threads = False share, from now on; 0: one per core. The second number
    has no effect: a run uses one team of threads."""
    global _shared_runtime, _shared_threads
    _shared_runtime, _shared_threads = None, int(intra_op_num_threads)


def shared_runtime() -> _ferry.Runtime:
    global _shared_runtime
    if _shared_runtime is None:
        _shared_runtime = _ferry.Runtime(_shared_threads)
    return _shared_runtime


class SessionOptions:
    """How a session runs.

    >>> options = SessionOptions()
    >>> options.intra_op_num_threads = 1
    >>> options.add_free_dimension_override_by_name("batch", 4)
    >>> options
    SessionOptions(intra_op_num_threads=1, free_dimensions={'batch': 4})
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        """Threads of one run, the caller's included; 0: one per core."""
        self.enable_profiling = False
        """Times every step; `InferenceSession.end_profiling` writes the timeline."""
        self.profile_file_prefix = "ferry_profile"
        """The timeline is written to PREFIX_DATE_TIME.json."""
        self.use_deterministic_compute = False
        """Always so: results never depend on the number of threads."""
        self.use_per_session_threads = True
        """False: the session shares its threads with all others that say so; see `set_global_thread_pool_sizes`."""
        self.time_limit = 0.0
        """Seconds that opening the model and each run may take; 0: any. RuntimeException when they are over."""
        self.max_bytes = 0
        """Bytes that a run may hold at once beside weights: its arena, tensors and strings; 0: any."""
        self.max_iterations = 100_000_000
        """Turns of all Loops and Scans of a run together."""
        self.max_expanded_nodes = 1_000_000
        """Nodes that the model's functions may become."""
        self.max_programs = 32
        """Sets of input shapes that stay ready; the one not used for the longest time leaves first."""
        self._level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self._free_dimensions: dict[str, int] = {}
        self._initializers: dict[str, OrtValue] = {}
        self._config: dict[str, str] = {}

    @property
    def graph_optimization_level(self) -> GraphOptimizationLevel:
        """ORT_DISABLE_ALL runs the graph as written; every other level rewrites it for speed."""
        return self._level

    @graph_optimization_level.setter
    def graph_optimization_level(self, level: int) -> None:
        self._level = GraphOptimizationLevel(level)
        if self._level not in (GraphOptimizationLevel.ORT_DISABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL):
            warn_once("level", f"Ferry knows two levels of optimisation, none and all: {self._level.name} is all")

    inter_op_num_threads = _without_meaning(
        "SessionOptions", "inter_op_num_threads", 0, "one run uses one team of threads; set intra_op_num_threads")
    execution_mode = _without_meaning(
        "SessionOptions", "execution_mode", ExecutionMode.ORT_SEQUENTIAL, "steps run in order, each on all threads")
    execution_order = _without_meaning(
        "SessionOptions", "execution_order", ExecutionOrder.DEFAULT, "steps run in the order of the model")
    enable_cpu_mem_arena = _without_meaning(
        "SessionOptions", "enable_cpu_mem_arena", True, "memory is planned before the run")
    enable_mem_pattern = _without_meaning(
        "SessionOptions", "enable_mem_pattern", True, "memory is planned before the run")
    enable_mem_reuse = _without_meaning("SessionOptions", "enable_mem_reuse", True, "memory is planned before the run")
    log_severity_level = _without_meaning("SessionOptions", "log_severity_level", 2, "nothing is logged; errors are raised")
    log_verbosity_level = _without_meaning("SessionOptions", "log_verbosity_level", 0, "nothing is logged; errors are raised")
    logid = _without_meaning("SessionOptions", "logid", "", "nothing is logged; errors are raised")
    optimized_model_filepath = _without_meaning(
        "SessionOptions", "optimized_model_filepath", "",
        "rewritten graphs use operators of Ferry's own, which no other runtime reads, and are made in milliseconds")

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes the size of a named dimension; runs whose inputs have another size are refused."""
        self._free_dimensions[str(name)] = int(value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """No effect: free dimensions are known by name."""
        warn_once("denotation", "free dimensions are known by name in Ferry, not by denotation: no effect")

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Remembered, without effect: these settings are onnxruntime's own, except Ferry's.

        "ferry.exact" = "1" allows only algorithms that add up products as the operators' texts do (no Winograd);
        "ferry.tune" names a file that remembers which algorithms were fastest here ("none": timed, not remembered);
        "ferry.cache" names a folder for packed weights, which the next start maps instead of packing them again;
        "ferry.precision" = "bf16" keeps the weights of products as bfloat16: half the memory, less exact
        (on a GPU also "tf32" and "fp16");
        "ferry.time_limit", "ferry.max_bytes", "ferry.max_iterations", "ferry.max_expanded_nodes" and
        "ferry.max_programs" are the attributes of these names.
        """
        if key[6:] in _LIMITS and key.startswith("ferry."):
            setattr(self, key[6:], _limit(key[6:], value))
        elif key.startswith("ferry."):
            allowed = {"ferry.exact": ("0", "1"), "ferry.precision": ("float32", "bf16", "tf32", "fp16"), "ferry.tune": (value,),
                       "ferry.cache": (value,)}
            if value not in allowed.get(key, ()):
                raise InvalidArgument(f"Ferry has no session setting '{key}' = '{value}'; it has ferry.exact = 0 or 1, "
                                      "ferry.precision = float32, bf16, tf32 or fp16, ferry.tune = FILE, ferry.cache = FOLDER and the "
                                      f"numbers {', '.join('ferry.' + name for name in _LIMITS)}")
        else:
            warn_once("config " + key, f"the session setting '{key}' is onnxruntime's own and has no effect in Ferry")
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """What was given to `add_session_config_entry`; KeyError when nothing was."""
        return self._config[key]

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Takes this value instead of the initializer `name` of the model; type and shape must be the same."""
        self._initializers[str(name)] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """The same for several, whose data need not lie beside the model."""
        if len(names) != len(values):
            raise ValueError(f"there are {len(names)} names and {len(values)} values")
        for name, value in zip(names, values):
            self.add_initializer(name, value)

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: such libraries are built against onnxruntime."""
        raise NotImplemented("custom operator libraries are built for onnxruntime and cannot be loaded here; "
                             "an operator made of others can be a function of the model")

    def has_providers(self) -> bool:
        """Whether providers were put into the options; they are given to InferenceSession here."""
        return False

    def _native(self) -> "_ferry.Options":
        native = _ferry.Options()
        native.threads = int(self.intra_op_num_threads)
        native.optimize = self._level != GraphOptimizationLevel.ORT_DISABLE_ALL
        native.exact = self._config.get("ferry.exact") == "1"
        native.tune = self._config.get("ferry.tune", "")
        native.cache = self._config.get("ferry.cache", "")
        native.precision = self._config.get("ferry.precision", "float32")
        native.free_dimensions = self._free_dimensions
        for name in _LIMITS:
            setattr(native, name, _limit(name, getattr(self, name)))
        if not self.use_per_session_threads:
            native.runtime = shared_runtime()
            native.threads = 0
        for name, value in self._initializers.items():
            native.set_initializer(name, value._native)
        return native

    def __repr__(self) -> str:
        parts = [f"intra_op_num_threads={self.intra_op_num_threads}"]
        if self._level != GraphOptimizationLevel.ORT_ENABLE_ALL:
            parts.append(f"graph_optimization_level={self._level.name}")
        if self._free_dimensions:
            parts.append(f"free_dimensions={self._free_dimensions}")
        usual = SessionOptions()
        for name in _LIMITS:
            if getattr(self, name) != getattr(usual, name):
                parts.append(f"{name}={getattr(self, name)}")
        if self.enable_profiling:
            parts.append("enable_profiling=True")
        return f"SessionOptions({', '.join(parts)})"


class RunOptions:
    """Options of one run. Set `terminate` from another thread to end it.

    >>> options = RunOptions()
    >>> options.terminate
    False
    >>> options.time_limit = 0.5
    """

    def __init__(self) -> None:
        self._native = _ferry.RunOptions()
        self.only_execute_path_to_fetches = True
        """Always so: only what the outputs asked for need is computed."""
        self._config: dict[str, str] = {}

    log_severity_level = _without_meaning("RunOptions", "log_severity_level", 2, "nothing is logged; errors are raised")
    log_verbosity_level = _without_meaning("RunOptions", "log_verbosity_level", 0, "nothing is logged; errors are raised")
    logid = _without_meaning("RunOptions", "logid", "", "nothing is logged; errors are raised")
    training_mode = _without_meaning("RunOptions", "training_mode", False, "a model runs as it says itself")

    @property
    def terminate(self) -> bool:
        """Ends the runs that use these options, also from another thread, with RuntimeException."""
        return self._native.cancelled()

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._native.set_cancelled(bool(value))

    @property
    def time_limit(self) -> float:
        """Seconds that each of these runs may take, in place of the session's limit; 0: the session's."""
        return self._native.time_limit

    @time_limit.setter
    def time_limit(self, seconds: float) -> None:
        self._native.time_limit = _limit("time_limit", seconds)

    @property
    def max_bytes(self) -> int:
        """Bytes that each of these runs may hold at once, in place of the session's limit; 0: the session's."""
        return self._native.max_bytes

    @max_bytes.setter
    def max_bytes(self, count: int) -> None:
        self._native.max_bytes = _limit("max_bytes", count)

    @property
    def max_iterations(self) -> int:
        """Turns of Loops and Scans of each of these runs, in place of the session's limit; 0: the session's."""
        return self._native.max_iterations

    @max_iterations.setter
    def max_iterations(self, count: int) -> None:
        self._native.max_iterations = count and _limit("max_iterations", count)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Remembered, without effect: these settings are onnxruntime's own, except Ferry's.

        "ferry.time_limit", "ferry.max_bytes" and "ferry.max_iterations" are the attributes of these names.
        """
        if key in ("ferry.time_limit", "ferry.max_bytes", "ferry.max_iterations"):
            setattr(self, key[6:], _limit(key[6:], value))
        elif key.startswith("ferry."):
            raise InvalidArgument(f"Ferry has no run setting '{key}'; it has ferry.time_limit, ferry.max_bytes and "
                                  "ferry.max_iterations")
        else:
            warn_once("run config " + key, f"the run setting '{key}' is onnxruntime's own and has no effect in Ferry")
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """What was given to `add_run_config_entry`; KeyError when nothing was."""
        return self._config[key]

    def add_active_adapter(self, adapter: Any) -> None:
        """Refused: adapters are onnxruntime's own file format."""
        raise NotImplemented("adapters are onnxruntime's own file format; give the weights as inputs, or with "
                             "SessionOptions.add_initializer")
