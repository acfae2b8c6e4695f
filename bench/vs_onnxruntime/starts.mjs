// How long from nothing to the first answer: ONNX Runtime, Ferry, and Ferry with packed weights kept by an earlier start,
// started in turns. See docs/performance.md.
//   node starts.mjs --modules DIR [--ferry build/ferry] [--networks DIR] [--only a,b] [--threads 1] [--rounds 3] [--json FILE]
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

import {findNetworks} from './networks.mjs';
import {benchOptions, sidesOf, writeJson} from './sides.mjs';
import {geometricMean, median, number} from './worker.mjs';

const asked = benchOptions({threads: '1', rounds: '3'});
const folder = mkdtempSync(join(tmpdir(), 'ferry-starts-'));

async function start(worker) {
  const {load_ms, first_ms} = await worker.next();
  const {times_ms} = await worker.ask(2);
  await worker.end();
  return {start_ms: load_ms + first_ms, run_ms: times_ms[1]};
}

async function measure(network) {
  const cache = join(folder, 'cache'), {ferry, onnxruntime} = sidesOf(network, folder, asked);
  const sides = {
    onnxruntime: () => start(onnxruntime(asked.threads)),
    ferry: () => start(ferry(asked.threads)),
    cached: () => start(ferry(asked.threads, '--cache', cache)),
  };
  await sides.cached();  // the start that fills the folder
  const times = {onnxruntime: [], ferry: [], cached: []};
  for (let round = 0; round < Number(asked.rounds); ++round)
    for (const [side, measureOne] of Object.entries(sides)) times[side].push(await measureOne());
  rmSync(cache, {recursive: true, force: true});
  const starts = (side) => median(times[side].map((time) => time.start_ms));
  return {
    network: network.name, threads: Number(asked.threads), onnxruntime_ms: starts('onnxruntime'), ferry_ms: starts('ferry'),
    cached_ms: starts('cached'), run_ms: Math.min(...[...times.ferry, ...times.cached].map((time) => time.run_ms)),
  };
}

const cells = (row) => [
  row.network.padEnd(26), number(row.onnxruntime_ms).padStart(8), number(row.ferry_ms).padStart(8),
  (row.onnxruntime_ms / row.ferry_ms).toFixed(2).padStart(6), number(row.cached_ms).padStart(8),
  (row.onnxruntime_ms / row.cached_ms).toFixed(2).padStart(6), number(row.run_ms).padStart(8),
].join('  ');

const rows = [];
console.log(['network'.padEnd(26), 'ORT ms'.padStart(8), 'Ferry'.padStart(8), 'ratio'.padStart(6), 'cached'.padStart(8), 'ratio'.padStart(6), 'a run'.padStart(8)].join('  '));
for (const network of findNetworks(asked.only, asked.networks, asked.modules)) {
  rows.push(await measure(network));
  console.log(cells(rows.at(-1)));
}
rmSync(folder, {recursive: true});
const mean = (side) => geometricMean(rows.map((row) => row.onnxruntime_ms / row[side])).toFixed(2);
console.log(`geometric mean: ${mean('ferry_ms')} × faster, ${mean('cached_ms')} × with packed weights kept; ${asked.threads} thread(s)`);
writeJson(asked.json, rows);
