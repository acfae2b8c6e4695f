// Writes a network with the weights of its products in 4 or 8 bits (MatMulNBits), as the makers of language models do.
//
//   node bench/vs_onnxruntime/nbits.mjs MODEL.onnx OUT.onnx [--bits 4] [--block 32] [--level 0] [--asymmetric]
//
// Weights that stay as they are are left in MODEL's own data file: OUT belongs into the same folder.
import {closeSync, openSync, readFileSync, readSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';

const FLOAT = 1, UINT8 = 2;

// Fields of a protobuf message in order: [number, value]; a value is a BigInt, or the bytes of a longer field.
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0n, shift = 0n;
    for (;;) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
  };
  while (at < bytes.length) {
    const key = Number(varint()), kind = key & 7;
    if (kind === 0) {
      yield [key >> 3, varint(), kind];
    } else {
      const length = kind === 2 ? Number(varint()) : kind === 5 ? 4 : 8;
      yield [key >> 3, bytes.subarray(at, at + length), kind];
      at += length;
    }
  }
}

function varint(value) {
  const bytes = [];
  for (let v = BigInt.asUintN(64, BigInt(value)); ; v >>= 7n) {
    bytes.push(Number(v & 127n) | (v > 127n ? 128 : 0));
    if (v <= 127n) return Buffer.from(bytes);
  }
}
function field(number, value, kind = typeof value === 'bigint' || typeof value === 'number' ? 0 : 2) {
  const key = varint((number << 3) | kind);
  if (kind === 0) return Buffer.concat([key, varint(value)]);
  const data = Buffer.from(value);
  return kind === 2 ? Buffer.concat([key, varint(data.length), data]) : Buffer.concat([key, data]);
}
const message = (...parts) => Buffer.concat(parts);
const text = (bytes) => Buffer.from(bytes).toString();
const all = (bytes, number) => [...fields(bytes)].filter(([n]) => n === number).map(([, value]) => value);

const tensor = (name, type, dims, data) =>
  message(...dims.map((d) => field(1, d)), field(2, type), field(8, name), field(9, Buffer.from(data.buffer, data.byteOffset, data.byteLength)));
const attribute = (name, value) => message(field(1, name), field(3, value), field(20, 2));

// The floats of an initializer [rows, columns].
function floatsOf(initializer, folder) {
  const raw = all(initializer, 9)[0];
  if (raw) return new Float32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length));
  const where = Object.fromEntries(all(initializer, 13).map((entry) => [text(all(entry, 1)[0]), text(all(entry, 2)[0])]));
  const data = new Float32Array(Number(where.length) / 4), file = openSync(join(folder, where.location));
  readSync(file, new Uint8Array(data.buffer), 0, data.byteLength, Number(where.offset ?? 0));
  closeSync(file);
  return data;
}

// Packed numbers, scales and zero points of weights that lie [depth, columns], or transposed.
export function quantize(weights, depth, columns, transposed, {bits, block, asymmetric}) {
  const blocks = Math.ceil(depth / block), most = 2 ** bits - 1, middle = 2 ** (bits - 1), perByte = 8 / bits;
  const packed = new Uint8Array(columns * blocks * block * bits / 8), scales = new Float32Array(columns * blocks);
  const zeroBytes = Math.ceil(blocks * bits / 8), zeros = new Uint8Array(columns * zeroBytes);
  for (let n = 0; n < columns; ++n)
    for (let b = 0; b < blocks; ++b) {
      const end = Math.min(depth, (b + 1) * block), at = (k) => weights[transposed ? n * depth + k : k * columns + n];
      let low = 0, high = 0;
      for (let k = b * block; k < end; ++k) {
        low = Math.min(low, at(k));
        high = Math.max(high, at(k));
      }
      const scale = Math.fround(asymmetric ? (high - low) / most : Math.max(-low, high) / (middle - 1)) || 1;
      const zero = asymmetric ? Math.min(most, Math.round(-low / scale)) : middle;
      scales[n * blocks + b] = scale;
      zeros[n * zeroBytes + Math.floor(b / perByte)] |= zero << (b % perByte * bits);
      for (let k = b * block; k < end; ++k) {
        const number = Math.max(0, Math.min(most, Math.round(at(k) / scale) + zero));
        packed[n * blocks * block * bits / 8 + Math.floor(k / perByte)] |= number << (k % perByte * bits);
      }
    }
  return {packed, scales, zeros, blocks, zeroBytes};
}

export function quantizeModel(path, out, options) {
  const model = [...fields(readFileSync(path))], folder = dirname(path);
  const graph = [...fields(model.find(([n]) => n === 7)[1])];
  const initializers = new Map(graph.filter(([n]) => n === 5).map(([, bytes]) => [text(all(bytes, 8)[0]), bytes]));
  const reads = new Map(), replaced = new Set(), parts = [];
  const nodes = graph.filter(([n]) => n === 1).map(([, bytes]) => bytes);
  for (const node of nodes) for (const name of all(node, 1).map(text)) reads.set(name, (reads.get(name) ?? 0) + 1);
  let count = 0;
  for (const node of nodes) {
    const [op] = all(node, 4).map(text), inputs = all(node, 1).map(text), weights = initializers.get(inputs[1]);
    const numbers = Object.fromEntries(all(node, 5).map((a) => [text(all(a, 1)[0]), Number(all(a, 3)[0] ?? 0)]));
    const dims = weights ? all(weights, 1).map(Number) : [];
    if (!['MatMul', 'Gemm'].includes(op) || dims.length !== 2 || Number(all(weights, 2)[0]) !== FLOAT || numbers.transA || dims[0] * dims[1] < 4096) {
      parts.push(field(1, node));
      continue;
    }
    const transposed = numbers.transB === 1, depth = dims[transposed ? 1 : 0], columns = dims[transposed ? 0 : 1];
    const {packed, scales, zeros, blocks, zeroBytes} = quantize(floatsOf(weights, folder), depth, columns, transposed, options);
    const name = `${inputs[1]}_q${++count}`;
    parts.push(field(5, tensor(name, UINT8, [columns, blocks, options.block * options.bits / 8], packed)));
    parts.push(field(5, tensor(`${name}_scales`, FLOAT, [columns, blocks], scales)));
    if (options.asymmetric) parts.push(field(5, tensor(`${name}_zeros`, UINT8, [columns, zeroBytes], zeros)));
    const given = [inputs[0], name, `${name}_scales`, options.asymmetric ? `${name}_zeros` : ''];
    if (inputs[2]) given.push('', inputs[2]);
    parts.push(field(1, message(...given.map((input) => field(1, input)), ...all(node, 2).map((output) => field(2, output)),
      field(3, `nbits_${count}`), field(4, 'MatMulNBits'), field(7, 'com.microsoft'),
      ...[['K', depth], ['N', columns], ['bits', options.bits], ['block_size', options.block], ['accuracy_level', options.level]]
        .map(([key, value]) => field(5, attribute(key, value))))));
    if (reads.get(inputs[1]) === 1) replaced.add(inputs[1]);
  }
  for (const [number, value, kind] of graph)
    if (number !== 1 && !(number === 5 && replaced.has(text(all(value, 8)[0])))) parts.push(field(number, value, kind));
  const rest = model.filter(([n]) => n !== 7).map(([number, value, kind]) => field(number, value, kind));
  writeFileSync(out, message(...rest, field(7, message(...parts)), field(8, message(field(1, 'com.microsoft'), field(2, 1)))));
  return count;
}

if (process.argv[1].endsWith('nbits.mjs')) {
  const words = process.argv.slice(2), [model, out] = words;
  const number = (name, otherwise) => (words.includes(name) ? Number(words[words.indexOf(name) + 1]) : otherwise);
  const count = quantizeModel(model, out, {
    bits: number('--bits', 4), block: number('--block', 32), level: number('--level', 0), asymmetric: words.includes('--asymmetric'),
  });
  console.log(`${out}: ${count} products`);
}
