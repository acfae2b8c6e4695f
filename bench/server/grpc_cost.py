"""What a request over gRPC costs the server, driven by nghttp2's own load generator (Debian: nghttp2-client).

    grpc_cost.py --server build/ferry-server --model NAME=FILE.onnx --input x:FP32:1x10 [--conns 1,8,64] [--requests 50000]

CPU time a request is the firm number; on a machine whose cores fall asleep between requests it is higher at one connection.
"""
import argparse
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests/server"))
from infer_message import infer_request  # noqa: E402

WIDTHS = {"BOOL": 1, "INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "FP16": 2, "BF16": 2, "INT32": 4, "UINT32": 4, "FP32": 4, "INT64": 8, "UINT64": 8, "FP64": 8}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--server", default="build/ferry-server")
parser.add_argument("--model", required=True)
parser.add_argument("--input", required=True)
parser.add_argument("--conns", default="1,8,64")
parser.add_argument("--requests", type=int, default=50_000)
arguments = parser.parse_args()
name, datatype, dims = arguments.input.split(":")
shape = [int(d) for d in dims.split("x")]
count = 1
for dim in shape:
    count *= dim
message = infer_request(arguments.model.split("=")[0], "17", name, datatype, shape, bytes(count * WIDTHS[datatype]))
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = subprocess.Popen([arguments.server, arguments.model, "--grpc-address=127.0.0.1", f"--grpc-port={port}", "--allow-http=false", "--allow-metrics=false"],
                          stderr=subprocess.DEVNULL)
try:
    with tempfile.NamedTemporaryFile() as body:
        body.write(b"\0" + struct.pack(">I", len(message)) + message)
        body.flush()
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        time.sleep(0.5)

        def cpu():
            numbers = open(f"/proc/{server.pid}/stat").read().rsplit(")", 1)[1].split()
            return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
        for conns in arguments.conns.split(","):
            before = cpu()
            out = subprocess.run(["h2load", "-n", str(arguments.requests), "-c", conns, "-t", "1", "-d", body.name, "-H", "content-type: application/grpc",
                                  "-H", "te: trailers", "-H", "user-agent: grpc-c++/1.51.1 grpc-c/29.0.0 (linux; chttp2)",
                                  "-H", "grpc-accept-encoding: identity, deflate, gzip",
                                  f"http://127.0.0.1:{port}/inference.GRPCInferenceService/ModelInfer"], capture_output=True, text=True, check=True).stdout
            rate = re.search(r"([\d.]+) req/s", out).group(1)
            assert f"{arguments.requests} succeeded" in out, out
            print(f"{arguments.model.split('=')[0]} conns {conns}: {rate}/s, {(cpu() - before) / arguments.requests * 1e6:.1f} us CPU a request")
finally:
    server.terminate()
    server.wait()
