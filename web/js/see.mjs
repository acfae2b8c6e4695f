// The graph and what is known of each node.
import {colourOf} from './colours.mjs';
import {GraphView} from './graph_view.mjs';
import {Groups} from './groups.mjs';
import {bytes, byId, count, el, number, table} from './dom.mjs';
import {numbersOf} from './npz.mjs';

// What a node reads, bodies of control flow included: their own values are none of it.
export function readsOf(node) {
  const reads = new Set(node.inputs);
  for (const value of Object.values(node.attributes || {})) {
    if (!value || !value.graph) continue;
    const {nodes, inputs, weights, outputs} = value.graph, own = new Set([...inputs, ...weights].map(({name}) => name));
    for (const inner of nodes) for (const name of inner.outputs) own.add(name);
    for (const inner of nodes) for (const name of readsOf(inner)) if (!own.has(name)) reads.add(name);
    for (const {name} of outputs) if (!own.has(name)) reads.add(name);
  }
  reads.delete('');
  return [...reads];
}

export class See {
  constructor(ferry) {
    this.ferry = ferry;
    this.view = new GraphView(byId('graph'), byId('minimap'), {chosen: (item) => this.showItem(item), opened: (item) => this.open(item)});
    byId('search').addEventListener('input', () => this.search(byId('search').value));
    byId('search').addEventListener('keydown', (event) => { if (event.key === 'Enter') this.nextFound(event.shiftKey ? -1 : 1); });
    byId('colour').addEventListener('change', () => this.redraw(true));
    byId('fit').addEventListener('click', () => this.view.whole());
    byId('collapse').addEventListener('click', () => { this.groups.closeAtDepth(1); this.redraw(); });
    byId('expand').addEventListener('click', () => { this.groups.openAll(); this.redraw(); });
    this.found = [];
    this.times = new Map();
    this.marks = new Map();
  }

  // graph: as the module gives it; info: the command's, with layers, or null and why in infoError.
  show({model, graph, info, infoError}) {
    Object.assign(this, {model, graph, info, infoError, times: new Map(), marks: new Map()});
    this.weights = new Map(graph.weights.map((weight) => [weight.name, weight]));
    this.groups = new Groups(graph.nodes, this.weights);
    for (const id of ['collapse', 'expand']) byId(id).disabled = this.groups.sizes.size === 0;
    this.types = new Map();
    for (const value of [...graph.values, ...graph.inputs, ...graph.outputs]) this.types.set(value.name, value);
    this.layers = new Map();
    for (const layer of info?.layers || [])
      for (const output of layer.outputs) {
        this.layers.set(output.name, layer);
        this.types.set(output.name, output);
      }
    this.maker = new Map();
    this.readers = new Map();
    this.byName = new Map();
    this.reads = graph.nodes.map((node) => readsOf(node));
    graph.nodes.forEach((node, i) => {
      for (const name of node.outputs) if (name) this.maker.set(name, i);
      for (const name of [node.name, ...node.outputs]) if (name && !this.byName.has(name)) this.byName.set(name, i);
      for (const name of this.reads[i]) (this.readers.get(name) || this.readers.set(name, []).get(name)).push(i);
    });
    this.groups.closeFor(3000);
    this.redraw();
    this.showModel();
  }

  layerOf(node) { return node.outputs.map((name) => this.layers.get(name)).find(Boolean); }

  costOf(i, kind) {
    const node = this.graph.nodes[i];
    if (kind === 'time') return this.times.get(i) || 0;
    const layer = this.layerOf(node);
    return (layer && {cost: layer.multiply_adds, memory: layer.output_bytes, parameters: layer.parameters}[kind]) || 0;
  }

  shapeText(name) {
    const type = this.types.get(name);
    return type?.shape ? type.shape.map((dim) => dim ?? '?').join(' × ') || 'scalar' : '';
  }

  redraw(keepView = false) {
    const kind = byId('colour').value;
    const {items: seen, itemOf} = this.groups.visible();
    const inputs = this.graph.inputs.filter((input) => !this.weights.has(input.name) && this.readers.has(input.name));
    const items = inputs.map((input) => ({label: input.name, detail: this.shapeText(input.name), colour: 'input', value: input.name}));
    const offset = items.length;
    for (const item of seen) {
      if (item.group) {
        items.push({label: item.group.split('/').pop(), detail: `${item.members.length} nodes`, colour: 'group', group: item.group, members: item.members});
      } else {
        const node = this.graph.nodes[item.node];
        items.push({label: node.op, detail: this.shapeText(node.outputs[0]) || node.name, colour: node.op, node: item.node});
      }
    }
    const last = items.length;
    this.graph.outputs.forEach((output) => items.push({label: output.name, detail: this.shapeText(output.name), colour: 'output', value: output.name}));
    const edges = [], known = new Set();
    const add = (from, to, name) => {
      const key = `${from},${to}`;
      if (from === to || known.has(key)) return;
      known.add(key);
      edges.push({from, to, name});
    };
    const inputItem = new Map(inputs.map((input, i) => [input.name, i]));
    this.graph.nodes.forEach((_, i) => {
      for (const name of this.reads[i]) {
        const maker = this.maker.get(name);
        if (maker !== undefined) add(offset + itemOf[maker], offset + itemOf[i], name);
        else if (inputItem.has(name)) add(inputItem.get(name), offset + itemOf[i], name);
      }
    });
    this.graph.outputs.forEach((output, i) => {
      const maker = this.maker.get(output.name);
      if (maker !== undefined) add(offset + itemOf[maker], last + i, output.name);
    });
    if (kind !== 'op') {
      const costs = items.map((item) => item.members ? item.members.reduce((sum, i) => sum + this.costOf(i, kind), 0) : item.node !== undefined ? this.costOf(item.node, kind) : 0);
      const most = costs.reduce((a, b) => Math.max(a, b), 1e-12);
      const said = {cost: count, memory: bytes, parameters: count, time: (value) => `${number(Number(value.toPrecision(3)))} ms`}[kind];
      items.forEach((item, i) => {
        item.strength = Math.sqrt(costs[i] / most);
        if (costs[i] > 0) item.detail = said(costs[i]);
      });
    }
    this.itemOf = (i) => offset + itemOf[i];
    this.view.marked = new Set([...this.marks.keys()].map((i) => this.itemOf(i)));
    this.view.show(items, edges, {keepView});
  }

  open(item) {
    const {group} = this.view.items[item];
    if (group) {
      this.groups.toggle(group);
    } else if (this.view.items[item].node !== undefined) {
      const scope = this.groups.scopes[this.view.items[item].node];
      if (!scope.length) return;
      this.groups.toggle(scope.join('/'));
    }
    this.view.chosen = -1;
    this.redraw(true);
    this.view.fit();
  }

  goTo(i) {
    const path = this.groups.closedOf(i);
    for (let group = path; group; group = this.groups.closedOf(i)) this.groups.closed.delete(group);
    if (path) this.redraw(true);
    this.view.choose(this.itemOf(i));
  }
  // A node by its own name or that of a value it makes.
  find(name) { return this.byName.get(name); }
  goToName(name) {
    const i = this.find(name);
    if (i !== undefined) this.goTo(i);
    return i !== undefined;
  }
  mark(names, why) {
    this.marks.clear();
    this.graph.nodes.forEach((node, i) => { if (names.some((name) => node.name === name || node.outputs.includes(name))) this.marks.set(i, why); });
    this.redraw(true);
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.found = !wanted ? [] : this.graph.nodes.map((node, i) => [node, i]).filter(([node]) =>
      node.name.toLowerCase().includes(wanted) || node.op.toLowerCase().includes(wanted) || [...node.inputs, ...node.outputs].some((name) => name.toLowerCase().includes(wanted)))
      .map(([, i]) => i);
    this.at = -1;
    byId('found').textContent = wanted ? `${this.found.length} found` : '';
    if (this.found.length) this.nextFound(1);
  }
  nextFound(step) {
    if (!this.found.length) return;
    this.at = (this.at + step + this.found.length) % this.found.length;
    byId('found').textContent = `${this.at + 1} of ${this.found.length}`;
    this.goTo(this.found[this.at]);
  }

  // What is chosen, for those who do not see the drawing.
  say(item) {
    const shown = this.view.items[item], node = shown && shown.node !== undefined ? this.graph.nodes[shown.node] : undefined;
    const degree = (list, one, many) => `${list.length} ${list.length === 1 ? one : many}`;
    byId('announce').textContent = !shown ? 'nothing chosen' : [shown.group ? `group ${shown.label}` : node ? `${shown.label} ${node.name}`.trim() : `${shown.colour} ${shown.label}`,
      shown.detail, this.marks.get(shown.node), degree(this.view.before[item], 'edge comes', 'edges come'), degree(this.view.after[item], 'edge leaves', 'edges leave')].filter(Boolean).join(', ');
  }

  showItem(item) {
    byId('side').scrollTop = 0;
    this.say(item);
    if (item < 0) return this.showModel();
    const shown = this.view.items[item];
    if (shown.group) return this.showGroup(shown);
    if (shown.node !== undefined) return this.showNode(shown.node);
    this.showValue(shown.value);
  }

  showModel() {
    const {info} = this;
    const costs = info?.by_operator || [];
    byId('side').replaceChildren(...[
      el('h2', {}, this.model.name),
      this.infoError ? el('p', {class: 'warn'}, `Shapes and costs are not known: ${this.infoError}`) : null,
      el('dl', {}, ...[['nodes', count(this.graph.nodes.length)], ['parameters', count(info?.parameters)], ['weights', bytes(info?.parameter_bytes)],
        ['multiply-adds', count(info?.multiply_adds)], ['memory of a run', bytes(info?.activation_bytes)], ['producer', info?.producer || '–'],
        ['opsets', Object.entries(info?.opsets || {}).map(([domain, version]) => `${domain} ${version}`).join(', ')]]
        .flatMap(([key, value]) => [el('dt', {}, key), el('dd', {}, value)])),
      el('h3', {}, 'Inputs'), this.valueList(this.graph.inputs.filter((input) => !this.weights.has(input.name))),
      el('h3', {}, 'Outputs'), this.valueList(this.graph.outputs),
      ...this.costParts(),
      costs.length ? el('h3', {}, 'By operator') : null,
      costs.length ? table(['operator', 'nodes', 'mult-adds'], costs.slice(0, 12).map((cost) => [el('span', {}, chip(cost.op), cost.op), String(cost.nodes), count(cost.multiply_adds)]), [1, 2]) : null,
    ].filter(Boolean));
  }
  valueList(values) {
    return el('dl', {}, values.flatMap((value) => [el('dt', {}, value.name), el('dd', {}, `${value.type || ''} ${this.shapeText(value.name)}`)]));
  }
  costParts() {
    const costs = this.graph.nodes.map((node, i) => [this.costOf(i, 'cost'), i]).filter(([cost]) => cost > 0).sort((a, b) => b[0] - a[0]).slice(0, 10);
    const whole = this.info?.multiply_adds || costs.reduce((sum, [cost]) => sum + cost, 0) || 1;
    if (!costs.length) return [];
    return [el('h3', {}, 'Most costly layers'), table(['layer', 'mult-adds', 'share'], costs.map(([cost, i]) =>
      [this.link(this.graph.nodes[i].name || this.graph.nodes[i].op, i), count(cost), `${(100 * cost / whole).toFixed(1)} %`]), [1, 2])];
  }
  link(text, i) { return el('button', {class: 'link', onclick: () => this.goTo(i)}, text); }

  showGroup({group, members}) {
    byId('side').replaceChildren(el('h2', {}, group), el('p', {}, `${members.length} nodes`),
      el('button', {onclick: () => this.open(this.view.items.findIndex((item) => item.group === group))}, 'Open the group'),
      el('dl', {}, el('dt', {}, 'multiply-adds'), el('dd', {}, count(members.reduce((sum, i) => sum + this.costOf(i, 'cost'), 0)))));
  }

  showValue(name) {
    byId('side').replaceChildren(el('h2', {}, name), el('p', {}, `${this.types.get(name)?.type || ''} ${this.shapeText(name)}`),
      el('h3', {}, 'Read by'), el('ul', {}, (this.readers.get(name) || []).slice(0, 50).map((i) => el('li', {}, this.link(`${this.graph.nodes[i].op} ${this.graph.nodes[i].name}`, i)))));
  }

  showNode(i) {
    const node = this.graph.nodes[i], layer = this.layerOf(node);
    const parts = [el('h2', {}, node.op), el('p', {class: 'quiet'}, node.name || '(no name)')];
    if (this.marks.has(i)) parts.push(el('p', {class: 'bad'}, this.marks.get(i)));
    parts.push(el('dl', {}, ...[['domain', node.domain || 'ai.onnx'], ['multiply-adds', layer && count(layer.multiply_adds)], ['parameters', layer && count(layer.parameters)],
      ['time', this.times.has(i) ? `${number(this.times.get(i))} ms` : undefined], ['module', node.scope]].filter(([, value]) => value !== undefined && value !== null)
      .flatMap(([key, value]) => [el('dt', {}, key), el('dd', {}, value)])));
    const attributes = Object.entries(node.attributes || {});
    if (attributes.length) parts.push(el('h3', {}, 'Attributes'), el('dl', {}, attributes.flatMap(([key, value]) => [el('dt', {}, key), el('dd', {}, attributeText(value))])));
    parts.push(el('h3', {}, 'Inputs'));
    node.inputs.forEach((name, at) => parts.push(el('div', {class: 'value'}, `${at}: `, name ? this.valueLink(name) : 'omitted', ' ', el('span', {class: 'quiet'}, this.shapeText(name) || (this.weights.get(name) ? this.weights.get(name).dims.join(' × ') : '')))));
    parts.push(el('h3', {}, 'Outputs'));
    node.outputs.forEach((name, at) => parts.push(el('div', {}, `${at}: ${name} `, el('span', {class: 'quiet'}, this.shapeText(name)),
      el('ul', {}, (this.readers.get(name) || []).slice(0, 20).map((reader) => el('li', {}, this.link(`${this.graph.nodes[reader].op} ${this.graph.nodes[reader].name}`, reader)))))));
    byId('side').replaceChildren(...parts);
  }
  valueLink(name) {
    if (this.weights.has(name)) return el('button', {class: 'link', onclick: (event) => this.showWeight(name, event.target)}, `${name} (weight)`);
    const maker = this.maker.get(name);
    return maker === undefined ? name : this.link(name, maker);
  }

  async showWeight(name, after) {
    const box = el('div', {}, el('p', {class: 'quiet'}, 'reading…'));
    (after.closest('.value') || after).after(box);
    try {
      const {type, dims, data} = await this.ferry.weight(this.model, name);
      box.replaceChildren(...weightParts(type, dims, data));
    } catch (error) {
      box.replaceChildren(el('p', {class: 'bad'}, error.message));
    }
  }
}

function chip(op) {
  const made = el('span', {class: 'chip'});
  made.style.background = colourOf(op);
  return made;
}

function attributeText(value) {
  if (value && value.graph) return `a graph of ${value.graph.nodes.length} nodes`;
  if (value && value.tensor) return `a tensor ${value.tensor.dtype} [${value.tensor.dims.join(', ')}]`;
  return Array.isArray(value) ? value.map(number).join(', ') : number(value);
}

function weightParts(type, dims, data) {
  const parts = [el('p', {}, `${type} [${dims.join(', ')}]`)];
  const values = data.byteLength ? numbersOf(type, data) : undefined;
  if (!values) return parts;
  let least = Infinity, most = -Infinity, sum = 0, zeros = 0, odd = 0;
  for (const each of values) {
    const value = Number(each);
    if (!Number.isFinite(value)) { ++odd; continue; }
    if (value < least) least = value;
    if (value > most) most = value;
    sum += value;
    if (value === 0) ++zeros;
  }
  parts.push(el('dl', {}, ...[['least', number(least)], ['most', number(most)], ['mean', number(sum / values.length)], ['zeros', `${(100 * zeros / values.length).toFixed(1)} %`], ['not finite', String(odd)]]
    .flatMap(([key, value]) => [el('dt', {}, key), el('dd', {}, value)])));
  parts.push(histogram(values, least, most));
  if (dims.length >= 2) parts.push(filterImage(values, dims, least, most));
  return parts;
}

function histogram(values, least, most) {
  const bins = new Float64Array(48), span = most - least || 1;
  for (const value of values) {
    const at = Math.floor((Number(value) - least) / span * bins.length);
    if (at >= 0) ++bins[Math.min(bins.length - 1, at)];
  }
  const canvas = el('canvas', {width: 288, height: 80, role: 'img', ariaLabel: `histogram of ${values.length} values from ${number(least)} to ${number(most)}`});
  const c = canvas.getContext('2d'), top = Math.max(...bins);
  c.fillStyle = '#3b7dd8';
  bins.forEach((bin, i) => c.fillRect(i * 6, 80 - bin / top * 78, 5, bin / top * 78));
  return canvas;
}

// The last two dimensions of the first filters, side by side.
function filterImage(values, dims, least, most) {
  const height = dims.at(-2), width = dims.at(-1), tile = height * width;
  if (height > 512 || width > 512 || tile < 2) return '';
  const shown = Math.min(64, Math.floor(values.length / tile)), across = Math.ceil(Math.sqrt(shown));
  const canvas = el('canvas', {width: across * (width + 1), height: Math.ceil(shown / across) * (height + 1), class: 'picture', role: 'img', ariaLabel: `the first ${shown} filters as pictures`});
  const c = canvas.getContext('2d'), image = c.createImageData(canvas.width, canvas.height);
  for (let k = 0; k < shown; ++k)
    for (let i = 0; i < tile; ++i) {
      const x = (k % across) * (width + 1) + i % width, y = Math.floor(k / across) * (height + 1) + Math.floor(i / width);
      const shade = 255 * (Number(values[k * tile + i]) - least) / (most - least || 1), at = 4 * (y * canvas.width + x);
      image.data[at] = image.data[at + 1] = image.data[at + 2] = shade;
      image.data[at + 3] = 255;
    }
  c.putImageData(image, 0, 0);
  canvas.style.width = `${Math.min(288, canvas.width * Math.max(1, Math.floor(288 / canvas.width)))}px`;
  return canvas;
}
