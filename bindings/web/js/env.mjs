// Settings, as onnxruntime-web has them. They are read when the first session or tool is made.
export const version = '__VERSION__';

export const env = {
  logLevel: 'warning',
  debug: false,
  trace: false,
  versions: {common: version, web: version, ferry: version},
  wasm: {
    numThreads: undefined,   // 1 unless the page is cross-origin isolated
    simd: true,
    initTimeout: 0,
    wasmPaths: undefined,    // where the .wasm files are: a prefix, or {wasm: url}
    wasmBinary: undefined,
    proxy: undefined,        // a worker in pages unless false
    relaxedSimd: undefined,  // where the engine has it unless false
    workerURL: undefined,    // ferry-engine.js, for pages whose policy forbids workers from blobs
  },
  webgl: {},
  webgpu: {},
};

// A module of one instruction that only engines with relaxed SIMD take.
const relaxedProbe = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253,
  15, 65, 2, 253, 15, 253, 128, 2, 11]);

export function hasRelaxedSimd() {
  try {
    return WebAssembly.validate(relaxedProbe);
  } catch {
    return false;
  }
}

export const isNode = typeof process !== 'undefined' && !!process.versions && !!process.versions.node && process.type !== 'renderer';

const told = new Set();
export function warnOnce(text) {
  if (!told.has(text) && told.add(text)) console.warn(`ferry: ${text}`);
}

export function threadsWanted() {
  const isolated = isNode || globalThis.crossOriginIsolated === true;
  const cores = isNode ? 2 : (globalThis.navigator && navigator.hardwareConcurrency) || 1;
  const asked = env.wasm.numThreads;
  if (asked > 1 && !isolated)
    warnOnce(`env.wasm.numThreads is ${asked}, but the page is not cross-origin isolated (no COOP and COEP headers), so there is no shared memory: one thread is used.`);
  if (!isolated || typeof SharedArrayBuffer === 'undefined') return 1;
  if (asked > 0) return Math.min(64, Math.floor(asked));
  return isNode ? 1 : Math.max(1, Math.min(4, Math.ceil(cores / 2)));
}
