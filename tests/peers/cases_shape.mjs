// Random cases of operators that move, pick, count or reduce elements.
import {ANY, FLOATS, NUMBERS, count, ints, scalar} from './random.mjs';
import {toArray} from './onnx_file.mjs';

const maybe = (r, attributes) => Object.fromEntries(Object.entries(attributes).filter(() => r.chance(0.6)));
const range = (n) => Array.from({length: n}, (_, i) => i);
const signed = (r, axis, rank) => (r.chance(0.4) ? axis - rank : axis);

function indexTensor(r, shape, dim, negative = true) {
  const type = r.pick(['int32', 'int64']);
  return {type, shape, data: toArray(type, Array.from({length: count(shape)}, () => r.int(negative ? -dim : 0, dim - 1)))};
}

const reduction = (op, types) => (r) => {
  const shape = r.chance(0.1) ? r.shape(0, 4) : r.fullShape(0, 4), rank = shape.length;
  const axes = r.subset(range(rank)).map((a) => signed(r, a, rank));
  const asInput = r.chance(0.5) || op === 'ReduceSum';
  const inputs = [r.tensor(r.pick(types), shape, 0.1, 3)], attributes = {};
  if (r.chance(0.7)) attributes.keepdims = BigInt(r.int(0, 1));
  if (asInput) {
    if (axes.length || r.chance(0.3)) inputs.push(ints(axes));
    if (r.chance(0.3)) attributes.noop_with_empty_axes = BigInt(r.int(0, 1));
  } else if (axes.length) {
    attributes.axes = {ints: axes};
  }
  const opset = op === 'ReduceSum' ? r.int(13, 18) : asInput ? r.int(18, 20) : r.int(13, 17);
  return {op, opset, outputs: 1, inputs, attributes, constants: r.chance(0.5) ? [1] : []};
};

const arg = (op) => (r) => {
  const shape = r.fullShape(1, 4);
  return {op, opset: r.int(12, 13), outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64', 'int32', 'int8', 'uint8']), shape, -2, 2)],
    attributes: maybe(r, {axis: BigInt(r.axis(shape.length)), keepdims: BigInt(r.int(0, 1)), select_last_index: BigInt(r.int(0, 1))})};
};

const softmax = (op) => (r) => {
  const shape = r.shape(1, 4);
  return {op, opset: r.pick([9, 11, 13]), outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64', 'float16']), shape, -9, 9)],
    attributes: maybe(r, {axis: BigInt(r.int(0, shape.length - 1))})};
};

export const shapes = {
  ReduceSum: reduction('ReduceSum', ['float32', 'float64', 'int32', 'int64']), ReduceMean: reduction('ReduceMean', ['float32', 'float64', 'int32']),
  ReduceMax: reduction('ReduceMax', ['float32', 'float64', 'int32', 'int64', 'int8', 'uint8']),
  ReduceMin: reduction('ReduceMin', ['float32', 'float64', 'int32', 'int64', 'int8', 'uint8']),
  ReduceProd: reduction('ReduceProd', ['float32', 'int32', 'int64']), ReduceL1: reduction('ReduceL1', ['float32', 'int32']),
  ReduceL2: reduction('ReduceL2', ['float32', 'int32']), ReduceSumSquare: reduction('ReduceSumSquare', ['float32', 'float64', 'int32']),
  ReduceLogSum: reduction('ReduceLogSum', ['float32']), ReduceLogSumExp: reduction('ReduceLogSumExp', ['float32', 'float64']),
  ArgMax: arg('ArgMax'), ArgMin: arg('ArgMin'), Softmax: softmax('Softmax'), LogSoftmax: softmax('LogSoftmax'), Hardmax: softmax('Hardmax'),
  TopK: (r) => {
    const shape = r.fullShape(1, 4), axis = r.axis(shape.length), dim = shape[(axis + shape.length) % shape.length];
    return {op: 'TopK', opset: 11, outputs: 2, inputs: [r.tensor(r.pick(['float32', 'float64', 'int32', 'int64']), shape, -20, 20), ints([r.int(0, dim)])],
      attributes: {axis: BigInt(axis), ...maybe(r, {largest: BigInt(r.int(0, 1))})}};
  },
  Reshape: (r) => {
    const shape = r.shape(0, 4), total = count(shape), target = r.shuffled(shape);
    if (total > 0 && target.length && r.chance(0.4)) target[r.int(0, target.length - 1)] = -1;
    if (total > 0 && r.chance(0.3)) shape.forEach((d, i) => { if (target[i] === d && r.chance(0.5)) target[i] = 0; });
    if (total > 0 && r.chance(0.3)) target.splice(r.int(0, target.length), 0, 1);
    return {op: 'Reshape', opset: r.int(13, 19), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape), ints(target)]};
  },
  Transpose: (r) => {
    const shape = r.shape(0, 5);
    return {op: 'Transpose', opset: r.int(9, 21), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape)], attributes: r.chance(0.7) && shape.length ? {perm: {ints: r.shuffled(range(shape.length))}} : {}};
  },
  Squeeze: (r) => {
    const shape = r.shape(1, 4).map((d) => (r.chance(0.5) ? 1 : d)), axes = range(shape.length).filter((i) => shape[i] === 1);
    const some = r.subset(axes, 1);
    if (!some.length) return null;
    return {op: 'Squeeze', opset: r.int(13, 21), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape), ...(r.chance(0.7) ? [ints(some.map((a) => signed(r, a, shape.length)))] : [])]};
  },
  Unsqueeze: (r) => {
    const shape = r.shape(0, 3), extra = r.int(1, 2), rank = shape.length + extra, axes = r.shuffled(range(rank)).slice(0, extra);
    return {op: 'Unsqueeze', opset: r.int(13, 21), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape), ints(axes.map((a) => signed(r, a, rank)))]};
  },
  Flatten: (r) => {
    const shape = r.shape(0, 4);
    return {op: 'Flatten', opset: r.int(11, 21), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape)], attributes: maybe(r, {axis: BigInt(r.int(-shape.length, shape.length))})};
  },
  Concat: (r) => {
    const shape = r.shape(1, 4), axis = r.int(0, shape.length - 1), type = r.pick(ANY);
    const inputs = Array.from({length: r.int(1, 4)}, () => r.tensor(type, shape.map((d, i) => (i === axis ? r.int(0, 4) : d))));
    return {op: 'Concat', opset: r.int(11, 13), outputs: 1, inputs, attributes: {axis: BigInt(signed(r, axis, shape.length))}};
  },
  Split: (r) => {
    const shape = r.fullShape(1, 4), axis = r.int(0, shape.length - 1), parts = [];
    for (let left = shape[axis]; left > 0;) { const p = r.int(r.chance(0.1) ? 0 : 1, left); parts.push(p); left -= p; }
    if (parts.length > 6) return null;
    if (r.chance(0.6)) return {op: 'Split', opset: r.int(13, 18), outputs: parts.length, inputs: [r.tensor(r.pick(ANY), shape), ints(parts)], attributes: {axis: BigInt(signed(r, axis, shape.length))}};
    const n = r.int(1, shape[axis]);
    if ((n - 1) * Math.ceil(shape[axis] / n) >= shape[axis]) return null;
    return {op: 'Split', opset: 18, outputs: n, inputs: [r.tensor(r.pick(ANY), shape)], attributes: {axis: BigInt(signed(r, axis, shape.length)), num_outputs: BigInt(n)}};
  },
  Slice: (r) => {
    const shape = r.shape(1, 4), axes = r.subset(range(shape.length), 1), type = r.pick(['int32', 'int64']);
    const bound = (d) => (r.chance(0.1) ? r.pick([-2147483648, 2147483647]) : r.int(-d - 2, d + 2));
    const inputs = [r.tensor(r.pick(ANY), shape), ints(axes.map((a) => bound(shape[a])), type), ints(axes.map((a) => bound(shape[a])), type)];
    if (r.chance(0.8)) {
      inputs.push(ints(axes.map((a) => signed(r, a, shape.length)), type));
      if (r.chance(0.6)) inputs.push(ints(axes.map(() => r.pick([-3, -2, -1, 1, 2, 3])), type));
    } else {
      inputs[1] = ints(range(axes.length).map((a) => bound(shape[a])), type);
      inputs[2] = ints(range(axes.length).map((a) => bound(shape[a])), type);
    }
    return {op: 'Slice', opset: r.int(10, 13), outputs: 1, inputs, constants: r.chance(0.5) ? [1, 2, 3, 4] : []};
  },
  Gather: (r) => {
    const shape = r.fullShape(1, 4), axis = r.int(0, shape.length - 1);
    return {op: 'Gather', opset: r.int(11, 13), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape), indexTensor(r, r.shape(0, 2), shape[axis])], attributes: {axis: BigInt(signed(r, axis, shape.length))}};
  },
  GatherElements: (r) => {
    const shape = r.fullShape(1, 4), axis = r.int(0, shape.length - 1), out = shape.map((d, i) => (i === axis ? r.int(0, 4) : r.int(1, d)));
    return {op: 'GatherElements', opset: r.int(11, 13), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape), indexTensor(r, out, shape[axis])], attributes: {axis: BigInt(signed(r, axis, shape.length))}};
  },
  GatherND: (r) => {
    const shape = r.fullShape(1, 4), batch = r.chance(0.4) ? r.int(0, shape.length - 1) : 0, k = r.int(1, shape.length - batch);
    const outer = [...shape.slice(0, batch), ...r.fullShape(0, 1)];
    if (!outer.length) outer.push(r.int(1, 3));
    const values = range(count(outer)).flatMap(() => range(k).map((j) => r.int(-shape[batch + j], shape[batch + j] - 1)));
    return {op: 'GatherND', opset: r.int(12, 13), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape), {type: 'int64', shape: [...outer, k], data: toArray('int64', values)}], attributes: batch ? {batch_dims: BigInt(batch)} : {}};
  },
  ScatterElements: (r) => {
    const shape = r.fullShape(1, 4), axis = r.int(0, shape.length - 1), out = shape.map((d) => r.int(1, d)), mode = r.pick(['none', 'add', 'mul', 'max', 'min']), type = r.pick(['float32', 'float64', 'int32', 'int64']);
    const index = indexTensor(r, out, shape[axis]);
    if (mode === 'none') {  // the result of repeated indices is not defined
      const inner = count(out.slice(axis + 1));
      index.data = toArray(index.type, range(count(out)).map((i) => Math.floor(i / inner) % out[axis]));
    }
    return {op: 'ScatterElements', opset: r.int(16, 18), outputs: 1, inputs: [r.tensor(type, shape), index, r.tensor(type, out)], attributes: {axis: BigInt(signed(r, axis, shape.length)), ...(mode !== 'none' ? {reduction: mode} : {})}};
  },
  ScatterND: (r) => {
    const shape = r.fullShape(1, 3), k = r.int(1, shape.length), n = r.int(1, 3), mode = r.pick(['add', 'mul', 'max', 'min']), type = r.pick(['float32', 'float64', 'int32', 'int64']);
    const values = range(n).flatMap(() => range(k).map((j) => r.int(-shape[j], shape[j] - 1)));
    return {op: 'ScatterND', opset: r.int(16, 18), outputs: 1, inputs: [r.tensor(type, shape), {type: 'int64', shape: [n, k], data: toArray('int64', values)}, r.tensor(type, [n, ...shape.slice(k)])], attributes: {reduction: mode}};
  },
  Expand: (r) => {
    const shape = r.shape(0, 4);
    return {op: 'Expand', opset: r.int(8, 13), outputs: 1, inputs: [r.tensor(r.pick(ANY), r.broadcastTo(shape)), ints(r.chance(0.3) ? r.broadcastTo(shape) : shape)]};
  },
  Tile: (r) => {
    const shape = r.shape(1, 3);
    return {op: 'Tile', opset: r.int(6, 13), outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64', 'int32', 'int64', 'uint8', 'int8', 'bool']), shape), ints(shape.map(() => r.int(0, 3)))]};
  },
  Pad: (r) => {
    const shape = r.fullShape(1, 4), mode = r.pick(['constant', 'edge', 'reflect', 'wrap']), type = r.pick(['float32', 'float64', 'int32', 'int64', 'uint8', 'int8', 'bool']);
    const axes = r.chance(0.3) ? r.subset(range(shape.length), 1) : null;
    const limit = (a) => (mode === 'reflect' ? shape[a] - 1 : mode === 'wrap' ? shape[a] : 3);
    const pads = (axes ?? range(shape.length)).map((a) => r.int(r.chance(0.2) ? -Math.floor(shape[a] / 2) : 0, limit(a)));
    const ends = (axes ?? range(shape.length)).map((a, i) => r.int(r.chance(0.2) ? -Math.floor((shape[a] - 1) / 2) : 0, limit(a)));
    const inputs = [r.tensor(type, shape), ints([...pads, ...ends])];
    if (axes || (mode === 'constant' && r.chance(0.6))) inputs.push(r.chance(0.7) ? r.tensor(type, []) : null);
    if (axes) inputs.push(ints(axes.map((a) => signed(r, a, shape.length))));
    while (inputs.length && !inputs[inputs.length - 1]) inputs.pop();
    return {op: 'Pad', opset: axes ? 18 : mode === 'wrap' ? 19 : r.int(13, 19), outputs: 1, inputs, attributes: {mode}, constants: r.chance(0.5) ? [1, 2, 3] : []};
  },
  Shape: (r) => {
    const shape = r.shape(0, 4), n = shape.length;
    return {op: 'Shape', opset: 15, outputs: 1, inputs: [r.tensor(r.pick(ANY), shape)], attributes: maybe(r, {start: BigInt(r.int(-n - 1, n + 1)), end: BigInt(r.int(-n - 1, n + 1))})};
  },
  Size: (r) => ({op: 'Size', opset: 13, outputs: 1, inputs: [r.tensor(r.pick(ANY), r.shape())]}),
  DepthToSpace: (r) => {
    const b = r.int(1, 3);
    return {op: 'DepthToSpace', opset: r.int(11, 13), outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64']), [r.int(1, 2), b * b * r.int(1, 2), r.int(1, 3), r.int(1, 3)])], attributes: {blocksize: BigInt(b), ...maybe(r, {mode: r.pick(['DCR', 'CRD'])})}};
  },
  SpaceToDepth: (r) => {
    const b = r.int(1, 3);
    return {op: 'SpaceToDepth', opset: r.int(9, 13), outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64']), [r.int(1, 2), r.int(1, 2), b * r.int(1, 2), b * r.int(1, 3)])], attributes: {blocksize: BigInt(b)}};
  },
  Trilu: (r) => ({op: 'Trilu', opset: 14, outputs: 1, inputs: [r.tensor(r.pick(['float32', 'float64', 'int64']), [...r.fullShape(0, 2), r.int(1, 5), r.int(1, 5)]), ...(r.chance(0.7) ? [scalar(r.int(-5, 5))] : [])], attributes: maybe(r, {upper: BigInt(r.int(0, 1))})}),
  Range: (r) => {
    const type = r.pick(['float32', 'float64', 'int32', 'int64', 'int16']), step = r.pick([-2, -1, 1, 2, 3]), start = r.int(-5, 5);
    return {op: 'Range', opset: 11, outputs: 1, inputs: [scalar(start, type), scalar(start + step * r.int(-1, 5), type), scalar(step, type)]};
  },
  OneHot: (r) => {
    const depth = r.int(1, 5), shape = r.fullShape(0, 2), rank = shape.length + 1, type = r.pick(['float32', 'int64', 'int32']), it = r.pick(['int64', 'int32', 'float32']);
    return {op: 'OneHot', opset: r.int(9, 11), outputs: 1, inputs: [r.tensor(it === 'float32' ? 'int64' : it, shape, -depth, depth - 1), r.chance(0.5) ? scalar(depth) : ints([depth]), r.tensor(type, [2])], attributes: maybe(r, {axis: BigInt(r.axis(rank))})};
  },
  NonZero: (r) => ({op: 'NonZero', opset: r.int(9, 13), outputs: 1, inputs: [r.tensor(r.pick(['float32', 'int32', 'int64', 'bool', 'uint8']), r.shape(0, 4), -1, 1)]}),
  EyeLike: (r) => ({op: 'EyeLike', opset: 9, outputs: 1, inputs: [r.tensor(r.pick(['float32', 'int64', 'int32', 'float64']), r.fullShape(2, 2))], attributes: maybe(r, {k: BigInt(r.int(-3, 3)), dtype: BigInt(r.pick([1, 6, 7, 11]))})}),
  ConstantOfShape: (r) => {
    const type = r.pick(['float32', 'float64', 'int32', 'int64', 'bool', 'uint8', 'float16']);
    return {op: 'ConstantOfShape', opset: r.int(9, 21), outputs: 1, inputs: [ints(r.shape(0, 4))], attributes: r.chance(0.7) ? {value: {tensor: r.tensor(type, [1])}} : {}};
  },
  Compress: (r) => {
    const shape = r.fullShape(1, 3), axis = r.int(0, shape.length - 1), flat = r.chance(0.4);
    const n = flat ? count(shape) : shape[axis];
    return {op: 'Compress', opset: r.int(9, 11), outputs: 1, inputs: [r.tensor(r.pick(ANY), shape), r.tensor('bool', [r.int(1, n)])], attributes: flat ? {} : {axis: BigInt(signed(r, axis, shape.length))}};
  },
  ReverseSequence: (r) => {
    const shape = r.fullShape(2, 4), batch = r.int(0, 1);
    return {op: 'ReverseSequence', opset: 10, outputs: 1, inputs: [r.tensor(r.pick(['float32', 'int64', 'string']), shape), r.tensor('int64', [shape[batch]], 1, shape[1 - batch])], attributes: {batch_axis: BigInt(batch), time_axis: BigInt(1 - batch)}};
  },
  Unique: (r) => {
    const shape = r.fullShape(1, 3);
    return {op: 'Unique', opset: 11, outputs: 4, inputs: [r.tensor(r.pick(['float32', 'int64', 'int8', 'string', 'float64']), shape, -2, 2)], attributes: maybe(r, {sorted: BigInt(r.int(0, 1)), axis: BigInt(r.axis(shape.length))})};
  },
  MatMul: (r) => {
    const batch = r.fullShape(0, 2), [m, k, n] = [r.dim(), r.int(1, 5), r.dim()];
    const a = r.chance(0.15) ? [k] : [...r.broadcastTo(batch), m, k], b = r.chance(0.15) ? [k] : [...r.broadcastTo(batch), k, n];
    const type = r.pick(['float32', 'float64', 'int32', 'int64', 'float32']);
    return {op: 'MatMul', opset: r.int(9, 13), outputs: 1, inputs: [r.tensor(type, a), r.tensor(type, b)], constants: r.chance(0.3) ? [1] : []};
  },
  Gemm: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 5), r.int(1, 5)], ta = r.int(0, 1), tb = r.int(0, 1), type = r.pick(['float32', 'float64']);
    const inputs = [r.tensor(type, ta ? [k, m] : [m, k]), r.tensor(type, tb ? [n, k] : [k, n])];
    if (r.chance(0.7)) inputs.push(r.tensor(type, r.pick([[m, n], [1, n], [m, 1], [n], [1], []])));
    return {op: 'Gemm', opset: r.int(11, 13), outputs: 1, inputs, attributes: {transA: BigInt(ta), transB: BigInt(tb), ...maybe(r, {alpha: r.real(-2, 2), beta: r.real(-2, 2)})}, constants: r.chance(0.3) ? [1, 2] : []};
  },
  MatMulInteger: (r) => {
    const [m, k, n] = [r.int(1, 5), r.int(1, 5), r.int(1, 5)], a = r.pick(['uint8', 'int8']), b = a === 'int8' ? 'int8' : r.pick(['uint8', 'int8']);
    return {op: 'MatMulInteger', opset: 10, outputs: 1, inputs: [r.tensor(a, [m, k], -100, 100), r.tensor(b, [k, n], -100, 100), ...(r.chance(0.5) ? [r.tensor(a, [], 0, 20), r.tensor(b, [], 0, 20)] : [])]};
  },
  Einsum: (r) => {
    const sizes = {i: r.int(1, 4), j: r.int(1, 4), k: r.int(1, 4), b: r.int(1, 3)};
    const equation = r.pick(['ij,jk->ik', 'bij,bjk->bik', 'ij->ji', 'ij->', 'ij,ij->', 'ij,kj->ik', 'i,j->ij', 'bij,kj->bik', 'ij,jk', 'ii->i', 'bii->b', 'bij,bij->bi', 'ij,ij->ij', 'i,i', 'ijk->k']);
    const terms = equation.split('->')[0].split(',');
    const type = r.pick(['float32', 'float64']);
    return {op: 'Einsum', opset: 12, outputs: 1, inputs: terms.map((t) => r.tensor(type, [...t].map((c) => sizes[c]))), attributes: {equation}};
  },
  Det: (r) => { const n = r.int(1, 4); return {op: 'Det', opset: 11, outputs: 1, inputs: [r.tensor('float32', [...r.fullShape(0, 2), n, n])]}; },
};
