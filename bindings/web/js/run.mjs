// ferry-web/run: the runtime alone, with the names of onnxruntime-web.
export {env} from './env.mjs';
export {FerryError, memory} from './host.mjs';
export {ModelFile} from './model_file.mjs';
export {InferenceSession} from './session.mjs';
export {Tensor} from './tensor.mjs';

// Ferry is its own backend; who registers another one may, and nothing comes of it.
export function registerBackend() {}
export function TRACE() {}
export function TRACE_FUNC_BEGIN() {}
export function TRACE_FUNC_END() {}
export function TRACE_EVENT_BEGIN() {}
export function TRACE_EVENT_END() {}
