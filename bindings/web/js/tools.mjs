// Ferry's tools: each takes a model (URL, Blob, bytes or ModelFile) and answers with what the command line prints as JSON.
import {FerryError, newFolder, putFile, theHost} from './host.mjs';
import {ModelFile} from './model_file.mjs';

async function withModel(model, use, options) {
  const own = !(model instanceof ModelFile);
  const file = await ModelFile.open(model, options);
  try {
    return await use(file);
  } finally {
    if (own) await file.release();
  }
}

const dims = (sizes) => Object.entries(sizes || {}).flatMap(([name, size]) => ['--dim', `${name}=${size}`]);
const option = (name, value) => value === undefined || value === null ? [] : [`--${name}`, String(value)];

function parse(output) {
  try {
    return JSON.parse(output);
  } catch {
    return undefined;
  }
}

// Exit status 2 and 3: the question was wrong, or the model cannot be used.
function answerOf({status, output, errors}) {
  const answer = parse(output);
  if (answer && answer.error && status >= 2) throw new FerryError(answer.error.message, answer.error.code);
  if (status >= 2 || answer === undefined) throw new FerryError(errors || output || `the command ended with status ${status}`, 'invalid_argument');
  return answer;
}

async function run(file, words, results = []) {
  return file.host.call('command', {words, results});
}

// A model that is written, and the file with its weights where it has one, by the name under which the model asks for it.
const filesOf = (out) => [out, `${out}.data`];
function modelIn(files, out) {
  const [model, data] = filesOf(out);
  return {bytes: files[model], ...(files[data] ? {externalData: [{path: data.slice(1), data: files[data]}]} : {})};
}

export function info(model, options = {}) {
  return withModel(model, async (file) =>
    answerOf(await run(file, ['info', file.path, '--json', ...(options.layers ? ['--layers'] : []), ...dims(options.dims)])), options);
}

export function check(model, options = {}) {
  return withModel(model, async (file) => answerOf(await run(file, ['check', file.path, '--json'])), options);
}

// options: fix (the mended file comes as `fixed`), targets, dims, args.
export function doctor(model, options = {}) {
  return withModel(model, async (file) => {
    const out = '/fixed.onnx';
    const answer = await run(file, ['doctor', file.path, '--json', ...(options.fix ? ['--fix', out] : []),
      ...(options.targets || []).flatMap((target) => ['--target', target]), ...(options.args || [])], filesOf(out));
    const report = answerOf(answer), {bytes, externalData} = modelIn(answer.files, out);
    if (bytes) report.fixed = bytes;
    if (externalData) report.externalData = externalData;
    return report;
  }, options);
}

// against: a second model, which may bring its data files as {data, externalData}, or {recordings: [npz …]} of inputs and outputs.
export function compare(model, against, options = {}) {
  return withModel(model, async (file) => {
    const host = file.host, folder = newFolder(), put = [];
    const words = ['compare', file.path];
    let other;
    try {
      if (against && !against.recordings) {
        other = await ModelFile.open(against);
        words.push(other.pathOn(host));
      }
      const recordings = (against && against.recordings) || options.recordings || [];
      for (const [i, recording] of recordings.entries()) {
        const path = `${folder}/recording_${i}.npz`;
        put.push(path);
        await putFile(host, path, recording);
        words.push('--data', path);
      }
      words.push('--json', ...option('rtol', options.rtol), ...option('atol', options.atol), ...dims(options.dims), ...(options.args || []));
      return answerOf(await run(file, words));
    } finally {
      if (other && other !== against) await other.release();
      if (!host.dead) await host.call('remove', {paths: put});
    }
  }, options);
}

async function made(file, words, out) {
  const answer = await run(file, [...words, '-o', out, '--json'], filesOf(out));
  if (!answer.files[out]) answerOf(answer.status < 2 ? {...answer, status: 3} : answer);
  return {...modelIn(answer.files, out), report: parse(answer.output)};
}

export function convert(model, options = {}) {
  return withModel(model, (file) => made(file, ['convert', file.path, ...option('opset', options.opset),
    ...(options.standard ? ['--standard'] : []), ...(options.args || [])], '/converted.onnx'), options);
}

export function optimize(model, options = {}) {
  return withModel(model, (file) => made(file, ['optimize', file.path, ...dims(options.dims), ...(options.args || [])], '/optimized.onnx'), options);
}

// A .pt2 or .pt of PyTorch's to .onnx.
export function exportModel(model, options = {}) {
  const list = (name, values) => values ? [`--${name}`, values.join(',')] : [];
  return withModel(model, (file) => made(file, ['export', file.path, ...option('opset', options.opset), ...list('input-names', options.inputNames),
    ...list('output-names', options.outputNames), ...(options.args || [])], '/exported.onnx'), options);
}

// The graph as it is written in the file, for drawing it.
export function graph(model, options = {}) {
  return withModel(model, async (file) => JSON.parse(await file.host.call('graph', {path: file.path})), options);
}

// One weight: {type, dims, data}.
export function weight(model, name, options = {}) {
  return withModel(model, (file) => file.host.call('weight', {path: file.path, name}), options);
}

// Any command line: files is {path: bytes}, results names the files to give back.
export async function command(words, {files = {}, results = []} = {}) {
  const host = await theHost();
  await host.write(files);
  try {
    return await host.call('command', {words, results});
  } finally {
    if (!host.dead) await host.call('erase', {paths: Object.keys(files)});
  }
}

