"""What operators rely on: TLS, polling, reloads under load, full queues, hostile clients, the examples.

    operation.py FERRY_SERVER [SOAK_SECONDS]
"""
import fcntl
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

    def start(self, *options, **more):
        server = Server(BINARY, *options, **more)
        self.addCleanup(server.kill)
        return server

    def until(self, wanted):
        end = time.monotonic() + 20
        while not wanted():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_hand_over(self):
        """Servers on the same port take over from each other, and no request fails."""
        models = repository(self.folder.name + "/m", p=plain)
        server = self.start("--reuse-http-port=true", "--drain-delay=1", repository=models)
        options = ["--reuse-http-port=true", f"--http-port={server.http_port}", "--drain-delay=1"]
        wrong, answered, stop = [], [0], threading.Event()

        def ask(client):
            client.request("POST", "/v2/models/p/infer", ones())
            answer = client.getresponse()
            answer.read()
            answered[0] += 1
            if answer.status != 200:
                wrong.append(answer.status)
            if answer.getheader("connection") == "close":
                client.close()
                return None
            return client

        def drive():
            client, serial = None, 0
            while not stop.is_set():
                serial += 1
                begun, is_used = time.monotonic(), client is not None and serial % 5 != 0
                try:
                    if not is_used:
                        client = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20)
                    client = ask(client)
                except (OSError, http.client.HTTPException) as error:
                    # A client that did not get the CPU is idle, and is not waited for by who leaves.
                    if isinstance(error, ConnectionError) and (is_used or time.monotonic() > begun + 0.3):
                        client = None
                        continue
                    wrong.append(repr(error))
                    return
        self.addCleanup(stop.set)
        threads = [threading.Thread(target=drive, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        self.until(lambda: answered[0] > 100 or wrong)
        leaving = server
        for _ in range(3):
            follower = self.start(*options, repository=models)
            time.sleep(0.3)
            self.assertEqual(leaving.stop(), 0)
            leaving, before = follower, answered[0]
            self.until(lambda: answered[0] > before or wrong)
        stop.set()
        for thread in threads:
            thread.join(30)
        self.assertEqual(leaving.stop(), 0)
        self.assertEqual(wrong, [])

    def test_hand_over_without_traffic(self):
        """Who is new goes to the server that stays at once, whichever came first; one that leaves in haste leaves nothing behind."""
        plain(self.folder.name + "/a/a/1/model.onnx")
        plain(self.folder.name + "/b/b/1/model.onnx")

        def start(model, *options):
            return self.start("--reuse-http-port=true", "--drain-delay=60", *options, repository=f"{self.folder.name}/{model}")
        for leaves_first in (True, False):
            servers = [start("a")]
            port = servers[0].http_port
            servers.append(start("b", f"--http-port={port}"))
            leaves, stays, model = (*servers, "b") if leaves_first else (*servers[::-1], "a")

            def answers(name):
                return [stays.request("GET", f"/v2/models/{name}/ready", port=port)[0] == 200 for _ in range(40)]
            self.assertIn(False, answers(model))
            leaves.process.send_signal(signal.SIGTERM)
            self.until(lambda: all(answers(model)))
            self.assertIsNone(leaves.process.poll())
            leaves.process.send_signal(signal.SIGTERM)
            self.assertEqual(leaves.process.wait(20), 0)
            third = start("ba"[model == "b"], f"--http-port={port}")
            shared = answers(model)
            self.assertTrue(True in shared and False in shared, shared)
            third.kill()
            stays.kill()

    def test_second_server(self):
        """Beside one whose ports are given it gets /metrics's, too; one that cannot have all of them disturbs nobody."""
        models = repository(self.folder.name + "/m", p=plain)
        first = self.start("--reuse-http-port=true", "--reuse-grpc-port=true", repository=models)
        options = [f"--http-port={first.http_port}", f"--metrics-port={first.metrics_port}", "--reuse-http-port=true"]
        grpc_port = f"--grpc-port={first.grpc_port}"
        second = self.start(*options, grpc_port, "--reuse-grpc-port=true", repository=models)
        self.assertEqual((second.http_port, second.grpc_port, second.metrics_port), (first.http_port, first.grpc_port, first.metrics_port))
        self.assertEqual(second.stop(), 0)
        wrong, answered, stop = [], [0], threading.Event()

        def drive():
            while not stop.is_set():
                try:
                    wrong.extend([] if first.get("/v2/health/live")[0] == 200 else ["not live"])
                    answered[0] += 1
                except (OSError, http.client.HTTPException) as error:
                    wrong.append(repr(error))
        self.addCleanup(stop.set)
        threads = [threading.Thread(target=drive, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            with self.assertRaisesRegex(RuntimeError, "cannot listen on .*:" + str(first.grpc_port)):
                self.start(*options, grpc_port, repository=models)
        stop.set()
        for thread in threads:
            thread.join(30)
        self.assertEqual(wrong, [])
        self.assertGreater(answered[0], 0)
        self.assertEqual(first.stop(), 0)

    @unittest.skipUnless(os.uname().machine == "x86_64", "the numbers of its system calls")
    def test_filters(self):
        """A sandbox may kill who asks for resources, as systemd does by SystemCallFilter=~@resources."""
        resources = [141, 142, 144, 160, 203, 237, 238, 251, 256, 279, 314]  # setpriority … sched_setattr
        program = self.folder.name + "/filtered"
        with open(program, "w") as file:
            file.write(f'''#!{sys.executable}
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0)] + [(0x15, {len(resources)} - i, 0, n) for i, n in enumerate({resources})]
code += [(6, 0, 0, 0x7fff0000), (6, 0, 0, 0x80000000)]  # allow; kill the process
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *x) for x in code))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(text)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0
os.execv({BINARY!r}, sys.argv)
''')
        os.chmod(program, 0o755)
        with Server(program, repository=repository(self.folder.name + "/m", p=plain)) as server:
            self.assertEqual(server.request("POST", "/v2/models/p/infer", ones())[0], 200)

    def test_handed_sockets(self):
        """A socket that is handed over, as systemd does it, outlives the server: the next one answers who waits at it."""
        models = repository(self.folder.name + "/m", p=plain)

        def start(doors, *options):
            sockets = [door.fileno() for door in doors]
            program = ("import os, sys; [os.dup2(number, 3 + i) for i, number in enumerate(%r)]; "
                       "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='%d'); os.execv(sys.argv[1], sys.argv[1:])")
            server = subprocess.Popen([sys.executable, "-c", program % (sockets, len(sockets)), BINARY, "--model-repository", models, *options],
                                      pass_fds=sockets, stderr=subprocess.DEVNULL)
            self.addCleanup(lambda: (server.kill(), server.wait()))
            return server

        def end(server):
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(20), 0)

        def door():
            # Not among the numbers that they are handed over as.
            with socket.create_server(("127.0.0.1", 0)) as made:
                high = socket.socket(fileno=fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 20))
            self.addCleanup(high.close)
            return high
        http_door, grpc_door, metrics_door = door(), door(), door()
        for _ in range(2):
            client = http.client.HTTPConnection(*http_door.getsockname(), timeout=20)
            client.request("POST", "/v2/models/p/infer", ones())
            server = start([http_door], "--allow-grpc=false", "--allow-metrics=false")
            self.assertEqual(client.getresponse().status, 200)
            client.close()
            end(server)
        # A door that is not allowed leaves its socket to nobody.
        client = http.client.HTTPConnection(*metrics_door.getsockname(), timeout=20)
        client.request("GET", "/metrics")
        server = start([http_door, grpc_door, metrics_door], "--allow-grpc=false")
        self.assertEqual(client.getresponse().status, 200)
        end(server)

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
