// .npy and .npz (stored or deflated), and PyTorch-like random inputs.
const types = {f4: 'float32', f8: 'float64', f2: 'float16', i1: 'int8', u1: 'uint8', i2: 'int16', u2: 'uint16', i4: 'int32', u4: 'uint32', i8: 'int64',
  u8: 'uint64', b1: 'bool'};
const arrays = {float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array};
export const arrayOf = (type) => arrays[type];

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
  const data = new (arrays[type] || Uint8Array)(size);
  let state = 12345;
  for (let i = 0; i < size; ++i) {
    state = Math.imul(state, 1664525) + 1013904223 >>> 0;
    const unit = state / 2 ** 32;
    data[i] = type === 'int64' || type === 'uint64' ? BigInt(Math.floor(unit * 100)) : type.startsWith('float') ? unit * 2 - 1 : type === 'bool' ? unit < 0.5 : Math.floor(unit * 100);
  }
  return {type, dims, data};
}
