"""Clients that mean harm, or do not know better: each is refused, and others are not disturbed.

    hostile.py FERRY_SERVER [CONNECTIONS]
"""
import gzip
import json
import os
import socket
import struct
import sys
import tempfile
import time
import unittest

from onnx import TensorProto
from running_server import Server, identity

BINARY = sys.argv.pop(1)
CONNECTIONS = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 1000
MEGABYTES = 1024 if CONNECTIONS >= 10_000 else 128
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST_STREAM, SETTINGS, PING = 1, 3, 4, 6
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field that no table holds."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request_headers(path=b"/v2/models/p/infer", method=b"POST", more=()):
    return b"".join(literal(k, v) for k, v in ((b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"), *more))


def until_closed(connection, seconds):
    connection.settimeout(seconds)
    data = b""
    try:
        while True:
            part = connection.recv(65536)
            if not part:
                return data
            data += part
    except ConnectionError:
        return data


def frames(data):
    out = []
    while len(data) >= 9:
        size = int.from_bytes(data[:3], "big")
        out.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9:9 + size]))
        data = data[9 + size:]
    return out


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        identity(cls.folder.name + "/p/1/model.onnx", TensorProto.FLOAT)
        cls.server = Server(BINARY, "--header-timeout=1", "--body-timeout=1", repository=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def connect(self, port=None):
        connection = socket.create_connection(("127.0.0.1", port or self.server.http_port), timeout=10)
        self.addCleanup(connection.close)
        return connection

    def http2(self):
        connection = self.connect(self.server.grpc_port)
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
        return connection

    def tearDown(self):
        """Whatever was done, an honest client is served at once."""
        begun = time.time()
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}]})
        self.assertEqual(self.server.request("POST", "/v2/models/p/infer", body)[0], 200)
        self.assertLess(time.time() - begun, 2)

    def memory(self):
        return int(open(f"/proc/{self.server.process.pid}/statm").read().split()[1]) * 4

    def test_slow_headers(self):
        connection = self.connect()
        begun = time.time()
        connection.sendall(b"POST /v2/models/p/infer HTTP/1.1\r\n")
        try:
            while time.time() - begun < 10:  # a byte now and then does not help
                connection.sendall(b"x")
                time.sleep(0.1)
        except OSError:
            pass
        self.assertLess(time.time() - begun, 5)

    def test_slow_body(self):
        connection = self.connect()
        connection.sendall(b"POST /v2/models/p/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        until_closed(connection, 5)

    def test_half_open(self):
        for sent in (b"", b"GET", b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n"):
            connection = self.connect()
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(b"200 OK" in until_closed(connection, 5), sent.endswith(b"\r\n\r\n"))

    def test_large_bodies(self):
        before = self.memory()
        for head in (b"Content-Length: 1073741824", b"Transfer-Encoding: chunked"):
            connection = self.connect()
            connection.sendall(b"POST /v2/models/p/infer HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
            part = b"100000\r\n" + b"0" * (1 << 20) + b"\r\n"
            try:
                for _ in range(MEGABYTES):
                    connection.sendall(part)
            except OSError:
                pass
        self.assertLess(self.memory(), before + 200_000)

    def test_claims_of_large_tensors(self):
        """A length is only a claim: no memory is taken for it."""
        before = self.memory()
        for length, told in ((2 << 30, b""), ((2 << 30) + 1, b" 413 ")):
            connections = [self.connect() for _ in range(50)]
            for connection in connections:
                connection.sendall(b"POST /v2/models/p/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 10\r\n"
                                   b"Content-Length: %d\r\n\r\n{" % length)
            time.sleep(0.3)
            self.assertLess(self.memory(), before + 100_000)
            for connection in connections:
                self.assertIn(told, until_closed(connection, 5))
        connection = self.http2()
        grpc = [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
        connection.sendall(frame(HEADERS, END_HEADERS, 1, request_headers(b"/inference.GRPCInferenceService/ModelInfer", more=grpc)) +
                           frame(0, 0, 1, b"\0\x7f\xff\xff\xff{"))
        time.sleep(0.3)
        self.assertLess(self.memory(), before + 100_000)

    def test_early_answers(self):
        """Who sends too much has time to read why, and is stopped then."""
        with Server(BINARY, "--http-max-input-size=1000", repository=self.folder.name) as server:
            connection = self.connect(server.http_port)
            connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, request_headers()) + frame(0, 0, 1, b" " * 2000))
            data, begun, reset = b"", time.time(), False
            while not reset and time.time() - begun < 5:
                data += connection.recv(65536)
                reset = any(kind == RST_STREAM for kind, _, _, _ in frames(data))
                if reset:
                    self.assertGreater(time.time() - begun, 0.4)
            self.assertTrue(reset)
            self.assertIn(b"request JSON size of 2000 bytes exceeds", data)
            connection.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 3, request_headers(b"/v2/health/live", b"GET")))
            self.assertIn(b'{"live": true}', connection.recv(65536))

    def test_bombs(self):
        before = self.memory()
        bomb = gzip.compress(b"0" * (MEGABYTES << 20), 1)
        for body in (bomb, gzip.compress(bomb)):
            status, _, data = self.server.request("POST", "/v2/models/p/infer", body, {"Content-Encoding": "gzip"})
            self.assertEqual(status, 400, data)
        self.assertLess(self.memory(), before + 200_000)

    def test_header_floods(self):
        for flood in (b"x: y\r\n" * 20000, b"x: " + b"y" * (1 << 20)):
            connection = self.connect()
            try:
                connection.sendall(b"GET /v2 HTTP/1.1\r\n" + flood)
            except OSError:
                pass
            self.assertIn(b" 431 ", until_closed(connection, 5)[:100])
        connection = self.http2()
        connection.sendall(frame(HEADERS, END_STREAM, 1, request_headers()))
        try:
            for _ in range(1000):  # a block of headers that never ends
                connection.sendall(frame(9, 0, 1, literal(b"a", b"b" * 100)))
        except OSError:
            pass
        until_closed(connection, 5)

    def test_http2_slow_body(self):
        connection = self.http2()
        grpc = [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
        connection.sendall(frame(HEADERS, END_HEADERS, 1, request_headers()) + frame(0, 0, 1, b"{") +
                           frame(HEADERS, END_HEADERS, 3, request_headers(b"/inference.GRPCInferenceService/ModelInfer", more=grpc)) +
                           frame(HEADERS, 0, 5, request_headers()))
        answers = frames(until_closed(connection, 8))
        self.assertTrue({1, 3} <= {stream for kind, _, stream, _ in answers if kind == RST_STREAM} or
                        7 in [kind for kind, _, _, _ in answers], answers)

    def test_http2_rapid_reset(self):
        connection = self.http2()
        try:
            for i in range(0, 20000, 100):
                connection.sendall(b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * (i + j), request_headers()) +
                                            frame(RST_STREAM, 0, 1 + 2 * (i + j), struct.pack(">I", 8)) for j in range(100)))
        except OSError:
            pass
        self.assertTrue(any(kind == 7 for kind, _, _, _ in frames(until_closed(connection, 5))))

    def test_http2_floods(self):
        for flood in (frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)), frame(PING, 0, 0, b"12345678"), frame(2, 0, 1, b"\0\0\0\0\1")):
            connection = self.http2()
            try:
                for _ in range(2000):
                    connection.sendall(flood * 100)
            except OSError:
                pass
            until_closed(connection, 5)

    def test_noise(self):
        for seed in range(20):
            connection = self.connect()
            try:
                connection.sendall((PREFACE if seed % 2 else b"GET / HTTP/1.1\r\n") + os.urandom(5000))
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                continue
            until_closed(connection, 5)

    def test_many_connections(self):
        """More than are allowed: the rest is told so, and when they are gone others are served."""
        with Server(BINARY, f"--max-connections={CONNECTIONS}", repository=self.folder.name) as server:
            def memory():
                return int(open(f"/proc/{server.process.pid}/statm").read().split()[1]) * 4
            before, told = memory(), 0
            held = [socket.create_connection(("127.0.0.1", server.http_port), timeout=10) for _ in range(CONNECTIONS)]
            for connection in held:
                connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            for connection in held:
                self.assertIn(b"200 OK", connection.recv(1000))
            kilobytes = memory() - before
            print(f"{CONNECTIONS} idle connections take {kilobytes} kB")
            self.assertLess(kilobytes, 60 * CONNECTIONS)
            for _ in range(100):
                with socket.create_connection(("127.0.0.1", server.http_port), timeout=10) as connection:
                    try:
                        told += b" 503 " in connection.recv(1000)
                    except OSError:
                        pass
            self.assertEqual(told, 100)
            for connection in held:
                connection.close()
            time.sleep(0.5)
            self.assertEqual(server.get("/v2/health/live")[0], 200)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
