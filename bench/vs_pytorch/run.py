#!/usr/bin/env python3
"""Ferry against PyTorch on an NVIDIA GPU, in turns: the same networks, batches and precisions.

    bench/vs_pytorch/run.py --ferry build/ferry [--only resnet50,bert_base] [--batches 1,32] [--precisions tf32,fp16]

PyTorch is the faster of the network captured into a CUDA graph (channels last for convolutional networks, cuDNN's
search on) and torch.compile(mode='reduce-overhead'); --no-compile leaves the second out, which takes most of the time.
Inputs lie on the GPU and results stay there. Each turn is 30 runs of PyTorch by the GPU's clock, then 30 of Ferry by the
host's; a figure is the median of the turns' medians. Ferry's first run, which finds what is fastest, comes before. The
last column is PyTorch's time over Ferry's: above 1, Ferry is faster.
"""
import argparse
import json
import logging
import math
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


def measure(options, name, batch, precision, folder):
    model = unpack(name, folder)
    with torch.inference_mode(), Ferry(options.ferry, model, name, batch, precision) as ferry:
        ways = pytorch_ways(name, batch, precision, not options.no_compile)
        theirs, ours = {way: [] for way in ways}, []
        for _ in range(options.turns):
            for way, run in ways.items():
                theirs[way].append(median_ms(run))
            ours.append(ferry.median_ms())
    best = min(theirs, key=lambda way: statistics.median(theirs[way]))
    return best, statistics.median(theirs[best]), statistics.median(ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default="build/ferry")
    parser.add_argument("--models", help="folder of NAME.onnx with weights; those that it lacks are made there")
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks, by commas")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--precisions", default="tf32,fp16")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    folder = pathlib.Path(options.models or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print("| network | batch | precision | PyTorch's best | ms | Ferry ms | ratio |\n|---|---|---|---|---|---|---|")
    ratios = []
    for name in options.only.split(","):
        for precision in options.precisions.split(","):
            for batch in map(int, options.batches.split(",")):
                if name in BATCH_OF_ONE and batch != 1:
                    continue
                try:
                    best, theirs, ours = measure(options, name, batch, precision, folder)
                except Exception as error:
                    print(f"{name} at batch {batch} in {precision}: {error}", file=sys.stderr, flush=True)
                    continue
                ratios.append(theirs / ours)
                print(f"| {name} | {batch} | {precision} | {best} | {theirs:.3f} | {ours:.3f} | {ratios[-1]:.2f} |",
                      flush=True)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"\ngeometric mean {mean:.3f}, smallest {min(ratios):.2f}, below 1: {sum(r < 1 for r in ratios)}")


if __name__ == "__main__":
    main()
