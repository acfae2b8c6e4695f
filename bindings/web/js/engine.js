// What works inside the worker (or, in Node, in place): files into the module's memory, sessions, runs, tools. A classic
// script after the modules' loaders, makeSingle and makeThreaded; bundle.mjs puts them together.

const dtypes = {1: 'float32', 2: 'uint8', 3: 'int8', 4: 'uint16', 5: 'int16', 6: 'int32', 7: 'int64', 8: 'string', 9: 'bool',
  10: 'float16', 11: 'float64', 12: 'uint32', 13: 'uint64', 14: 'complex64', 15: 'complex128', 16: 'bfloat16', 17: 'float8e4m3fn',
  18: 'float8e4m3fnuz', 19: 'float8e5m2', 20: 'float8e5m2fnuz', 21: 'uint4', 22: 'int4', 23: 'float4e2m1', 24: 'float8e8m0', 25: 'uint2',
  26: 'int2', 27: 'float6e2m3', 28: 'float6e3m2'};
const numbers = Object.fromEntries(Object.entries(dtypes).map(([number, name]) => [name, Number(number)]));
const codes = ['ok', 'invalid_argument', 'invalid_model', 'not_found', 'unsupported', 'io', 'limit', 'cancelled', 'internal', 'deadline'];
const largestFile = 2 ** 31 - 2 ** 16;

// Without the folders that files were put into.
const plain = (text) => text.replace(/\/f\d+\//g, '');

class FerryError extends Error {
  constructor(message, code) {
    super(message);
    this.name = 'FerryError';
    this.code = code;
  }
}

class Engine {
  constructor() {
    this.sessions = new Map();
    this.coming = new Map();
    this.next = 1;
    this.dead = '';
    this.lines = [];
    this.errors = [];
  }

  // setup: {threads, wasm (places, see compile), engine (URL of this script)}
  async start(setup) {
    const {module: compiled, threads} = await compile(setup.wasm, setup.threads), threaded = threads > 1;
    let failed;
    const options = {
      ferryWorkers: threads - 1,
      print: (line) => this.lines.push(line),
      printErr: (line) => this.errors.push(line),
      onAbort: (why) => { this.dead = String(why || 'aborted'); },
      instantiateWasm: (imports, receive) => {
        WebAssembly.instantiate(compiled, imports).then((instance) => receive(instance, compiled)).catch((error) => failed(error));
        return {};
      },
    };
    if (setup.engine) options.mainScriptUrlOrBlob = setup.engine;
    this.threads = threads;
    this.module = await new Promise((resolve, reject) => {
      failed = reject;
      (threaded ? makeThreaded : makeSingle)(options).then(resolve, reject);
    });
    const m = this.module;
    this.runtime = this.give((out) => m._ferry_runtime_create(threads, out));
    return {version: this.text(m._ferry_version()), threads};
  }

  // ---- the module's memory ----

  // Memory that another thread has let grow is longer than the module's own arrays know.
  get bytes() {
    const {buffer} = this.module.wasmMemory;
    if (!this.heap || this.heap.buffer !== buffer || this.heap.length !== buffer.byteLength) {
      this.heap = new Uint8Array(buffer);
      this.view = new DataView(buffer);
    }
    return this.heap;
  }
  get words() { return this.bytes && this.view; }
  word(at) { return this.words.getUint32(at, true); }

  allocate(size) {
    const at = this.module._malloc(Math.max(1, size)) >>> 0;
    if (!at) throw new FerryError(`no memory for ${size} bytes: the page's WebAssembly memory is full`, 'limit');
    return at;
  }

  text(at) {
    at >>>= 0;
    const heap = this.bytes;
    let end = at;
    while (heap[end]) ++end;
    return decoder.decode(heap.slice(at, end));
  }

  cString(text) {
    const encoded = encoder.encode(text);
    const at = this.allocate(encoded.length + 1);
    const heap = this.bytes;
    heap.set(encoded, at);
    heap[at + encoded.length] = 0;
    return at;
  }

  // Calls use(…addresses of the texts…) and frees them.
  withTexts(texts, use) {
    const made = texts.map((text) => this.cString(text));
    try {
      return use(...made);
    } finally {
      made.forEach((at) => this.module._free(at));
    }
  }

  check(status) {
    status >>>= 0;
    if (!status) return;
    const m = this.module;
    const error = new FerryError(plain(this.text(m._ferry_status_message(status))), codes[m._ferry_status_code(status)] || 'internal');
    m._ferry_status_free(status);
    throw error;
  }

  // For functions that write a handle to their last argument.
  give(call) {
    const out = this.allocate(4);
    try {
      this.words.setUint32(out, 0, true);
      this.check(call(out));
      return this.word(out);
    } finally {
      this.module._free(out);
    }
  }

  guard(use) {
    if (this.dead) throw new FerryError(`the WebAssembly module has stopped (${this.dead}): sessions have to be made again`, 'dead');
    try {
      return use();
    } catch (error) {
      if (error instanceof FerryError) throw error;
      const said = String(error && error.message || error);
      if (!isFatal(error, said)) throw new FerryError(said, 'invalid_argument');
      this.dead = said;
      throw new FerryError(`the WebAssembly module has stopped: ${said}`, 'dead');
    }
  }

  // ---- files ----

  // source: {url} | {blob}; gives the file's size.
  async put({path, source, report}) {
    if (source.blob) return this.putStream(path, source.blob.stream(), source.blob.size, report);
    let response;
    try {
      response = await fetch(source.url);
    } catch (error) {
      throw new FerryError(`${source.url} cannot be fetched: ${error.message}`, 'not_found');
    }
    if (!response.ok) throw new FerryError(`${source.url} cannot be fetched: ${response.status} ${response.statusText}`, 'not_found');
    if (!response.body) return this.putBytes({path, bytes: new Uint8Array(await response.arrayBuffer())});
    const length = response.headers.get('content-encoding') ? 0 : Number(response.headers.get('content-length') || 0);
    return this.putStream(path, response.body, length, report, response.type === 'cors');
  }

  refuseSize(path, size) {
    if (size > largestFile)
      throw new FerryError(`${path.split('/').pop()} has ${size} bytes: a page's memory has room for files of at most 2 GB`, 'limit');
  }

  keep(path, at, size) { this.withTexts([path], (name) => this.module._ferry_web_put(name, size ? at : 0, size)); }

  putBytes({path, bytes}) {
    return this.guard(() => {
      this.refuseSize(path, bytes.length);
      const at = this.allocate(bytes.length);
      this.bytes.set(bytes, at);
      this.keep(path, at, bytes.length);
      return bytes.length;
    });
  }

  // Piece by piece to where the file will lie: it is never there twice.
  async putStream(path, stream, size, report, guessed = false) {
    const file = `own ${this.next++}`;
    this.putBegin({file, path, size, guessed});
    const reader = stream.getReader();
    try {
      for (;;) {
        const {value, done} = await reader.read().catch((error) => {
          throw new FerryError(`${path.split('/').pop()} did not come whole: ${error.message}`, 'io');
        });
        if (done) break;
        const arrived = this.putPiece({file, bytes: value});
        if (report) report(arrived, arrived > size ? 0 : size);
      }
      return this.putEnd({file});
    } catch (error) {
      reader.cancel().catch(() => {});
      throw error;
    } finally {
      this.putDrop({file});
    }
  }

  // The same for bytes that come from another thread, which names the file by a name of its own. The size is 0 when it is not
  // known, and may be wrong when it is guessed: what does not fit is kept as it comes until the size is known, since the module's
  // memory does not shrink.
  putBegin({file, path, size, guessed}) {
    this.guard(() => {
      this.refuseSize(path, size);
      this.coming.set(file, {path, least: guessed ? 0 : size, room: size, at: size ? this.allocate(size) : 0, done: 0, parts: []});
    });
  }
  putPiece({file, bytes}) {
    const given = this.coming.get(file);
    return this.guard(() => {
      if (!given) throw new FerryError('a file that is not coming', 'invalid_argument');
      const end = given.done + bytes.length;
      if (given.at && end > given.room) {
        given.parts.push(this.bytes.slice(given.at, given.at + given.done));
        this.module._free(given.at);
        given.at = 0;
      }
      if (end > given.room) this.refuseSize(given.path, end);
      if (given.at) this.bytes.set(bytes, given.at + given.done);
      else given.parts.push(bytes);
      return given.done = end;
    });
  }
  putEnd({file}) {
    const given = this.coming.get(file), {path, least, done, parts} = given;
    if (done < least) throw new FerryError(`${path.split('/').pop()} ended after ${done} of ${least} bytes`, 'io');
    this.guard(() => {
      if (parts.length) {
        let to = given.at = this.allocate(done);
        parts.forEach((part, i) => {
          this.bytes.set(part, to);
          to += part.length;
          delete parts[i];
        });
      }
      this.coming.delete(file);
      this.keep(path, given.at, done);
      if (!done) this.module._free(given.at);
    });
    return done;
  }
  putDrop({file}) {
    const given = this.coming.get(file);
    this.coming.delete(file);
    if (given && !this.dead) this.module._free(given.at);
  }

  remove({paths}) {
    if (this.dead) return;
    for (const path of paths) this.withTexts([path], (name) => this.module._ferry_web_remove(name));
  }

  // ---- sessions ----

  open({path, options}) {
    return this.guard(() => {
      const m = this.module;
      const made = this.give((out) => m._ferry_options_create(out));
      try {
        this.check(m._ferry_options_set_runtime(made, this.runtime));
        m._ferry_web_pack_in_place(made);
        if (options.optimize === false) this.check(m._ferry_options_set_optimize(made, 0));
        if (options.exact) this.check(m._ferry_options_set_exact(made, 1));
        if (options.maxBytes) this.check(m._ferry_options_set_max_bytes(made, options.maxBytes));
        if (options.timeLimit) this.check(m._ferry_options_set_time_limit(made, options.timeLimit));
        for (const [name, size] of Object.entries(options.dimensions || {}))
          this.withTexts([name], (at) => this.check(m._ferry_options_set_dimension(made, at, BigInt(size))));
        const session = this.withTexts([path], (at) => this.give((out) => m._ferry_session_open(at, made, out)));
        const id = this.next++;
        this.sessions.set(id, {session, names: new Map()});
        return {id, threads: this.threads, profiles: !!m.FS, inputs: this.values(session, 'input'), outputs: this.values(session, 'output'),
          optional: this.values(session, 'overridable')};
      } finally {
        m._ferry_options_free(made);
      }
    });
  }

  values(session, what) {
    const m = this.module;
    const count = m[`_ferry_${what}_count`](session);
    return Array.from({length: count}, (_, i) => {
      const info = m[`_ferry_${what}`](session, i) >>> 0;
      const name = this.text(m._ferry_info_name(info));
      if (m._ferry_info_kind(info) !== 1) return {name, isTensor: false, type: this.text(m._ferry_info_type(info))};
      const rank = Number(m._ferry_info_rank(info));
      const shape = Array.from({length: Math.max(0, rank)}, (_, axis) => {
        const size = Number(m._ferry_info_dim(info, axis));
        return size >= 0 ? size : this.text(m._ferry_info_dim_name(info, axis));
      });
      return {name, isTensor: true, type: dtypes[m._ferry_info_dtype(info)] || 'undefined', shape: rank < 0 ? undefined : shape};
    });
  }

  release({id}) {
    const held = this.sessions.get(id);
    if (!held || this.dead) return;
    this.sessions.delete(id);
    this.module._ferry_session_free(held.session);
    for (const at of held.names.values()) this.module._free(at);
  }

  nameOf(held, name) {
    let at = held.names.get(name);
    if (!at) held.names.set(name, at = this.cString(name));
    return at;
  }

  // feeds and results: [name, {type, dims, data}].
  run({id, feeds, outputs, profile}) {
    return this.guard(() => {
      const held = this.sessions.get(id);
      if (!held) throw new FerryError('the session was released', 'invalid_argument');
      if (profile && !this.module.FS) throw new FerryError("profiles are written by 'ferry-web', not by 'ferry-web/run'", 'unsupported');
      const m = this.module, values = [], count = feeds.length;
      const table = this.allocate(4 * (2 * count + 2 * outputs.length));
      const given = table + 4 * count, wanted = given + 4 * count, results = wanted + 4 * outputs.length;
      let options = 0, record = 0;
      try {
        feeds.forEach(([name, tensor], i) => {
          const value = this.valueOf(tensor, name);
          values.push(value);
          const at = this.nameOf(held, name);
          this.words.setUint32(table + 4 * i, at, true);
          this.words.setUint32(given + 4 * i, value, true);
        });
        outputs.forEach((name, i) => {
          const at = this.nameOf(held, name);
          this.words.setUint32(wanted + 4 * i, at, true);
        });
        if (profile) {
          record = this.give((out) => m._ferry_profile_create(out));
          options = this.give((out) => m._ferry_run_options_create(out));
          this.check(m._ferry_run_options_set_profile(options, record));
        }
        this.check(m._ferry_run_with(held.session, options, table, given, count, wanted, outputs.length, results));
        const made = outputs.map((name, i) => {
          const value = this.word(results + 4 * i);
          try {
            return [name, this.fromValue(value)];
          } finally {
            m._ferry_value_free(value);
          }
        });
        return profile ? {made, profile: this.profileOf(record)} : {made};
      } finally {
        values.forEach((value) => m._ferry_value_free(value));
        if (options) m._ferry_run_options_free(options);
        if (record) m._ferry_profile_free(record);
        m._free(table);
      }
    });
  }

  profileOf(record) {
    const path = '/profile.json';
    this.withTexts([path], (at) => this.check(this.module._ferry_profile_write(record, at)));
    const text = this.module.FS.readFile(path, {encoding: 'utf8'});
    this.module.FS.unlink(path);
    return text;
  }

  valueOf({type, dims, data}, name) {
    const m = this.module;
    const number = numbers[type];
    const wrong = (what) => new FerryError(`input '${name}' ${what}`, 'invalid_argument');
    if (!number) throw wrong(`has the type '${type}', which ONNX does not have`);
    if (!Array.isArray(dims) || !dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) throw wrong(`has the shape [${dims}]: sizes are whole numbers from 0 on`);
    const count = dims.reduce((product, dim) => product * dim, 1);
    if (type === 'string' && !(Array.isArray(data) && data.length === count))
      throw wrong(`of shape [${dims}] takes an array of ${count} strings, its data has ${data?.length}`);
    if (type !== 'string' && !ArrayBuffer.isView(data)) throw wrong('has data that is no typed array');
    const shape = this.allocate(8 * Math.max(1, dims.length));
    try {
      dims.forEach((dim, i) => this.words.setBigInt64(shape + 8 * i, BigInt(dim), true));
      if (type === 'string') return this.stringsOf(shape, dims.length, data);
      const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      const value = this.give((out) => m._ferry_tensor_create(number, shape, dims.length, out));
      const size = m._ferry_tensor_bytes(value) >>> 0;
      if (size !== raw.length) {
        m._ferry_value_free(value);
        throw wrong(`of shape [${dims}] and type ${type} takes ${size} bytes, its data has ${raw.length}`);
      }
      if (size) this.bytes.set(raw, m._ferry_tensor_mutable_data(value) >>> 0);
      return value;
    } finally {
      m._free(shape);
    }
  }

  stringsOf(shape, rank, strings) {
    const encoded = strings.map((text) => encoder.encode(String(text)));
    const table = this.allocate(8 * Math.max(1, encoded.length));
    const all = this.allocate(encoded.reduce((sum, text) => sum + text.length, 0));
    try {
      let at = all;
      encoded.forEach((text, i) => {
        this.bytes.set(text, at);
        this.words.setUint32(table + 4 * i, at, true);
        this.words.setUint32(table + 4 * (encoded.length + i), text.length, true);
        at += text.length;
      });
      return this.give((out) => this.module._ferry_tensor_of_strings(shape, rank, table, table + 4 * encoded.length, out));
    } finally {
      this.module._free(table);
      this.module._free(all);
    }
  }

  fromValue(value) {
    const m = this.module;
    switch (m._ferry_value_kind(value)) {
      case 1: return this.fromTensor(value);
      case 2:
        return {sequence: Array.from({length: m._ferry_sequence_count(value)}, (_, i) =>
          this.borrow((out) => m._ferry_sequence_element(value, i, out)))};
      case 3: return {keys: this.borrow((out) => m._ferry_map_keys(value, out)), values: this.borrow((out) => m._ferry_map_values(value, out))};
      case 5: return {empty: true};
      default: throw new FerryError('an output is a sparse tensor, for which JavaScript has no class', 'unsupported');
    }
  }
  borrow(call) {
    const value = this.give(call);
    try {
      return this.fromValue(value);
    } finally {
      this.module._ferry_value_free(value);
    }
  }

  fromTensor(value) {
    const m = this.module;
    const type = dtypes[m._ferry_tensor_dtype(value)];
    const at = m._ferry_tensor_dims(value) >>> 0;
    const dims = Array.from({length: m._ferry_tensor_rank(value)}, (_, i) => Number(this.words.getBigInt64(at + 8 * i, true)));
    if (type === 'string') {
      const length = this.allocate(4);
      const size = Number(m._ferry_tensor_size(value));
      const data = Array.from({length: size}, (_, i) => {
        const text = m._ferry_tensor_string(value, BigInt(i), length) >>> 0;
        return decoder.decode(this.bytes.slice(text, text + this.word(length)));
      });
      m._free(length);
      return {type, dims, data};
    }
    const size = m._ferry_tensor_bytes(value) >>> 0;
    const from = m._ferry_tensor_data(value) >>> 0;
    return {type, dims, data: this.bytes.slice(from, from + size)};
  }

  // ---- tools ----

  // One command line. `results` names files to give back; status as the command's.
  command({words, results = []}) {
    return this.guard(() => {
      const m = this.module;
      if (!m._ferry_web_command) throw new FerryError("'ferry-web/run' has no tools: import 'ferry-web'", 'unsupported');
      this.lines.length = this.errors.length = 0;
      const given = ['ferry', ...words].map((word) => this.cString(word));
      const table = this.allocate(4 * given.length);
      given.forEach((at, i) => this.words.setUint32(table + 4 * i, at, true));
      const status = m._ferry_web_command(given.length, table);
      given.forEach((at) => m._free(at));
      m._free(table);
      const files = {};
      for (const path of results) {
        if (!m.FS.analyzePath(path).exists) continue;
        files[path] = m.FS.readFile(path);
        m.FS.unlink(path);
      }
      return {status, output: plain(this.lines.join('\n')), errors: plain(this.errors.join('\n')), files};
    });
  }

  graph({path}) {
    return this.guard(() => {
      const at = this.withTexts([path], (name) => this.give((out) => this.module._ferry_web_graph(name, out)));
      const text = this.text(at);
      this.module._free(at);
      return text;
    });
  }

  weight({path, name}) {
    return this.guard(() => this.withTexts([path, name], (file, weight) => this.borrow((out) => this.module._ferry_web_tensor(file, weight, out))));
  }

  // Files for tools that look for folders; by contrast to put() they are copies.
  write({files}) {
    const {FS} = this.module;
    for (const [path, data] of Object.entries(files)) {
      const parts = path.split('/').slice(1, -1);
      parts.forEach((_, i) => {
        const folder = `/${parts.slice(0, i + 1).join('/')}`;
        if (!FS.analyzePath(folder).exists) FS.mkdir(folder);
      });
      FS.writeFile(path, data);
    }
  }

  erase({paths}) { for (const path of paths) if (this.module.FS.analyzePath(path).exists) this.module.FS.unlink(path); }

  memory() { return {bytes: this.bytes.length, sessions: this.sessions.size}; }
}

const encoder = new TextEncoder();
// A mark of order at the beginning is a letter of the text.
const decoder = new TextDecoder('utf-8', {ignoreBOM: true});

// What the module cannot go on after; all else is a mistake of the caller's.
function isFatal(error, said) {
  return error instanceof WebAssembly.RuntimeError || (WebAssembly.Exception && error instanceof WebAssembly.Exception) || typeof error === 'number' ||
    /call stack|too much recursion/.test(said);
}

// The first of the places that has a module of Ferry's: {module, threads}. One without threads is taken for any number of them.
async function compile(places, threads) {
  for (const [i, place] of places.entries()) {
    const name = place.name || place.url;
    try {
      const module = place.module || await moduleOf(place);
      if (!WebAssembly.Module.exports(module).some(({name}) => name === 'ferry_session_open')) throw new FerryError(`${name} is not Ferry's`, 'invalid_argument');
      const shared = WebAssembly.Module.imports(module).some(({kind}) => kind === 'memory');
      if (shared && threads === 1) throw new FerryError(`${name} is for several threads`, 'invalid_argument');
      return {module, threads: shared ? threads : 1};
    } catch (error) {
      if (i + 1 === places.length) throw error;
      console.warn(`ferry: ${error.message}; the file beside the script is taken`);
    }
  }
}

const nowhere = (what) => new FerryError(`${what}: set env.wasm.wasmPaths to the folder with Ferry's .wasm files`, 'not_found');

async function moduleOf({bytes, url, failed}) {
  if (bytes) return WebAssembly.compile(bytes);
  if (failed) throw nowhere(failed);
  let response;
  try {
    response = await fetch(url);
  } catch (error) {
    throw nowhere(`${url} cannot be fetched (${error.message})`);
  }
  if (!response.ok) throw nowhere(`${url} cannot be fetched (${response.status} ${response.statusText})`);
  const type = response.headers.get('content-type') || '';
  if (WebAssembly.compileStreaming && type.split(';')[0].trim() === 'application/wasm') return WebAssembly.compileStreaming(response);
  const fetched = new Uint8Array(await response.arrayBuffer());
  if (fetched[0] !== 0 || fetched[1] !== 97) throw nowhere(`${url} is not a WebAssembly file (the server answers '${type}')`);
  return WebAssembly.compile(fetched);
}

// The arrays of an answer, to be handed over instead of copied.
function arraysIn(answer, found = []) {
  if (ArrayBuffer.isView(answer)) {
    if (!(typeof SharedArrayBuffer !== 'undefined' && answer.buffer instanceof SharedArrayBuffer)) found.push(answer.buffer);
  } else if (answer && typeof answer === 'object') {
    for (const part of Object.values(answer)) arraysIn(part, found);
  }
  return found;
}

// Memory that a page and its worker share, for runs that take less time than a message does: after such a run the worker
// looks for the next one there for a moment. js/host.mjs has the other side. The first word says who is to act; the next ones
// are the number of the run's form and of the call. What comes in and what comes out begins at `data`.
const line = {idle: 0, watching: 1, called: 2, answered: 3, left: 4, sent: 5, data: 64, shortRun: 1, soon: 3, watch: 1};

class Line {
  constructor(memory, engine, port) {
    Object.assign(this, {words: new Int32Array(memory), bytes: new Uint8Array(memory), engine, port, forms: new Map()});
  }
  // A run that may come this way later: {id, feeds, outputs} without data.
  learn({form, id, feeds, outputs}) {
    this.forget(id);
    this.forms.set(form, {id, outputs, feeds: feeds.map(([name, {type, dims, data}]) => [name, {type, dims, bytes: data.byteLength}])});
  }
  forget(id) { for (const [form, known] of this.forms) if (known.id === id) this.forms.delete(form); }

  // After a run that began and ended at these times. Who calls now and then is not waited for.
  watch(begin, ended) {
    const gap = begin - this.ended;
    let took = ended - begin;
    this.ended = ended;
    if (took > line.shortRun || !(gap < line.soon)) return;
    const {words} = this;
    Atomics.store(words, 0, line.watching);
    for (let state = line.watching; state !== line.sent; state = Atomics.load(words, 0)) {
      const end = performance.now() + (took > line.shortRun ? 0 : line.watch);
      while (!this.isCalled())
        if (performance.now() >= end && Atomics.compareExchange(words, 0, state, line.idle) === state) return;
      const called = performance.now();
      this.answer();
      this.ended = performance.now();
      took = this.ended - called;
    }
  }
  // Also by a page that waits no longer: it is told by a message.
  isCalled() {
    const state = Atomics.load(this.words, 0);
    return state === line.called || state === line.left;
  }
  // What does not fit, and what the page no longer waits for here, goes as a message.
  answer() {
    const {words} = this, id = words[2];
    let message, room;
    try {
      const {id: session, feeds, outputs} = this.forms.get(words[1]);
      let at = line.data;
      const given = feeds.map(([name, {type, dims, bytes}]) => {
        const data = this.bytes.subarray(at, at + bytes);
        at += (bytes + 7) & ~7;
        return [name, {type, dims, data}];
      });
      const result = this.engine.run({id: session, feeds: given, outputs});
      message = {id, result};
      room = this.write(result.made);
    } catch (error) {
      message = failure(id, error);
    }
    if (room && Atomics.compareExchange(words, 0, line.called, line.answered) === line.called) return;
    this.port.postMessage(message, arraysIn(message.result));
    Atomics.store(words, 0, line.sent);
  }
  write(made) {
    let at = line.data >> 2;
    for (const [, {type, dims, data}] of made) {
      const bytes = data && data.byteLength;
      if (!(bytes >= 0) || numbers[type] > 13 || type === 'string' || 4 * (at + dims.length + 4) + bytes > this.bytes.length) return false;
      this.words.set([numbers[type], bytes, dims.length, ...dims], at);
      at += 3 + dims.length;
      at += at & 1;
      this.bytes.set(data, 4 * at);
      at += ((bytes + 7) & ~7) >> 2;
    }
    return true;
  }
}

const failure = (id, error) => ({id, error: {message: error.message || String(error), code: error.code || 'internal'}});

// In a worker: a call is {id, call, given}, an answer {id, result} or {id, error}.
function serve(port) {
  const engine = new Engine();
  let shared;
  let setup;
  const started = new Promise((resolve) => { setup = resolve; });
  port.onmessage = async ({data}) => {
    if (!data || !data.call) return;
    const {id, call, given} = data;
    try {
      if (call === 'start') {
        const result = await engine.start(given);
        if (given.line) shared = new Line(given.line, engine, port);
        setup();
        port.postMessage({id, result});
        return;
      }
      await started;
      if (call === 'put') given.report = (loaded, total) => port.postMessage({id, progress: {loaded, total}});
      if (call === 'release' && shared) shared.forget(given.id);
      if (call === 'run' && given.form) shared.learn(given);
      const begin = performance.now();
      const result = await engine[call](given);
      port.postMessage({id, result}, arraysIn(result));
      if (call === 'run' && given.form) shared.watch(begin, performance.now());
    } catch (error) {
      port.postMessage(failure(id, error));
    }
  };
}
