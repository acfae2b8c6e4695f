// .npy and .npz (stored or deflated), and PyTorch-like random inputs.
const types = {f4: 'float32', f8: 'float64', f2: 'float16', i1: 'int8', u1: 'uint8', i2: 'int16', u2: 'uint16', i4: 'int32', u4: 'uint32', i8: 'int64',
  u8: 'uint64', b1: 'bool'};
const Half = globalThis.Float16Array;
const arrays = {float32: Float32Array, float64: Float64Array, float16: Half || Uint16Array, bfloat16: Uint16Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array};

// Types that JavaScript may have no array for are bits in a Uint16Array; people see and write numbers.
const float = new Float32Array(1), bits = new Uint32Array(float.buffer);

export function toHalf(value) {
  float[0] = value;
  const sign = bits[0] >>> 16 & 0x8000, rest = bits[0] & 0x7fffffff;
  if (rest > 0x7f800000) return sign | 0x7e00;
  if (rest >= 0x47800000) return sign | 0x7c00;
  if (rest >= 0x38800000) return sign | rest - 0x38000000 + 0xfff + (rest >>> 13 & 1) >>> 13;
  const small = Math.abs(float[0]) * 2 ** 24, down = Math.floor(small);
  return sign | down + (small - down > 0.5 || (small - down === 0.5 && down & 1) ? 1 : 0);
}
export function fromHalf(half) {
  const power = half >>> 10 & 31, part = half & 1023;
  return (half & 0x8000 ? -1 : 1) * (power === 31 ? part ? NaN : Infinity : power ? (1 + part / 1024) * 2 ** (power - 15) : part * 2 ** -24);
}
function toBrain(value) {
  float[0] = value;
  return Number.isNaN(value) ? 0x7fc0 : bits[0] + 0x7fff + (bits[0] >>> 16 & 1) >>> 16;
}
function fromBrain(brain) {
  bits[0] = brain << 16;
  return float[0];
}

const isBits = (type) => type === 'bfloat16' || (type === 'float16' && !Half);

// A typed array of a tensor's type, of a number or text each.
export function arrayFrom(type, values) {
  if (isBits(type)) return Uint16Array.from(values, (value) => (type === 'float16' ? toHalf : toBrain)(Number(value)));
  if (type.endsWith('int64')) return arrays[type].from(values, (value) => BigInt(typeof value === 'number' ? Math.round(value) : value));
  if (type === 'bool') return Uint8Array.from(values, (value) => Number(value !== '0' && value !== 'false' && value !== 0 && value !== false));
  if (!arrays[type]) throw new Error(`inputs of type ${type} cannot be written here: take an .npz`);
  return arrays[type].from(values, type.includes('int') ? (value) => Math.round(Number(value)) : Number);
}

// The numbers in a tensor's data, which may be bytes; undefined for types that are not read here.
export function numbersOf(type, data) {
  const Wanted = arrays[type];
  if (!Wanted) return undefined;
  const own = data instanceof Wanted || data instanceof Uint16Array ? data : new Wanted(data.buffer, data.byteOffset, Math.floor(data.byteLength / Wanted.BYTES_PER_ELEMENT));
  if (type === 'float16' && own instanceof Uint16Array) return Float32Array.from(own, fromHalf);
  return type === 'bfloat16' ? Float32Array.from(own, fromBrain) : own;
}

export function readNpy(bytes) {
  const text = new TextDecoder('latin1');
  if (text.decode(bytes.subarray(1, 6)) !== 'NUMPY') throw new Error('this is no .npy file');
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const long = bytes[6] >= 2, length = long ? view.getUint32(8, true) : view.getUint16(8, true), from = long ? 12 : 10;
  const header = text.decode(bytes.subarray(from, from + length));
  const type = types[/'descr': *'[<|=]?([a-z]\d)'/.exec(header)?.[1]];
  if (!type) throw new Error(`arrays of ${/'descr': *('[^']*')/.exec(header)?.[1]} are not read here`);
  if (/'fortran_order': *True/.test(header)) throw new Error('the array is stored by columns: save it with numpy.ascontiguousarray');
  const dims = /'shape': *\(([^)]*)\)/.exec(header)[1].split(',').map((part) => part.trim()).filter(Boolean).map(Number);
  return {type, dims, data: new arrays[type](bytes.slice(from + length).buffer)};
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function readNpz(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) --end;
  if (end < 0) throw new Error('this is no .npz file');
  const found = {};
  let at = view.getUint32(end + 16, true);
  for (let i = view.getUint16(end + 10, true); i > 0; --i) {
    const method = view.getUint16(at + 10, true);
    let size = view.getUint32(at + 20, true), place = view.getUint32(at + 42, true);
    const nameLength = view.getUint16(at + 28, true), extra = view.getUint16(at + 30, true), comment = view.getUint16(at + 32, true);
    const name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameLength));
    if (size === 0xffffffff || place === 0xffffffff) throw new Error('this .npz is larger than 4 GB');
    const data = place + 30 + view.getUint16(place + 26, true) + view.getUint16(place + 28, true);
    const raw = bytes.subarray(data, data + size);
    found[name.replace(/\.npy$/, '')] = readNpy(method === 8 ? await inflate(raw) : raw.slice());
    at += 46 + nameLength + extra + comment;
  }
  return found;
}

export function randomTensor(type, dims) {
  const size = dims.reduce((product, dim) => product * dim, 1);
  if (type === 'string') return {type, dims, data: Array(size).fill('')};
  let state = 12345;
  const next = () => {
    state = Math.imul(state, 1664525) + 1013904223 >>> 0;
    const unit = state / 2 ** 32;
    return type.includes('float') ? unit * 2 - 1 : type === 'bool' ? Number(unit < 0.5) : Math.floor(unit * 100);
  };
  // Two in a byte.
  if (/^u?int4$/.test(type)) return {type, dims, data: Uint8Array.from({length: Math.ceil(size / 2)}, next)};
  if (isBits(type)) return {type, dims, data: arrayFrom(type, Float32Array.from({length: size}, next))};
  const data = new (arrays[type] || Uint8Array)(size), isBig = type.endsWith('int64');
  for (let i = 0; i < size; ++i) data[i] = isBig ? BigInt(next()) : next();
  return {type, dims, data};
}
