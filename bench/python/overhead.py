#!/usr/bin/env python3
"""What Python adds to a run, and how runs of many Python threads share the cores.

    PYTHONPATH=build/python /usr/bin/python3 bench/python/overhead.py build/ferry SIMPLE_NET.onnx [NETWORK.onnx]

The first number is `InferenceSession.run` against the C++ call that `ferry bench` measures, on one thread, the two in
turns. With a second network, 8 threads that share one session (of one thread a run) are held against one.
"""

import json
import statistics
import subprocess
import sys
import threading
import time

import ferry

ROUNDS, RUNS = 7, 20000


def single_threaded(path):
    options = ferry.SessionOptions()
    options.intra_op_num_threads = 1
    return ferry.InferenceSession(path, options)


def python_microseconds(session, feed):
    run = session.run
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter_ns()
        run(None, feed)
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1000


def cpp_microseconds(binary, path):
    said = subprocess.run([binary, "bench", path, "--json", "--threads", "1", "--iters", str(RUNS)], check=True,
                          capture_output=True, text=True)
    return json.loads(said.stdout)["median_ms"] * 1000


def overhead(binary, path):
    session = single_threaded(path)
    feed = session.random_inputs()
    pairs = [(python_microseconds(session, feed), cpp_microseconds(binary, path)) for _ in range(ROUNDS)]
    python, cpp = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    print(f"run from Python {python:.2f} µs, from C++ {cpp:.2f} µs: {python - cpp:.2f} µs more")


def runs_per_second(session, feed, threads, seconds=4.0):
    counts = [0] * threads
    stop = time.perf_counter() + seconds

    def work(index):
        while time.perf_counter() < stop:
            session.run(None, feed)
            counts[index] += 1

    workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begin)


def scaling(path):
    session = single_threaded(path)
    feed = session.random_inputs()
    runs_per_second(session, feed, 8, 0.5)
    pairs = [(runs_per_second(session, feed, 1), runs_per_second(session, feed, 8)) for _ in range(3)]
    one, eight = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    print(f"one thread {one:.0f} runs/s ({1000 / one:.2f} ms each), 8 threads {eight:.0f} runs/s: {eight / one:.2f} times")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    overhead(*sys.argv[1:3])
    if len(sys.argv) > 3:
        scaling(sys.argv[3])
