"""Weights of products in 4 or 8 bits, by onnxruntime's names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

from .._errors import InvalidArgument
from .._quantize import quantize as _quantize
from .calibrate import samples_of
from .quant_utils import QuantFormat
from .quantize import no_effect

Model = Any


_METHODS = {"DEFAULT": "nearest", "RTN": "nearest", "HQQ": "search", "GPTQ": "gptq"}


class WeightOnlyQuantConfig:
    """How weights get their codes: `algorithm` is DEFAULT, RTN, HQQ or GPTQ, which the classes below say more of."""

    calibration_data_reader: Any = None
    block_size: int | None = None  # None: that of the quantizer
    bits: int | None = None

    def __init__(self, algorithm: str, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Sequence[str] | None = None, quant_axes: Any = None,
                 customized_weight_config: Any = None) -> None:
        if algorithm not in _METHODS:
            raise InvalidArgument(f"there is no algorithm '{algorithm}' here; there are: {', '.join(_METHODS)}")
        self.algorithm, self.quant_format, self.op_types_to_quantize = algorithm, quant_format, op_types_to_quantize
        no_effect(type(self).__name__, quant_axes=quant_axes, customized_weight_config=customized_weight_config)


class DefaultWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Round to nearest."""

    def __init__(self, block_size: int = 128, is_symmetric: bool = False, accuracy_level: int | None = None,
                 quant_format: QuantFormat = QuantFormat.QOperator, op_types_to_quantize: Sequence[str] | None = None,
                 quant_axes: Any = None, bits: int = 4, channel_wised_quantize: bool = False) -> None:
        super().__init__("DEFAULT", quant_format, op_types_to_quantize, quant_axes)
        self.block_size, self.bits = 0 if channel_wised_quantize else block_size, bits
        no_effect("DefaultWeightOnlyQuantConfig", is_symmetric=is_symmetric, accuracy_level=accuracy_level)


class RTNWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Round to nearest."""

    def __init__(self, ratios: Any = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Sequence[str] | None = None, customized_weight_config: Any = None) -> None:
        super().__init__("RTN", quant_format, op_types_to_quantize, None, customized_weight_config)
        no_effect("RTNWeightOnlyQuantConfig", ratios=ratios)


class HQQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Ranges searched by their error: what HQQ is for, without data."""

    def __init__(self, block_size: int = 128, bits: int = 4, axis: int = 1,
                 quant_format: QuantFormat = QuantFormat.QOperator, op_types_to_quantize: Sequence[str] | None = None,
                 quant_axes: Any = None) -> None:
        super().__init__("HQQ", quant_format, op_types_to_quantize, quant_axes)
        self.block_size, self.bits = block_size, bits
        no_effect("HQQWeightOnlyQuantConfig", axis=axis != 1)


class GPTQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Codes chosen one after the other, each making up for those before, on the reader's samples."""

    def __init__(self, calibration_data_reader: Any = None, percdamp: float = 0.01, block_size: int = 128,
                 actorder: bool = False, mse: bool = False, perchannel: bool = True,
                 quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Sequence[str] | None = None) -> None:
        super().__init__("GPTQ", quant_format, op_types_to_quantize)
        self.block_size, self.calibration_data_reader = block_size, calibration_data_reader
        no_effect("GPTQWeightOnlyQuantConfig", percdamp=percdamp != 0.01, actorder=actorder, mse=mse,
                  perchannel=not perchannel)


class _Result:
    """The quantised model as onnxruntime's ONNXModel hands it out."""

    def __init__(self, quantizer: MatMulNBitsQuantizer) -> None:
        self._quantizer = quantizer

    @property
    def model(self) -> Any:
        """An onnx.ModelProto; needs the onnx package."""
        import onnx
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            self.save_model_to_file(path)
            return onnx.load(path)

    def save_model_to_file(self, output_path: str | os.PathLike[str], use_external_data_format: bool = False) -> None:
        """Quantises, and writes the model."""
        self._quantizer._write(output_path, use_external_data_format)


class MatMulNBitsQuantizer:
    """Weights of MatMul (and of Gemm, where asked for) in 4 or 8 bits, in blocks: `process()`, then
    `model.save_model_to_file(path)`. Blocks of 4 bits always have a zero point of their own; the bits that are asked for
    are written whatever they lose."""

    def __init__(self, model: Model, bits: int = 4, block_size: int = 128, is_symmetric: bool = False,
                 accuracy_level: int | None = None, nodes_to_exclude: Sequence[str] | None = None,
                 nodes_to_include: Sequence[str] | None = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Sequence[str] | None = None, quant_axes: Any = None,
                 channel_wised_quantize: bool = False, algo_config: WeightOnlyQuantConfig | None = None) -> None:
        how = algo_config or WeightOnlyQuantConfig("DEFAULT", quant_format, op_types_to_quantize)
        if not isinstance(how, WeightOnlyQuantConfig):
            raise InvalidArgument(f"algo_config must be a WeightOnlyQuantConfig, not {type(how).__name__}")
        no_effect("MatMulNBitsQuantizer", is_symmetric=is_symmetric, accuracy_level=accuracy_level,
                  quant_axes=quant_axes)
        block = 0 if channel_wised_quantize else block_size
        self.model_path, self.model = model, _Result(self)
        reader = how.calibration_data_reader
        self._options: dict[str, Any] = {
            "form": "weights", "target": "onnxruntime", "bits": how.bits or bits, "block": block if how.block_size is None else how.block_size,
            "method": _METHODS[how.algorithm], "least_snr": 0, "keep_rows": False, "standard_blocks": how.quant_format == QuantFormat.QDQ,
            "operators": how.op_types_to_quantize or op_types_to_quantize or ("MatMul",),
            "keep": nodes_to_exclude or (), "nodes": nodes_to_include or (),
            "data": None if reader is None else list(samples_of(reader))}

    def process(self) -> None:
        """Looks whether the options go together; the work is done where the model is asked for."""
        if self._options["method"] == "gptq" and self._options["data"] is None:
            raise InvalidArgument("GPTQ needs samples: give GPTQWeightOnlyQuantConfig a calibration_data_reader")

    def _write(self, path: str | os.PathLike[str], external: bool) -> None:
        _quantize(self.model_path, path, external=external, **self._options)
