"""What operators rely on: TLS, polling, reloads under load, full queues, hostile clients, the examples.

    operation.py FERRY_SERVER [SOAK_SECONDS]
"""
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from onnx import TensorProto, helper
from running_server import Server, identity

BINARY = sys.argv.pop(1)
SOAK = float(sys.argv.pop(1)) if len(sys.argv) > 1 else 3
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def ones(name="x", rows=1, columns=4, **more):
    return json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": [rows, columns], "data": [1] * rows * columns}], **more})


def slow_model(path, size=1000):
    """A product that takes some milliseconds."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [size, size], [0.001] * size * size)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, size])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size, size])], [weights])
    import onnx
    os.makedirs(os.path.dirname(path), exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), path)


def repository(folder, **models):
    for name, make in models.items():
        make(f"{folder}/{name}/1/model.onnx")
    return folder


def plain(path):
    identity(path, TensorProto.FLOAT)


class Operation(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_tls(self):
        certificate, key = self.folder.name + "/cert.pem", self.folder.name + "/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        models = repository(self.folder.name + "/m", p=plain)
        with Server(BINARY, "--tls-cert", certificate, "--tls-key", key, repository=models) as server:
            trust = ssl.create_default_context(cafile=certificate)
            for _ in range(3):
                client = http.client.HTTPSConnection("127.0.0.1", server.http_port, context=trust, timeout=10)
                client.request("POST", "/v2/models/p/infer", ones(rows=2000))
                answer = json.loads(client.getresponse().read())
                self.assertEqual(len(answer["outputs"][0]["data"]), 8000)
                client.close()
            with socket.create_connection(("127.0.0.1", server.http_port)) as raw:
                raw.sendall(b"GET /v2 HTTP/1.1\r\n\r\n")
                try:
                    self.assertNotIn(b"200", raw.recv(100))
                except ConnectionResetError:
                    pass
        with Server(BINARY, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", certificate, repository=models) as server:
            with self.assertRaises((ssl.SSLError, OSError, http.client.HTTPException)):
                client = http.client.HTTPSConnection("127.0.0.1", server.http_port, context=trust, timeout=10)
                client.request("GET", "/v2/health/live")
                client.getresponse()
            trust.load_cert_chain(certificate, key)
            client = http.client.HTTPSConnection("127.0.0.1", server.http_port, context=trust, timeout=10)
            client.request("GET", "/v2/health/live")
            self.assertEqual(client.getresponse().status, 200)

    def test_polling(self):
        models = repository(self.folder.name + "/m", p=plain)
        with Server(BINARY, "--model-control-mode=poll", "--repository-poll-secs=1", repository=models) as server:
            def until(wanted):
                for _ in range(100):
                    if wanted():
                        return True
                    time.sleep(0.1)
                return False
            plain(models + "/p/2/model.onnx")
            plain(models + "/q/1/model.onnx")
            self.assertTrue(until(lambda: server.get("/v2/models/p")[1].get("versions") == ["2"]))
            self.assertTrue(until(lambda: server.get("/v2/models/q")[0] == 200))
            shutil.rmtree(models + "/q")
            self.assertTrue(until(lambda: server.get("/v2/models/q")[0] == 404))
            self.assertEqual(server.post("/v2/repository/models/p/unload")[0], 503)

    def test_full_queue_and_timeouts(self):
        models = repository(self.folder.name + "/m", slow=slow_model, p=plain)
        with open(models + "/slow/config.pbtxt", "w") as file:
            file.write("instance_group { count: 1 }")
        with Server(BINARY, "--max-queue-size=2", repository=models) as server:
            body = ones(rows=1000, columns=1000)
            statuses, lock = [], threading.Lock()

            def send(text):
                status, headers, data = server.request("POST", "/v2/models/slow/infer", text)
                with lock:
                    statuses.append((status, headers.get("retry-after"), data[:100] if status != 200 else b""))
            threads = [threading.Thread(target=send, args=[body]) for _ in range(8)]
            for thread in threads:
                thread.start()
            begun = time.time()
            self.assertEqual(server.request("POST", "/v2/models/p/infer", ones())[0], 200)
            self.assertEqual(server.get("/v2/health/live")[0], 200)
            self.assertLess(time.time() - begun, 2)  # the slow one does not hold up the other
            for thread in threads:
                thread.join()
            self.assertTrue([s for s in statuses if s[0] == 200])
            for status, retry, data in statuses:
                if status != 200:
                    self.assertEqual((status, retry), (503, "1"))
                    self.assertIn(b"Exceeds maximum queue size", data)
            del statuses[:]
            threads = [threading.Thread(target=send, args=[body]), threading.Thread(
                target=send, args=[body[:-1] + ',"parameters":{"timeout":1}}'])]
            threads[0].start()
            time.sleep(0.05)
            threads[1].start()
            for thread in threads:
                thread.join()
            self.assertTrue(all(s[0] in (200, 503) for s in statuses), statuses)

    def test_hostile(self):
        models = repository(self.folder.name + "/m", p=plain)
        with Server(BINARY, "--header-timeout=1", "--max-connections=300", repository=models) as server:
            slow = socket.create_connection(("127.0.0.1", server.http_port))
            slow.sendall(b"POST /v2/models/p/infer HTTP/1.1\r\nHost: ")
            idle = [socket.create_connection(("127.0.0.1", server.http_port)) for _ in range(200)]
            half = socket.create_connection(("127.0.0.1", server.http_port))
            half.sendall(b"POST /v2/models/p/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
            half.close()
            noise = socket.create_connection(("127.0.0.1", server.grpc_port))
            noise.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(2000))
            self.assertEqual(server.request("POST", "/v2/models/p/infer", ones())[0], 200)
            slow.settimeout(5)
            self.assertEqual(slow.recv(10), b"")  # closed, not waited for
            more = []
            for _ in range(150):
                try:
                    more.append(socket.create_connection(("127.0.0.1", server.http_port), timeout=2))
                except OSError:
                    break
            for connection in idle + more + [noise]:
                connection.close()
            time.sleep(1)
            self.assertEqual(server.request("POST", "/v2/models/p/infer", ones())[0], 200)

    def test_reloads_under_load(self):
        models = repository(self.folder.name + "/m", p=plain)
        wrong, count, stop = [], [0], threading.Event()
        with Server(BINARY, "--model-control-mode=explicit", "--load-model=*", repository=models) as server:
            def drive():
                client = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20)
                serial = 0
                while not stop.is_set():
                    serial += 1
                    if serial % 100 == 0:  # a client that vanishes, and a request that is none
                        client.close()
                        server.request("POST", "/v2/models/p/infer", b'{"inputs":[{')
                    client.request("POST", "/v2/models/p/infer", ones(id=str(serial)))
                    answer = client.getresponse()
                    data = json.loads(answer.read())
                    count[0] += 1
                    if answer.status != 200 or data["id"] != str(serial) or data["outputs"][0]["data"] != [1] * 4:
                        wrong.append((answer.status, data))
            threads = [threading.Thread(target=drive) for _ in range(3)]
            for thread in threads:
                thread.start()
            until, memory = time.time() + SOAK, []
            while time.time() < until:
                self.assertEqual(server.post("/v2/repository/models/p/load")[0], 200)
                memory.append(int(open(f"/proc/{server.process.pid}/statm").read().split()[1]) * 4)
                time.sleep(0.1 if SOAK < 10 else 5)
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong[:3], [])
            self.assertGreater(count[0], 20)
            self.assertLess(memory[-1], memory[len(memory) // 2] + 30_000)

    def test_examples(self):
        models = repository(self.folder.name + "/m", p=plain)
        with Server(BINARY, repository=models) as server:
            url = f"http://127.0.0.1:{server.http_port}"
            examples = ROOT + "/examples/server"
            self.assertIn('"example"', subprocess.run([examples + "/infer.sh", url, "p", "x", "4"], check=True, capture_output=True, text=True).stdout)
            if shutil.which("g++"):
                program = self.folder.name + "/infer"
                subprocess.run(["g++", "-std=c++20", examples + "/infer.cpp", "-o", program], check=True)
                out = subprocess.run([program, "127.0.0.1", str(server.http_port), "p", "x", "4"], check=True, capture_output=True, text=True)
                self.assertIn("outputs", out.stdout)
            if shutil.which("node"):
                out = subprocess.run(["node", examples + "/infer.mjs", url, "p", "x", "4"], check=True, capture_output=True, text=True)
                self.assertIn("1 1 1 1", out.stdout)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
