"""Types and forms, by onnxruntime's names."""

from __future__ import annotations

import enum


class NamedEnum(enum.Enum):
    """Says its bare name, as command lines do.

    >>> str(QuantType.QInt8), QuantType.from_string("QUInt8") is QuantType.QUInt8
    ('QInt8', True)
    """

    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_string(cls, name: str) -> NamedEnum:
        """What has this name; ValueError for others."""
        if name not in cls.__members__:
            raise ValueError(f"there is no {cls.__name__} '{name}'; there are: {', '.join(cls.__members__)}")
        return cls[name]


class QuantFormat(NamedEnum):
    QOperator = 0
    QDQ = 1


class QuantType(NamedEnum):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6
