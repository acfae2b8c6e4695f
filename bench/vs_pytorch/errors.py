#!/usr/bin/env python3
"""How far small floats are from float64 on an NVIDIA GPU: Ferry beside PyTorch, on recorded networks.

    bench/vs_pytorch/errors.py --ferry build/ferry --models FOLDER [--precisions fp16,bf16]

FOLDER has NAME/model.pt (TorchScript), NAME/torch.onnx and NAME/io_2.npz (in0 …), as conformance/torch-models has
them. The truth is PyTorch's in float64; a figure is the norm of the difference from it over its own norm, the largest
of all outputs that are floats. Networks that PyTorch cannot run on the GPU run on the CPU in that type; those that it
cannot run in a type at all say so.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "float32": torch.float32}


def flat(made):
    """Tensors of an answer, in order."""
    if isinstance(made, torch.Tensor):
        return [made]
    if isinstance(made, dict):
        made = made.values()
    return [x for one in made for x in flat(one)]


def by_pytorch(path, inputs, kind):
    try:
        return on_device(path, inputs, kind, "cuda")
    except RuntimeError as problem:  # traced networks may hold that their constants lie on the CPU
        if "same device" not in str(problem):
            raise
        return on_device(path, inputs, kind, "cpu")


def on_device(path, inputs, kind, device):
    network = torch.jit.load(path, map_location=device).eval().to(kind)
    there = [x.to(device, kind if x.is_floating_point() else x.dtype) for x in inputs]
    with torch.inference_mode():
        return [x.double().cpu().numpy() if x.is_floating_point() else x.cpu().numpy() for x in flat(network(*there))]


def by_ferry(ferry, folder, precision):
    with tempfile.TemporaryDirectory() as place:
        made = f"{place}/made.npz"
        subprocess.run([ferry, "run", folder / "torch.onnx", "--inputs", folder / "io_2.npz", "--provider", "cuda,cpu",
                        "--precision", precision, "--outputs", made], check=True, capture_output=True)
        return list(numpy.load(made).values())


def error(made, truth):
    """The largest over the outputs; an answer that is not finite where the truth is counts as infinite."""
    largest = 0.0
    for x, y in zip(made, truth, strict=True):
        if y.dtype.kind != "f" or y.size == 0:
            continue
        finite = numpy.isfinite(y)
        x, y = x.astype(numpy.float64)[finite], y[finite]
        distance = numpy.linalg.norm(x - y) / max(numpy.linalg.norm(y), 1e-30)
        largest = max(largest, distance if numpy.isfinite(distance) else float("inf"))
    return largest


def attempt(make):
    try:
        return make(), ""
    except subprocess.CalledProcessError as problem:
        return None, problem.stderr.decode().strip().splitlines()[-1][:90]
    except Exception as problem:  # noqa: BLE001 - whatever PyTorch says is the row
        return None, str(problem).strip().splitlines()[-1][:90]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default="build/ferry")
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--precisions", default="fp16,bf16")
    options = parser.parse_args()
    print("| network | precision | PyTorch | Ferry | |\n|---|---|---|---|---|")
    worse = failed = 0
    folders = sorted(path.parent for path in options.models.glob("*/model.pt"))
    for folder in [folder for folder in folders if (folder / "torch.onnx").exists()]:
        recorded = numpy.load(folder / "io_2.npz")
        inputs = [torch.from_numpy(recorded[f"in{i}"]) for i in range(sum(n.startswith("in") for n in recorded.files))]
        truth, why = attempt(lambda: by_pytorch(folder / "model.pt", inputs, torch.float64))
        if truth is None:
            truth = [recorded[f"out{i}"].astype(numpy.float64) if recorded[f"out{i}"].dtype.kind == "f"
                     else recorded[f"out{i}"] for i in range(sum(n.startswith("out") for n in recorded.files))]
            why = f"against the recording: {why}"
        for precision in options.precisions.split(","):
            theirs, no_theirs = attempt(lambda: error(by_pytorch(folder / "model.pt", inputs, TYPES[precision]), truth))
            ours, no_ours = attempt(lambda: error(by_ferry(options.ferry, folder, precision), truth))
            failed += ours is None
            worse += ours is not None and theirs is not None and ours > theirs
            said = [f"{e:.1e}" if e is not None else "" for e in (theirs, ours)]
            print(f"| {folder.name} | {precision} | {said[0]} | {said[1]} | {why} {no_theirs} {no_ours} |", flush=True)
    print(f"\nFerry's error is larger in {worse}; {failed} did not run")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
