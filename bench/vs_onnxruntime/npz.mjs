// .npz archives, stored without compression: what inputs travel in to Ferry, and its outputs back.
import {readFileSync, writeFileSync} from 'node:fs';
import {crc32} from 'node:zlib';

const TYPES = {
  float32: ['<f4', Float32Array], float64: ['<f8', Float64Array], int64: ['<i8', BigInt64Array], int32: ['<i4', Int32Array],
  int8: ['|i1', Int8Array], uint8: ['|u1', Uint8Array], bool: ['|b1', Uint8Array],
};

function encodeNpy({type, dims, data}) {
  const shape = dims.length === 1 ? `(${dims[0]},)` : `(${dims.join(', ')})`;
  let header = `{'descr': '${TYPES[type][0]}', 'fortran_order': False, 'shape': ${shape}, }`;
  header += ' '.repeat(63 - ((10 + header.length) % 64)) + '\n';
  const start = Buffer.from('\x93NUMPY\x01\x00\x00\x00', 'latin1');
  start.writeUInt16LE(header.length, 8);
  return Buffer.concat([start, Buffer.from(header), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]);
}

function decodeNpy(bytes) {
  const wide = bytes[6] > 1;
  const length = wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8);
  const begin = (wide ? 12 : 10) + length;
  const header = bytes.subarray(wide ? 12 : 10, begin).toString();
  const [, descr] = /'descr': '([^']+)'/.exec(header);
  const dims = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter((d) => d.trim()).map(Number);
  const [type, [, ArrayType]] = Object.entries(TYPES).find(([, [code]]) => code === descr);
  const copy = bytes.buffer.slice(bytes.byteOffset + begin, bytes.byteOffset + bytes.length);
  return {type, dims, data: new ArrayType(copy)};
}

export function writeNpz(path, tensors) {
  const parts = [], directory = [];
  let offset = 0;
  for (const [name, tensor] of Object.entries(tensors)) {
    const body = encodeNpy(tensor), file = Buffer.from(`${name}.npy`), sum = crc32(body);
    const local = Buffer.alloc(30), central = Buffer.alloc(46);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(20, 4);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE(20, 4);
    central.writeUInt16LE(20, 6);
    for (const [header, at] of [[local, 14], [central, 16]]) {
      header.writeUInt32LE(sum, at);
      header.writeUInt32LE(body.length, at + 4);
      header.writeUInt32LE(body.length, at + 8);
      header.writeUInt16LE(file.length, at + 12);
    }
    central.writeUInt32LE(offset, 42);
    parts.push(local, file, body);
    directory.push(central, file);
    offset += local.length + file.length + body.length;
  }
  const listing = Buffer.concat(directory), end = Buffer.alloc(22), count = directory.length / 2;
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(offset, 16);
  writeFileSync(path, Buffer.concat([...parts, listing, end]));
}

export function readNpz(path) {
  const bytes = readFileSync(path), tensors = {};
  let at = bytes.readUInt32LE(bytes.lastIndexOf(Buffer.from('PK\x05\x06')) + 16);
  while (bytes.readUInt32LE(at) === 0x02014b50) {
    if (bytes.readUInt16LE(at + 10) !== 0) throw new Error(`${path}: compressed entries are not read here`);
    const size = bytes.readUInt32LE(at + 24), nameLength = bytes.readUInt16LE(at + 28), local = bytes.readUInt32LE(at + 42);
    const name = bytes.subarray(at + 46, at + 46 + nameLength).toString().replace(/\.npy$/, '');
    const body = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
    tensors[name] = decodeNpy(bytes.subarray(body, body + size));
    at += 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  return tensors;
}
