// Where Ferry and onnxruntime-node 1.30 answer differently, and why Ferry's answer stands. A case that matches none of
// these is a fault in one of the two that nobody has looked at yet.

const attribute = (node, name, otherwise) => node.attributes?.[name] ?? otherwise;
const samePads = (node) => String(attribute(node, 'auto_pad', '')).startsWith('SAME');
const hasNan = (tensor) => tensor?.type.startsWith('float') && Array.from(tensor.data).some(Number.isNaN);
const transform = (node) => attribute(node, 'post_transform', 'NONE');
const oneRowForTwoClasses = (node) => node.attributes.intercepts.floats.length === 1;
const classCount = (node) => (node.attributes.classlabels_int64s?.ints ?? node.attributes.classlabels_ints?.ints ?? node.attributes.classlabels_strings.strings).length;
const votesTwice = (node) => {
  const seen = new Set(), {target_treeids: trees, target_nodeids: ids, target_ids: targets} = node.attributes;
  return trees.ints.some((tree, i) => {
    const key = `${tree} ${ids.ints[i]} ${targets.ints[i]}`;
    return seen.has(key) || !seen.add(key);
  });
};

const REDUCTIONS = ['Sum', 'Mean', 'Max', 'Min', 'Prod', 'L1', 'L2', 'SumSquare', 'LogSum', 'LogSumExp'].map((name) => `Reduce${name}`);

export const known = [
  {op: 'OneHot', when: (node) => node.opset < 11, reason: 'before opset 11 a negative index is outside [0, depth) and gives off_value; the peer counts from the end'},
  {op: 'NonZero', when: (node) => node.inputs[0].shape.length === 0, reason: 'the text gives a scalar the output shape (0, N); the peer gives (1, N), as numpy does'},
  {op: 'STFT', when: (node) => node.inputs[0].shape[2] === 2, reason: 'the peer reads past the window for complex signals; its answers change from run to run'},
  {op: 'Gather', when: (node) => node.inputs[0].type === 'string', reason: 'the peer copies one string of each block and leaves the others empty'},
  {op: 'Pad', when: (node) => attribute(node, 'mode') === 'wrap' && [...node.inputs[1].data].some((pad) => pad < 0), reason: 'wrap takes the data tensor as a torus by the text; the peer crops it by the negative pads first'},
  {op: 'ConvTranspose', when: samePads, reason: 'with auto_pad SAME the output is input · stride by the text; the peer falls short when the kernel is smaller than the stride'},
  ...['AveragePool', 'LpPool', 'MaxPool'].map((op) => ({op, when: samePads, reason: 'auto_pad SAME never crops; the peer computes a negative padding when the kernel is smaller than the stride'})),
  {op: 'Cast', when: (node) => node.attributes.to === 8n && node.inputs[0].type.startsWith('float'), reason: 'the shortest text that reads back as the same number, with a point, as numpy writes it; the peer writes eight digits'},
  {op: 'Cast', when: (node) => node.attributes.to === 8n && node.inputs[0].type === 'bool', reason: "the standard's reference writes True and False; the peer writes 1 and 0"},
  {op: 'Resize', when: (node) => attribute(node, 'coordinate_transformation_mode') === 'align_corners' && node.inputs[2], reason: "with scales, the standard's own cases keep the fractional length; the peer rounds it down"},
  {op: 'Resize', when: (node) => attribute(node, 'mode') === 'nearest' && ['floor', 'ceil'].includes(attribute(node, 'nearest_mode')), reason: 'a coordinate on the edge between two elements: 1.5 / 0.6 - 0.5 is 2 only when rounded to a float; the text names no precision'},
  {op: 'Resize', when: (node) => attribute(node, 'antialias'), reason: 'the peer does nothing along an axis whose size stays the same, whatever its scale'},
  {op: 'LSTM', when: (node) => attribute(node, 'clip') !== undefined, reason: 'clip is applied to the input of every activation by the text; the peer leaves out the last one, of the cell state'},
  {op: 'LSTM', when: (node) => attribute(node, 'activations')?.strings.includes('Softplus'), reason: 'the peer overflows in exp for large values'},
  {op: 'Attention', when: (node) => attribute(node, 'is_causal') && node.inputs[4], reason: 'query i attends keys up to i + past_sequence_length by the text; the peer shows later keys as well'},
  {op: 'Slice', when: (node) => Array.from(node.inputs[2].data).some((v) => Number(v) === 2147483647), reason: 'for a negative step the text clamps an end of INT_MAX to the last element, which leaves nothing; the peer runs to the first'},
  {op: 'ReduceProd', when: (node) => node.inputs[0].type.startsWith('int'), reason: 'integers wrap around, as numpy has it; the peer multiplies in floating point and saturates'},
  {op: 'ReduceMean', when: (node) => node.inputs[0].shape.includes(0) && node.inputs[0].type.startsWith('int'), reason: 'the mean of no integers is no integer: refused'},
  ...REDUCTIONS.map((op) => ({op, when: (node) => node.inputs[0].shape.includes(0), reason: 'the peer keeps reduced dimensions of an empty tensor'})),
  {op: 'Softplus', when: () => true, reason: 'the peer overflows in exp for large values'},
  {op: 'InstanceNormalization', when: (node) => node.inputs[0].shape.slice(2).every((d) => d === 1), reason: 'one element is its own mean and gives the bias exactly; the peer rounds on the way'},
  {op: 'LinearRegressor', when: (node) => transform(node) !== 'NONE' && Number(node.attributes.targets) === 1, reason: 'the peer leaves post_transform out when there is one target'},
  {op: 'LinearClassifier', when: oneRowForTwoClasses, reason: "one row for two classes: the standard's reference scores -s and s and transforms both; the peer gives 1 - s and s untransformed"},
  {op: 'SVMClassifier', when: (node) => classCount(node) === 2 && transform(node) === 'SOFTMAX', reason: 'the peer leaves SOFTMAX out for two classes'},
  {op: 'TreeEnsembleClassifier', when: (node) => classCount(node) === 2 && new Set(node.attributes.class_ids.ints).size > 1, reason: 'two classes with votes for both: the peer answers 0 or 1 by the sign of the second score, not the top class'},
  {op: 'TreeEnsembleClassifier', when: (node) => classCount(node) === 2 && transform(node).startsWith('SOFTMAX'), reason: 'the peer leaves SOFTMAX out for two classes'},
  {op: 'TreeEnsembleClassifier', when: (node) => classCount(node) === 2 && transform(node) === 'LOGISTIC', reason: 'the top class is the one with the larger score; the peer holds the score before LOGISTIC against 0.5'},
  {op: 'TreeEnsembleClassifier', when: (node) => classCount(node) === 2 && node.attributes.nodes_modes.strings.every((mode) => mode === 'LEAF'), reason: "votes for the second of two classes only: the first scores 1 - s in the standard's reference; the peer scores 0 when trees are single leaves"},
  {op: 'TreeEnsembleClassifier', when: (node) => hasNan(node.inputs[0]), reason: 'a missing value follows nodes_missing_value_tracks_true by the text; the peer lets NaN satisfy BRANCH_NEQ'},
  {op: 'TreeEnsembleClassifier', when: (node) => classCount(node) > 2, reason: 'a class without votes scores 0 and may be the top class; the peer never picks it'},
  {op: 'TreeEnsembleRegressor', when: (node) => hasNan(node.inputs[0]), reason: 'a missing value follows nodes_missing_value_tracks_true by the text; the peer lets NaN satisfy BRANCH_NEQ'},
  {op: 'TreeEnsembleRegressor', when: votesTwice, reason: 'a leaf may have several votes for one target; the peer takes one of them'},
  {op: 'TreeEnsembleRegressor', when: (node) => node.attributes.base_values, reason: 'base values are added to every target; the peer leaves out targets without votes'},
];

// The same for operators that ONNX Runtime contributes: its own text, or another operator of its own, speaks for Ferry.
const wordsOf = ({data, shape: [count, length]}) => Array.from({length: count}, (_, i) => data.subarray(i * length, (i + 1) * length));
const mayEndEarly = (node) => !node.inputs[2] || node.inputs[2].data[0] < node.inputs[1].data[0] - 1;

export const knownMicrosoft = [
  ...['GreedySearch', 'Sampling'].map((op) => ({op, when: mayEndEarly, reason: 'what follows the end of a text is pad_token_id; where all texts have ended the peer leaves it as the memory was'})),
  {op: 'DecoderMaskedMultiHeadAttention', when: (node) => node.inputs[7]?.data[0] === 0, reason: 'with past_sequence_length 0 the new token stands alone; the peer looks at rows of the cache that hold nothing yet'},
  {op: 'QLinearSoftmax', when: (node) => node.inputs[0].shape[Number(node.attributes.axis)] === 1 || node.inputs[3].data[0] < 1 / 255, reason: 'a probability of 1 is 1 / y_scale, cut off at the end of the type; the peer overflows and gives 0 or 127'},
  {op: 'QMoE', when: (node) => [[3, 11], [6, 12]].some(([scales, zeros]) => node.inputs[zeros]?.shape.length === 3 && node.inputs[scales].shape[2] === 1), reason: 'with one block to a row each row has zero points of its own, in the shape that the peer asks for; it reads them as if rows shared bytes'},
  {op: 'WordConvEmbedding', when: (node) => wordsOf(node.inputs[0]).some((word) => word[0] === 0), reason: 'a word without letters is 0; the peer leaves it as the memory was'},
  {op: 'Attention', when: (node) => node.inputs[3], reason: 'a mask adds −10000 to the scores, as in MultiHeadAttention'},
  {op: 'MultiHeadAttention', when: (node) => node.inputs[4], reason: 'a mask adds −10000 to the scores: where all keys of a query are masked, three digits are left behind the point, and either side rounds its own way'},
  {op: 'MultiHeadAttention', when: (node) => attribute(node, 'unidirectional') && node.inputs[1].shape[1] > node.inputs[0].shape[1], reason: 'a query sees no later key; with more keys than queries the peer shows the last query all of them'},
];

export const whyDifferent = (node) => (node.domain === 'com.microsoft' ? knownMicrosoft : known).find((entry) => entry.op === node.op && entry.when(node))?.reason;
