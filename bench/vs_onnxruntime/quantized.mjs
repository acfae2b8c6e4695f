// What `ferry quantize` makes, in turns with float32 and with what onnxruntime.quantization made of the same network:
// resnet50 and mobilenet_v2 in static int8, one token of llama_160m with weights of 4 bits.
//
//   node bench/vs_onnxruntime/quantized.mjs --modules DIR [--ferry build/ferry] [--networks DIR] [--only NAME,NAME]
//                             [--threads 1] [--rounds 7] [--seconds 0.4] [--json FILE]
import {execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

import {Random} from './fill_weights.mjs';
import {findNetworks} from './networks.mjs';
import {writeNpz} from './npz.mjs';
import {benchOptions, sidesOf, writeJson} from './sides.mjs';
import {inTurns, median, number} from './worker.mjs';

const CASES = {
  resnet50: {form: ['--form', 'static'], theirs: 'resnet50_int8_qdq', calibrated: true},
  mobilenet_v2: {form: ['--form', 'static'], theirs: 'mobilenet_v2_int8_qdq', calibrated: true},
  llama_160m_decode: {form: ['--form', 'weights', '--bits', '4']},
};

const asked = benchOptions({only: Object.keys(CASES).join(','), threads: '1', rounds: '7', seconds: '0.4'});
const folder = mkdtempSync(join(tmpdir(), 'ferry-quantized-'));

function quantized(network, {form, calibrated}) {
  const path = join(folder, `${network.name}.onnx`), args = ['quantize', network.path, '-o', path, '--json', ...form];
  if (calibrated) {
    const data = join(folder, 'pictures.npz'), dims = [8, 3, 224, 224];
    const input = JSON.parse(execFileSync(asked.ferry, ['info', network.path, '--json'])).inputs[0].name;
    const pictures = new Random('pictures').normals(new Float32Array(dims.reduce((a, b) => a * b)), 0, 1);
    writeNpz(data, {[input]: {type: 'float32', dims, data: pictures}});
    args.push('--data', data);
  }
  execFileSync(asked.ferry, args, {stdio: ['ignore', 'ignore', 'inherit']});
  return {...network, path};
}

async function timesOf(workers) {
  for (const worker of Object.values(workers)) await worker.next();
  const sides = await inTurns(Object.values(workers), asked);
  return Object.fromEntries(Object.keys(workers).map((name, i) => {
    const {times} = sides[i];
    return [name, {median: median(times), best: Math.min(...times)}];
  }));
}

const rows = [];
console.log('network                     Ferry float32   quantised   of float32   ONNX Runtime float32   quantised   its over ours');
for (const name of asked.only) {
  const {theirs} = CASES[name];
  const [network] = findNetworks([name], asked.networks, asked.modules);
  const ours = quantized(network, CASES[name]);
  const peer = theirs ? findNetworks([theirs], asked.networks, asked.modules)[0] : ours;
  const [floats, integers, others] = [network, ours, peer].map((one) => sidesOf({...one, name}, folder, asked));
  const ms = await timesOf({
    float: floats.ferry(asked.threads), ours: integers.ferry(asked.threads), peerFloat: floats.onnxruntime(asked.threads),
    peer: others.onnxruntime(asked.threads),
  });
  rows.push({network: name, threads: Number(asked.threads), ...ms});
  // On a busy machine the best of many runs tells more than the median.
  for (const kind of ['median', 'best']) {
    const [float, own, peerFloat, theirOwn] = [ms.float, ms.ours, ms.peerFloat, ms.peer].map((side) => side[kind]);
    console.log([`${name} ${kind}`.padEnd(26), number(float).padStart(13), number(own).padStart(11), (own / float).toFixed(2).padStart(12),
      number(peerFloat).padStart(22), number(theirOwn).padStart(11), (theirOwn / own).toFixed(2).padStart(15)].join(' '));
  }
}
rmSync(folder, {recursive: true});
writeJson(asked.json, rows);
