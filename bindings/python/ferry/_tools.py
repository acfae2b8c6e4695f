"""What Ferry does beside running a model: check it, describe it, compare it, convert it, export it from PyTorch."""

from __future__ import annotations

import glob
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

import numpy as np

from . import _ferry
from ._errors import InvalidArgument, InvalidGraph, NotImplemented
from ._report import columns, count, size, table
from ._session import InferenceSession, NodeArg, example_model, model_source  # noqa: F401 - for the examples

Model = Any  # a path, the bytes of a model, or an onnx.ModelProto


def _name_of(model: Model) -> str:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else "model in memory"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a model: the rule it breaks, where, and what to do."""

    rule: str
    severity: str
    message: str
    remedy: str
    graph: str = ""
    node: str = ""
    op_type: str = ""
    value: str = ""

    @property
    def place(self) -> str:
        node = f"node '{self.node}' ({self.op_type})" if self.node else ""
        return ", ".join(part for part in (self.graph, node, f"'{self.value}'" if self.value else "") if part)

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{self.severity}: {place}{self.message} [{self.rule}]\n    {self.remedy}"


@dataclass(frozen=True, repr=False)
class CheckResult:
    """What the ONNX standard says about a model. True when the model is valid."""

    model: str
    problems: list[Problem]

    @property
    def valid(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)

    def __bool__(self) -> bool:
        return self.valid

    def raise_if_invalid(self) -> None:
        """Raises InvalidGraph with every error."""
        if not self.valid:
            raise InvalidGraph(repr(self))

    def _verdict(self) -> str:
        errors = sum(problem.severity == "error" for problem in self.problems)
        warnings = sum(problem.severity == "warning" for problem in self.problems)
        counts = [f"{number} {what}{'s' if number != 1 else ''}" for number, what in ((errors, "error"), (warnings, "warning"))
                  if number]
        return f"{self.model}: {'valid' if self.valid else 'not valid'}" + (f": {', '.join(counts)}" if counts else "")

    def __repr__(self) -> str:
        return "\n".join([*map(str, self.problems), self._verdict()])

    def _repr_html_(self) -> str:
        rows = [(p.severity, p.place, p.message, p.remedy, p.rule) for p in self.problems]
        return table(rows, ("severity", "place", "problem", "remedy", "rule") if rows else (), self._verdict())


def check(model: Model, *, inference: bool = True) -> CheckResult:
    """Says whether a model is valid by the ONNX standard, and every reason why not.

    `inference=False` looks at structure and schemas only, not at types and shapes.

    >>> check(example_model())
    model in memory: valid
    >>> bool(check(b"this is no model"))
    False
    """
    problems = _ferry.check(model_source(model), inference)
    return CheckResult(_name_of(model), [Problem(**problem) for problem in problems])


@dataclass(frozen=True, repr=False)
class ModelInfo:
    """What is in a model, and what it costs to run."""

    name: str
    producer: str
    producer_version: str
    ir_version: int
    opsets: dict[str, int]
    inputs: list[NodeArg]
    outputs: list[NodeArg]
    nodes: int
    operators: dict[str, int]
    parameters: int
    parameter_bytes: int
    dimensions: dict[str, int]
    activation_bytes: int | None
    multiply_adds: float | None
    unknown_because: str

    def _rows(self) -> list[tuple[str, str]]:
        opsets = ", ".join(f"{domain} {version}" for domain, version in self.opsets.items())
        operators = ", ".join(name if number == 1 else f"{name} ×{number}" for name, number in self.operators.items())
        sizes = ", ".join(f"{name}={number}" for name, number in self.dimensions.items())
        sizes = f"  ({sizes})" if sizes else ""
        rows = [("model", self.name)]
        if self.producer:
            rows.append(("made by", f"{self.producer} {self.producer_version}".strip()))
        rows.append(("format", f"ONNX IR {self.ir_version}, opset {opsets}"))
        rows += [("input", f"{arg.name}  {arg.type}{arg.shape}") for arg in self.inputs]
        rows += [("output", f"{arg.name}  {arg.type}{arg.shape}") for arg in self.outputs]
        rows.append(("nodes", f"{self.nodes}  ({operators})"))
        rows.append(("parameters", f"{count(self.parameters)}  ({size(self.parameter_bytes)})"))
        if self.activation_bytes is not None:
            rows.append(("run memory", size(self.activation_bytes) + sizes))
        if self.multiply_adds is not None:
            rows.append(("multiply-adds", count(self.multiply_adds) + sizes))
        if self.unknown_because:
            rows.append(("not known", self.unknown_because))
        return rows

    def __repr__(self) -> str:
        return columns(self._rows())

    def _repr_html_(self) -> str:
        return table(self._rows())


def info(model: Model, *, dimensions: Mapping[str, int] | None = None) -> ModelInfo:
    """What a model takes and gives, its operators, parameters, memory and multiply-adds.

    >>> info(example_model(), dimensions={"batch": 2})
    model          example
    made by        ferry
    format         ONNX IR 8, opset ai.onnx 13
    input          x  tensor(float)['batch', 10]
    output         y  tensor(float)['batch', 3]
    nodes          1  (MatMul)
    parameters     30  (120 bytes)
    run memory     104 bytes  (batch=2)
    multiply-adds  60  (batch=2)
    """
    facts = _ferry.info(model_source(model), dict(dimensions or {}))
    for end in ("inputs", "outputs"):
        facts[end] = [NodeArg(*arg) for arg in facts[end]]
    return ModelInfo(**facts)


@dataclass(frozen=True)
class Difference:
    """How far one output is from what it should be."""

    output: str
    data: str
    within: bool
    max_abs: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    elements: int
    outside: int
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Comparison:
    """A model's answers held against others. True when all are within the tolerance."""

    differences: list[Difference]
    rtol: float
    atol: float

    @property
    def within(self) -> bool:
        return all(difference.within for difference in self.differences)

    @property
    def max_abs(self) -> float:
        return max((difference.max_abs for difference in self.differences), default=0.0)

    def __bool__(self) -> bool:
        return self.within

    _HEADER = ("data", "output", "max abs", "mean abs", "max rel", "mean rel", "")

    def _rows(self) -> list[tuple[str, ...]]:
        return [(d.data, d.output, f"{d.max_abs:.3g}", f"{d.mean_abs:.3g}", f"{d.max_rel:.3g}", f"{d.mean_rel:.3g}", d.reason)
                for d in self.differences]

    def _verdict(self) -> str:
        return (f"largest difference {self.max_abs:.3g}: {'within' if self.within else 'NOT within'} tolerance "
                f"(rtol {self.rtol:g}, atol {self.atol:g})")

    def __repr__(self) -> str:
        return f"{columns([self._HEADER, *self._rows()])}\n{self._verdict()}"

    def _repr_html_(self) -> str:
        return table(self._rows(), self._HEADER, self._verdict())




def _read_recordings(data: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Named dicts of arrays from a dict, a path or pattern of .npz files, or a list of these."""
    if isinstance(data, Mapping):
        return [("given", data)]
    if isinstance(data, (str, os.PathLike)):
        paths = sorted(glob.glob(os.fspath(data))) or [os.fspath(data)]
        return [(os.path.basename(path), dict(np.load(path))) for path in paths]
    return [recording for item in data for recording in _read_recordings(item)]


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
            raise InvalidArgument(f"'{key}' is neither an input nor an output of the model; it has the inputs {inputs} and "
                                  f"the outputs {outputs}")
    return fed, expected


def _native_value(value: Any) -> "_ferry.Value":
    return _ferry.Value.sequence(value) if isinstance(value, list) else _ferry.Value.of(value)


def _differences(names: Sequence[str], data: str, actual: Sequence[Any], expected: Sequence[Any], rtol: float,
                 atol: float) -> list[Difference]:
    return [Difference(output=name, data=data, **_ferry.difference(_native_value(a), _native_value(e), rtol, atol))
            for name, a, e in zip(names, actual, expected)]


def _as_session(model: Model) -> InferenceSession:
    return model if isinstance(model, InferenceSession) else InferenceSession(model_source(model))


def _looks_like_data(thing: Any) -> bool:
    if isinstance(thing, (str, os.PathLike)):
        return os.fspath(thing).endswith(".npz")
    return isinstance(thing, Mapping) or (isinstance(thing, (list, tuple)) and all(map(_looks_like_data, thing)))


def compare(model: Model, other: Any = None, *, data: Any = None, rtol: float = 1e-3, atol: float = 1e-5,
            dimensions: Mapping[str, int] | None = None, seed: int = 1) -> Comparison:
    """Holds a model's answers against recorded ones, or against another model's.

    `other` is a recording (a dict of arrays, .npz files; keys are names, or in0 … and out0 …) or another model. Two
    models are run on the inputs in `data`, else on random ones, with named dimensions as in `dimensions`. Two values are
    equal when |a - b| <= atol + rtol * |b|; NaN equals NaN.

    >>> x = np.ones((1, 10), np.float32)
    >>> y = InferenceSession(example_model()).run(None, {"x": x})[0]
    >>> compare(example_model(), {"x": x, "y": y})
    data   output  max abs  mean abs  max rel  mean rel
    given  y       0        0         0        0
    largest difference 0: within tolerance (rtol 0.001, atol 1e-05)
    >>> bool(compare(example_model(), {"x": x, "y": y + 1}))
    False
    >>> bool(compare(example_model(), example_model(), dimensions={"batch": 3}))
    True
    """
    session = _as_session(model)
    if other is not None and not _looks_like_data(other):
        return _compare_models(session, _as_session(other), data, rtol, atol, dimensions, seed)
    if other is not None and data is not None:
        raise InvalidArgument("give recordings as the second argument or as data, not as both")
    found: list[Difference] = []
    for name, recording in _read_recordings(other if data is None else data):
        fed, expected = _by_name(recording, session)
        if not expected:
            raise InvalidArgument(f"{name}: there is no recorded output in it to compare with")
        found += _differences(list(expected), name, session.run(list(expected), fed), list(expected.values()), rtol, atol)
    return Comparison(found, rtol, atol)


def _compare_models(first: InferenceSession, second: InferenceSession, data: Any, rtol: float, atol: float,
                    dimensions: Mapping[str, int] | None, seed: int) -> Comparison:
    names = [arg.name for arg in first.get_outputs()]
    if len(second.get_outputs()) != len(names):
        raise InvalidArgument(f"the models have {len(names)} and {len(second.get_outputs())} outputs")
    if data is None:
        recordings = [("random", first.random_inputs(dimensions, seed))]
    else:
        recordings = [(name, _by_name(recording, first)[0]) for name, recording in _read_recordings(data)]
    renamed = dict(zip((arg.name for arg in first.get_inputs()), (arg.name for arg in second.get_inputs())))
    found: list[Difference] = []
    for name, fed in recordings:
        expected = second.run(None, {renamed.get(key, key): value for key, value in fed.items()})
        found += _differences(names, name, first.run(None, fed), expected, rtol, atol)
    return Comparison(found, rtol, atol)


@dataclass(frozen=True, repr=False)
class WrittenModel:
    """A model that was written to a file."""

    path: str
    opset: int
    nodes: int
    warnings: list[str] = field(default_factory=list)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return "\n".join([f"{self.path}: opset {self.opset}, {self.nodes} nodes",
                          *(f"warning: {text}" for text in self.warnings)])

    def _repr_html_(self) -> str:
        return table([("file", self.path), ("opset", self.opset), ("nodes", self.nodes),
                      *(("warning", text) for text in self.warnings)])


def convert(model: Model, path: str | os.PathLike[str], *, opset: int) -> WrittenModel:
    """Writes a model for an older or newer opset of ai.onnx, 7 to 28; refuses where the meaning cannot be kept.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     convert(example_model(), os.path.join(folder, "model.onnx"), opset=9).opset
    9
    """
    said = _ferry.convert(model_source(model), int(opset), os.fsdecode(os.fspath(path)))
    return WrittenModel(os.fspath(path), said["opset"], said["nodes"])


def export(program: Any, path: str | os.PathLike[str], args: Sequence[Any] | None = None, *, opset: int | None = None,
           input_names: Sequence[str] = (), output_names: Sequence[str] = (),
           dynamic: Mapping[str, Mapping[int, str]] | None = None) -> WrittenModel:
    """Writes a PyTorch program as an ONNX model.

    `program` is a .pt2 or TorchScript .pt file, a torch.export.ExportedProgram, a torch.jit.ScriptModule, or a live
    torch.nn.Module, which is captured with `args` as its inputs: by torch.export where this PyTorch has it, else by
    torch.jit.trace. `dynamic` names dimensions that stay open: {"x": {0: "batch"}}.

        ferry.export(net.eval(), "net.onnx", (torch.randn(1, 10),), input_names=["x"], dynamic={"x": {0: "batch"}})
    """
    axes = [(name, int(axis), dimension) for name, sizes in (dynamic or {}).items() for axis, dimension in sizes.items()]
    with tempfile.TemporaryDirectory(prefix="ferry_") as folder:
        source = _archive_of(program, args, folder, input_names, dynamic or {})
        said = _ferry.export(source, os.fsdecode(os.fspath(path)), int(opset or _ferry.default_opset), list(input_names),
                             list(output_names), axes)
    return WrittenModel(os.fspath(path), said["opset"], said["nodes"], said["warnings"])


def _archive_of(program: Any, args: Sequence[Any] | None, folder: str, input_names: Sequence[str],
                dynamic: Mapping[str, Mapping[int, str]]) -> str:
    """The file that holds the program; a live one is saved in `folder`."""
    if isinstance(program, (str, os.PathLike)):
        return os.fsdecode(os.fspath(program))
    import torch

    if isinstance(program, torch.jit.ScriptModule):
        path = os.path.join(folder, "module.pt")
        torch.jit.save(program, path)
        return path
    has_export = hasattr(torch, "export") and hasattr(torch.export, "export")
    if isinstance(program, torch.nn.Module):
        if args is None:
            raise InvalidArgument("a module is captured by running it: give its inputs as args, e.g. args=(torch.randn(1, 10),)")
        args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
        if not has_export:
            return _archive_of(torch.jit.trace(program, args), None, folder, input_names, dynamic)
        program = torch.export.export(program, args, dynamic_shapes=_dynamic_shapes(torch, args, input_names, dynamic))
    if has_export and isinstance(program, torch.export.ExportedProgram):
        path = os.path.join(folder, "module.pt2")
        torch.export.save(program, path)
        return path
    raise NotImplemented(f"a {type(program).__name__} can't be exported: give a torch.nn.Module, a .pt2 or a .pt file")


def _dynamic_shapes(torch: Any, args: Sequence[Any], input_names: Sequence[str],
                    dynamic: Mapping[str, Mapping[int, str]]) -> Any:
    """What torch.export wants to know about open dimensions: one entry per input, the same name the same Dim."""
    if not dynamic:
        return None
    unknown = set(dynamic) - set(input_names)
    if unknown:
        raise InvalidArgument(f"dynamic speaks of {sorted(unknown)}, which input_names does not name")
    dims: dict[str, Any] = {}
    shapes = []
    for position in range(len(args)):
        name = input_names[position] if position < len(input_names) else ""
        shapes.append({axis: dims.setdefault(dim, torch.export.Dim(dim)) for axis, dim in dynamic.get(name, {}).items()} or None)
    return tuple(shapes)
