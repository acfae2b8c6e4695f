"""Where samples come from, and how ranges are found in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .quant_utils import NamedEnum


class CalibrationMethod(NamedEnum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


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


def samples_of(reader: Any) -> Iterator[Mapping[str, Any]]:
    """What a reader gives, one sample after the other."""
    while (sample := reader.get_next()) is not None:
        yield sample
