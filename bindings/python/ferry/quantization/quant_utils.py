"""Types and forms, by onnxruntime's names."""

from __future__ import annotations

import enum


class QuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1


class QuantType(enum.Enum):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6
