// cases.mjs PACKAGE CASES [--every N] [--threads N]: ONNX's operator cases with the WebAssembly build in Node.
//
// CASES is a folder of cases with tolerances.json. Each goes through the command 'ferry test' inside the module, which
// reads every kind of value.
import {readFileSync, readdirSync, statSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const [packageFolder, cases, ...rest] = process.argv.slice(2);
const option = (name, otherwise) => { const at = rest.indexOf(name); return at < 0 ? otherwise : Number(rest[at + 1]); };
const ferry = await import(pathToFileURL(resolve(packageFolder, 'index.mjs')));
ferry.env.wasm.numThreads = option('--threads', 1);

function filesOf(folder, at, files = {}) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) filesOf(path, `${at}/${name}`, files);
    else files[`${at}/${name}`] = new Uint8Array(readFileSync(path));
  }
  return files;
}

const names = readdirSync(cases).filter((name) => statSync(join(cases, name)).isDirectory()).filter((_, i) => i % option('--every', 1) === 0);
const tolerances = {'/tolerances.json': new Uint8Array(readFileSync(join(cases, 'tolerances.json')))};
let passed = 0;
const failed = [];
for (const name of names) {
  const files = {...tolerances, ...filesOf(join(cases, name), `/cases/${name}`)};
  try {
    const answer = await ferry.command(['test', `/cases/${name}`, '--tolerances', '/tolerances.json'], {files});
    if (answer.status === 0) ++passed;
    else failed.push(`${name}: ${answer.output.slice(0, 300)} ${answer.errors.slice(0, 300)}`);
  } catch (error) {
    failed.push(`${name}: ${error.message}`);
  }
}
for (const line of failed) console.log(`FAILED ${line}`);
console.log(`${passed} passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
