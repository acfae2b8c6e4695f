#!/usr/bin/env python3
"""Runs a model through Ferry's C interface with ctypes alone: no package, no numpy. Every language that can call C does
the same.

    python3 c_interface.py libferry.so model.onnx
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int64, c_size_t, c_void_p

FLOAT = 1  # FERRY_FLOAT


def load(path):
    """The library, with the types of the functions that are used here."""
    library = ctypes.CDLL(path)
    for name, result, *arguments in (
        ("ferry_version", c_char_p),
        ("ferry_status_message", c_char_p, c_void_p),
        ("ferry_status_free", None, c_void_p),
        ("ferry_session_open", c_void_p, c_char_p, c_void_p, POINTER(c_void_p)),
        ("ferry_session_free", None, c_void_p),
        ("ferry_input", c_void_p, c_void_p, c_size_t),
        ("ferry_output", c_void_p, c_void_p, c_size_t),
        ("ferry_info_name", c_char_p, c_void_p),
        ("ferry_info_type", c_char_p, c_void_p),
        ("ferry_info_rank", c_int64, c_void_p),
        ("ferry_info_dim", c_int64, c_void_p, c_size_t),
        ("ferry_tensor_copy", c_void_p, ctypes.c_int, POINTER(c_int64), c_size_t, c_void_p, c_size_t, POINTER(c_void_p)),
        ("ferry_tensor_size", c_int64, c_void_p),
        ("ferry_tensor_data", c_void_p, c_void_p),
        ("ferry_value_free", None, c_void_p),
        ("ferry_run", c_void_p, c_void_p, POINTER(c_char_p), POINTER(c_void_p), c_size_t, POINTER(c_char_p), c_size_t,
         POINTER(c_void_p)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def main(library_path, model_path):
    ferry = load(library_path)

    def check(status):
        if status:
            message = ferry.ferry_status_message(status).decode()
            ferry.ferry_status_free(status)
            sys.exit(message)

    session = c_void_p()
    check(ferry.ferry_session_open(model_path.encode(), None, byref(session)))
    source, target = ferry.ferry_input(session, 0), ferry.ferry_output(session, 0)
    print(ferry.ferry_info_name(source).decode(), ferry.ferry_info_type(source).decode(), "->",
          ferry.ferry_info_name(target).decode(), ferry.ferry_info_type(target).decode())

    dims = [max(1, ferry.ferry_info_dim(source, axis)) for axis in range(ferry.ferry_info_rank(source))]
    count = 1
    for dim in dims:
        count *= dim
    zeros = (c_float * count)()
    value, result = c_void_p(), c_void_p()
    check(ferry.ferry_tensor_copy(FLOAT, (c_int64 * len(dims))(*dims), len(dims), zeros, ctypes.sizeof(zeros), byref(value)))
    check(ferry.ferry_run(session, (c_char_p * 1)(ferry.ferry_info_name(source)), (c_void_p * 1)(value), 1,
                          (c_char_p * 1)(ferry.ferry_info_name(target)), 1, byref(result)))
    answers = ctypes.cast(ferry.ferry_tensor_data(result), POINTER(c_float))
    for i in range(ferry.ferry_tensor_size(result)):
        print(f"{answers[i]:g}")
    for handle in (result, value):
        ferry.ferry_value_free(handle)
    ferry.ferry_session_free(session)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
