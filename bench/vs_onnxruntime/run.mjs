// Ferry against ONNX Runtime, in turns: each network is loaded by a process of either side, and the two run in short
// rounds one after the other, so that whatever else the machine does hits both. See docs/performance.md.
//
//   node bench/vs_onnxruntime/run.mjs --modules DIR [--ferry build/ferry] [--networks DIR] [--only NAME,NAME] [--threads 1]
//                             [--rounds 7] [--seconds 0.4] [--json FILE] [--svg FILE]
import {execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

import {barChart} from './chart.mjs';
import {findNetworks} from './networks.mjs';
import {readNpz} from './npz.mjs';
import {benchOptions, sidesOf, writeJson} from './sides.mjs';
import {geometricMean as mean, inTurns, median, number} from './worker.mjs';

const asked = benchOptions({threads: '1', rounds: '7', seconds: '0.4', svg: ''});

// Integer networks with random weights magnify every rounding, and ONNX Runtime's 8-bit products saturate on CPUs without
// VNNI: their differences are printed but not held against a bound.
const isInteger = (row) => row.network.includes('int8');

// Largest difference in units of what is allowed: 1e-3 of the value plus 1e-4 of the output's largest.
function disagreement(theirs, ours) {
  let worst = 0;
  for (const [name, expected] of Object.entries(theirs)) {
    const got = ours[name];
    if (!got || got.dims.join() !== expected.dims.join()) return Infinity;
    let largest = 0;
    for (const x of expected.data) largest = Math.max(largest, Math.abs(Number(x)));
    for (let i = 0; i < expected.data.length; ++i) {
      const a = Number(got.data[i]), b = Number(expected.data[i]);
      if (Number.isNaN(a) !== Number.isNaN(b)) return Infinity;
      if (a !== b && !Number.isNaN(a)) worst = Math.max(worst, Math.abs(a - b) / (1e-4 * largest + 1e-3 * Math.abs(b)));
    }
  }
  return worst;
}

async function measure(network, folder) {
  const theirOutputs = join(folder, 'theirs.npz'), ourOutputs = join(folder, 'ours.npz');
  const {inputs, ferry, onnxruntime} = sidesOf(network, folder, asked);
  execFileSync(asked.ferry, ['run', network.path, '--inputs', inputs, '--outputs', ourOutputs]);
  const theirs = onnxruntime(asked.threads, theirOutputs);
  const theirStart = await theirs.next();
  const ours = ferry(asked.threads);
  const ourStart = await ours.next();
  const difference = disagreement(readNpz(theirOutputs), readNpz(ourOutputs));

  const [our, their] = await inTurns([ours, theirs], asked);
  return {
    network: network.name, threads: Number(asked.threads), difference,
    ferry: {median_ms: median(our.times), load_ms: ourStart.load_ms, first_ms: ourStart.first_ms, peak_mb: our.peak},
    onnxruntime: {median_ms: median(their.times), load_ms: theirStart.load_ms, first_ms: theirStart.first_ms, peak_mb: their.peak},
    ratio: median(their.times) / median(our.times),
  };
}

const cells = (row) => [
  row.network.padEnd(26), number(row.ferry.median_ms).padStart(8), number(row.onnxruntime.median_ms).padStart(8),
  row.ratio.toFixed(2).padStart(6), `${number(row.ferry.load_ms + row.ferry.first_ms)} / ${number(row.onnxruntime.load_ms + row.onnxruntime.first_ms)}`.padStart(17),
  `${number(row.ferry.peak_mb)} / ${number(row.onnxruntime.peak_mb)}`.padStart(15), row.difference <= 1 ? 'same' : isInteger(row) ? 'int8' : `DIFFERS ×${number(row.difference)}`,
].join('  ');

const folder = mkdtempSync(join(tmpdir(), 'ferry-bench-'));
const rows = [];
let failed = 0;
console.log(['network'.padEnd(26), 'Ferry'.padStart(8), 'ORT ms'.padStart(8), 'ratio'.padStart(6), 'start to answer'.padStart(17), 'peak MB'.padStart(15), 'outputs'].join('  '));
for (const network of findNetworks(asked.only, asked.networks, asked.modules)) {
  try {
    const row = await measure(network, folder);
    if (row.difference > 1 && !isInteger(row)) ++failed;
    rows.push(row);
    console.log(cells(row));
  } catch (error) {
    ++failed;
    console.log(`${network.name.padEnd(26)}  ${String(error.message).split('\n')[0]}`);
  }
}
rmSync(folder, {recursive: true});
const worst = rows.reduce((a, b) => (b.ratio < a.ratio ? b : a), {ratio: Infinity});
const summary = {
  geometric_mean: mean(rows.map((r) => r.ratio)), worst: worst.network, worst_ratio: worst.ratio,
  start_ratio: mean(rows.map((r) => (r.onnxruntime.load_ms + r.onnxruntime.first_ms) / (r.ferry.load_ms + r.ferry.first_ms))),
  memory_ratio: mean(rows.map((r) => r.ferry.peak_mb / r.onnxruntime.peak_mb)),
};
console.log(`geometric mean ${summary.geometric_mean.toFixed(3)}, worst ${summary.worst} ${summary.worst_ratio.toFixed(2)}; ` +
  `start to answer ${summary.start_ratio.toFixed(2)} × faster, memory ${summary.memory_ratio.toFixed(2)} ×; ${asked.threads} thread(s)`);
writeJson(asked.json, {...summary, rows});
if (asked.svg) writeFileSync(asked.svg, barChart(rows, summary));
process.exit(failed ? 1 : 0);
