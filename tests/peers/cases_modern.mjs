// Random cases of attention, quantised products and the younger image operators.
import {ints, scalar} from './random.mjs';

const maybe = (r, attributes) => Object.fromEntries(Object.entries(attributes).filter(() => r.chance(0.6)));

export const modern = {
  Attention: (r) => {
    const [batch, kv, group, q, k, size, vsize] = [r.int(1, 2), r.int(1, 2), r.int(1, 2), r.int(1, 4), r.int(1, 5), r.int(1, 4) * 2, r.int(1, 4) * 2];
    const heads = kv * group, flat = r.chance(0.4), past = r.chance(0.3) ? r.int(1, 3) : 0, total = past + k;
    const shaped = (h, n, d) => (flat ? [batch, n, h * d] : [batch, h, n, d]);
    const inputs = [r.tensor('float32', shaped(heads, q, size)), r.tensor('float32', shaped(kv, k, size)), r.tensor('float32', shaped(kv, k, vsize))];
    const mask = r.pick([null, [q, total], [1, 1, q, total], [batch, heads, q, total]]);
    inputs.push(mask && r.chance(0.7) ? r.tensor('float32', mask) : null);
    if (past) inputs.push(r.tensor('float32', [batch, kv, past, size]), r.tensor('float32', [batch, kv, past, vsize]));
    while (!inputs[inputs.length - 1]) inputs.pop();
    const attributes = {...(flat ? {q_num_heads: BigInt(heads), kv_num_heads: BigInt(kv)} : {}), ...maybe(r, {is_causal: BigInt(r.int(0, 1)), scale: r.real(0.1, 1), softcap: r.pick([0, 2, 5])})};
    return {op: 'Attention', opset: r.int(23, 24), outputs: past ? 3 : 1, inputs, attributes};
  },
  RotaryEmbedding: (r) => {
    const [batch, heads, seq, half] = [r.int(1, 2), r.int(1, 3), r.int(1, 4), r.int(1, 3)], flat = r.chance(0.4), size = 2 * half;
    const ids = r.chance(0.5), most = 6;
    const inputs = [r.tensor('float32', flat ? [batch, seq, heads * size] : [batch, heads, seq, size]), r.tensor('float32', ids ? [most, half] : [batch, seq, half], -1, 1), r.tensor('float32', ids ? [most, half] : [batch, seq, half], -1, 1)];
    if (ids) inputs.push(r.tensor('int64', [batch, seq], 0, most - 1));
    return {op: 'RotaryEmbedding', opset: 23, outputs: 1, inputs, attributes: {...(flat ? {num_heads: BigInt(heads)} : {}), ...maybe(r, {interleaved: BigInt(r.int(0, 1))})}};
  },
  RMSNormalization: (r) => {
    const shape = r.fullShape(1, 4), axis = r.axis(shape.length), tail = shape.slice((axis + shape.length) % shape.length);
    return {op: 'RMSNormalization', opset: 23, outputs: 1, inputs: [r.tensor('float32', shape), r.tensor('float32', tail)], attributes: {axis: BigInt(axis), epsilon: 1e-2}};
  },
  QLinearMatMul: (r) => {
    const [m, k, n] = [r.int(1, 4), r.int(1, 5), r.int(1, 4)], a = r.pick(['uint8', 'int8']), b = a === 'int8' ? 'int8' : r.pick(['uint8', 'int8']);
    const scale = () => scalar(r.real(0.01, 0.1), 'float32');
    return {op: 'QLinearMatMul', opset: r.pick([10, 21]), outputs: 1, inputs: [r.tensor(a, [m, k], -100, 100), scale(), r.tensor(a, [], 0, 20), r.tensor(b, [k, n], -100, 100), scale(), r.tensor(b, [], 0, 20), scale(), r.tensor(a, [], 0, 20)], constants: [1, 2, 4, 5, 6, 7]};
  },
  QLinearConv: (r) => {
    const group = r.pick([1, 2]), ci = r.int(1, 2), co = group * r.int(1, 2), kernel = [r.int(1, 3), r.int(1, 3)];
    const scale = () => scalar(r.real(0.01, 0.1), 'float32');
    const inputs = [r.tensor('uint8', [1, group * ci, 5, 6], 0, 200), scale(), r.tensor('uint8', [], 0, 50), r.tensor('uint8', [co, ci, ...kernel], 0, 200), scale(), r.tensor('uint8', [], 0, 50), scale(), r.tensor('uint8', [], 0, 50)];
    if (r.chance(0.5)) inputs.push(r.tensor('int32', [co], -500, 500));
    return {op: 'QLinearConv', opset: 10, outputs: 1, inputs, attributes: {kernel_shape: {ints: kernel}, group: BigInt(group), ...maybe(r, {strides: {ints: [r.int(1, 2), r.int(1, 2)]}, pads: {ints: [0, 1, 1, 0].map((p, i) => Math.min(p, kernel[i % 2] - 1))}})}, constants: [1, 2, 3, 4, 5, 6, 7, 8]};
  },
  ConvInteger: (r) => {
    const inputs = [r.tensor('uint8', [1, 2, 5, 5], 0, 200), r.tensor('uint8', [r.int(1, 3), 2, 2, 3], 0, 200)];
    if (r.chance(0.6)) inputs.push(r.tensor('uint8', [], 0, 50));
    return {op: 'ConvInteger', opset: 10, outputs: 1, inputs, attributes: maybe(r, {strides: {ints: [r.int(1, 2), r.int(1, 2)]}, pads: {ints: [1, 0, 0, 1]}})};
  },
  AffineGrid: (r) => {
    const three = r.chance(0.4), n = r.int(1, 2);
    return {op: 'AffineGrid', opset: 20, outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64']), three ? [n, 3, 4] : [n, 2, 3]), ints([n, r.int(1, 2), ...Array.from({length: three ? 3 : 2}, () => r.int(2, 4))])], attributes: maybe(r, {align_corners: BigInt(r.int(0, 1))}), constants: [1]};
  },
  CenterCropPad: (r) => {
    const shape = r.fullShape(1, 4), some = r.chance(0.5) ? r.subset(shape.map((_, i) => i), 1) : null;
    return {op: 'CenterCropPad', opset: 18, outputs: 1, inputs: [r.tensor('float32', shape), ints((some ?? shape).map(() => r.int(1, 7)))], attributes: some ? {axes: {ints: some}} : {}};
  },
  Col2Im: (r) => {
    const image = [r.int(3, 6), r.int(3, 6)], block = [r.int(1, 3), r.int(1, 3)], strides = [r.int(1, 2), r.int(1, 2)], pads = [r.int(0, 1), r.int(0, 1), r.int(0, 1), r.int(0, 1)];
    const l = image.reduce((p, d, i) => p * (Math.floor((d + pads[i] + pads[i + 2] - block[i]) / strides[i]) + 1), 1);
    return {op: 'Col2Im', opset: 18, outputs: 1, inputs: [r.tensor('float32', [1, 2 * block[0] * block[1], l]), ints(image), ints(block)], attributes: {strides: {ints: strides}, pads: {ints: pads}}, constants: [1, 2]};
  },
  Upsample: (r) => ({op: 'Upsample', opset: 9, outputs: 1, inputs: [r.tensor('float32', [1, r.int(1, 2), r.int(1, 4), r.int(1, 4)]), {type: 'float32', shape: [4], data: Float32Array.from([1, 1, r.int(1, 3), r.int(1, 3)])}], attributes: {mode: r.pick(['nearest', 'linear'])}, constants: [1]}),
  MaxUnpool: (r) => {
    const [h, w] = [r.int(1, 3), r.int(1, 3)], picks = r.shuffled(Array.from({length: 4 * h * w}, (_, i) => i)).slice(0, h * w);
    return {op: 'MaxUnpool', opset: 11, outputs: 1, inputs: [r.tensor('float32', [1, 1, h, w]), {type: 'int64', shape: [1, 1, h, w], data: BigInt64Array.from(picks, BigInt)}], attributes: {kernel_shape: {ints: [2, 2]}, strides: {ints: [2, 2]}}};
  },
  DeformConv: (r) => {
    const [k, h, w] = [r.int(1, 2), r.int(3, 5), r.int(3, 5)], oh = h - k + 1, ow = w - k + 1;
    const inputs = [r.tensor('float32', [1, 2, h, w]), r.tensor('float32', [2, 2, k, k]), r.tensor('float32', [1, 2 * k * k, oh, ow], -1, 1)];
    if (r.chance(0.5)) inputs.push(r.tensor('float32', [2]), ...(r.chance(0.5) ? [r.tensor('float32', [1, k * k, oh, ow], 0, 1)] : []));
    return {op: 'DeformConv', opset: 19, outputs: 1, inputs, attributes: {kernel_shape: {ints: [k, k]}}};
  },
  TensorScatter: (r) => {
    const [batch, most, seq, size] = [r.int(1, 2), r.int(4, 6), r.int(1, 3), r.int(1, 3)];
    return {op: 'TensorScatter', opset: 24, outputs: 1, inputs: [r.tensor('float32', [batch, most, size]), r.tensor('float32', [batch, seq, size]), r.tensor('int64', [batch], 0, most - seq)], attributes: {axis: 1n, ...maybe(r, {mode: 'linear'})}};
  },
  Swish: (r) => ({op: 'Swish', opset: 24, outputs: 1, inputs: [r.tensor('float32', r.shape())], attributes: maybe(r, {alpha: r.real(0.2, 2)})}),
};
