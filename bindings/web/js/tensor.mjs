// Tensors with the members of onnxruntime-common's class.

const hasHalf = typeof globalThis.Float16Array === 'function';
const arrays = {
  float32: Float32Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, bool: Uint8Array, float16: hasHalf ? globalThis.Float16Array : Uint16Array, float64: Float64Array,
  uint32: Uint32Array, uint64: BigUint64Array, uint4: Uint8Array, int4: Uint8Array,
  // What ONNX has and onnxruntime-common has no name for: bytes as they are.
  bfloat16: Uint16Array, complex64: Float32Array, complex128: Float64Array,
};
const packed = new Set(['uint4', 'int4', 'uint2', 'int2', 'float4e2m1']);

export function arrayFor(type) {
  return arrays[type] || Uint8Array;
}

function typeOf(data) {
  for (const type of ['float32', 'int8', 'uint16', 'int16', 'int32', 'int64', 'float64', 'uint32', 'uint64'])
    if (data instanceof arrays[type]) return type;
  if (hasHalf && data instanceof globalThis.Float16Array) return 'float16';
  if (data instanceof Uint8Array || data instanceof Uint8ClampedArray) return 'uint8';
  return undefined;
}

function sizeOf(dims) {
  let size = 1;
  for (let i = 0; i < dims.length; ++i) {
    const dim = dims[i];
    if (typeof dim !== 'number' || !Number.isSafeInteger(dim)) throw new TypeError(`dims[${i}] must be an integer, got: ${dim}`);
    if (dim < 0) throw new RangeError(`dims[${i}] must be a non-negative integer, got: ${dim}`);
    size *= dim;
  }
  return size;
}

function convert(type, data) {
  if (type === 'string') {
    if (!Array.isArray(data)) throw new TypeError("A string tensor's data must be a string array.");
    return data;
  }
  const Wanted = arrays[type];
  if (!Wanted && !type.startsWith('float') && !packed.has(type)) throw new TypeError(`Unsupported tensor type: ${type}.`);
  if (Array.isArray(data)) {
    if ((type === 'float16' && !hasHalf) || packed.has(type))
      throw new TypeError(`Creating a ${type} tensor from number array is not supported. Please use ${arrayFor(type).name} as data.`);
    if (type === 'uint64' || type === 'int64') return Wanted.from(data, BigInt);
    return arrayFor(type).from(data);
  }
  if (data instanceof arrayFor(type)) return data;
  if (type === 'float16' && data instanceof Uint16Array) return hasHalf ? new arrays.float16(data.buffer, data.byteOffset, data.length) : data;
  if (type === 'int4' && data instanceof Int8Array) return new Uint8Array(data.buffer, data.byteOffset, data.length);
  if (data instanceof Uint8ClampedArray && type === 'uint8') return Uint8Array.from(data);
  throw new TypeError(`A ${type} tensor's data must be type of ${arrayFor(type).name}`);
}

// Its fields are ordinary ones, as onnxruntime-common's are: programs wrap tensors in proxies, and clone them.
export class Tensor {
  constructor(first, second, third) {
    let type = first, data = second, dims = third, location = 'cpu';
    if (typeof first === 'object' && first && 'location' in first && !ArrayBuffer.isView(first) && !Array.isArray(first)) {
      ({type, data, dims, location} = first);
      if (location !== 'cpu' && location !== 'cpu-pinned') throw new TypeError(`Tensor constructor: unsupported location '${location}'`);
    } else if (typeof first !== 'string') {
      data = first;
      dims = second;
      if (Array.isArray(data)) {
        if (data.length === 0) throw new TypeError('Tensor type cannot be inferred from an empty array.');
        if (typeof data[0] === 'string') type = 'string';
        else if (typeof data[0] === 'boolean') type = 'bool';
        else throw new TypeError(`Invalid element type of data array: ${typeof data[0]}.`);
      } else {
        type = data && typeOf(data);
        if (!type) throw new TypeError(`Unsupported type for tensor data: ${data && data.constructor && data.constructor.name}.`);
      }
    }
    data = convert(type, data);
    if (dims === undefined) dims = [data.length];
    else if (!Array.isArray(dims)) throw new TypeError("A tensor's dims must be a number array");
    const size = sizeOf(dims);
    const fits = data.length === size || (packed.has(type) && Math.ceil(size / 2) === data.length) ||
      (type.startsWith('complex') && data.length === 2 * size) || (!arrays[type] && type !== 'string');
    if (!fits) throw new Error(`Tensor's size(${size}) does not match data length(${data.length}).`);
    this.dataLocation = location;
    this.cpuData = data;
    this.type = type;
    this.dims = [...dims];
    this.size = size;
  }

  get data() {
    if (this.dataLocation === 'none') throw new Error('The tensor is disposed.');
    return this.cpuData;
  }
  get location() { return this.dataLocation; }
  get texture() { throw new Error('The data is not stored as a WebGL texture.'); }
  get gpuBuffer() { throw new Error('The data is not stored as a WebGPU buffer.'); }
  get mlTensor() { throw new Error('The data is not stored as a WebNN MLTensor.'); }
  // What lies on the CPU stays there: 'release' is for other places.
  async getData() { return this.data; }
  dispose() {
    this.cpuData = undefined;
    this.dataLocation = 'none';
  }
  reshape(dims) {
    if (sizeOf(dims) !== this.size) throw new Error(`Tensor's size(${this.size}) does not match the size of dims [${dims}].`);
    return new Tensor(this.type, this.data, [...dims]);
  }

  static fromPinnedBuffer(type, data, dims) { return new Tensor({location: 'cpu-pinned', type, data, dims}); }
  static fromTexture() { throw new Error('Ferry has no WebGL: take the pixels to the CPU first.'); }
  static fromGpuBuffer() { throw new Error('Ferry has no WebGPU: read the buffer to the CPU first.'); }
  static fromMLTensor() { throw new Error('Ferry has no WebNN: read the tensor to the CPU first.'); }

  static async fromImage(image, options = {}) {
    const pixels = await pixelsOf(image, options);
    return fromPixels(pixels, options);
  }

  toImageData(options = {}) {
    const {width, height, at, alpha} = pixelsIn(this, options);
    const out = new Uint8ClampedArray(width * height * 4);
    const {mean, bias} = norms(options.norm, 255, 0);
    for (let i = 0; i < width * height; ++i)
      for (let c = 0; c < 4; ++c) out[4 * i + c] = c === 3 && !alpha ? 255 : (at(i, c) - bias[c]) * mean[c];
    return new ImageData(out, width, height);
  }
  toDataURL(options = {}) {
    const picture = this.toImageData(options);
    const canvas = document.createElement('canvas');
    canvas.width = picture.width;
    canvas.height = picture.height;
    canvas.getContext('2d').putImageData(picture, 0, 0);
    return canvas.toDataURL();
  }
}

function pixelsIn(tensor, options) {
  const d = tensor.dims.length === 3 ? [1, ...tensor.dims] : tensor.dims;
  if (d.length !== 4) throw new Error(`a picture has 3 or 4 dimensions, the tensor has [${tensor.dims}]`);
  const nhwc = options.tensorLayout === 'NHWC';
  const [channels, height, width] = nhwc ? [d[3], d[1], d[2]] : [d[1], d[2], d[3]];
  const order = options.format === 'BGR' ? [2, 1, 0, 3] : [0, 1, 2, 3];
  const {data} = tensor;
  const at = (i, c) => {
    const channel = channels === 1 ? 0 : order[c];
    return Number(nhwc ? data[i * channels + channel] : data[channel * width * height + i]);
  };
  return {width, height, at, alpha: channels === 4};
}

function norms(norm, mean, bias) {
  const four = (value, otherwise) => {
    if (value === undefined) return Array(4).fill(otherwise);
    if (typeof value === 'number') return Array(4).fill(value);
    return [value[0], value[1], value[2], value[3] ?? otherwise];
  };
  return {mean: four(norm && norm.mean, mean), bias: four(norm && norm.bias, bias)};
}

async function pixelsOf(image, options) {
  if (typeof ImageData !== 'undefined' && image instanceof ImageData && !options.resizedWidth && !options.resizedHeight) return image;
  let source = image;
  if (typeof image === 'string') source = await createImageBitmap(await (await fetch(image)).blob());
  if (typeof ImageData !== 'undefined' && image instanceof ImageData) source = await createImageBitmap(image);
  const width = options.resizedWidth || source.naturalWidth || source.width;
  const height = options.resizedHeight || source.naturalHeight || source.height;
  const canvas = typeof OffscreenCanvas !== 'undefined' ? new OffscreenCanvas(width, height) :
    Object.assign(document.createElement('canvas'), {width, height});
  const context = canvas.getContext('2d');
  context.drawImage(source, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}

function fromPixels(pixels, options) {
  const {width, height, data} = pixels;
  const format = options.tensorFormat || 'RGB', nhwc = options.tensorLayout === 'NHWC', bytes = options.dataType === 'uint8';
  const order = {RGB: [0, 1, 2], BGR: [2, 1, 0], RBG: [0, 2, 1], RGBA: [0, 1, 2, 3]}[format];
  if (!order) throw new Error(`tensorFormat '${format}' is none of RGB, BGR, RBG and RGBA`);
  const {mean, bias} = norms(options.norm, 255, 0);
  const count = width * height, channels = order.length;
  const out = bytes ? new Uint8Array(count * channels) : new Float32Array(count * channels);
  for (let i = 0; i < count; ++i)
    for (let c = 0; c < channels; ++c) {
      const value = data[4 * i + order[c]];
      out[nhwc ? i * channels + c : c * count + i] = bytes ? value : (value + bias[c]) / mean[c];
    }
  return new Tensor(bytes ? 'uint8' : 'float32', out, nhwc ? [1, height, width, channels] : [1, channels, height, width]);
}
