"""A small float network from a seed, with its recorded weights: what random_nets.py makes of it is put through `ferry build`.

Shapes are followed by hand, so that every layer chosen fits; sizes are odd on purpose.
"""
import numpy as np


class Net:
    """Layers (operator, inputs, output, attributes), constants, and the shape of every value."""

    def __init__(self, rng, kind, shape):
        self.rng, self.kind = rng, kind
        self.layers, self.constants, self.shapes = [], {}, {"x": tuple(shape)}
        self.at = "x"

    # --- choices -------------------------------------------------------------------------------
    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def chance(self, share):
        return bool(self.rng.random() < share)

    def pick(self, *choices):
        return choices[self.int(0, len(choices) - 1)]

    # --- parts ---------------------------------------------------------------------------------
    @property
    def shape(self):
        return self.shapes[self.at]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def weight(self, shape, fan):
        return self.constant((self.rng.standard_normal(shape) * np.sqrt(1.5 / max(1, fan))).astype(np.float32))

    def add(self, op, inputs, shape, outputs=1, **attributes):
        names = [f"t{len(self.layers)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.layers.append((op, list(inputs), names, attributes))
        for name, one in zip(names, shape if outputs > 1 else [shape]):
            self.shapes[name] = tuple(int(n) for n in one)
        self.at = names[0]
        return names if outputs > 1 else names[0]

    # --- layers of images ----------------------------------------------------------------------
    def window(self, most_kernel=5, most_stride=2, dilate=True, pads_below_kernel=True):
        """kernel, strides, dilations, pads (first ones, then last ones), and what comes out; None where nothing does"""
        spatial = self.shape[2:]
        kernel = [self.int(1, min(most_kernel, n)) for n in spatial]
        strides = [self.int(1, most_stride) if n > 3 else 1 for n in spatial]
        dilations = [self.int(1, 2) if dilate and self.chance(0.25) else 1 for _ in spatial]
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations)]
        pads = [self.int(0, (k if pads_below_kernel else r) - 1) for k, r in zip(kernel * 2, reach * 2)]
        d = len(spatial)
        sizes = [(n + pads[i] + pads[i + d] - reach[i]) // strides[i] + 1 if n + pads[i] + pads[i + d] >= reach[i] else 0
                 for i, n in enumerate(spatial)]
        return (kernel, strides, dilations, pads, sizes) if min(sizes) > 0 else None

    def conv(self, channels=None, same=False, bias=None):
        cin = self.shape[1]
        if same:
            k = [2 * self.int(0, min(2, (n - 1) // 2)) + 1 for n in self.shape[2:]]
            found = (k, [1] * len(k), [1] * len(k), [n // 2 for n in k] * 2, list(self.shape[2:]))
        else:
            found = self.window()
        if not found:
            return self.at
        kernel, strides, dilations, pads, sizes = found
        group = self.pick(1, 1, cin, next((g for g in (2, 3, 4) if cin % g == 0), 1))
        if channels is None:
            channels = group * self.int(1, 3) if group > 1 else self.int(1, 20)
        elif channels % group:
            group = 1
        inputs = [self.at, self.weight((channels, cin // group, *kernel), cin // group * int(np.prod(kernel)))]
        if self.chance(0.7) if bias is None else bias:
            inputs.append(self.weight((channels,), 10))
        attributes = dict(kernel_shape=kernel, strides=strides, dilations=dilations, group=group)
        if not same and self.chance(0.15) and max(dilations) == 1:
            attributes["auto_pad"] = self.pick("SAME_UPPER", "SAME_LOWER")
            sizes = [-(-n // s) for n, s in zip(self.shape[2:], strides)]
        else:
            attributes["pads"] = pads
        return self.add("Conv", inputs, (self.shape[0], channels, *sizes), **attributes)

    def transposed(self):
        cin, spatial = self.shape[1], self.shape[2:]
        kernel, strides = [self.int(1, 4) for _ in spatial], [self.int(1, 3) for _ in spatial]
        more = [self.int(0, s - 1) if self.chance(0.3) else 0 for s in strides]
        pads = [self.int(0, (k - 1) // 2) for k in kernel * 2]
        d = len(spatial)
        sizes = [(n - 1) * s + m + k - pads[i] - pads[i + d] for i, (n, s, m, k) in enumerate(zip(spatial, strides, more, kernel))]
        if min(sizes) < 1 or max(sizes) > 40:
            return self.at
        group = self.pick(1, 1, cin)
        channels = group * self.int(1, 2) if group > 1 else self.int(1, 8)
        inputs = [self.at, self.weight((cin, channels // group, *kernel), cin // group * int(np.prod(kernel)))]
        if self.chance(0.5):
            inputs.append(self.weight((channels,), 10))
        return self.add("ConvTranspose", inputs, (self.shape[0], channels, *sizes), kernel_shape=kernel, strides=strides,
                        output_padding=more, pads=pads, group=group)

    def pool(self):
        op = self.pick("MaxPool", "AveragePool", "AveragePool")
        found = self.window(3, 3, dilate=op == "MaxPool")
        if not found:
            return self.at
        kernel, strides, dilations, pads, sizes = found
        attributes = dict(kernel_shape=kernel, strides=strides, pads=pads)
        if op == "MaxPool":
            attributes["dilations"] = dilations
        else:
            attributes["count_include_pad"] = self.int(0, 1)
        return self.add(op, [self.at], (*self.shape[:2], *sizes), **attributes)

    def activation(self):
        a = self.at
        op = self.pick("Relu", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "PRelu", "Silu", "Softplus")
        if op == "Clip":
            return self.add(op, [a, self.constant(np.float32(self.pick(0, -1))), self.constant(np.float32(self.pick(6, 1.5)))], self.shape)
        if op == "PRelu":
            slope = self.weight((self.shape[1], *[1] * (len(self.shape) - 2)) if len(self.shape) > 1 else (1,), 4)
            return self.add(op, [a, slope], self.shape)
        if op == "Silu":
            return self.add("Mul", [a, self.add("Sigmoid", [a], self.shape)], self.shape)
        return self.add(op, [a], self.shape, **({"alpha": 0.3} if op in ("LeakyRelu", "Elu") else {}))

    def batch_norm(self):
        c = self.shape[1]
        parts = [self.rng.uniform(0.5, 1.5, c), self.rng.standard_normal(c) * 0.1, self.rng.standard_normal(c) * 0.1, self.rng.uniform(0.5, 1.5, c)]
        return self.add("BatchNormalization", [self.at] + [self.constant(p.astype(np.float32)) for p in parts], self.shape)

    def residual(self):
        start, shape = self.at, self.shape
        self.conv(shape[1], same=True)
        if self.chance(0.5):
            self.activation()
            self.conv(shape[1], same=True)
        other = start
        if self.chance(0.2):  # of one number a channel
            other = self.weight((shape[1], *[1] * (len(shape) - 2)), 2)
        self.add(self.pick("Add", "Add", "Add", "Mul", "Sub"), [self.at, other] if self.chance(0.7) else [other, self.at], shape)
        return self.activation() if self.chance(0.5) else self.at

    def joined(self):
        start = self.at
        parts = [start] if self.chance(0.4) else []
        for _ in range(self.int(2, 3) - len(parts)):
            self.at = start
            self.conv(self.int(1, 6), same=True)
            parts.append(self.activation() if self.chance(0.4) else self.at)
        return self.add("Concat", parts, (self.shape[0], sum(self.shapes[p][1] for p in parts), *self.shape[2:]), axis=1)

    def gate(self):
        start, shape = self.at, self.shape
        one = (shape[0], shape[1], *[1] * (len(shape) - 2))
        self.add("GlobalAveragePool", [self.at], one)
        middle = self.int(1, 5)
        for channels, op in ((middle, "Relu"), (shape[1], self.pick("Sigmoid", "HardSigmoid"))):
            w = self.weight((channels, self.shape[1], *[1] * (len(shape) - 2)), self.shape[1])
            self.add("Conv", [self.at, w, self.weight((channels,), 10)], (shape[0], channels, *one[2:]))
            self.add(op, [self.at], self.shape)
        return self.add("Mul", [start, self.at], shape)

    def shuffle(self):
        n, c, *rest = self.shape
        g = next((g for g in (2, 3) if c % g == 0), 0)
        if not g:
            return self.at
        self.add("Reshape", [self.at, self.constant(np.array([n, g, c // g, *rest], np.int64))], (n, g, c // g, *rest))
        self.add("Transpose", [self.at], (n, c // g, g, *rest), perm=[0, 2, 1, *range(3, 3 + len(rest))])
        return self.add("Reshape", [self.at, self.constant(np.array([n, c, *rest], np.int64))], (n, c, *rest))

    def halves(self):
        n, c, *rest = self.shape
        if c < 2:
            return self.at
        a = self.int(1, c - 1)
        first, second = self.add("Split", [self.at, self.constant(np.array([a, c - a], np.int64))], [(n, a, *rest), (n, c - a, *rest)], 2, axis=1)
        self.at = second
        self.conv(self.int(1, 5), same=True)
        return self.add("Concat", [self.at, first], (n, self.shape[1] + a, *rest), axis=1)

    def resized(self):
        n, c, *rest = self.shape
        if max(rest) > 20:
            return self.at
        scales = self.constant(np.array([1, 1, *[self.pick(2.0, 2.0, 1.0, 3.0) for _ in rest]], np.float32))
        sizes = [int(s * f) for s, f in zip(rest, self.constants[scales][2:])]
        if self.chance(0.5):
            return self.add("Resize", [self.at, "", scales], (n, c, *sizes), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        return self.add("Resize", [self.at, "", scales], (n, c, *sizes), mode="linear",
                        coordinate_transformation_mode=self.pick("half_pixel", "align_corners"))

    def padded(self):
        n, c, *rest = self.shape
        mode = self.pick("constant", "reflect", "edge")
        pads = [0, 0] + [self.int(0, min(2, s - 1)) for s in rest] + [0, 0] + [self.int(0, min(2, s - 1)) for s in rest]
        d = len(rest) + 2
        sizes = [s + pads[2 + i] + pads[2 + d + i] for i, s in enumerate(rest)]
        return self.add("Pad", [self.at, self.constant(np.array(pads, np.int64))], (n, c, *sizes), mode=mode)

    # --- ends ----------------------------------------------------------------------------------
    def dense(self, units, bias=None):
        fan = self.shape[-1]
        if len(self.shape) == 2 and self.chance(0.7):
            turned = self.int(0, 1)
            w = self.weight((units, fan) if turned else (fan, units), fan)
            inputs = [self.at, w] + ([self.weight((units,), 10)] if self.chance(0.8) else [])
            return self.add("Gemm", inputs, (self.shape[0], units), transB=turned)
        self.add("MatMul", [self.at, self.weight((fan, units), fan)], (*self.shape[:-1], units))
        if self.chance(0.7) if bias is None else bias:
            self.add("Add", [self.at, self.weight((units,), 10)], self.shape)
        return self.at

    def head(self):
        if len(self.shape) > 2:
            how = self.pick("pool", "flat", "mean", "none") if np.prod(self.shape[1:]) < 2000 else "pool"
            if how == "none":
                return
            if how == "mean":
                self.add("ReduceMean", [self.at], self.shape[:2], axes=list(range(2, len(self.shape))), keepdims=0)
            else:
                if how == "pool":
                    self.add(self.pick("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"), [self.at],
                             (*self.shape[:2], *[1] * (len(self.shape) - 2)))
                self.add("Flatten", [self.at], (self.shape[0], int(np.prod(self.shape[1:]))))
        if self.chance(0.4):
            self.dense(self.int(1, 30))
            self.activation()
        self.dense(self.int(1, 12))
        op = self.pick("Softmax", "LogSoftmax", "Sigmoid", "")
        if op:
            self.add(op, [self.at], self.shape, **({"axis": -1} if op != "Sigmoid" else {}))


def image_net(rng):
    d = rng.choice([1, 2, 2, 2, 2, 3])
    spatial = [int(rng.integers(3, {1: 40, 2: 18, 3: 7}[int(d)])) for _ in range(d)]
    net = Net(rng, f"image{d}d", (int(rng.choice([1, 1, 1, 2])), int(rng.integers(1, 6)), *spatial))
    net.conv()
    for _ in range(net.int(1, 6)):
        choices = [net.conv, net.conv, net.conv, net.activation, net.activation, net.pool, net.residual, net.joined, net.gate, net.batch_norm,
                   net.shuffle, net.halves, net.padded, net.transposed]
        if d == 2:
            choices.append(net.resized)
        net.pick(*choices)()
    net.head()
    return net


def dense_net(rng):
    net = Net(rng, "dense", (int(rng.integers(1, 4)), int(rng.integers(1, 70))))
    for _ in range(net.int(1, 4)):
        net.dense(net.int(1, 70))
        net.activation()
    net.head()
    return net


def recurrent_net(rng):
    t, n, i = (int(v) for v in rng.integers([2, 1, 1], [10, 4, 12]))
    net = Net(rng, "recurrent", (t, n, i))
    for _ in range(net.int(1, 2)):
        op, h = net.pick("GRU", "LSTM", "RNN"), net.int(1, 17)
        direction = net.pick("forward", "reverse", "bidirectional")
        d, gates = (2 if direction == "bidirectional" else 1), {"GRU": 3, "LSTM": 4, "RNN": 1}[op]
        i = net.shape[-1]
        inputs = [net.at, net.weight((d, gates * h, i), i), net.weight((d, gates * h, h), h)]
        inputs.append(net.weight((d, 2 * gates * h), 10) if net.chance(0.7) else "")
        if net.chance(0.4):
            inputs += ["", net.weight((d, n, h), 2)] + ([net.weight((d, n, h), 2)] if op == "LSTM" else [])
        more = {"linear_before_reset": net.int(0, 1)} if op == "GRU" else {}
        net.add(op, inputs, [(t, d, n, h), (d, n, h)], 2, hidden_size=h, direction=direction, **more)
        net.add("Transpose", [net.at], (t, n, d, h), perm=[0, 2, 1, 3])
        net.add("Reshape", [net.at, net.constant(np.array([0, 0, -1], np.int64))], (t, n, d * h))
    if net.chance(0.5):
        net.add("Slice", [net.at, *(net.constant(np.array([v], np.int64)) for v in (-1, 1 << 40, 0))], (1, *net.shape[1:]))
    net.dense(net.int(1, 12))
    return net


def attention_net(rng):
    b, s, heads, per = (int(v) for v in rng.integers([1, 2, 1, 1], [3, 12, 5, 9]))
    width = heads * per
    net = Net(rng, "attention", (b, s, width))
    for _ in range(net.int(1, 2)):
        start = net.at
        if net.chance(0.7):
            net.add("LayerNormalization", [net.at, net.weight((width,), 1), net.weight((width,), 10)], net.shape, axis=-1)
        normed, parts = net.at, []
        for turn in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
            net.at = normed
            net.dense(width)
            net.add("Reshape", [net.at, net.constant(np.array([b, s, heads, per], np.int64))], (b, s, heads, per))
            parts.append(net.add("Transpose", [net.at], [(b, s, heads, per)[k] for k in turn], perm=list(turn)))
        net.add("MatMul", parts[:2], (b, heads, s, s))
        net.add("Mul", [net.at, net.constant(np.float32(per ** -0.5))], net.shape)
        if net.chance(0.5):
            net.add("Add", [net.at, net.constant(np.triu(np.full((s, s), -1e9, np.float32), 1))], net.shape)
        net.add("Softmax", [net.at], net.shape, axis=-1)
        net.add("MatMul", [net.at, parts[2]], (b, heads, s, per))
        net.add("Transpose", [net.at], (b, s, heads, per), perm=[0, 2, 1, 3])
        net.add("Reshape", [net.at, net.constant(np.array([b, s, width], np.int64))], (b, s, width))
        net.dense(width)
        start = net.add("Add", [net.at, start], net.shape)
        net.dense(net.int(1, 40))
        if net.chance(0.5):
            inner = net.at
            net.add("Mul", [inner, net.constant(np.float32(0.5 ** 0.5))], net.shape)
            net.add("Erf", [net.at], net.shape)
            net.add("Add", [net.at, net.constant(np.float32(1))], net.shape)
            net.add("Mul", [inner, net.at], net.shape)
            net.add("Mul", [net.at, net.constant(np.float32(0.5))], net.shape)
        else:
            net.activation()
        net.dense(width)
        net.add("Add", [start, net.at], net.shape)
    return net


def random_net(seed):
    rng = np.random.default_rng(seed)
    make = [image_net, image_net, image_net, image_net, image_net, dense_net, recurrent_net, attention_net][int(rng.integers(8))]
    return make(rng)
