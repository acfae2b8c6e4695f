// ferry-web/run: the runtime alone, with the names and types of onnxruntime-web.

export type TensorType = 'float32' | 'uint8' | 'int8' | 'uint16' | 'int16' | 'int32' | 'int64' | 'string' | 'bool' | 'float16' |
  'float64' | 'uint32' | 'uint64' | 'uint4' | 'int4' | 'bfloat16' | 'complex64' | 'complex128' | (string & {});
export type TensorData = Float32Array | Uint8Array | Int8Array | Uint16Array | Int16Array | Int32Array | BigInt64Array | string[] |
  Float64Array | Uint32Array | BigUint64Array;

/** Any tensor with these members is taken: one of onnxruntime-common's as well. */
export interface TensorLike {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: any;
  readonly location?: string;
}

export interface FromImageOptions {
  resizedWidth?: number;
  resizedHeight?: number;
  tensorFormat?: 'RGB' | 'BGR' | 'RBG' | 'RGBA';
  tensorLayout?: 'NCHW' | 'NHWC';
  dataType?: 'float32' | 'uint8';
  norm?: {mean?: number | number[]; bias?: number | number[]};
}

export class Tensor implements TensorLike {
  constructor(type: TensorType, data: TensorData | readonly number[] | readonly bigint[] | readonly boolean[], dims?: readonly number[]);
  constructor(data: TensorData | Uint8ClampedArray | readonly boolean[], dims?: readonly number[]);
  readonly type: TensorType;
  readonly dims: readonly number[];
  readonly size: number;
  readonly data: any;
  readonly location: 'cpu' | 'none';
  getData(release?: boolean): Promise<any>;
  dispose(): void;
  reshape(dims: readonly number[]): Tensor;
  toImageData(options?: {tensorLayout?: 'NCHW' | 'NHWC'; format?: 'RGB' | 'BGR'; norm?: {mean?: number | number[]; bias?: number | number[]}}): ImageData;
  toDataURL(options?: {tensorLayout?: 'NCHW' | 'NHWC'; format?: 'RGB' | 'BGR'; norm?: {mean?: number | number[]; bias?: number | number[]}}): string;
  static fromImage(image: ImageData | HTMLImageElement | ImageBitmap | string, options?: FromImageOptions): Promise<Tensor>;
  static fromPinnedBuffer(type: TensorType, buffer: TensorData, dims?: readonly number[]): Tensor;
}

/** A URL, a Blob or File, or bytes. In Node a string that is no URL is a path. */
export type Source = string | URL | Blob | ArrayBufferLike | Uint8Array;

export interface SessionOptions {
  /** 'wasm' and 'cpu' are Ferry. */
  executionProviders?: readonly (string | {readonly name: string})[];
  externalData?: readonly (string | {path: string; data: Source})[];
  freeDimensionOverrides?: {readonly [dimension: string]: number};
  graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  enableProfiling?: boolean;
  /** How much of the model and its data has come. */
  onProgress?: (loaded: number, total: number) => void;
  /** Only algorithms that add up products as the operators' texts do. */
  exact?: boolean;
  /** Bytes that a run may hold at once, weights not among them. */
  maxBytes?: number;
  /** Seconds until opening, or a run, gives up. */
  timeLimit?: number;
  [other: string]: unknown;
}

export interface ValueMetadata {
  readonly name: string;
  readonly isTensor: boolean;
  readonly type: string;
  readonly shape?: readonly (number | string)[];
}

export class InferenceSession {
  static create(model: Source | ModelFile, options?: SessionOptions): Promise<InferenceSession>;
  static create(buffer: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: SessionOptions): Promise<InferenceSession>;
  run(feeds: {readonly [name: string]: TensorLike}, options?: object): Promise<{readonly [name: string]: Tensor}>;
  run(feeds: {readonly [name: string]: TensorLike}, fetches: readonly string[] | {readonly [name: string]: TensorLike | null}, options?: object):
    Promise<{readonly [name: string]: Tensor}>;
  release(): Promise<void>;
  startProfiling(): void;
  /** The trace of the last run, as chrome://tracing reads it. */
  endProfiling(): string;
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  /** Threads that a run uses. */
  readonly threads: number;
}
export namespace InferenceSession {
  export {SessionOptions, ValueMetadata};
}

/** A model that is sent to the worker once and used by several tools and sessions. */
export class ModelFile {
  static open(source: Source | {name?: string; data: Source}, options?: {
    name?: string;
    externalData?: readonly {path: string; data: Source}[];
    onProgress?: (loaded: number, total: number) => void;
  }): Promise<ModelFile>;
  readonly name: string;
  release(): Promise<void>;
}

export class FerryError extends Error {
  readonly code: 'invalid_argument' | 'invalid_model' | 'not_found' | 'unsupported' | 'io' | 'limit' | 'cancelled' | 'internal' | 'deadline' | 'dead';
}

export const env: {
  logLevel?: string;
  debug?: boolean;
  trace?: boolean;
  readonly versions: {readonly common: string; readonly web: string; readonly ferry: string};
  readonly wasm: {
    /** Threads of a run; 1 unless the page is cross-origin isolated. */
    numThreads?: number;
    simd?: boolean;
    initTimeout?: number;
    /** Where the .wasm files are: a prefix, or {wasm: url}. */
    wasmPaths?: string | {wasm?: string | URL; mjs?: string | URL};
    wasmBinary?: ArrayBufferLike | Uint8Array;
    /** A worker does the work in pages unless this is false. */
    proxy?: boolean;
    /** Relaxed SIMD is used where the engine has it unless this is false. */
    relaxedSimd?: boolean;
    /** The URL of ferry-engine-all.cjs or ferry-engine-run.cjs, for pages whose policy forbids workers from blobs. */
    workerURL?: string | URL;
  };
  readonly webgl: object;
  readonly webgpu: object;
};

export function registerBackend(name: string, backend: object, priority: number): void;
