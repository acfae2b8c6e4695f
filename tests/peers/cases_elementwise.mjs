// Random cases of elementwise operators. Each maker takes a Random and gives a node, or null to try again.
import {ANY, FLOATS, NUMBERS, SIGNED, ints, scalar} from './random.mjs';

const one = (op, types, low = -3, high = 3, attributes = () => ({}), opset = [13, 22]) => (r) => ({
  op, opset: r.int(...opset), attributes: attributes(r), outputs: 1,
  inputs: [r.chance(0.15) && types.every((t) => FLOATS.includes(t)) ? r.special(r.pick(types), r.shape()) : r.tensor(r.pick(types), r.shape(), low, high)],
});

const two = (op, types, low = -3, high = 3, attributes = () => ({}), opset = [13, 22]) => (r) => {
  const type = r.pick(types), shape = r.shape();
  const pair = r.shuffled([shape, r.broadcastTo(shape)]);
  return {op, opset: r.int(...opset), attributes: attributes(r), outputs: 1, inputs: pair.map((s) => r.tensor(type, s, low, high))};
};

const many = (op) => (r) => {
  const type = r.pick(op === 'Max' || op === 'Min' ? NUMBERS : FLOATS), shape = r.shape();
  const inputs = Array.from({length: r.int(1, 4)}, () => r.tensor(type, r.broadcastTo(shape)));
  return {op, opset: 13, outputs: 1, inputs};
};

const maybe = (r, attributes) => Object.fromEntries(Object.entries(attributes).filter(() => r.chance(0.6)));

export const elementwise = {
  Abs: one('Abs', NUMBERS), Neg: one('Neg', SIGNED), Exp: one('Exp', FLOATS), Log: one('Log', FLOATS, 0, 5),
  Sqrt: one('Sqrt', FLOATS, 0, 9), Reciprocal: one('Reciprocal', FLOATS), Floor: one('Floor', FLOATS, -9, 9),
  Ceil: one('Ceil', FLOATS, -9, 9), Round: one('Round', FLOATS, -9, 9), Sign: one('Sign', NUMBERS),
  Sin: one('Sin', FLOATS), Cos: one('Cos', FLOATS), Tan: one('Tan', FLOATS, -1.4, 1.4), Asin: one('Asin', FLOATS, -1, 1),
  Acos: one('Acos', FLOATS, -1, 1), Atan: one('Atan', FLOATS), Sinh: one('Sinh', FLOATS), Cosh: one('Cosh', FLOATS),
  Tanh: one('Tanh', FLOATS), Asinh: one('Asinh', FLOATS), Acosh: one('Acosh', FLOATS, 1, 9),
  Atanh: one('Atanh', FLOATS, -0.99, 0.99), Erf: one('Erf', FLOATS), Sigmoid: one('Sigmoid', FLOATS, -20, 20),
  Relu: one('Relu', [...FLOATS, 'int32', 'int8']), Identity: one('Identity', ANY), Not: one('Not', ['bool']),
  LeakyRelu: one('LeakyRelu', FLOATS, -3, 3, (r) => maybe(r, {alpha: r.real(0, 1)})),
  Elu: one('Elu', FLOATS, -3, 3, (r) => maybe(r, {alpha: r.real(0, 2)})),
  Selu: one('Selu', FLOATS, -3, 3, (r) => maybe(r, {alpha: r.real(0, 2), gamma: r.real(0, 2)})),
  Celu: one('Celu', ['float32'], -3, 3, (r) => maybe(r, {alpha: r.real(0.1, 2)})),
  Softplus: one('Softplus', FLOATS, -30, 30), Softsign: one('Softsign', FLOATS),
  HardSigmoid: one('HardSigmoid', FLOATS, -5, 5, (r) => maybe(r, {alpha: r.real(0, 1), beta: r.real(0, 1)})),
  HardSwish: one('HardSwish', FLOATS, -5, 5, () => ({}), [14, 22]),
  Gelu: one('Gelu', ['float32', 'float64'], -5, 5, (r) => maybe(r, {approximate: r.pick(['none', 'tanh'])}), [20, 22]),
  Mish: one('Mish', FLOATS, -5, 5, () => ({}), [18, 22]),
  ThresholdedRelu: one('ThresholdedRelu', FLOATS, -3, 3, (r) => maybe(r, {alpha: r.real(-1, 2)})),
  Shrink: one('Shrink', [...FLOATS, 'int32', 'uint8'], -5, 5, (r) => maybe(r, {lambd: r.real(0, 3), bias: r.real(0, 2)})),
  IsNaN: (r) => ({op: 'IsNaN', opset: r.int(13, 20), outputs: 1, inputs: [r.special(r.pick(FLOATS), r.shape())]}),
  IsInf: (r) => ({op: 'IsInf', opset: r.int(13, 20), outputs: 1, inputs: [r.special(r.pick(['float32', 'float64']), r.shape())],
    attributes: maybe(r, {detect_positive: BigInt(r.int(0, 1)), detect_negative: BigInt(r.int(0, 1))})}),
  BitwiseNot: one('BitwiseNot', ['int32', 'uint8', 'int64'], -100, 100, () => ({}), [18, 22]),

  Add: two('Add', NUMBERS), Sub: two('Sub', NUMBERS), Mul: two('Mul', NUMBERS),
  Div: (r) => {
    const node = two('Div', NUMBERS)(r);
    const [, b] = node.inputs;
    if (!b.type.startsWith('float') || r.chance(0.8)) b.data.forEach((v, i) => { if (v == 0) b.data[i] = typeof v === 'bigint' ? 1n : b.type === 'float16' ? 0x3c00 : 1; });
    return node;
  },
  Pow: (r) => {
    const shape = r.shape(), a = r.pick(['float32', 'float64', 'int32', 'int64']), b = r.pick(['float32', 'float64', 'int32', 'int64']);
    const base = r.tensor(a, shape, a.startsWith('int') ? 1 : 0.1, 3);
    return {op: 'Pow', opset: r.int(13, 15), outputs: 1, inputs: [base, r.tensor(b, r.broadcastTo(shape), b.startsWith('int') ? 0 : -2, 3)]};
  },
  Mod: (r) => {
    const type = r.pick(NUMBERS), node = two('Mod', [type], -9, 9, () => ({fmod: BigInt(type.startsWith('float') || r.chance(0.5))}))(r);
    node.inputs[1].data.forEach((v, i, d) => { if (v == 0) d[i] = typeof v === 'bigint' ? 2n : type === 'float16' ? 0x4000 : 2; });
    return node;
  },
  PRelu: (r) => {
    const shape = r.shape(1), type = r.pick(['float32', 'float64', 'int32']);
    return {op: 'PRelu', opset: r.int(9, 16), outputs: 1, inputs: [r.tensor(type, shape), r.tensor(type, r.broadcastTo(shape))]};
  },
  Max: many('Max'), Min: many('Min'), Sum: many('Sum'), Mean: many('Mean'),
  Equal: two('Equal', [...ANY], -2, 2), Greater: two('Greater', NUMBERS, -2, 2), Less: two('Less', NUMBERS, -2, 2),
  GreaterOrEqual: two('GreaterOrEqual', NUMBERS, -2, 2, () => ({}), [16, 22]), LessOrEqual: two('LessOrEqual', NUMBERS, -2, 2, () => ({}), [16, 22]),
  And: two('And', ['bool']), Or: two('Or', ['bool']), Xor: two('Xor', ['bool']),
  BitwiseAnd: two('BitwiseAnd', ['int32', 'uint8', 'int64', 'int16'], -100, 100, () => ({}), [18, 22]),
  BitwiseOr: two('BitwiseOr', ['int32', 'uint8', 'int64', 'int16'], -100, 100, () => ({}), [18, 22]),
  BitwiseXor: two('BitwiseXor', ['int32', 'uint8', 'int64', 'int16'], -100, 100, () => ({}), [18, 22]),
  BitShift: two('BitShift', ['uint8', 'uint32', 'uint64'], 0, 7, (r) => ({direction: r.pick(['LEFT', 'RIGHT'])}), [11, 22]),
  Where: (r) => {
    const shape = r.shape(), type = r.pick(ANY);
    return {op: 'Where', opset: r.int(9, 16), outputs: 1, inputs: [r.tensor('bool', r.broadcastTo(shape)), r.tensor(type, r.broadcastTo(shape)), r.tensor(type, r.broadcastTo(shape))]};
  },
  Clip: (r) => {
    const type = r.pick(['float32', 'float64', 'float16', 'int8', 'uint8', 'int64', 'int32', 'uint32', 'uint64']);
    const bound = (low, high) => (r.chance(0.3) ? null : r.tensor(type, [], low, high));
    return {op: 'Clip', opset: r.int(12, 13), outputs: 1, inputs: [r.tensor(type, r.shape(), -9, 9), bound(-4, 0), bound(1, 5)]};
  },
  Cast: (r) => {
    const from = r.pick(ANY), to = r.pick(ANY), numbers = {float32: 1, uint8: 2, int8: 3, uint16: 4, int16: 5, int32: 6, int64: 7, string: 8, bool: 9, float16: 10, float64: 11, uint32: 12, uint64: 13};
    const input = r.tensor(from, r.shape(), to.startsWith('u') ? 0 : -100, 100);
    if (from === 'string') input.data = input.data.map(() => String(to.startsWith('float') ? r.pick(['1.5', '-2e3', 'NaN', '3']) : r.int(0, 99)));
    return {op: 'Cast', opset: r.int(13, 21), outputs: 1, inputs: [input], attributes: {to: BigInt(numbers[to])}};
  },
  Dropout: (r) => ({op: 'Dropout', opset: 13, outputs: 1, inputs: [r.tensor(r.pick(FLOATS), r.shape()), ...(r.chance(0.5) ? [scalar(r.real(0, 0.9), 'float32')] : [])]}),
  QuantizeLinear: (r) => {
    const shape = r.fullShape(1, 4), axis = r.axis(shape.length), perAxis = r.chance(0.5), type = r.pick(['uint8', 'int8']);
    const scales = perAxis ? [shape[(axis + shape.length) % shape.length]] : [];
    const inputs = [r.tensor('float32', shape, -50, 50), r.tensor('float32', scales, 0.05, 0.5)];
    if (r.chance(0.7)) inputs.push(r.tensor(type, scales, 0, 50));
    return {op: 'QuantizeLinear', opset: r.int(13, 21), outputs: 1, attributes: {axis: BigInt(axis)}, inputs};
  },
  DequantizeLinear: (r) => {
    const shape = r.fullShape(1, 4), axis = r.axis(shape.length), perAxis = r.chance(0.5), type = r.pick(['uint8', 'int8', 'int32']);
    const scales = perAxis ? [shape[(axis + shape.length) % shape.length]] : [];
    const inputs = [r.tensor(type, shape, -100, 100), r.tensor('float32', scales, 0.05, 0.5)];
    if (type !== 'int32' && r.chance(0.7)) inputs.push(r.tensor(type, scales, 0, 50));
    return {op: 'DequantizeLinear', opset: r.int(13, 21), outputs: 1, attributes: {axis: BigInt(axis)}, inputs};
  },
  DynamicQuantizeLinear: (r) => ({op: 'DynamicQuantizeLinear', opset: 11, outputs: 3, inputs: [r.tensor('float32', r.fullShape(1, 3), -9, 9)]}),
  CumSum: (r) => {
    const shape = r.shape(1), type = r.pick(['float32', 'float64', 'int32', 'int64']);
    return {op: 'CumSum', opset: r.int(11, 14), outputs: 1, inputs: [r.tensor(type, shape), scalar(r.axis(shape.length), r.pick(['int32', 'int64']))],
      attributes: maybe(r, {exclusive: BigInt(r.int(0, 1)), reverse: BigInt(r.int(0, 1))})};
  },
};
