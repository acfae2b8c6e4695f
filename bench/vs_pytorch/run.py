#!/usr/bin/env python3
"""Ferry against PyTorch on an NVIDIA GPU, in turns: the same networks, batches and precisions.

    bench/vs_pytorch/run.py --ferry build/ferry [--only resnet50,bert_base] [--batches 1,32] [--precisions tf32,fp16]
                            [--together 12]

PyTorch is the faster of the network captured into a CUDA graph (channels last for convolutional networks, cuDNN's
search on) and torch.compile(mode='reduce-overhead'); --no-compile leaves the second out, which takes most of the time.
--together N makes N networks ready at once, in processes of their own, and then times them one after the other while the
others wait. Ferry should know its choices by then, which are timed too: run `ferry bench` on each network before. Inputs lie on the GPU and results stay there. Each turn is 30 runs of PyTorch by the GPU's clock, then 30 of Ferry by the
host's; a figure is the median of the turns' medians. Ferry's first run, which finds what is fastest, comes before. The
last column is PyTorch's time over Ferry's: above 1, Ferry is faster.
"""
import argparse
import concurrent.futures
import json
import logging
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zlib

import numpy
import torch

from networks import BATCH_OF_ONE, CONVOLUTIONAL, DIMS, NETWORKS

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "vs_onnxruntime"


def fill(name, weight):
    """Weights of the mean and deviation, or within the limits, that the table gives."""
    generator = numpy.random.default_rng(zlib.crc32(name.encode()))
    if "mean" not in weight:
        return generator.integers(weight["min"], weight["max"], weight["shape"], numpy.int64, True).astype(
            weight["dtype"])
    made = generator.standard_normal(weight["shape"], numpy.float32) * weight["std"] + weight["mean"]
    return (numpy.abs(made) if "scale" in name else made).astype(weight["dtype"])


def unpack(network, folder):
    """NAME.onnx with its weights beside it; from --models where that has it."""
    path = folder / f"{network}.onnx"
    if path.exists():
        return path
    with tarfile.open(FOLDER / "networks.tar.xz") as archive:
        for member in archive.getmembers():
            if pathlib.Path(member.name).name.startswith(f"{network}.onnx"):
                member.name = pathlib.Path(member.name).name
                archive.extract(member, folder, filter="data")
    table = json.loads((folder / f"{network}.onnx.stats.json").read_text())
    with open(folder / f"{network}.onnx.data", "wb") as file:
        for name, weight in table.items():
            file.seek(weight["offset"])
            file.write(fill(name, weight).tobytes())
        file.truncate((file.seek(0, 2) + 4095) // 4096 * 4096)
    return path


def median_ms(run, times=30):
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    taken = []
    for _ in range(times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def captured(network, inputs):
    """A replay of one run."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            network(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        network(*inputs)
    return graph.replay


def pytorch_ways(name, batch, precision, compiles):
    """Functions that run the network once, by name."""
    kind = torch.float16 if precision == "fp16" else torch.float32
    make, ask = NETWORKS[name]
    network = make().eval().cuda().to(kind)
    if name in CONVOLUTIONAL:
        network = network.to(memory_format=torch.channels_last)
    inputs = [x.cuda().to(kind) if x.is_floating_point() else x.cuda() for x in ask(batch)]
    ways = {"graph": captured(network, inputs)}
    if compiles:
        torch._dynamo.reset()
        compiled = torch.compile(network, mode="reduce-overhead")
        for _ in range(3):
            compiled(*inputs)
        ways["compile"] = lambda: compiled(*inputs)
    return ways


class Ferry:
    """`ferry bench` of one network, which runs when it is asked."""

    def __init__(self, ferry, model, name, batch, precision):
        command = [ferry, "bench", str(model), "--provider", "cuda,cpu", "--precision", precision, "--on-device",
                   "--on-request"]
        for dim in ([] if name in BATCH_OF_ONE else [f"batch={batch}"]) + DIMS.get(name, []):
            command += ["--dim", dim]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1].strip())
        return json.loads(line)

    def median_ms(self, times=30):
        self.process.stdin.write(f"5\n{times}\n")
        self.process.stdin.flush()
        self.answer()
        return statistics.median(self.answer()["times_ms"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def measure(options, cell, folder):
    """What a process of its own does for one network: gets ready, says so, and times it when it is asked."""
    name, batch, precision = cell.split(":")
    with torch.inference_mode(), Ferry(options.ferry, folder / f"{name}.onnx", name, int(batch), precision) as ferry:
        ways = pytorch_ways(name, int(batch), precision, not options.no_compile)
        torch.cuda.synchronize()
        print("ready", flush=True)
        sys.stdin.readline()
        theirs, ours = {way: [] for way in ways}, []
        for _ in range(options.turns):
            for way, run in ways.items():
                theirs[way].append(median_ms(run))
            ours.append(ferry.median_ms())
    best = min(theirs, key=lambda way: statistics.median(theirs[way]))
    print(json.dumps([best, statistics.median(theirs[best]), statistics.median(ours)]), flush=True)


class Cell:
    """One network at one batch and precision, in a process of its own."""

    def __init__(self, cell, folder):
        self.cell = cell
        own = ["--cell", cell, "--models", str(folder)]
        environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="2", OMP_NUM_THREADS="2")
        self.process = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], *own], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1].strip().splitlines()[-1])
        return line

    def wait(self):
        try:
            self.line()
            return True
        except (RuntimeError, IndexError) as error:
            print(f"{self.cell}: {error}", file=sys.stderr, flush=True)
            return False

    def measure(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        answer = json.loads(self.line())
        self.process.communicate()
        return answer


def run_cells(cells, folder, together):
    """Rows of the table, in the order of the cells."""
    for begin in range(0, len(cells), together):
        wave = [Cell(cell, folder) for cell in cells[begin:begin + together]]
        for cell in [cell for cell in wave if cell.wait()]:
            yield cell.cell.split(":"), cell.measure()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default="build/ferry")
    parser.add_argument("--models", help="folder of NAME.onnx with weights; those that it lacks are made there")
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks, by commas")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--precisions", default="tf32,fp16")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--together", type=int, default=1, help="networks that are made ready at once")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    folder = pathlib.Path(options.models or tempfile.mkdtemp())
    if options.cell:
        return measure(options, options.cell, folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = options.only.split(",")
    with concurrent.futures.ProcessPoolExecutor(max(1, min(options.together, 8))) as pool:
        list(pool.map(unpack, names, [folder] * len(names)))
    cells = [f"{name}:{batch}:{precision}" for name in names for precision in options.precisions.split(",")
             for batch in options.batches.split(",") if name not in BATCH_OF_ONE or batch == "1"]
    print("| network | batch | precision | PyTorch's best | ms | Ferry ms | ratio |\n|---|---|---|---|---|---|---|")
    ratios = []
    for (name, batch, precision), (best, theirs, ours) in run_cells(cells, folder, options.together):
        ratios.append(theirs / ours)
        print(f"| {name} | {batch} | {precision} | {best} | {theirs:.3f} | {ours:.3f} | {ratios[-1]:.2f} |", flush=True)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"\ngeometric mean {mean:.3f} over {len(ratios)}, smallest {min(ratios):.2f}, "
              f"below 1: {sum(r < 1 for r in ratios)}")


if __name__ == "__main__":
    main()
