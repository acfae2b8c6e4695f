// api.mjs PACKAGE CASES [COMMON]: what programs for onnxruntime-web rely on, in Node: ways to make a session, feeds and fetches,
// tensors, settings. COMMON is onnxruntime-common's folder, whose tensors are taken as they are.
import assert from 'node:assert/strict';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';
import {externalModel, identityModel} from './large_model.mjs';

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
assert.equal(tensor.location, 'cpu');
tensor.dispose();
assert.equal(tensor.location, 'none');
assert.throws(() => tensor.data, /disposed/);
const free = input();
free.dims.push(1);
assert.deepEqual(structuredClone(input()).cpuData, input().data);
assert.equal(new ort.Tensor('int4', new Uint8Array(2), [3]).size, 3);
assert.equal(new ort.Tensor('int4', new Int8Array(2), [3]).data.constructor, Uint8Array);
assert.throws(() => new ort.Tensor('uint4', [1, 2]), /number array is not supported/);
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
// As Vue and Alpine wrap what they are given, and as programs copy it.
const isPlain = (value) => Array.isArray(value) || Object.prototype.toString.call(value) === '[object Object]';
const wrapped = (value) => value && typeof value === 'object' && isPlain(value) && Object.isExtensible(value) ?
  new Proxy(value, {get: (target, key, receiver) => wrapped(Reflect.get(target, key, receiver))}) : value;
assert.deepEqual((await wrapped(session).run(wrapped({x: input()}), wrapped(['y']))).y.data, wanted);
assert.deepEqual((await session.run({x: structuredClone(input())})).y.data, wanted);

// Mistakes: an error each, and all goes on.
const odd = (more) => session.run({x: {type: 'float32', dims: [3, 4, 5], data: new Float32Array(60), ...more}});
for (const more of [{dims: [-1]}, {dims: [1.5]}, {dims: ['3', 4, 5]}, {data: [1, 2, 3]}, {data: 'text'}, {type: 'nosuch'}, {dims: [2 ** 40, 2 ** 40]}, {data: new Float32Array(59)}])
  await assert.rejects(odd(more), (error) => error instanceof ort.FerryError && error.code === 'invalid_argument', JSON.stringify(more));
await assert.rejects(ort.InferenceSession.create(bytes, {freeDimensionOverrides: {batch: 1.5}}), (error) => error.code === 'invalid_argument');
assert.deepEqual((await session.run({x: input()})).y.data, wanted);

// An input called 'dims'; texts stay as they are; their number is held against the shape.
const texts = await ort.InferenceSession.create(identityModel(['dims'], {type: 'dims'}, {type: 8}));
const told = ['\ufeffmark', '', 'ß'];
assert.deepEqual((await texts.run({dims: new ort.Tensor('string', told, [3])})).type.data, told);
await assert.rejects(texts.run({dims: {type: 'string', dims: [1000], data: told}}), /takes an array of 1000 strings, its data has 3/);
await texts.release();

// Profiles are not in this flavour: the session runs still.
const profiled = await ort.InferenceSession.create(bytes, {enableProfiling: true});
assert.deepEqual((await profiled.run({x: input()})).y.data, wanted);
assert.equal(profiled.endProfiling(), '');
assert.match(warnings.at(-1), /profiles/);
await profiled.release();

// Data files in folders: by name, and by an address below the model's.
const folder = mkdtempSync(join(tmpdir(), 'ferry'));
try {
  const data = new Uint8Array(Float32Array.of(10, 20).buffer), model = join(folder, 'model.onnx'), weights = join(folder, 'weights/w.data');
  mkdirSync(join(folder, 'weights'));
  writeFileSync(model, externalModel('weights/w.data'));
  writeFileSync(weights, data);
  for (const externalData of [[{path: './weights/w.data', data}], [weights]]) {
    const each = await ort.InferenceSession.create(model, {externalData});
    assert.deepEqual([...(await each.run({x: new ort.Tensor(Float32Array.of(1, 2))})).y.data], [11, 22]);
    await each.release();
  }
  await assert.rejects(ort.ModelFile.open(model, {externalData: [join(folder, 'nosuch.data')]}), /nosuch/);
} finally {
  rmSync(folder, {recursive: true});
}

// Settings made for onnxruntime-web, each read by a package of its own: its places are passed over, what is wrong is told of once.
const place = pathToFileURL(resolve(packageFolder)).href;
for (const [settings, warning, threads] of [
  [{wasmPaths: 'https://cdn.example/npm/onnxruntime-web@1.30.0/dist/'}, '', 1], [{wasmPaths: '/nowhere/'}, /nowhere.*beside the script/, 1],
  [{wasmPaths: {wasm: '/static/ort-wasm-simd-threaded.wasm', mjs: '/static/ort-wasm-simd-threaded.mjs'}}, '', 1],
  [{wasmBinary: new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]).buffer}, /wasmBinary is not Ferry's/, 1],
  [{wasmBinary: readFileSync(join(packageFolder, 'ferry-run-st.wasm')), numThreads: 2}, '', 1],
  [{wasmPaths: {wasm: `${place}/ferry-run-st.wasm`}, numThreads: 2}, '', 1], [{wasmPaths: `${resolve(packageFolder)}/`, numThreads: 2}, '', 2]]) {
  const before = warnings.length, other = await import(`${place}/run.mjs?${Math.random()}`);
  Object.assign(other.env.wasm, settings);
  const each = await other.InferenceSession.create(bytes);
  assert.deepEqual((await each.run({x: input()})).y.data, wanted);
  assert.equal(each.threads, threads, JSON.stringify(settings.wasmPaths));
  assert.equal(warnings.length - before, warning ? 1 : 0, warnings.slice(before).join());
  if (warning) assert.match(warnings.at(-1), warning);
  await each.release();
}
// Node before 22.3 and 20.16.
const {getBuiltinModule} = process;
process.getBuiltinModule = undefined;
await (await (await import(`${place}/run.mjs?old`)).InferenceSession.create(file)).release();
process.getBuiltinModule = getBuiltinModule;

await session.release();
await assert.rejects(session.run({x: input()}), /released/);
console.log('ok   the interface of onnxruntime-web');
process.exit(0);
