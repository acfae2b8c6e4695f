// Just enough of ONNX's file format to write models of one node and tensors: protobuf by hand.

export const TYPES = {
  float32: 1, uint8: 2, int8: 3, uint16: 4, int16: 5, int32: 6, int64: 7, string: 8, bool: 9, float16: 10, float64: 11,
  uint32: 12, uint64: 13,
};

const ARRAYS = {
  float32: Float32Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, bool: Uint8Array, float16: Uint16Array, float64: Float64Array, uint32: Uint32Array,
  uint64: BigUint64Array,
};

// The numbers of a tensor as the array that onnxruntime-node takes; float16 numbers are given as numbers.
export function toArray(type, values) {
  if (type === 'string') return values;
  if (type === 'int64' || type === 'uint64') return ARRAYS[type].from(values, (v) => BigInt(v));
  if (type === 'float16') return Uint16Array.from(values, toHalf);
  return ARRAYS[type].from(values);
}

export function toHalf(value) {
  const float = new Float32Array([value]);
  const bits = new Uint32Array(float.buffer)[0];
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x33000001) return sign;
  if (magnitude < 0x38800000) {
    const shift = 126 - (magnitude >>> 23);
    const mantissa = (magnitude & 0x7fffff) | 0x800000;
    const half = mantissa >>> shift;
    const rest = mantissa & ((1 << shift) - 1);
    const middle = 1 << (shift - 1);
    return sign | (half + (rest > middle || (rest === middle && half & 1) ? 1 : 0));
  }
  const half = (magnitude - 0x38000000) >>> 13;
  const rest = magnitude & 0x1fff;
  return sign | (half + (rest > 0x1000 || (rest === 0x1000 && half & 1) ? 1 : 0));
}

class Writer {
  parts = [];
  varint(value) {
    let v = BigInt.asUintN(64, BigInt(value));
    const bytes = [];
    do {
      const low = Number(v & 0x7fn);
      v >>= 7n;
      bytes.push(v ? low | 0x80 : low);
    } while (v);
    this.parts.push(Buffer.from(bytes));
    return this;
  }
  int(field, value) {
    return this.varint(field << 3).varint(value);
  }
  bytes(field, value) {
    const data = Buffer.isBuffer(value) ? value : Buffer.from(value);
    this.varint((field << 3) | 2).varint(data.length);
    this.parts.push(data);
    return this;
  }
  float(field, value) {
    const data = Buffer.alloc(4);
    data.writeFloatLE(value);
    this.varint((field << 3) | 5);
    this.parts.push(data);
    return this;
  }
  message(field, writer) {
    return this.bytes(field, writer.done());
  }
  done() {
    return Buffer.concat(this.parts);
  }
}

// {type, shape, data}; data is a typed array (strings: an array of strings).
export function encodeTensor(tensor, name = '') {
  const w = new Writer();
  for (const dim of tensor.shape) w.int(1, dim);
  w.int(2, TYPES[tensor.type]);
  if (tensor.type === 'string') for (const text of tensor.data) w.bytes(6, text);
  if (name) w.bytes(8, name);
  if (tensor.type !== 'string') w.bytes(9, Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength));
  return w.done();
}

// Integers are bigint or {ints: […]}, so that 1.0 and 1 are told apart.
function attribute(name, value) {
  const w = new Writer().bytes(1, name);
  if (typeof value === 'bigint') return w.int(3, value).int(20, 2);
  if (typeof value === 'number') return w.float(2, value).int(20, 1);
  if (typeof value === 'string') return w.bytes(4, value).int(20, 3);
  if (value.tensor) return w.bytes(5, encodeTensor(value.tensor)).int(20, 4);
  if (value.graph) return w.bytes(6, encodeGraph(value.graph)).int(20, 5);
  if (value.ints) {
    for (const v of value.ints) w.int(8, v);
    return w.int(20, 7);
  }
  if (value.floats) {
    for (const v of value.floats) w.float(7, v);
    return w.int(20, 6);
  }
  for (const v of value.strings) w.bytes(9, v);
  return w.int(20, 8);
}

function valueInfo(name, tensor, withShape) {
  const w = new Writer().bytes(1, name);
  if (!tensor) return w;
  const tensorType = new Writer().int(1, TYPES[tensor.type]);
  if (withShape) {
    const shape = new Writer();
    for (const dim of tensor.shape) shape.message(1, typeof dim === 'string' ? new Writer().bytes(2, dim) : new Writer().int(1, dim));
    tensorType.message(2, shape);
  }
  return w.message(2, new Writer().message(1, tensorType));
}

// A body: {nodes: [{op, domain, inputs, outputs, attributes}], inputs and outputs: [{name, type, shape}], constants: {name: tensor}};
// sizes that are not known are names.
function encodeGraph(graph) {
  const w = new Writer();
  for (const node of graph.nodes) {
    const n = new Writer();
    for (const input of node.inputs) n.bytes(1, input);
    for (const output of node.outputs) n.bytes(2, output);
    n.bytes(4, node.op);
    for (const [name, value] of Object.entries(node.attributes ?? {})) n.message(5, attribute(name, value));
    if (node.domain) n.bytes(7, node.domain);
    w.message(1, n);
  }
  w.bytes(2, 'body');
  for (const [name, tensor] of Object.entries(graph.constants)) w.bytes(5, encodeTensor(tensor, name));
  for (const input of graph.inputs) w.message(11, valueInfo(input.name, input, true));
  for (const output of graph.outputs) w.message(12, valueInfo(output.name, output, true));
  return w.done();
}

// node: {op, domain, attributes, inputs: [tensor | null], constants: [names of inputs that are initializers], outputs, opset}
export function encodeModel(node, {withShapes = true, outputTypes = []} = {}) {
  const n = new Writer();
  const constant = (i) => node.constants?.includes(i);
  node.inputs.forEach((input, i) => n.bytes(1, input ? `in${i}` : ''));
  for (let i = 0; i < node.outputs; ++i) n.bytes(2, `out${i}`);
  n.bytes(3, 'node').bytes(4, node.op);
  for (const [name, value] of Object.entries(node.attributes ?? {})) n.message(5, attribute(name, value));
  if (node.domain) n.bytes(7, node.domain);
  const graph = new Writer().message(1, n).bytes(2, 'graph');
  node.inputs.forEach((input, i) => {
    if (input && constant(i)) graph.bytes(5, encodeTensor(input, `in${i}`));
  });
  node.inputs.forEach((input, i) => {
    if (input && !constant(i)) graph.message(11, valueInfo(`in${i}`, input, withShapes));
  });
  for (let i = 0; i < node.outputs; ++i)
    graph.message(12, valueInfo(`out${i}`, outputTypes[i] && {type: outputTypes[i], shape: []}, false));
  const model = new Writer().int(1, 8).message(7, graph);
  model.message(8, new Writer().bytes(1, '').int(2, node.opset));
  if (node.domain) model.message(8, new Writer().bytes(1, node.domain).int(2, node.domainOpset ?? 1));
  return model.done();
}
