// ferry-web: the runtime and the tools. Answers are what the command line prints with --json (docs/cli.md).
import run from './run.js';
import type {ModelFile, Source, TensorLike} from './run.js';
export * from './run.js';

type Model = Source | ModelFile | {name?: string; data: Source; externalData?: readonly (string | {path: string; data: Source})[]};
type Written = readonly {path: string; data: Uint8Array}[];
interface Made {
  bytes: Uint8Array;
  /** Where the weights were written to a file of their own: as a session's `externalData` takes it. */
  externalData?: Written;
  report: any;
}

export function check(model: Model): Promise<any>;
export function info(model: Model, options?: {layers?: boolean; dims?: {[name: string]: number}}): Promise<any>;
/** With `fix`, the mended model comes as `fixed` where something could be mended, its data file, if any, as `externalData`. */
export function doctor(model: Model, options?: {fix?: boolean; targets?: string[]; args?: string[]}): Promise<any & {fixed?: Uint8Array; externalData?: Written}>;
/** Against a second model, or against recorded inputs and outputs (.npz). */
export function compare(model: Model, against: Model | {recordings: Source[]}, options?: {
  recordings?: Source[];
  rtol?: number;
  atol?: number;
  dims?: {[name: string]: number};
  args?: string[];
}): Promise<any>;
export function convert(model: Model, options?: {opset?: number; standard?: boolean; args?: string[]}): Promise<Made>;
export function optimize(model: Model, options?: {dims?: {[name: string]: number}; args?: string[]}): Promise<Made>;
/** A .pt2 or .pt of PyTorch's to .onnx. */
export function exportModel(model: Model, options?: {opset?: number; inputNames?: string[]; outputNames?: string[]; args?: string[]}): Promise<Made>;
export {exportModel as export};
/** The graph as it is written in the file. */
export function graph(model: Model): Promise<any>;
export function weight(model: Model, name: string): Promise<TensorLike>;
/** Any command line of Ferry's, with files of its own. */
export function command(words: string[], options?: {files?: {[path: string]: Uint8Array}; results?: string[]}):
  Promise<{status: number; output: string; errors: string; files: {[path: string]: Uint8Array}}>;

/** The same names as one object. */
declare const ferry: typeof run & {
  readonly check: typeof check;
  readonly info: typeof info;
  readonly doctor: typeof doctor;
  readonly compare: typeof compare;
  readonly convert: typeof convert;
  readonly optimize: typeof optimize;
  readonly exportModel: typeof exportModel;
  readonly graph: typeof graph;
  readonly weight: typeof weight;
  readonly command: typeof command;
};
export default ferry;
