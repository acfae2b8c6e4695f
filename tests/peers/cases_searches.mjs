// Random cases of the operators that hold whole models: a small decoder, or an encoder and a decoder, that look at all tokens so
// far and at the input, with random tables. Ties between words are as good as impossible.
import {case_, floats, int, maybe} from './cases_microsoft.mjs';
import {ints} from './random.mjs';

const WIDTH = 4;
const value = (name, type, shape) => ({name, type, shape});
const node = (op, inputs, outputs, attributes = {}) => ({op, inputs, outputs, attributes});
const one = (v) => ints([v], 'int32');
const real = (v) => ({type: 'float32', shape: [1], data: Float32Array.from([v])});
const axes = (...list) => ints(list);

// What the tokens and, for models with an encoder, the input say together: [batch, 1, WIDTH].
const means = (parts, out) => [
  ...parts.map((part, i) => node('ReduceMean', [part], [`mean${i}`], {axes: {ints: [1, 2]}, keepdims: 0n})),
  node('Sum', parts.map((_, i) => `mean${i}`), ['together']), node('Unsqueeze', ['together', 'axis1'], [out]),
];

function gpt(r, words) {
  const past = value('past_0', 'float32', [2, 'batch', 1, 'past', WIDTH]);
  return {graph: {
    inputs: [value('input_ids', 'int32', ['batch', 'length']), value('position_ids', 'int32', ['batch', 'length']), value('attention_mask', 'int32', ['batch', 'total']), past],
    outputs: [value('logits', 'float32', ['batch', 'length', words]), value('present_0', 'float32', [2, 'batch', 1, 'total', WIDTH])],
    constants: {table: floats(r, [words, WIDTH]), places: floats(r, [40, WIDTH]), out: floats(r, [WIDTH, words], -4, 4), axis0: axes(0), axis1: axes(1)},
    nodes: [
      node('Gather', ['table', 'input_ids'], ['word']), node('Gather', ['places', 'position_ids'], ['place']), node('Add', ['word', 'place'], ['x']),
      node('Unsqueeze', ['x', 'axis1'], ['heads']), node('Unsqueeze', ['heads', 'axis0'], ['key']), node('Neg', ['key'], ['negated']), node('Sin', ['negated'], ['value']),
      node('Concat', ['key', 'value'], ['both'], {axis: 0n}), node('Concat', ['past_0', 'both'], ['present_0'], {axis: 3n}),
      node('ReduceMean', ['present_0'], ['mean'], {axes: {ints: [0, 2, 3]}, keepdims: 0n}), node('Unsqueeze', ['mean', 'axis1'], ['seen']),
      node('Cast', ['attention_mask'], ['mask'], {to: 1n}), node('ReduceMean', ['mask'], ['counted'], {axes: {ints: [1]}, keepdims: 1n}), node('Unsqueeze', ['counted', 'axis1'], ['share']),
      node('Add', ['x', 'seen'], ['h']), node('Add', ['h', 'share'], ['hidden']), node('MatMul', ['hidden', 'out'], ['logits']),
    ],
  }};
}

const cache = (name, steps) => value(name, 'float32', ['batch', 1, steps, WIDTH]);
const cross = ['present_key_cross_0', 'present_value_cross_0'], self = ['present_key_self_0', 'present_value_self_0'];
const pasts = [cache('past_key_self_0', 'past'), cache('past_value_self_0', 'past'), cache('past_key_cross_0', 'frames'), cache('past_value_cross_0', 'frames')];
const keysAndValues = (from, [key, val]) => [node('Unsqueeze', [from, 'axis1'], [key]), node('Cos', [key], [val])];

// The encoder's input as [batch, frames, WIDTH]: words times their mask, or features turned.
function reading(r, speech, words) {
  return speech
    ? {inputs: [value('encoder_input_ids', 'float32', ['batch', WIDTH, 'frames'])], constants: {}, nodes: [node('Transpose', ['encoder_input_ids'], ['read'], {perm: {ints: [0, 2, 1]}})]}
    : {inputs: [value('encoder_input_ids', 'int32', ['batch', 'frames']), value('encoder_attention_mask', 'int32', ['batch', 'frames'])], constants: {source: floats(r, [words, WIDTH]), axis2: axes(2)},
      nodes: [node('Gather', ['source', 'encoder_input_ids'], ['all']), node('Cast', ['encoder_attention_mask'], ['mask'], {to: 1n}), node('Unsqueeze', ['mask', 'axis2'], ['column']), node('Mul', ['all', 'column'], ['read'])]};
}

// `scores`: the encoder reads the first tokens as well, and scores what follows them.
function pair(r, words, {speech, scores, hidden}) {
  const {inputs, constants, nodes} = reading(r, speech, words), table = floats(r, [words, WIDTH]), out = floats(r, [WIDTH, words], -4, 4);
  const encoder = {inputs, constants: {...constants, axis1: axes(1)}, nodes: [...nodes, ...keysAndValues('read', cross)], outputs: cross.map((name) => cache(name, 'frames'))};
  if (scores) {
    encoder.inputs.push(value('decoder_input_ids', 'int32', ['batch', 'length']));
    Object.assign(encoder.constants, {table, out});
    encoder.nodes.push(node('Gather', ['table', 'decoder_input_ids'], ['x']), ...keysAndValues('x', self), ...means([...self, ...cross], 'seen'),
      node('Add', ['x', 'seen'], ['h']), node('MatMul', ['h', 'out'], ['logits']), node('Identity', ['read'], ['encoder_hidden_states']));
    encoder.outputs = [value('logits', 'float32', ['batch', 'length', words]), value('encoder_hidden_states', 'float32', ['batch', 'frames', WIDTH]), ...self.map((name) => cache(name, 'length')), ...encoder.outputs];
  }
  const decoder = {
    inputs: [value('input_ids', 'int32', ['batch', 1]), ...(speech ? [] : [value('encoder_attention_mask', 'int32', ['batch', 'frames'])]), ...(hidden && scores ? [value('encoder_hidden_states', 'float32', ['batch', 'frames', WIDTH])] : []), ...pasts],
    outputs: [value('logits', 'float32', ['batch', 1, words]), ...self.map((name) => cache(name, 'total'))],
    constants: {table, out, axis1: axes(1)},
    nodes: [
      node('Gather', ['table', 'input_ids'], ['x']), ...keysAndValues('x', ['key', 'value']), node('Concat', ['past_key_self_0', 'key'], [self[0]], {axis: 2n}), node('Concat', ['past_value_self_0', 'value'], [self[1]], {axis: 2n}),
      ...means([...self, 'past_key_cross_0', 'past_value_cross_0'], 'seen'), node('Add', ['x', 'seen'], ['h']), node('MatMul', ['h', 'out'], ['logits']),
    ],
  };
  return {encoder: {graph: encoder}, decoder: {graph: decoder}};
}

const rules = (r) => maybe(r, {no_repeat_ngram_size: int(r.int(1, 3)), early_stopping: int(r.int(0, 1))});
const mask = (r, shape) => {
  const made = r.tensor('int32', shape, 0, 1), words = shape[shape.length - 1];
  for (let i = 0; i < made.data.length; i += words) made.data.fill(1, i, i + words - 3);  // enough words are left for the beams
  return made;
};

function search(r, op, first, model) {
  const {batch, words, attributes, start} = model, most = start + r.int(2, 7), beams = r.int(1, 3), outputs = op.endsWith('BeamSearch') ? r.int(1, 3) : 1;
  // The peer leaves scores of steps that it did not make as the memory was: with three outputs no sequence ends early.
  const least = outputs === 3 || (!op.endsWith('BeamSearch') && r.chance(0.5)) ? most - 1 : r.chance(0.3) ? r.int(1, most - 1) : 0;
  const inputs = op.endsWith('BeamSearch')
    ? [first, one(most), one(least), one(beams), one(r.int(1, beams)), real(r.chance(0.4) ? r.real(0.3, 2) : 1), r.chance(0.4) ? real(r.real(1, 2)) : null, r.chance(0.3) ? mask(r, [words]) : null, r.chance(0.3) ? mask(r, [batch, words]) : null]
    : [first, one(most), least ? one(least) : null, r.chance(0.4) ? real(r.real(1, 2)) : null, r.chance(0.3) ? mask(r, [words]) : null, r.chance(0.3) ? mask(r, [batch, words]) : null];
  return {inputs, attributes: {eos_token_id: int(r.int(1, words - 1)), pad_token_id: 0n, ...attributes}, outputs};
}

function text(r, low = 1) {
  const batch = r.int(1, 2), length = r.int(1, 4), words = r.int(9, 16);
  return {batch, words, start: length, ids: r.tensor('int32', [batch, length], low, words - 1)};
}
const made = (op, {inputs, attributes, outputs}) => case_(op, inputs, attributes, {outputs});

export const searches = {
  GreedySearch: (r) => {
    const model = text(r), found = search(r, 'GreedySearch', model.ids, {...model, attributes: {decoder: gpt(r, model.words), ...maybe(r, {no_repeat_ngram_size: int(r.int(1, 3))})}});
    return made('GreedySearch', found);
  },
  // So narrow that one word is left to draw from.
  Sampling: (r) => {
    const model = text(r), found = search(r, 'Sampling', model.ids, {...model, attributes: {decoder: gpt(r, model.words), top_p: 1e-6, temperature: r.real(0.5, 2), ...maybe(r, {no_repeat_ngram_size: int(r.int(1, 3))})}});
    return made('Sampling', found);
  },
  BeamSearch: (r) => {
    const kind = r.int(0, 2), model = text(r);
    if (kind === 0) return made('BeamSearch', search(r, 'BeamSearch', model.ids, {...model, attributes: {decoder: gpt(r, model.words), model_type: 0n, ...rules(r)}}));
    const speech = kind === 2, scores = speech || r.chance(0.5), graphs = pair(r, model.words, {speech, scores, hidden: r.chance(0.5)});
    const first = speech ? floats(r, [model.batch, WIDTH, r.int(1, 5)]) : r.tensor('int32', [model.batch, r.int(1, 5)], 0, model.words - 1);
    return made('BeamSearch', search(r, 'BeamSearch', first, {...model, start: 1, attributes: {...graphs, model_type: int(kind), decoder_start_token_id: int(r.int(1, model.words - 1)), ...rules(r)}}));
  },
  WhisperBeamSearch: (r) => {
    const batch = r.int(1, 2), words = r.int(24, 70), length = r.int(1, 4), given = r.chance(0.6), times = r.chance(0.6), begin = r.int(12, 20);
    const graphs = pair(r, words, {speech: true, scores: true, hidden: r.chance(0.5)}), first = floats(r, [batch, WIDTH, r.int(1, 5)]);
    const found = search(r, 'WhisperBeamSearch', first, {batch, words, start: given ? length : 1, attributes: {...graphs, decoder_start_token_id: int(r.int(1, 9)), beginning_timestamp_token_id: int(begin),
      no_timestamps_token_id: int(begin - 1), start_of_lm_token_id: int(begin - 2), translate_token_id: int(begin - 3), transcribe_token_id: int(begin - 4), ...rules(r)}});
    if (times) found.attributes.eos_token_id = 10n;
    while (found.inputs.length < 15) found.inputs.push(null);
    if (given) found.inputs[10] = r.tensor('int32', [batch, length], 1, r.chance(0.5) ? words - 1 : 9);
    if (times) found.inputs[11] = one(1);
    if (r.chance(0.3)) found.inputs[13] = r.tensor('int32', [batch, 2], 1, 9);
    if (r.chance(0.4)) found.inputs[14] = real(r.real(0.5, 2));
    return made('WhisperBeamSearch', found);
  },
};
