// Runtimes with onnxruntime-web's interface against each other in headless Chromium, in turns: each network is measured
// with one, then with the other, and again, so that whatever else the machine does falls on all of them.
//
//   node bench/web/bench.mjs --runtime ferry=build/web/package/run.mjs --runtime ort=NODE_MODULES/onnxruntime-web/dist/ort.wasm.min.mjs
//     --models DIR --nets squeezenet1_1,minilm_l6:seq=128 --modules NODE_MODULES [--threads 1,2] [--turns 3] [--seconds 1.5]
//     [--extra NAME=FILE.onnx] [--proxy false] [--sizes] [--json FILE]
//
// Times are milliseconds: first answer from navigation, create (with fetching and compiling), the median and the best of the
// runs. The ratio is that of the last runtime's best to the first's. 'speed' at the end is the geometric mean of the ratios.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import zlib from 'node:zlib';
import {createRequire} from 'node:module';

const options = {threads: '1,2', seconds: '1.5', turns: '3', nets: '', runtime: [], extra: [], flag: []};
for (let i = 2; i < process.argv.length; ++i) {
  const name = process.argv[i].replace(/^--/, '');
  const value = name === 'sizes' ? true : process.argv[++i];
  Array.isArray(options[name]) ? options[name].push(value) : options[name] = value;
}
const chromium = options.chromium || (process.env.PATH || '').split(':').map((folder) => path.join(folder, 'chromium')).find((file) => fs.existsSync(file));
const here = path.dirname(new URL(import.meta.url).pathname);
const runtimes = options.runtime.map((text) => {
  const [name, file] = text.split(/=(.*)/s);
  return {name, folder: path.resolve(path.dirname(file)), entry: path.basename(file)};
});
const extra = Object.fromEntries(options.extra.map((text) => text.split(/=(.*)/s).slice(0, 2)));
const types = {'.mjs': 'text/javascript', '.js': 'text/javascript', '.cjs': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm'};
const isolated = {'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp', 'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store'};

function modelFile(name) {
  const base = name.replace(/\.onnx(\.data)?$/, '');
  return extra[base] ? extra[base] + name.slice(base.length + 5) : path.join(options.models, name);
}
const downloads = new Map();
const server = http.createServer((request, response) => {
  const [, root, ...rest] = decodeURIComponent(new URL(request.url, 'http://x').pathname).split('/');
  const runtime = runtimes.find(({name}) => name === root);
  const file = root === 'bench' ? path.join(here, ...rest) : root === 'models' ? modelFile(rest.join('/')) : runtime ? path.join(runtime.folder, ...rest) : '';
  fs.stat(file, (error, facts) => {
    if (error || !facts.isFile()) return response.writeHead(404, isolated).end();
    if (runtime) downloads.set(`${root}/${rest.join('/')}`, file);
    response.writeHead(200, {...isolated, 'Content-Type': types[path.extname(file)] || 'application/octet-stream', 'Content-Length': facts.size});
    fs.createReadStream(file).pipe(response);
  });
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const origin = `http://127.0.0.1:${server.address().port}`;
const puppeteer = createRequire(path.resolve(options.modules, 'x.js'))('puppeteer-core');
const browser = await puppeteer.launch({executablePath: chromium, headless: true, protocolTimeout: 300000,
  args: ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--no-first-run', ...options.flag]});

function jobOf(runtime, net, threads) {
  const [name, dims] = net.split(':');
  const job = {name, threads, provider: 'wasm', seconds: Number(options.seconds), entry: `/${runtime.name}/${runtime.entry}`, wasmPaths: `/${runtime.name}/`,
    model: `/models/${name}.onnx`, proxy: options.proxy === undefined ? undefined : options.proxy === 'true',
    dims: Object.fromEntries((dims || '').split('+').filter(Boolean).map((dim) => [dim.split('=')[0], Number(dim.split('=')[1])]))};
  if (fs.existsSync(modelFile(`${name}.onnx.data`))) Object.assign(job, {data: `/models/${name}.onnx.data`, dataPath: path.basename(modelFile(`${name}.onnx.data`))});
  const float = (...shape) => ({type: 'float32', dims: shape, value: 0}), rate = {type: 'int64', dims: [], value: 16000};
  if (/silero.*legacy/.test(name)) job.feeds = {input: {type: 'float32', dims: [1, 1536]}, sr: rate, h: float(2, 1, 64), c: float(2, 1, 64)};
  else if (/silero/.test(name)) job.feeds = {input: {type: 'float32', dims: [1, 512]}, state: float(2, 1, 128), sr: rate};
  return job;
}

async function visit(job) {
  const context = await browser.createBrowserContext(), page = await context.newPage();
  try {
    await page.goto(`${origin}/bench/page.html#${encodeURIComponent(JSON.stringify(job))}`);
    await page.waitForFunction('window.answer', {timeout: 240000, polling: 20});
    return await page.evaluate('window.answer');
  } catch (error) {
    return {error: String(error).slice(0, 300)};
  } finally {
    await context.close().catch(() => {});
  }
}

const least = (answers, key) => Math.min(...answers.map((answer) => answer[key]));
const shown = (value) => value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
const results = [], ratios = [];
console.log(await browser.version(), runtimes.map(({name}) => name).join(' against '));
for (const net of options.nets.split(',').filter(Boolean))
  for (const threads of options.threads.split(',').map(Number)) {
    const answers = runtimes.map(() => []);
    for (let turn = 0; turn < Number(options.turns); ++turn)
      for (const [i, runtime] of runtimes.entries()) {
        const answer = await visit(jobOf(runtime, net, threads));
        if (answer.error) console.log(`${runtime.name} ${net} ${threads}: ${answer.error}`);
        else answers[i].push(answer);
      }
    if (answers.some((list) => !list.length)) continue;
    const rows = runtimes.map(({name}, i) => ({runtime: name, net, threads, first: least(answers[i], 'first'), create: least(answers[i], 'create'),
      median: least(answers[i], 'median'), best: least(answers[i], 'best'), answers: answers[i][0].answers}));
    results.push(...rows);
    const ratio = rows.at(-1).best / rows[0].best;
    if (rows.length > 1) ratios.push(ratio);
    console.log(`${net.padEnd(24)} ${threads}  ${rows.map((row) => `${row.runtime}: first ${shown(row.first)} create ${shown(row.create)} median ${shown(row.median)} best ${shown(row.best)}`).join('   ')}` +
      (rows.length > 1 ? `   ${ratio.toFixed(2)} ×, create ${(rows.at(-1).create / rows[0].create).toFixed(2)} ×` : ''));
    for (const [key, mine] of Object.entries(rows[0].answers)) {
      const other = rows.at(-1).answers[key];
      const far = other ? Math.max(...mine.head.map((value, i) => Math.abs(value - other.head[i]))) / (other.max || 1) : NaN;
      if (!(far < 1e-3)) console.log(`  answers differ: ${key} by ${far} of the largest`);
    }
  }
if (ratios.length) console.log(`speed: ${Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length).toFixed(2)} × in the geometric mean, least ${Math.min(...ratios).toFixed(2)}`);
if (options.sizes)
  for (const [name, file] of downloads) {
    const bytes = fs.readFileSync(file), brotli = zlib.brotliCompressSync(bytes, {params: {[zlib.constants.BROTLI_PARAM_QUALITY]: 11,
      [zlib.constants.BROTLI_PARAM_LGWIN]: 24, [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length}});
    console.log(`${name}: raw ${bytes.length}, gzip ${zlib.gzipSync(bytes, {level: 9}).length}, brotli ${brotli.length}`);
  }
await browser.close();
server.close();
if (options.json) fs.writeFileSync(options.json, JSON.stringify(results, null, 1));
