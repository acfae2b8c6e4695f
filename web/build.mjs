// build.mjs PACKAGE OUT TOOLS: the workbench page from its sources and the built package. Everything it needs lies beside
// it; ferry-wasm.js holds the module for pages opened from a disk, where nothing can be fetched.
import {copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';

const [given, out, tools] = process.argv.slice(2), here = dirname(fileURLToPath(import.meta.url)), ferry = resolve(given);
const {build} = createRequire(join(resolve(tools), 'x.js'))('esbuild');
mkdirSync(out, {recursive: true});
await build({entryPoints: [join(here, 'js/main.mjs')], bundle: true, format: 'iife', outfile: join(out, 'workbench.js'), target: 'es2022', minify: true,
  legalComments: 'none', alias: {'ferry-web': join(ferry, 'page.mjs')}, logLevel: 'error'});
for (const file of ['index.html', 'workbench.css']) copyFileSync(join(here, file), join(out, file));
for (const file of readdirSync(ferry)) if (/^ferry-all.*\.wasm$/.test(file)) copyFileSync(join(ferry, file), join(out, file));
writeFileSync(join(out, 'ferry-wasm.js'), `globalThis.ferryWasm='${readFileSync(join(ferry, 'ferry-all-st.wasm')).toString('base64')}';\n`);
