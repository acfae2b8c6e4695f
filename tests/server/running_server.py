"""A ferry-server for a test: a repository of small models, free ports, and HTTP without any client library."""
import http.client
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

TYPES = {
    "BOOL": (np.bool_, TensorProto.BOOL), "UINT8": (np.uint8, TensorProto.UINT8), "UINT16": (np.uint16, TensorProto.UINT16),
    "UINT32": (np.uint32, TensorProto.UINT32), "UINT64": (np.uint64, TensorProto.UINT64), "INT8": (np.int8, TensorProto.INT8),
    "INT16": (np.int16, TensorProto.INT16), "INT32": (np.int32, TensorProto.INT32), "INT64": (np.int64, TensorProto.INT64),
    "FP16": (np.float16, TensorProto.FLOAT16), "FP32": (np.float32, TensorProto.FLOAT), "FP64": (np.float64, TensorProto.DOUBLE),
    "BF16": (np.uint16, TensorProto.BFLOAT16), "BYTES": (object, TensorProto.STRING),
}


def save(path, nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*x) for x in inputs],
                              [helper.make_tensor_value_info(*x) for x in outputs])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), path)


def identity(path, proto_type, dims=("batch", 4)):
    save(path, [helper.make_node("Identity", ["x"], ["y"])], [("x", proto_type, dims)], [("y", proto_type, dims)])


def make_repository(folder):
    for name, (_, proto_type) in TYPES.items():
        identity(f"{folder}/identity_{name.lower()}/1/model.onnx", proto_type)
    # z = a + b and a - b, with a configuration that limits the batch
    save(f"{folder}/add_sub/1/model.onnx", [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"])],
         [("a", TensorProto.FLOAT, ["n", 3]), ("b", TensorProto.FLOAT, ["n", 3])],
         [("sum", TensorProto.FLOAT, ["n", 3]), ("difference", TensorProto.FLOAT, ["n", 3])])
    with open(f"{folder}/add_sub/labels.txt", "w") as file:
        file.write("apple\npear\nplum\n")
    with open(f"{folder}/add_sub/config.pbtxt", "w") as file:
        file.write('''# limits
name: "add_sub"
platform: 'onnxruntime_onnx'
max_batch_size: 8
input [ { name: "a" data_type: TYPE_FP32 dims: [ 3 ] }, { name: "b", data_type: TYPE_FP32, dims: 3 } ]
output { name: "sum" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels" ".txt" }
output { name: "difference" data_type: TYPE_FP32 dims: [ 3 ] }
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100
  priority_levels: 2 default_priority_level: 1
  priority_queue_policy { key: 2 value { max_queue_size: 100 allow_timeout_override: true } } }
instance_group [ { count: 2 kind: KIND_CPU } ]
model_warmup { name: "w" batch_size: 2 inputs { key: "a" value { data_type: TYPE_FP32 dims: 3 zero_data: true } }
  inputs { key: "b" value { data_type: TYPE_FP32 dims: 3 random_data: true } } }
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
version_policy { all { } }
''')
    identity(f"{folder}/add_sub_other/1/model.onnx", TensorProto.FLOAT)
    save(f"{folder}/text/1/model.onnx", [helper.make_node("Identity", ["text_input"], ["text_output"])],
         [("text_input", TensorProto.STRING, ["n", 1])], [("text_output", TensorProto.STRING, ["n", 1])])
    return folder


class Server:
    def __init__(self, binary, *options, repository=None):
        self.folder = tempfile.TemporaryDirectory()
        self.repository = repository or make_repository(self.folder.name + "/models")
        self.log = open(self.folder.name + "/log", "w+")
        self.process = subprocess.Popen([binary, "--model-repository", self.repository, "--http-address=127.0.0.1",
                                         "--grpc-address=127.0.0.1", "--http-port=0", "--grpc-port=0", "--metrics-port=0", *options],
                                        stderr=self.log)
        self.ports = {}
        for _ in range(600):
            text = open(self.log.name).read()
            if "is ready" in text or self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.ports = {name: int(port) for name, port in re.findall(r"Started (\w+).* at [\d.]+:(\d+)", text)}
        if "is ready" not in text:
            self.stop()
            raise RuntimeError("the server does not start:\n" + text)
        self.http_port, self.grpc_port, self.metrics_port = self.ports["HTTPService"], self.ports["GRPCInferenceService"], self.ports["Metrics"]

    def request(self, method, path, body=None, headers=None, port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.http_port, timeout=30)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, dict((k.lower(), v) for k, v in answer.getheaders()), data

    def get(self, path):
        status, _, data = self.request("GET", path)
        return status, json.loads(data) if data else None

    def post(self, path, body=None):
        status, _, data = self.request("POST", path, json.dumps(body) if body is not None else None)
        return status, json.loads(data) if data else None

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = self.stop()
        if kind is not None:
            self.log.seek(0)
            sys.stderr.write(self.log.read()[-4000:])
        elif status != 0:
            raise RuntimeError(f"the server ended with {status}")


def wire(array, datatype):
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(x)) + x for x in array.ravel())
    return array.tobytes()


def sample(datatype, rows=2):
    if datatype == "BYTES":
        return np.array([[b"", b"a", "\u00fc\u4e16".encode(), b"line\nquote\""]] * rows, dtype=object)
    kind = TYPES[datatype][0]
    if datatype == "BOOL":
        return np.array([[True, False, False, True]] * rows)
    if datatype == "BF16":
        return np.array([[0x3f80, 0xc000, 0, 0x7f80]] * rows, dtype=np.uint16)
    if np.issubdtype(kind, np.floating):
        return np.array([[0.5, -1.25, 3, 65504]] * rows, dtype=kind)
    info = np.iinfo(kind)
    return np.array([[info.min, info.max, 1, 7]] * rows, dtype=kind)
