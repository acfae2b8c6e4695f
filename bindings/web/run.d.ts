// ferry-web/run: the runtime alone, with the names and types of onnxruntime-web.

export namespace Tensor {
  interface DataTypeMap {
    float32: Float32Array;
    uint8: Uint8Array;
    int8: Int8Array;
    uint16: Uint16Array;
    int16: Int16Array;
    int32: Int32Array;
    int64: BigInt64Array;
    string: string[];
    bool: Uint8Array;
    /** Float16Array where the engine has one. */
    float16: Uint16Array;
    float64: Float64Array;
    uint32: Uint32Array;
    uint64: BigUint64Array;
    uint4: Uint8Array;
    /** Two in a byte. */
    int4: Uint8Array;
  }
  interface ElementTypeMap {
    float32: number;
    uint8: number;
    int8: number;
    uint16: number;
    int16: number;
    int32: number;
    int64: bigint;
    string: string;
    bool: boolean;
    float16: number;
    float64: number;
    uint32: number;
    uint64: bigint;
    uint4: number;
    int4: number;
  }
  type Type = keyof DataTypeMap;
  type DataType = DataTypeMap[Type];
  type ElementType = ElementTypeMap[Type];
  type DataLocation = 'none' | 'cpu' | 'cpu-pinned' | 'texture' | 'gpu-buffer' | 'ml-tensor';
}
export type TensorType = Tensor.Type | 'bfloat16' | 'complex64' | 'complex128';
export type TensorData = Tensor.DataType;

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
export interface ToImageOptions {
  tensorLayout?: 'NCHW' | 'NHWC';
  format?: 'RGB' | 'BGR';
  norm?: {mean?: number | number[]; bias?: number | number[]};
}

interface TensorOf<T extends Tensor.Type> extends TensorLike {
  readonly type: T;
  readonly dims: number[];
  readonly size: number;
  /** Throws when the tensor was disposed of. */
  readonly data: Tensor.DataTypeMap[T];
  readonly location: Tensor.DataLocation;
  getData(release?: boolean): Promise<Tensor.DataTypeMap[T]>;
  dispose(): void;
}
export interface TypedTensor<T extends Tensor.Type> extends TensorOf<T> {
  reshape(dims: readonly number[]): TypedTensor<T>;
  toImageData(options?: ToImageOptions): ImageData;
  toDataURL(options?: ToImageOptions): string;
}
export interface Tensor extends TensorOf<Tensor.Type> {
  reshape(dims: readonly number[]): Tensor;
  toImageData(options?: ToImageOptions): ImageData;
  toDataURL(options?: ToImageOptions): string;
}

type Numbers<T extends Tensor.Type> = T extends 'int64' | 'uint64' ? readonly bigint[] | readonly number[] :
  T extends 'string' ? readonly string[] : T extends 'bool' ? readonly boolean[] :
  T extends 'int4' ? Int8Array : readonly number[];
export interface TensorConstructor {
  new <T extends Tensor.Type>(type: T, data: Tensor.DataTypeMap[T] | Numbers<T>, dims?: readonly number[]): TypedTensor<T>;
  new (type: TensorType, data: TensorData | readonly number[] | readonly bigint[] | readonly boolean[] | readonly string[], dims?: readonly number[]): Tensor;
  new (data: Float32Array, dims?: readonly number[]): TypedTensor<'float32'>;
  new (data: Int8Array, dims?: readonly number[]): TypedTensor<'int8'>;
  new (data: Uint8Array | Uint8ClampedArray, dims?: readonly number[]): TypedTensor<'uint8'>;
  new (data: Uint16Array, dims?: readonly number[]): TypedTensor<'uint16'>;
  new (data: Int16Array, dims?: readonly number[]): TypedTensor<'int16'>;
  new (data: Int32Array, dims?: readonly number[]): TypedTensor<'int32'>;
  new (data: BigInt64Array, dims?: readonly number[]): TypedTensor<'int64'>;
  new (data: readonly string[], dims?: readonly number[]): TypedTensor<'string'>;
  new (data: readonly boolean[], dims?: readonly number[]): TypedTensor<'bool'>;
  new (data: Float64Array, dims?: readonly number[]): TypedTensor<'float64'>;
  new (data: Uint32Array, dims?: readonly number[]): TypedTensor<'uint32'>;
  new (data: BigUint64Array, dims?: readonly number[]): TypedTensor<'uint64'>;
  fromImage(image: ImageData | HTMLImageElement | ImageBitmap | string, options?: FromImageOptions): Promise<TypedTensor<'float32'> | TypedTensor<'uint8'>>;
  fromPinnedBuffer<T extends Exclude<Tensor.Type, 'string'>>(type: T, buffer: Tensor.DataTypeMap[T], dims?: readonly number[]): TypedTensor<T>;
}
export const Tensor: TensorConstructor;

/** A URL, a Blob or File, or bytes. In Node a string that is no URL is a path. */
export type Source = string | URL | Blob | ArrayBufferLike | Uint8Array;

export interface SessionOptions {
  /** 'wasm' and 'cpu' are Ferry. */
  executionProviders?: readonly (string | {readonly name: string})[];
  /** Under the names by which the model asks for them, folders included. */
  externalData?: readonly (string | {path: string; data: Source})[];
  freeDimensionOverrides?: {readonly [dimension: string]: number};
  graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  /** Only 'ferry-web' writes profiles: 'ferry-web/run' warns and goes on. */
  enableProfiling?: boolean;
  /** How much of the model and its data has come; `total` is 0 where it is not known. */
  onProgress?: (loaded: number, total: number) => void;
  /** Only algorithms that add up products as the operators' texts do. */
  exact?: boolean;
  /** Bytes that a run may hold at once, weights not among them. */
  maxBytes?: number;
  /** Seconds until opening, or a run, gives up. */
  timeLimit?: number;
  [other: string]: unknown;
}

export interface RunOptions {
  logSeverityLevel?: 0 | 1 | 2 | 3 | 4;
  logVerbosityLevel?: number;
  terminate?: boolean;
  tag?: string;
  extra?: Record<string, unknown>;
}

export interface ValueMetadata {
  readonly name: string;
  readonly isTensor: boolean;
  readonly type: Tensor.Type;
  /** Undefined where the rank is not known. */
  readonly shape: ReadonlyArray<number | string>;
}

export interface InferenceSession {
  run(feeds: InferenceSession.FeedsType, options?: RunOptions): Promise<InferenceSession.ReturnType>;
  run(feeds: InferenceSession.FeedsType, fetches: InferenceSession.FetchesType, options?: RunOptions): Promise<InferenceSession.ReturnType>;
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
export interface InferenceSessionFactory {
  create(model: Source | ModelFile, options?: SessionOptions): Promise<InferenceSession>;
  create(buffer: ArrayBufferLike, byteOffset: number, options?: SessionOptions): Promise<InferenceSession>;
  create(buffer: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: SessionOptions): Promise<InferenceSession>;
}
export const InferenceSession: InferenceSessionFactory;

type Options = SessionOptions;
type OptionsOfRun = RunOptions;
type Metadata = ValueMetadata;
export namespace InferenceSession {
  type OnnxValueMapType = {readonly [name: string]: Tensor};
  type NullableOnnxValueMapType = {readonly [name: string]: TensorLike | null};
  type FeedsType = {readonly [name: string]: TensorLike};
  type FetchesType = readonly string[] | NullableOnnxValueMapType;
  type ReturnType = OnnxValueMapType;
  type ExecutionProviderConfig = string | {readonly name: string};
  type SessionOptions = Options;
  type RunOptions = OptionsOfRun;
  type ValueMetadata = Metadata;
}

/** A model that is sent to the worker once and used by several tools and sessions. */
export class ModelFile {
  static open(source: Source | {name?: string; data: Source}, options?: {
    name?: string;
    externalData?: readonly (string | {path: string; data: Source})[];
    onProgress?: (loaded: number, total: number) => void;
  }): Promise<ModelFile>;
  readonly name: string;
  release(): Promise<void>;
}

export class FerryError extends Error {
  readonly code: 'invalid_argument' | 'invalid_model' | 'not_found' | 'unsupported' | 'io' | 'limit' | 'cancelled' | 'internal' | 'deadline' | 'dead';
}

export interface Env {
  logLevel?: 'verbose' | 'info' | 'warning' | 'error' | 'fatal';
  debug?: boolean;
  trace?: boolean;
  readonly versions: {readonly common: string; readonly web: string; readonly ferry: string};
  readonly wasm: {
    /** Threads of a run; 1 unless the page is cross-origin isolated. */
    numThreads?: number;
    simd?: boolean | 'fixed' | 'relaxed';
    trace?: boolean;
    initTimeout?: number;
    /**
     * Where the .wasm files are: a prefix, or {wasm: url}; one with '-st' in its name is for one thread. What is not there is looked
     * for beside the script, with a warning; places of onnxruntime's own files are passed over.
     */
    wasmPaths?: string | {wasm?: string | URL; mjs?: string | URL};
    wasmBinary?: ArrayBufferLike | Uint8Array;
    /** A worker does the work in pages unless this is false. */
    proxy?: boolean;
    /** Relaxed SIMD is used where the engine has it unless this is false. */
    relaxedSimd?: boolean;
    /** The URL of ferry-engine-all.cjs or ferry-engine-run.cjs, for pages whose policy forbids workers from blobs. */
    workerURL?: string | URL;
  };
  readonly webgl: Record<string, any>;
  readonly webgpu: Record<string, any>;
}
export const env: Env;

/** The bytes of WebAssembly's memory, which does not shrink, and the sessions in it. */
export function memory(): Promise<{bytes: number; sessions: number}>;
export function registerBackend(name: string, backend: object, priority: number): void;

/** The same names as one object, as `import ort from` takes them. */
declare const ort: {
  readonly InferenceSession: InferenceSessionFactory;
  readonly Tensor: TensorConstructor;
  readonly ModelFile: typeof ModelFile;
  readonly FerryError: typeof FerryError;
  readonly env: Env;
  readonly registerBackend: typeof registerBackend;
};
export default ort;
