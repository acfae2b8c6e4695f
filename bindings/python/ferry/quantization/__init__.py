"""The everyday part of onnxruntime.quantization: a script changes one import.

    from ferry.quantization import CalibrationDataReader, QuantType, quantize_static
    from ferry.quantization.shape_inference import quant_pre_process

Ferry chooses more by the data than these signatures say: biases are corrected, layers that cannot bear eight bits stay
in higher precision. `ferry.quantize` has the report; these functions give nothing back, as onnxruntime's.
"""

from .calibrate import CalibrationDataReader, CalibrationMethod
from .quant_utils import QuantFormat, QuantType
from .quantize import DynamicQuantConfig, StaticQuantConfig, quantize, quantize_dynamic, quantize_static
from .shape_inference import quant_pre_process

__all__ = ["CalibrationDataReader", "CalibrationMethod", "DynamicQuantConfig", "QuantFormat", "QuantType",
           "StaticQuantConfig", "quant_pre_process", "quantize", "quantize_dynamic", "quantize_static"]
