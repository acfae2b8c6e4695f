#!/usr/bin/env python3
"""Traces and scripts torchvision's networks, exports them with Ferry, and compares with eager PyTorch.

    export_torchvision.py FERRY [--all | NETWORK...]

Weights are random, pictures small; each network is held against eager outputs at two batch sizes. Without names a few
small networks are taken, enough for a test of every change; --all takes all.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
import torchvision

warnings.filterwarnings("ignore")

FEW = ["resnet18", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "fpn_backbone",
       "lraspp_mobilenet_v3_large"]
CLASSIFIERS = ["alexnet", "vgg11", "resnet18", "resnext50_32x4d", "wide_resnet50_2", "squeezenet1_0", "squeezenet1_1",
               "densenet121", "inception_v3", "googlenet", "shufflenet_v2_x0_5", "mobilenet_v2", "mobilenet_v3_small",
               "mnasnet0_5", "efficientnet_b0", "efficientnet_v2_s", "regnet_y_400mf", "vit_b_32", "swin_t",
               "swin_v2_t", "convnext_tiny", "maxvit_t"]
SEGMENTATION = ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
ALL = CLASSIFIERS + ["fpn_backbone"] + SEGMENTATION
SIZES = {"inception_v3": 96, "maxvit_t": 224}


def make(name):
    if name == "fpn_backbone":
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
        return resnet_fpn_backbone(backbone_name="resnet18", weights=None)
    if name in SEGMENTATION:
        return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)
    options = {"inception_v3": {"init_weights": False}, "googlenet": {"init_weights": False},
               "vit_b_32": {"image_size": 64}, "maxvit_t": {"input_size": (224, 224)}}.get(name, {})
    return getattr(torchvision.models, name)(weights=None, **options)


def tensors(outputs):
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = outputs.values()
    return [tensor for output in outputs if output is not None for tensor in tensors(output)]


def record(network, batch, size, path):
    picture = torch.randn(batch, 3, size, size)
    outputs = tensors(network(picture))
    numpy.savez(path, in0=picture.numpy(), **{f"out{i}": tensor.numpy() for i, tensor in enumerate(outputs)})
    return picture, max(float(tensor.abs().max()) for tensor in outputs)


def export(ferry, network, name, folder):
    """One line per way of capture; how many failed."""
    size = SIZES.get(name, 64)
    recordings = [os.path.join(folder, f"io_{batch}.npz") for batch in (2, 3)]
    picture, largest = record(network, 2, size, recordings[0])
    record(network, 3, size, recordings[1])
    failed = 0
    for way in ("trace", "script"):
        program = os.path.join(folder, "program.pt")
        if way == "trace":
            torch.jit.trace(network, picture, strict=False, check_trace=False).save(program)
        else:
            torch.jit.script(network).save(program)
        # Random weights do not keep outputs near 1: elements are held against the largest one.
        command = [ferry, "export", program, "-o", os.path.join(folder, "model.onnx"), "--verify",
                   "--atol", str(1e-5 * max(1.0, largest))]
        for recording in recordings:
            command += ["--data", recording]
        run = subprocess.run(command, capture_output=True, text=True)
        print("ok    " if run.returncode == 0 else "FAILED", name, way, flush=True)
        if run.returncode != 0:
            print((run.stdout + run.stderr)[-2000:])
            failed += 1
    return failed


def main():
    ferry, names = sys.argv[1], sys.argv[2:] or FEW
    if names == ["--all"]:
        names = ALL
    torch.manual_seed(0)
    failed = 0
    with torch.no_grad():
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                failed += export(ferry, make(name).eval(), name, folder)
    print(f"{2 * len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
