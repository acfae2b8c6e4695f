// Runs a WebAssembly program: node run_wasm.mjs PROGRAM [arguments]
import {readFileSync} from 'node:fs';
import {WASI} from 'node:wasi';

const args = process.argv.slice(2);
const wasi = new WASI({version: 'preview1', args, env: process.env});
const program = await WebAssembly.compile(readFileSync(args[0]));
process.exitCode = wasi.start(await WebAssembly.instantiate(program, {wasi_snapshot_preview1: wasi.wasiImport}));
