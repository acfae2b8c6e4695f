"""Reads pairs of model files (one pair a line, tab between) with ONNX's own library and compares what they say.

Fields that are set to what they would be anyway (an empty text) count as not set.
"""
import sys

import onnx
import onnx.external_data_helper
import onnx.numpy_helper
from google.protobuf.message import Message


def normalize(message):
    for field, value in list(message.ListFields()):
        if field.label == field.LABEL_REPEATED:
            if field.message_type:
                for element in value:
                    normalize(element)
        elif isinstance(value, Message):
            normalize(value)
        elif value in ("", b"") and field.name not in ("raw_data", "s"):
            message.ClearField(field.name)


def main():
    differing = 0
    with open(sys.argv[1]) as lines:
        for line in lines:
            original_path, written_path = line.rstrip("\n").split("\t")
            original, written = onnx.load(original_path), onnx.load(written_path)
            for model in (original, written):
                normalize(model)
                for tensor in onnx.external_data_helper._get_all_tensors(model):
                    if tensor.HasField("raw_data"):  # the mark of where it was loaded from
                        tensor.ClearField("data_location")
                    elif tensor.data_type != onnx.TensorProto.STRING and tensor.data_type <= 16:
                        plain = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name)
                        for name in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                            tensor.ClearField(name)
                        tensor.raw_data = plain.raw_data
            if original != written:
                differing += 1
                print("differs:", original_path, file=sys.stderr)
    return 1 if differing else 0


sys.exit(main())
