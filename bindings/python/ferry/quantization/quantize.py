"""Eight bits by data or by each run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .._errors import InvalidArgument
from .._options import warn_once
from .._quantize import quantize as _quantize
from .calibrate import CalibrationMethod, samples_of
from .quant_utils import QuantFormat, QuantType

Model = Any

_RANGES = {CalibrationMethod.MinMax: "minmax", CalibrationMethod.Entropy: "entropy",
           CalibrationMethod.Percentile: "percentile"}


def _eight_bits(what: str, kind: QuantType) -> None:
    if kind not in (QuantType.QInt8, QuantType.QUInt8):
        raise InvalidArgument(f"{what} {kind.name} is not supported: QInt8 and QUInt8 are")


# What is done whether asked for or not.
_ALWAYS_SO = {"WeightSymmetric": True, "MatMulConstBOnly": True, "SmoothQuant": None, "CalibMovingAverage": False,
              "AddQDQPairToWeight": False, "DedicatedQDQPair": False, "EnableSubgraph": False}


def _without(extra: Mapping[str, Any] | None, always: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (extra or {}).items()
            if name not in always or always[name] not in (None, value)}


def no_effect(function: str, **given: Any) -> None:
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
    no_effect("quantize_dynamic", extra_options=extra)
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
    """Ranges of activations from all that the reader gives; convolutions and products in eight bits.

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
    no_effect("quantize_static", extra_options=extra)
    _quantize(model_input, model_output, data=samples_of(calibration_data_reader), keep_rows=False, form="static",
              target="onnxruntime",
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
