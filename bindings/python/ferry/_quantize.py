"""Models in fewer bits, with what that costs measured on data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from . import _ferry
from ._report import table
from ._session import example_model, model_source  # noqa: F401  (docstrings use example_model)

Model = Any
# Paths of .npz files and folders, one dictionary of arrays whose first axis is the samples', or an iterable of such
# dictionaries, which is gone through once.
Data = Union[str, "os.PathLike[str]", Mapping[str, Any], Iterable[Any]]


@dataclass(frozen=True, repr=False)
class QuantizedModel:
    """What became of a model: true when the budget holds (or none was given). `report` is what `--json` prints."""

    report: dict[str, Any]
    text: str
    html: str
    model: bytes | None = None  # where no path was given

    def __bool__(self) -> bool:
        return bool(self.report["holds"])

    @property
    def snr_db(self) -> float | None:
        """Signal to noise of the answers on samples that were not used to choose; None without data, or numbers."""
        proof = self.report["proof"]
        return proof.get("snr_db") if proof else None

    @property
    def warnings(self) -> list[str]:
        return list(self.report["warnings"])

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return table([("form", self.report["form"]), ("for", self.report["target"]),
                      ("bytes", f"{self.report['bytes_before']} → {self.report['bytes_after']}"),
                      ("signal to noise", f"{self.snr_db} dB" if self.snr_db is not None else "not measured"),
                      *(("warning", text) for text in self.warnings)])


def _is_path(one: Any) -> bool:
    return isinstance(one, (str, os.PathLike))


def _save(folder: str, number: int, arrays: Mapping[str, Any]) -> str:
    path = os.path.join(folder, f"{number:06}.npz")
    np.savez(path, **{name: np.asarray(array) for name, array in arrays.items()})
    return path


def data_paths(data: Data | None, folder: str) -> list[str]:
    """Paths as they are; arrays are written into `folder` one sample after the other."""
    if data is None:
        return []
    if _is_path(data):
        return [os.fsdecode(os.fspath(data))]  # type: ignore[arg-type]
    if isinstance(data, Mapping):
        return [_save(folder, 0, data)]
    paths = []
    for number, one in enumerate(data):
        paths.append(os.fsdecode(os.fspath(one)) if _is_path(one) else _save(folder, number, one))
    return paths


def quantize(model: Model, path: str | os.PathLike[str] | None = None, *, data: Data | None = None,
             test: Data | None = None, form: str = "int8", target: str = "cpu", budget: str | None = None,
             ranges: str = "best", percentile: float = 99.999, bits: int | None = None, block: int = 32,
             method: str = "best", per_channel: bool = True, symmetric: bool | None = None,
             signed_activations: bool | None = None, standard_blocks: bool = False, qoperator: bool = False,
             keep: Sequence[str] = (), operators: Sequence[str] = (), nodes: Sequence[str] = (),
             unsigned_weights: bool = False, seven_bits: bool = False, whole_bias: bool | None = None,
             half_inputs: bool = False, methods: bool = True, external: bool = False,
             least_snr: float = 24, keep_rows: bool = True, threads: int = 0) -> QuantizedModel:
    """Writes a model in fewer bits to `path` (without one the result has the bytes) and measures what that costs.

    `form` is int8 (static or dynamic, layer by layer, as the data prefers), static, dynamic, weights (4 or 8 `bits` in
    blocks; also weights4, weights8), float16 (fp16) or bfloat16 (bf16); `target` is cpu, onnxruntime, tensorrt or
    tflite. `data` gives samples: paths of .npz files, a dictionary of arrays, or an iterable of dictionaries. With a
    `budget` ("top1=0.5%", "cosine=0.999" …) the fewest layers that it takes stay in higher precision; the result is
    true when it holds on `test`, or on every fourth sample of the data. `keep` names nodes that stay as they are, `nodes` and `operators` the only ones that do not;
    weights are uint8 around 128 with `unsigned_weights` and keep to seven bits with `seven_bits`, biases are int32 with
    `whole_bias`. Without a budget layers are lifted until answers have `least_snr` dB; with `keep_rows` false all data chooses,
    and the proof is on the same. docs/quantize.md says more.

    >>> rng = np.random.default_rng(0)
    >>> made = quantize(example_model(), data={"x": rng.normal(size=(512, 10)).astype(np.float32)})
    >>> bool(made), made.snr_db > 20
    (True, True)
    """
    options: dict[str, Any] = {
        "form": form, "target": target, "ranges": ranges, "percentile": float(percentile), "block": int(block),
        "method": method, "per_channel": bool(per_channel), "standard_blocks": bool(standard_blocks),
        "qoperator": bool(qoperator), "keep": list(keep), "operators": list(operators), "nodes": list(nodes),
        "unsigned_weights": bool(unsigned_weights), "seven_bits": bool(seven_bits),
        "half_inputs": bool(half_inputs), "methods": bool(methods), "least_snr": float(least_snr),
        "keep_rows": bool(keep_rows), "threads": int(threads)}
    if bits is not None:
        options["bits"] = int(bits)
    if budget is not None:
        options["budget"] = budget
    if whole_bias is not None:
        options["whole_bias"] = bool(whole_bias)
    if symmetric is not None:
        options["symmetric"] = bool(symmetric)
    if signed_activations is not None:
        options["signed_activations"] = bool(signed_activations)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as test_folder:
        options["data"] = data_paths(data, folder)
        options["test"] = data_paths(test, test_folder)
        said = _ferry.quantize(model_source(model), options, "" if path is None else os.fsdecode(os.fspath(path)),
                               bool(external))
    return QuantizedModel(**said)
