"""ONNX's backend interface: lets ONNX's own Python test suite, and whatever speaks it, drive Ferry."""

from __future__ import annotations

from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ._session import InferenceSession


class FerryRep(BackendRep):
    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple:
        names = [arg.name for arg in self._session.get_inputs()]
        if isinstance(inputs, dict):
            feed = inputs
        else:
            given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(given) > len(names):
                names += [arg.name for arg in self._session.get_overridable_initializers()]
            feed = dict(zip(names, given))
        outputs = self._session.run(None, feed)
        return namedtupledict("Outputs", [arg.name for arg in self._session.get_outputs()])(*outputs)


class FerryBackend(Backend):
    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        try:
            cls.prepare(model, device)
        except NotImplementedError:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> FerryRep:
        if not cls.supports_device(device):
            raise ValueError(f"device '{device}' is not available; Ferry runs on the CPU here")
        if isinstance(model, onnx.ModelProto):
            model = model.SerializeToString()
        return FerryRep(InferenceSession(model))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple:
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        number = onnx.mapping.NP_TYPE_TO_TENSOR_TYPE
        infos = [onnx.helper.make_tensor_value_info(name, number[value.dtype], value.shape)
                 for name, value in zip(node.input, given)]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
        graph = onnx.helper.make_graph([node], "node", infos, outputs)
        return cls.run_model(onnx.helper.make_model(graph), given, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


is_compatible = FerryBackend.is_compatible
prepare = FerryBackend.prepare
run_model = FerryBackend.run_model
run_node = FerryBackend.run_node
supports_device = FerryBackend.supports_device
