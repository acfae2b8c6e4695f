// ferry-web: the runtime and the tools.
export * from './run.mjs';
export {check, command, compare, convert, doctor, exportModel, exportModel as export, graph, info, optimize, weight} from './tools.mjs';
