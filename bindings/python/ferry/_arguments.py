"""The arguments that a PyTorch program is exported with."""

from __future__ import annotations

import inspect
from typing import Any, Mapping, Sequence

from ._errors import InvalidArgument


def _default(argument: Any) -> Any:
    if not argument.has_default_value():
        return inspect.Parameter.empty
    try:
        return argument.default_value
    except RuntimeError:  # None for a tensor
        return None


def _parameters(program: Any) -> list[inspect.Parameter]:
    """Those of forward, where the program says them."""
    schema = getattr(getattr(program, "forward", None), "schema", None)
    if schema is not None:  # TorchScript, where the first is the module
        return [inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=_default(argument))
                for argument in schema.arguments[1:]]
    if not callable(getattr(program, "forward", None)):
        return []
    return list(inspect.signature(program.forward).parameters.values())


def arguments_of(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], list[str]]:
    """All of them by position, and their names. A dict at the end that names parameters has arguments by name."""
    parameters = _parameters(program)
    named = dict(kwargs or {})
    args = tuple(args)
    if args and isinstance(args[-1], dict) and set(args[-1]) <= {parameter.name for parameter in parameters}:
        named, args = {**args[-1], **named}, args[:-1]
    if not parameters:
        if named:
            raise InvalidArgument("this program does not say the names of its inputs: give them by position")
        return args, []
    try:
        bound = inspect.Signature(parameters).bind(*args, **named)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"args are not what the module takes: {error}") from None
    last = max((i for i, parameter in enumerate(parameters) if parameter.name in bound.arguments), default=-1)
    for parameter in parameters[:last]:
        if parameter.default is not parameter.empty:
            bound.arguments.setdefault(parameter.name, parameter.default)
    values = inspect.BoundArguments(inspect.Signature(parameters),
                                    {parameter.name: bound.arguments[parameter.name] for parameter in parameters
                                     if parameter.name in bound.arguments})
    if values.kwargs:
        raise InvalidArgument(f"{sorted(values.kwargs)} can only be given by name, which export does not do")
    plain = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    return values.args, plain if len(plain) == len(parameters) else []


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in _leaves(f"{name}.{key}", item)]
    if isinstance(value, (tuple, list)):
        return [leaf for i, item in enumerate(value) for leaf in _leaves(f"{name}.{i}", item)]
    return [(name, value)]


def sample_of(args: Sequence[Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """Inputs as a recording has them: by the names of the parameters, or in0, in1 …"""
    import numpy

    leaves = [leaf for i, value in enumerate(args or ()) for leaf in _leaves(names[i] if i < len(names) else "", value)]
    arrays = [(name, value.detach().cpu().numpy() if hasattr(value, "detach") else value) for name, value in leaves
              if hasattr(value, "shape") or isinstance(value, (bool, int, float))]
    return {name if names else f"in{i}": numpy.asarray(value) for i, (name, value) in enumerate(arrays)}


def _is_traced(value: Any) -> bool:
    leaves = _leaves("", value)
    return bool(leaves) and all(hasattr(leaf, "detach") for _, leaf in leaves)


def trace(module: Any, args: tuple[Any, ...]) -> Any:
    """By torch.jit.trace, which takes tensors only: everything else becomes a constant of the program."""
    import torch

    if all(_is_traced(value) for value in args):
        return torch.jit.trace(module, args)
    forward = module.forward
    positions = [i for i, value in enumerate(args) if _is_traced(value)]

    def with_constants(*tensors: Any) -> Any:
        full = list(args)
        for position, tensor in zip(positions, tensors):
            full[position] = tensor
        return forward(*full)

    parameters = list(inspect.signature(forward).parameters.values())
    if len(parameters) >= len(args):
        kept = [parameters[i].replace(default=inspect.Parameter.empty) for i in positions]
        with_constants.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
    own = module.__dict__.get("forward")
    module.forward = with_constants
    try:
        return torch.jit.trace(module, tuple(args[i] for i in positions))
    finally:
        del module.forward
        if own is not None:
            module.forward = own
