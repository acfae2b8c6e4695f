"""What operators rely on: TLS, polling, reloads under load, full queues, hostile clients, the examples.

    operation.py FERRY_SERVER [SOAK_SECONDS]
"""
import http.client
import http.server
import importlib.util
import json
import os
import shutil
import signal
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

    def test_mutual_tls_of_grpc(self):
        import grpc
        certificate, key = self.folder.name + "/cert.pem", self.folder.name + "/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        models = repository(self.folder.name + "/m", p=plain)
        with Server(BINARY, "--grpc-use-ssl=true", "--grpc-use-ssl-mutual=true", "--grpc-server-cert", certificate, "--grpc-server-key", key,
                    "--grpc-root-cert", certificate, repository=models) as server:
            def live(**own):
                credentials = grpc.ssl_channel_credentials(open(certificate, "rb").read(), **own)
                with grpc.secure_channel(f"127.0.0.1:{server.grpc_port}", credentials) as channel:
                    return channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=10)
            self.assertEqual(live(private_key=open(key, "rb").read(), certificate_chain=open(certificate, "rb").read()), b"\x08\x01")
            with self.assertRaises(grpc.RpcError):
                live()
            self.assertEqual(server.get("/v2/health/live")[0], 200)  # HTTP's port stays as it is

    def test_spans_to_a_collector(self):
        got = []

        class Collector(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                got.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        models = repository(self.folder.name + "/m", p=plain)
        with Server(BINARY, "--trace-config=rate=1", "--trace-config=level=TENSORS", "--trace-config=opentelemetry,resource=service.name=mine",
                    f"--trace-config=opentelemetry,url=http://127.0.0.1:{collector.server_port}/v1/traces", repository=models) as server:
            parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            self.assertEqual(server.request("POST", "/v2/models/p/infer", ones(), {"traceparent": parent})[0], 200)
        collector.shutdown()
        collector.server_close()
        path, body = got[0]
        self.assertEqual(path, "/v1/traces")
        batch = body["resourceSpans"][0]
        self.assertEqual(batch["resource"]["attributes"], [{"key": "service.name", "value": {"stringValue": "mine"}}])
        spans = {span["name"]: span for span in batch["scopeSpans"][0]["spans"]}
        self.assertEqual(set(spans), {"inference", "queue", "compute"})
        self.assertEqual((spans["inference"]["traceId"], spans["inference"]["parentSpanId"]), (parent[3:35], parent[36:52]))
        self.assertEqual(spans["compute"]["parentSpanId"], spans["inference"]["spanId"])
        self.assertIn({"key": "input.x", "value": {"stringValue": "FP32[1,4]"}}, spans["inference"]["attributes"])

    def test_hand_over(self):
        """Servers on the same port take over from each other, and no request fails."""
        models = repository(self.folder.name + "/m", p=plain)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = ["--reuse-http-port=true", f"--http-port={port}", "--drain-delay=1"]
        wrong, answered, stop = [], [0], threading.Event()

        def drive():
            client, serial = None, 0
            while not stop.is_set():
                serial += 1
                try:
                    if client is None or serial % 5 == 0:
                        client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                    client.request("POST", "/v2/models/p/infer", ones())
                    answer = client.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException) as error:
                    wrong.append(repr(error))
                    return
                answered[0] += 1
                if answer.status != 200:
                    wrong.append(answer.status)
                if answer.getheader("connection") == "close":
                    client.close()
                    client = None
        server = Server(BINARY, *options, repository=models)
        threads = [threading.Thread(target=drive) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        for _ in range(3):
            follower = Server(BINARY, *options, repository=models)
            time.sleep(0.3)
            self.assertEqual(server.stop(), 0)
            server, before, until = follower, answered[0], time.monotonic() + 20
            while answered[0] == before and not wrong and time.monotonic() < until:
                time.sleep(0.01)
            self.assertGreater(answered[0], before)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(server.stop(), 0)
        self.assertEqual(wrong, [])

    def test_handed_sockets(self):
        """A socket that is handed over, as systemd does it, outlives the server: the next one answers who waits at it."""
        models = repository(self.folder.name + "/m", p=plain)
        command = [BINARY, "--model-repository", models, "--allow-grpc=false", "--allow-metrics=false"]

        def start():
            return subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&0', "sh", *command], stdin=door,
                                    stderr=subprocess.DEVNULL)
        with socket.create_server(("127.0.0.1", 0)) as door:
            for _ in range(2):
                client = http.client.HTTPConnection(*door.getsockname(), timeout=20)
                client.request("POST", "/v2/models/p/infer", ones())
                server = start()
                self.assertEqual(client.getresponse().status, 200)
                client.close()
                server.send_signal(signal.SIGTERM)
                self.assertEqual(server.wait(20), 0)

    def test_pause(self):
        """The machine stood still for longer than any time-out: what clients sent meanwhile is answered."""
        import grpc
        models = repository(self.folder.name + "/m", p=plain)
        body = ones().encode()
        request = b"POST /v2/models/p/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with Server(BINARY, "--header-timeout=1", "--body-timeout=1", "--idle-timeout=1", repository=models) as server, \
                grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            def connect():
                connection = socket.create_connection(("127.0.0.1", server.http_port), timeout=20)
                self.addCleanup(connection.close)
                return connection
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            live(b"", timeout=20)
            begun = [b"", b"", request[:30], request[:-10]]  # a new client, an idle one, half a header, half a body
            clients = [connect() for _ in begun]
            clients[1].sendall(request)
            self.assertIn(b" 200 OK", clients[1].recv(10000))
            for client, sent in zip(clients, begun):
                client.sendall(sent)
            time.sleep(0.1)
            server.process.send_signal(signal.SIGSTOP)
            later = live.future(b"", timeout=20)
            for client, sent in zip(clients, begun):
                client.sendall(request[len(sent):])
            time.sleep(3)
            server.process.send_signal(signal.SIGCONT)
            for client in clients:
                self.assertIn(b" 200 OK", client.recv(10000))
            self.assertEqual(later.result(), b"\x08\x01")
            for client in clients:  # and whoever then says nothing is still not kept
                self.assertEqual(client.recv(100), b"")

    def test_empty_repository(self):
        with Server(BINARY, repository=self.folder.name) as server:
            self.assertIn("the repository has no models", open(server.log.name).read())
            self.assertEqual(server.get("/v2/health/ready")[0], 200)

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
            if importlib.util.find_spec("tritonclient"):
                out = subprocess.run([sys.executable, examples + "/infer_triton.py", f"127.0.0.1:{server.http_port}", "p", "x", "4"],
                                     check=True, capture_output=True, text=True)
                self.assertIn("[[1. 1. 1. 1.]]", out.stdout)
            if shutil.which("node"):
                out = subprocess.run(["node", examples + "/infer.mjs", url, "p", "x", "4"], check=True, capture_output=True, text=True)
                self.assertIn("1 1 1 1", out.stdout)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
