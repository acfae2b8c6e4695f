"""What onnxruntime.quantization does to a model before it quantises."""

from __future__ import annotations

import os
from typing import Any

from .._errors import InvalidArgument
from .._optimize import optimize

Model = Any


def quant_pre_process(input_model: Model = None, output_model_path: str | os.PathLike[str] | None = None,
                      skip_optimization: bool = False, skip_onnx_shape: bool = False,
                      skip_symbolic_shape: bool = False, auto_merge: bool = False, int_max: int = 2**31 - 1,
                      guess_output_rank: bool = False, verbose: int = 0, save_as_external_data: bool = False,
                      all_tensors_to_one_file: bool = False, external_data_location: str | None = None,
                      external_data_size_threshold: int = 1024, **deprecated_kwargs: Any) -> None:
    """Constants and batch norms folded, shapes written down. Ferry's own functions do so by themselves.

    Shapes are always inferred, and weights go into a file beside the model where one file cannot hold them: the other
    arguments are taken so that scripts run, and change nothing.
    """
    source = deprecated_kwargs.pop("input_model_path", input_model)
    if source is None or output_model_path is None:
        raise InvalidArgument("quant_pre_process needs input_model and output_model_path")
    made = optimize(source, output_model_path, unproved=True)
    if not made:
        raise InvalidArgument("the optimised model gives other answers, and was not written")
