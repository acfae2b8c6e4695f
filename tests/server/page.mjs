// page.mjs SERVER MODEL MODULES [SCREENSHOTS]: the page of ferry-server in headless Chromium: it shows a model, its load while
// requests come, and lets one try it; accessible, at two widths, and nothing is asked for from elsewhere.
import {spawn} from 'node:child_process';
import {existsSync, mkdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';

const [program, model, modules, shots] = process.argv.slice(2);
const need = createRequire(join(resolve(modules), 'x.js'));
const puppeteer = need('puppeteer-core');
const chromium = (process.env.PATH || '').split(':').map((folder) => join(folder, 'chromium')).find(existsSync);
let failures = 0;
const check = (what, holds, more = '') => {
  if (!holds) ++failures;
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${what} ${more}`);
};

const server = spawn(program, [`tried=${model}`, '--http-address=127.0.0.1', '--grpc-address=127.0.0.1', '--http-port=0', '--grpc-port=0', '--allow-metrics=false']);
const url = await new Promise((done, fail) => {
  let log = '', address;
  server.stderr.on('data', (text) => {
    log += text;
    address ??= log.match(/HTTPService at ([\d.]+:\d+)/)?.[1];
    if (address && log.includes('is ready')) done(`http://${address}`);
  });
  server.on('exit', () => fail(new Error(log)));
});
const browser = await puppeteer.launch({executablePath: chromium, headless: true, protocolTimeout: 240000, args: ['--no-sandbox', '--disable-background-networking']});
try {
  const page = await browser.newPage(), outside = [], errors = [];
  await page.setRequestInterception(true);
  page.on('request', (request) => {
    if (request.url().startsWith(url) || request.url().startsWith('data:')) return request.continue();
    outside.push(request.url());
    request.abort();
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
  const text = (id) => page.$eval(id, (each) => each.textContent);
  await page.setViewport({width: 1100, height: 800});
  await page.goto(url);
  await page.waitForFunction(() => document.querySelectorAll('#models tr').length === 1, {timeout: 60000});
  check('the model is shown', (await text('#models tr td')) === 'tried');
  check('the server is ready', (await text('#state')).startsWith('ready'));

  await page.click('#send');
  await page.waitForFunction(() => document.querySelector('#took').textContent, {timeout: 60000});
  check('the example is answered', (await text('#took')).startsWith('200'), await text('#took'));
  check('with outputs', JSON.parse(await text('#answer')).outputs.length > 0);

  await page.$eval('#request', (each) => { each.value = '{"inputs": 7}'; });
  await page.evaluate(() => { document.querySelector('#took').textContent = ''; });
  await page.click('#send');
  await page.waitForFunction(() => document.querySelector('#took').textContent, {timeout: 60000});
  check('a wrong request is told so', (await text('#took')).startsWith('400') && JSON.parse(await text('#answer')).error.includes('inputs'));
  errors.splice(0, errors.length, ...errors.filter((each) => !each.includes('400')));

  const body = await page.evaluate(() => example(models[0]));
  const load = setInterval(() => fetch(`${url}/v2/models/tried/infer`, {method: 'POST', body}).then((each) => each.text()), 5);
  await page.waitForFunction(() => Number(document.querySelectorAll('#models tr td')[3].textContent) > 5, {timeout: 60000});
  clearInterval(load);
  check('load is shown while it lasts', true, (await text('#models tr')));

  await page.evaluate(readFileSync(need.resolve('axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate(async () => (await axe.run()).violations.filter(({impact}) => impact === 'serious' || impact === 'critical').map(({id, nodes}) => `${id}: ${nodes[0].html.slice(0, 90)}`));
  check('accessible', found.length === 0, found.join('; '));
  for (const width of [1100, 380]) {
    await page.setViewport({width, height: 800});
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(`fits a window of ${width}`, wide <= width, String(wide));
    if (shots) {
      mkdirSync(shots, {recursive: true});
      await page.screenshot({path: join(shots, `page-${width}.png`)});
    }
  }
  check('nothing from elsewhere', outside.length === 0, outside.join(' '));
  check('no errors', errors.length === 0, errors.join('; '));
} finally {
  await browser.close();
  server.removeAllListeners('exit');
  server.kill();
}
console.log(failures ? `${failures} failed` : 'the page works');
process.exit(failures ? 1 : 0);
