// The workbench: one model, five ways to look at it.
import * as ferry from 'ferry-web';
import {byId, el} from './dom.mjs';
import {CheckPage} from './check_page.mjs';
import {ComparePage} from './compare_page.mjs';
import {ProfilePage} from './profile_page.mjs';
import {RunPage} from './run_page.mjs';
import {See} from './see.mjs';

const app = {ferry, model: null, session: null};
globalThis.workbench = app;

let see, pages;
const tabs = ['see', 'check', 'run', 'compare', 'profile'];

export function status(text) { byId('status').textContent = text || ''; }
app.status = status;

// Says what goes on while it does, and what went wrong.
app.busy = async (text, work) => {
  status(text);
  try {
    const result = await work();
    status('');
    return result;
  } catch (error) {
    status(error.message || String(error));
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
  if (app.model && pages[name]) pages[name].shown();
};

// A session is made when one is first needed, and kept for the model.
app.theSession = async () => app.session ||= await ferry.InferenceSession.create(app.model);

async function release() {
  const {model, session} = app;
  app.model = app.session = null;
  if (session) await session.release();
  if (model) await model.release();
}

// others: data files of the model, as {path, data}.
app.open = async (source, name, others = []) => {
  if (/\.npz$/i.test(name) && app.model) {
    app.choose('run');
    return pages.run.useNpz(new Uint8Array(await (await toBlob(source)).arrayBuffer()));
  }
  const begin = performance.now();
  await app.busy(`opening ${name}…`, async () => {
    await release();
    let model = await ferry.ModelFile.open(source, {name, externalData: others, onProgress: (done, all) => status(`reading ${name}: ${all ? Math.round(100 * done / all) + ' %' : done + ' bytes'}`)});
    app.exported = null;
    if (/\.(pt2|pt|pth)$/i.test(name)) {
      status(`exporting ${name} to ONNX…`);
      const {bytes} = await ferry.exportModel(model);
      await model.release();
      app.exported = bytes;
      name = name.replace(/\.[^.]*$/, '.onnx');
      model = await ferry.ModelFile.open(bytes, {name});
    }
    const graph = await ferry.graph(model);
    let info = null;
    try {
      info = await ferry.info(model, {layers: true});
    } catch (error) {
      app.infoError = error.message;
    }
    app.model = model;
    app.graph = graph;
    app.info = info;
    byId('welcome').hidden = true;
    byId('model-name').textContent = name;
    document.title = `${name} – Ferry workbench`;
    app.choose('see');
    see.show(model, graph, info);
    for (const page of Object.values(pages)) page.reset();
  });
  app.openTime = performance.now() - begin;
};

async function toBlob(source) { return source instanceof Blob ? source : (await fetch(source)).blob(); }

// A model, and beside it the files that its weights lie in.
function openFiles(files) {
  const model = files.find((file) => /\.(onnx|pt2|pt|pth|npz)$/i.test(file.name)) || files[0];
  if (model) app.open(model, model.name, files.filter((file) => file !== model).map((file) => ({path: file.name, data: file}))).catch(() => {});
}

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
  const pick = () => byId('file').click();
  byId('open-file').addEventListener('click', pick);
  byId('choose').addEventListener('click', pick);
  byId('file').addEventListener('change', () => {
    openFiles([...byId('file').files]);
    byId('file').value = '';
  });
  const openUrl = () => {
    const url = byId('url').value.trim();
    if (url) app.open(url, new URL(url, location.href).pathname.split('/').pop() || 'model.onnx').catch(() => {});
  };
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
    openFiles([...event.dataTransfer.files]);
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
      status(error.message);
    });
}
start().catch((error) => status(error.message)).finally(() => { app.ready = true; });
