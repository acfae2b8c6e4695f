// sizes.mjs PACKAGE: what a page downloads for each flavour, as it lies and with brotli, held to its bounds.
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {brotliCompressSync, constants} from 'node:zlib';

const folder = process.argv[2];
const compressed = (bytes) => brotliCompressSync(bytes, {params: {[constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24,
  [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length}}).length;
let failures = 0;
for (const [flavour, script, mostRaw, mostBrotli] of [['run', 'run.mjs', 2.6e6, 0.75e6], ['all', 'index.mjs', 5.4e6, 1.4e6]]) {
  const parts = [`ferry-${flavour}-st-relaxed.wasm`, script].map((file) => readFileSync(join(folder, file)));
  const raw = parts.reduce((sum, part) => sum + part.length, 0), brotli = parts.reduce((sum, part) => sum + compressed(part), 0);
  const holds = raw <= mostRaw && brotli <= mostBrotli;
  if (!holds) ++failures;
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${flavour}: ${raw} bytes, ${brotli} with brotli (at most ${mostRaw}, ${mostBrotli})`);
}
process.exit(failures ? 1 : 0);
