"""ONNX's backend interface: lets ONNX's own Python test suite, and whatever speaks it, drive Ferry.

>>> import onnx.helper
>>> node = onnx.helper.make_node("Add", ["a", "b"], ["y"])
>>> run_node(node, [np.array([1.0], np.float32), np.array([2.0], np.float32)])[0]
array([3.], dtype=float32)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ._errors import InvalidArgument, NotImplemented
from ._session import InferenceSession, model_source


class FerryRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs = [arg.name for arg in session.get_inputs()]
        self._more = [arg.name for arg in session.get_overridable_initializers()]
        self._outputs = [arg.name for arg in session.get_outputs()]

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Inputs by position or by name; the outputs as a tuple that also has their names."""
        if isinstance(inputs, dict):
            feed = inputs
        else:
            given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            names = self._inputs if len(given) <= len(self._inputs) else self._inputs + self._more
            if len(given) > len(names):
                raise InvalidArgument(f"the model has {len(names)} inputs ({', '.join(names)}), and {len(given)} inputs are given"
                                      if names else f"the model has no inputs, and {len(given)} inputs are given")
            feed = dict(zip(names, given))
        return namedtupledict("Outputs", self._outputs)(*self._session.run(None, feed))


class FerryBackend(Backend):
    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be made ready to run."""
        try:
            cls.prepare(model, device)
        except NotImplemented:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> FerryRep:
        """Makes a model ready: an onnx.ModelProto, a path, bytes or an InferenceSession."""
        if not cls.supports_device(device):
            raise ValueError(f"device '{device}' is not available; Ferry runs on the CPU here")
        return FerryRep(model if isinstance(model, InferenceSession) else InferenceSession(model_source(model)))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """Makes a model ready and runs it once."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> Any:
        """Runs one node on its own; `opset_version` among the keywords says by which version of its operator."""
        given = [np.asarray(value) for value in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        names = [name for name in node.input if name]
        infos = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                 if hasattr(onnx.helper, "np_dtype_to_tensor_dtype") else
                 onnx.helper.make_tensor_value_info(name, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[value.dtype], value.shape)
                 for name, value in zip(names, given)]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        opset = onnx.helper.make_opsetid(node.domain, kwargs.get("opset_version", onnx.defs.onnx_opset_version())
                                         if not node.domain else 1)
        graph = onnx.helper.make_graph([node], "node", infos, outputs)
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=[opset]), dict(zip(names, given)), device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """
        >>> supports_device("CPU"), supports_device("CUDA:0")
        (True, False)
        """
        return device.split(":")[0] == "CPU"


is_compatible = FerryBackend.is_compatible
prepare = FerryBackend.prepare
run = run_model = FerryBackend.run_model
run_node = FerryBackend.run_node
supports_device = FerryBackend.supports_device
