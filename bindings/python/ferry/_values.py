"""Values that stay where they are between runs: OrtValue, SparseTensor, and the device they are on."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from . import _ferry
from ._errors import InvalidArgument, NotImplemented

_DLPACK_CPU, _DLPACK_CUDA = 1, 2


_problems: dict[str, str] | None = None


def provider_problems() -> dict[str, str]:
    """For each provider why it cannot be used here, "" where it can. Looked up once."""
    global _problems
    if _problems is None:
        _problems = dict(_ferry.providers())
    return _problems


def device_named(device: str, device_id: int = 0) -> str:
    """"cpu" or "cuda", where that can be used here."""
    name = str(device).lower()
    problem = provider_problems().get(name, "there is no such device")
    if problem or (name == "cuda" and int(device_id) != 0):
        raise InvalidArgument(f"device '{device}' is not available: {problem or 'device 0 is the one that is used'}")
    return name


class OrtDevice:
    """Where a value is: the CPU, or an NVIDIA GPU ("cuda").

    >>> OrtDevice.make("cpu", 0)
    OrtDevice('cpu', 0)
    """

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        self._type = device_named(device_type, device_id)
        self._id = device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        return OrtDevice(ort_device_name, device_id)

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def default_memory() -> int:
        return 0

    def device_type(self) -> str:
        return self._type

    def device_id(self) -> int:
        return self._id

    def device_vendor_id(self) -> int:
        return 0

    def device_mem_type(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"OrtDevice({self._type!r}, {self._id})"


class OrtValue:
    """A tensor, sequence or sparse tensor that stays where it is between runs, shared without copies.

    >>> value = OrtValue.ortvalue_from_numpy(np.ones((2, 3), np.float32))
    >>> value.shape(), value.data_type()
    ([2, 3], 'tensor(float)')
    >>> value
    OrtValue(tensor(float), [2, 3])
    """

    __slots__ = ("_native", "_array")

    def __init__(self, ortvalue: "_ferry.Value | OrtValue", numpy_obj: np.ndarray | None = None) -> None:
        self._native: _ferry.Value = ortvalue._native if isinstance(ortvalue, OrtValue) else ortvalue
        self._array = numpy_obj

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0,
                            vendor_id: int = -1) -> "OrtValue":
        """A value over the memory of a contiguous array; other arrays are copied, and so is one that goes to "cuda"."""
        array = np.asarray(numpy_obj)
        if device_named(device_type, device_id) != "cpu":
            return cls(_ferry.Value.of(array).to(device_named(device_type), int(device_id)))
        return cls(_ferry.Value.of(array), array)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, onnx_element_type: int) -> "OrtValue":
        """The same where numpy has no word for the type: bfloat16 from uint16, float8 from uint8.

        >>> OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(2, np.uint16), 16)
        OrtValue(tensor(bfloat16), [2])
        """
        native = _ferry.Value.of(np.asarray(data), onnx_element_type)
        if native.element_type() != onnx_element_type:
            raise InvalidArgument(f"an array of {data.dtype} can't hold elements of ONNX's type {onnx_element_type}")
        return cls(native, data)

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any = np.float32, device_type: str = "cpu",
                                     device_id: int = 0, vendor_id: int = -1, memory_info: Any = None) -> "OrtValue":
        """A tensor of zeros; the type is numpy's or a number of ONNX's TensorProto.DataType."""
        device = device_named(device_type, device_id)
        made = _ferry.Value.create(list(shape), element_type)
        return cls(made if device == "cpu" else made.to(device, int(device_id)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: "SparseTensor") -> "OrtValue":
        return cls(sparse_tensor._native)

    @classmethod
    def from_dlpack(cls, data: Any, /) -> "OrtValue":
        """A value over the memory of anything that speaks DLPack, without a copy: a torch.Tensor on the CPU or on a GPU."""
        kind = int(data.__dlpack_device__()[0])
        if kind == _DLPACK_CPU:
            return cls.ortvalue_from_numpy(np.from_dlpack(data))
        device_named("cuda" if kind == _DLPACK_CUDA else f"DLPack's {kind}", int(data.__dlpack_device__()[1]))
        native = _ferry.from_dlpack(data.__dlpack__(stream=1))  # 1: the device's default stream waits for what fills it
        _ferry.wait_for_device("cuda")
        return cls(native)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        """For torch.from_dlpack and others. What is on a device is complete when a run has ended: nothing to wait for."""
        return self.numpy().__dlpack__() if self.device_name() == "cpu" else _ferry.to_dlpack(self._native)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_CPU if self.device_name() == "cpu" else _DLPACK_CUDA, 0)

    def as_sparse_tensor(self) -> "SparseTensor":
        return SparseTensor(self._native)

    def numpy(self) -> Any:
        """The elements as an array over the same memory (from a device: a copy); a sequence as a list of arrays."""
        return self._native.numpy() if self._array is None else self._array

    def update_inplace(self, data: Any) -> None:
        """Writes other elements of the same type and shape to the same memory."""
        if self._array is not None and not self._array.flags.writeable:
            raise InvalidArgument("the array under this value is read-only")
        self._native.update(data)
        if self._array is not None and self.data_ptr() != self._array.ctypes.data:
            self._array = None  # the value has memory of its own: the array's elements were laid out otherwise

    def shape(self) -> list[int]:
        return self._native.shape()

    def data_type(self) -> str:
        """'tensor(float)', 'seq(tensor(int64))'."""
        return self._native.type_name()

    def element_type(self) -> int:
        """The number of ONNX's TensorProto.DataType."""
        return self._native.element_type()

    def device_name(self) -> str:
        """'cpu' or 'cuda'."""
        return self._native.device().partition(":")[0]

    def data_ptr(self) -> int:
        """The address of the first element, in the memory of its device."""
        return self._native.address()

    def tensor_size_in_bytes(self) -> int:
        return self._native.bytes()

    def has_value(self) -> bool:
        """False for an optional that holds nothing."""
        return self._native.has_value()

    def is_tensor(self) -> bool:
        return self._native.is_tensor()

    def is_tensor_sequence(self) -> bool:
        return self._native.is_sequence()

    def is_sparse_tensor(self) -> bool:
        return self._native.is_sparse()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.asarray(self.numpy(), dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        return f"OrtValue({self.data_type()}, {self.shape()})" if self.is_tensor() else f"OrtValue({self._native.kind()})"


class SparseTensor:
    """Values and where they are, in coordinates.

    >>> sparse = SparseTensor.sparse_coo_from_numpy([3, 3], np.array([1, 2], np.float32), np.array([0, 8]))
    >>> sparse.values(), sparse.as_coo_view().indices(), sparse.dense_shape()
    (array([1., 2.], dtype=float32), array([0, 8]), array([3, 3]))
    """

    class _Coo:
        def __init__(self, indices: np.ndarray) -> None:
            self._indices = indices

        def indices(self) -> np.ndarray:
            return self._indices

    def __init__(self, sparse_tensor: "_ferry.Value") -> None:
        if not sparse_tensor.is_sparse():
            raise InvalidArgument(f"the value is {sparse_tensor.kind()}, not a sparse tensor")
        self._native = sparse_tensor

    @staticmethod
    def sparse_coo_from_numpy(dense_shape: Sequence[int], values: np.ndarray, coo_indices: np.ndarray,
                              ort_device: OrtDevice | None = None) -> "SparseTensor":
        """Indices are positions in row-major order [n], or coordinates [n, rank]."""
        return SparseTensor(_ferry.Value.sparse([int(dim) for dim in dense_shape], values,
                                                np.asarray(coo_indices, np.int64)))

    @staticmethod
    def sparse_csr_from_numpy(dense_shape: Sequence[int], values: np.ndarray, inner_indices: np.ndarray,
                              outer_indices: np.ndarray, ort_device: OrtDevice | None = None) -> "SparseTensor":
        """Compressed rows, which are kept as coordinates."""
        rows = np.repeat(np.arange(len(outer_indices) - 1), np.diff(outer_indices))
        if len(rows) != len(inner_indices):
            raise InvalidArgument(f"the rows hold {len(rows)} values, and there are {len(inner_indices)} columns")
        return SparseTensor.sparse_coo_from_numpy(dense_shape, values, np.stack([rows, inner_indices], axis=1))

    def values(self) -> np.ndarray:
        return self._native.sparse_values()

    def as_coo_view(self) -> "SparseTensor._Coo":
        return SparseTensor._Coo(self._native.sparse_indices())

    def as_csrc_view(self) -> Any:
        """Refused: sparse tensors are kept as coordinates."""
        raise NotImplemented("sparse tensors are kept as coordinates; see as_coo_view()")

    as_blocksparse_view = as_csrc_view

    def to_cuda(self, ort_device: OrtDevice) -> "SparseTensor":
        """Refused: sparse tensors stay on the CPU."""
        raise NotImplemented("sparse tensors stay on the CPU")

    def format(self) -> str:
        return "ORT_SPARSE_COO"

    def dense_shape(self) -> np.ndarray:
        return np.array(self._native.shape(), np.int64)

    def data_type(self) -> str:
        return self._native.type_name()

    def device_name(self) -> str:
        return "cpu"

    def __repr__(self) -> str:
        return f"SparseTensor({self.data_type()}, {self._native.shape()}, {len(self.values())} values)"
