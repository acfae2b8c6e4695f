// The workbench: one model, five ways to look at it.
import * as ferry from 'ferry-web';
import {byId, bytes, careful, el, reportWith} from './dom.mjs';
import {CheckPage} from './check_page.mjs';
import {ComparePage} from './compare_page.mjs';
import {ProfilePage} from './profile_page.mjs';
import {RunPage} from './run_page.mjs';
import {See} from './see.mjs';

const app = {ferry, model: null, session: null, making: null};
globalThis.workbench = app;

let see, pages;
const tabs = ['see', 'check', 'run', 'compare', 'profile'];

// kind: 'error' stays until something else is said.
export function status(text, kind = '') {
  const line = byId('status');
  byId('status-text').textContent = text || '';
  byId('status-close').hidden = kind !== 'error';
  line.className = text ? kind : 'none';
}
app.status = status;

// Errors that stand in the status line by what they came in.
const told = new WeakSet();
function tell(error) {
  const isObject = error && typeof error === 'object';
  if (isObject && told.has(error)) return;
  status(isObject && error.message || String(error), 'error');
}
reportWith(tell);

// Says what goes on while it does, and what went wrong, and with what.
app.busy = async (text, work, what = '') => {
  status(text);
  try {
    const result = await work();
    status('');
    return result;
  } catch (error) {
    const said = error.message || String(error);
    status(what && !said.includes(what) ? `${what}: ${said}` : said, 'error');
    if (error && typeof error === 'object') told.add(error);
    throw error;
  }
};

app.choose = (name) => {
  for (const tab of tabs) {
    const chosen = tab === name, button = byId(`tab-${tab}`);
    button.setAttribute('aria-selected', String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    byId(`panel-${tab}`).hidden = !chosen || !app.model;
  }
  app.tab = name;
  if (name === 'see' && see && app.model) see.view.draw();
  if (app.model && pages[name]) careful(() => pages[name].shown())();
};

// A session is made when one is first needed, and kept for the model. Who asks while it is made gets the same.
app.theSession = () => app.making ||= makeSession(app.model);

async function makeSession(model) {
  try {
    const session = await ferry.InferenceSession.create(model);
    if (app.model === model) app.session = session;
    return session;
  } catch (error) {
    if (app.model === model) app.making = null;
    throw error;
  }
}

async function release({model, making}) {
  const session = await Promise.resolve(making).catch(() => null);
  if (session) await session.release();
  if (model) await model.release();
}

// A .pt2 is exported first; what is shown is what came of it.
async function load(source, name, others) {
  const onProgress = (done, all) => status(`reading ${name}: ${all ? `${Math.round(100 * done / all)} %` : bytes(done)}`);
  let model = await ferry.ModelFile.open(source, {name, externalData: others, onProgress});
  try {
    let exported = null;
    if (/\.(pt2|pt|pth)$/i.test(name)) {
      status(`exporting ${name} to ONNX…`);
      exported = await ferry.exportModel(model);
      await model.release();
      name = name.replace(/\.[^.]*$/, '.onnx');
      model = await ferry.ModelFile.open(exported.bytes, {name, externalData: exported.externalData});
    }
    status(`drawing ${name}…`);
    const graph = await ferry.graph(model);
    let info = null, infoError = '';
    try {
      info = await ferry.info(model, {layers: true});
    } catch (error) {
      infoError = error.message;
    }
    return {model, graph, info, infoError, exported, name};
  } catch (error) {
    await model.release().catch(() => {});
    throw error;
  }
}

// others: data files of the model, as {path, data}. A model that cannot be opened leaves the one that is open.
app.open = async (source, name, others = []) => {
  if (/\.npz$/i.test(name)) {
    if (!app.model) return status('open the model first, then the .npz with its inputs', 'error');
    app.choose('run');
    return pages.run.useNpz(new Uint8Array(await (await toBlob(source)).arrayBuffer()));
  }
  // Of several that are opened at a time the last stays.
  const begin = performance.now(), mine = ++opens;
  await app.busy(`opening ${name}…`, async () => {
    let loaded;
    try {
      loaded = await load(source, name, others);
    } catch (error) {
      if (mine === opens) throw error;
      return;
    }
    if (mine !== opens) return release(loaded).catch(() => {});
    const last = {model: app.model, making: app.making};
    Object.assign(app, loaded, {session: null, making: null, fixed: null, results: null});
    byId('welcome').hidden = true;
    byId('model-name').textContent = byId('model-name').title = loaded.name;
    document.title = `${loaded.name} – Ferry workbench`;
    for (const tab of tabs) byId(`tab-${tab}`).disabled = false;
    for (const page of Object.values(pages)) page.reset();
    app.choose('see');
    see.show(app);
    await release(last).catch(() => {});
  }, name);
  app.openTime = performance.now() - begin;
};
let opens = 0;

async function toBlob(source) { return source instanceof Blob ? source : (await fetch(source)).blob(); }

// A model, and beside it the files that its weights lie in; an .npz is for the model that comes with it, or for the one that is open.
async function openFiles(files) {
  const recorded = files.filter((file) => /\.npz$/i.test(file.name)), rest = files.filter((file) => !recorded.includes(file));
  const model = rest.find((file) => /\.(onnx|pt2|pt|pth)$/i.test(file.name)) || rest[0];
  if (model) await app.open(model, model.name, rest.filter((file) => file !== model).map((file) => ({path: file.name, data: file})));
  if (recorded.length) await app.open(recorded[0], recorded[0].name);
}
app.openFiles = openFiles;

function listen() {
  tabs.forEach((name, i) => {
    const button = byId(`tab-${name}`);
    button.addEventListener('click', () => app.choose(name));
    button.addEventListener('keydown', (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      app.choose(next);
      byId(`tab-${next}`).focus();
    });
  });
  byId('status').addEventListener('click', () => status(''));
  addEventListener('keydown', (event) => { if (event.key === 'Escape' && byId('status').className === 'error') status(''); });
  const pick = () => byId('file').click();
  byId('open-file').addEventListener('click', pick);
  byId('choose').addEventListener('click', pick);
  byId('file').addEventListener('change', () => {
    careful(openFiles)([...byId('file').files]);
    byId('file').value = '';
  });
  const openUrl = careful(() => {
    const text = byId('url').value.trim(), base = location.protocol === 'file:' ? undefined : location.href;
    if (!text) return undefined;
    let url;
    try {
      url = new URL(text, base);
    } catch {
      throw new Error(`'${text}' is no address: it begins with http:// or https://`);
    }
    return app.open(url.href, url.pathname.split('/').pop() || 'model.onnx');
  });
  byId('open-url').addEventListener('click', openUrl);
  byId('url').addEventListener('keydown', (event) => { if (event.key === 'Enter') openUrl(); });
  addEventListener('dragover', (event) => {
    event.preventDefault();
    document.body.classList.add('dragging');
  });
  addEventListener('dragleave', () => document.body.classList.remove('dragging'));
  addEventListener('drop', (event) => {
    event.preventDefault();
    document.body.classList.remove('dragging');
    careful(openFiles)([...event.dataTransfer.files]);
  });
  byId('theme').addEventListener('click', () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    document.documentElement.dataset.theme = dark ? 'light' : 'dark';
    see.view.draw();
  });
  addEventListener('keydown', (event) => {
    if (event.target.matches('input, textarea, select') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/' && app.model) {
      app.choose('see');
      byId('search').focus();
      event.preventDefault();
    }
    const tab = tabs[Number(event.key) - 1];
    if (tab && app.model) app.choose(tab);
  });
}

// From a file on the disk nothing can be fetched: the module comes as a script.
function wasmFromScript() {
  return new Promise((resolve, reject) => {
    const script = el('script', {src: 'ferry-wasm.js'});
    script.addEventListener('load', () => resolve(Uint8Array.from(atob(globalThis.ferryWasm), (letter) => letter.charCodeAt(0))));
    script.addEventListener('error', () => reject(new Error('ferry-wasm.js is missing beside the page')));
    document.head.append(script);
  });
}

async function start() {
  see = app.see = new See(ferry);
  pages = {check: new CheckPage(app), run: new RunPage(app), compare: new ComparePage(app), profile: new ProfilePage(app)};
  app.pages = pages;
  listen();
  if (location.protocol === 'file:') ferry.env.wasm.wasmBinary = await wasmFromScript();
  const asked = new URLSearchParams(location.search), wanted = asked.get('model');
  const name = wanted && wanted.split('/').pop();
  if (wanted) await app.open(wanted, name, asked.getAll('data').map((path) => ({path, data: new URL(`${wanted.replace(/[^/]*$/, '')}${path}`, location.href).href})))
    .catch(async (error) => {
      await app.open(wanted, name);  // without its weights it can be seen still
      status(`${error.message} (shown without its weights)`, 'error');
    });
}
start().catch(tell).finally(() => { app.ready = true; });
