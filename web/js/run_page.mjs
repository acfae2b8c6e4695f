// Inputs by hand, from a picture, a sound or an .npz; outputs as numbers, top five, picture or mask.
import {byId, el, number, table} from './dom.mjs';
import {arrayOf, randomTensor, readNpz} from './npz.mjs';

const normal = {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]};

export class RunPage {
  constructor(app) {
    this.app = app;
    this.given = new Map();
    this.labels = [];
  }
  reset() {
    this.given.clear();
    this.built = false;
    byId('run-page').replaceChildren();
  }
  shown() { if (!this.built) this.build().catch(() => {}); }

  async build() {
    const session = await this.app.busy('making a session…', () => this.app.theSession());
    this.built = true;
    this.session = session;
    byId('run-page').replaceChildren(el('h2', {}, 'Run'),
      el('div', {class: 'row'}, el('label', {class: 'inline', htmlFor: 'npz'}, 'all inputs from an .npz'), el('input', {type: 'file', id: 'npz', accept: '.npz', onchange: (event) => this.npzChosen(event)})),
      ...session.inputMetadata.map((input) => this.field(input)),
      el('div', {class: 'row'}, el('button', {class: 'main', id: 'run', onclick: () => this.run()}, 'Run'),
        el('label', {class: 'stacked'}, 'labels for the top five ', el('input', {type: 'file', accept: '.txt,.json', onchange: (event) => this.labelsChosen(event)}))),
      el('div', {id: 'run-result', ariaLive: 'polite'}));
  }

  dimsOf(input) { return (input.shape || []).map((dim) => typeof dim === 'number' ? dim : 1); }

  field(input) {
    const dims = this.dimsOf(input), id = `input-${input.name}`;
    const isImage = dims.length === 4 && (dims[1] === 3 || dims[3] === 3 || dims[1] === 1 || dims[3] === 1);
    const isSound = input.type === 'float32' && !isImage;
    const shape = el('input', {type: 'text', value: dims.join(', '), id: `${id}-shape`, oninput: () => this.given.delete(input.name)});
    const note = el('p', {class: 'quiet', id: `${id}-note`}, 'random numbers');
    const values = el('textarea', {id: `${id}-values`, ariaLabel: `values of ${input.name}`, placeholder: 'numbers, or empty for random ones', oninput: () => this.given.delete(input.name)});
    return el('div', {class: 'field'}, el('strong', {}, input.name), el('span', {class: 'quiet'}, ` ${input.type} [${(input.shape || []).join(', ')}]`),
      el('div', {class: 'row'}, el('label', {htmlFor: `${id}-shape`}, 'shape'), shape), values,
      isImage ? this.imageRow(input, note) : null, isSound ? this.soundRow(input, note) : null, note);
  }

  imageRow(input, note) {
    const id = `input-${input.name}`;
    const layout = el('select', {ariaLabel: 'layout'}, el('option', {}, this.dimsOf(input)[3] <= 4 ? 'NHWC' : 'NCHW'), el('option', {}, this.dimsOf(input)[3] <= 4 ? 'NCHW' : 'NHWC'));
    const norm = el('select', {ariaLabel: 'normalise'}, el('option', {value: 'imagenet'}, 'ImageNet mean and deviation'), el('option', {value: 'unit'}, '0 to 1'), el('option', {value: 'sign'}, '-1 to 1'), el('option', {value: 'raw'}, '0 to 255'));
    return el('div', {class: 'row'}, el('label', {htmlFor: `${id}-picture`}, 'picture'),
      el('input', {type: 'file', id: `${id}-picture`, accept: 'image/*', onchange: async ({target}) => {
        if (target.files[0]) note.textContent = await this.useImage(input, target.files[0], layout.value, norm.value);
      }}), layout, norm);
  }

  async useImage(input, file, layout, norm) {
    const dims = this.shapeOf(input), nhwc = layout === 'NHWC';
    const [channels, height, width] = nhwc ? [dims[3], dims[1], dims[2]] : [dims[1], dims[2], dims[3]];
    const bitmap = await createImageBitmap(file);
    const canvas = new OffscreenCanvas(width > 1 ? width : bitmap.width, height > 1 ? height : bitmap.height), c = canvas.getContext('2d');
    c.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    const {data} = c.getImageData(0, 0, canvas.width, canvas.height), count = canvas.width * canvas.height;
    const out = new (arrayOf(input.type))(count * channels);
    for (let i = 0; i < count; ++i)
      for (let k = 0; k < channels; ++k) {
        const value = channels === 1 ? (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 3 : data[4 * i + k];
        const scaled = norm === 'raw' ? value : norm === 'unit' ? value / 255 : norm === 'sign' ? value / 127.5 - 1 : (value / 255 - (normal.mean[k] ?? 0.5)) / (normal.std[k] ?? 0.25);
        out[nhwc ? i * channels + k : k * count + i] = scaled;
      }
    this.given.set(input.name, {type: input.type, dims: nhwc ? [1, canvas.height, canvas.width, channels] : [1, channels, canvas.height, canvas.width], data: out});
    return `from ${file.name}, ${canvas.width} × ${canvas.height}`;
  }

  soundRow(input, note) {
    const id = `input-${input.name}`;
    const rate = el('input', {type: 'text', value: '16000', size: 6, ariaLabel: 'samples a second'});
    const take = async (buffer, what) => {
      const context = new OfflineAudioContext(1, 1, Number(rate.value) || 16000);
      const audio = await context.decodeAudioData(buffer);
      const samples = audio.getChannelData(0), dims = this.shapeOf(input), size = dims.reduce((a, b) => a * b, 1);
      const data = new Float32Array(size > 1 ? size : samples.length);
      data.set(samples.subarray(0, data.length));
      this.given.set(input.name, {type: 'float32', dims: size > 1 ? dims : [...dims.slice(0, -1), samples.length], data});
      note.textContent = `${data.length} samples from ${what}`;
    };
    return el('div', {class: 'row'}, el('label', {htmlFor: `${id}-sound`}, 'sound'),
      el('input', {type: 'file', id: `${id}-sound`, accept: 'audio/*', onchange: async ({target}) => {
        if (target.files[0]) await take(await target.files[0].arrayBuffer(), target.files[0].name).catch((error) => { note.textContent = error.message; });
      }}), rate, el('button', {onclick: () => this.record(take, note)}, 'Record 3 s'));
  }

  async record(take, note) {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({audio: true});
      const recorder = new MediaRecorder(stream), parts = [];
      recorder.ondataavailable = ({data}) => parts.push(data);
      recorder.onstop = async () => {
        stream.getTracks().forEach((track) => track.stop());
        await take(await new Blob(parts).arrayBuffer(), 'the microphone');
      };
      recorder.start();
      note.textContent = 'listening…';
      setTimeout(() => recorder.stop(), 3000);
    } catch (error) {
      note.textContent = error.message;
    }
  }

  async npzChosen({target}) {
    if (target.files[0]) await this.useNpz(new Uint8Array(await target.files[0].arrayBuffer()));
  }
  async useNpz(bytes) {
    if (!this.built) await this.build();
    const arrays = await this.app.busy('reading…', () => readNpz(bytes));
    this.session.inputMetadata.forEach((input, i) => {
      const found = arrays[input.name] || arrays[`in${i}`];
      if (!found) return;
      this.given.set(input.name, found);
      byId(`input-${input.name}-shape`).value = found.dims.join(', ');
      byId(`input-${input.name}-note`).textContent = 'from the .npz';
    });
  }
  async labelsChosen({target}) {
    if (!target.files[0]) return;
    const text = await target.files[0].text();
    this.labels = target.files[0].name.endsWith('.json') ? Object.values(JSON.parse(text)).map((entry) => Array.isArray(entry) ? entry.at(-1) : String(entry)) : text.split(/\r?\n/);
  }

  shapeOf(input) {
    const field = byId(`input-${input.name}-shape`);
    return field ? field.value.split(/[\s,×x]+/).filter(Boolean).map(Number) : this.dimsOf(input);
  }

  tensorOf(input) {
    if (this.given.has(input.name)) return this.given.get(input.name);
    const dims = this.shapeOf(input), field = byId(`input-${input.name}-values`);
    const text = field ? field.value.trim() : '';
    if (!text) return randomTensor(input.type, dims);
    const words = text.split(/[\s,;[\]]+/).filter(Boolean);
    if (input.type === 'string') return {type: 'string', dims, data: words};
    const data = arrayOf(input.type).from(words, input.type.endsWith('int64') ? BigInt : input.type === 'bool' ? (word) => Number(word !== '0' && word !== 'false') : Number);
    return {type: input.type, dims, data};
  }

  async feeds() {
    const session = await this.app.theSession();
    return Object.fromEntries(session.inputMetadata.map((input) => {
      const {type, dims, data} = this.tensorOf(input);
      return [input.name, new this.app.ferry.Tensor(type, data, dims)];
    }));
  }

  async run() {
    await this.app.busy('running…', async () => {
      const feeds = await this.feeds(), begin = performance.now();
      const results = await this.session.run(feeds);
      const time = performance.now() - begin;
      this.app.results = results;
      byId('run-result').replaceChildren(el('p', {}, `${number(Number(time.toPrecision(3)))} ms on ${this.session.threads} thread${this.session.threads > 1 ? 's' : ''}`),
        ...Object.entries(results).map(([name, value]) => this.result(name, value)));
    });
  }

  result(name, value) {
    const box = el('div', {class: 'field'}, el('h3', {}, name));
    if (!value || !value.dims) {
      box.append(el('p', {}, value === null ? 'nothing (an empty optional)' : value instanceof Map ? `a map of ${value.size}` : `a sequence of ${value.length}`));
      return box;
    }
    const {dims, type, data} = value;
    box.append(el('p', {class: 'quiet'}, `${type} [${dims.join(', ')}]`));
    const last = dims.at(-1) || 1;
    if (dims.length >= 1 && dims.length <= 2 && last >= 5 && type.startsWith('float')) box.append(this.topFive(data, last));
    if (dims.length >= 3 && dims.at(-1) >= 8 && dims.at(-2) >= 8 && type !== 'string') box.append(picture(value));
    box.append(el('pre', {}, Array.from(data.slice(0, 64), (each) => number(typeof each === 'bigint' ? Number(each) : each)).join('  ') + (data.length > 64 ? '  …' : '')));
    return box;
  }

  topFive(data, last) {
    const row = Array.from(data.slice(0, last), Number), most = Math.max(...row);
    const weights = row.map((value) => Math.exp(value - most)), sum = weights.reduce((a, b) => a + b, 0);
    const best = row.map((value, i) => [value, i]).sort((a, b) => b[0] - a[0]).slice(0, 5);
    return table(['class', 'value', 'softmax'], best.map(([value, i]) =>
      [this.labels[i] ? `${this.labels[i]} (${i})` : String(i), number(value), `${(100 * weights[i] / sum).toFixed(1)} %`]), [1, 2]);
  }
}

// Three channels are a picture, more are a mask by the strongest, one is grey.
function picture({dims, data}) {
  const height = dims.at(-2), width = dims.at(-1), channels = dims.length >= 3 ? dims.at(-3) : 1, count = height * width;
  const canvas = el('canvas', {width, height, class: 'picture', role: 'img', ariaLabel: channels === 3 ? 'the output as a picture' : channels > 3 ? 'the strongest channel of each pixel' : 'the output in grey'});
  const c = canvas.getContext('2d'), image = c.createImageData(width, height);
  let least = Infinity, most = -Infinity;
  for (let i = 0; i < count * Math.min(channels, 3); ++i) {
    const value = Number(data[i]);
    if (value < least) least = value;
    if (value > most) most = value;
  }
  const shade = (value) => 255 * (Number(value) - least) / (most - least || 1);
  for (let i = 0; i < count; ++i) {
    let colour;
    if (channels === 3) colour = [0, 1, 2].map((k) => shade(data[k * count + i]));
    else if (channels > 3) {
      let best = 0;
      for (let k = 1; k < channels; ++k) if (data[k * count + i] > data[best * count + i]) best = k;
      colour = [best * 67 % 256, best * 131 % 256, best * 29 % 256];
    } else colour = Array(3).fill(shade(data[i]));
    image.data.set([...colour, 255], 4 * i);
  }
  c.putImageData(image, 0, 0);
  return canvas;
}
