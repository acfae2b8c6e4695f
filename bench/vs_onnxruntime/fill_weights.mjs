// Fills the weights of the networks in networks.tar.xz: each NAME.onnx is a full-size network whose large tensors lie in
// NAME.onnx.data; NAME.onnx.stats.json says for each of them its place, type, shape, mean and deviation (or range).
import {closeSync, ftruncateSync, openSync, readFileSync, writeSync} from 'node:fs';

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, int8: Int8Array, uint8: Uint8Array,
};

export class Random {
  constructor(text) {
    this.state = 2166136261;
    for (const c of text) this.state = Math.imul(this.state ^ c.charCodeAt(0), 16777619);
  }
  uniform() {  // in [0, 1)
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  normals(data, mean, deviation) {
    for (let i = 0; i < data.length; i += 2) {
      const radius = deviation * Math.sqrt(-2 * Math.log(1 - this.uniform())), angle = 2 * Math.PI * this.uniform();
      data[i] = mean + radius * Math.cos(angle);
      if (i + 1 < data.length) data[i + 1] = mean + radius * Math.sin(angle);
    }
    return data;
  }
  integers(data, low, high) {
    const big = data instanceof BigInt64Array;
    for (let i = 0; i < data.length; ++i) {
      const value = low + Math.floor(this.uniform() * (high - low + 1));
      data[i] = big ? BigInt(value) : value;
    }
    return data;
  }
}

function makeTensor(name, about) {
  const count = about.shape.reduce((a, b) => a * b, 1), data = new ARRAYS[about.dtype](count), random = new Random(name);
  if (!('mean' in about)) return random.integers(data, about.min, about.max);
  if (about.std === 0) return data.fill(about.mean);
  random.normals(data, about.mean, about.std);
  return name.includes('scale') ? data.map(Math.abs) : data;
}

export function fillWeights(modelPath) {
  const stats = JSON.parse(readFileSync(`${modelPath}.stats.json`, 'utf8'));
  const file = openSync(`${modelPath}.data`, 'w');
  let end = 0;
  for (const [name, about] of Object.entries(stats)) {
    const data = makeTensor(name, about);
    if (data.byteLength !== about.bytes) throw new Error(`${name}: ${data.byteLength} bytes made, ${about.bytes} wanted`);
    writeSync(file, new Uint8Array(data.buffer), 0, data.byteLength, about.offset);
    end = Math.max(end, about.offset + about.bytes);
  }
  ftruncateSync(file, Math.ceil(end / 4096) * 4096);
  closeSync(file);
}
