#!/usr/bin/env python3
"""Small programs of many kinds, scripted or traced by PyTorch, exported with Ferry and compared with PyTorch.

    export_programs.py FERRY [NAME...]

Each program is exported once, with open sizes, and run on inputs of two sizes.
"""
import os
import subprocess
import sys
import tempfile
import warnings
from typing import Dict, List, Tuple

import numpy
import torch
import torchvision
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

warnings.filterwarnings("ignore")
T = torch.Tensor
CASES = {}


def case(*inputs, way="script"):
    """A module class with inputs of two sizes; a list of them is given to the program as one list."""
    def add(module):
        CASES[module.__name__] = (module, inputs, way)
        return module
    return add


def pictures(*sizes):
    return tuple(torch.rand(2, 8, *size) for size in sizes)


@case((torch.rand(5, 2, 3),), (torch.rand(9, 4, 3),))
class GrowingList(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: T) -> Tuple[T, T]:
        h, c = torch.zeros(x.size(1), 4), torch.zeros(x.size(1), 4)
        outs: List[T] = []
        for i in range(x.size(0)):
            h, c = self.cell(x[i], (h, c))
            outs.append(h)
        return torch.stack(outs), torch.cat(outs, 1)


@case((torch.rand(5, 2, 3),), (torch.rand(9, 4, 3),))
class UnboundList(nn.Module):
    def forward(self, x: T) -> T:
        steps = x.unbind(0)
        total = torch.zeros_like(steps[0])
        outs: List[T] = []
        for i in range(len(steps)):
            total = total * 0.5 + steps[i]
            outs += [total]
        return torch.stack(outs, 1)


@case((torch.rand(6, 3),), (torch.rand(11, 3),))
class ListOfSomeRows(nn.Module):
    def forward(self, x: T) -> Tuple[T, int]:
        kept = [x[0]]
        for i in range(x.size(0)):
            if bool(x[i].sum() > 1.5):
                kept.append(x[i] * 2)
            if len(kept) > 4:
                kept.append(kept[1] + kept[-1])
        return torch.stack(kept), len(kept)


@case((torch.rand(6, 3),), (torch.rand(11, 3),))
class ListOfPieces(nn.Module):
    def forward(self, x: T) -> T:
        pieces: List[T] = []
        for i in range(x.size(0)):
            pieces.append(x[: i + 1].sum(1))
        return torch.cat(pieces)


@case((torch.rand(6),), (torch.rand(11),))
class ListOfNumbers(nn.Module):
    def forward(self, x: T) -> Tuple[T, T]:
        whole: List[int] = []
        halves: List[float] = []
        for i in range(x.size(0)):
            whole.append(i * i)
            halves.append(float(x[i]) / 2)
        return torch.tensor(whole), torch.tensor(halves)


@case((torch.rand(6, 3),), (torch.rand(11, 3),))
class WrittenInALoop(nn.Module):
    def forward(self, x: T) -> Tuple[T, T]:
        out = torch.zeros(x.size(0), 2)
        row = out[0]
        state = {"sum": torch.zeros(3)}
        for i in range(x.size(0)):
            out[i, 0] = x[i].max()
            if bool(x[i, 0] > 0.5):
                out[i, 1] = 7
                state["sum"] = state["sum"] + x[i]
        return out + row, state["sum"]


@case((torch.rand(6, 3),), (torch.rand(11, 3),))
class SearchedInALoop(nn.Module):
    def forward(self, x: T) -> Tuple[T, int]:
        best = x[0]
        found = 0
        i = 0
        while i < x.size(0) and bool(best.sum() < 2):
            best = torch.maximum(best, x[i])
            found = i
            i += 1
        return best, found


@case((torch.rand(4, 7, 3), torch.tensor([7, 5, 5, 2])), (torch.rand(3, 9, 3), torch.tensor([6, 4, 1])))
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: T, lengths: T):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        y, (h, c) = self.lstm(packed)
        padded, counts = pad_packed_sequence(y, batch_first=True, padding_value=-1.0)
        z, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return padded, counts, h, c, z


@case((torch.rand(4, 7, 3), torch.tensor([2, 5, 7, 5])), (torch.rand(3, 9, 3), torch.tensor([4, 6, 1])), way="trace")
class PackedUnsorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(3, 4)

    def forward(self, x: T, lengths: T):
        packed = pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False)
        y, h = self.rnn(packed)
        return pad_packed_sequence(y)[0], h


@case(([torch.rand(3, 4), torch.rand(2, 4)],), ([torch.rand(5, 4), torch.rand(1, 4)],))
class ListInput(nn.Module):
    def forward(self, parts: List[T]) -> T:
        return torch.cat(parts) * len(parts)


@case(({"left": torch.rand(3, 4), "right": torch.rand(3, 4)},), ({"left": torch.rand(5, 4), "right": torch.rand(5, 4)},))
class DictInput(nn.Module):
    def forward(self, sides: Dict[str, T]) -> Dict[str, T]:
        return {"sum": sides["left"] + sides["right"], "left": sides["left"]}


BOXES = torch.tensor([[0., 1, 1, 6, 7], [1, 0, 0, 3, 3], [0, 2.5, 1.5, 9, 4], [1, 3, 2, 3.2, 2.1]])


class Regions(nn.Module):
    def forward(self, x: T, boxes: T):
        ops = torchvision.ops
        return (ops.roi_align(x, boxes, [3, 2], 0.5), ops.roi_align(x, boxes, [3, 2], 0.7, 2, True),
                ops.roi_pool(x, boxes, [3, 2], 0.7), ops.ps_roi_align(x, boxes, 2, 0.7),
                ops.ps_roi_align(x, boxes, 2, 0.7, 3))


for kind in ("script", "trace"):
    name = f"Regions_{kind}"
    CASES[name] = (Regions, ((torch.rand(2, 8, 6, 9), BOXES), (torch.rand(2, 8, 11, 7), BOXES[1:])), kind)


@case((torch.rand(30, 2), torch.rand(30)), (torch.rand(60, 2), torch.rand(60)))
class Suppression(nn.Module):
    def forward(self, x: T, scores: T):
        boxes = torch.cat([x, x + 0.3], 1)
        groups = (scores * 3).to(torch.int64)
        return (torchvision.ops.nms(boxes, scores, 0.3), torchvision.ops.nms(boxes, scores, 0.7),
                torchvision.ops.batched_nms(boxes, scores, groups, 0.4))


@case(pictures((6, 9)), pictures((11, 7)))
class Deformed(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = nn.Conv2d(8, 2 * 2 * 9, 3, padding=1)
        self.mask = nn.Conv2d(8, 2 * 9, 3, padding=1)
        self.conv = torchvision.ops.DeformConv2d(8, 6, 3, padding=1, groups=2)

    def forward(self, x: T) -> Tuple[T, T]:
        offset = self.offset(x)
        return self.conv(x, offset, torch.sigmoid(self.mask(x))), self.conv(x, offset)


@case((torch.rand(4, 1, 3), torch.rand(5, 4)), (torch.rand(2, 1, 3), torch.rand(5, 2)), way="trace")
class SizesOfOne(nn.Module):
    def forward(self, x: T, y: T):
        return torch.tensordot(x, y, dims=([1], [0])), torch.tensordot(x, y, dims=([0, 1], [1, 0]))


@case((torch.tensor([1, 2, 3]), torch.rand(3)), (torch.tensor([4, 5]), torch.rand(2)), way="trace")
class PythonFloats(nn.Module):
    def forward(self, x: T, y: T):
        return x * 0.5, torch.where(x > 2, y, 0.25), (x / 255.0 - 0.485) / 0.229, x ** 0.5


def indefinite(size):
    matrix = torch.randn(2, size, size)
    factors, pivots = torch.linalg.ldl_factor(matrix + matrix.mT)
    return factors, pivots, torch.randn(2, size, 2)


@case(indefinite(5), indefinite(5), way="trace")
class LdlSolve(nn.Module):
    def forward(self, factors: T, pivots: T, b: T) -> T:
        return torch.linalg.ldl_solve(factors, pivots, b)


@case((torch.tensor([1, 3, 3, 0]),), (torch.tensor([5, 2]),), way="trace")
class ShortenedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(6, 4, max_norm=1.0)
        self.others = nn.Embedding(6, 4, max_norm=0.5, norm_type=3.0)

    def forward(self, x: T):
        return self.rows(x), self.others(x)


@case((torch.randint(0, 5, (9,)), torch.rand(9)), (torch.randint(0, 7, (4,)), torch.rand(4)), way="trace")
class Counted(nn.Module):
    def forward(self, x: T, weights: T):
        rows = torch.stack([x, x // 2], 1)
        return (torch.bincount(x, weights, 8), torch.bincount(x, x, 8),
                *torch.unique_consecutive(rows, return_inverse=True, return_counts=True, dim=0),
                nn.functional.group_norm(torch.zeros(0, 4, 3) + weights[0], 2))


@case((torch.rand(2, 4),), (torch.rand(5, 4),))
class DynamicallyQuantised(nn.Module):
    def __init__(self):
        super().__init__()
        layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.layers = torch.quantization.quantize_dynamic(layers, {nn.Linear}, dtype=torch.qint8)

    def forward(self, x: T) -> T:
        return self.layers(x - 0.3)


def quantised():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quantise, self.back = torch.quantization.QuantStub(), torch.quantization.DeQuantStub()
            self.conv, self.relu = nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
            self.sum, self.linear = nn.quantized.FloatFunctional(), nn.Linear(8, 3)

        def forward(self, x: T) -> T:
            x = self.quantise(x)
            y = self.sum.add(self.relu(self.conv(x)), x)
            return self.back(self.linear(torch.flatten(nn.functional.max_pool2d(y, 6), 1)))

    net = Net().eval()
    net.qconfig = torch.quantization.get_default_qconfig("fbgemm")
    prepared = torch.quantization.prepare(torch.quantization.fuse_modules(net, [["conv", "relu"]]))
    prepared(torch.rand(4, 8, 6, 6))
    return torch.quantization.convert(prepared)


for kind in ("script", "trace"):
    CASES[f"Quantised_{kind}"] = (quantised, ((torch.rand(2, 8, 6, 6),), (torch.rand(5, 8, 6, 6),)), kind)


def arrays(values, name=""):
    """Tensors by the names that Ferry gives them: in0, in1 …; those of lists and dicts by their place."""
    flat = {}
    for i, value in enumerate(values):
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": item.numpy() for key, item in value.items()})
        elif isinstance(value, list):
            flat.update({f"{name}.{j}": item.numpy() for j, item in enumerate(value)})
        else:
            flat[f"in{i}"] = value.numpy()
    return flat


def results(value):
    if isinstance(value, torch.Tensor):
        return [value.detach().numpy()]
    if isinstance(value, (int, float)):
        return [numpy.array(value)]
    return [array for item in (value.values() if isinstance(value, dict) else value) for array in results(item)]


def export(ferry, name, folder):
    torch.manual_seed(0)
    kind, inputs, way = CASES[name]
    module = kind().eval()
    parameter = module.forward.__code__.co_varnames[1]
    recordings = []
    for values in inputs:
        recordings.append(os.path.join(folder, f"io_{len(recordings)}.npz"))
        answers = {f"out{i}": array for i, array in enumerate(results(module(*values)))}
        numpy.savez(recordings[-1], **arrays(values, parameter), **answers)
    program = os.path.join(folder, "program.pt")
    captured = torch.jit.script(module) if way == "script" else torch.jit.trace(module, inputs[0], check_trace=False)
    captured.save(program)
    command = [ferry, "export", program, "-o", os.path.join(folder, "model.onnx"), "--verify"]
    for recording in recordings:
        command += ["--data", recording]
    run = subprocess.run(command, capture_output=True, text=True)
    print("ok    " if run.returncode == 0 else "FAILED", name, way, flush=True)
    if run.returncode != 0:
        print((run.stdout + run.stderr)[-1500:])
    return run.returncode != 0


def main():
    ferry, names = sys.argv[1], sys.argv[2:] or list(CASES)
    failed = 0
    with torch.no_grad():
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                failed += export(ferry, name, folder)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
