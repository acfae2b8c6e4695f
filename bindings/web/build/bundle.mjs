// bundle.mjs MODULES OUT ESBUILD VERSION: the package's files from its sources and the linked modules.
//
// The engine (emscripten's two loaders and js/engine.js) is one classic script. It is there twice: as a file, for Node and
// for pages with a strict policy, and as a text in the package itself, from which a page makes its worker: whatever
// bundles the package, only the .wasm files have to be found.
import {copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';

const [modules, out, tools, version] = process.argv.slice(2);
const {build} = createRequire(join(resolve(tools), 'x.js'))('esbuild');
const web = join(dirname(fileURLToPath(import.meta.url)), '..');
mkdirSync(out, {recursive: true});

// A loader in a scope of its own, which gives its factory.
const loader = (name, flavour, threads) => `var ${name} = (function (module, exports, define) {
${readFileSync(join(modules, `ferry-${flavour}-${threads}.js`), 'utf8')}
return FerryModule;
})();
`;

async function engineText(flavour) {
  const tail = `
var isThread = typeof self !== 'undefined' && self.name && self.name.startsWith('em-pthread');
if (typeof process !== 'undefined' && process.versions && process.versions.node) module.exports = {Engine, FerryError};
else if (!isThread && typeof WorkerGlobalScope !== 'undefined' && self instanceof WorkerGlobalScope && self.name === 'ferry') serve(self);
else globalThis.FerryEngine = {Engine, FerryError};
`;
  const source = loader('makeSingle', flavour, 'st') + loader('makeThreaded', flavour, 'mt') +
    readFileSync(join(web, 'js/engine.js'), 'utf8') + tail;
  const {outputFiles} = await build({stdin: {contents: source, loader: 'js'}, write: false, minify: true,
    target: 'es2022', legalComments: 'none'});
  return outputFiles[0].text;
}

// Where the package itself lies is said differently in each form.
const place = (flavour, form, engineFile) => {
  const lines = [`export const flavour = '${flavour}';`];
  // Node before 22.3 gives its own modules by import only; bundlers leave a name that is computed alone.
  const builtIn = form === 'esm' ? `const builtIn = async (name) => typeof process !== 'undefined' && process.getBuiltinModule ? process.getBuiltinModule(name) :
  import(/* webpackIgnore: true */ /* @vite-ignore */ name);` : "const builtIn = async () => require('fs');";
  const nodeLoad = form === 'esm' ? "const {createRequire} = await builtIn('node:module'); const need = createRequire(import.meta.url);" : 'const need = require;';
  lines.push({
    esm: "export const here = () => new URL('.', import.meta.url).href;",
    cjs: "const script = typeof document !== 'undefined' && document.currentScript ? document.currentScript.src : undefined;\n" +
      "export const here = () => script ? new URL('.', script).href : typeof __dirname !== 'undefined' ? `file://${__dirname}/` : location.href;",
    global: "const script = typeof document !== 'undefined' && document.currentScript ? document.currentScript.src : undefined;\n" +
      "export const here = () => script ? new URL('.', script).href : location.href;",
  }[form === 'page' ? 'global' : form]);
  if (form === 'global' || form === 'page') {
    lines.push("export const readLocal = async () => { throw new Error('there are no files here'); };",
      'export async function loadEngineFile(text, url) { await import(url); return {...globalThis.FerryEngine}; }');
  } else {
    lines.push(builtIn, `export async function readLocal(name) {
  const {readFileSync} = await builtIn('node:fs');
  return new Uint8Array(readFileSync(name.startsWith('file:') ? new URL(name) : name));
}
export async function loadEngineFile(text, url) {
  if (url) { await import(/* webpackIgnore: true */ /* @vite-ignore */ url); return {...globalThis.FerryEngine}; }
  ${nodeLoad}
  const file = need.resolve('./${engineFile}');
  return {...need(file), file};
}`);
  }
  return lines.join('\n');
};

const flavours = [['run', 'run', 'run.mjs'], ['all', 'index', 'index.mjs']];
for (const [flavour, name, entry] of flavours) {
  const engine = await engineText(flavour);
  const engineFile = `ferry-engine-${flavour}.cjs`;
  writeFileSync(join(out, engineFile), engine);
  for (const [form, file] of [['esm', `${name}.mjs`], ['cjs', `${name}.cjs`], ['global', `${name}.global.js`],
    ...(flavour === 'all' ? [['page', 'page.mjs']] : [])]) {
    const virtual = {
      name: 'ferry',
      setup(hooks) {
        hooks.onResolve({filter: /^ferry-(engine-text|place)$/}, ({path}) => ({path, namespace: 'ferry'}));
        hooks.onLoad({filter: /.*/, namespace: 'ferry'}, ({path}) => path === 'ferry-place' ?
          {contents: place(flavour, form, engineFile), loader: 'js'} : {contents: engine, loader: 'text'});
        hooks.onLoad({filter: /env\.mjs$/}, ({path}) => ({contents: readFileSync(path, 'utf8').replace('__VERSION__', version), loader: 'js'}));
      },
    };
    await build({entryPoints: [join(web, 'js', entry)], bundle: true, outfile: join(out, file), plugins: [virtual], target: 'es2022',
      format: {esm: 'esm', cjs: 'cjs', global: 'iife', page: 'esm'}[form], globalName: form === 'global' ? 'ort' : undefined, platform: 'neutral',
      minify: true, legalComments: 'none', external: ['node:module', 'fs'], logLevel: 'error'});
  }
  // The same object as the default export, for `import ort from`.
  const module = join(out, `${name}.mjs`);
  const names = /export\{([^}]*)\};?\s*$/.exec(readFileSync(module, 'utf8'));
  if (!names) throw new Error(`${module} exports nothing`);
  const pairs = names[1].split(',').map((pair) => pair.trim().split(' as '));
  const object = pairs.map(([inner, outer]) => `${JSON.stringify(outer || inner)}:${inner}`).join(',');
  writeFileSync(module, readFileSync(module, 'utf8').replace(/export\{([^}]*)\};?\s*$/, `var ferryDefault={${object}};export{$1,ferryDefault as default};\n`));
  writeFileSync(join(out, `${name}.cjs`), `${readFileSync(join(out, `${name}.cjs`), 'utf8')}module.exports.default=module.exports;\n`);
}
for (const file of readdirSync(modules)) if (file.endsWith('.wasm')) copyFileSync(join(modules, file), join(out, file));
for (const file of ['index.d.ts', 'run.d.ts', 'README.md']) copyFileSync(join(web, file), join(out, file));
const description = JSON.parse(readFileSync(join(web, 'package.json'), 'utf8'));
writeFileSync(join(out, 'package.json'), `${JSON.stringify({...description, version}, null, 2)}\n`);
