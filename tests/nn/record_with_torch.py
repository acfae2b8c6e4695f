#!/usr/bin/env python3
"""Writes recorded.cc: what PyTorch's modules give on a ramp, with the weights they get from seed 7.

usage: record_with_torch.py > recorded.cc
"""
import torch
from torch import nn


def ramp(*shape):
    count = torch.Size(shape).numel()
    return torch.tensor([((i * 7) % 13 - 6) / 8 for i in range(count)]).reshape(shape)


def record(name, values):
    numbers = ", ".join("%.7gf" % v if "." in "%.7g" % v or "e" in "%.7g" % v else "%g" % v
                        for v in values.detach().flatten().tolist())
    print('      {"%s", {%s}},' % (name, numbers))


def run(name, make, *inputs, **options):
    torch.manual_seed(7)
    module = make().eval()
    outputs = module(*inputs, **options)
    record(name, outputs[0] if isinstance(outputs, tuple) else outputs)


def with_values(module, **values):
    for name, elements in values.items():
        getattr(module, name).data.copy_(torch.tensor(elements))
    return module


def batch_norm(kind):
    return with_values(kind(2), weight=[1.5, -0.5], bias=[0.25, 1.0], running_mean=[0.125, -0.25], running_var=[2.0, 0.5])


print('// Written by record_with_torch.py with PyTorch %s.\n#include "recorded.h"\n' % torch.__version__[:4])
print("const std::map<std::string, std::vector<float>>& AllRecorded() {")
print("  static const std::map<std::string, std::vector<float>> kAll = {")
run("Linear", lambda: nn.Linear(4, 3), ramp(2, 4))
run("LinearOfCubes", lambda: nn.Linear(4, 3), ramp(2, 2, 4))
run("LinearWithoutBias", lambda: nn.Linear(4, 2, bias=False), ramp(2, 4))
run("Conv1d", lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1), ramp(1, 2, 6))
run("Conv2d", lambda: nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2), ramp(1, 4, 3, 3))
run("Conv2dUneven", lambda: nn.Conv2d(1, 2, (2, 3), stride=(1, 2), padding=(1, 0), bias=False), ramp(1, 1, 3, 5))
run("Conv3d", lambda: nn.Conv3d(1, 2, 2), ramp(1, 1, 3, 3, 2))
run("ConvTranspose1d", lambda: nn.ConvTranspose1d(2, 2, 3, stride=2), ramp(1, 2, 3))
run("ConvTranspose2d", lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2), ramp(1, 4, 2, 2))
run("ConvTranspose3d", lambda: nn.ConvTranspose3d(1, 1, 2, bias=False), ramp(1, 1, 2, 2, 2))
run("BatchNorm1d", lambda: batch_norm(nn.BatchNorm1d), ramp(3, 2))
run("BatchNorm2d", lambda: batch_norm(nn.BatchNorm2d), ramp(1, 2, 2, 2))
run("BatchNorm3d", lambda: batch_norm(nn.BatchNorm3d), ramp(1, 2, 1, 2, 2))
trained = batch_norm(nn.BatchNorm2d)
record("BatchNorm2d training", trained(ramp(2, 2, 2, 2)))
record("BatchNorm2d running_mean", trained.running_mean)
record("BatchNorm2d running_var", trained.running_var)
run("LayerNorm", lambda: nn.LayerNorm([2, 3]), ramp(2, 2, 3))
run("GroupNorm", lambda: with_values(nn.GroupNorm(2, 4), weight=[1.0, 2, 3, 4], bias=[0.0, 1, 0, -1]), ramp(1, 4, 3))
run("Embedding", lambda: nn.Embedding(6, 3), torch.tensor([[5, 0], [2, 2]]))
run("EmbeddingOfFew", lambda: nn.Embedding(3, 2), torch.tensor([2, 0, 1]))
run("MaxPool2d", lambda: nn.MaxPool2d(2, ceil_mode=True), ramp(1, 1, 3, 5))
run("MaxPool1d", lambda: nn.MaxPool1d(3, stride=1, padding=1), ramp(1, 1, 6))
run("MaxPool3d", lambda: nn.MaxPool3d((1, 2, 2)), ramp(1, 1, 2, 2, 4))
run("AvgPool2d", lambda: nn.AvgPool2d(3, stride=2, padding=1), ramp(1, 1, 4, 4))
run("AvgPool2dOfImage", lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), ramp(1, 1, 4, 4))
run("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d((2, 1)), ramp(1, 1, 4, 3))
run("AdaptiveMaxPool1d", lambda: nn.AdaptiveMaxPool1d(2), ramp(1, 1, 6))
activations = {
    "ReLU": nn.ReLU(), "ReLU6": nn.ReLU6(), "SELU": nn.SELU(), "Sigmoid": nn.Sigmoid(), "Tanh": nn.Tanh(),
    "SiLU": nn.SiLU(), "Mish": nn.Mish(), "Softplus": nn.Softplus(), "Hardsigmoid": nn.Hardsigmoid(),
    "Hardswish": nn.Hardswish(), "LeakyReLU": nn.LeakyReLU(0.2), "ELU": nn.ELU(1.5), "GELU": nn.GELU(),
    "GELUByTanh": nn.GELU("tanh"), "Softmax": nn.Softmax(1), "LogSoftmax": nn.LogSoftmax(-1),
}
for name, activation in activations.items():
    record(name, activation(ramp(2, 3, 4) * 8))
record("PReLU", with_values(nn.PReLU(3), weight=[0.25, 0.5, -1.0])(ramp(2, 3, 4)))
run("LSTM", lambda: nn.LSTM(3, 2), ramp(3, 1, 3))
run("LSTMBothWays", lambda: nn.LSTM(3, 2, num_layers=2, bidirectional=True, batch_first=True), ramp(1, 3, 3))
torch.manual_seed(7)
output, (h, c) = nn.LSTM(3, 2, num_layers=2)(ramp(2, 1, 3), (ramp(2, 1, 2), ramp(2, 1, 2)))
record("LSTM output", output)
record("LSTM h", h)
record("LSTM c", c)
run("GRU", lambda: nn.GRU(3, 2, bias=False), ramp(3, 1, 3))
torch.manual_seed(7)
output, h = nn.GRU(3, 2, bidirectional=True)(ramp(2, 1, 3), ramp(2, 1, 2))
record("GRU output", output)
record("GRU h", h)
run("MultiheadAttention", lambda: nn.MultiheadAttention(4, 2), *[ramp(3, 1, 4)] * 3)
run("MultiheadAttentionMasked", lambda: nn.MultiheadAttention(4, 2, batch_first=True), ramp(1, 2, 4), *[ramp(1, 3, 4)] * 2,
    attn_mask=torch.tensor([[False, True, True], [False, False, True]]))
torch.manual_seed(3)
record("randn 20", torch.randn(20))
record("randn 5", torch.randn(5))
record("rand 4", torch.rand(4))
print("  };\n  return kAll;\n}")
