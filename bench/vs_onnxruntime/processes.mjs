// How much memory a second process with the same model needs: packed weights are kept in a file (--cache), whose pages all
// processes share. Linux only. See docs/performance.md.
//   node processes.mjs --modules DIR [--ferry build/ferry] [--networks DIR] [--only a,b] [--json FILE]
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

import {findNetworks} from './networks.mjs';
import {benchOptions, sidesOf, writeJson} from './sides.mjs';
import {number} from './worker.mjs';

const asked = benchOptions({});
const folder = mkdtempSync(join(tmpdir(), 'ferry-processes-'));

function memoryOf(worker) {
  const text = readFileSync(`/proc/${worker.child.pid}/smaps_rollup`, 'utf8');
  const mb = (key) => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(text)[1]) / 1024;
  return {resident: mb('Rss'), own: mb('Private_Clean') + mb('Private_Dirty')};
}

async function measure(network) {
  const cache = join(folder, 'cache'), {ferry} = sidesOf(network, folder, asked);
  const start = async (...more) => {
    const worker = ferry('1', ...more);
    await worker.next();
    await worker.ask(3);
    return worker;
  };
  await (await start('--cache', cache)).end();
  const alone = await start();
  const first = await start('--cache', cache), second = await start('--cache', cache);
  const row = {network: network.name, without: memoryOf(alone), kept: memoryOf(second)};
  await Promise.all([alone, first, second].map((worker) => worker.end()));
  rmSync(cache, {recursive: true, force: true});
  return row;
}

const rows = [];
console.log(['network'.padEnd(26), 'MB: alone'.padStart(10), 'its own'.padStart(10), 'with --cache'.padStart(13), 'its own'.padStart(10)].join('  '));
for (const network of findNetworks(asked.only, asked.networks, asked.modules)) {
  const row = await measure(network);
  rows.push(row);
  console.log([row.network.padEnd(26), number(row.without.resident).padStart(10), number(row.without.own).padStart(10),
    number(row.kept.resident).padStart(13), number(row.kept.own).padStart(10)].join('  '));
}
rmSync(folder, {recursive: true});
writeJson(asked.json, rows);
