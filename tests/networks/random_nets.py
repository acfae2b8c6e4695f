#!/usr/bin/python3
"""Small random networks, each as float or with 8-bit numbers: cases for `ferry build` that no list has.

  random_nets.py FERRY DIR [--first SEED] [--count N]     writes DIR/SEED_KIND_FORM/model.onnx
  --verify                                                and puts them through `ferry build --verify`

The same seed gives the same network. FERRY runs the float networks, whose ranges the 8-bit ones need, and quantises some.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from random_net import random_net

QUANTISED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Mul", "Sub", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Concat", "Sigmoid", "Tanh",
             "Softmax", "HardSwish", "HardSigmoid", "Relu", "Clip", "LeakyRelu", "Resize", "Softplus", "Elu", "PRelu", "ReduceMean"}
MOVED = {"MaxPool", "Flatten", "Reshape", "Transpose", "Split", "Slice", "Pad"}  # levels stay what they are
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}


def save(path, nodes, constants, inputs, outputs):
    """inputs and outputs: (name, elem type, shape)"""
    infos = [[helper.make_tensor_value_info(*one) for one in some] for some in (inputs, outputs)]
    graph = helper.make_graph(nodes, "net", *infos, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 8
    onnx.save(model, path)


def float_nodes(net):
    return [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in net.layers]


def ranges(ferry, net, x):
    """the largest and smallest number of every value, by a run of the float network"""
    with tempfile.TemporaryDirectory() as folder:
        values = [o for _, _, outs, _ in net.layers for o in outs if o in net.shapes]
        save(folder + "/net.onnx", float_nodes(net), net.constants, [("x", TensorProto.FLOAT, net.shapes["x"])],
             [(v, TensorProto.FLOAT, net.shapes[v]) for v in values])
        np.savez(folder + "/in.npz", in0=x)
        subprocess.run([ferry, "run", folder + "/net.onnx", "--inputs", folder + "/in.npz", "--outputs", folder + "/out.npz"], check=True,
                       stdout=subprocess.DEVNULL)
        found = np.load(folder + "/out.npz")
        got = {v: found[v] for v in values}
    for v, array in got.items():
        if array.shape != net.shapes[v]:
            raise SystemExit(f"{v}: shape {array.shape}, thought {net.shapes[v]}")
    got["x"] = x
    return {v: (min(0.0, float(a.min())), max(0.0, float(a.max()))) for v, a in got.items()}


class Quantiser:
    """The network with QuantizeLinear and DequantizeLinear around what integers can do."""

    def __init__(self, net, limits, rng):
        self.net, self.limits, self.rng = net, limits, rng
        self.type = rng.choice([np.int8, np.uint8])
        self.per_channel, self.symmetric = rng.random() < 0.6, rng.random() < 0.3
        self.weights_unsigned = rng.random() < 0.15
        self.skipped = 0.1 if rng.random() < 0.3 else 0.0
        self.nodes, self.constants = [], {}
        self.levels, self.floats = {}, {}  # value -> its tensor of levels, or of floats

    def scale(self, value):
        low, high = self.limits[value]
        least, most = np.iinfo(self.type).min, np.iinfo(self.type).max
        if self.symmetric:
            size = max(-low, high) or 1.0
            return np.float32(size / 127), self.type(0 if least < 0 else 128)
        s = np.float32((high - low) / 255 or 1.0)
        return s, self.type(np.clip(round(least - low / float(s)), least, most))

    def constant(self, name, array):
        self.constants[name] = np.asarray(array)
        return name

    def parameters(self, value, like=None):
        s, z = self.scale(value) if like is None else (self.constants[like + "_s"], self.constants[like + "_z"])
        return [self.constant(value + "_s", s), self.constant(value + "_z", z)]

    def level(self, value):
        if value not in self.levels:
            self.nodes.append(helper.make_node("QuantizeLinear", [self.floats[value], *self.parameters(value)], [value + "_q"]))
            self.levels[value] = value + "_q"
        return self.levels[value]

    def number(self, value):
        """the value as floats; what has levels is read from them"""
        if value in self.levels:
            name = f"{value}_d{len(self.nodes)}"
            self.nodes.append(helper.make_node("DequantizeLinear", [self.levels[value], value + "_s", value + "_z"], [name]))
            return name
        return self.floats[value]

    def weight(self, name, op, attributes, x, is_bias, others):
        w = self.net.constants[name]
        if is_bias:
            s = (self.constants[others + "_s"] * self.constants[x + "_s"]).astype(np.float32)
            self.constant(name, np.round(w / s).astype(np.int32))
            self.constant(name + "_z", np.zeros(s.shape, np.int32))
            axis = 0
        else:
            axis = 1 if op == "ConvTranspose" or op == "MatMul" or (op == "Gemm" and not attributes.get("transB")) else 0
            per = self.per_channel and not (op == "ConvTranspose" and attributes["group"] > 1)
            over = tuple(i for i in range(w.ndim) if i != axis) if per else None
            s = np.maximum(np.abs(w).max(axis=over) / 127, 1e-6).astype(np.float32)
            wide = s.reshape([-1 if i == axis else 1 for i in range(w.ndim)]) if per else s
            q = np.clip(np.round(w / wide), -127, 127)
            if self.weights_unsigned:
                self.constant(name, (q + 128).astype(np.uint8))
                self.constant(name + "_z", np.full(s.shape, 128, np.uint8))
            else:
                self.constant(name, q.astype(np.int8))
                self.constant(name + "_z", np.zeros(s.shape, np.int8))
        self.constant(name + "_s", s)
        self.nodes.append(helper.make_node("DequantizeLinear", [name, name + "_s", name + "_z"], [name + "_d"], axis=axis))
        return name + "_d"

    def inputs_of(self, op, ins, attributes):
        made = []
        for i, name in enumerate(ins):
            if name not in self.net.constants:
                made.append(name and self.number(name))
            elif op in WEIGHTED and (i == 1 or ins[0] in self.levels) and self.net.constants[name].dtype == np.float32:
                made.append(self.weight(name, op, attributes, ins[0], i == 2, ins[1]))
            else:
                made.append(self.constant(name, self.net.constants[name]))
        return made

    def layer(self, op, ins, outs, attributes, activation):
        if op in MOVED and ins[0] in self.levels and attributes.get("mode", "constant") == "constant" and op != "Pad":
            for out in outs:
                self.parameters(out, like=ins[0])
                self.levels[out] = out + "_q"
            rest = [self.constant(i, self.net.constants[i]) for i in ins[1:]]
            self.nodes.append(helper.make_node(op, [self.levels[ins[0]], *rest], [o + "_q" for o in outs], **attributes))
            return
        self.nodes.append(helper.make_node(op, self.inputs_of(op, ins, attributes), [o + "_f" for o in outs], **attributes))
        for out in outs:
            self.floats[out] = out + "_f"
            if op in QUANTISED and not activation and self.rng.random() >= self.skipped:
                self.level(out)

    def run(self, float_ends):
        last, users = self.net.at, {}
        for op, ins, _, _ in self.net.layers:
            for i in ins:
                users.setdefault(i, []).append(op)
        if float_ends:
            self.floats["x"] = "x"
            self.level("x")
        else:
            self.parameters("x")
            self.levels["x"] = "x"
        for op, ins, outs, attributes in self.net.layers:
            followed = users.get(outs[0], [])
            self.layer(op, ins, outs, attributes, len(followed) == 1 and followed[0] in ("Relu", "Clip") and op in WEIGHTED | {"Add"})
        return self.number(last) if float_ends else self.level(last)


def write_quantised(path, net, limits, seed):
    rng = np.random.default_rng(seed + 1000000)
    float_ends = bool(rng.random() < 0.4)
    q = Quantiser(net, limits, rng)
    y = q.run(float_ends)
    elem = TensorProto.FLOAT if float_ends else TensorProto.INT8 if q.type == np.int8 else TensorProto.UINT8
    save(path, q.nodes, q.constants, [("x", elem, net.shapes["x"])], [(y, elem, net.shapes[net.at])])


def make(ferry, folder, seed):
    net = random_net(seed)
    rng = np.random.default_rng(seed + 2000000)
    x = rng.standard_normal(net.shapes["x"]).astype(np.float32)
    form = str(rng.choice(["float", "qdq", "qdq", "ferry"] if net.kind != "recurrent" else ["float", "qdq"]))
    to = f"{folder}/{seed:06d}_{net.kind}_{form}"
    os.makedirs(to, exist_ok=True)
    ends = [("x", TensorProto.FLOAT, net.shapes["x"])], [(net.at, TensorProto.FLOAT, net.shapes[net.at])]
    limits = ranges(ferry, net, x)
    if form == "qdq":
        write_quantised(to + "/model.onnx", net, limits, seed)
    else:
        save(to + "/model.onnx", float_nodes(net), net.constants, *ends)
    if form == "ferry":
        quantise(ferry, to, net, rng)
    return to


def quantise(ferry, to, net, rng):
    """by Ferry itself, in one of its forms"""
    forms = ["int8", "static", "static", "dynamic", "weights", "float16"]
    if net.kind == "attention":
        forms.remove("float16")  # sums of large numbers that cancel: two orders of rounding differ by more than is allowed
    options = ["--form", str(rng.choice(forms))]
    if options[1] == "float16":
        options.append("--half-io")  # what is computed in 16 bits is compared in 16 bits
    if options[1] in ("int8", "static"):
        options += ["--activations", str(rng.choice(["int8", "uint8"]))]
        options += [flag for flag in ("--symmetric", "--per-tensor", "--qoperator", "--plain") if rng.random() < 0.3]
    with tempfile.TemporaryDirectory() as samples:
        for i in range(8):
            np.savez(f"{samples}/{i}.npz", x=rng.standard_normal(net.shapes["x"]).astype(np.float32))
        done = subprocess.run([ferry, "quantize", to + "/model.onnx", "-o", to + "/small.onnx", "--data", samples, *options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"ferry quantize {' '.join(options)}, {to}: {done.stdout}")
    os.replace(to + "/small.onnx", to + "/model.onnx")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ferry")
    parser.add_argument("folder")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--verify", action="store_true")
    o = parser.parse_args()
    failed = 0
    for seed in range(o.first, o.first + o.count):
        to = make(o.ferry, o.folder, seed)
        if o.verify:
            done = subprocess.run([o.ferry, "build", to + "/model.onnx", "-o", to, "--name", "net", "--verify"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(os.path.basename(to), done.stdout.strip().splitlines()[-1])
            failed += done.returncode != 0
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
