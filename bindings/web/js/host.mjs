// Where the work is done: a worker in pages, in place inside workers, in Node and where env.wasm.proxy is false.
import {env, hasRelaxedSimd, isNode, threadsWanted} from './env.mjs';
import engineText from 'ferry-engine-text';
import {flavour, here, loadEngineFile, readLocal} from 'ferry-place';

export class FerryError extends Error {
  constructor(message, code) {
    super(message);
    this.name = 'FerryError';
    this.code = code;
  }
}

// What an object keeps for itself, as a field and not as private names: those are not there for the proxies in which Vue and others
// wrap what they are given. What cannot be extended they leave as it is.
export function keepAside(object, held) {
  Object.defineProperty(object, 'held', {value: Object.preventExtensions(held)});
}

function wasmName(threads) {
  const relaxed = env.wasm.relaxedSimd !== false && hasRelaxedSimd();
  return `ferry-${flavour}-${threads > 1 ? 'mt' : 'st'}${relaxed ? '-relaxed' : ''}.wasm`;
}

// Where programs for onnxruntime-web say that its files are: Ferry's are not there.
const elsewhere = /onnxruntime-web|@huggingface\/transformers|\bort-wasm[^/]*$/;

// Where the module may be: what the program says, and beside the script in any case. {bytes} or {url}, with a name for messages.
function wasmPlaces(threads) {
  const {wasmBinary, wasmPaths: paths} = env.wasm, places = [];
  if (wasmBinary) places.push({bytes: bytesOf(wasmBinary), failed: 'env.wasm.wasmBinary is no buffer', name: 'env.wasm.wasmBinary'});
  if (typeof paths === 'string' && paths && !elsewhere.test(paths)) places.push({url: `${paths.replace(/\/$/, '')}/${wasmName(threads)}`});
  const given = paths && typeof paths === 'object' && paths.wasm ? String(paths.wasm) : '';
  if (given && !elsewhere.test(given)) places.push({url: given});
  places.push({url: new URL(wasmName(threads), here()).href});
  return places;
}

// In Node the files are read; elsewhere the module is fetched and compiled while the worker starts. What goes wrong here the engine
// tries again, and tells.
async function prepared(places) {
  const isAway = /^(https?|blob|data):/;
  for (const place of places) {
    if (!place.url) continue;
    try {
      if (!isNode) place.url = new URL(place.url, globalThis.location && location.protocol !== 'blob:' ? location.href : undefined).href;
      else if (!isAway.test(place.url)) place.bytes = await readLocal(place.url);
    } catch (error) {
      place.failed = `${place.url} cannot be read: ${error.message}`;
    }
  }
  const [first] = places;
  try {
    if (!isNode && first.bytes) first.module = await WebAssembly.compile(first.bytes);
    else if (!isNode && !first.failed && WebAssembly.compileStreaming) first.module = await WebAssembly.compileStreaming(fetch(first.url));
    if (first.module) delete first.bytes;
  } catch {}
  return places;
}

let engineURL;
function engineScript() {
  if (env.wasm.workerURL) return String(env.wasm.workerURL);
  return engineURL ||= URL.createObjectURL(new Blob([engineText], {type: 'text/javascript'}));
}

// The page's side of the memory it shares with its worker (engine.js: Line).
const line = {watching: 1, called: 2, answered: 3, left: 4, sent: 5, data: 64, bytes: 1 << 18, patience: 2};

// By ONNX's numbers; what JavaScript has no array for comes as a message.
const typeNames = [, 'float32', 'uint8', 'int8', 'uint16', 'int16', 'int32', 'int64', , 'bool', 'float16', 'float64', 'uint32', 'uint64'];

// A message takes all of the buffer that a view looks into, and shares shared memory: what is seen of it is copied here instead.
function sendable(data, transfer) {
  if (!ArrayBuffer.isView(data) || (data.buffer instanceof ArrayBuffer && data.byteLength === data.buffer.byteLength)) return data;
  const own = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  transfer.push(own.buffer);
  return own;
}

class WorkerHost {
  constructor() {
    this.forms = 0;
    this.waiting = new Map();
    this.next = 1;
    this.files = 0;
    this.dead = '';
  }
  async start(setup) {
    setup.engine = engineScript();
    this.worker = new Worker(setup.engine, {name: 'ferry'});
    this.worker.onmessage = ({data}) => this.answer(data);
    this.worker.onerror = (event) => {
      event.preventDefault && event.preventDefault();
      this.end(`the worker has failed: ${event.message || 'its script cannot be loaded (does the page\'s policy allow worker-src blob:? If not, set env.wasm.workerURL)'}`);
    };
    if (globalThis.crossOriginIsolated && typeof SharedArrayBuffer !== 'undefined') {
      setup.line = new SharedArrayBuffer(line.bytes);
      this.words = new Int32Array(setup.line);
      this.bytes = new Uint8Array(setup.line);
    }
    setup.wasm = await prepared(setup.wasm);
    return this.call('start', setup);
  }
  answer({id, result, error, progress}) {
    const waits = this.waiting.get(id);
    if (!waits) return;
    if (progress) {
      if (waits.report) waits.report(progress.loaded, progress.total);
      return;
    }
    this.waiting.delete(id);
    if (!error) return waits.resolve(result);
    waits.reject(new FerryError(error.message, error.code));
    if (error.code === 'dead') this.end(error.message);
  }
  // Whoever waits is told; the next call starts another worker.
  end(why) {
    if (this.dead) return;
    this.dead = why;
    if (this.worker) this.worker.terminate();
    for (const waits of this.waiting.values()) waits.reject(new FerryError(why, 'dead'));
    this.waiting.clear();
    forget(this);
  }
  call(name, given, report, transfer = []) {
    if (this.dead) return Promise.reject(new FerryError(this.dead, 'dead'));
    return new Promise((resolve, reject) => {
      const id = this.next++;
      this.waiting.set(id, {resolve, reject, report});
      try {
        this.worker.postMessage({id, call: name, given}, transfer);
      } catch (error) {
        this.waiting.delete(id);
        reject(new FerryError(`this cannot be sent to the worker: ${error.message}`, 'invalid_argument'));
      }
    });
  }
  run(given) {
    const transfer = [], feeds = given.feeds.map(([name, tensor]) => [name, {...tensor, data: sendable(tensor.data, transfer)}]);
    return this.call('run', {...given, feeds}, undefined, transfer);
  }
  write(files) {
    const transfer = [];
    return this.call('write', {files: Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path, sendable(bytes, transfer)]))}, undefined, transfer);
  }
  // The number by which runs of this form may be asked for without a message; 0 where there is no such way.
  newForm(feeds) {
    const size = feeds.reduce((sum, [, {type, data}]) => sum + (type === 'string' ? line.bytes : data.byteLength + 8), line.data);
    return this.words && size <= line.bytes ? ++this.forms : 0;
  }
  // A run of a known form while the worker looks for it; undefined when it does not. It takes less than a millisecond: waiting
  // for it here is shorter than being told of it.
  runAtOnce(form, feeds, outputs) {
    const {words} = this, state = Atomics.load(words, 0);
    if (this.dead || this.waiting.size || (state !== line.watching && state !== line.answered)) return undefined;
    let at = line.data;
    for (const [, {data}] of feeds) {
      this.bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
      at += (data.byteLength + 7) & ~7;
    }
    const id = this.next++;
    words[1] = form;
    words[2] = id;
    if (Atomics.compareExchange(words, 0, state, line.called) !== state) return undefined;
    const end = performance.now() + line.patience;
    while (Atomics.load(words, 0) === line.called && performance.now() < end);
    Atomics.compareExchange(words, 0, line.called, line.left);
    const came = Atomics.load(words, 0);
    if (came !== line.left && came !== line.sent) return this.readAnswer(outputs);
    return new Promise((resolve, reject) => this.waiting.set(id, {resolve, reject}));
  }
  readAnswer(outputs) {
    const {words} = this;
    let at = line.data >> 2;
    const made = outputs.map((name) => {
      const [type, size, rank] = words.subarray(at, at + 3), dims = Array.from(words.subarray(at + 3, at + 3 + rank));
      at += 3 + rank;
      at += at & 1;
      const data = this.bytes.slice(4 * at, 4 * at + size);
      at += ((size + 7) & ~7) >> 2;
      return [name, {type: typeNames[type], dims, data}];
    });
    return {made};
  }
  // Bytes of the page in pieces: all that is ever there twice is what is on its way.
  async putBytes(path, bytes, report) {
    const piece = 8 << 20;
    let offset = 0;
    const next = () => {
      if (offset >= bytes.length) return undefined;
      const part = bytes.slice(offset, offset + piece);
      offset += part.length;
      return part;
    };
    await this.putPieces(path, bytes.length, next, report);
  }
  // Fetched by the page itself, as its own fetches are: what stands between a page and the network often does not know workers.
  async putURL(path, url, report) {
    let response;
    try {
      response = await fetch(url);
    } catch (error) {
      throw new FerryError(`${url} cannot be fetched: ${error.message}`, 'not_found');
    }
    if (!response.ok) throw new FerryError(`${url} cannot be fetched: ${response.status} ${response.statusText}`, 'not_found');
    if (!response.body) return this.putBytes(path, new Uint8Array(await response.arrayBuffer()), report);
    const {size, guessed} = sizeOf(response);
    const reader = response.body.getReader();
    try {
      return await this.putPieces(path, size, async () => (await reader.read()).value, report, guessed);
    } catch (error) {
      reader.cancel().catch(() => {});
      throw error;
    }
  }
  // next() gives a piece, or nothing at the end. Pieces are handed over while earlier ones are still on their way.
  async putPieces(path, size, next, report, guessed = false) {
    const file = `${++this.files}`, most = 64 << 20;
    let failure, under = 0, done = 0, wake;
    const send = (name, given, weight, transfer) => {
      under += weight;
      return this.call(name, given, undefined, transfer).catch((error) => { failure ||= error; }).finally(() => {
        under -= weight;
        if (wake) wake();
      });
    };
    send('putBegin', {file, path, size, guessed}, 0);
    try {
      for (let bytes; !failure && (bytes = await next());) {
        done += bytes.length;
        const whole = bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();
        send('putPiece', {file, bytes: whole}, whole.length, [whole.buffer]);
        while (under > most && !failure) await new Promise((resolve) => { wake = resolve; });
        if (report) report(done, done > size ? 0 : size);
      }
    } catch (error) {
      failure ||= error instanceof FerryError ? error : new FerryError(`${path.split('/').pop()} did not come whole: ${error.message}`, 'io');
    }
    if (!failure) await send('putEnd', {file}, 0);
    if (failure) {
      if (!this.dead) this.call('putDrop', {file}).catch(() => {});
      throw failure;
    }
    return done;
  }
}

// A page is not told whether what comes from another origin is compressed: its length is a guess then.
function sizeOf({headers, type}) {
  const size = headers.get('content-encoding') ? 0 : Number(headers.get('content-length') || 0);
  return {size, guessed: type === 'cors'};
}

class LocalHost {
  constructor() { this.dead = ''; }
  async start(setup) {
    const loaded = await loadEngineFile(engineText, isNode ? undefined : (setup.engine = engineScript()));
    if (loaded.file) setup.engine = loaded.file;
    setup.wasm = await prepared(setup.wasm);
    this.engine = new loaded.Engine();
    return this.engine.start(setup);
  }
  async call(name, given, report) {
    try {
      if (name === 'put') given.report = report;
      return await this.engine[name](given);
    } catch (error) {
      if (error.code === 'dead') this.end(error.message);
      throw new FerryError(error.message, error.code || 'internal');
    }
  }
  end(why) {
    this.dead = why;
    forget(this);
  }
  run(given) { return this.call('run', given); }
  write(files) { return this.call('write', {files}); }
  putBytes(path, bytes) { return this.call('putBytes', {path, bytes}); }
  putURL(path, url, report) { return this.call('put', {path, source: {url}}, report); }
}

let current;
function forget(host) {
  if (current && current.host === host) current = undefined;
}

// What is done before the first await is done at once: the worker is there when this returns.
async function startHost(mine) {
  const threads = threadsWanted();
  const inPage = typeof window !== 'undefined' && typeof document !== 'undefined';
  const useWorker = !isNode && typeof Worker !== 'undefined' && (env.wasm.proxy ?? inPage);
  const host = useWorker ? new WorkerHost() : new LocalHost();
  mine.host = host;
  const ready = host.start({threads, wasm: wasmPlaces(threads)});
  const limit = env.wasm.initTimeout;
  await (limit > 0 ? Promise.race([ready, new Promise((_, reject) =>
    setTimeout(() => reject(new FerryError(`WebAssembly was not ready after ${limit} ms (env.wasm.initTimeout)`, 'deadline')), limit))]) : ready);
  return host;
}

// The one engine of this page; made by whoever asks first, and again after it has stopped.
export async function theHost() {
  begin();
  return current.ready;
}
// The same before it is ready: calls wait in the worker, where what they fetch comes meanwhile. Where there is no worker,
// it is ready.
export async function hostSoon() {
  begin();
  const {ready, host} = current;
  return host instanceof WorkerHost ? host : ready;
}
function begin() {
  if (current) return;
  const mine = current = {};
  mine.ready = startHost(mine);
  mine.ready.catch((error) => {
    if (current === mine) current = undefined;
    if (mine.host instanceof WorkerHost) mine.host.end(error.message);
  });
}

// Bytes of the module's memory, which does not shrink, and how many sessions there are.
export async function memory() { return (await theHost()).call('memory', {}); }

let nextFolder = 1;
export const newFolder = () => `/f${nextFolder++}`;

// What a model or data file may be: a URL, a Blob or File, bytes, or {name, data}.
export async function putFile(host, path, source, report) {
  if (typeof source === 'string' || source instanceof URL) {
    const text = String(source);
    if (isNode && !/^(https?|blob|data):/.test(text)) {
      let bytes;
      try {
        bytes = await readLocal(text);
      } catch (error) {
        throw new FerryError(`${text} cannot be read: ${error.message}`, 'not_found');
      }
      return host.putBytes(path, bytes, report);
    }
    const url = globalThis.location ? new URL(text, globalThis.document ? document.baseURI : location.href).href : text;
    return host.putURL(path, url, report);
  }
  if (typeof Blob !== 'undefined' && source instanceof Blob) return host.call('put', {path, source: {blob: source}}, report);
  const bytes = bytesOf(source);
  if (!bytes) throw new TypeError(`a model is a URL, a Blob, an ArrayBuffer or a Uint8Array, not ${source === null ? 'null' : typeof source}`);
  return host.putBytes(path, bytes, report);
}

export function bytesOf(source) {
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const isBuffer = source instanceof ArrayBuffer || (typeof SharedArrayBuffer !== 'undefined' && source instanceof SharedArrayBuffer) ||
    Object.prototype.toString.call(source) === '[object ArrayBuffer]';
  return isBuffer ? new Uint8Array(source) : undefined;
}
