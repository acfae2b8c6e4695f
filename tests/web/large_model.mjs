// An ONNX file of ResNet-50's size: 53 convolutions and 25 million parameters, in modules that only the weights' names tell.
const text = new TextEncoder();

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push(value % 128 + 128);
  return [...bytes, value];
}
const number = (field, value) => Buffer.from([...varint(field * 8), ...varint(value)]);
const bytes = (field, data) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(data.length)]), data]);
const string = (field, value) => bytes(field, text.encode(value));
const message = (field, ...parts) => bytes(field, Buffer.concat(parts));

const value = (field, name, dims) => message(field, string(1, name),
  message(2, message(1, number(1, 1), message(2, ...dims.map((dim) => message(1, number(1, dim)))))));
const ints = (name, list) => message(5, string(1, name), ...list.map((each) => number(8, each)), number(20, 7));
const node = (op, name, inputs, output, ...attributes) => message(1, ...inputs.map((input) => string(1, input)), string(2, output), string(3, name),
  string(4, op), ...attributes);

function weight(name, dims) {
  const data = new Float32Array(dims.reduce((a, b) => a * b, 1));
  for (let i = 0, state = 1; i < data.length; ++i) data[i] = ((state = Math.imul(state, 1664525) + 1013904223 >>> 0) / 2 ** 32 - 0.5) / 16;
  return message(5, ...dims.map((dim) => number(1, dim)), number(2, 1), string(8, name), bytes(9, Buffer.from(data.buffer)));
}

export function largeModel() {
  const parts = [];
  let count = 0;
  const conv = (module, input, [to, from, size, stride]) => {
    parts.push(weight(`${module}.weight`, [to, from, size, size]));
    const output = `v${++count}`, pad = size >> 1;
    parts.push(node('Conv', `node_${count}`, [input, `${module}.weight`], output, ints('kernel_shape', [size, size]), ints('strides', [stride, stride]),
      ints('pads', [pad, pad, pad, pad])));
    return output;
  };
  const step = (op, ...inputs) => {
    const output = `v${++count}`;
    parts.push(node(op, `node_${count}`, inputs, output));
    return output;
  };
  let at = step('Relu', conv('conv1', 'x', [64, 3, 7, 4])), from = 64;
  [[64, 3], [128, 4], [256, 6], [512, 3]].forEach(([width, blocks], layer) => {
    for (let block = 0; block < blocks; ++block) {
      const module = `layer${layer + 1}.${block}`, stride = block || !layer ? 1 : 2;
      let side = step('Relu', conv(`${module}.conv1`, at, [width, from, 1, 1]));
      side = step('Relu', conv(`${module}.conv2`, side, [width, width, 3, stride]));
      side = conv(`${module}.conv3`, side, [4 * width, width, 1, 1]);
      if (!block) at = conv(`${module}.downsample.0`, at, [4 * width, from, 1, stride]);
      at = step('Relu', step('Add', side, at));
      from = 4 * width;
    }
  });
  at = step('GlobalAveragePool', at);
  parts.push(weight('fc.weight', [1000, 2048, 1, 1]), node('Conv', 'node_fc', [at, 'fc.weight'], 'y'));
  const graph = [string(2, 'large'), ...parts, value(11, 'x', [1, 3, 224, 224]), value(12, 'y', [1, 1000, 1, 1])];
  return Buffer.concat([number(1, 8), message(8, string(1, ''), number(2, 17)), message(7, ...graph)]);
}

// Of mobilenet_v2's size and kind where it is heaviest: convolutions of single pixels and a product, 15.5 MB of weights.
export function pointwiseModel() {
  const parts = [], widths = [256, 1024, 1024, 1280];
  widths.slice(1).forEach((to, i) => parts.push(weight(`w${i}`, [to, widths[i], 1, 1]), node('Conv', `conv${i}`, [i ? `v${i}` : 'x', `w${i}`], `v${i + 1}`)));
  parts.push(node('GlobalAveragePool', 'pool', ['v3'], 'p'), node('Flatten', 'flat', ['p'], 'f'), weight('fc', [1000, 1280]),
    node('Gemm', 'fc', ['f', 'fc'], 'y', message(5, string(1, 'transB'), number(3, 1), number(20, 2))));
  const graph = [string(2, 'pointwise'), ...parts, value(11, 'x', [1, 256, 7, 7]), value(12, 'y', [1, 1000])];
  return Buffer.concat([number(1, 8), message(8, string(1, ''), number(2, 17)), message(7, ...graph)]);
}

// Values of any type through Identity: {outputs: [inputs]} by name. What is written into `doc` makes the file as long.
const typed = (field, name, type, dims) => message(field, string(1, name),
  message(2, message(1, number(1, type), message(2, ...dims.map((dim) => message(1, typeof dim === 'string' ? string(2, dim) : number(1, dim)))))));
export function identityModel(inputs, outputs, {type = 1, dims = ['n'], doc = ''} = {}) {
  const graph = [string(2, 'identity'), ...Object.entries(outputs).map(([output, input]) => node('Identity', `to_${output}`, [input], output)),
    ...inputs.map((name) => typed(11, name, type, dims)), ...Object.keys(outputs).map((name) => typed(12, name, type, dims))];
  return Buffer.concat([number(1, 8), string(6, doc), message(8, string(1, ''), number(2, 17)), message(7, ...graph)]);
}

// y = x + w, where w is two floats that lie in another file.
export function externalModel(location) {
  const entry = (key, text) => message(13, string(1, key), string(2, text));
  const weights = message(5, number(1, 2), number(2, 1), string(8, 'w'), entry('location', location), entry('length', '8'), number(14, 1));
  const graph = [node('Add', 'add', ['x', 'w'], 'y'), string(2, 'external'), weights, typed(11, 'x', 1, [2]), typed(12, 'y', 1, [2])];
  return Buffer.concat([number(1, 8), message(8, string(1, ''), number(2, 17)), message(7, ...graph)]);
}
