// Inputs by hand, from a picture, a sound or an .npz; outputs as numbers, top five, picture or mask.
import {byId, el, number, table} from './dom.mjs';
import {arrayFrom, numbersOf, randomTensor, readNpz} from './npz.mjs';

const normal = {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]};

export class RunPage {
  constructor(app) {
    this.app = app;
    this.given = new Map();
    this.labels = [];
  }
  reset() {
    this.given.clear();
    this.pictures = new Map();
    this.built = null;
    byId('run-page').replaceChildren();
  }
  shown() { return this.build(); }

  // Once for a model, however many ask; what failed is tried again.
  build() {
    const {model} = this.app;
    const built = this.built ||= this.make(model).catch((error) => {
      if (this.built === built) this.built = null;
      throw error;
    });
    return built;
  }
  async make(model) {
    const session = await this.app.busy('making a session…', () => this.app.theSession());
    if (this.app.model !== model) return;
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
    const isImage = layoutOf(input) !== undefined;
    const isSound = input.type === 'float32' && !isImage;
    const note = el('p', {class: 'quiet', id: `${id}-note`, ariaLive: 'polite'}, 'random numbers');
    const forget = () => {
      this.given.delete(input.name);
      this.pictures.delete(input.name);
      note.textContent = byId(`${id}-values`).value.trim() ? 'numbers as written' : 'random numbers';
    };
    // A picture is made to fit another shape.
    const shape = el('input', {type: 'text', value: dims.join(', '), id: `${id}-shape`, oninput: () => this.given.delete(input.name), onchange: () => this.pictures.has(input.name) ? this.pictures.get(input.name)() : forget()});
    const values = el('textarea', {id: `${id}-values`, ariaLabel: `values of ${input.name}`, placeholder: 'numbers, or empty for random ones', oninput: forget});
    return el('div', {class: 'field'}, el('strong', {}, input.name), el('span', {class: 'quiet'}, ` ${input.type} [${(input.shape || []).join(', ')}]`),
      el('div', {class: 'row'}, el('label', {htmlFor: `${id}-shape`}, 'shape'), shape), values,
      isImage ? this.imageRow(input, note) : null, isSound ? this.soundRow(input, note) : null, note);
  }

  imageRow(input, note) {
    const id = `input-${input.name}`;
    let file, turn = 0;
    // Again whenever layout, normalisation or shape change; the last one asked for counts.
    const take = async () => {
      if (!file) return;
      const mine = ++turn;
      this.pictures.set(input.name, take);
      try {
        const made = await this.imageTensor(input, file, layout.value, norm.value);
        if (mine !== turn || this.pictures.get(input.name) !== take) return;
        this.given.set(input.name, made);
        byId(`${id}-shape`).value = made.dims.join(', ');
        note.textContent = `from ${file.name}, ${made.width} × ${made.height}`;
      } catch (error) {
        if (mine !== turn) return;
        this.given.delete(input.name);
        this.pictures.delete(input.name);
        note.textContent = `${error.message}: random numbers`;
      }
    };
    const layouts = layoutOf(input) === 'NHWC' ? ['NHWC', 'NCHW'] : ['NCHW', 'NHWC'];
    const layout = el('select', {ariaLabel: 'layout', id: `${id}-layout`, onchange: () => take()}, layouts.map((name) => el('option', {}, name)));
    const norm = el('select', {ariaLabel: 'normalise', id: `${id}-normalise`, onchange: () => take()}, el('option', {value: 'imagenet'}, 'ImageNet mean and deviation'), el('option', {value: 'unit'}, '0 to 1'),
      el('option', {value: 'sign'}, '-1 to 1'), el('option', {value: 'raw'}, '0 to 255'));
    // Bytes are what pictures are made of.
    norm.value = input.type.includes('float') ? 'imagenet' : 'raw';
    return el('div', {class: 'row'}, el('label', {htmlFor: `${id}-picture`}, 'picture'),
      el('input', {type: 'file', id: `${id}-picture`, accept: 'image/*', onchange: ({target}) => {
        [file] = target.files;
        return take();
      }}), layout, norm);
  }

  // Where a size is free and was not written by hand, it is the picture's.
  async imageTensor(input, file, layout, norm) {
    const dims = this.shapeOf(input), nhwc = layout === 'NHWC';
    const axes = nhwc ? [3, 1, 2] : [1, 2, 3], isFree = (axis) => typeof input.shape[axis] !== 'number' && !(dims[axis] > 1);
    if (dims.length !== 4 || !dims.every((dim) => Number.isSafeInteger(dim) && dim > 0)) throw new Error(`a picture has four sizes, not [${dims}]`);
    let bitmap;
    try {
      bitmap = await createImageBitmap(file);
    } catch {
      throw new Error(`${file.name} is no picture that this browser reads`);
    }
    const channels = isFree(axes[0]) ? 3 : dims[axes[0]], height = isFree(axes[1]) ? bitmap.height : dims[axes[1]], width = isFree(axes[2]) ? bitmap.width : dims[axes[2]];
    if (channels > 4) throw new Error(`by the layout ${layout} there are ${channels} channels, a picture has 1, 3 or 4`);
    const canvas = new OffscreenCanvas(width, height), c = canvas.getContext('2d'), count = width * height;
    c.drawImage(bitmap, 0, 0, width, height);
    bitmap.close();
    const {data} = c.getImageData(0, 0, width, height), one = new Float32Array(count * channels);
    for (let i = 0; i < count; ++i)
      for (let k = 0; k < channels; ++k) {
        const value = channels === 1 ? (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 3 : data[4 * i + k];
        const scaled = norm === 'raw' ? value : norm === 'unit' ? value / 255 : norm === 'sign' ? value / 127.5 - 1 : (value / 255 - (normal.mean[k] ?? 0.5)) / (normal.std[k] ?? 0.25);
        one[nhwc ? i * channels + k : k * count + i] = scaled;
      }
    const all = new Float32Array(one.length * dims[0]);
    for (let i = 0; i < dims[0]; ++i) all.set(one, i * one.length);
    return {type: input.type, dims: nhwc ? [dims[0], height, width, channels] : [dims[0], channels, height, width], data: arrayFrom(input.type, all), width, height};
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
    await this.build();
    const arrays = await this.app.busy('reading…', () => readNpz(bytes)), missing = [];
    this.session.inputMetadata.forEach((input, i) => {
      const found = arrays[input.name] || arrays[`in${i}`];
      if (!found) return missing.push(input.name);
      this.pictures.delete(input.name);
      this.given.set(input.name, found);
      byId(`input-${input.name}-shape`).value = found.dims.join(', ');
      byId(`input-${input.name}-note`).textContent = 'from the .npz';
    });
    if (missing.length) this.app.status(`the .npz has no ${missing.slice(0, 5).map((name) => `'${name}'`).join(', ')}: its arrays are ${Object.keys(arrays).slice(0, 10).join(', ')}`, 'error');
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
    return {type: input.type, dims, data: arrayFrom(input.type, words)};
  }

  async feeds() {
    const session = await this.app.theSession();
    return Object.fromEntries(session.inputMetadata.map((input) => {
      const {type, dims, data} = this.tensorOf(input);
      return [input.name, new this.app.ferry.Tensor(type, data, dims)];
    }));
  }

  async run() {
    const {session, app: {model}} = this;
    await this.app.busy('running…', async () => {
      const feeds = await this.feeds(), begin = performance.now();
      const results = await session.run(feeds);
      const time = performance.now() - begin;
      if (this.app.model !== model) return;
      this.app.results = results;
      byId('run-result').replaceChildren(el('p', {}, `${number(Number(time.toPrecision(3)))} ms on ${session.threads} thread${session.threads > 1 ? 's' : ''}`),
        ...Object.entries(results).map(([name, value]) => this.result(name, value)));
    });
  }

  result(name, value) {
    const box = el('div', {class: 'field'}, el('h3', {}, name));
    if (!value || !value.dims) {
      box.append(el('p', {}, value === null ? 'nothing (an empty optional)' : value instanceof Map ? `a map of ${value.size}` : `a sequence of ${value.length}`));
      return box;
    }
    // One that cannot be shown leaves the others.
    try {
      box.append(...this.parts(value));
    } catch (error) {
      box.append(el('p', {class: 'bad'}, `this output cannot be shown: ${error.message}`));
    }
    return box;
  }

  parts({dims, type, data}) {
    const parts = [el('p', {class: 'quiet'}, `${type} [${dims.join(', ')}]`)], last = dims.at(-1) || 1;
    const first = (count) => type === 'string' ? data.slice(0, count) : numbersOf(type, data.subarray(0, count)) || data.subarray(0, count);
    if (dims.length >= 1 && dims.length <= 2 && last >= 5 && type.includes('float')) parts.push(this.topFive(first(last)));
    if (dims.length >= 3 && dims.at(-1) >= 8 && dims.at(-2) >= 8 && type !== 'string')
      parts.push(picture(dims, first(dims.at(-1) * dims.at(-2) * dims.at(-3))));
    parts.push(el('pre', {}, Array.from(first(64), (each) => number(typeof each === 'bigint' ? Number(each) : each)).join('  ') + (data.length > 64 ? '  …' : '')));
    return parts;
  }

  // By one pass: a row may have millions.
  topFive(row) {
    const best = [];
    for (let i = 0; i < row.length; ++i) {
      if (best.length === 5 && !(row[i] > row[best[4]])) continue;
      best.push(i);
      best.sort((a, b) => row[b] - row[a] || a - b);
      best.length = Math.min(5, best.length);
    }
    let sum = 0;
    for (const value of row) sum += Math.exp(value - row[best[0]]);
    return table(['class', 'value', 'softmax'], best.map((i) =>
      [this.labels[i] ? `${this.labels[i]} (${i})` : String(i), number(row[i]), `${(100 * Math.exp(row[i] - row[best[0]]) / sum).toFixed(1)} %`]), [1, 2]);
  }
}

const isChannels = (dim) => dim === 1 || dim === 3 || dim === 4;

// Which of its axes are the channels of an input that can be a picture; undefined where it cannot. Sizes that are free tell nothing but
// by their names.
export function layoutOf({type, shape}) {
  if (!shape || shape.length !== 4 || type === 'string' || type === 'bool') return undefined;
  const [, second, , fourth] = shape, named = (dim) => typeof dim === 'string' && /^c$|chan/i.test(dim), isFree = (dim) => typeof dim !== 'number';
  if (isChannels(second) && !(isChannels(fourth) && second === 1 && fourth !== 1)) return 'NCHW';
  if (isChannels(fourth)) return 'NHWC';
  if (named(fourth) && !named(second)) return 'NHWC';
  return isFree(second) ? 'NCHW' : undefined;
}

// Three channels are a picture, more are a mask by the strongest, one is grey. Of what is huge every so many pixels are shown.
const mostSteps = 1 << 23;

export function picture(dims, data) {
  const height = dims.at(-2), width = dims.at(-1), channels = dims.at(-3), count = height * width, looked = channels > 3 ? channels : Math.min(channels, 3);
  const step = Math.max(1, Math.ceil(Math.sqrt(count * looked / mostSteps)), Math.ceil(Math.max(width, height) / 2048));
  const across = Math.ceil(width / step), down = Math.ceil(height / step);
  const canvas = el('canvas', {width: across, height: down, class: 'picture', role: 'img', ariaLabel: channels === 3 ? 'the output as a picture' : channels > 3 ? 'the strongest channel of each pixel' : 'the output in grey'});
  const c = canvas.getContext('2d'), image = c.createImageData(across, down);
  const pixels = (use) => { for (let y = 0, at = 0; y < height; y += step) for (let x = 0; x < width; x += step) use(y * width + x, 4 * at++); };
  const shown = channels === 3 ? 3 : 1;
  let least = Infinity, most = -Infinity;
  if (channels <= 3) {
    pixels((i) => {
      for (let k = 0; k < shown; ++k) {
        const value = Number(data[k * count + i]);
        if (value < least) least = value;
        if (value > most) most = value;
      }
    });
  }
  pixels((i, at) => {
    if (channels > 3) {
      let best = 0;
      for (let k = 1; k < channels; ++k) if (data[k * count + i] > data[best * count + i]) best = k;
      image.data[at] = best * 67 % 256;
      image.data[at + 1] = best * 131 % 256;
      image.data[at + 2] = best * 29 % 256;
    } else {
      for (let k = 0; k < 3; ++k) image.data[at + k] = 255 * (Number(data[(k < shown ? k : 0) * count + i]) - least) / (most - least || 1);
    }
    image.data[at + 3] = 255;
  });
  c.putImageData(image, 0, 0);
  return canvas;
}
