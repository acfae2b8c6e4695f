"""ferry-server against another server of the same protocol, in turns: requests a second, latency, CPU time a request.

    compare.py --load LOAD --model NAME=FILE.onnx --input x:FP32:1x10 [--other 'COMMAND with {port} and {model}']
               [--canned CANNED:THREADS[:awake]] [--options 'MORE FOR FERRY-SERVER'] [--rounds N] [--share 0.8]

LOAD is a load generator with the options of the one that recorded docs/server.md's numbers (closed loop, --json, --pid). The other
server's answers are recorded first, and every answer of both is checked against them. Timings from a busy machine are
not evidence: 'others' says how many cores somebody else used; the CPU time a request is the firm number. --canned takes turns
with canned.cc as well, which answers without doing anything (needs --variants 1): the most that this generator can be served.
--share: then also in an open loop, at this share of the requests a second that the closed loop had.
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
parser.add_argument("--canned", action="append", default=[])
parser.add_argument("--options", default="")
parser.add_argument("--share", type=float)
parser.add_argument("--variants", type=int, default=16)
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


def start(command, **more):
    port = free_port()
    words = shlex.split(command.format(port=port, model=arguments.model, **more))
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    time.sleep(0.5)
    return process, port


def stop(process):
    process.terminate()
    process.wait()


def drive(port, *more):
    inputs = [word for spec in arguments.input for word in ("--input", spec)]
    run = subprocess.run([arguments.load, "--port", str(port), "--model", name, "--variants", str(arguments.variants), *inputs, *more],
                         capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stdout + run.stderr)
    return run.stdout


def can_answer(port, canned):
    """The whole answer to the first input, as this server gives it."""
    with socket.socket() as door, socket.socket() as server:
        door.bind(("127.0.0.1", 0))
        door.listen()
        load = subprocess.Popen([arguments.load, "--port", str(door.getsockname()[1]), "--model", name, "--variants", "1", "--record",
                                 os.devnull, *(word for spec in arguments.input for word in ("--input", spec))], stdout=subprocess.DEVNULL)
        client = door.accept()[0]
        server.connect(("127.0.0.1", port))
        server.sendall(client.recv(1 << 24))
        answer = server.recv(1 << 24)
        client.sendall(answer)
        client.close()
        load.wait()
    with open(canned, "wb") as file:
        file.write(answer)


servers = {"ferry": arguments.server + " {model} --http-address 127.0.0.1 --http-port={port} --grpc-port=0 --allow-metrics=false " + arguments.options}
if arguments.other:
    servers["other"] = arguments.other
for given in arguments.canned:
    binary, threads, *awake = given.split(":")
    servers[" ".join(["canned", threads, *awake])] = " ".join([binary, "{port}", threads, "{answer}", *awake])
with tempfile.TemporaryDirectory() as folder:
    answers, canned = os.path.join(folder, "answers"), os.path.join(folder, "canned")
    process, port = start(servers.get("other", servers["ferry"]))
    drive(port, "--record", answers)
    stop(process)
    if arguments.canned:
        process, port = start(servers["ferry"])
        can_answer(port, canned)
        stop(process)
    def measure(process, port, conns, *more):
        text = drive(port, "--conns", conns, "--seconds", str(arguments.seconds), "--warmup", "0.5", "--answers", answers,
                     "--rtol", "1e-3", "--atol", "1e-4", "--pid", str(process.pid), "--json", *more)
        row = json.loads(re.search(r"\{.*\}", text).group())
        row["load_us"] = row["client_cpu"] * 1e6 / row["per_second"]
        return row

    for conns in arguments.conns.split(","):
        rows = {key: [] for key in servers}
        open_rows = {key: [] for key in servers}
        for _ in range(arguments.rounds):
            for key, command in servers.items():
                process, port = start(command, answer=canned)
                rows[key].append(measure(process, port, conns))
                if arguments.share:
                    open_rows[key].append(measure(process, port, conns, "--rate", str(arguments.share * rows[key][-1]["per_second"])))
                stop(process)
        for loop, all_rows in (("", rows), (f" open loop at {arguments.share}", open_rows)):
            for key, got in all_rows.items():
                if not got:
                    continue
                median = {field: statistics.median(row[field] for row in got) for field in
                          ("per_second", "p50_ms", "p99_ms", "server_us_per_request", "load_us", "rss_kb", "others_cpu")}
                print(f"{name} conns {conns}{loop} {key}: {median['per_second']:.0f}/s p50 {median['p50_ms']:.3f} ms p99 "
                      f"{median['p99_ms']:.3f} ms, {median['server_us_per_request']:.1f} us CPU a request (the generator "
                      f"{median['load_us']:.1f}), {median['rss_kb'] / 1024:.0f} MiB, others {median['others_cpu']:.2f}")
        for key, got in rows.items():
            if key != "other" and "other" in rows:
                ratios = [a["per_second"] / b["per_second"] for a, b in zip(got, rows["other"])]
                cpu = [b["server_us_per_request"] / a["server_us_per_request"] for a, b in zip(got, rows["other"])]
                print(f"  {key}: {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) x the requests a second, "
                      f"{statistics.median(cpu):.2f} x less CPU time")
