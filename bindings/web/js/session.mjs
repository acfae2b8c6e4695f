// InferenceSession as onnxruntime-common has it.
import {Tensor, arrayFor} from './tensor.mjs';
import {warnOnce} from './env.mjs';
import {FerryError, hostSoon, keepAside, newFolder, putFile} from './host.mjs';
import {ModelFile, putExternal} from './model_file.mjs';

const known = new Set(['wasm', 'cpu', 'ferry']);
// Those that onnxruntime-web has: who asks for them alone gets an answer still, and is told from where.
const elsewhere = new Set(['webgpu', 'webnn', 'webgl']);

function checkProviders(list) {
  if (!list || list.length === 0) return;
  const names = list.map((provider) => typeof provider === 'string' ? provider : provider.name);
  if (names.some((name) => known.has(name))) return;
  if (!names.some((name) => elsewhere.has(name)))
    throw new Error(`no available backend found. ERR: ${names.map((name) => `[${name}] backend not found.`).join(', ')}`);
  for (const name of names) warnOnce(`there is no execution provider '${name}': the model runs on the processor, in WebAssembly.`);
}

// By its members: tensors of other classes are taken as well, and copies of tensors.
const isTensor = (value) => value instanceof Tensor || (!!value && typeof value === 'object' && Array.isArray(value.dims) && typeof value.type === 'string');

// A tensor of any class, as it goes to the engine.
function flat(tensor, name) {
  if (!tensor || typeof tensor !== 'object' || !tensor.dims || !tensor.type) throw new TypeError(`input '${name}' must be a Tensor`);
  if (tensor.location && tensor.location !== 'cpu' && tensor.location !== 'cpu-pinned')
    throw new Error(`input '${name}' lies in '${tensor.location}': Ferry takes tensors on the CPU, read it back first`);
  const data = tensor.data ?? tensor.cpuData;
  return {type: tensor.type, dims: [...tensor.dims], data: Array.isArray(data) ? Array.from(data) : data};
}

function toTensor(made) {
  if (made.sequence) return made.sequence.map(toTensor);
  if (made.keys) {
    const keys = toTensor(made.keys).data, values = toTensor(made.values).data;
    return new Map(Array.from(keys, (key, i) => [key, values[i]]));
  }
  if (made.empty) return null;
  if (made.type === 'string') return new Tensor('string', made.data, made.dims);
  const Wanted = arrayFor(made.type), {data} = made;
  return new Tensor(made.type, new Wanted(data.buffer, data.byteOffset, Math.floor(data.byteLength / Wanted.BYTES_PER_ELEMENT)), made.dims);
}

export class InferenceSession {
  constructor(host, opened) {
    keepAside(this, {host, id: opened.id, profiles: opened.profiles, form: undefined, profiling: false, profile: ''});
    this.threads = opened.threads;
    this.inputNames = opened.inputs.map((input) => input.name);
    this.outputNames = opened.outputs.map((output) => output.name);
    this.inputMetadata = opened.inputs;
    this.outputMetadata = opened.outputs;
    this.optionalNames = opened.optional.map((input) => input.name);
  }

  static async create(model, second, third, fourth) {
    let options = second || {};
    if (typeof second === 'number') {
      if (ArrayBuffer.isView(model) || !(model?.byteLength >= 0)) throw new TypeError("'byteOffset' goes with an ArrayBuffer.");
      const length = typeof third === 'number' ? third : model.byteLength - second;
      options = (typeof third === 'number' ? fourth : third) || {};
      if (!Number.isSafeInteger(second)) throw new RangeError("'byteOffset' must be an integer.");
      if (!Number.isSafeInteger(length)) throw new RangeError("'byteLength' must be an integer.");
      if (second < 0 || second >= model.byteLength) throw new RangeError(`'byteOffset' is out of range [0, ${model.byteLength}).`);
      if (length <= 0 || second + length > model.byteLength) throw new RangeError(`'byteLength' is out of range (0, ${model.byteLength - second}].`);
      model = new Uint8Array(model, second, length);
    }
    if (typeof options !== 'object') throw new TypeError("'options' must be an object.");
    checkProviders(options.executionProviders);
    const host = await hostSoon();
    const folder = newFolder();
    const path = model instanceof ModelFile ? model.pathOn(host) : `${folder}/model.onnx`;
    const paths = [];
    const external = () => putExternal(host, path.replace(/\/[^/]*$/, ''), options.externalData, model, paths, options.onProgress);
    try {
      if (!(model instanceof ModelFile)) {
        paths.push(path);
        // Both to their ends, so that nothing comes after the names are gone.
        const put = await Promise.allSettled([putFile(host, path, model, options.onProgress), external()]);
        const failed = put.find(({status}) => status === 'rejected');
        if (failed) throw failed.reason;
      } else {
        await external();
      }
      const opened = await host.call('open', {path, options: {
        optimize: options.graphOptimizationLevel !== 'disabled', exact: options.exact, maxBytes: options.maxBytes,
        timeLimit: options.timeLimit, dimensions: options.freeDimensionOverrides,
      }});
      const session = new InferenceSession(host, opened);
      if (options.enableProfiling) session.startProfiling();
      return session;
    } finally {
      // The session maps what it needs: the names may go, before whatever is called next.
      if (!host.dead) host.call('remove', {paths}).catch(() => {});
    }
  }

  async run(feeds, second, third) {
    if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || isTensor(feeds))
      throw new TypeError("'feeds' must be an object that use input names as keys and OnnxValue as corresponding values.");
    const {names, prepared} = fetchesOf(this, second);
    for (const name of this.inputNames)
      if (typeof feeds[name] === 'undefined') throw new Error(`input '${name}' is missing in 'feeds'.`);
    const given = [];
    for (const [name, tensor] of Object.entries(feeds)) {
      if (!this.inputNames.includes(name) && !this.optionalNames.includes(name)) throw new Error(`invalid input '${name}'`);
      const sent = flat(tensor, name);
      // One number for a scalar: onnxruntime takes it, and programs rely on that.
      const facts = this.inputMetadata.find((input) => input.name === name);
      if (facts?.shape?.length === 0 && sent.dims.length === 1 && sent.dims[0] === 1) sent.dims = [];
      given.push([name, sent]);
    }
    if (this.held.id === undefined) throw new FerryError('the session was released', 'invalid_argument');
    const {made, profile} = await call(this.held, given, names);
    if (profile) this.held.profile = profile;
    const results = {};
    for (const [name, value] of made) results[name] = fill(prepared && prepared[name], toTensor(value), name);
    return results;
  }

  startProfiling() {
    if (this.held.profiles) this.held.profiling = true;
    else warnOnce("profiles are written by 'ferry-web', not by 'ferry-web/run': there will be none");
  }
  // The trace of the last run, as chrome://tracing reads it.
  endProfiling() {
    const {profile} = this.held;
    Object.assign(this.held, {profiling: false, profile: ''});
    return profile;
  }

  async release() {
    const {host, id} = this.held;
    if (id === undefined) return;
    this.held.id = undefined;
    if (!host.dead) await host.call('release', {id});
  }
  async [Symbol.asyncDispose ?? Symbol.for('asyncDispose')]() { await this.release(); }
}

// Runs like the one before may have a shorter way to the worker.
function call(held, feeds, outputs) {
  const {host, id, profiling: profile, form} = held;
  if (!host.newForm || profile) return host.run({id, feeds, outputs, profile});
  if (form && isLike(form, feeds, outputs)) return host.runAtOnce(form.number, feeds, outputs) || host.run({id, feeds, outputs, form: form.number});
  const number = host.newForm(feeds);
  held.form = number ? {number, outputs, feeds: feeds.map(([name, {type, dims, data}]) => [name, {type, dims, size: data.byteLength}])} : undefined;
  return host.run({id, feeds, outputs, form: number});
}

// What is asked for, in a list of its own: the caller's may change before the answer comes.
function fetchesOf({outputNames}, second) {
  const all = {names: [...outputNames]};
  if (second === undefined || second === null) return all;
  if (typeof second !== 'object') throw new TypeError('Unexpected argument[1]: must be \'fetches\' or \'options\'.');
  if (isTensor(second)) throw new TypeError("'fetches' cannot be a Tensor");
  if (Array.isArray(second)) {
    if (second.length === 0) throw new TypeError("'fetches' cannot be an empty array.");
    for (const name of second) {
      if (typeof name !== 'string') throw new TypeError("'fetches' must be a string array or an object.");
      if (!outputNames.includes(name)) throw new RangeError(`'fetches' contains invalid output name: ${name}.`);
    }
    return {names: [...second]};
  }
  const names = outputNames.filter((name) => Object.hasOwn(second, name) && (second[name] === null || isTensor(second[name])));
  return names.length ? {names, prepared: {...second}} : all;
}

const areEqual = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);
const isLike = (form, feeds, outputs) => areEqual(form.outputs, outputs) && form.feeds.length === feeds.length &&
  feeds.every(([name, {type, dims, data}], i) => {
    const [was, before] = form.feeds[i];
    return was === name && before.type === type && before.size === data.byteLength && areEqual(before.dims, dims);
  });

// A tensor that the caller has made ready for a result.
function fill(prepared, made, name) {
  if (!prepared || !prepared.data) return made;
  if (prepared.type !== made.type || prepared.data.length !== made.data.length)
    throw new Error(`the tensor given for output '${name}' is ${prepared.type} [${prepared.dims}], the result ${made.type} [${made.dims}]`);
  if (Array.isArray(prepared.data)) made.data.forEach((text, i) => { prepared.data[i] = text; });
  else prepared.data.set(made.data);
  return prepared;
}
