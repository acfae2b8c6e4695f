"""InferenceSession and what belongs to it."""

from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

import numpy as np

from . import _ferry
from ._errors import InvalidArgument, NoModel
from ._options import RunOptions, SessionOptions, warn_once

CPU = "CPUExecutionProvider"


class NodeArg:
    """An input or output: its name, type ('tensor(float)') and shape (ints, names, None)."""

    __slots__ = ("name", "type", "shape")

    def __init__(self, name: str, type: str, shape: list) -> None:
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
        return f"ModelMetadata(producer_name={self.producer_name!r}, graph_name={self.graph_name!r}, version={self.version})"


_ONNX_NAME = {"float32": "float", "float64": "double", "object": "string"}
_ONNX_NUMBER = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "object": 8,
                "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15,
                "bfloat16": 16}


class OrtValue:
    """A value that stays where it is between runs.

    >>> value = OrtValue.ortvalue_from_numpy(np.ones((2, 3), np.float32))
    >>> value.shape(), value.data_type()
    ([2, 3], 'tensor(float)')
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _require_cpu(device_type)
        return OrtValue(np.asarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any = np.float32, device_type: str = "cpu",
                                     device_id: int = 0) -> "OrtValue":
        _require_cpu(device_type)
        return OrtValue(np.zeros(shape, element_type))

    def numpy(self) -> np.ndarray:
        return self._value

    def update_inplace(self, array: np.ndarray) -> None:
        np.copyto(self._value, array)

    def shape(self) -> list[int]:
        return list(np.shape(self._value))

    def data_type(self) -> str:
        return f"tensor({_ONNX_NAME.get(self._value.dtype.name, self._value.dtype.name)})"

    def element_type(self) -> int:
        return _ONNX_NUMBER[self._value.dtype.name]

    def device_name(self) -> str:
        return "cpu"

    def data_ptr(self) -> int:
        return self._value.ctypes.data

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        return False

    def __array__(self, dtype=None):
        return np.asarray(self._value, dtype)


def _require_cpu(device: str) -> None:
    if device != "cpu":
        raise InvalidArgument(f"device '{device}' is not available; Ferry runs on the CPU here")


class IOBinding:
    """Inputs and outputs bound to arrays ahead of a run."""

    def __init__(self, session: "InferenceSession") -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, array: np.ndarray) -> None:
        self._inputs[name] = array

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[name] = value.numpy()

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Sequence[int] | None = None, buffer_ptr: int | None = None) -> None:
        _require_cpu(device_type)
        if buffer_ptr is not None:
            raise NotImplementedError("bind an array with bind_ortvalue_output instead of a raw address")
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[name] = value

    def synchronize_inputs(self) -> None:
        """Nothing to wait for on the CPU."""

    synchronize_outputs = synchronize_inputs

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results.clear()

    def get_outputs(self) -> list[OrtValue]:
        return self._results

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        return [value.numpy() for value in self._results]

    def _run(self, run_options: RunOptions | None) -> None:
        names = list(self._outputs) or [output.name for output in self._session.get_outputs()]
        self._results = []
        for name, result in zip(names, self._session.run(names, self._inputs, run_options)):
            bound = self._outputs.get(name)
            if bound is None:
                bound = OrtValue(result)
            else:
                bound.update_inplace(result)
            self._results.append(bound)


class InferenceSession:
    """A model, ready to run. Threads may share one session.

    >>> session = InferenceSession("simple_net.onnx")            # doctest: +SKIP
    >>> session.run(None, {session.get_inputs()[0].name: x})     # doctest: +SKIP
    """

    def __init__(self, path_or_bytes: str | bytes | os.PathLike, sess_options: SessionOptions | None = None,
                 providers: Sequence[str | tuple[str, dict]] | None = None,
                 provider_options: Sequence[dict] | None = None, **kwargs: Any) -> None:
        for key in kwargs:
            warn_once("keyword " + key, f"InferenceSession's '{key}' is onnxruntime's own and has no effect in Ferry")
        self._options = sess_options or SessionOptions()
        _check_providers(providers)
        if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            source = bytes(path_or_bytes)
        else:
            source = os.fspath(path_or_bytes)
        self._session = _ferry.Session(source, self._options._native())

    def _open(self) -> "_ferry.Session":
        if self._session is None:
            raise NoModel("this session is closed")
        return self._session

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list:
        """The outputs asked for (None: all) as numpy arrays, lists (sequences) and dicts (maps)."""
        session = self._session or self._open()
        return session.run(output_names or None, input_feed, None if run_options is None else run_options._cancel)

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        feed = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(result) for result in self.run(output_names, feed, run_options)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        iobinding._run(run_options)

    def get_inputs(self) -> list[NodeArg]:
        return [NodeArg(*facts) for facts in self._open().inputs()]

    def get_outputs(self) -> list[NodeArg]:
        return [NodeArg(*facts) for facts in self._open().outputs()]

    def get_overridable_initializers(self) -> list[NodeArg]:
        return [NodeArg(*facts) for facts in self._open().overridable()]

    def get_modelmeta(self) -> ModelMetadata:
        return ModelMetadata(self._open().metadata())

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_providers(self) -> list[str]:
        return [CPU]

    def get_provider_options(self) -> dict[str, dict]:
        return {CPU: {}}

    def set_providers(self, providers=None, provider_options=None) -> None:
        _check_providers(providers)

    def enable_fallback(self) -> None:
        """There is nothing to fall back from: the CPU runs everything."""

    disable_fallback = enable_fallback

    def close(self) -> None:
        """Lets go of the model; a later call says that the session is closed."""
        self._session = None

    def __enter__(self) -> "InferenceSession":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session is None:
            return "InferenceSession(closed)"
        ends = lambda args: ", ".join(f"{arg.name}: {arg.type}{arg.shape}" for arg in args)  # noqa: E731
        return f"InferenceSession({ends(self.get_inputs())} -> {ends(self.get_outputs())})"


def _check_providers(providers: Sequence[str | tuple[str, dict]] | None) -> None:
    names = [provider if isinstance(provider, str) else provider[0] for provider in providers or [CPU]]
    for name in names:
        if name != CPU:
            warn_once("provider " + name, f"provider '{name}' is not available in this build; the model runs on the CPU")
