// networks.mjs PACKAGE NETWORKS [--threads N]: whole networks through the package's interface in Node, against what PyTorch
// recorded. NETWORKS/NAME has torch.onnx or model.pt2 (which is exported here) and io_N.npz.
import {existsSync, readFileSync, readdirSync, statSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';
import {readNpz} from '../../web/js/npz.mjs';

const [packageFolder, networks, ...rest] = process.argv.slice(2);
const ferry = await import(pathToFileURL(resolve(packageFolder, 'index.mjs')));
const at = rest.indexOf('--threads');
ferry.env.wasm.numThreads = at < 0 ? 1 : Number(rest[at + 1]);

// numpy's allclose with the tolerances of 'ferry compare'.
function farthest(got, wanted) {
  let most = 0;
  for (let i = 0; i < wanted.length; ++i) {
    const a = Number(got[i]), b = Number(wanted[i]);
    if (Number.isNaN(a) && Number.isNaN(b)) continue;
    const excess = Math.abs(a - b) - (1e-5 + 1e-3 * Math.abs(b));
    if (!(excess <= 0)) most = Math.max(most, Number.isNaN(excess) ? Infinity : Math.abs(a - b));
  }
  return most;
}

let passed = 0;
const failed = [];
for (const name of readdirSync(networks).sort()) {
  const folder = join(networks, name);
  const recordings = statSync(folder).isDirectory() ? readdirSync(folder).filter((file) => /^io_\d+\.npz$/.test(file)) : [];
  if (!recordings.length) continue;
  try {
    const models = [];
    for (const file of ['model.pt2', 'model.pt'])
      if (models.length === 0 && existsSync(join(folder, file))) models.push([`${file}, exported`, (await ferry.exportModel(join(folder, file))).bytes]);
    if (existsSync(join(folder, 'torch.onnx'))) models.push(['torch.onnx', new Uint8Array(readFileSync(join(folder, 'torch.onnx')))]);
    for (const [what, bytes] of models) {
      const session = await ferry.InferenceSession.create(bytes);
      for (const recording of recordings) {
        const arrays = await readNpz(new Uint8Array(readFileSync(join(folder, recording))));
        const feeds = {};
        session.inputNames.forEach((input, i) => {
          const {type, dims, data} = arrays[input] || arrays[`in${i}`];
          feeds[input] = new ferry.Tensor(type, data, dims);
        });
        const batchOf = (metadata) => metadata[0].shape?.[0];
        const fixed = batchOf(session.inputMetadata);
        if (typeof fixed === 'number' && fixed !== Object.values(feeds)[0].dims[0]) continue;
        const results = await session.run(feeds);
        session.outputNames.forEach((output, i) => {
          const wanted = arrays[output] || arrays[`out${i}`];
          if (!wanted) return;
          const got = results[output];
          if (got.dims.join() !== wanted.dims.join()) throw new Error(`${what} ${recording}: shape [${got.dims}] instead of [${wanted.dims}]`);
          const far = farthest(got.data, wanted.data);
          if (far) throw new Error(`${what} ${recording} ${output}: off by ${far}`);
        });
      }
      await session.release();
    }
    ++passed;
  } catch (error) {
    failed.push(`${name}: ${error.message}`);
  }
}
// Weights in a file of their own: written by a tool, taken by a session and by the others.
try {
  const file = join(networks, 'hf_llama/model.pt2'), args = ['--external-data'];
  const {bytes, externalData} = await ferry.exportModel(file, {args}), whole = await ferry.exportModel(file);
  if (externalData?.length !== 1 || whole.externalData) throw new Error(`data files ${externalData?.map(({path}) => path)}`);
  const session = await ferry.InferenceSession.create(bytes, {externalData});
  await session.release();
  for (const [a, b] of [[{data: bytes, externalData}, whole.bytes], [whole.bytes, {name: 'other.onnx', data: bytes, externalData}]])
    if (!(await ferry.compare(a, b)).within) throw new Error('the two differ');
  const converted = await ferry.convert({data: bytes, externalData}, {opset: 18});
  await (await ferry.InferenceSession.create(converted.bytes, {externalData: converted.externalData})).release();
  ++passed;
} catch (error) {
  failed.push(`external data: ${error.message}`);
}
for (const line of failed) console.log(`FAILED ${line}`);
console.log(`${passed} networks passed, ${failed.length} failed`);
process.exit(failed.length || !passed ? 1 : 0);
