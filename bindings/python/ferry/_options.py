"""SessionOptions and RunOptions as onnxruntime has them. What has no meaning here warns once and says so."""

from __future__ import annotations

import enum
import warnings

from . import _ferry

_warned: set[str] = set()


def warn_once(key: str, message: str) -> None:
    if key not in _warned:
        _warned.add(key)
        warnings.warn(message, UserWarning, stacklevel=3)


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _without_meaning(name: str, default, why: str):
    """A property that is remembered, and whose change warns once that it does nothing here."""
    field = "_" + name

    def read(self):
        return getattr(self, field, default)

    def write(self, value):
        if value != default:
            warn_once(name, f"SessionOptions.{name} has no effect in Ferry: {why}")
        setattr(self, field, value)

    return property(read, write, doc=f"No effect: {why}")


class SessionOptions:
    """How a session runs.

    >>> options = SessionOptions()
    >>> options.intra_op_num_threads = 1
    >>> options.add_free_dimension_override_by_name("batch", 4)
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self._free_dimensions: dict[str, int] = {}
        self._config: dict[str, str] = {}

    inter_op_num_threads = _without_meaning(
        "inter_op_num_threads", 0, "one run uses one team of threads; set intra_op_num_threads")
    execution_mode = _without_meaning(
        "execution_mode", ExecutionMode.ORT_SEQUENTIAL, "steps run in order, each on all threads")
    execution_order = _without_meaning("execution_order", ExecutionOrder.DEFAULT, "steps run in the order of the model")
    enable_cpu_mem_arena = _without_meaning("enable_cpu_mem_arena", True, "memory is planned before the run")
    enable_mem_pattern = _without_meaning("enable_mem_pattern", True, "memory is planned before the run")
    enable_mem_reuse = _without_meaning("enable_mem_reuse", True, "memory is planned before the run")
    enable_profiling = _without_meaning("enable_profiling", False, "profiles are written by `ferry bench`")
    profile_file_prefix = _without_meaning("profile_file_prefix", "", "profiles are written by `ferry bench`")
    log_severity_level = _without_meaning("log_severity_level", 2, "nothing is logged; errors are raised")
    log_verbosity_level = _without_meaning("log_verbosity_level", 0, "nothing is logged; errors are raised")
    logid = _without_meaning("logid", "", "nothing is logged; errors are raised")
    use_deterministic_compute = _without_meaning(
        "use_deterministic_compute", False, "results never depend on the number of threads")
    use_per_session_threads = _without_meaning("use_per_session_threads", True, "each session has its own threads")
    optimized_model_filepath = _without_meaning(
        "optimized_model_filepath", "", "use `ferry optimize MODEL -o OUT` to write an optimised model")

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes the size of a named dimension; runs whose inputs have another size are refused."""
        self._free_dimensions[str(name)] = int(value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        warn_once("denotation", "free dimensions are known by name in Ferry, not by denotation: no effect")

    def add_session_config_entry(self, key: str, value: str) -> None:
        warn_once("config " + key, f"the session setting '{key}' is onnxruntime's own and has no effect in Ferry")
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self._config[key]

    def add_initializer(self, name: str, value) -> None:
        raise NotImplementedError("give the initializer as an input of run(): every initializer that is a graph input "
                                  "can be overridden there")

    add_external_initializers = add_initializer

    def register_custom_ops_library(self, path: str) -> None:
        raise NotImplementedError("custom operator libraries are built for onnxruntime and cannot be loaded here")

    def _native(self) -> "_ferry.Options":
        native = _ferry.Options()
        native.threads = self.intra_op_num_threads
        native.optimize = self.graph_optimization_level != GraphOptimizationLevel.ORT_DISABLE_ALL
        native.free_dimensions = self._free_dimensions
        return native


class RunOptions:
    """Options of one run. Set `terminate` from another thread to end it."""

    def __init__(self) -> None:
        self._cancel = _ferry.CancelFlag()
        self.logid = ""
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.only_execute_path_to_fetches = True
        self._config: dict[str, str] = {}

    @property
    def terminate(self) -> bool:
        return self._cancel.get()

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._cancel.set(bool(value))

    def add_run_config_entry(self, key: str, value: str) -> None:
        warn_once("run config " + key, f"the run setting '{key}' is onnxruntime's own and has no effect in Ferry")
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        return self._config[key]
