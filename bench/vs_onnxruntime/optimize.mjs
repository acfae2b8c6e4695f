// Writes a network as ONNX Runtime's optimiser leaves it (level "extended"): QLinearConv and its relatives for
// QuantizeLinear and DequantizeLinear, SkipLayerNormalization, BiasGelu …
//
//   node bench/vs_onnxruntime/optimize.mjs MODULES MODEL.onnx OUT.onnx
//
// Large weights are left in MODEL's own data file: OUT belongs into the same folder.
import {createRequire} from 'node:module';
import {join} from 'node:path';

const [modules, model, out] = process.argv.slice(2);
const ort = createRequire(join(modules, 'package.json'))('onnxruntime-node');
await ort.InferenceSession.create(model, {graphOptimizationLevel: 'extended', optimizedModelFilePath: out, intraOpNumThreads: 1});
