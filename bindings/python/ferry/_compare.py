"""Comparing a model's answers: with recordings, with another model, with itself run in another way."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field
from typing import Any, Mapping

import numpy as np

from . import _ferry
from ._errors import InvalidArgument
from ._report import columns, table
from ._session import InferenceSession, example_model, model_source  # noqa: F401 - for the examples

_OUTPUT_KEYS = ("name", "type", "within", "max_abs", "mean_abs", "max_rel", "mean_rel", "elements", "outside", "reason",
                "cosine", "max_ulp", "mean_ulp")


@dataclass(frozen=True)
class ComparedOutput:
    """How far one output is from what it should be."""

    name: str
    type: str
    within: bool
    max_abs: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    elements: int
    outside: int
    reason: str = ""
    cosine: float | None = None
    max_ulp: float | None = None
    mean_ulp: float | None = None

    @classmethod
    def _of(cls, facts: Mapping[str, Any]) -> "ComparedOutput":
        return cls(**{key: facts[key] for key in _OUTPUT_KEYS if key in facts})


@dataclass(frozen=True)
class ComparedSample:
    """The outputs for one set of inputs: a recording, random ones, an edge case."""

    name: str
    kind: str
    within: bool
    outputs: list[ComparedOutput]
    refused: str = ""
    only_one: str = ""


@dataclass(frozen=True)
class FaultyLayer:
    """The first node whose inputs agree on both sides and whose result does not."""

    node: str
    op: str
    value: str
    error: float
    input_error: float
    differences: list[str] = field(default_factory=list)
    text: str = ""


class Comparison:
    """A model's answers held against others. True when all are within the tolerance."""

    _HEADER = ("sample", "output", "type", "max abs", "mean abs", "max rel", "mean rel", "")

    def __init__(self, native: "_ferry.Comparison") -> None:
        facts = native.facts()
        self._native = native
        self.within: bool = facts["within"]
        self.rtol: float = facts["rtol"]
        self.atol: float = facts["atol"]
        self.max_abs: float = facts["max_abs"]
        self.outputs = [ComparedOutput._of(output) for output in facts["outputs"]]
        """Each output over all samples."""
        self.samples = [ComparedSample(sample["name"], sample["kind"], sample["within"],
                                       [ComparedOutput._of(output) for output in sample["outputs"]],
                                       sample.get("refused", ""), sample.get("only_one", ""))
                        for sample in facts["samples"]]
        first = (facts["trace"] or {}).get("first")
        self.faulty_layer = first and FaultyLayer(first["node"], first["op"], first["value"], first["error"],
                                                  first["input_error"], first["differences"], native.fault())
        """Where things go wrong, when they do and the layer can be named; else None."""
        self.facts: dict[str, Any] = facts
        """Everything, as the JSON of `ferry compare`: docs/compare.md explains its keys."""

    def __bool__(self) -> bool:
        return self.within

    def html(self) -> str:
        """A page with every number, that needs nothing else."""
        return self._native.html()

    def _rows(self) -> list[tuple[str, ...]]:
        return [(sample.name, o.name, o.type, f"{o.max_abs:.3g}", f"{o.mean_abs:.3g}", f"{o.max_rel:.3g}",
                 f"{o.mean_rel:.3g}", o.reason) for sample in self.samples for o in sample.outputs]

    def _sentences(self) -> list[str]:
        fault = [self.faulty_layer.text] if self.faulty_layer else []
        return [text for text in (self._native.verdict(), self._native.cause(), *fault) if text]

    def __repr__(self) -> str:
        return "\n".join([columns([self._HEADER, *self._rows()]), *self._sentences()])

    def _repr_html_(self) -> str:
        return table(self._rows(), self._HEADER, " ".join(self._sentences()))


def _by_name(recording: Mapping[str, Any], session: InferenceSession) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and outputs of a recording, whose keys are names, or in0, in1 … and out0, out1 … by position."""
    inputs = [arg.name for arg in session.get_inputs()]
    outputs = [arg.name for arg in session.get_outputs()]
    optional = [arg.name for arg in session.get_overridable_initializers()]
    fed: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for key, array in recording.items():
        if key in inputs or key in optional:
            fed[key] = array
        elif key in outputs:
            expected[key] = array
        elif key[:2] == "in" and key[2:].isdecimal() and int(key[2:]) < len(inputs):
            fed[inputs[int(key[2:])]] = array
        elif key[:3] == "out" and key[3:].isdecimal() and int(key[3:]) < len(outputs):
            expected[outputs[int(key[3:])]] = array
        else:
            raise InvalidArgument(f"'{key}' is neither an input nor an output of the model; it has the inputs {inputs} "
                                  f"and the outputs {outputs}")
    return fed, expected


def _looks_like_data(thing: Any) -> bool:
    if isinstance(thing, (str, os.PathLike)):
        return os.fspath(thing).endswith(".npz") or os.path.isdir(thing)
    return isinstance(thing, Mapping) or (isinstance(thing, (list, tuple)) and all(map(_looks_like_data, thing)))


def _take_data(request: "_ferry.CompareRequest", model: Any, data: Any) -> None:
    items = data if isinstance(data, (list, tuple)) else [data]
    paths = [os.fspath(item) for item in items if isinstance(item, (str, os.PathLike))]
    request.files = [found for path in paths for found in sorted(glob.glob(path)) or [path]]
    given = [item for item in items if isinstance(item, Mapping)]
    if given:
        session = InferenceSession(model_source(model))
        names = ["given"] if len(given) == 1 else [f"given {i + 1}" for i in range(len(given))]
        request.given = [(name, *_by_name(item, session)) for name, item in zip(names, given)]


def compare(model: Any, other: Any = None, *, data: Any = None, against: str = "", rtol: float = 1e-3,
            atol: float = 1e-5, random: int = 0, edge_cases: bool = False,
            dimensions: Mapping[str, int] | None = None, seed: int = 1, layers: bool = False) -> Comparison:
    """Holds a model's answers against recorded ones, against another model's, or against its own run in another way.

    `other` is a recording, or several (a dict of arrays, .npz files, patterns and folders of them; keys are names, or
    in0 … and out0 …), or another model. `against` is "float64" or "unoptimised". Two sides run on the inputs in `data`,
    on as many random ones as `random` says (one, when there are no others), with named dimensions as in `dimensions`, and with
    `edge_cases` on zeros, ones, huge and tiny numbers. Two values are equal when |a - b| <= atol + rtol * |b|; NaN
    equals NaN. Where answers differ, the first layer that goes wrong is named.

    >>> x = np.ones((1, 10), np.float32)
    >>> y = InferenceSession(example_model()).run(None, {"x": x})[0]
    >>> compare(example_model(), {"x": x, "y": y})
    sample  output  type         max abs  mean abs  max rel  mean rel
    given   y       float[1, 3]  0        0         0        0
    largest difference 0: within tolerance (rtol 0.001, atol 1e-05)
    >>> bool(compare(example_model(), {"x": x, "y": y + 1}))
    False
    >>> bool(compare(example_model(), example_model(), dimensions={"batch": 3}))
    True
    >>> compare(example_model(), against="float64").max_abs < 1e-5
    True
    """
    if other is not None and _looks_like_data(other):
        if data is not None:
            raise InvalidArgument("give recordings as the second argument or as data, not as both")
        other, data = None, other
    if other is None and data is None and not against:
        raise InvalidArgument("give something to compare with: recordings, another model, or against='float64'")
    request = _ferry.CompareRequest()
    request.actual = model_source(model)
    request.expected = None if other is None else model_source(other)
    request.against = against
    request.random, request.seed, request.edge_cases, request.layers = random, seed, edge_cases, layers
    request.dimensions = dict(dimensions or {})
    request.rtol, request.atol = rtol, atol
    if data is not None:
        _take_data(request, model, data)
    return Comparison(_ferry.compare(request))
