// What a second thread gains: both sides with one thread and with two, in turns, and two processes of one thread each at the
// same time, which share nothing and so tell what the machine can give. See docs/performance.md.
//   node threads.mjs --modules DIR [--ferry build/ferry] [--networks DIR] [--only a,b] [--rounds 7] [--seconds 0.3] [--json FILE]
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

import {findNetworks} from './networks.mjs';
import {benchOptions, sidesOf, writeJson} from './sides.mjs';
import {geometricMean, median, number} from './worker.mjs';

const asked = benchOptions({rounds: '7', seconds: '0.3'});
const folder = mkdtempSync(join(tmpdir(), 'ferry-threads-'));

async function warm(worker) {
  await worker.next();
  const {times_ms} = await worker.ask(2);
  const count = Math.max(1, Math.min(2000, Math.round((Number(asked.seconds) * 1000) / times_ms[1])));
  return {worker, run: async () => median((await worker.ask(count)).times_ms)};
}

async function measure(network) {
  const {ferry, onnxruntime} = sidesOf(network, folder, asked);
  const sides = {};
  for (const [name, worker] of Object.entries({one: ferry('1'), other: ferry('1'), two: ferry('2'), theirOne: onnxruntime('1'), theirTwo: onnxruntime('2')}))
    sides[name] = await warm(worker);
  const {one, other, two, theirOne, theirTwo} = sides;
  const ratios = {ferry: [], onnxruntime: [], processes: []}, times = {one: [], two: []};
  for (let round = 0; round < Number(asked.rounds); ++round) {
    const alone = await one.run(), together = await two.run();
    const apart = median(await Promise.all([one.run(), other.run()]));
    times.one.push(alone);
    times.two.push(together);
    ratios.ferry.push(alone / together);
    ratios.processes.push((2 * alone) / apart);
    ratios.onnxruntime.push((await theirOne.run()) / (await theirTwo.run()));
  }
  await Promise.all(Object.values(sides).map((side) => side.worker.end()));
  return {
    network: network.name, one_ms: median(times.one), two_ms: median(times.two), ferry: median(ratios.ferry), best: Math.max(...ratios.ferry),
    onnxruntime: median(ratios.onnxruntime), processes: median(ratios.processes),
  };
}

const cells = (row) => [
  row.network.padEnd(26), number(row.one_ms).padStart(8), number(row.two_ms).padStart(8),
  ...[row.ferry, row.best, row.onnxruntime, row.processes].map((x) => x.toFixed(2).padStart(9)),
].join('  ');

const rows = [];
console.log(['network'.padEnd(26), 'one ms'.padStart(8), 'two ms'.padStart(8), ...['Ferry', 'its best', 'ORT', 'processes'].map((x) => x.padStart(9))].join('  '));
for (const network of findNetworks(asked.only, asked.networks, asked.modules)) {
  rows.push(await measure(network));
  console.log(cells(rows.at(-1)));
}
rmSync(folder, {recursive: true});
const mean = (side) => geometricMean(rows.map((row) => row[side])).toFixed(2);
console.log(`geometric mean: Ferry ${mean('ferry')}, ONNX Runtime ${mean('onnxruntime')}, two processes ${mean('processes')}`);
writeJson(asked.json, rows);
