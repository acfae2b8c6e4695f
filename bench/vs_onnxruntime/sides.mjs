// Ferry and ONNX Runtime on one network: the same inputs, each side a process that runs when it is asked.
import {execFileSync} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';

import {options} from '../../tests/peers/options.mjs';
import {NETWORKS, makeInputs} from './networks.mjs';
import {writeNpz} from './npz.mjs';
import {Worker} from './worker.mjs';

const here = dirname(fileURLToPath(import.meta.url));

// The options that every benchmark of this folder has, and its own.
export function benchOptions(own) {
  const asked = options({
    modules: '.', ferry: 'build/ferry', networks: join(tmpdir(), 'ferry-bench-networks'), only: NETWORKS.join(','), json: '', ...own,
  });
  return {...asked, modules: resolve(asked.modules), only: asked.only.split(',')};
}

export function sidesOf(network, folder, {modules, ferry}) {
  const inputs = join(folder, 'inputs.npz');
  const metadata = JSON.parse(execFileSync(process.execPath, [join(here, 'describe.mjs'), modules, network.path]));
  writeNpz(inputs, makeInputs(network, metadata));
  return {
    inputs,
    ferry: (threads, ...more) =>
      new Worker(ferry, ['bench', network.path, '--inputs', inputs, '--threads', threads, '--on-request', ...more]),
    onnxruntime: (threads, ...outputs) =>
      new Worker(process.execPath, [join(here, 'peer.mjs'), modules, network.path, inputs, threads, ...outputs]),
  };
}

export function writeJson(file, what) {
  if (file) writeFileSync(file, `${JSON.stringify(what, null, 2)}\n`);
}
