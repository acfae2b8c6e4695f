// What ONNX Runtime says about a model's inputs, as JSON. A process of its own: its memory is gone when it ends.
//
//   node describe.mjs MODULES MODEL
import {createRequire} from 'node:module';
import {join} from 'node:path';

const [modules, model] = process.argv.slice(2);
const ort = createRequire(join(modules, 'package.json'))('onnxruntime-node');
const session = await ort.InferenceSession.create(model, {graphOptimizationLevel: 'disabled', logSeverityLevel: 4});
console.log(JSON.stringify(session.inputMetadata));
process.exit(0);
