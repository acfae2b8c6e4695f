"""Every endpoint over HTTP: answers, datatypes, errors, encodings."""
import base64
import gzip
import json
import os
import socket
import struct
import sys
import tempfile
import time
import unittest
import zlib
from multiprocessing import shared_memory

import numpy as np
from running_server import TYPES, Server, identity, sample, save, wire
from onnx import TensorProto, helper

BINARY = sys.argv.pop(1)
server = None


def infer(model, body, binary=b"", **headers):
    text = json.dumps(body).encode() if not isinstance(body, bytes) else body
    sent = {k.replace("_", "-"): v for k, v in headers.items()}
    if binary:
        sent.setdefault("Inference-Header-Content-Length", str(len(text)))
    return server.request("POST", f"/v2/models/{model}/infer", text + binary, sent)


def add(rows=1, **extra):
    values = [float(i) for i in range(3 * rows)]
    return {"inputs": [{"name": n, "datatype": "FP32", "shape": [rows, 3], "data": values} for n in "ab"], **extra}


class Metadata(unittest.TestCase):
    def test_server(self):
        status, about = server.get("/v2")
        self.assertEqual(status, 200)
        self.assertIn("binary_tensor_data", about["extensions"])
        self.assertEqual(server.get("/v2/health/live"), (200, {"live": True}))
        self.assertEqual(server.get("/v2/health/ready"), (200, {"ready": True}))

    def test_model(self):
        status, about = server.get("/v2/models/add_sub")
        self.assertEqual(status, 200)
        self.assertEqual(about["versions"], ["1"])
        self.assertEqual(about["inputs"][0], {"name": "a", "datatype": "FP32", "shape": [-1, 3]})
        self.assertEqual(server.get("/v2/models/add_sub/versions/1")[0], 200)
        self.assertEqual(server.get("/v2/models/add_sub/ready")[0], 200)
        self.assertEqual(server.get("/v2/models/add_sub/versions/2/ready")[0], 404)
        status, error = server.get("/v2/models/none")
        self.assertEqual((status, error["error"]), (404, "Request for unknown model: 'none' is not found"))

    def test_config(self):
        status, config = server.get("/v2/models/add_sub/config")
        self.assertEqual((status, config["max_batch_size"]), (200, 8))
        self.assertEqual(config["input"][0]["data_type"], "TYPE_FP32")
        self.assertEqual(config["dynamic_batching"]["preferred_batch_size"], [4, 8])
        self.assertEqual(server.get("/v2/models/identity_fp32/config")[1]["input"][0]["dims"], [4])

    def test_paths(self):
        self.assertEqual(server.get("/v2/nothing"), (404, {"error": "Not Found"}))
        self.assertEqual(server.request("POST", "/v2/health/live", "")[0], 405)
        self.assertEqual(server.request("GET", "/v2/models/add_sub/infer")[0], 405)
        self.assertEqual(server.request("GET", "/")[0], 200)
        for method, path, allowed in (("GET", "/v2/models/add_sub/infer", "POST"), ("POST", "/v2", "GET, HEAD"), ("PUT", "/v2/logging", "GET, HEAD, POST")):
            status, headers, _ = server.request(method, path)
            self.assertEqual((status, headers["allow"]), (405, allowed))

    def test_forms_of_requests(self):
        """Those of proxies and of old clients."""
        def ask(text):
            with socket.create_connection(("127.0.0.1", server.http_port), timeout=5) as raw:
                raw.sendall(text)
                return raw.recv(4096)
        self.assertIn(b'{"live": true}', ask(b"GET http://host:8000/v2/health/live HTTP/1.1\r\nHost: host\r\n\r\n"))
        self.assertIn(b" 200 OK", ask(b"GET http://host HTTP/1.1\r\nHost: host\r\n\r\n"))
        self.assertIn(b'{"live": true}', ask(b"\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"))
        self.assertIn(b" 400 ", ask(b"\r\n" * 20 + b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"))
        self.assertIn(b"connection: keep-alive", ask(b"GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))
        self.assertIn(b"connection: close", ask(b"GET /v2/health/live HTTP/1.0\r\n\r\n"))

    def test_statistics_and_metrics(self):
        infer("identity_int8", {"inputs": [{"name": "x", "datatype": "INT8", "shape": [2, 4], "data": list(range(8))}]})
        stats = server.get("/v2/models/identity_int8/stats")[1]["model_stats"][0]
        self.assertGreaterEqual(stats["inference_count"], 2)
        self.assertGreater(stats["inference_stats"]["success"]["ns"], 0)
        self.assertGreater(len(server.get("/v2/models/stats")[1]["model_stats"]), 10)
        # Clients that take compressed answers to inference take only those.
        self.assertNotIn("content-encoding", server.request("GET", "/v2/models/stats", headers={"Accept-Encoding": "gzip"})[1])
        self.assertEqual(server.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})[1]["content-encoding"], "gzip")
        self.assertEqual(server.get("/v2/models/none/stats"), (400, {"error": "requested model 'none' is not available"}))
        for port in (server.metrics_port, server.http_port):
            text = server.request("GET", "/metrics", port=port)[2].decode()
            self.assertIn('nv_inference_request_success{model="identity_int8",version="1"}', text)

    def test_settings(self):
        self.assertEqual(server.get("/v2/trace/setting")[1]["trace_level"], ["OFF"])
        self.assertEqual(server.post("/v2/logging", {"log_verbose_level": 1})[1]["log_verbose_level"], 1)
        self.assertEqual(server.post("/v2/logging", {"log_verbose_level": 0})[0], 200)
        self.assertEqual(server.post("/v2/logging", {"log_info": 7})[0], 400)
        self.assertEqual(server.post("/v2/logging", {"log_info": None})[1]["log_info"], True)
        self.assertEqual(server.post("/v2/logging", {"log_file": "x"})[0], 501)
        self.assertEqual(server.post("/v2/models/add_sub/trace/setting", {"trace_rate": "9"})[1]["trace_rate"], "9")
        self.assertEqual(server.get("/v2/trace/setting")[1]["trace_rate"], "1000")
        self.assertEqual(server.post("/v2/models/add_sub/trace/setting", {"trace_rate": None})[1]["trace_rate"], "1000")
        self.assertEqual(server.get("/v2/models/none/trace/setting")[0], 400)
        self.assertEqual(server.post("/v2/trace/setting", {"trace_file": "x"})[0], 501)
        self.assertEqual(server.post("/v2/trace/setting", {"unknown": "x"})[1]["trace_mode"], "triton")
        self.assertEqual(server.post("/v2/trace/setting", {"trace_count": "-2"}),
                         (400, {"error": "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"}))


class Inference(unittest.TestCase):
    def test_json(self):
        status, _, data = infer("add_sub", add(2, id="my id"))
        answer = json.loads(data)
        self.assertEqual((status, answer["id"], answer["model_name"], answer["model_version"]), (200, "my id", "add_sub", "1"))
        outputs = {o["name"]: o for o in answer["outputs"]}
        self.assertEqual(outputs["sum"]["data"], [0, 2, 4, 6, 8, 10])
        self.assertEqual(outputs["difference"]["shape"], [2, 3])

    def test_nested_data_and_chosen_outputs(self):
        body = {"inputs": [{"name": n, "shape": [1, 3], "datatype": "FP32", "data": [[1, 2.5, -3e2]]} for n in "ab"],
                "outputs": [{"name": "sum"}]}
        answer = json.loads(infer("add_sub", body)[2])
        self.assertEqual([o["name"] for o in answer["outputs"]], ["sum"])
        self.assertEqual(answer["outputs"][0]["data"], [2, 5, -600])

    def test_generate(self):
        status, headers, data = server.request("POST", "/v2/models/add_sub/generate", json.dumps(
            {"a": [1, 2, 3], "id": "g1", "b": [1, 1, 1], "text": "kept for nobody", "parameters": {"temperature": 0.5}}))
        self.assertEqual((status, headers["content-type"]), (200, "application/json"))
        self.assertEqual(json.loads(data), {"id": "g1", "model_name": "add_sub", "model_version": "1", "sum": [2, 3, 4], "difference": [0, 1, 2]})
        # Elements beyond a row are further rows; an input may stand among the parameters; one element loses its brackets.
        answer = server.post("/v2/models/add_sub/versions/1/generate", {"a": [1, 2, 3, 4, 5, 6], "parameters": {"b": [0] * 6}})[1]
        self.assertEqual(answer["sum"], [1, 2, 3, 4, 5, 6])
        answer = server.post("/v2/models/text/generate", {"text_input": "h\u00fc"})[1]
        self.assertEqual(answer, {"model_name": "text", "model_version": "1", "text_output": "h\u00fc"})
        status, headers, data = server.request("POST", "/v2/models/text/generate_stream", json.dumps({"text_input": "x"}))
        self.assertEqual((status, headers["content-type"]), (200, "text/event-stream; charset=utf-8"))
        self.assertTrue(data.startswith(b"data: {") and data.endswith(b"}\n\n"))
        self.assertEqual(json.loads(data[6:])["text_output"], "x")

    def test_generate_errors(self):
        for body, text in (({}, "expected 2 inputs but got 0 inputs"), ({"a": [1, 2, 3]}, "missing required input(s) ['b']"),
                           ({"a": [1, 2], "b": [1, 2, 3]}, "The schema can not convert input 'a' to tensor with proper shape"),
                           ({"a": ["x", 2, 3], "b": [1, 2, 3]}, "input 'a'"), ({"a": [[1, 2, 3]], "b": 1}, "Unable to parse 'a'"),
                           ({"a": None, "b": [1, 2, 3]}, "a"), ({"q": [1]}, "parameter 'q' has invalid type"),
                           ({"parameters": 1}, "Expected JSON object for keyword: 'parameters'"), ({"id": 7}, "Unable to parse 'id'"), ([1], "JSON")):
            for verb in ("generate", "generate_stream"):
                status, headers, data = server.request("POST", f"/v2/models/add_sub/{verb}", json.dumps(body))
                self.assertEqual((status, headers["content-type"]), (400, "application/json"), (body, data))
                self.assertIn(text, json.loads(data)["error"])
        status, _, data = server.request("POST", "/v2/models/add_sub/generate", '{"a":[1,2,3],"b":[1,2,3],"a":[1,2,3]}')
        self.assertEqual((status, json.loads(data)["error"]), (400, "input 'a' already exists in request"))
        self.assertEqual(server.get("/v2/models/add_sub/generate")[0], 405)
        self.assertEqual(server.post("/v2/models/none/generate", {})[0], 404)

    def test_every_datatype(self):
        for datatype in TYPES:
            array, model = sample(datatype), f"identity_{datatype.lower()}"
            data = wire(array, datatype)
            body = {"inputs": [{"name": "x", "datatype": datatype, "shape": [2, 4], "parameters": {"binary_data_size": len(data)}}],
                    "parameters": {"binary_data_output": True}}
            status, headers, got = infer(model, body, data)
            self.assertEqual(status, 200, (datatype, got))
            length = int(headers["inference-header-content-length"])
            about = json.loads(got[:length])["outputs"][0]
            self.assertEqual((about["datatype"], about["parameters"]["binary_data_size"]), (datatype, len(data)))
            self.assertEqual(got[length:], data, datatype)
            if datatype in ("FP16", "BF16"):
                body["parameters"] = {}
                self.assertEqual(infer(model, body, data)[0], 400)
                continue
            values = [x.decode() for x in array.ravel()] if datatype == "BYTES" else array.ravel().tolist()
            body = {"inputs": [{"name": "x", "datatype": datatype, "shape": [2, 4], "data": values}]}
            status, _, got = infer(model, body)
            self.assertEqual(status, 200, (datatype, got))
            self.assertEqual(json.loads(got)["outputs"][0]["data"], values, datatype)

    def test_mixed_and_raw(self):
        binary = np.array([[1, 2, 3]], np.float32).tobytes()
        body = add()
        del body["inputs"][1]["data"]
        body["inputs"][1]["parameters"] = {"binary_data_size": 12}
        body["outputs"] = [{"name": "sum", "parameters": {"binary_data": True}}, {"name": "difference"}]
        status, headers, data = infer("add_sub", body, binary)
        length = int(headers["inference-header-content-length"])
        self.assertEqual(np.frombuffer(data[length:], np.float32).tolist(), [1, 3, 5])
        self.assertEqual(json.loads(data[:length])["outputs"][1]["data"], [-1, -1, -1])
        raw = np.arange(4, dtype=np.int32).tobytes()
        status, headers, data = server.request("POST", "/v2/models/identity_int32/infer", raw, {"Inference-Header-Content-Length": "0"})
        self.assertEqual((status, data[int(headers["inference-header-content-length"]):]), (200, raw))

    def test_classification(self):
        body = add(2, outputs=[{"name": "sum", "parameters": {"classification": 2}}])
        output = json.loads(infer("add_sub", body)[2])["outputs"][0]
        self.assertEqual((output["datatype"], output["shape"]), ("BYTES", [2, 2]))
        self.assertEqual(output["data"][0], "4.000000:2:plum")

    def test_encodings(self):
        text = json.dumps(add(8)).encode()
        for name, pack, unpack in (("gzip", gzip.compress, gzip.decompress), ("deflate", zlib.compress, zlib.decompress)):
            status, headers, data = server.request("POST", "/v2/models/add_sub/infer", pack(text), {"Content-Encoding": name, "Accept-Encoding": name})
            self.assertEqual((status, headers["content-encoding"]), (200, name))
            self.assertEqual(json.loads(unpack(data))["outputs"][0]["data"][23], 46)
        for accepted, expected in (("gzip;q=0.2, deflate;q=0.7", "deflate"), ("deflate, gzip", "deflate"), ("gzip;q=0", None),
                                   ("gzip;q=0.0, deflate;q=0.001", "deflate"), ("identity, gzip;q=0.5", None), ("br, GZIP", None)):
            self.assertEqual(infer("add_sub", text, Accept_Encoding=accepted)[1].get("content-encoding"), expected, accepted)
        self.assertEqual(infer("add_sub", text, Content_Encoding="br")[0], 501)
        self.assertEqual(infer("add_sub", b"nonsense", Content_Encoding="gzip")[0], 400)
        bomb = gzip.compress(b"0" * (100 << 20))
        self.assertEqual(infer("add_sub", bomb, Content_Encoding="gzip")[0], 400)

    def test_errors(self):
        def error(body, model="add_sub", binary=b"", **headers):
            status, _, data = infer(model, body, binary, **headers)
            return status, json.loads(data)["error"]
        wrong = add()
        wrong["inputs"][0]["name"] = "c"
        self.assertEqual(error(wrong), (400, "unexpected inference input 'c' for model 'add_sub'"))
        wrong = add()
        wrong["inputs"].append({**wrong["inputs"][0], "name": "c"})
        self.assertEqual(error(wrong), (400, "unexpected inference input 'c' for model 'add_sub': expected 2 inputs but got 3 inputs "
                                             "for model 'add_sub'"))
        wrong = add()
        wrong["inputs"][0]["datatype"] = "FP64"
        self.assertEqual(error(wrong), (400, "inference input 'a' data-type is 'FP64', but model 'add_sub' expects 'FP32'"))
        wrong = add()
        for x in wrong["inputs"]:
            x["shape"], x["data"] = [1, 4], [0] * 4
        self.assertTrue(error(wrong)[1].startswith("unexpected shape for input 'a' for model 'add_sub'. Expected [-1,3], got [1,4]"))
        self.assertEqual(error(add(9)), (400, "inference request batch-size must be <= 8 for 'add_sub'"))
        wrong = add()
        del wrong["inputs"][1]
        self.assertIn("missing required input(s) ['b']", error(wrong)[1])
        self.assertEqual(error(add(), "none"), (404, "Request for unknown model: 'none' is not found"))
        self.assertEqual(error(add(outputs=[{"name": "q"}])), (400, "unexpected inference output 'q' for model 'add_sub'"))
        for broken in (b"", b"{", b"[]", b'{"inputs":3}', b'{"inputs":[{"name":"a"}]}', b"[" * 10000, b'{"inputs":[],"id":7}',
                       b'{"inputs":[{"name":"a","shape":[9223372036854775807,8],"datatype":"FP32","data":[1]}]}',
                       b'{"inputs":[{"name":"a","shape":[1,-3],"datatype":"FP32","data":[1]}]}'):
            self.assertEqual(infer("add_sub", broken)[0], 400, broken[:50])
        for length in ("x", "-1", "100000", "99999999999999999999"):
            self.assertEqual(error(add(), Inference_Header_Content_Length=length)[0], 400)
        body = add()
        body["inputs"][0]["data"] = [1, 2]
        self.assertEqual(error(body)[0], 400)
        body["inputs"][0]["data"] = [1, 2, "3"]
        self.assertEqual(error(body)[0], 400)
        self.assertEqual(infer("add_sub", add(parameters={"mine": 1.5, "yours": "x", "priority": 1, "sequence_id": "s"}))[0], 200)
        self.assertIn("has invalid type", error(add(parameters={"mine": [1]}))[1])
        self.assertIn("reserved", error(add(parameters={"triton_mine": 1}))[1])

    def test_texts_of_errors(self):
        """Triton's, which clients may look for."""
        def error(field, value, model="add_sub", datatype="FP32"):
            body = add() if model == "add_sub" else {"inputs": [{"name": "x", "datatype": datatype, "shape": [1, 4], "data": [1] * 4}]}
            (body["inputs"][0] if field in ("name", "shape", "datatype", "data") else body)[field] = value
            status, _, data = infer(model, {k: v for k, v in body.items() if v != "gone"})
            self.assertEqual(status, 400, data)
            return json.loads(data)["error"]
        string, array = "attempt to access JSON non-string as string", "attempt to access JSON non-array as array"
        unsigned, boolean = "attempt to access JSON non-unsigned-integer as unsigned-integer", "attempt to access JSON non-boolean as boolean"
        for field, value, text in (("id", 7, f"Unable to parse 'id': {string}"), ("name", 7, f"Unable to parse 'name': {string}"),
                                   ("datatype", 7, f"Unable to parse 'datatype': {string}"), ("shape", 3, f"Unable to parse 'shape': {array}"),
                                   ("shape", [1, -3], f"Unable to parse 'shape': {unsigned}"), ("inputs", {}, f"Unable to parse 'inputs': {array}"),
                                   ("inputs", "gone", "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
                                   ("outputs", 1, f"Unable to parse 'outputs': {array}"),
                                   ("parameters", {"priority": "x"}, f"Unable to parse 'priority': {unsigned}"),
                                   ("parameters", {"binary_data_output": 1}, f"Unable to parse 'binary_data_output': {boolean}")):
            self.assertEqual(error(field, value), text)
        for value, text in (([1, 2, 3, 4], "Unable to parse 'data': Shape does not match true shape of 'data' field"),
                            ([1, 2], "Failed to parse 'data' field: shape does not match true shape"), (7, f"Unable to parse 'data': {array}"),
                            ([1, 2, "3"], "Unable to parse 'data': attempt to access JSON non-number as double")):
            self.assertTrue(error("data", value).startswith(text), error("data", value))
        for datatype, value, text in (("INT8", 1.5, "non-signed-integer as signed-integer"), ("UINT8", "x", "non-unsigned-integer as unsigned-integer"),
                                      ("BOOL", 7, "non-boolean as boolean"), ("BYTES", 7, "non-string as string")):
            self.assertIn("attempt to access JSON " + text, error("data", [value] * 4, f"identity_{datatype.lower()}", datatype))
        body = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 4], "parameters": {"binary_data_size": 10}}]}
        self.assertEqual(json.loads(infer("identity_bytes", body, b"\2\0\0\0ab\0\0\0\0")[2])["error"],
                         "expected 4 string elements for inference input 'x' for model 'identity_bytes', got 2")
        body = add()
        del body["inputs"][0]["data"]
        self.assertIn("Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' "
                      "in 'parameters'. But no field is set", json.loads(infer("add_sub", body)[2])["error"])

    def test_limits(self):
        with socket.create_connection(("127.0.0.1", server.http_port)) as raw:
            raw.sendall(b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
            answer = raw.recv(1000)
            self.assertIn(b" 400 ", answer.split(b"\r\n")[0])
            self.assertIn(b"request JSON size of 1000000000 bytes exceeds the maximum allowed input size of 67108864 bytes. Use "
                          b"--http-max-input-size to increase the limit.", answer)
        with Server(BINARY, "--http-max-input-size=1000") as other, socket.create_connection(("127.0.0.1", other.http_port)) as raw:
            raw.sendall(b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + b" " * 2048)
            self.assertIn(b"request JSON size of 2048 bytes exceeds the maximum allowed input size of 1000 bytes", raw.recv(1000))
        for json_bytes, text in ((0, b"Raw input has a byte_size (1000000000 bytes)"), (1 << 27, b"request JSON size of 134217728 bytes")):
            with socket.create_connection(("127.0.0.1", server.http_port)) as raw:
                raw.sendall(b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n"
                            b"Inference-Header-Content-Length: %d\r\n\r\n" % json_bytes)
                self.assertIn(text, raw.recv(1000))
        with socket.create_connection(("127.0.0.1", server.http_port)) as raw:
            raw.sendall(b"GET /v2 HTTP/1.1\r\n" + b"x: y\r\n" * 20000 + b"\r\n")
            self.assertIn(b" 431 ", raw.recv(1000).split(b"\r\n")[0])
        with socket.create_connection(("127.0.0.1", server.http_port)) as raw:
            raw.sendall(b"nonsense\r\n\r\n")
            self.assertIn(b" 400 ", raw.recv(1000).split(b"\r\n")[0])
        with socket.create_connection(("127.0.0.1", server.http_port)) as raw:
            raw.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
            data = b""
            while data.count(b'{"live": true}') < 3:
                data += raw.recv(4096)

    def test_large_tensors(self):
        """Bytes of tensors may be more than JSON may."""
        array = np.arange(18 << 20, dtype=np.float32).reshape(-1, 4)
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": list(array.shape), "parameters": {"binary_data_size": array.nbytes}}],
                "parameters": {"binary_data_output": True}}
        status, headers, data = infer("identity_fp32", body, array.tobytes())
        self.assertEqual(status, 200, data[:200])
        self.assertEqual(data[int(headers["inference-header-content-length"]):], array.tobytes())

    def test_requests_in_pieces(self):
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}]}).encode()
        post = b"POST /v2/models/identity_fp32/infer HTTP/1.1\r\nHost: x\r\n"
        for text in (b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", post + b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
                     b"\r\n" + post + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)):
            with socket.create_connection(("127.0.0.1", server.http_port), timeout=5) as raw:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for last in range(1, min(len(text), 60)):  # of which so many bytes come by themselves
                    raw.sendall(text[:-last])
                    time.sleep(0.002)
                    for i in range(last, 0, -1):
                        raw.sendall(text[-i:][:1])
                    self.assertIn(b" 200 OK", raw.recv(4096), text[-last:])

    def test_chunks_and_continue(self):
        text = json.dumps(add()).encode()
        with socket.create_connection(("127.0.0.1", server.http_port)) as raw:
            raw.sendall(b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
            self.assertTrue(raw.recv(1000).startswith(b"HTTP/1.1 100 "))
            for i in range(0, len(text), 50):
                part = text[i:i + 50]
                raw.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            raw.sendall(b"0\r\n\r\n")
            self.assertTrue(raw.recv(1000).startswith(b"HTTP/1.1 200 "))

    def test_shared_memory(self):
        region = shared_memory.SharedMemory(create=True, size=256)
        try:
            region.buf[:12] = np.array([1, 2, 3], np.float32).tobytes()
            path = "/v2/systemsharedmemory/region/r"
            self.assertEqual(server.post(path + "/register", {"key": "/" + region.name, "offset": 0, "byte_size": 256})[0], 200)
            self.assertEqual(server.post(path + "/register", {"key": "/" + region.name, "offset": 0, "byte_size": 256})[0], 400)
            self.assertEqual(server.get(path + "/status")[1][0]["byte_size"], 256)
            memory = {"shared_memory_region": "r", "shared_memory_byte_size": 12}
            body = {"inputs": [{"name": n, "datatype": "FP32", "shape": [1, 3], "parameters": memory} for n in "ab"],
                    "outputs": [{"name": "sum", "parameters": {**memory, "shared_memory_offset": 100}}]}
            status, _, data = infer("add_sub", body)
            self.assertEqual(status, 200, data)
            self.assertEqual(np.frombuffer(bytes(region.buf[100:112]), np.float32).tolist(), [2, 4, 6])
            for offset, text in ((250, "Invalid offset + byte size for shared memory region: 'r'"), (256, "Invalid offset for shared memory region: 'r'")):
                body["outputs"][0]["parameters"]["shared_memory_offset"] = offset
                status, _, data = infer("add_sub", body)
                self.assertEqual((status, json.loads(data)["error"]), (400, text))
            self.assertEqual(server.post(path + "/unregister")[0], 200)
            self.assertEqual(infer("add_sub", body)[0], 404)
            self.assertEqual(server.get("/v2/systemsharedmemory/status"), (200, []))
            self.assertEqual(server.post("/v2/systemsharedmemory/region/e/register", {"key": "/../etc/passwd", "offset": 0, "byte_size": 1})[0], 500)
            for wrong, expected in (({"key": "//", "byte_size": 1}, (400, "cannot register shared memory region 'e' - invalid shm key '//'")),
                                    ({"key": "/none", "byte_size": 1}, (500, "Unable to open shared memory region: '/none'")),
                                    ({"key": 7, "byte_size": 1}, (400, "attempt to access JSON non-string as string")),
                                    ({"key": "/none"}, (400, "Shared memory register request has no 'byte_size' field"))):
                status, error = server.post("/v2/systemsharedmemory/region/e/register", wrong)
                self.assertEqual((status, error["error"]), expected)
            status, error = server.post("/v2/systemsharedmemory/region/e/register", {"key": "/" + region.name, "byte_size": 5000})
            self.assertEqual(status, 400)
            self.assertTrue(error["error"].startswith("failed to register shared memory region 'e': invalid args"))
            self.assertEqual(server.post("/v2/systemsharedmemory/register", {"key": "/none", "byte_size": 1}),
                             (400, {"error": "'region name' is necessary to register system shared memory region"}))
        finally:
            region.close()
            region.unlink()


def make_shapes(folder):
    """Models whose shapes clients see otherwise than the model does."""
    save(f"{folder}/scalar/1/model.onnx", [helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.FLOAT, [])], [("y", TensorProto.FLOAT, [])])
    save(f"{folder}/rows/1/model.onnx", [helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["n"])], [("y", TensorProto.FLOAT, ["n"])])
    save(f"{folder}/free/1/model.onnx", [helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["a", "b", 2])],
         [("y", TensorProto.FLOAT, ["a", "b", 2])])
    tensor = "{ name: '%s' data_type: TYPE_FP32 dims: [ -1, 1, -1, 2 ] reshape { shape: [ -1, -1, 2 ] } }"
    config(folder, "free", f"max_batch_size: 0 input {tensor % 'x'} output {tensor % 'y'}")
    identity(f"{folder}/fixed/1/model.onnx", TensorProto.FLOAT, (1, 4))
    for name, warmup in (("warm", "batch_size: 3 inputs { key: 'x' value { data_type: TYPE_FP32 dims: 4 input_data_file: 'one' } }"),
                         ("skipped", "inputs { key: 'x' value { data_type: TYPE_FP32 dims: 4 input_data_file: 'none' } }"),
                         ("short", "batch_size: 1 inputs { key: 'x' value { data_type: TYPE_FP32 dims: 4 input_data_file: 'one' } }"),
                         ("unsaid", "batch_size: 1 inputs { key: 'x' value { data_type: TYPE_FP32 dims: 4 } }")):
        identity(f"{folder}/{name}/1/model.onnx", TensorProto.FLOAT)
        config(folder, name, f"max_batch_size: 4 model_warmup {{ name: 'w' {warmup} }}")
        os.makedirs(f"{folder}/{name}/warmup")
        with open(f"{folder}/{name}/warmup/one", "wb") as file:
            file.write(bytes(12 if name == "short" else 24))


def config(folder, name, text):
    with open(f"{folder}/{name}/config.pbtxt", "w") as file:
        file.write(text)


class Shapes(unittest.TestCase):
    def test_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            make_shapes(folder)
            with Server(BINARY, "--model-control-mode=explicit", repository=folder) as other:
                def shape_of(model, shape):
                    data = [1.5] * int(np.prod(shape))
                    status, _, answer = other.request("POST", f"/v2/models/{model}/infer", json.dumps(
                        {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": data}]}))
                    return json.loads(answer)["outputs"][0]["shape"] if status == 200 else json.loads(answer)["error"]
                for name in ("scalar", "rows", "free", "warm", "skipped"):
                    self.assertEqual(other.post(f"/v2/repository/models/{name}/load"), (200, {}), name)
                self.assertEqual(other.get("/v2/models/scalar")[1]["inputs"][0]["shape"], [1])
                self.assertEqual((shape_of("scalar", [1]), shape_of("scalar", [])), ([1], [1]))
                self.assertIn("unexpected shape", shape_of("scalar", [2]))
                self.assertEqual(other.get("/v2/models/rows")[1]["outputs"][0]["shape"], [-1, 1])
                self.assertEqual((shape_of("rows", [3, 1]), shape_of("rows", [3])), ([3, 1], [3, 1]))
                self.assertEqual(shape_of("free", [3, 1, 5, 2]), [3, 1, 5, 2])
                self.assertIn("unexpected shape", shape_of("free", [3, 2, 5, 2]))
                for name, text in (("short", "warmup setting expects 16 bytes, but the data provided from one only has 12 bytes"),
                                   ("unsaid", "warmup setting expects input 'x' to have input_data_type set")):
                    self.assertIn(text, other.post(f"/v2/repository/models/{name}/load")[1]["error"])
                error = other.post("/v2/repository/models/fixed/load", {"parameters": {"config": '{"max_batch_size": 4}'}})[1]["error"]
                self.assertIn("autofill failed for model 'fixed': model does not support batching while non-zero max_batch_size is specified", error)


class Control(unittest.TestCase):
    def test_refused_by_default(self):
        self.assertEqual(server.post("/v2/repository/models/add_sub/unload")[0], 503)
        names = {(m["name"], m["state"]) for m in server.post("/v2/repository/index")[1]}
        self.assertIn(("add_sub", "READY"), names)
        self.assertEqual(server.post("/v2/repository/local/index")[0], 200)
        self.assertEqual(server.post("/v2/repository/local/models/add_sub/load")[0], 501)

    def test_explicit(self):
        with Server(BINARY, "--model-control-mode=explicit", "--load-model=add_sub") as other:
            self.assertEqual(other.get("/v2/models/identity_fp32")[0], 404)
            self.assertEqual(other.post("/v2/repository/models/identity_fp32/load")[0], 200)
            self.assertEqual(other.get("/v2/models/identity_fp32/ready")[0], 200)
            self.assertEqual(len(other.post("/v2/repository/index", {"ready": True})[1]), 2)
            identity(other.repository + "/identity_fp32/2/model.onnx", TensorProto.FLOAT)
            self.assertEqual(other.post("/v2/repository/models/identity_fp32/load")[0], 200)
            self.assertEqual(other.get("/v2/models/identity_fp32")[1]["versions"], ["2"])
            with open(other.repository + "/identity_fp32/2/model.onnx", "wb") as file:
                file.write(b"broken")
            status, error = other.post("/v2/repository/models/identity_fp32/load")
            self.assertEqual(status, 400)
            self.assertRegex(error["error"], "^load failed for model 'identity_fp32': version 2 is at UNAVAILABLE state: .*;$")
            self.assertEqual(other.get("/v2/models/identity_fp32/ready")[0], 200)  # the old one serves on
            self.assertNotIn("reason", [m for m in other.post("/v2/repository/index")[1] if m["name"] == "add_sub"][0])
            self.assertTrue([m for m in other.post("/v2/repository/index")[1] if m["name"] == "identity_fp32" and m["reason"]])
            self.assertEqual(other.post("/v2/repository/models/identity_fp32/unload")[0], 200)
            self.assertEqual(other.get("/v2/models/identity_fp32")[0], 404)
            self.assertEqual(other.post("/v2/repository/models/nowhere/load"),
                             (500, {"error": "failed to load 'nowhere', failed to poll from model repository"}))
            self.assertEqual(other.post("/v2/repository/models/%20/load")[0], 400)
            with open(other.repository + "/add_sub/1/model.onnx", "rb") as file:
                data = base64.b64encode(file.read()).decode()
            config = json.dumps({"name": "sent", "max_batch_size": 4})
            status, error = other.post("/v2/repository/models/sent/load", {"parameters": {"config": config, "file:1/model.onnx": data}})
            self.assertEqual(status, 200, error)
            self.assertEqual(other.get("/v2/models/sent/config")[1]["max_batch_size"], 4)
            for parameters in ({"config": config, "file:../x": data}, {"file:1/model.onnx": data}, {"config": "nonsense"},
                               {"config": '{"name": "other"}', "file:1/model.onnx": data},
                               {"config": '{"max_batch_size": -1}', "file:1/model.onnx": data}):
                status, error = other.post("/v2/repository/models/sent/load", {"parameters": parameters})
                self.assertEqual(status, 500)
                self.assertTrue(error["error"].startswith("failed to load 'sent', failed to poll from model repository: "), error)
            self.assertEqual(other.post("/v2/repository/models/sent/load")[0], 500)  # it is in no repository
            self.assertEqual(other.get("/v2/models/sent/ready")[0], 200)
            self.assertEqual(other.post("/v2/repository/models/add_sub/unload", {"parameters": {"unload_dependents": 1}}),
                             (400, {"error": "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean"}))

    def test_loads_of_what_is_there(self):
        def load(model, **parameters):
            return other.post(f"/v2/repository/models/{model}/load", {"parameters": parameters} if parameters else None)
        with Server(BINARY, "--model-control-mode=explicit", "--load-model=identity_fp32", "--model-config-name=mine") as other:
            def count():
                return other.get("/v2/models/identity_fp32/stats")[1]["model_stats"][0]["inference_count"]
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}]}
            self.assertEqual(other.post("/v2/models/identity_fp32/infer", body)[0], 200)
            self.assertEqual((load("identity_fp32")[0], count()), (200, 1))  # nothing has changed
            folder = other.repository + "/identity_fp32"
            os.makedirs(folder + "/configs")
            with open(folder + "/configs/mine.pbtxt", "w") as file:
                file.write("max_batch_size: 3")
            self.assertEqual((load("identity_fp32")[0], count()), (200, 0))
            self.assertEqual(other.get("/v2/models/identity_fp32/config")[1]["max_batch_size"], 3)
            # Files that came with a request count until the next one.
            with open(other.repository + "/identity_int8/1/model.onnx", "rb") as file:
                data = base64.b64encode(file.read()).decode()
            self.assertEqual(load("identity_fp32", config="{}", **{"file:7/model.onnx": data})[0], 200)
            about = other.get("/v2/models/identity_fp32")[1]
            self.assertEqual((about["versions"], about["inputs"][0]["datatype"]), (["7"], "INT8"))
            self.assertEqual(load("identity_fp32")[0], 200)
            about = other.get("/v2/models/identity_fp32")[1]
            self.assertEqual((about["versions"], about["inputs"][0]["datatype"]), (["1"], "FP32"))
            config = json.dumps({"version_policy": {"all": {}}})
            identity(folder + "/2/model.onnx", TensorProto.FLOAT)
            self.assertEqual(load("identity_fp32", config=config)[0], 200)
            self.assertEqual(other.get("/v2/models/identity_fp32")[1]["versions"], ["1", "2"])
            self.assertEqual(other.get("/v2/models/identity_fp32/versions/1")[1]["versions"], ["1"])

    def test_tokens(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("# tokens\nsecret\n")
            file.flush()
            with Server(BINARY, "--auth-token-file", file.name) as other:
                self.assertEqual(other.get("/v2/health/ready")[0], 200)
                self.assertEqual(other.get("/v2")[0], 401)
                self.assertEqual(other.request("GET", "/v2", headers={"Authorization": "Bearer secret"})[0], 200)
                self.assertEqual(other.request("GET", "/v2", headers={"Authorization": "Bearer secres"})[0], 401)


if __name__ == "__main__":
    with Server(BINARY) as server:
        result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    sys.exit(not result.wasSuccessful())
