// ONNX Runtime as a process of its own, which runs when asked: the counterpart of 'ferry bench --on-request'.
//
//   node peer.mjs MODULES MODEL INPUTS.npz THREADS [OUTPUTS.npz]
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {createInterface} from 'node:readline';

import {readNpz, writeNpz} from './npz.mjs';

const [modules, model, inputsFile, threads, outputsFile] = process.argv.slice(2);
const ort = createRequire(join(modules, 'package.json'))('onnxruntime-node');
const feeds = Object.fromEntries(
  Object.entries(readNpz(inputsFile)).map(([name, {type, dims, data}]) => [name, new ort.Tensor(type, data, dims)]));
const status = (key) => Number(new RegExp(`${key}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status', 'utf8'))[1]);
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// Node itself is not what is measured: the memory it has before the model is loaded is taken off.
const ownKb = status('VmRSS');
let begin = performance.now();
const session = await ort.InferenceSession.create(model, {intraOpNumThreads: Number(threads), interOpNumThreads: 1, logSeverityLevel: 4});
const load_ms = performance.now() - begin;
begin = performance.now();
const outputs = await session.run(feeds);
const first_ms = performance.now() - begin;
if (outputsFile)
  writeNpz(outputsFile, Object.fromEntries(Object.entries(outputs).map(([name, t]) => [name, {type: t.type, dims: t.dims, data: t.data}])));
say({load_ms, first_ms});
for await (const line of createInterface({input: process.stdin})) {
  const times_ms = [];
  for (let i = 0; i < Number(line); ++i) {
    const start = performance.now();
    await session.run(feeds);
    times_ms.push(performance.now() - start);
  }
  say({times_ms, peak_rss_kb: status('VmHWM') - ownKb});
}
process.exit(0);
