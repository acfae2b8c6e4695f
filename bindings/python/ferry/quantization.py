"""The everyday part of onnxruntime.quantization: a script changes one import.

    from ferry.quantization import CalibrationDataReader, QuantType, quantize_static

Ferry chooses more by the data than these signatures say: biases are corrected, layers that cannot bear eight bits stay
in higher precision. `ferry.quantize` has the report; these functions give nothing back, as onnxruntime's.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ._errors import InvalidArgument
from ._optimize import optimize
from ._options import warn_once
from ._quantize import quantize as _quantize

Model = Any


class QuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1


class QuantType(enum.Enum):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6


class CalibrationMethod(enum.Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


_RANGES = {CalibrationMethod.MinMax: "minmax", CalibrationMethod.Entropy: "entropy",
           CalibrationMethod.Percentile: "percentile"}


class CalibrationDataReader:
    """Samples, one dictionary of arrays after the other; `get_next` gives None behind the last one.

    >>> class Two(CalibrationDataReader):
    ...     def __init__(self): self.left = iter([{"x": 1}, {"x": 2}])
    ...     def get_next(self): return next(self.left, None)
    >>> list(Two())
    [{'x': 1}, {'x': 2}]
    """

    def get_next(self) -> Mapping[str, Any] | None:
        raise NotImplementedError("a CalibrationDataReader needs get_next()")

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return self

    def __next__(self) -> Mapping[str, Any]:
        sample = self.get_next()
        if sample is None:
            raise StopIteration
        return sample


def _samples(reader: Any) -> Iterator[Mapping[str, Any]]:
    while (sample := reader.get_next()) is not None:
        yield sample


def _eight_bits(what: str, kind: QuantType) -> None:
    if kind not in (QuantType.QInt8, QuantType.QUInt8):
        raise InvalidArgument(f"{what} {kind.name} is not supported: QInt8 and QUInt8 are")


# What is done whether asked for or not.
_ALWAYS_SO = {"WeightSymmetric": True, "MatMulConstBOnly": True, "SmoothQuant": None, "CalibMovingAverage": False,
              "AddQDQPairToWeight": False, "DedicatedQDQPair": False, "EnableSubgraph": False}


def _without(extra: Mapping[str, Any] | None, always: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (extra or {}).items()
            if name not in always or always[name] not in (None, value)}


def _no_effect(function: str, **given: Any) -> None:
    for name, value in given.items():
        if value:
            warn_once(f"{function}.{name}", f"{function}: {name} has no effect here")


def quantize_dynamic(model_input: Model, model_output: str | os.PathLike[str],
                     op_types_to_quantize: Sequence[str] | None = None, per_channel: bool = False,
                     reduce_range: bool = False, weight_type: QuantType = QuantType.QInt8,
                     nodes_to_quantize: Sequence[str] | None = None, nodes_to_exclude: Sequence[str] | None = None,
                     use_external_data_format: bool = False, extra_options: Mapping[str, Any] | None = None) -> None:
    """Products with ranges of each run; other weights in eight bits. Scales are always one for each channel."""
    _eight_bits("weight_type", weight_type)
    extra = _without(extra_options, _ALWAYS_SO)
    _no_effect("quantize_dynamic", extra_options=extra)
    _quantize(model_input, model_output, form="dynamic", target="onnxruntime", keep=nodes_to_exclude or (),
              nodes=nodes_to_quantize or (), operators=op_types_to_quantize or (), seven_bits=reduce_range,
              unsigned_weights=weight_type == QuantType.QUInt8, external=use_external_data_format)


def quantize_static(model_input: Model, model_output: str | os.PathLike[str], calibration_data_reader: Any,
                    quant_format: QuantFormat = QuantFormat.QDQ, op_types_to_quantize: Sequence[str] | None = None,
                    per_channel: bool = False, reduce_range: bool = False,
                    activation_type: QuantType = QuantType.QInt8, weight_type: QuantType = QuantType.QInt8,
                    nodes_to_quantize: Sequence[str] | None = None, nodes_to_exclude: Sequence[str] | None = None,
                    use_external_data_format: bool = False,
                    calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
                    calibration_providers: Sequence[str] | None = None,
                    extra_options: Mapping[str, Any] | None = None) -> None:
    """Ranges of activations from what the reader gives; convolutions and products in eight bits.

    Of `extra_options`, ActivationSymmetric, CalibTensorRangeSymmetric, CalibPercentile and QuantizeBias have an effect.
    """
    _eight_bits("activation_type", activation_type)
    _eight_bits("weight_type", weight_type)
    if calibrate_method not in _RANGES:
        raise InvalidArgument(f"calibrate_method {calibrate_method.name} is not supported: MinMax, Entropy, Percentile")
    extra = _without(extra_options, _ALWAYS_SO)
    symmetric = bool(extra.pop("ActivationSymmetric", False)) | bool(extra.pop("CalibTensorRangeSymmetric", False))
    percentile = float(extra.pop("CalibPercentile", 99.999))
    whole_bias = bool(extra.pop("QuantizeBias", True)) or quant_format == QuantFormat.QOperator
    _no_effect("quantize_static", extra_options=extra)
    _quantize(model_input, model_output, data=_samples(calibration_data_reader), form="static", target="onnxruntime",
              ranges=_RANGES[calibrate_method], percentile=percentile, per_channel=per_channel,
              signed_activations=activation_type == QuantType.QInt8, symmetric=symmetric, whole_bias=whole_bias,
              unsigned_weights=weight_type == QuantType.QUInt8, seven_bits=reduce_range,
              qoperator=quant_format == QuantFormat.QOperator, keep=nodes_to_exclude or (),
              nodes=nodes_to_quantize or (), operators=op_types_to_quantize or (), external=use_external_data_format)


@dataclass
class StaticQuantConfig:
    """What `quantize` hands to `quantize_static`."""

    calibration_data_reader: Any
    calibrate_method: CalibrationMethod = CalibrationMethod.MinMax
    quant_format: QuantFormat = QuantFormat.QDQ
    activation_type: QuantType = QuantType.QInt8
    weight_type: QuantType = QuantType.QInt8
    op_types_to_quantize: Sequence[str] | None = None
    nodes_to_quantize: Sequence[str] | None = None
    nodes_to_exclude: Sequence[str] | None = None
    per_channel: bool = False
    reduce_range: bool = False
    use_external_data_format: bool = False
    calibration_providers: Sequence[str] | None = None
    extra_options: Mapping[str, Any] | None = None


@dataclass
class DynamicQuantConfig:
    """What `quantize` hands to `quantize_dynamic`."""

    weight_type: QuantType = QuantType.QInt8
    op_types_to_quantize: Sequence[str] | None = None
    nodes_to_quantize: Sequence[str] | None = None
    nodes_to_exclude: Sequence[str] | None = None
    per_channel: bool = False
    reduce_range: bool = False
    use_external_data_format: bool = False
    extra_options: Mapping[str, Any] | None = None


def quantize(model_input: Model, model_output: str | os.PathLike[str],
             quant_config: StaticQuantConfig | DynamicQuantConfig) -> None:
    """`quantize_static` or `quantize_dynamic`, as the configuration is."""
    if not isinstance(quant_config, (StaticQuantConfig, DynamicQuantConfig)):
        raise InvalidArgument("quantize takes a StaticQuantConfig or a DynamicQuantConfig")
    function = quantize_static if isinstance(quant_config, StaticQuantConfig) else quantize_dynamic
    function(model_input, model_output, **{field.name: getattr(quant_config, field.name)
                                           for field in fields(quant_config)})


def quant_pre_process(input_model: Model = None, output_model_path: str | os.PathLike[str] | None = None,
                      skip_optimization: bool = False, skip_onnx_shape: bool = False,
                      skip_symbolic_shape: bool = False, **ignored: Any) -> None:
    """Constants and batch norms folded, shapes written down. Ferry's own functions do so by themselves."""
    source = ignored.pop("input_model_path", input_model)
    if source is None or output_model_path is None:
        raise InvalidArgument("quant_pre_process needs input_model and output_model_path")
    made = optimize(source, output_model_path, unproved=True)
    if not made:
        raise InvalidArgument("the optimised model gives other answers, and was not written")


__all__ = ["CalibrationDataReader", "CalibrationMethod", "DynamicQuantConfig", "QuantFormat", "QuantType",
           "StaticQuantConfig", "quant_pre_process", "quantize", "quantize_dynamic", "quantize_static"]
