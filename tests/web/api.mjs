// api.mjs PACKAGE CASES [COMMON]: what programs for onnxruntime-web rely on, in Node: ways to make a session, feeds and fetches,
// tensors, settings. COMMON is onnxruntime-common's folder, whose tensors are taken as they are.
import assert from 'node:assert/strict';
import {existsSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const [packageFolder, cases, common] = process.argv.slice(2);
const ort = await import(pathToFileURL(resolve(packageFolder, 'run.mjs')));
const warnings = [];
console.warn = (text) => warnings.push(text);

const file = join(cases, 'test_relu/model.onnx'), bytes = new Uint8Array(readFileSync(file));
const input = () => new ort.Tensor('float32', Float32Array.from({length: 60}, (_, i) => i - 30), [3, 4, 5]);
const wanted = Float32Array.from({length: 60}, (_, i) => Math.max(0, i - 30));

// A session of a path, bytes, a buffer, a part of a buffer, a Blob.
const inside = new Uint8Array(bytes.length + 64);
inside.set(bytes, 16);
for (const given of [[file], [bytes], [bytes.buffer], [inside.buffer, 16, bytes.length], [inside.buffer, 16, bytes.length, {graphOptimizationLevel: 'disabled'}],
  [new Blob([bytes])], [pathToFileURL(file)], [bytes, {executionProviders: ['webgpu', 'wasm'], freeDimensionOverrides: {batch: 1}, logSeverityLevel: 3}]]) {
  const session = await ort.InferenceSession.create(...given);
  assert.deepEqual(session.inputNames, ['x']);
  assert.deepEqual({...session.inputMetadata[0]}, {name: 'x', isTensor: true, type: 'float32', shape: [3, 4, 5]});
  assert.deepEqual(session.outputMetadata[0].shape, [3, 4, 5]);
  assert.deepEqual((await session.run({x: input()})).y.data, wanted);
  await session.release();
}
assert.equal(warnings.length, 0);
await assert.rejects(ort.InferenceSession.create(inside.buffer, 4096), RangeError);
await assert.rejects(ort.InferenceSession.create(bytes, 16), TypeError);
await assert.rejects(ort.InferenceSession.create(bytes, {executionProviders: ['nosuch']}), /no available backend found. ERR: \[nosuch\] backend not found/);
const session = await ort.InferenceSession.create(bytes, {executionProviders: ['webgpu']});
assert.equal(warnings.length, 1);
assert.match(warnings[0], /no execution provider 'webgpu'/);

// Fetches: names, an object with nothing or with a tensor of the caller's.
assert.deepEqual(Object.keys(await session.run({x: input()}, ['y'])), ['y']);
assert.deepEqual((await session.run({x: input()}, {y: null}, {tag: 'one'})).y.data, wanted);
const target = new ort.Tensor(new Float32Array(60), [3, 4, 5]);
assert.equal((await session.run({x: input()}, {y: target})).y, target);
assert.deepEqual(target.data, wanted);
await assert.rejects(session.run({x: input()}, {y: new ort.Tensor(new Float32Array(2))}), /given for output 'y'/);
await assert.rejects(session.run({x: input()}, ['z']), /invalid output name: z/);
await assert.rejects(session.run({}), /input 'x' is missing in 'feeds'/);
await assert.rejects(session.run({x: input(), z: input()}), /invalid input 'z'/);

// Several runs at once, each with its own answer.
const many = await Promise.all(Array.from({length: 8}, (_, i) => session.run({x: new ort.Tensor(new Float32Array(60).fill(i), [3, 4, 5])})));
many.forEach(({y}, i) => assert.equal(y.data[7], i));

// Tensors.
const tensor = input();
assert.equal(tensor.location, 'cpu');
assert.equal(tensor.size, 60);
assert.deepEqual(tensor.reshape([60]).dims, [60]);
assert.equal((await tensor.getData(true)).length, 60);
assert.equal(tensor.location, 'none');
assert.throws(() => tensor.data, /not on CPU/);
tensor.dispose();
assert.deepEqual(new ort.Tensor('int64', [1, 2n]).data, BigInt64Array.of(1n, 2n));
assert.equal(new ort.Tensor(['a']).type, 'string');
assert.equal(new ort.Tensor([true, false]).type, 'bool');
assert.throws(() => new ort.Tensor('float32', new Float32Array(3), [2]), /Tensor's size\(2\) does not match data length\(3\)/);
assert.throws(() => new ort.Tensor([1, 2]), TypeError);
for (const name of ['fromImage', 'fromPinnedBuffer', 'fromTexture', 'fromGpuBuffer', 'fromMLTensor']) assert.equal(typeof ort.Tensor[name], 'function');

// Settings, and the same names as one object.
for (const name of ['numThreads', 'simd', 'initTimeout', 'wasmPaths', 'wasmBinary', 'proxy']) assert.ok(name in ort.env.wasm, name);
assert.equal(ort.default.InferenceSession, ort.InferenceSession);
assert.ok(ort.env.versions.web);

if (common && existsSync(common)) {
  const {Tensor} = createRequire(resolve(common, 'x.js'))('./dist/cjs/index.js');
  assert.deepEqual((await session.run({x: new Tensor('float32', input().data, [3, 4, 5])})).y.data, wanted);
}
await session.release();
await assert.rejects(session.run({x: input()}), /released/);
console.log('ok   the interface of onnxruntime-web');
process.exit(0);
