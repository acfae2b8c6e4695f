// workbench.mjs FERRY PAGE NETWORKS MODULES [SCREENSHOTS]: walks through the workbench in headless Chromium: see, doctor with
// fix, run, compare, profile, at three widths, with axe-core, from 'ferry view' and from the disk. Nothing may be asked for
// from elsewhere.
import {spawn} from 'node:child_process';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';
import {externalModel, identityModel, largeModel} from './large_model.mjs';

const [ferry, pageFolder, networks, modules, shots] = process.argv.slice(2);
const need = createRequire(join(resolve(modules), 'x.js'));
const puppeteer = need('puppeteer-core');
const chromium = (process.env.PATH || '').split(':').map((folder) => join(folder, 'chromium')).find(existsSync);
const model = join(networks, process.env.FERRY_WORKBENCH_MODEL || 'conv_bn_dropout/torch_legacy14.onnx');
let failures = 0;
const check = (what, holds, more = '') => {
  if (!holds) ++failures;
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${what} ${more}`);
};

// 'ferry view' prints its address and serves until it is stopped.
function view(file) {
  const child = spawn(ferry, ['view', file, '--page', pageFolder]);
  return new Promise((done, fail) => {
    child.stdout.on('data', (text) => done({child, url: String(text).trim()}));
    child.stderr.on('data', (text) => fail(new Error(String(text))));
  });
}

const browser = await puppeteer.launch({executablePath: chromium, headless: true, protocolTimeout: 240000, args: ['--no-sandbox', '--disable-background-networking']});
async function newPage(width, height) {
  const page = await browser.newPage(), outside = [], errors = [];
  await page.setViewport({width, height});
  await page.setRequestInterception(true);
  page.on('request', (request) => {
    if (/^(http:\/\/127\.0\.0\.1|data:|blob:|file:)/.test(request.url())) return request.continue();
    outside.push(request.url());
    request.abort();
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
  return {page, outside, errors};
}
const ready = (page) => page.waitForFunction('globalThis.workbench && workbench.ready', {timeout: 60000});
const shot = async (page, name) => { if (shots) { mkdirSync(shots, {recursive: true}); await page.screenshot({path: join(shots, `${name}.png`)}); } };
async function accessible(page, what) {
  await page.evaluate(readFileSync(need.resolve('axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate(async () => (await axe.run({preload: false})).violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
    .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html}) => html.slice(0, 90)).join(' | ')}`));
  check(`${what}: accessible`, found.length === 0, found.join('; '));
}
// Nothing is wider than the window, and no two controls of the header lie on each other.
async function wellLaidOut(page, what) {
  const faults = await page.evaluate(() => {
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
    const boxes = [...document.querySelectorAll('header button, header h1, .toolbar > *')].filter((each) => each.offsetParent).map((each) => [each, each.getBoundingClientRect()]);
    for (const [a, x] of boxes) for (const [b, y] of boxes)
      if (a !== b && !a.contains(b) && !b.contains(a) && x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1) found.push(`${a.id || a.textContent} on ${b.id || b.textContent}`);
    return found;
  });
  check(`${what}: nothing overlaps or is cut off`, faults.length === 0, faults.slice(0, 3).join('; '));
}

const {child, url} = await view(model);
try {
  for (const [width, height] of [[1280, 800], [820, 1000], [390, 780]]) {
    const {page, outside, errors} = await newPage(width, height);
    await page.goto(url);
    await ready(page);
    const at = `${width}`;
    check(`${at}: the model is drawn`, await page.evaluate('workbench.see.view.seen > 0 && workbench.graph.nodes.length > 0'));
    await wellLaidOut(page, `${at} see`);
    await shot(page, `see_${width}`);
    await page.type('#search', 'conv');
    check(`${at}: a search finds and chooses`, await page.evaluate('workbench.see.view.chosen >= 0') && /of/.test(await page.$eval('#found', (each) => each.textContent)));
    await page.focus('#graph');
    const before = await page.evaluate('workbench.see.view.chosen');
    await page.keyboard.press('ArrowDown');
    check(`${at}: arrows follow edges`, await page.evaluate('workbench.see.view.chosen') !== before);
    check(`${at}: what is chosen is said`, await page.evaluate("document.getElementById('announce').textContent.includes(workbench.see.view.items[workbench.see.view.chosen].label)"));
    await accessible(page, `${at} see`);

    await page.click('#tab-check');
    await page.waitForSelector('#fix', {timeout: 60000});
    await wellLaidOut(page, `${at} check`);
    await accessible(page, `${at} check`);
    check(`${at}: the doctor finds something to mend`, await page.$eval('#fix', (each) => !each.disabled));
    await page.click('#fix');
    await page.waitForSelector('#save-fixed', {timeout: 60000});
    check(`${at}: a mended file is there`, await page.evaluate('workbench.fixed.length > 100'));
    await shot(page, `check_${width}`);

    await page.click('#tab-run');
    await page.waitForSelector('#run', {timeout: 60000});
    await page.click('#run');
    await page.waitForFunction('workbench.results', {timeout: 60000});
    check(`${at}: a run gives numbers`, await page.evaluate('Object.values(workbench.results)[0].data.length > 0'));
    await wellLaidOut(page, `${at} run`);
    await accessible(page, `${at} run`);
    await shot(page, `run_${width}`);

    await page.click('#tab-compare');
    const input = await page.$('#compare-file');
    await input.uploadFile(model);
    await page.click('#compare-run');
    await page.waitForSelector('#compare-result table', {timeout: 60000});
    check(`${at}: a model is within itself`, /Within/.test(await page.$eval('#compare-result', (each) => each.textContent)));
    // One weight of the second layer with weights is made larger in the file.
    await page.evaluate(async (given) => {
      const {ferry, model, graph, pages} = workbench, bytes = new Uint8Array(given);
      const name = graph.weights.filter(({dims}) => dims.length >= 2).at(-1).name;
      const {data} = await ferry.weight(model, name);
      const place = bytes.findIndex((_, i) => i + data.length <= bytes.length && data.every((byte, k) => bytes[i + k] === byte));
      new DataView(bytes.buffer).setFloat32(place, 3, true);
      await pages.compare.against(new File([bytes], 'other.onnx'));
    }, [...readFileSync(model)]);
    check(`${at}: another model differs, and where is marked`, await page.evaluate('workbench.see.marks.size > 0'));
    await accessible(page, `${at} compare`);
    await shot(page, `compare_${width}`);

    await page.click('#tab-profile');
    await page.click('#profile-run');
    await page.waitForSelector('#save-trace', {timeout: 60000});
    check(`${at}: times are on the graph`, await page.evaluate('workbench.see.times.size > 0'));
    await accessible(page, `${at} profile`);
    await wellLaidOut(page, `${at} profile`);
    await shot(page, `profile_${width}`);
    check(`${at}: nothing is asked for from elsewhere`, outside.length === 0, outside.join(' '));
    check(`${at}: no errors`, errors.length === 0, errors.slice(0, 3).join(' | '));
    await page.close();
  }
  // Dark.
  const {page} = await newPage(1280, 800);
  await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: 'dark'}]);
  await page.goto(url);
  await ready(page);
  await accessible(page, 'dark');
  await shot(page, 'see_dark');

  // A file that is no model, and many nodes.
  await page.evaluate(() => workbench.open(new File([new Uint8Array([1, 2, 3])], 'bad.onnx'), 'bad.onnx').catch(() => {}));
  check('a bad file is told of', /bad.onnx|readable/.test(await page.$eval('#status', (each) => each.textContent)));
  await page.keyboard.press('Escape');
  check('a message is closed by the keyboard', await page.$eval('#status', (each) => each.className === 'none' && !each.textContent.replace('×', '')));
  check('what was open stays', await page.evaluate("workbench.graph.nodes.length > 0 && !document.getElementById('panel-see').hidden && workbench.model.name.endsWith('.onnx')"));
  await page.click('#tab-check');
  check('and can be looked at still', await page.waitForSelector('#check-page h2', {timeout: 60000}).then(() => true, () => false));
  await page.click('#tab-see');
  await shot(page, 'bad_file_dark');
  const time = await page.evaluate(() => {
    const nodes = 10000, items = Array.from({length: nodes}, (_, i) => ({label: `Op${i % 17}`, detail: '1 × 64 × 56 × 56', colour: `Op${i % 17}`}));
    const edges = [];
    for (let i = 1; i < nodes; ++i) {
      edges.push({from: i - 1, to: i});
      if (i % 5 === 0 && i > 12) edges.push({from: i - 12, to: i});
      if (i % 50 === 0 && i > 900) edges.push({from: i - 900, to: i});
    }
    const begin = performance.now();
    workbench.see.view.show(items, edges);
    workbench.see.view.paint();
    return performance.now() - begin;
  });
  check('10,000 nodes within a second', time < 1000, `${time.toFixed(0)} ms`);
  await page.close();
} finally {
  child.kill('SIGINT');
}

// What people do at a time, or wrongly.
{
  const {page, errors} = await newPage(1280, 800);
  await page.goto(pathToFileURL(resolve(pageFolder, 'index.html')).href);
  await ready(page);
  await page.type('#url', 'http://');
  await page.click('#open-url');
  check('an address that is none is told of', await page.$eval('#status', (each) => /no address/.test(each.textContent)));
  const folder = join(model, '..'), recording = readdirSync(folder).find((name) => /^io_\d+\.npz$/.test(name));
  const seen = await page.evaluate(async (bytes, npz, images, texts, external, data) => {
    const file = (data, name) => new File([new Uint8Array(data)], name), found = {}, {pages} = workbench;
    await Promise.all([workbench.open(file(bytes, 'one.onnx'), 'one.onnx'), workbench.open(file([1, 2], 'bad.onnx'), 'bad.onnx').catch(() => {}), workbench.open(file(bytes, 'two.onnx'), 'two.onnx')]);
    found.name = workbench.model.name;
    const ask = () => workbench.theSession();
    const [first, second] = await Promise.all([ask(), ask(), pages.run.build(), pages.run.build()]);
    found.once = first === second && (await workbench.ferry.memory()).sessions === 1;
    if (npz) {
      await workbench.openFiles([file(npz, 'io.npz'), file(bytes, 'three.onnx')]);
      found.npz = workbench.model.name === 'three.onnx' && pages.run.given.size > 0;
    }
    // Findings that come after another model was opened.
    const looked = pages.check.look();
    await workbench.open(file(images, 'images.onnx'), 'images.onnx');
    await looked.catch(() => {});
    found.stale = document.getElementById('check-page').childElementCount;
    await pages.run.build();
    const canvas = new OffscreenCanvas(6, 4), c = canvas.getContext('2d');
    c.fillStyle = 'rgb(200, 100, 50)';
    c.fillRect(0, 0, 6, 4);
    const put = (file) => {
      const list = new DataTransfer(), input = document.getElementById('input-x-picture');
      list.items.add(file);
      input.files = list.files;
      input.dispatchEvent(new Event('change'));
    };
    const until = async (holds) => { for (let i = 0; i < 200 && !holds(); ++i) await new Promise((resolve) => setTimeout(resolve, 20)); return holds(); };
    const set = (id, value) => { const each = document.getElementById(id); each.value = value; each.dispatchEvent(new Event('change')); };
    const given = () => pages.run.given.get('x'), note = () => document.getElementById('input-x-note').textContent;
    put(new File([await canvas.convertToBlob()], 'six.png'));
    found.picture = await until(given) && given().dims.join() === '1,3,4,6' && [...given().data].filter((_, i) => i % 24 === 0).join() === '200,100,50';
    set('input-x-normalise', 'unit');
    found.again = await until(() => given()?.data[0] === 1);
    put(new File(['no picture'], 'six.txt'));
    found.none = await until(() => /six.txt is no picture/.test(note())) && !given();
    // Halves are numbers.
    await workbench.open(file(texts, 'half.onnx'), 'half.onnx');
    await pages.run.build();
    document.getElementById('input-x-values').value = '1.5, -2';
    document.getElementById('input-x-shape').value = '2';
    await pages.run.run();
    found.half = /1.5\s+-2/.test(document.querySelector('#run-result pre').textContent);
    const scores = new Float32Array(4e6).map((_, i) => i), mask = new Float32Array(21 * 4e6), begin = performance.now();
    pages.run.parts({dims: [1, 21, 2000, 2000], type: 'float32', data: mask});
    pages.run.parts({dims: [1, 4e6], type: 'float32', data: scores});
    found.time = performance.now() - begin;
    found.left = (await workbench.ferry.memory()).sessions;
    // Data files come with their models, in any order.
    const pair = () => [file(data, 'w.data'), file(external, 'external.onnx')];
    await workbench.openFiles(pair());
    await pages.compare.against(pair());
    found.within = /Within/.test(document.getElementById('compare-result').textContent);
    return found;
  }, [...readFileSync(model)], recording && [...readFileSync(join(folder, recording))], [...identityModel(['x'], {y: 'x'}, {type: 2, dims: ['n', 3, 'h', 'w']})],
  [...identityModel(['x'], {y: 'x'}, {type: 10})], [...externalModel('w.data')], [...new Uint8Array(Float32Array.of(3, 4).buffer)]);
  check('of several files the last one stays', seen.name === 'two.onnx', seen.name);
  check('one session for all who ask', seen.once && seen.left === 1, `${seen.left} at the end`);
  check('an .npz may come before its model', !recording || seen.npz);
  check('findings are those of the model on screen', seen.stale === 0);
  check('a picture is laid out by the sizes that are known', seen.picture);
  check('it is made again for another normalisation', seen.again);
  check('a file that is no picture is told of', seen.none);
  check('half floats are numbers', seen.half);
  check('data files come with models that are opened and compared', seen.within);
  check('large outputs are shown within two seconds', seen.time < 2000, `${seen.time.toFixed(0)} ms`);
  check('at a time: no errors', errors.length === 0, errors.slice(0, 3).join(' | '));
  await page.close();
}

// ResNet-50's size: soon there, and moved without a halt.
{
  const folder = mkdtempSync(join(tmpdir(), 'ferry')), file = join(folder, 'large.onnx');
  writeFileSync(file, largeModel());
  const {child: server, url: address} = await view(file), {page, errors} = await newPage(1280, 800), begin = performance.now();
  await page.goto(address);
  await page.waitForFunction('globalThis.workbench && workbench.ready', {timeout: 60000, polling: 20});
  const time = performance.now() - begin;
  check('large: opened and drawn within two seconds', time < 2000 && await page.evaluate('workbench.see.view.seen > 5'), `${time.toFixed(0)} ms`);
  const {frames, paint} = await page.evaluate(async () => {
    const {view} = workbench.see, times = [];
    let spent = 0;
    for (let i = 0; i < 120; ++i) {
      view.view.y -= 12;
      const from = performance.now();
      view.paint();
      view.paintMap();
      spent += performance.now() - from;
      times.push(await new Promise(requestAnimationFrame));
    }
    const steps = times.slice(1).map((each, i) => each - times[i]).sort((a, b) => a - b);
    return {frames: 1000 / steps[steps.length >> 1], paint: spent / times.length};
  });
  check('large: 60 frames a second while it is moved', frames > 55 && paint < 8, `${frames.toFixed(0)} frames, ${paint.toFixed(2)} ms each`);
  await page.click('#collapse');
  check('large: modules by the names of their weights', await page.evaluate("workbench.see.view.items.filter((item) => item.group).map((item) => item.label).join() === 'layer1,layer2,layer3,layer4'"));
  await shot(page, 'large_collapsed');
  check('large: no errors', errors.length === 0, errors.slice(0, 3).join(' | '));
  await page.close();
  server.kill('SIGINT');
  rmSync(folder, {recursive: true});
}

// Nothing open yet.
for (const [width, height] of [[1280, 800], [390, 780]]) {
  const {page, errors} = await newPage(width, height);
  await page.goto(pathToFileURL(resolve(pageFolder, 'index.html')).href);
  await ready(page);
  check(`${width}: without a model there is the place for one, and no tab leads anywhere`, await page.evaluate("document.getElementById('drop').offsetParent !== null && [...document.querySelectorAll('[role=tab]')].every((each) => each.disabled)"));
  await page.evaluate(() => workbench.open(new File([new Uint8Array([1, 2, 3])], 'bad.onnx'), 'bad.onnx').catch(() => {}));
  check(`${width}: a bad file is told of`, await page.$eval('#status', (each) => each.className === 'error' && each.textContent.includes('bad.onnx')));
  await wellLaidOut(page, `${width} welcome`);
  await accessible(page, `${width} welcome`);
  await shot(page, `welcome_${width}`);
  check(`${width}: no errors in the page`, errors.length === 0, errors.slice(0, 3).join(' | '));
  await page.close();
}

// From the disk, without any server.
{
  const {page, errors} = await newPage(1280, 800);
  await page.goto(pathToFileURL(resolve(pageFolder, 'index.html')).href);
  await ready(page);
  const bytes = [...readFileSync(model)];
  await page.evaluate((given) => workbench.open(new File([new Uint8Array(given)], 'disk.onnx'), 'disk.onnx'), bytes);
  check('from the disk: drawn', await page.evaluate('workbench.graph.nodes.length > 0'));
  await page.click('#tab-run');
  await page.waitForSelector('#run', {timeout: 60000});
  await page.click('#run');
  await page.waitForFunction('workbench.results', {timeout: 60000});
  check('from the disk: run', true);
  check('from the disk: no errors', errors.length === 0, errors.slice(0, 3).join(' | '));
  await page.close();
}
await browser.close();
console.log(failures ? `${failures} failed` : 'all good');
process.exit(failures ? 1 : 0);
