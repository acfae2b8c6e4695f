// Random cases of the operators that ONNX Runtime contributes (com.microsoft) and runs on a CPU; those with bodies are in
// cases_searches.mjs. SparseToDenseMatMul has none: onnxruntime-node takes no sparse tensors.
import {count, ints, scalar} from './random.mjs';

export const maybe = (r, attributes) => Object.fromEntries(Object.entries(attributes).filter(() => r.chance(0.6)));
export const int = (value) => BigInt(value);
export const case_ = (op, inputs, attributes = {}, more = {}) => {
  while (inputs.length && !inputs[inputs.length - 1]) inputs.pop();
  return {op, domain: 'com.microsoft', opset: 17, outputs: 1, inputs, attributes, ...more};
};
export const floats = (r, shape, low = -2, high = 2) => r.tensor('float32', shape, low, high);
const positive = (r, shape, low, high) => ({type: 'float32', shape, data: Float32Array.from({length: count(shape)}, () => r.real(low, high))});
const float = (r, low, high) => scalar(r.real(low, high), 'float32');
const bytes = (r) => r.pick(['uint8', 'int8']);
const low = (type) => (type === 'int8' ? -120 : 0), high = (type) => (type === 'int8' ? 120 : 240);
const numbers = (r, type, shape) => r.tensor(type, shape, low(type), high(type));
// A scale and a zero point of one element.
const scaled = (r, type) => [float(r, 0.01, 0.1), r.tensor(type, [], Math.max(low(type), -20), 20)];

function attention(r) {
  const [batch, length, heads, size] = [r.int(1, 2), r.int(1, 5), r.int(1, 3), 2 * r.int(1, 4)];
  return {batch, length, heads, size, hidden: heads * size};
}
function mask(r, batch, queries, total) {
  const kind = r.int(0, 4);
  if (kind === 0) return r.tensor('int32', [batch], 1, total);
  if (kind === 1) return r.tensor('int32', [batch, total], 0, 1);
  if (kind === 2) return r.tensor('int32', [batch, queries, total], 0, 1);
  return null;
}

// Weights of few bits with their scales and zero points.
function nbits(r, depth, columns, bits, block) {
  const blocks = Math.ceil(depth / block);
  return {
    b: r.tensor('uint8', [columns, blocks, block * bits / 8], 0, 255), scales: floats(r, [columns, blocks], 0.01, 0.2),
    zeros: r.tensor('uint8', [columns, Math.ceil(blocks * bits / 8)], 0, 255),
  };
}

const unary = (op, more = () => ({})) => (r) => case_(op, [floats(r, r.fullShape(1, 4), -4, 4)], more(r));
const pool = (r) => ({kernel_shape: {ints: [r.int(1, 3), r.int(1, 3)]}, ...maybe(r, {strides: {ints: [r.int(1, 2), r.int(1, 2)]}})});
const binaryBytes = (op) => (r) => {
  const type = bytes(r), shape = r.fullShape(1, 4), other = r.chance(0.5) ? shape : shape.map((d) => (r.chance(0.4) ? 1 : d));
  return case_(op, [numbers(r, type, shape), ...scaled(r, type), numbers(r, type, other), ...scaled(r, type), ...scaled(r, type)], {}, {constants: [1, 2, 4, 5, 6, 7]});
};
const skip = (op, withBeta) => (r) => {
  const [batch, length, hidden] = [r.int(1, 2), r.int(1, 4), r.int(1, 9)], vector = () => floats(r, [hidden]);
  const inputs = [floats(r, [batch, length, hidden]), floats(r, [batch, length, hidden]), vector()];
  if (withBeta) inputs.push(r.chance(0.7) ? vector() : null);
  inputs.push(r.chance(0.5) ? vector() : null);
  return case_(op, inputs, {epsilon: 1e-3});
};

export const microsoft = {
  Attention: (r) => {
    const {batch, length, heads, size, hidden} = attention(r), input = r.int(2, 6), past = r.chance(0.3) ? r.int(1, 3) : 0, total = length + past;
    const inputs = [floats(r, [batch, length, input]), floats(r, [input, 3 * hidden]), floats(r, [3 * hidden]), mask(r, batch, length, total),
      past ? floats(r, [2, batch, heads, past, size]) : null, r.chance(0.3) ? floats(r, [batch, heads, length, total]) : null];
    return case_('Attention', inputs, {num_heads: int(heads), ...maybe(r, {scale: r.real(0.1, 1), unidirectional: int(r.int(0, 1))})}, {outputs: past ? 2 : 1, constants: [1, 2]});
  },
  MultiHeadAttention: (r) => {
    const {batch, length, heads, size, hidden} = attention(r), keys = r.int(1, 5), past = r.chance(0.3) ? r.int(1, 3) : 0, total = keys + past;
    const inputs = [floats(r, [batch, length, hidden]), floats(r, [batch, keys, hidden]), floats(r, [batch, keys, hidden]), r.chance(0.4) ? floats(r, [3 * hidden]) : null,
      r.chance(0.3) ? r.tensor('int32', [batch, total], 0, 1) : null, r.chance(0.3) ? floats(r, [batch, heads, length, total]) : null,
      past ? floats(r, [batch, heads, past, size]) : null, past ? floats(r, [batch, heads, past, size]) : null];
    return case_('MultiHeadAttention', inputs, {num_heads: int(heads), ...maybe(r, {scale: r.real(0.1, 1), unidirectional: int(r.int(0, 1))})}, {outputs: past ? 3 : 1});
  },
  GroupQueryAttention: (r) => {
    const batch = r.int(1, 2), kv = r.int(1, 2), heads = kv * r.int(1, 3), size = 8 * r.int(1, 2), prompt = r.chance(0.5), length = prompt ? r.int(1, 20) : 1, past = prompt ? 0 : r.int(1, 9);
    const total = length + past, room = prompt ? 0 : r.chance(0.5) ? past : past + r.int(1, 4), rotary = r.chance(0.5);
    const inputs = [floats(r, [batch, length, heads * size]), floats(r, [batch, length, kv * size]), floats(r, [batch, length, kv * size]),
      prompt ? null : floats(r, [batch, kv, room, size]), prompt ? null : floats(r, [batch, kv, room, size]), ints(Array(batch).fill(total - 1), 'int32'), scalar(total, 'int32'),
      rotary ? floats(r, [32, size / 2], -1, 1) : null, rotary ? floats(r, [32, size / 2], -1, 1) : null];
    return case_('GroupQueryAttention', inputs, {num_heads: int(heads), kv_num_heads: int(kv), do_rotary: int(rotary ? 1 : 0),
      ...maybe(r, {scale: r.real(0.1, 1), softcap: r.real(1, 4), rotary_interleaved: int(r.int(0, 1)), smooth_softmax: int(r.int(0, 1)), local_window_size: int(r.int(1, 8))})}, {outputs: 3});
  },
  MatMulNBits: (r) => {
    const bits = r.pick([4, 4, 8, 2]), block = r.pick([16, 32, 64, 128]), depth = r.int(1, 150), columns = r.int(1, 40), {b, scales, zeros} = nbits(r, depth, columns, bits, block);
    const inputs = [floats(r, [...r.pick([[], [2]]), r.int(1, 9), depth]), b, scales, r.chance(0.5) ? zeros : null, null, r.chance(0.3) ? floats(r, [columns]) : null];
    return case_('MatMulNBits', inputs, {K: int(depth), N: int(columns), bits: int(bits), block_size: int(block), ...maybe(r, {accuracy_level: int(r.pick([0, 1, 4]))})}, {constants: [1, 2, 3, 5]});
  },
  MatMulBnb4: (r) => {
    const depth = r.int(1, 6) * 16, columns = r.int(1, 8), block = r.pick([16, 32, 64]), count = depth * columns;
    return case_('MatMulBnb4', [floats(r, [r.int(1, 4), depth]), r.tensor('uint8', [Math.ceil(count / 2)], 0, 255), floats(r, [Math.ceil(count / block)], 0.1, 1)],
      {K: int(depth), N: int(columns), block_size: int(block), quant_type: int(r.int(0, 1))}, {constants: [1, 2]});
  },
  GatherBlockQuantized: (r) => {
    const block = r.pick([16, 32]), rows = r.int(2, 6), depth = block * r.int(1, 3), bits = r.pick([4, 8]);
    const inputs = [r.tensor('uint8', [rows, depth * bits / 8], 0, 255), r.tensor(r.pick(['int32', 'int64']), r.fullShape(0, 2), 0, rows - 1), floats(r, [rows, depth / block], 0.01, 0.2),
      r.chance(0.5) ? r.tensor('uint8', [rows, Math.ceil(depth / block * bits / 8)], 0, 255) : null];
    return case_('GatherBlockQuantized', inputs, {bits: int(bits), block_size: int(block), gather_axis: 0n, quantize_axis: 1n}, {constants: [0, 2, 3]});
  },
  SkipLayerNormalization: skip('SkipLayerNormalization', true),
  SkipSimplifiedLayerNormalization: skip('SkipSimplifiedLayerNormalization', false),
  EmbedLayerNormalization: (r) => {
    const [batch, length, hidden, words, places] = [r.int(1, 2), r.int(1, 4), r.int(1, 8), r.int(2, 7), 6], segments = r.chance(0.5);
    return case_('EmbedLayerNormalization', [r.tensor('int32', [batch, length], 0, words - 1), segments ? r.tensor('int32', [batch, length], 0, 1) : null, floats(r, [words, hidden]), floats(r, [places, hidden]),
      segments ? floats(r, [2, hidden]) : null, floats(r, [hidden]), floats(r, [hidden]), r.chance(0.4) ? r.tensor('int32', [batch, length], 0, 1) : null], {epsilon: 1e-3}, {outputs: 2});
  },
  BiasGelu: (r) => { const n = r.int(1, 9); return case_('BiasGelu', [floats(r, [...r.fullShape(0, 2), n]), floats(r, [n])]); },
  FastGelu: (r) => { const n = r.int(1, 9); return case_('FastGelu', [floats(r, [...r.fullShape(0, 2), n]), r.chance(0.5) ? floats(r, [n]) : null]); },
  Gelu: unary('Gelu'), QuickGelu: unary('QuickGelu', (r) => maybe(r, {alpha: r.real(0.5, 2)})), SampleOp: unary('SampleOp'),
  FusedConv: (r) => {
    const group = r.pick([1, 2]), ci = group * r.int(1, 2), co = group * r.int(1, 2), kernel = [r.int(1, 3), r.int(1, 3)];
    const activation = r.pick([['Relu', []], ['Tanh', []], ['Sigmoid', []], ['LeakyRelu', [0.1]], ['Clip', [-0.5, 1]], ['HardSigmoid', [0.2, 0.4]]]);
    return case_('FusedConv', [floats(r, [1, ci, 5, 6]), floats(r, [co, ci / group, ...kernel]), r.chance(0.6) ? floats(r, [co]) : null],
      {group: int(group), activation: activation[0], ...(activation[1].length ? {activation_params: {floats: activation[1]}} : {}), ...maybe(r, {strides: {ints: [r.int(1, 2), 1]}, pads: {ints: [0, 0, 0, 0]}})});
  },
  FusedGemm: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 5), r.int(1, 5)], a = r.chance(0.4), b = r.chance(0.4);
    return case_('FusedGemm', [floats(r, a ? [k, m] : [m, k]), floats(r, b ? [n, k] : [k, n]), r.chance(0.6) ? floats(r, r.pick([[n], [m, n], [1]])) : null],
      {transA: int(a ? 1 : 0), transB: int(b ? 1 : 0), activation: r.pick(['Relu', 'Tanh', 'Sigmoid', 'LeakyRelu']), ...maybe(r, {alpha: r.real(0.5, 2), beta: r.real(0.5, 2)})});
  },
  FusedMatMul: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 5), r.int(1, 5)], a = r.chance(0.4), b = r.chance(0.4), outer = r.fullShape(0, 2), type = r.pick(['float32', 'float64']);
    return case_('FusedMatMul', [r.tensor(type, [...outer, ...(a ? [k, m] : [m, k])]), r.tensor(type, [...(r.chance(0.5) ? outer : []), ...(b ? [n, k] : [k, n])])], {transA: int(a ? 1 : 0), transB: int(b ? 1 : 0), ...maybe(r, {alpha: r.real(0.5, 2)})});
  },
  TransposeMatMul: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 5), r.int(1, 5)], a = r.chance(0.4), b = r.chance(0.4);
    return case_('TransposeMatMul', [floats(r, a ? [k, m] : [m, k]), floats(r, b ? [n, k] : [k, n])], {transA: int(a ? 1 : 0), transB: int(b ? 1 : 0), ...maybe(r, {alpha: r.real(0.5, 2)})});
  },
  QLinearAdd: binaryBytes('QLinearAdd'), QLinearMul: binaryBytes('QLinearMul'),
  QLinearSigmoid: (r) => { const type = bytes(r); return case_('QLinearSigmoid', [numbers(r, type, r.fullShape(1, 3)), ...scaled(r, type), ...scaled(r, type)], {}, {constants: [1, 2, 3, 4]}); },
  QLinearLeakyRelu: (r) => { const type = bytes(r); return case_('QLinearLeakyRelu', [numbers(r, type, r.fullShape(1, 3)), ...scaled(r, type), ...scaled(r, type)], maybe(r, {alpha: r.real(0.05, 0.5)}), {constants: [1, 2, 3, 4]}); },
  QLinearSoftmax: (r) => { const type = bytes(r), shape = r.fullShape(1, 3); return case_('QLinearSoftmax', [numbers(r, type, shape), ...scaled(r, type), float(r, 0.003, 0.01), r.tensor(type, [], type === 'int8' ? -128 : 0, type === 'int8' ? -128 : 0)], {axis: int(shape.length - 1), opset: 13n}, {constants: [1, 2, 3, 4]}); },
  QLinearConcat: (r) => {
    const type = bytes(r), shape = r.fullShape(2, 3), parts = r.int(1, 3), inputs = scaled(r, type);
    for (let i = 0; i < parts; ++i) inputs.push(numbers(r, type, [r.int(1, 3), ...shape.slice(1)]), ...scaled(r, type));
    return case_('QLinearConcat', inputs, {axis: 0n}, {constants: inputs.map((_, i) => i).filter((i) => i < 2 || i % 3 !== 2)});
  },
  QLinearWhere: (r) => { const type = bytes(r), shape = r.fullShape(1, 3); return case_('QLinearWhere', [r.tensor('bool', shape), numbers(r, type, shape), ...scaled(r, type), numbers(r, type, shape), ...scaled(r, type), ...scaled(r, type)], {}, {constants: [2, 3, 5, 6, 7, 8]}); },
  QLinearAveragePool: (r) => { const type = bytes(r); return case_('QLinearAveragePool', [numbers(r, type, [1, r.int(1, 3), 5, 6]), ...scaled(r, type), ...scaled(r, type)], pool(r), {constants: [1, 2, 3, 4]}); },
  QLinearGlobalAveragePool: (r) => { const type = bytes(r), last = r.chance(0.5); return case_('QLinearGlobalAveragePool', [numbers(r, type, last ? [1, 4, 5, 3] : [1, 3, 4, 5]), ...scaled(r, type), ...scaled(r, type)], {channels_last: int(last ? 1 : 0)}, {constants: [1, 2, 3, 4]}); },
  QLinearConv: (r) => {
    const last = r.chance(0.5), ci = r.int(1, 3), co = r.int(1, 4), kernel = [r.int(1, 3), r.int(1, 3)];
    const inputs = [numbers(r, 'uint8', last ? [1, 5, 6, ci] : [1, ci, 5, 6]), ...scaled(r, 'uint8'), numbers(r, 'int8', [co, ci, ...kernel]), float(r, 0.01, 0.1), r.tensor('int8', [], 0, 0), ...scaled(r, 'uint8'), r.chance(0.5) ? r.tensor('int32', [co], -500, 500) : null];
    return case_('QLinearConv', inputs, {channels_last: int(last ? 1 : 0), kernel_shape: {ints: kernel}}, {constants: [1, 2, 3, 4, 5, 6, 7, 8]});
  },
  QGemm: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 8), r.int(1, 5)], type = bytes(r), b = r.chance(0.4), rounds = r.chance(0.6);
    return case_('QGemm', [numbers(r, type, [m, k]), ...scaled(r, type), numbers(r, 'int8', b ? [n, k] : [k, n]), float(r, 0.01, 0.1), r.tensor('int8', [], -5, 5), r.chance(0.5) ? r.tensor('int32', [n], -300, 300) : null, ...(rounds ? scaled(r, type) : [])],
      {transB: int(b ? 1 : 0)}, {constants: [1, 2, 3, 4, 5, 6, 7, 8]});
  },
  DynamicQuantizeMatMul: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 8), r.int(1, 5)], type = bytes(r);
    return case_('DynamicQuantizeMatMul', [floats(r, [m, k]), numbers(r, type, [k, n]), floats(r, r.pick([[1], [n]]), 0.01, 0.1), null, r.chance(0.4) ? floats(r, [n]) : null], {}, {constants: [1, 2, 4]});
  },
  MatMulIntegerToFloat: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 8), r.int(1, 5)], a = bytes(r), b = a === 'int8' ? 'int8' : bytes(r);
    return case_('MatMulIntegerToFloat', [numbers(r, a, [m, k]), numbers(r, b, [k, n]), float(r, 0.01, 0.1), float(r, 0.01, 0.1), r.chance(0.5) ? r.tensor(a, [], 0, 20) : null, null, r.chance(0.4) ? floats(r, [n]) : null], {}, {constants: [1, 3]});
  },
  MatMulInteger16: (r) => { const [m, k, n] = [r.int(1, 5), r.int(1, 8), r.int(1, 5)]; return case_('MatMulInteger16', [r.tensor('int16', [m, k], -300, 300), r.tensor('int16', [k, n], -300, 300)]); },
  QuantizeLinear: (r) => { const type = bytes(r); return case_('QuantizeLinear', [floats(r, r.fullShape(1, 3)), ...scaled(r, type)]); },
  DequantizeLinear: (r) => { const type = r.pick(['uint8', 'int8', 'int32']); return case_('DequantizeLinear', [r.tensor(type, r.fullShape(1, 3), 0, 100), float(r, 0.01, 0.1), type === 'int32' ? null : r.tensor(type, [], 0, 20)]); },
  NhwcMaxPool: (r) => case_('NhwcMaxPool', [numbers(r, bytes(r), [1, 5, 6, r.int(1, 4)])], pool(r)),
  RotaryEmbedding: (r) => {
    const [batch, length, heads, half] = [r.int(1, 2), r.int(1, 4), r.int(1, 3), r.int(1, 4)];
    return case_('RotaryEmbedding', [floats(r, [batch, heads, length, 2 * half]), r.chance(0.5) ? r.tensor('int64', [1], 0, 3) : r.tensor('int64', [batch, length], 0, 7), floats(r, [8, half], -1, 1), floats(r, [8, half], -1, 1)], maybe(r, {interleaved: int(r.int(0, 1))}));
  },
  GatedAdd: (r) => { const shape = r.fullShape(1, 3); return case_('GatedAdd', [floats(r, shape), floats(r, shape), floats(r, [...shape.slice(0, -1), 1])]); },
  GatedRMSNorm: (r) => { const shape = r.fullShape(2, 3); return case_('GatedRMSNorm', [floats(r, shape), floats(r, [shape[shape.length - 1]]), floats(r, shape)], {epsilon: 1e-3}); },
  CDist: (r) => { const n = r.int(1, 6), type = r.pick(['float32', 'float64']); return case_('CDist', [r.tensor(type, [r.int(1, 5), n]), r.tensor(type, [r.int(1, 5), n])], {metric: r.pick(['euclidean', 'sqeuclidean'])}); },
  CausalConvWithState: (r) => { const [batch, channels, length, k] = [r.int(1, 2), r.int(1, 4), r.int(1, 6), r.int(2, 4)]; return case_('CausalConvWithState', [floats(r, [batch, channels, length]), floats(r, [channels, 1, k]), r.chance(0.5) ? floats(r, [channels]) : null, r.chance(0.5) ? floats(r, [batch, channels, k - 1]) : null], maybe(r, {activation: r.pick(['silu', 'none'])}), {outputs: 2}); },
  CropAndResize: (r) => {
    const count = r.int(1, 3), corner = () => r.real(-0.2, 1.2), boxes = Float32Array.from({length: 4 * count}, corner);
    return case_('CropAndResize', [floats(r, [2, 2, r.int(2, 6), r.int(2, 6)]), {type: 'float32', shape: [count, 4], data: boxes}, r.tensor('int32', [count], 0, 1), ints([r.int(1, 4), r.int(1, 4)], 'int32')], maybe(r, {mode: r.pick(['bilinear', 'nearest']), extrapolation_value: r.real(-1, 1)}), {constants: [3]});
  },
  DynamicTimeWarping: (r) => case_('DynamicTimeWarping', [floats(r, [r.int(1, 7), r.int(1, 7)])]),
  ExpandDims: (r) => { const shape = r.fullShape(0, 3); return case_('ExpandDims', [floats(r, shape), scalar(r.int(-shape.length - 1, shape.length), 'int32')], {}, {constants: [1]}); },
  GatherND: (r) => { const shape = r.fullShape(2, 3); return case_('GatherND', [floats(r, shape), r.tensor(r.pick(['int32', 'int64']), [r.int(1, 4), 1], 0, shape[0] - 1)]); },
  GridSample: (r) => case_('GridSample', [floats(r, [1, r.int(1, 2), r.int(2, 5), r.int(2, 5)]), floats(r, [1, r.int(1, 4), r.int(1, 4), 2], -1.3, 1.3)], maybe(r, {mode: r.pick(['bilinear', 'nearest', 'bicubic']), padding_mode: r.pick(['zeros', 'border', 'reflection']), align_corners: int(r.int(0, 1))})),
  Inverse: (r) => {
    const n = r.int(1, 4), type = r.pick(['float32', 'float64']), x = r.tensor(type, [...r.fullShape(0, 1), n, n], -1, 1);
    for (let i = 0; i < x.data.length; i += n * n) for (let j = 0; j < n; ++j) x.data[i + j * n + j] += 4;  // far from singular
    return case_('Inverse', [x]);
  },
  LinearAttentionGate: (r) => { const [batch, length, heads] = [r.int(1, 2), r.int(1, 4), r.int(1, 4)]; return case_('LinearAttentionGate', [floats(r, [batch, length, heads]), floats(r, [heads]), floats(r, [heads]), r.chance(0.6) ? floats(r, [batch, length, heads]) : null], {}, {outputs: 2}); },
  MoE: (r) => {
    const [rows, hidden, inner, experts] = [r.int(1, 5), r.int(1, 6), r.int(1, 6), r.int(1, 4)];
    return case_('MoE', [floats(r, [rows, hidden]), floats(r, [rows, experts]), floats(r, [experts, inner, hidden]), r.chance(0.5) ? floats(r, [experts, inner]) : null, floats(r, [experts, hidden, inner]), r.chance(0.5) ? floats(r, [experts, hidden]) : null], {k: int(r.int(1, experts)), activation_type: r.pick(['relu', 'gelu', 'silu', 'identity']), ...maybe(r, {normalize_routing_weights: int(r.int(0, 1))})}, {constants: [2, 3, 4, 5]});
  },
  MurmurHash3: (r) => case_('MurmurHash3', [r.tensor(r.pick(['int32', 'int64', 'float32', 'float64', 'string']), r.fullShape(1, 2), -1000, 1000)], maybe(r, {positive: int(r.int(0, 1)), seed: int(r.int(0, 99))})),
  NGramRepeatBlock: (r) => { const batch = r.int(1, 2), words = r.int(2, 5); return case_('NGramRepeatBlock', [r.tensor('int64', [batch, r.int(1, 8)], 0, words - 1), floats(r, [batch, words])], {ngram_size: int(r.int(1, 3))}); },
  Pad: (r) => { const shape = r.fullShape(1, 3); return case_('Pad', [floats(r, shape), ints(Array.from({length: 2 * shape.length}, () => r.int(0, 2))), r.chance(0.5) ? {type: 'float32', shape: [1], data: Float32Array.from([1.5])} : null], {mode: r.pick(['constant', 'edge'])}); },
  Range: (r) => { const type = r.pick(['float32', 'int32', 'int64', 'float64']), one = (v) => scalar(v, type); return case_('Range', [one(r.int(-5, 5)), one(r.int(-5, 12)), r.chance(0.6) ? one(r.pick([1, 2, 3, -1])) : null]); },
  Trilu: (r) => case_('Trilu', [r.tensor(r.pick(['float32', 'int64', 'float64']), r.fullShape(2, 3)), r.chance(0.5) ? scalar(r.int(-3, 3)) : null], maybe(r, {upper: int(r.int(0, 1))}), {constants: [1]}),
  UnfoldTensor: (r) => { const shape = r.fullShape(1, 3), axis = r.int(0, shape.length - 1); return case_('UnfoldTensor', [floats(r, shape)], {dim: int(r.chance(0.5) ? axis : axis - shape.length), size: int(r.int(1, shape[axis])), ...maybe(r, {step: int(r.int(1, 2))})}); },
  Unique: (r) => case_('Unique', [floats(r, [r.int(1, 9)], -2, 2)], {}, {outputs: 3}),
  Tokenizer: (r) => case_('Tokenizer', [r.tensor('string', r.pick([[2], [1, 3]]))], {mark: int(r.int(0, 1)), mincharnum: int(r.int(1, 2)), pad_value: '#', separators: {strings: [r.pick([' ', 'o', ''])]}}),
  MaxpoolWithMask: (r) => { const shape = [1, r.int(1, 2), r.int(3, 5), r.int(3, 5)]; return case_('MaxpoolWithMask', [floats(r, shape), r.tensor('int32', shape, 1, 1)], pool(r)); },
  ConvTransposeWithDynamicPads: (r) => case_('ConvTransposeWithDynamicPads', [floats(r, [1, 2, 4, 4]), floats(r, [2, r.int(1, 3), 3, 3]), ints([r.int(0, 1), r.int(0, 1), r.int(0, 1), r.int(0, 1)]), null], maybe(r, {strides: {ints: [r.int(1, 2), r.int(1, 2)]}})),
  DecoderMaskedMultiHeadAttention: (r) => {
    const {batch, heads, size, hidden} = attention(r), room = r.int(2, 8), past = r.int(0, room - 1);
    return case_('DecoderMaskedMultiHeadAttention', [floats(r, [batch, 1, hidden]), floats(r, [batch, 1, hidden]), floats(r, [batch, 1, hidden]), null, null, floats(r, [batch, heads, room, size]), floats(r, [batch, heads, room, size]), scalar(past, 'int32'), null, null, r.chance(0.4) ? floats(r, [3 * hidden]) : null],
      {num_heads: int(heads), past_present_share_buffer: 1n}, {outputs: 3});
  },
  QAttention: (r) => {
    const {batch, length, heads, hidden} = attention(r), input = r.int(2, 6), weights = bytes(r);
    return case_('QAttention', [numbers(r, 'uint8', [batch, length, input]), numbers(r, weights, [input, 3 * hidden]), floats(r, [3 * hidden]), float(r, 0.005, 0.02), float(r, 0.005, 0.02), mask(r, batch, length, length), r.tensor('uint8', [], 100, 140), r.tensor(weights, [], 0, 10)],
      {num_heads: int(heads), ...maybe(r, {unidirectional: int(r.int(0, 1))})}, {constants: [1, 2, 3, 4, 6, 7]});
  },
  LinearAttention: (r) => {
    const [batch, length, kv, key, value] = [r.int(1, 2), r.int(1, 5), r.int(1, 2), r.int(1, 4), r.int(1, 4)], heads = r.pick([kv, kv, 2 * kv]);
    const rule = r.pick(['linear', 'gated', 'delta', 'gated_delta']), gated = rule.startsWith('gated');
    return case_('LinearAttention', [floats(r, [batch, length, heads * key], -1, 1), floats(r, [batch, length, kv * key], -1, 1), floats(r, [batch, length, kv * value]), r.chance(0.5) ? floats(r, [batch, kv, key, value]) : null,
      gated ? floats(r, [batch, length, r.pick([kv, kv * key])], -1, 0) : null, rule.endsWith('delta') ? floats(r, [batch, length, kv], 0, 1) : null],
      {q_num_heads: int(heads), kv_num_heads: int(kv), update_rule: rule, ...maybe(r, {scale: r.real(0.1, 1), chunk_size: int(r.int(1, 4))})}, {outputs: 2});
  },
  MRotaryEmbedding: (r) => {
    const [batch, length, heads, half] = [r.int(1, 2), r.int(1, 4), r.int(1, 3), r.int(1, 6)], first = r.int(0, half), second = r.int(0, half - first), flat = r.chance(0.5);
    return case_('MRotaryEmbedding', [floats(r, flat ? [batch, length, heads * 2 * half] : [batch, heads, length, 2 * half]), r.tensor('int64', [3, batch, length], 0, 7), floats(r, [8, half], -1, 1), floats(r, [8, half], -1, 1)],
      {mrope_section: {ints: [first, second, half - first - second]}, ...(flat ? {num_heads: int(heads)} : {}), ...maybe(r, {interleaved: int(r.int(0, 1)), mrope_layout: int(r.int(0, 1))})});
  },
  AttnLSTM: (r) => {
    const direction = r.pick(['forward', 'reverse', 'bidirectional']), d = direction === 'bidirectional' ? 2 : 1;
    const [steps, batch, input, hidden, memory, depth, width, layer] = [r.int(1, 4), r.int(1, 2), r.int(1, 3), r.int(1, 3), r.int(1, 4), r.int(1, 3), r.int(1, 3), r.chance(0.5) ? r.int(1, 3) : 0];
    return case_('AttnLSTM', [floats(r, [steps, batch, input]), floats(r, [d, 4 * hidden, input + (layer || depth)]), floats(r, [d, 4 * hidden, hidden]), r.chance(0.6) ? floats(r, [d, 8 * hidden]) : null,
      r.chance(0.5) ? r.tensor('int32', [batch], 1, steps) : null, r.chance(0.4) ? floats(r, [d, batch, hidden]) : null, r.chance(0.4) ? floats(r, [d, batch, hidden]) : null, r.chance(0.3) ? floats(r, [d, 3 * hidden]) : null,
      floats(r, [d, hidden, width]), floats(r, [d, depth, width]), floats(r, [d, width]), floats(r, [batch, memory, depth]), r.chance(0.5) ? r.tensor('int32', [batch], 1, memory) : null, layer ? floats(r, [d, depth + hidden, layer]) : null],
      {hidden_size: int(hidden), direction}, {outputs: 3});
  },
  BifurcationDetector: (r) => {
    const source = r.int(1, 12), last = r.int(0, source), word = () => r.int(0, 3), list = (n) => ints(Array.from({length: n}, word));
    const from = list(source), guesses = Array.from({length: source + 1 - last}, (_, i) => (r.chance(0.7) && last + i < source ? Number(from.data[last + i]) : word()));
    return case_('BifurcationDetector', [from, list(r.int(1, 6)), ints([last]), r.chance(0.6) ? ints(guesses) : null], {min_ngram_size: int(r.int(1, 2)), max_ngram_size: int(r.int(2, 4))}, {outputs: 2});
  },
  DynamicQuantizeLSTM: (r) => {
    const direction = r.pick(['forward', 'reverse', 'bidirectional']), d = direction === 'bidirectional' ? 2 : 1, type = bytes(r);
    const [steps, batch, input, hidden] = [r.int(1, 4), r.int(1, 2), r.int(1, 4), r.int(1, 4)], scales = () => positive(r, r.chance(0.5) ? [d] : [d, 4 * hidden], 0.002, 0.01);
    const w = scales(), v = scales(), zeros = (like) => r.tensor(type, like.shape, 0, like.shape.length === 1 ? 20 : 0);
    return case_('DynamicQuantizeLSTM', [floats(r, [steps, batch, input]), numbers(r, type, [d, input, 4 * hidden]), numbers(r, type, [d, hidden, 4 * hidden]), r.chance(0.6) ? floats(r, [d, 8 * hidden], -1, 1) : null,
      r.chance(0.4) ? r.tensor('int32', [batch], 1, steps) : null, r.chance(0.4) ? floats(r, [d, batch, hidden], -1, 1) : null, r.chance(0.4) ? floats(r, [d, batch, hidden], -1, 1) : null, r.chance(0.3) ? floats(r, [d, 3 * hidden], -1, 1) : null, w, zeros(w), v, zeros(v)],
      {hidden_size: int(hidden), direction, ...maybe(r, {input_forget: int(r.int(0, 1))})}, {outputs: 3, constants: [1, 2, 8, 9, 10, 11]});
  },
  MatMulFpQ4: (r) => {
    const kind = r.pick([0, 1, 2, 4]), block = kind < 2 ? 32 : 32 * kind, depth = r.int(1, 130), columns = r.int(1, 9), size = block / 2 + 4 + (kind === 1 ? 1 : 0), blocks = Math.ceil(depth / block);
    const blob = new Uint8Array(columns * blocks * size), view = new DataView(blob.buffer);
    for (let i = 0; i < blob.length; ++i) blob[i] = r.int(0, 255);
    for (let i = 0; i < columns * blocks; ++i) {
      view.setFloat32(i * size, r.real(0.01, 0.2), true);
      if (kind === 1) blob[i * size + 4] = r.int(0, 15);
    }
    return case_('MatMulFpQ4', [floats(r, [r.int(1, 4), depth]), {type: 'uint8', shape: [blob.length], data: blob}, ints([depth, columns])], {blk_quant_type: int(kind)}, {constants: [1, 2]});
  },
  QEmbedLayerNormalization: (r) => {
    const [batch, length, hidden, words, places] = [r.int(1, 2), r.int(1, 4), r.int(1, 8), r.int(2, 7), 6], segments = r.chance(0.5), type = bytes(r), table = (...shape) => numbers(r, type, shape);
    const small = () => r.tensor(type, [], 0, 20), scale = () => float(r, 0.01, 0.05), ids = (most) => r.tensor('int32', [batch, length], 0, most);
    const inputs = [ids(words - 1), segments ? ids(1) : null, table(words, hidden), table(places, hidden), segments ? table(2, hidden) : null, table(hidden), table(hidden), r.chance(0.4) ? ids(1) : null,
      scale(), scale(), segments ? scale() : null, scale(), scale(), small(), small(), segments ? small() : null, small(), small()];
    return case_('QEmbedLayerNormalization', inputs, {epsilon: 1e-3}, {outputs: 2, constants: [2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]});
  },
  QMoE: (r) => {
    const bits = r.pick([2, 4, 4, 8]), each = 8 / bits, [rows, hidden, inner, experts] = [r.int(1, 5), 8 * r.int(1, 3), 8 * r.int(1, 3), r.int(1, 4)], kind = r.pick(['relu', 'gelu', 'silu', 'identity', 'swiglu']);
    const block = r.chance(0.3) ? 16 : 0, outer = kind === 'swiglu' ? 2 * inner : inner, zero = r.chance(0.4), blocks = (depth) => (block ? Math.ceil(depth / block) : 0);
    const layer = (n, depth) => r.tensor('uint8', [experts, n, depth / each], 0, 255), scales = (n, depth) => floats(r, block ? [experts, n, blocks(depth)] : [experts, n], 0.01, 0.1);
    const zeros = (n, depth) => (zero ? r.tensor('uint8', block ? [experts, n, Math.ceil(blocks(depth) / each)] : [experts, Math.ceil(n / each)], 0, 255) : null), bias = (n) => (r.chance(0.5) ? floats(r, [experts, n]) : null);
    return case_('QMoE', [floats(r, [rows, hidden]), floats(r, [rows, experts]), layer(outer, hidden), scales(outer, hidden), bias(outer), layer(hidden, inner), scales(hidden, inner), bias(hidden), null, null, null, zeros(outer, hidden), zeros(hidden, inner)],
      {k: int(r.int(1, experts)), activation_type: kind, expert_weight_bits: int(bits), ...(block ? {block_size: int(block)} : {}), ...(kind === 'swiglu' ? {swiglu_fusion: 1n} : {}), ...maybe(r, {normalize_routing_weights: int(r.int(0, 1))})}, {constants: [2, 3, 4, 5, 6, 7, 11, 12]});
  },
  SparseAttention: (r) => {
    const batch = r.int(1, 2), kv = r.int(1, 2), heads = kv * r.int(1, 2), size = 16 * r.int(1, 2), block = 16, blocks = r.int(1, 3), room = block * blocks, rotary = r.chance(0.4);
    const prompt = r.chance(0.5), total = r.int(2, room), length = prompt ? total : 1, layouts = r.pick([1, heads]), rows = [], columns = [];
    for (let l = 0; l < layouts; ++l) {  // each row sees its own block and some before it
      const starts = [0], seen = [];
      for (let i = 0; i < blocks; ++i) {
        for (let j = 0; j <= i; ++j) if (j === i || r.chance(0.5)) seen.push(j);
        starts.push(seen.length);
      }
      rows.push(starts), columns.push(seen);
    }
    const widest = Math.max(...columns.map((c) => c.length)), flat = (lists, n) => Int32Array.from(lists.flatMap((l) => [...l, ...Array(n - l.length).fill(-1)]));
    return case_('SparseAttention', [floats(r, [batch, length, heads * size]), floats(r, [batch, length, kv * size]), floats(r, [batch, length, kv * size]), floats(r, [batch, kv, room, size]), floats(r, [batch, kv, room, size]),
      {type: 'int32', shape: [layouts, blocks + 1], data: flat(rows, blocks + 1)}, {type: 'int32', shape: [layouts, widest], data: flat(columns, widest)}, scalar(total, 'int32'), ints(Array(batch).fill(total), 'int32'),
      rotary ? floats(r, [room, size / 2], -1, 1) : null, rotary ? floats(r, [room, size / 2], -1, 1) : null],
      {num_heads: int(heads), kv_num_heads: int(kv), sparse_block_size: int(block), ...(rotary ? {do_rotary: 1n} : {}), ...maybe(r, {scale: r.real(0.1, 1)})}, {outputs: 3, shared: {1: 3, 2: 4}});  // the cache is written in place
  },
  WordConvEmbedding: (r) => {
    const [count, length, features, size, letters] = [r.int(1, 4), r.int(2, 7), r.int(1, 4), r.int(1, 4), 6], window = r.int(1, length);
    const words = r.tensor('int32', [count, length], 1, letters - 1);
    for (let i = 0; i < count; ++i) words.data.fill(0, i * length + r.int(0, length), (i + 1) * length);
    return case_('WordConvEmbedding', [words, floats(r, [features, 1, window, size]), floats(r, [features]), floats(r, [letters, size])], maybe(r, {embedding_size: int(features), conv_window_size: int(window), char_embedding_size: int(size)}), {constants: [1, 2, 3]});
  },
};
