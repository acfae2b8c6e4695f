"""Load for a long time while models are reloaded every 5 s, clients vanish, and one request in 1,000 is malformed.

    soak.py FERRY_SERVER SECONDS [LOAD]

What the clients here can drive is found first; LOAD (0.8) of it is kept up. Every well-formed request must be answered right, or with
503; memory must stay flat.
"""
import http.client
import json
import multiprocessing
import os
import random
import socket
import struct
import sys
import tempfile
import time

import numpy as np
from infer_message import infer_request
from onnx import TensorProto, helper
from running_server import Server, identity, save

SIZE = 64


def make_models(folder):
    identity(folder + "/echo/1/model.onnx", TensorProto.FLOAT)
    os.makedirs(folder + "/twice/1")
    save(folder + "/twice/1/model.onnx", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["n", SIZE])],
         [("y", TensorProto.FLOAT, ["n", SIZE])])
    with open(folder + "/twice/config.pbtxt", "w") as file:
        file.write("max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 200 }")
    return folder


def binary_request(serial):
    rows = 1 + serial % 4
    values = np.full((rows, SIZE), serial % 1000, np.float32).tobytes()
    head = json.dumps({"id": str(serial), "inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, SIZE], "parameters":
                       {"binary_data_size": len(values)}}], "parameters": {"binary_data_output": True}}).encode()
    return "/v2/models/twice/infer", head + values, {"Inference-Header-Content-Length": str(len(head))}


def json_request(serial):
    body = json.dumps({"id": str(serial), "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [serial % 1000] * 4}]})
    return "/v2/models/echo/infer", body.encode(), {}


def is_right(serial, path, headers, data):
    if "echo" in path:
        answer = json.loads(data)
        return answer["id"] == str(serial) and answer["outputs"][0]["data"] == [serial % 1000] * 4
    length = int(headers["inference-header-content-length"])
    values = np.frombuffer(data[length:], np.float32)
    return json.loads(data[:length])["id"] == str(serial) and values.size == (1 + serial % 4) * SIZE and (values == 2 * (serial % 1000)).all()


def spoilt(body, chance):
    kind = chance.randrange(3)
    if kind == 0:
        return body[:chance.randrange(1, len(body))]
    if kind == 1:
        return b"\x00" + body
    return body.replace(b'"x"', b'"nothing"', 1)


def vanish(port, path, body):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body) + 10}\r\n\r\n".encode()
        raw.sendall(head + body)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drive_http(port, seed, until, rate, counts, wrong):
    chance, client = random.Random(seed), None
    serial, begun = seed * 10_000_000, time.time()
    sent = 0
    while time.time() < until:
        if rate and sent > rate * (time.time() - begun):
            time.sleep(max(0.0, sent / rate - (time.time() - begun)))
        serial += 1
        sent += 1
        path, body, headers = (json_request if serial % 2 else binary_request)(serial)
        if serial % 500 == 0:
            vanish(port, path, body)
            continue
        is_spoilt = serial % 1000 == 1
        if is_spoilt:
            body = spoilt(body, chance)
        for attempt in range(2):
            if client is None:
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                client.request("POST", path, body, headers)
                answer = client.getresponse()
                data = answer.read()
                break
            except (OSError, http.client.HTTPException) as error:
                client = None
                if not is_spoilt:
                    wrong.put((serial, repr(error)))
                    return
                answer = None
        if answer is None:
            continue
        names = {k.lower(): v for k, v in answer.getheaders()}
        if is_spoilt:
            counts[2] += 1
            if answer.status not in (400, 503):
                wrong.put((serial, "malformed", answer.status, data[:200]))
        elif answer.status == 503:
            counts[1] += 1
        elif answer.status == 200 and is_right(serial, path, names, data):
            counts[0] += 1
        else:
            wrong.put((serial, answer.status, data[:300]))
        if names.get("connection") == "close":
            client.close()
            client = None


def drive_grpc(port, seed, until, rate, counts, wrong):
    import grpc
    serial, begun, sent = seed * 10_000_000, time.time(), 0
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        while time.time() < until:
            if rate and sent > rate * (time.time() - begun):
                time.sleep(max(0.0, sent / rate - (time.time() - begun)))
            serial += 1
            sent += 1
            values = np.full((1, SIZE), serial % 1000, np.float32)
            message = infer_request("twice", str(serial), "x", "FP32", (1, SIZE), values.tobytes())
            is_spoilt = serial % 1000 == 1
            try:
                data = infer(message[:len(message) - 7] if is_spoilt else message, timeout=60)
                if is_spoilt or not data.endswith((values * 2).tobytes()):
                    wrong.put((serial, data[:300]))
                counts[0] += 1
            except grpc.RpcError as error:
                if is_spoilt:
                    counts[2] += error.code() == grpc.StatusCode.INVALID_ARGUMENT
                elif error.code() == grpc.StatusCode.UNAVAILABLE and "queue" in error.details():
                    counts[1] += 1
                else:
                    wrong.put((serial, str(error)[:300]))


def run_clients(server, seconds, rate, reload):
    """Rate: of one client, None for as fast as it goes. Returns answered, refused, malformed and what was wrong."""
    wrong = multiprocessing.SimpleQueue()
    until, clients = time.time() + seconds, []
    for seed in range(1, 5):
        counts = multiprocessing.Array("q", 3, lock=False)
        is_grpc = seed == 4
        clients.append((counts, multiprocessing.Process(target=drive_grpc if is_grpc else drive_http, args=[
            server.grpc_port if is_grpc else server.http_port, seed, until, rate, counts, wrong])))
    for _, process in clients:
        process.start()
    memory = []
    while time.time() < until:
        if reload:
            for name in ("echo", "twice"):
                status, body = server.post(f"/v2/repository/models/{name}/load")
                assert status == 200, body
        memory.append(int(open(f"/proc/{server.process.pid}/statm").read().split()[1]) * 4)
        time.sleep(min(5, max(0, until - time.time())))
    for _, process in clients:
        process.join()
    mistakes = []
    while not wrong.empty():
        mistakes.append(wrong.get())
    return [sum(counts[i] for counts, _ in clients) for i in range(3)], memory, mistakes


if __name__ == "__main__":
    binary, seconds = sys.argv[1], float(sys.argv[2])
    load = float(sys.argv[3]) if len(sys.argv) > 3 else 0.8
    with tempfile.TemporaryDirectory() as folder, \
            Server(binary, "--model-control-mode=explicit", "--load-model=*", repository=make_models(folder)) as server:
        first = min(5.0, seconds / 4)
        (answered, _, _), _, mistakes = run_clients(server, first, None, False)
        assert not mistakes, mistakes[:5]
        print(f"as fast as it goes: {answered / first:.0f} requests/s", flush=True)
        counts, memory, mistakes = run_clients(server, seconds, load * answered / first / 4, True)
        third = max(1, len(memory) // 3)
        print(f"{counts[0]} answered right, {counts[1]} refused with 503, {counts[2]} malformed ones refused, {len(mistakes)} wrong; "
              f"memory {max(memory[:third])} kB, then {max(memory[-third:])} kB, {len(memory)} times reloaded")
        assert not mistakes, mistakes[:5]
        assert counts[0] > 0 and counts[2] > 0 or seconds < 60
        assert max(memory[-third:]) < max(memory[:third]) + 20_000, memory
