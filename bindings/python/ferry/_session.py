"""InferenceSession and what belongs to it."""

from __future__ import annotations

import datetime
import os
import threading
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from . import _ferry
from ._errors import FerryError, InvalidArgument, NoModel, NotImplemented
from ._options import RunOptions, SessionOptions, warn_once
from ._values import OrtValue, SparseTensor, device_named, provider_problems

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_PROVIDERS = {CPU: "cpu", CUDA: "cuda"}
# What onnxruntime's CUDA provider can be told and Ferry does by itself: algorithms are always timed, steps always recorded,
# memory always planned.
_CUDA_BY_ITSELF = {
    "arena_extend_strategy", "cudnn_conv_algo_search", "cudnn_conv1d_pad_to_nc1d", "cudnn_conv_use_max_workspace",
    "do_copy_in_default_stream", "enable_cuda_graph", "enable_skip_layer_norm_strict_mode", "fuse_conv_bias", "prefer_nhwc",
    "tunable_op_enable", "tunable_op_max_tuning_duration_ms", "tunable_op_tuning_enable", "use_ep_level_unified_stream"}
_CONV_SEARCHES = ("EXHAUSTIVE", "HEURISTIC", "DEFAULT")


class NodeArg:
    """An input or output: its name, type ('tensor(float)') and shape (ints, names, None)."""

    __slots__ = ("name", "type", "shape")

    def __init__(self, name: str, type: str, shape: list[int | str | None]) -> None:
        self.name, self.type, self.shape = name, type, shape

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


class ModelMetadata:
    """Who made a model, and what it says about itself."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.producer_name: str = facts["producer_name"]
        self.graph_name: str = facts["graph_name"]
        self.domain: str = facts["domain"]
        self.description: str = facts["description"]
        self.graph_description: str = facts["graph_description"]
        self.version: int = facts["version"]
        self.custom_metadata_map: dict[str, str] = facts["custom_metadata_map"]

    def __repr__(self) -> str:
        return (f"ModelMetadata(producer_name={self.producer_name!r}, graph_name={self.graph_name!r}, "
                f"version={self.version})")


class IOBinding:
    """Inputs and outputs bound to memory ahead of a run: outputs are written straight into the arrays given.

    >>> session = InferenceSession(example_model())
    >>> binding = session.io_binding()
    >>> binding.bind_cpu_input("x", np.ones((1, 10), np.float32))
    >>> y = np.empty((1, 3), np.float32)
    >>> binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(y))
    >>> session.run_with_iobinding(binding)
    >>> bool((y == binding.copy_outputs_to_cpu()[0]).all())
    True
    """

    def __init__(self, session: "InferenceSession") -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | str | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Takes an array (or an OrtValue) as input."""
        self._inputs[name] = arr_on_cpu

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        """Takes the memory at an address as input; it must stay there until the run is done."""
        device = device_named(device_type, device_id)
        self._inputs[name] = _ferry.Value.at_address(buffer_ptr, element_type, list(shape), device, int(device_id))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._inputs[name] = ortvalue

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Sequence[int] | None = None, buffer_ptr: int | None = None) -> None:
        """Asks for an output; with an address, type and shape it is written there, else on "cuda" it stays there."""
        device = device_named(device_type, device_id)
        if buffer_ptr is None:
            self._outputs[name] = None if device == "cpu" else device
            return
        if element_type is None or shape is None:
            raise InvalidArgument("an address needs element_type and shape")
        self._outputs[name] = OrtValue(
            _ferry.Value.at_address(buffer_ptr, element_type, list(shape), device, int(device_id)))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Has an output written into a value; its array must be contiguous and writable."""
        if ortvalue._array is not None:
            ortvalue = OrtValue(_ferry.Value.writable(ortvalue._array, ortvalue.element_type()), ortvalue._array)
        self._outputs[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: what is bound is complete, and so are results when a run has ended."""

    synchronize_outputs = synchronize_inputs

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results.clear()

    def get_outputs(self) -> list[OrtValue]:
        return self._results

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        return [value.numpy() for value in self._results]

    def _run(self, run_options: RunOptions | None) -> None:
        names = list(self._outputs) or [output.name for output in self._session.get_outputs()]
        bound = [self._outputs.get(name) for name in names]
        places = [value._native if isinstance(value, OrtValue) else value for value in bound]
        values = self._session._run_values(names, self._inputs, places, run_options)
        self._results = [there if isinstance(there, OrtValue) else OrtValue(value) for value, there in zip(values, bound)]


class InferenceSession:
    """A model, ready to run. Threads may share one session; it works in a forked child as well.

    >>> session = InferenceSession(example_model(), providers=["CPUExecutionProvider"])
    >>> session
    InferenceSession(x: tensor(float)['batch', 10] -> y: tensor(float)['batch', 3])
    >>> outputs = session.run(None, {"x": np.ones((2, 10), np.float32)})
    >>> outputs[0].shape
    (2, 3)
    """

    def __init__(self, path_or_bytes: str | bytes | os.PathLike[str], sess_options: SessionOptions | None = None,
                 providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
                 provider_options: Sequence[dict[Any, Any]] | None = None, **kwargs: Any) -> None:
        self._session: _ferry.Session | None = None
        self._profile: _ferry.Profile | None = None
        for key in kwargs:
            warn_once("keyword " + key, f"InferenceSession's '{key}' is onnxruntime's own and has no effect in Ferry")
        self._options = sess_options or SessionOptions()
        self._providers = _chosen_providers(providers, provider_options)
        native = self._options._native()
        _apply_providers(native, self._providers)
        self._session = _ferry.Session(model_source(path_or_bytes), native)
        if self._options.enable_profiling:
            self._profile = _ferry.Profile()

    def _open(self) -> "_ferry.Session":
        if self._session is None:
            raise NoModel("this session is closed")
        return self._session

    def run(self, output_names: Iterable[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """The outputs asked for (None: all; any value inside the model by its name) as numpy arrays, lists (sequences),
        dicts (maps) and SparseTensors. Contiguous arrays go in without a copy; outputs come out without one."""
        outputs = (self._session or self._open()).run(
            output_names or None, input_feed, None if run_options is None else run_options._native, self._profile)
        for i, output in enumerate(outputs):
            if type(output) is _ferry.Value:
                outputs[i] = SparseTensor(output)
        return outputs

    def _run_values(self, names: Iterable[str] | None, feed: Mapping[str, Any], places: list[Any],
                    run_options: RunOptions | None) -> list["_ferry.Value"]:
        options = None if run_options is None else run_options._native
        return self._open().run_bound(names or None, feed, places, options, self._profile)

    def run_with_ort_values(self, output_names: Iterable[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        """`run` from OrtValues to OrtValues."""
        return [OrtValue(value) for value in self._run_values(output_names, input_dict_ort_values, [], run_options)]

    def run_async(self, output_names: Iterable[str] | None, input_feed: Mapping[str, Any],
                  callback: Callable[[list[Any], Any, str], None], user_data: Any,
                  run_options: RunOptions | None = None) -> None:
        """Runs on a thread of its own, then calls callback(outputs, user_data, error); the error is "" when all is well."""
        self._open()

        def work() -> None:
            outputs, error = [], ""
            try:
                outputs = self.run(output_names, input_feed, run_options)
            except FerryError as caught:
                error = str(caught)
            callback(outputs, user_data, error)

        threading.Thread(target=work, name="ferry run_async").start()

    def io_binding(self) -> IOBinding:
        """Inputs and outputs bound to memory ahead of a run."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs with what is bound."""
        iobinding._run(run_options)

    def get_inputs(self) -> list[NodeArg]:
        """What a run must be given."""
        return [NodeArg(*facts) for facts in self._open().inputs()]

    def get_outputs(self) -> list[NodeArg]:
        """What a run gives."""
        return [NodeArg(*facts) for facts in self._open().outputs()]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs for which the model has a default."""
        return [NodeArg(*facts) for facts in self._open().overridable()]

    def get_modelmeta(self) -> ModelMetadata:
        """Who made the model, and what it says about itself."""
        return ModelMetadata(self._open().metadata())

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_providers(self) -> list[str]:
        """Who runs the model, in the order in which they are asked for each node."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """What each of them was told."""
        return {name: {str(key): str(value) for key, value in given.items()} for name, given in self._providers.items()}

    def set_providers(self, providers: Sequence[Any] | None = None,
                      provider_options: Sequence[dict[Any, Any]] | None = None) -> None:
        """Warns: providers are chosen when the session is opened."""
        chosen = _chosen_providers(providers, provider_options)
        if chosen != self._providers:
            warn_once("set_providers", "providers are chosen when a session is opened: set_providers has no effect")

    def enable_fallback(self) -> None:
        """There is nothing to fall back from: a provider that cannot be used is known when the session is opened."""

    disable_fallback = enable_fallback

    def end_profiling(self) -> str:
        """Writes the timeline of all runs so far and gives the file's name; "" when profiling is not enabled. It is Chrome
        trace JSON: ui.perfetto.dev and chrome://tracing show it."""
        if self._profile is None:
            return ""
        profile, self._profile = self._profile, None
        now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        path = f"{self._options.profile_file_prefix}_{now}.json"
        profile.write(path)
        return path

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, on the clock of time.monotonic_ns."""
        return 0 if self._profile is None else self._profile.start_ns()

    def random_inputs(self, dimensions: Mapping[str, int] | None = None, seed: int = 1) -> dict[str, Any]:
        """Inputs that fit the model, from a seed; named dimensions are 1 unless `dimensions` says otherwise.

        >>> InferenceSession(example_model()).random_inputs({"batch": 4})["x"].shape
        (4, 10)
        """
        return self._open().random_inputs(dict(dimensions or {}), seed)

    def get_tuning_results(self) -> list[Any]:
        """Nothing is tuned at run time."""
        return []

    def set_ep_dynamic_options(self, options: dict[str, str]) -> None:
        """No effect: the CPU has no such options."""
        warn_once("ep dynamic options", "the CPU has no options that change while a session is open: no effect")

    def run_with_ortvaluevector(self, *_: Any) -> None:
        """Refused: a call for onnxruntime's training; use run_with_iobinding."""
        raise NotImplemented("run_with_ortvaluevector belongs to onnxruntime's training; use run_with_iobinding")

    def close(self) -> None:
        """Lets go of the model; a later call says that the session is closed. Runs of other threads go on to their end."""
        self.end_profiling()
        self._session = None

    def __enter__(self) -> "InferenceSession":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session is None:
            return "InferenceSession(closed)"

        def ends(args: list[NodeArg]) -> str:
            return ", ".join(f"{arg.name}: {arg.type}{arg.shape}" for arg in args)

        return f"InferenceSession({ends(self.get_inputs())} -> {ends(self.get_outputs())})"


def model_source(model: Any) -> str | bytes:
    """A path, the bytes of a model, or anything that can be serialized to them (onnx.ModelProto)."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, (bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    return os.fsdecode(os.fspath(model))


def _chosen_providers(providers: Sequence[Any] | None,
                      provider_options: Sequence[dict[Any, Any]] | None) -> dict[str, dict[Any, Any]]:
    """The providers that can be used, with their options, in the caller's order."""
    if provider_options is not None and (providers is None or len(providers) != len(provider_options)):
        raise ValueError("providers and provider_options must be lists of the same length")
    chosen: dict[str, dict[Any, Any]] = {}
    for i, provider in enumerate(providers or [CPU]):
        name, options = (provider, {}) if isinstance(provider, str) else provider
        options = {**options, **(provider_options[i] if provider_options else {})}
        problem = provider_problems().get(_PROVIDERS.get(name, ""), "it is not part of this build")
        if problem:
            warn_once("provider " + name, f"provider '{name}' is not available: {problem}; the model runs on the CPU")
            continue
        chosen[name] = options
    return chosen or {CPU: {}}


def _apply_providers(native: "_ferry.Options", chosen: dict[str, dict[Any, Any]]) -> None:
    native.provider = ",".join(_PROVIDERS[name] for name in chosen)
    if list(chosen) == [CUDA]:
        native.provider = "cuda,cpu"  # as onnxruntime does, which always adds the CPU behind the others
        chosen[CPU] = {}
    for key in chosen.get(CPU, {}):
        warn_once(f"provider option {key}", f"the provider option '{key}' is onnxruntime's own: no effect in Ferry")
    for key, value in chosen.get(CUDA, {}).items():
        _apply_cuda_option(native, str(key), value)


def _apply_cuda_option(native: "_ferry.Options", key: str, value: Any) -> None:
    if key == "device_id":
        if int(value) != 0:
            raise InvalidArgument(f"device_id is {value}, and device 0 is the one that is used; "
                                  "CUDA_VISIBLE_DEVICES says which GPU that is")
    elif key == "gpu_mem_limit":
        if int(value) < 0:
            raise InvalidArgument(f"gpu_mem_limit must be a number of bytes, got {value!r}")
        native.device_memory = 0 if int(value) >= 2**63 - 1 else int(value)
    elif key == "use_tf32":
        if str(value) in ("1", "True", "true") and native.precision == "float32":
            native.precision = "tf32"
    elif key == "cudnn_conv_algo_search" and str(value) not in _CONV_SEARCHES:
        raise InvalidArgument(f"cudnn_conv_algo_search must be one of {', '.join(_CONV_SEARCHES)}, got {value!r}")
    elif key not in _CUDA_BY_ITSELF:
        warn_once(f"provider option {key}", f"the provider option '{key}' is onnxruntime's own: no effect in Ferry")


def example_model() -> bytes:
    """The bytes of a small network, for examples: y[batch, 3] from x[batch, 10].

    >>> InferenceSession(example_model()).get_inputs()
    [NodeArg(name='x', type='tensor(float)', shape=['batch', 10])]
    """
    weights = np.linspace(-1, 1, 30, dtype="<f4").tobytes()

    def field(number: int, content: bytes | int) -> bytes:
        if isinstance(content, int):
            return bytes([number << 3, content])
        return bytes([number << 3 | 2]) + _varint(len(content)) + content

    def tensor_type(dim: int) -> bytes:
        shape = field(1, field(2, b"batch")) + field(1, field(1, dim))
        return field(1, field(1, 1) + field(2, shape))

    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(3, b"product") + field(4, b"MatMul")
    w = field(1, 10) + field(1, 3) + field(2, 1) + field(8, b"w") + field(9, weights)
    graph = (field(1, node) + field(2, b"example") + field(5, w) + field(11, field(1, b"x") + field(2, tensor_type(10)))
             + field(12, field(1, b"y") + field(2, tensor_type(3))))
    return field(1, 8) + field(2, b"ferry") + field(7, graph) + field(8, field(2, 13))


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
