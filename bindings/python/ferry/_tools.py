"""What Ferry does beside running a model: check it, describe it, convert it, export it from PyTorch."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from . import _ferry
from ._arguments import arguments_of, sample_of, trace
from ._errors import FerryError, InvalidArgument, InvalidGraph, NotImplemented
from ._report import columns, count, finding_text, place_text, size, table
from ._session import NodeArg, example_model, model_source  # noqa: F401 - for the examples

Model = Any  # a path, the bytes of a model, or an onnx.ModelProto


def name_of(model: Model) -> str:
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
        return place_text(self)

    def __str__(self) -> str:
        return finding_text(self, self.rule)


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
        counts = [f"{number} {what}{'s' if number != 1 else ''}"
                  for number, what in ((errors, "error"), (warnings, "warning")) if number]
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
    return CheckResult(name_of(model), [Problem(**problem) for problem in problems])


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


def export(program: Any = None, path: str | os.PathLike[str] | None = None, args: Any = None, *,
           opset: int | None = None,
           input_names: Sequence[str] = (), output_names: Sequence[str] = (),
           dynamic: Mapping[str, Mapping[int, str]] | None = None, mode: str = "",
           opset_version: int | None = None,
           dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
           do_constant_folding: bool = True, export_params: bool = True, verbose: bool = False,
           kwargs: Mapping[str, Any] | None = None, model: Any = None, f: str | os.PathLike[str] | None = None,
           training: Any = None, keep_initializers_as_inputs: bool | None = None, operator_export_type: Any = None,
           custom_opsets: Mapping[str, int] | None = None, dynamo: bool | None = None) -> WrittenModel:
    """Writes a PyTorch program as an ONNX model.

    `program` is a .pt2 or TorchScript .pt file, a torch.export.ExportedProgram, a torch.jit.ScriptModule, or a live
    torch.nn.Module, which is captured with `args` as its inputs: by torch.export where this PyTorch has it, else by
    torch.jit.trace. A TorchScript program does not say its inputs' types and shapes: `args` tells them too.
    `dynamic` names dimensions that stay open: {"x": {0: "batch"}}. A program that was captured in training mode is
    refused unless `mode` says what to do: "eval" converts it, "training" keeps it. Inputs may be tuples, lists and
    dicts of tensors; numbers become constants of a module that is captured. Calls written for torch.onnx.export work:
    its order of arguments (module, args, path), a dict at the end of args for arguments by name, `f`, `model`,
    `opset_version`, `dynamic_axes`, `training`; constants are always folded.

        ferry.export(net.eval(), "net.onnx", (torch.randn(1, 10),), input_names=["x"], dynamic={"x": {0: "batch"}})
    """
    if isinstance(args, (str, os.PathLike)) and not isinstance(path, (str, os.PathLike)):
        path, args = args, path  # torch.onnx.export's order
    elif f is not None and path is not None and args is None:
        path, args = None, path
    program, path = (model if program is None else program), (f if path is None else path)
    if program is None or path is None:
        raise InvalidArgument("export needs a program and the path of the model that it becomes")
    if keep_initializers_as_inputs:
        raise InvalidArgument("weights are no inputs: keep_initializers_as_inputs=True is not possible")
    if getattr(operator_export_type, "name", "ONNX") != "ONNX":
        raise InvalidArgument("only operators of ONNX are written: operator_export_type must be ONNX")
    mode = mode or {"EVAL": "eval", "TRAINING": "training"}.get(getattr(training, "name", ""), "")
    if not export_params:
        raise InvalidArgument("a model is written with its weights: export_params=False is not possible")
    opset = opset or opset_version
    if dynamic_axes:
        dynamic = {**_open_axes(dynamic_axes, output_names), **(dynamic or {})}
    if mode not in ("", "eval", "training"):
        raise InvalidArgument(f"mode must be 'eval' or 'training', not {mode!r}")
    axes = [(name, int(axis), dimension)
            for name, sizes in (dynamic or {}).items() for axis, dimension in sizes.items()]
    with tempfile.TemporaryDirectory(prefix="ferry_") as folder:
        if args is not None or kwargs:
            given = args if isinstance(args, (tuple, list)) else () if args is None else (args,)
            args, names = arguments_of(program, given, kwargs)
        else:
            names = []
        source = _archive_of(program, args, folder, input_names, dynamic or {})
        sample = {} if source.endswith(".pt2") else sample_of(args, names)
        try:
            said = _ferry.export(source, os.fsdecode(os.fspath(path)), int(opset or _ferry.default_opset),
                                 list(input_names), list(output_names), axes, mode, sample)
        except FerryError as error:
            raise type(error)(_in_python(str(error), source, folder)) from None
    return WrittenModel(os.fspath(path), said["opset"], said["nodes"],
                        [_in_python(warning, source, folder) for warning in said["warnings"]])


def _open_axes(dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]],
               output_names: Sequence[str]) -> dict[str, Mapping[int, str]]:
    """torch.onnx.export's form, in which axes may lack names and outputs are named too."""
    return {name: axes if isinstance(axes, Mapping) else {axis: f"{name}_dynamic_axes_{axis + 1}" for axis in axes}
            for name, axes in dynamic_axes.items() if name not in output_names}


def _in_python(text: str, source: str, folder: str) -> str:
    """A message of the exporter for a caller who wrote Python: his arguments instead of options and our files."""
    if source.startswith(folder):
        text = text.replace(source, "the module")
    text = re.sub(r"--dynamic (\w+):(\d+)=(\w+)", r"dynamic={'\1': {\2: '\3'}}", text)
    text = re.sub(r"--input (\w+):\S*\], or give recorded inputs with --data FILE\.npz", "args=(…)", text)
    for option, argument in {"--dynamic NAME:AXIS=DIM": "dynamic={NAME: {AXIS: DIM}}", "--eval": "mode='eval'",
                             "--training": "mode='training'", "--dynamic": "dynamic", "--input": "args"}.items():
        text = text.replace(option, argument)
    return text


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
            raise InvalidArgument("a module is captured by running it: give its inputs as args, e.g. "
                                  "args=(torch.randn(1, 10),)")
        if not has_export:
            return _archive_of(trace(program, args), None, folder, input_names, dynamic)
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
        opened = dynamic.get(name, {}).items()
        shapes.append({axis: dims.setdefault(dim, torch.export.Dim(dim)) for axis, dim in opened} or None)
    return tuple(shapes)
