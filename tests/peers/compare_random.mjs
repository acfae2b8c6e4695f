// Random cases of every operator that both Ferry and onnxruntime-node have.
//
//   node compare_random.mjs --modules DIR --ferry build/ferry [--cases 20000] [--seed 1] [--only Pad,Slice] [--keep DIR]
//                           [--set standard|microsoft]: the standard's operators, or those that ONNX Runtime contributes
//                           [--record FILE.tar.xz]: the cases both agree on, for tests that run without the peer
//
// DIR is where 'npm install' put the peers (see package.json). Each case becomes a folder as ONNX keeps its own, with the
// peer's outputs as the expected ones; 'ferry test' then runs them all.
import {execFileSync} from 'node:child_process';
import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';

import {classical} from './cases_ml.mjs';
import {elementwise} from './cases_elementwise.mjs';
import {microsoft} from './cases_microsoft.mjs';
import {searches} from './cases_searches.mjs';
import {modern} from './cases_modern.mjs';
import {network} from './cases_network.mjs';
import {shapes} from './cases_shape.mjs';
import {whyDifferent} from './known_differences.mjs';
import {encodeModel, encodeTensor} from './onnx_file.mjs';
import {options} from './options.mjs';
import {Random} from './random.mjs';
import {runCases} from './run_cases.mjs';

const asked = options({modules: '.', ferry: 'build/ferry', cases: '20000', seed: '1', set: 'standard', only: '', keep: '', record: ''});
const ort = createRequire(join(resolve(asked.modules), 'package.json'))('onnxruntime-node');
const sets = {standard: {...elementwise, ...shapes, ...network, ...modern, ...classical}, microsoft: {...microsoft, ...searches}};
if (!sets[asked.set]) throw new Error(`--set is standard or microsoft, not '${asked.set}'`);
const makers = Object.entries(sets[asked.set]).filter(([name]) => !asked.only || asked.only.split(',').includes(name));
const folder = asked.keep ? resolve(asked.keep) : mkdtempSync(join(tmpdir(), 'ferry-random-'));
const isFloat = (type) => type.startsWith('float');

const session = {logSeverityLevel: 4, graphOptimizationLevel: 'disabled', intraOpNumThreads: 1};

// The peer's answer, or null when it refuses the case.
async function askPeer(model, node) {
  try {
    const peer = await ort.InferenceSession.create(model, session);
    const feeds = {};
    node.inputs.forEach((input, i) => {
      if (input && !node.constants?.includes(i)) feeds[`in${i}`] = new ort.Tensor(input.type, input.data.slice(), input.shape);
    });
    const fetches = {};
    for (let i = 0; i < node.outputs; ++i) fetches[`out${i}`] = node.shared?.[i] === undefined ? null : feeds[`in${node.shared[i]}`];
    const results = await peer.run(feeds, fetches);
    await peer.release();
    return Array.from({length: node.outputs}, (_, i) => {
      const tensor = results[`out${i}`];
      return {type: tensor.type, shape: [...tensor.dims], data: tensor.data};
    });
  } catch (error) {
    return {refused: String(error.message ?? error)};
  }
}

function writeCase(name, model, node, outputs) {
  const data = join(folder, name, 'test_data_set_0');
  mkdirSync(data, {recursive: true});
  writeFileSync(join(folder, name, 'model.onnx'), model);
  node.inputs.filter((input, i) => input && !node.constants?.includes(i)).forEach((input, i) => writeFileSync(join(data, `input_${i}.pb`), encodeTensor(input)));
  outputs.forEach((output, i) => writeFileSync(join(data, `output_${i}.pb`), encodeTensor(output)));
}

// Both sides round; half precision rounds coarsely.
function tolerance(node, outputs) {
  const types = [...node.inputs.filter(Boolean), ...outputs].map((t) => t.type);
  // Level 4 rounds rows to bytes, where a half may go either way.
  if (node.op === 'MatMulNBits' && node.attributes.accuracy_level === 4n) return {rtol: 2e-2, atol: 0.3};
  // ONNX Runtime rounds the state between steps to bytes.
  if (node.op === 'DynamicQuantizeLSTM') return {rtol: 1e-2, atol: 0.03};
  // Integers of the quantised operators may be off by one where a float lies between two of them.
  if (node.domain && /^(QLinear|QGemm|QuantizeLinear)/.test(node.op)) return {rtol: 1e-3, atol: isFloat(outputs[0].type) ? 2e-5 : 1};
  if (types.includes('float16')) return {rtol: 1e-2, atol: 1e-2};
  if (node.op === 'DFT' || node.op === 'STFT') return {rtol: 1e-3, atol: 2e-4};
  return types.some(isFloat) ? {rtol: 1e-3, atol: 2e-5} : {rtol: 1e-3, atol: 1e-7};
}

// What a case is, in a line: enough to write it down again.
function describe(node) {
  const text = (value) => JSON.stringify(value, (_, v) => (v?.graph ? 'graph' : typeof v === 'bigint' ? Number(v) : ArrayBuffer.isView(v) ? Array.from(v, Number) : v));
  const inputs = node.inputs.map((t) => (t ? `${t.type}[${t.shape}]${t.data.length <= 12 ? text(t.data) : ''}` : '-'));
  return `opset ${node.domainOpset ?? node.opset} ${text(node.attributes ?? {})} ${inputs.join(' ')}`;
}

const described = new Map(), reasons = new Map(), refusals = new Map(), made = new Map(), tolerances = {};
const total = Number(asked.cases);
for (let index = 0; index < total;) {
  const [name, make] = makers[index % makers.length];
  const random = new Random(Number(asked.seed) * 1000003 + index);
  let done = false;
  for (let attempt = 0; attempt < 12 && !done; ++attempt) {
    const node = make(random);
    if (!node) continue;
    const model = encodeModel(node, {withShapes: random.chance(0.7)});
    const outputs = await askPeer(model, node);
    if (outputs.refused) {
      if (process.env.SHOW_REFUSALS) console.error(name, outputs.refused.slice(0, 200));
      refusals.set(name, (refusals.get(name) ?? 0) + 1);
      continue;
    }
    const label = `${name}_${String(index).padStart(6, '0')}`;
    writeCase(label, model, node, outputs);
    tolerances[label] = tolerance(node, outputs);
    described.set(label, describe(node));
    reasons.set(label, whyDifferent(node));
    made.set(name, (made.get(name) ?? 0) + 1);
    done = true;
  }
  ++index;
}
writeFileSync(join(folder, 'tolerances.json'), JSON.stringify(tolerances));

const lines = runCases(asked.ferry, folder);
const explained = new Map();
let unexplained = 0;
for (const line of lines.filter((l) => l.startsWith('failed '))) {
  const label = line.split(' ')[1].replace(/:$/, ''), reason = reasons.get(label);
  if (reason) {
    const key = `${label.replace(/_\d+$/, '')}: ${reason}`;
    explained.set(key, (explained.get(key) ?? 0) + 1);
  } else {
    ++unexplained;
    console.log(`${line}\n    ${described.get(label)}`);
  }
}
if (asked.record) {
  for (const line of lines.filter((l) => l.startsWith('failed '))) rmSync(join(folder, line.split(' ')[1].replace(/:$/, '')), {recursive: true});
  execFileSync('tar', ['-C', folder, '--transform', 's,^\\.,peers-random,', '--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '-cJf', resolve(asked.record), '.']);
}
const differences = [...explained.values()].reduce((a, b) => a + b, 0);
console.log(`\n${differences} known differences:`);
for (const [key, times] of [...explained].sort()) console.log(`${String(times).padStart(6)} ${key}`);
console.log(`operators: ${made.size}; cases the peer refused: ${[...refusals.values()].reduce((a, b) => a + b, 0)}`);
const never = makers.map(([name]) => name).filter((name) => !made.has(name));
if (never.length) console.log(`refused by the peer every time: ${never.join(' ')}`);
if (!asked.keep) rmSync(folder, {recursive: true});
console.log(`${lines.length - unexplained} passed, ${unexplained} failed`);
process.exit(unexplained ? 1 : 0);
