// browser.mjs PACKAGE CASES MODULES: the package in headless Chromium: a tenth of the operator cases in the worker,
// with and without threads; tensors of another class; memory over many rounds; files that are no models.
import {existsSync, readFileSync, readdirSync, statSync} from 'node:fs';
import http from 'node:http';
import {createRequire} from 'node:module';
import {extname, join, resolve} from 'node:path';
import {gzipSync} from 'node:zlib';
import {identityModel, pointwiseModel} from './large_model.mjs';

const [packageFolder, cases, modules] = process.argv.slice(2), broken = join(modules, 'broken-models');
const puppeteer = createRequire(join(resolve(modules), 'x.js'))('puppeteer-core');
const chromium = (process.env.PATH || '').split(':').map((folder) => join(folder, 'chromium')).find(existsSync);
const types = {'.mjs': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm'};
// The policy of a page that lets nothing in but its own files.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; connect-src 'self' http://127.0.0.1:*";
const twins = identityModel(['x', 'z'], {a: 'x', b: 'z'}), long = identityModel(['x'], {y: 'x'}, {doc: 'long '.repeat(100000)});
// What comes compressed, of a length that only this origin's pages are told is not the file's.
const away = {'Access-Control-Allow-Origin': '*', 'Cross-Origin-Resource-Policy': 'cross-origin', 'Content-Encoding': 'gzip'};
function serve(isolated) {
  const server = http.createServer((request, response) => {
    const [, root, ...rest] = decodeURIComponent(new URL(request.url, 'http://x').pathname).split('/');
    const folder = {package: packageFolder, cases, broken}[root], file = folder ? join(folder, ...rest) : '';
    const head = {'Content-Security-Policy': policy, ...(isolated ? {'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp', 'Cross-Origin-Resource-Policy': 'same-origin'} : {})};
    if (root === 'pointwise.onnx') return response.writeHead(200, {...head, 'Content-Length': pointwiseModel().length}).end(pointwiseModel());
    if (root === 'twins.onnx') return response.writeHead(200, {...head, 'Content-Length': twins.length}).end(twins);
    if (root === 'long.onnx' || root === 'short.onnx') {
      const body = gzipSync(root === 'long.onnx' ? long : twins);
      return response.writeHead(200, {...head, ...away, 'Content-Length': body.length}).end(body);
    }
    if (root === 'page.html') return response.writeHead(200, {...head, 'Content-Type': 'text/html'}).end('<!doctype html><title>test</title>');
    if (!file || !existsSync(file) || !statSync(file).isFile()) return response.writeHead(404, head).end();
    response.writeHead(200, {...head, 'Content-Type': types[extname(file)] || 'application/octet-stream'}).end(readFileSync(file));
  });
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server)));
}
let failures = 0;
const check = (what, holds, more = '') => {
  if (!holds) ++failures;
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${what} ${more}`);
};
function filesOf(folder, at, list = []) {
  for (const name of readdirSync(folder))
    statSync(join(folder, name)).isDirectory() ? filesOf(join(folder, name), `${at}/${name}`, list) : list.push(`${at}/${name}`);
  return list;
}

const browser = await puppeteer.launch({executablePath: chromium, headless: true, protocolTimeout: 300000, args: ['--no-sandbox', '--disable-background-networking']});
const names = readdirSync(cases).filter((name) => statSync(join(cases, name)).isDirectory()).filter((name, i) => i % 10 === 3 || name.includes('image_decoder'));
for (const [isolated, threads] of [[true, 2], [false, 1]]) {
  const server = await serve(isolated), page = await browser.newPage(), errors = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto(`http://127.0.0.1:${server.address().port}/page.html`);
  await page.evaluate(async (count) => {
    globalThis.ferry = await import('/package/index.mjs');
    ferry.env.wasm.numThreads = count;
  }, threads);
  const jobs = names.map((name) => [name, filesOf(join(cases, name), `/cases/${name}`)]);
  const failed = await page.evaluate(async (list) => {
    const bad = [], read = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
    const tolerances = await read('/cases/tolerances.json');
    for (const [name, paths] of list) {
      const files = {'/tolerances.json': tolerances};
      await Promise.all(paths.map(async (path) => { files[path] = await read(path); }));
      const answer = await ferry.command(['test', `/cases/${name}`, '--tolerances', '/tolerances.json'], {files});
      if (answer.status !== 0) bad.push(`${name} ${answer.output.slice(0, 100)}`);
    }
    return bad;
  }, jobs);
  check(`${isolated ? 'isolated' : 'not isolated'}: ${names.length} operator cases`, failed.length === 0, failed.slice(0, 5).join('; '));

  const sessions = await page.evaluate(async (faulty) => {
    const model = '/cases/test_relu/model.onnx', seen = {};
    const session = await ferry.InferenceSession.create(model);
    seen.threads = session.threads;
    const [{name, shape}] = session.inputMetadata, size = shape.reduce((a, b) => a * b, 1);
    // A tensor of somebody else's class.
    const foreign = {type: 'float32', dims: shape, data: new Float32Array(size).fill(-1), location: 'cpu'};
    seen.relu = (await session.run({[name]: foreign}))[session.outputNames[0]].data.every((value) => value === 0);
    seen.missing = await session.run({}).catch((error) => error.message);
    seen.shape = await session.run({[name]: new ferry.Tensor(new Float32Array(1), [1])}).catch((error) => error.message);
    await session.release();
    seen.released = await session.run({[name]: foreign}).catch((error) => error.message);
    const bytes = new Uint8Array(await (await fetch(model)).arrayBuffer());
    const round = async (count) => {
      for (let i = 0; i < count; ++i) {
        const each = await ferry.InferenceSession.create(i % 2 ? bytes : new Blob([bytes]));
        await each.run({[name]: foreign});
        await each.release();
      }
      return (await ferry.memory()).bytes;
    };
    seen.before = await round(50);
    seen.after = await round(1000);
    // Mutants: every one an answer or an error, and the worker goes on.
    let refused = 0, ran = 0, dead = 0, state = 7;
    const random = () => (state = Math.imul(state, 1664525) + 1013904223 >>> 0);
    for (let i = 0; i < 1500; ++i) {
      const bad = i % 3 ? bytes.slice() : bytes.slice(0, random() % bytes.length);
      for (let k = random() % 4; k >= 0 && bad.length; --k) bad[random() % bad.length] = random();
      try {
        const each = await ferry.InferenceSession.create(bad, {maxBytes: 1 << 26, timeLimit: 5});
        await each.run({[each.inputNames[0]]: foreign}).catch(() => {});
        await each.release();
        ++ran;
      } catch (error) {
        ++refused;
        if (error.code === 'dead') ++dead;
      }
    }
    // Models with one fault each, looked at by the checker as well; each is damaged in a few ways, too.
    for (const path of faulty) {
      const whole = new Uint8Array(await (await fetch(path)).arrayBuffer());
      for (let i = 0; i < 4; ++i) {
        const bad = whole.slice();
        for (let k = 0; k < i; ++k) bad[random() % bad.length] = random();
        try {
          if (!i) await ferry.check(bad);
          const each = await ferry.InferenceSession.create(bad, {maxBytes: 1 << 26, timeLimit: 5});
          await each.release();
          ++ran;
        } catch (error) {
          ++refused;
          if (error.code === 'dead') ++dead;
        }
      }
    }
    Object.assign(seen, {refused, ran, dead});
    const again = await ferry.InferenceSession.create(model);
    seen.again = (await again.run({[name]: foreign}))[again.outputNames[0]].data.length === size;
    seen.nowhere = await ferry.InferenceSession.create('/nowhere.onnx').catch((error) => error.message);
    return seen;
  }, existsSync(broken) ? readdirSync(broken).filter((name) => name.endsWith('.onnx')).map((name) => `/broken/${name}`) : []);
  check('threads as asked for', sessions.threads === threads, String(sessions.threads));
  check('a tensor of another class is taken', sessions.relu);
  check('what is wrong is said', /missing in 'feeds'/.test(sessions.missing) && /dimension|must be/.test(sessions.shape) && /released/.test(sessions.released) && /404/.test(sessions.nowhere), JSON.stringify(sessions.shape));
  check('1,000 rounds take no more memory', sessions.after === sessions.before, `${sessions.before} and ${sessions.after} bytes`);
  check('mutants never stop the worker', sessions.dead === 0 && sessions.again, `${sessions.refused} refused, ${sessions.ran} ran`);
  check('no errors in the page', errors.length === 0, errors.join(' | ').slice(0, 300));
  await page.close();
  server.close();
}
// Where a page's requests are intercepted, those of workers get lost: several sessions at a time come to their end still.
{
  const server = await serve(true), page = await browser.newPage();
  await page.setRequestInterception(true);
  page.on('request', (request) => request.continue());
  await page.goto(`http://127.0.0.1:${server.address().port}/page.html`);
  const made = page.evaluate(async () => {
    const {InferenceSession} = await import('/package/run.mjs');
    let count = 0;
    for (let i = 0; i < 8; ++i)
      for (const session of await Promise.all([0, 1, 2].map(() => InferenceSession.create('/cases/test_relu/model.onnx')))) {
        await session.release();
        ++count;
      }
    return count;
  });
  const late = new Promise((done) => setTimeout(done, 60000));
  check('three sessions at a time, with requests intercepted', await Promise.race([made, late]) === 24);
  await page.close();
  server.close();
}
// Memory of a session, packed weights and all that its runs need included, in a page of its own: it does not shrink.
for (const isolated of [false, true]) {
  const server = await serve(isolated), page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/page.html`);
  const {used, same} = await page.evaluate(async () => {
    const {InferenceSession, Tensor, env, memory} = await import('/package/run.mjs');
    env.wasm.numThreads = 2;
    const session = await InferenceSession.create('/pointwise.onnx');
    const x = new Tensor(Float32Array.from({length: 256 * 49}, (_, i) => Math.sin(i)), [1, 256, 7, 7]);
    const sums = [];
    for (let i = 0; i < 4; ++i) sums.push((await session.run({x})).y.data.join());
    return {used: (await memory()).bytes, same: sums.every((sum) => sum === sums[0])};
  });
  const weights = pointwiseModel().length;
  check('a session takes at most twice its weights', used <= 2 * weights && same, `${(used / weights).toFixed(2)} ×${same ? '' : ', and its answers change'}`);
  await page.close();
  server.close();
}
// Runs shorter than a message come through shared memory: many at a time, of several sessions and shapes, each gets its own.
{
  const server = await serve(true), page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/page.html`);
  const wrong = await page.evaluate(async () => {
    const {InferenceSession, Tensor} = await import('/package/run.mjs');
    const sessions = await Promise.all([0, 1].map(() => InferenceSession.create('/cases/test_relu/model.onnx')));
    const [{name, shape}] = sessions[0].inputMetadata, size = shape.reduce((a, b) => a * b, 1);
    let count = 0;
    const one = async (session, value) => {
      const result = await session.run({[name]: new Tensor(new Float32Array(size).fill(value), shape)});
      if (!result[session.outputNames[0]].data.every((each) => each === value)) ++count;
    };
    for (let i = 0; i < 3000; ++i) await one(sessions[i % 7 ? 0 : 1], i);
    for (let i = 0; i < 300; ++i) await Promise.all([one(sessions[0], i), one(sessions[1], i + 0.5), one(sessions[0], i + 0.25)]);
    for (let i = 0; i < 200; ++i) {
      await one(sessions[0], i);
      const told = await sessions[0].run({[name]: new Tensor(new Float32Array(1), [1])}).catch((error) => error.message);
      if (!/dimension|must be/.test(told)) ++count;
    }
    await sessions[0].release();
    await one(sessions[1], 5);
    return count;
  });
  check('short runs one after the other and at a time', wrong === 0, `${wrong} wrong`);
  await page.close();
  server.close();
}
// What programs do that are written for onnxruntime-web: views of large buffers, wrapped sessions, wrong feeds, its own settings.
for (const isolated of [false, true]) {
  const server = await serve(isolated), other = await serve(isolated), page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/page.html`);
  const seen = await page.evaluate(async (elsewhere) => {
    let largest = 0;
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (message, ...more) {
      if (message.call === 'run') for (const [, {data}] of message.given.feeds) if (data.buffer) largest = Math.max(largest, data.buffer.byteLength, data.buffer instanceof ArrayBuffer ? 0 : Infinity);
      return post.call(this, message, ...more);
    };
    const {InferenceSession, Tensor} = await import('/package/run.mjs'), out = {};
    const [session, relu] = await Promise.all(['/twins.onnx', '/cases/test_relu/model.onnx'].map((path) => InferenceSession.create(path)));
    const one = (value) => new Tensor(Float32Array.of(value), [1]);
    const buffers = [new ArrayBuffer(1 << 24), ...(globalThis.SharedArrayBuffer ? [new SharedArrayBuffer(1 << 24)] : [])];
    const views = [];
    for (const buffer of buffers) {
      const view = new Float32Array(buffer, 4096, 300000).fill(7);
      const {a} = await session.run({x: new Tensor(view, [300000]), z: one(1)});
      views.push(a.data.length === 300000 && a.data.every((value) => value === 7) && view[0] === 7);
    }
    out.views = views.every(Boolean) && largest === 1200000;
    // The list of what is wanted is the caller's, and changes.
    let mixed = 0;
    for (let i = 0; i < 400; ++i) {
      const names = i % 3 ? ['a', 'b'] : ['b', 'a'], run = session.run({x: one(i), z: one(-1)}, names);
      names.reverse();
      const {a, b} = await run;
      if (a.data[0] !== i || b.data[0] !== -1) ++mixed;
    }
    out.mixed = mixed;
    const proxied = new Proxy(session, {get: (target, key, receiver) => { const value = Reflect.get(target, key, receiver); return Array.isArray(value) ? new Proxy(value, {}) : value; }});
    out.proxied = (await proxied.run({x: new Proxy(one(3), {}), z: one(4)})).a.data[0];
    const wrong = [{dims: [-1]}, {dims: [0.5]}, {data: [1]}, {type: 'nosuch'}, {type: 'string', data: ['a', 'b']}, {type: 'string', data: [() => 1]}, {data: {}}];
    out.codes = [];
    for (const more of wrong) out.codes.push(await session.run({x: {type: 'float32', dims: [1], data: new Float32Array(1), ...more}, z: one(1)}).catch((error) => error.code));
    out.after = (await session.run({x: one(5), z: one(6)})).b.data[0] + (await relu.run({x: new Tensor(new Float32Array(60).fill(2), [3, 4, 5])})).y.data[9];
    const totals = [];
    for (const name of ['long', 'short'])
      out[name] = await InferenceSession.create(`${elsewhere}/${name}.onnx`, {onProgress: (done, all) => totals.push(!all || done <= all)}).then((each) => each.inputNames.join(), (error) => error.message);
    out.totals = totals.every(Boolean);
    out.settings = [];
    for (const wasmPaths of ['https://cdn.example/npm/onnxruntime-web@1.30.0/dist/', './', {wasm: '/package/ferry-run-st.wasm'}]) {
      const other = await import(`/package/run.mjs?${out.settings.length}`);
      other.env.wasm.wasmPaths = wasmPaths;
      out.settings.push(await other.InferenceSession.create('/cases/test_relu/model.onnx').then((each) => each.threads, (error) => error.message));
    }
    return out;
  }, `http://127.0.0.1:${other.address().port}`);
  check('views are sent without the rest of their buffers', seen.views);
  check('outputs under their own names', seen.mixed === 0, `${seen.mixed} mixed`);
  check('sessions and tensors in proxies', seen.proxied === 3, String(seen.proxied));
  check('a mistake of the caller ends nothing', seen.codes.every((code) => code === 'invalid_argument') && seen.after === 8, JSON.stringify(seen.codes));
  check('compressed models of another origin', seen.long === 'x' && seen.short === 'x,z' && seen.totals, `${seen.long} ${seen.short}`);
  check("settings for onnxruntime's files", seen.settings.every((threads) => threads >= 1) && seen.settings[2] === 1, JSON.stringify(seen.settings));
  await page.close();
  server.close();
  other.close();
}
await browser.close();
process.exit(failures ? 1 : 0);
