#!/usr/bin/env python3
"""Exports torchvision networks with a fixed batch, lets 'ferry doctor --fix' set it free, and holds the result against PyTorch.

usage: tests/doctor/free_torchvision_batches.py FERRY [--all] [NETWORK...]

Needs torch and torchvision (Debian: python3-torchvision, with PyTorch 1.13). The finding must be there, and the mended model
must give PyTorch's outputs at batches 1, 2 and 5. By default a short list of small networks, each exported at batch 1 or 2;
--all takes one of every family, at both.
"""
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
import torchvision

# Network → arguments that keep it small; the input is 64×64 unless the network needs more.
SHORT = {
    "resnet18": {},
    "squeezenet1_1": {},
    "mobilenet_v2": {},
    "mobilenet_v3_small": {},
    "shufflenet_v2_x0_5": {},
    "mnasnet0_5": {},
    "efficientnet_b0": {},
    "regnet_y_400mf": {},
    "VisionTransformer": dict(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128),
    "SwinTransformer": dict(patch_size=[4, 4], embed_dim=24, depths=[1, 2], num_heads=[2, 4], window_size=[4, 4]),
}
MORE = {
    "alexnet": {},
    "vgg11_bn": {},
    "resnext50_32x4d": {},
    "densenet121": {},
    "googlenet": {"init_weights": False, "aux_logits": False},
    "inception_v3": {"init_weights": False, "aux_logits": False},
    "convnext_tiny": {},
    "vit_b_16": {"image_size": 64},
    "swin_t": {},
    "segmentation.fcn_resnet50": {"weights_backbone": None},
    "segmentation.lraspp_mobilenet_v3_large": {"weights_backbone": None},
    "segmentation.deeplabv3_mobilenet_v3_large": {"weights_backbone": None},
    "video.r3d_18": {},
}
SIZES = {"alexnet": (3, 224, 224), "vgg11_bn": (3, 224, 224), "inception_v3": (3, 96, 96), "video.r3d_18": (3, 4, 32, 32)}


def make(name, arguments):
    module = torchvision.models
    for part in name.split("."):
        module = getattr(module, part)
    torch.manual_seed(0)
    if not name[0].isupper():
        arguments = {"weights": None, **arguments}
    return module(**arguments).eval()


def outputs_of(model, inputs):
    with torch.no_grad():
        given = model(inputs)
    return [v.numpy() for v in (given.values() if isinstance(given, dict) else [given])]


def run(ferry, *arguments):
    return subprocess.run([ferry, *map(str, arguments)], capture_output=True, text=True)


def try_one(ferry, folder, name, arguments, batch):
    """The reason why it failed; empty when it did not."""
    model = make(name, arguments)
    size = SIZES.get(name, (3, 64, 64))
    baked, mended = folder / "baked.onnx", folder / "mended.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, torch.randn(batch, *size), str(baked), opset_version=14, input_names=["x"])
    said = run(ferry, "doctor", baked, "--lint", "baked-batch", "--fix", mended)
    if "[baked-batch]" not in said.stdout:
        return "not found: " + said.stdout + said.stderr
    if "\nmended: baked-batch" not in said.stdout:
        return said.stdout[-1500:] + said.stderr
    for count in (1, 2, 5):
        inputs = torch.randn(count, *size)
        recording = {"in0": inputs.numpy()}
        recording.update({f"out{i}": v for i, v in enumerate(outputs_of(model, inputs))})
        numpy.savez(folder / "io.npz", **recording)
        said = run(ferry, "compare", mended, "--data", folder / "io.npz", "--rtol", "1e-3", "--atol", "1e-4")
        if said.returncode:
            return f"batch {count}: " + said.stdout + said.stderr
    return ""


def main():
    names = [a for a in sys.argv[2:] if not a.startswith("-")]
    networks = {**SHORT, **MORE} if "--all" in sys.argv or names else SHORT
    failed = 0
    tried = 0
    for name, arguments in networks.items():
        if names and name not in names:
            continue
        for batch in (1, 2) if names or "--all" in sys.argv else (1 + tried % 2,):
            with tempfile.TemporaryDirectory() as folder:
                why = try_one(sys.argv[1], pathlib.Path(folder), name, arguments, batch)
            tried += 1
            failed += bool(why)
            print(f"{name} at batch {batch}: {why or 'equal at 1, 2 and 5'}", flush=True)
    print(f"{tried - failed} passed, {failed} failed")
    sys.exit(1 if failed or not tried else 0)


if __name__ == "__main__":
    main()
