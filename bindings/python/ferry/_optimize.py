"""Models with fewer nodes and the same answers; and onnxsim's function under its own name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _ferry
from ._doctor import ProofStep
from ._report import columns, table
from ._session import example_model, model_source  # noqa: F401  (docstrings use example_model)
from ._options import warn_once

Model = Any


@dataclass(frozen=True, repr=False)
class OptimizedModel:
    """What became of a model: true when it was proved that the answers are the same, and so it was written."""

    proved: bool
    nodes_before: int
    nodes_after: int
    weight_bytes_before: int
    weight_bytes_after: int
    done: list[str] = field(default_factory=list)
    proof: list[ProofStep] = field(default_factory=list)
    model: bytes | None = None  # where no path was given

    def __bool__(self) -> bool:
        return self.proved

    def _rows(self) -> list[tuple[str, Any]]:
        return [("nodes", f"{self.nodes_before} → {self.nodes_after}"),
                ("weights", f"{self.weight_bytes_before} → {self.weight_bytes_after} bytes"),
                *(("done", text) for text in self.done),
                *(("proof", f"{step.what}: {'yes' if step.holds else 'no'}") for step in self.proof)]

    def __repr__(self) -> str:
        return columns(self._rows())

    def _repr_html_(self) -> str:
        return table(self._rows())


def optimize(model: Model, path: str | os.PathLike[str] | None = None, *, dimensions: Mapping[str, int] | None = None,
             data: Sequence[str | os.PathLike[str]] = (), unproved: bool = False) -> OptimizedModel:
    """Folds constants, batch norms and what follows from shapes, and removes what does nothing; standard ONNX of the
    same opset comes out. Both models are run, on the recordings in `data` or on made-up inputs, before it is written to
    `path`; without a path the result has the bytes. `dimensions` fixes named dimensions. A model that cannot be run
    here is written only with `unproved`.

    >>> bool(optimize(example_model()))
    True
    """
    said = _ferry.optimize(model_source(model), {name: int(size) for name, size in (dimensions or {}).items()},
                           [os.fsdecode(os.fspath(one)) for one in data],
                           "" if path is None else os.fsdecode(os.fspath(path)), bool(unproved))
    said["proof"] = [ProofStep(*step) for step in said["proof"]]
    return OptimizedModel(**said)


def simplify(model: Model, check_n: int = 0, perform_optimization: bool = True, skip_fuse_bn: bool = False,
             overwrite_input_shapes: Mapping[str, Sequence[int]] | None = None, **ignored: Any) -> tuple[Any, bool]:
    """onnxsim.simplify: the model (an onnx.ModelProto where one was given, else bytes), and whether it was proved.

    `overwrite_input_shapes` fixes the named dimensions of inputs. Options of onnxsim that Ferry needs not (`check_n`,
    `test_input_shapes`, `skipped_optimizers` …) are taken without effect; switching the work off is not.

    >>> simplify(example_model())[1]
    True
    """
    if not perform_optimization or skip_fuse_bn or ignored.get("skip_constant_folding"):
        warn_once("simplify", "ferry.simplify always folds constants and batch norms")
    said = optimize(model, dimensions=_named_sizes(model, overwrite_input_shapes or {}))
    source = model_source(model)
    if said.model is None:
        made = source if isinstance(source, bytes) else _bytes_of(source)
    else:
        made = said.model
    if hasattr(model, "SerializeToString"):
        proto = type(model)()
        proto.ParseFromString(made)
        return proto, said.proved
    return made, said.proved


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _named_sizes(model: Model, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Sizes of inputs as sizes of the dimensions' names."""
    sizes: dict[str, int] = {}
    for name, _, dims in _ferry.info(model_source(model), {})["inputs"] if shapes else ():
        for dim, size in zip(dims or (), shapes.get(name, ())):
            if isinstance(dim, str):
                sizes[dim] = int(size)
    return sizes
