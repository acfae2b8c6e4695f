#!/usr/bin/env python3
"""Scripts and traces torchvision's detectors, exports them with Ferry, and compares with eager PyTorch.

    export_detectors.py FERRY [--all | NETWORK...]

Weights are random, from a seed; batch norms are given the statistics of random pictures, and the last layers are made
steeper, so that boxes and scores are told apart by more than rounding. Each network is captured once, with the sizes of
the picture left open, and run at two sizes: the same boxes, labels, scores, masks and key points within 1e-3. Without
names the five detectors are taken; --all takes the other backbones as well.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
from torchvision.models import detection

warnings.filterwarnings("ignore")

SMALL = {"min_size": 64, "max_size": 96}
# Few boxes of the key points' network: where two pixels of a heat map are equal but for rounding, either may be the point.
FEW = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": {**SMALL, "box_score_thresh": 0.01},
    "ssdlite320_mobilenet_v3_large": {},
    "retinanet_resnet50_fpn": SMALL,
    "maskrcnn_resnet50_fpn": SMALL,
    "keypointrcnn_resnet50_fpn": {**SMALL, "box_score_thresh": 0.1},
}
MORE = {
    "fasterrcnn_resnet50_fpn": SMALL,
    "fasterrcnn_resnet50_fpn_v2": SMALL,
    "fasterrcnn_mobilenet_v3_large_fpn": {**SMALL, "box_score_thresh": 0.01},
    "ssd300_vgg16": {},
    "retinanet_resnet50_fpn_v2": {**SMALL, "score_thresh": 0.01},
    "maskrcnn_resnet50_fpn_v2": SMALL,
}
SIZES = [(64, 80), (72, 96)]
# The layers that scores and boxes come from, and how much steeper or flatter they are made.
STEEPER = {"rpn.head.cls_logits": 10, "cls_score": 2, "bbox_pred": 0.1, "classification_head.cls_logits": 0.6,
           "classification_head": 3, "regression_head.bbox_reg": 0.02, "regression_head": 0.5}

# Networks whose scores would be all alike, or all 1.
OTHER = {"ssd300_vgg16": 0.15, "retinanet_resnet50_fpn_v2": 8}


def make(name, options):
    torch.manual_seed(0)
    network = getattr(detection, name)(weights=None, weights_backbone=None, **options)
    norms = [module for module in network.backbone.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    network.backbone.train()
    for norm in norms:
        norm.momentum = None
        norm.reset_running_stats()
    network.backbone(torch.randn(8, 3, 96, 128) if "ssd" not in name else torch.randn(2, 3, 320, 320))
    for path, module in network.named_modules():
        for layer, factor in STEEPER.items():
            if layer in path and isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
                module.weight *= 3 * factor if layer == "bbox_pred" and "mobilenet" in name else factor
                if layer.startswith("classification_head") and "conv." not in path:
                    module.weight *= OTHER.get(name, 1)
                break
    return network.eval()


class Traced(torch.nn.Module):
    """Tracing gives tensors back, not dicts."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, picture):
        return tuple(value for _, value in sorted(self.network([picture])[0].items()))


def record(network, pictures, folder):
    paths = []
    for picture in pictures:
        answers = network([picture])[0]
        paths.append(os.path.join(folder, f"io_{len(paths)}.npz"))
        outputs = {f"out_{key}": value.numpy() for key, value in answers.items()}
        numpy.savez(paths[-1], in0=picture.numpy(), **outputs)
    return paths


def matching(recorded, given):
    """Where each of PyTorch's boxes is among Ferry's: scores that are equal but for rounding may be in either order."""
    def rows(of):
        return numpy.concatenate([of("boxes"), 1e3 * of("labels")[:, None], of("scores")[:, None]], axis=1)
    expected, got = rows(lambda key: recorded[f"out_{key}"]), rows(lambda key: given[key])
    free, order = list(range(len(got))), []
    for row in expected:
        nearest = min(free, key=lambda i: numpy.abs(got[i] - row).max())
        free.remove(nearest)
        order.append(nearest)
    return numpy.array(order, dtype=int)


def compare(ferry, model, recording, folder, keys):
    """The largest difference of each output, or what is wrong."""
    recorded = numpy.load(recording)
    answers = os.path.join(folder, "answers.npz")
    inputs = os.path.join(folder, "inputs.npz")
    numpy.savez(inputs, in0=recorded["in0"])
    run = subprocess.run([ferry, "run", model, "--inputs", inputs, "--outputs", answers], capture_output=True, text=True)
    if run.returncode != 0:
        return run.stderr[-1000:], 0
    given = numpy.load(answers)
    for key in keys:
        expected, got = recorded[f"out_{key}"], given[key]
        if expected.shape != got.shape:
            return f"{key}: shape {got.shape}, PyTorch has {expected.shape}", 0
    order = matching(recorded, given)
    for key in keys:
        off = numpy.abs(recorded[f"out_{key}"].astype("f8") - given[key][order]).max(initial=0)
        if off > 1e-3:
            return f"{key}: off by {off:.2g}", 0
    return None, len(recorded["out_boxes"])


def export(ferry, name, options, folder):
    network = make(name, options)
    seeds = (0, 0) if "keypoint" in name else (0, 1)
    pictures = [torch.rand(3, *size, generator=torch.Generator().manual_seed(seed))
                for size, seed in zip(SIZES, seeds)]
    recordings = record(network, pictures, folder)
    keys = sorted(key[4:] for key in numpy.load(recordings[0]) if key.startswith("out_"))
    failed = 0
    for way in ("script", "trace"):
        program, model = os.path.join(folder, "program.pt"), os.path.join(folder, "model.onnx")
        if way == "script":
            torch.jit.script(network).save(program)
            source = "images.0"
            names = list(network([pictures[0]])[0])
        else:
            torch.jit.trace(Traced(network), pictures[0], check_trace=False).save(program)
            source = "picture"
            names = keys
        command = [ferry, "export", program, "-o", model, "--input", f"{source}:float32[3,height,width]",
                   "--output-names", ",".join(names)]
        run = subprocess.run(command, capture_output=True, text=True)
        wrong, boxes = (run.stdout + run.stderr)[-2000:] if run.returncode else None, []
        for recording in recordings if not wrong else []:
            wrong, count = compare(ferry, model, recording, folder, keys)
            boxes.append(count)
            if wrong or count == 0:
                wrong = wrong or "there are no boxes to compare"
                break
        print("ok    " if not wrong else "FAILED", name, way, *boxes, flush=True)
        if wrong:
            print(wrong)
            failed += 1
    return failed


def main():
    ferry, names = sys.argv[1], sys.argv[2:]
    every = {**FEW, **MORE}
    names = list(every) if names == ["--all"] else names or list(FEW)
    failed = 0
    with torch.no_grad():
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                failed += export(ferry, name, every[name], folder)
    print(f"{2 * len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
