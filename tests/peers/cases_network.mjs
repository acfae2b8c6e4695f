// Random cases of the operators networks are made of.
import {count, ints, scalar} from './random.mjs';

const maybe = (r, attributes) => Object.fromEntries(Object.entries(attributes).filter(() => r.chance(0.6)));
const list = (n, make) => ({ints: Array.from({length: n}, make)});

function window(r, spatial, kernel, {dilations = true} = {}) {
  const attributes = {kernel_shape: {ints: kernel}};
  if (r.chance(0.6)) attributes.strides = list(spatial, () => r.int(1, 3));
  if (dilations && r.chance(0.4)) attributes.dilations = list(spatial, () => r.int(1, 2));
  const auto = r.chance(0.2) ? r.pick(['SAME_UPPER', 'SAME_LOWER', 'VALID']) : 'NOTSET';
  if (auto !== 'NOTSET') {
    attributes.auto_pad = auto;
    if (auto !== 'VALID') delete attributes.dilations;
  } else if (r.chance(0.6)) {
    attributes.pads = {ints: [...kernel, ...kernel].map((k) => r.int(0, k - 1))};
  }
  return attributes;
}

const conv = (op) => (r) => {
  const spatial = r.int(1, 3), group = r.pick([1, 1, 2, 3]), inner = r.int(1, 3), outer = r.int(1, 3), type = r.pick(['float32', 'float32', 'float64']);
  const kernel = Array.from({length: spatial}, () => r.int(1, 3)), x = [r.int(1, 2), group * inner, ...Array.from({length: spatial}, () => r.int(5, 8))];
  const w = op === 'Conv' ? [group * outer, inner, ...kernel] : [group * inner, outer, ...kernel];
  const attributes = {...window(r, spatial, kernel), group: BigInt(group)};
  if (op === 'ConvTranspose' && attributes.strides && r.chance(0.3)) attributes.output_padding = {ints: attributes.strides.ints.map((s) => r.int(0, s - 1))};
  const inputs = [r.tensor(type, x), r.tensor(type, w)];
  if (r.chance(0.5)) inputs.push(r.tensor(type, [group * outer]));
  return {op, opset: 11, outputs: 1, inputs, attributes, constants: r.chance(0.5) ? [1, 2] : []};
};

const pool = (op) => (r) => {
  const spatial = r.int(1, 3), kernel = Array.from({length: spatial}, () => r.int(1, 3));
  const attributes = window(r, spatial, kernel, {dilations: op !== 'LpPool'});
  const opset = op === 'LpPool' ? r.int(11, 18) : op === 'AveragePool' ? 19 : 12;
  if (op === 'LpPool') Object.assign(attributes, maybe(r, {p: BigInt(r.int(1, 3))}));
  else if (!attributes.auto_pad) Object.assign(attributes, maybe(r, {ceil_mode: BigInt(r.int(0, 1))}));
  if (op === 'AveragePool') Object.assign(attributes, maybe(r, {count_include_pad: BigInt(r.int(0, 1))}));
  const wants = op === 'MaxPool' && r.chance(0.5) ? 2 : 1;
  return {op, opset, outputs: wants, inputs: [r.tensor(r.pick(['float32', 'float32', 'float64']), [r.int(1, 2), r.int(1, 2), ...Array.from({length: spatial}, () => r.int(6, 9))])], attributes};
};

const globalPool = (op) => (r) => ({op, opset: op === 'GlobalLpPool' ? 2 : 1, outputs: 1, inputs: [r.tensor('float32', r.fullShape(3, 5))], attributes: op === 'GlobalLpPool' ? maybe(r, {p: BigInt(r.int(1, 3))}) : {}});

const recurrent = (op, gates) => (r) => {
  const [seq, batch, size, hidden] = [r.int(1, 4), r.int(1, 3), r.int(1, 4), r.int(1, 4)];
  const direction = r.pick(['forward', 'reverse', 'bidirectional']), d = direction === 'bidirectional' ? 2 : 1;
  const inputs = [r.tensor('float32', [seq, batch, size], -1, 1), r.tensor('float32', [d, gates * hidden, size], -1, 1), r.tensor('float32', [d, gates * hidden, hidden], -1, 1)];
  inputs.push(r.chance(0.6) ? r.tensor('float32', [d, 2 * gates * hidden], -1, 1) : null);
  inputs.push(r.chance(0.4) ? r.tensor('int32', [batch], 1, seq) : null);
  inputs.push(r.chance(0.5) ? r.tensor('float32', [d, batch, hidden], -1, 1) : null);
  if (op === 'LSTM') {
    inputs.push(r.chance(0.5) ? r.tensor('float32', [d, batch, hidden], -1, 1) : null);
    inputs.push(r.chance(0.3) ? r.tensor('float32', [d, 3 * hidden], -1, 1) : null);
  }
  while (!inputs[inputs.length - 1]) inputs.pop();
  const attributes = {hidden_size: BigInt(hidden), direction};
  const perDirection = {RNN: 1, GRU: 2, LSTM: 3}[op];
  if (r.chance(0.4)) attributes.activations = {strings: Array.from({length: perDirection * d}, () => r.pick(['Tanh', 'Sigmoid', 'Relu', 'Softsign', 'Softplus']))};
  if (r.chance(0.2)) attributes.clip = r.real(0.2, 1);
  if (op === 'GRU' && r.chance(0.5)) attributes.linear_before_reset = BigInt(r.int(0, 1));
  if (op === 'LSTM' && r.chance(0.2)) attributes.input_forget = 1n;
  return {op, opset: r.int(7, 14), outputs: op === 'LSTM' ? 3 : 2, inputs, attributes};
};

export const network = {
  Conv: conv('Conv'), ConvTranspose: conv('ConvTranspose'), MaxPool: pool('MaxPool'), AveragePool: pool('AveragePool'), LpPool: pool('LpPool'),
  GlobalAveragePool: globalPool('GlobalAveragePool'), GlobalMaxPool: globalPool('GlobalMaxPool'), GlobalLpPool: globalPool('GlobalLpPool'),
  RNN: recurrent('RNN', 1), GRU: recurrent('GRU', 3), LSTM: recurrent('LSTM', 4),
  BatchNormalization: (r) => {
    const shape = r.fullShape(2, 5), c = [shape[1]], type = r.pick(['float32', 'float64']);
    return {op: 'BatchNormalization', opset: r.int(9, 15), outputs: 1, inputs: [r.tensor(type, shape), r.tensor(type, c), r.tensor(type, c), r.tensor(type, c), r.tensor(type, c, 0.2, 3)], attributes: maybe(r, {epsilon: r.real(1e-5, 1e-2)})};
  },
  InstanceNormalization: (r) => {
    const shape = r.fullShape(3, 5), c = [shape[1]];
    return {op: 'InstanceNormalization', opset: 6, outputs: 1, inputs: [r.tensor('float32', shape), r.tensor('float32', c), r.tensor('float32', c)], attributes: maybe(r, {epsilon: r.real(1e-3, 1e-2)})};
  },
  LayerNormalization: (r) => {
    const shape = r.fullShape(1, 4), axis = r.axis(shape.length), tail = shape.slice((axis + shape.length) % shape.length), type = r.pick(['float32', 'float64']);
    const inputs = [r.tensor(type, shape), r.tensor(type, tail)];
    if (r.chance(0.6)) inputs.push(r.tensor(type, tail));
    return {op: 'LayerNormalization', opset: 17, outputs: 1, inputs, attributes: {axis: BigInt(axis), epsilon: 1e-2}};
  },
  GroupNormalization: (r) => {
    const groups = r.int(1, 3), c = groups * r.int(1, 2);
    return {op: 'GroupNormalization', opset: 21, outputs: 1, inputs: [r.tensor('float32', [r.int(1, 2), c, ...r.fullShape(1, 2)]), r.tensor('float32', [c]), r.tensor('float32', [c])], attributes: {num_groups: BigInt(groups), epsilon: 1e-2}};
  },
  LpNormalization: (r) => { const shape = r.fullShape(1, 4); return {op: 'LpNormalization', opset: r.pick([1, 22]), outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64']), shape, 0.5, 3)], attributes: maybe(r, {axis: BigInt(r.axis(shape.length)), p: BigInt(r.int(1, 2))})}; },
  LRN: (r) => ({op: 'LRN', opset: r.int(1, 13), outputs: 1, inputs: [r.tensor('float32', [r.int(1, 2), r.int(1, 6), r.int(1, 3), r.int(1, 3)])], attributes: {size: BigInt(r.pick([1, 3, 5])), ...maybe(r, {alpha: r.real(0, 1), beta: r.real(0.1, 1), bias: r.real(0.5, 2)})}}),
  MeanVarianceNormalization: (r) => ({op: 'MeanVarianceNormalization', opset: r.int(9, 13), outputs: 1, inputs: [r.tensor('float32', [r.int(2, 3), r.int(1, 3), r.int(2, 4), r.int(2, 4)])], attributes: maybe(r, {axes: {ints: r.pick([[0, 2, 3], [2, 3], [0, 1, 2, 3]])}})}),
  Resize: (r) => {
    const shape = [1, r.int(1, 2), r.int(2, 5), r.int(2, 5)], mode = r.pick(['nearest', 'linear', 'cubic']);
    const attributes = {mode, coordinate_transformation_mode: r.pick(['half_pixel', 'asymmetric', 'align_corners', 'pytorch_half_pixel', 'half_pixel_symmetric'])};
    if (mode === 'nearest') attributes.nearest_mode = r.pick(['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil']);
    if (mode === 'cubic') Object.assign(attributes, maybe(r, {cubic_coeff_a: r.real(-1, -0.3), exclude_outside: BigInt(r.int(0, 1))}));
    if (mode !== 'nearest' && r.chance(0.3)) attributes.antialias = 1n;
    const opset = attributes.antialias ? r.int(18, 19) : attributes.coordinate_transformation_mode === 'half_pixel_symmetric' ? 19 : r.int(13, 19);
    const inputs = [r.tensor('float32', shape), null];
    if (r.chance(0.5)) inputs.push({type: 'float32', shape: [4], data: Float32Array.from([1, 1, r.pick([0.5, 0.6, 1, 1.5, 2, 2.7]), r.pick([0.5, 0.8, 1, 1.3, 2, 3])])});
    else inputs.push(null, ints([1, shape[1], r.int(1, 9), r.int(1, 9)]));
    return {op: 'Resize', opset, outputs: 1, inputs, attributes, constants: [2, 3]};
  },
  GridSample: (r) => ({op: 'GridSample', opset: r.pick([16, 20]), outputs: 1, inputs: [r.tensor('float32', [1, r.int(1, 2), r.int(2, 5), r.int(2, 5)]), r.tensor('float32', [1, r.int(1, 4), r.int(1, 4), 2], -1.3, 1.3)],
    attributes: maybe(r, {padding_mode: r.pick(['zeros', 'border', 'reflection']), align_corners: BigInt(r.int(0, 1))})}),
  RoiAlign: (r) => {
    const rois = r.int(1, 3), boxes = [];
    for (let i = 0; i < rois; ++i) { const [x, y] = [r.real(0, 4), r.real(0, 4)]; boxes.push(x, y, x + r.real(1, 4), y + r.real(1, 4)); }
    return {op: 'RoiAlign', opset: r.pick([10, 16]), outputs: 1, inputs: [r.tensor('float32', [2, 2, 8, 8]), {type: 'float32', shape: [rois, 4], data: Float32Array.from(boxes)}, r.tensor('int64', [rois], 0, 1)],
      attributes: maybe(r, {mode: r.pick(['avg', 'max']), output_height: BigInt(r.int(1, 3)), output_width: BigInt(r.int(1, 3)), sampling_ratio: BigInt(r.int(0, 3)), spatial_scale: r.pick([0.5, 1])})};
  },
  NonMaxSuppression: (r) => {
    const boxes = r.int(1, 6), data = [];
    for (let i = 0; i < boxes; ++i) { const [x, y] = [r.real(0, 5), r.real(0, 5)]; data.push(y, x, y + r.real(1, 5), x + r.real(1, 5)); }
    const inputs = [{type: 'float32', shape: [1, boxes, 4], data: Float32Array.from(data)}, r.tensor('float32', [1, r.int(1, 2), boxes], 0, 1), scalar(r.int(0, 4)), scalar(r.real(0, 1), 'float32')];
    if (r.chance(0.5)) inputs.push(scalar(r.real(0, 0.8), 'float32'));
    return {op: 'NonMaxSuppression', opset: r.int(10, 11), outputs: 1, inputs};
  },
  MaxRoiPool: (r) => ({op: 'MaxRoiPool', opset: 1, outputs: 1, inputs: [r.tensor('float32', [1, 2, 7, 7]), {type: 'float32', shape: [1, 5], data: Float32Array.from([0, r.int(0, 3), r.int(0, 3), r.int(3, 6), r.int(3, 6)])}], attributes: {pooled_shape: {ints: [r.int(1, 3), r.int(1, 3)]}}}),
  DFT: (r) => {
    const shape = [r.int(1, 2), r.int(1, 20), r.int(1, 5)], parts = r.int(1, 2), inverse = r.int(0, 1), onesided = !inverse && parts === 1 ? r.int(0, 1) : 0;
    return {op: 'DFT', opset: 20, outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64']), [...shape, parts]), r.chance(0.4) ? scalar(r.int(1, 24)) : null, scalar(r.pick([1, 2, -2, -3]))], attributes: {inverse: BigInt(inverse), onesided: BigInt(onesided)}, constants: [1, 2]};
  },
  STFT: (r) => {
    const frame = r.int(2, 16), parts = r.chance(0.7) ? 1 : 2, type = r.pick(['float32', 'float64']);
    const inputs = [r.tensor(type, [r.int(1, 2), frame + r.int(0, 20), parts]), scalar(r.int(1, 8)), r.chance(0.6) ? r.tensor(type, [frame], 0, 1) : null, scalar(frame)];
    return {op: 'STFT', opset: 17, outputs: 1, inputs, attributes: {onesided: BigInt(parts === 1 ? r.int(0, 1) : 0)}, constants: [1, 3]};
  },
  HannWindow: (r) => ({op: 'HannWindow', opset: 17, outputs: 1, inputs: [scalar(r.int(2, 20))], attributes: maybe(r, {periodic: BigInt(r.int(0, 1)), output_datatype: BigInt(r.pick([1, 11]))})}),
  HammingWindow: (r) => ({op: 'HammingWindow', opset: 17, outputs: 1, inputs: [scalar(r.int(2, 20))], attributes: maybe(r, {periodic: BigInt(r.int(0, 1)), output_datatype: BigInt(r.pick([1, 11]))})}),
  BlackmanWindow: (r) => ({op: 'BlackmanWindow', opset: 17, outputs: 1, inputs: [scalar(r.int(2, 20))], attributes: maybe(r, {periodic: BigInt(r.int(0, 1)), output_datatype: BigInt(r.pick([1, 11]))})}),
  MelWeightMatrix: (r) => ({op: 'MelWeightMatrix', opset: 17, outputs: 1, inputs: [scalar(r.int(1, 10)), scalar(r.int(8, 64)), scalar(8000), scalar(r.real(0, 500), 'float32'), scalar(r.real(1000, 3900), 'float32')]}),
  SoftmaxCrossEntropyLoss: (r) => {
    const c = r.int(2, 4), n = r.int(1, 4), rest = r.fullShape(0, 2), inputs = [r.tensor('float32', [n, c, ...rest]), r.tensor('int64', [n, ...rest], 0, c - 1)];
    if (r.chance(0.5)) inputs.push(r.tensor('float32', [c], 0.1, 2));
    return {op: 'SoftmaxCrossEntropyLoss', opset: 13, outputs: r.int(1, 2), inputs, attributes: maybe(r, {reduction: r.pick(['none', 'sum', 'mean']), ignore_index: BigInt(r.int(0, c - 1))})};
  },
  NegativeLogLikelihoodLoss: (r) => {
    const c = r.int(2, 4), n = r.int(1, 4), rest = r.fullShape(0, 2), inputs = [r.tensor('float32', [n, c, ...rest]), r.tensor('int64', [n, ...rest], 0, c - 1)];
    if (r.chance(0.5)) inputs.push(r.tensor('float32', [c], 0.1, 2));
    return {op: 'NegativeLogLikelihoodLoss', opset: 13, outputs: 1, inputs, attributes: maybe(r, {reduction: r.pick(['none', 'sum', 'mean'])})};
  },
};
