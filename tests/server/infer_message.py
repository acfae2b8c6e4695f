"""Requests of the inference protocol as protobuf bytes, for those that send many: no generated code, no copy of it."""


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def infer_request(model, request_id, name, datatype, shape, data):
    tensor = field(1, name.encode()) + field(2, datatype.encode()) + field(3, b"".join(map(varint, shape)))
    return field(1, model.encode()) + field(3, request_id.encode()) + field(5, tensor) + field(7, data)
