"""ferry-server against another server of the same protocol, in turns: requests a second, latency, CPU time a request.

    compare.py --load LOAD --model NAME=FILE.onnx --input x:FP32:1x10 [--other 'COMMAND with {port} and {model}'] [--rounds N]

LOAD is a load generator with the options of the one that recorded docs/server.md's numbers (closed loop, --json, --pid). The other
server's answers are recorded first, and every answer of both is checked against them. Timings from a busy machine are
not evidence: 'others' says how many cores somebody else used; the CPU time a request is the firm number.
"""
import argparse
import json
import os
import re
import shlex
import socket
import statistics
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--server", default="build/ferry-server")
parser.add_argument("--load", required=True)
parser.add_argument("--other")
parser.add_argument("--model", required=True)
parser.add_argument("--input", action="append", required=True)
parser.add_argument("--conns", default="1,8,64")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=3)
arguments = parser.parse_args()
name = arguments.model.split("=")[0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command):
    port = free_port()
    process = subprocess.Popen(shlex.split(command.format(port=port, model=arguments.model)), stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    return process, port


def drive(port, *more):
    inputs = [word for spec in arguments.input for word in ("--input", spec)]
    run = subprocess.run([arguments.load, "--port", str(port), "--model", name, *inputs, *more], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stdout + run.stderr)
    return run.stdout


servers = {"ferry": arguments.server + " {model} --http-address 127.0.0.1 --http-port={port} --grpc-port=0 --allow-metrics=false"}
if arguments.other:
    servers["other"] = arguments.other
with tempfile.TemporaryDirectory() as folder:
    answers = os.path.join(folder, "answers")
    process, port = start(servers.get("other", servers["ferry"]))
    time.sleep(0.5)
    drive(port, "--record", answers)
    process.terminate()
    process.wait()
    for conns in arguments.conns.split(","):
        rows = {key: [] for key in servers}
        for _ in range(arguments.rounds):
            for key, command in servers.items():
                process, port = start(command)
                time.sleep(0.3)
                text = drive(port, "--conns", conns, "--seconds", str(arguments.seconds), "--warmup", "0.5", "--answers", answers,
                             "--rtol", "1e-3", "--atol", "1e-4", "--pid", str(process.pid), "--json")
                rows[key].append(json.loads(re.search(r"\{.*\}", text).group()))
                process.terminate()
                process.wait()
        for key, got in rows.items():
            median = {field: statistics.median(row[field] for row in got) for field in
                      ("per_second", "p50_ms", "p99_ms", "server_us_per_request", "rss_kb", "others_cpu")}
            print(f"{name} conns {conns} {key}: {median['per_second']:.0f}/s p50 {median['p50_ms']:.3f} ms p99 {median['p99_ms']:.3f} ms, "
                  f"{median['server_us_per_request']:.1f} us CPU a request, {median['rss_kb'] / 1024:.0f} MiB, others {median['others_cpu']:.2f}")
        if arguments.other:
            ratios = [a["per_second"] / b["per_second"] for a, b in zip(rows["ferry"], rows["other"])]
            cpu = [b["server_us_per_request"] / a["server_us_per_request"] for a, b in zip(rows["ferry"], rows["other"])]
            print(f"  ratio of requests a second {statistics.median(ratios):.2f}, of CPU time {statistics.median(cpu):.2f}")
