// A small seeded generator and the random things that cases are made of.
import {toArray} from './onnx_file.mjs';

export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  int(low, high) {
    return low + Math.floor(this.next() * (high - low + 1));
  }
  chance(p) {
    return this.next() < p;
  }
  pick(list) {
    return list[this.int(0, list.length - 1)];
  }
  real(low, high) {
    return low + (high - low) * this.next();
  }
  shuffled(list) {
    const copy = [...list];
    for (let i = copy.length - 1; i > 0; --i) {
      const j = this.int(0, i);
      [copy[i], copy[j]] = [copy[j], copy[i]];
    }
    return copy;
  }
  subset(list, least = 0) {
    return this.shuffled(list).slice(0, this.int(least, list.length));
  }

  // Sizes from 0 to 5, mostly small; empty dimensions are rare but there.
  dim() {
    return this.chance(0.03) ? 0 : this.chance(0.2) ? 1 : this.int(2, 5);
  }
  shape(least = 0, most = 4) {
    return Array.from({length: this.int(least, most)}, () => this.dim());
  }
  fullShape(least, most) {
    return Array.from({length: this.int(least, most)}, () => this.int(1, 5));
  }
  // A shape that broadcasts with `shape`: some dimensions 1, perhaps fewer of them.
  broadcastTo(shape) {
    const from = this.chance(0.3) ? this.int(0, shape.length) : 0;
    return shape.slice(from).map((d) => (this.chance(0.25) ? 1 : d));
  }
  axis(rank) {
    return this.int(-rank, rank - 1);
  }

  value(type, low, high) {
    switch (type) {
      case 'bool': return this.int(0, 1);
      case 'string': return this.pick(['', 'a', 'B', 'foo', 'bar', 'Foo bar', 'ünï', '12']);
      case 'float32': case 'float64': case 'float16': {
        if (this.chance(0.1)) return this.pick([0, -0, 1, -1, low, high, 0.5, 2]);
        return this.real(low, high);
      }
      default: {
        const unsigned = type.startsWith('uint');
        return this.int(unsigned ? Math.max(0, Math.ceil(low)) : Math.ceil(low), Math.floor(high));
      }
    }
  }
  tensor(type, shape, low = -3, high = 3) {
    const count = shape.reduce((a, b) => a * b, 1);
    return {type, shape, data: toArray(type, Array.from({length: count}, () => this.value(type, low, high)))};
  }
  // Floats with the special ones among them.
  special(type, shape) {
    const count = shape.reduce((a, b) => a * b, 1);
    const values = Array.from({length: count}, () =>
        this.chance(0.2) ? this.pick([NaN, Infinity, -Infinity, 0, -0, 1e-30, 1e30]) : this.real(-3, 3));
    return {type, shape, data: toArray(type, values)};
  }
}

export const ints = (values, type = 'int64') => ({type, shape: [values.length], data: toArray(type, values)});
export const scalar = (value, type = 'int64') => ({type, shape: [], data: toArray(type, [value])});
export const count = (shape) => shape.reduce((a, b) => a * b, 1);
export const FLOATS = ['float32', 'float32', 'float64', 'float16'];
export const SIGNED = ['float32', 'float64', 'float16', 'int32', 'int64', 'int8', 'int16'];
export const NUMBERS = [...SIGNED, 'uint8', 'uint16', 'uint32', 'uint64'];
export const ANY = [...NUMBERS, 'bool', 'string'];
