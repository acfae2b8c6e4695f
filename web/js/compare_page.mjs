// The model against recorded outputs or another model, layer by layer.
import {byId, el, number, table} from './dom.mjs';

export class ComparePage {
  constructor(app) { this.app = app; }
  reset() {
    byId('compare-page').replaceChildren(el('h2', {}, 'Compare'),
      el('div', {class: 'field'}, el('label', {htmlFor: 'compare-file'}, 'A second model (.onnx with its data files, .pt2), or recorded inputs and outputs (.npz)'),
        el('div', {class: 'row'}, el('input', {type: 'file', id: 'compare-file', multiple: true}))),
      el('div', {class: 'row'}, el('label', {class: 'inline'}, 'rtol ', el('input', {type: 'text', id: 'rtol', value: '1e-3', size: 7})),
        el('label', {class: 'inline'}, 'atol ', el('input', {type: 'text', id: 'atol', value: '1e-5', size: 7})),
        el('button', {class: 'main', id: 'compare-run', onclick: () => this.compare()}, 'Compare')),
      el('div', {id: 'compare-result', ariaLive: 'polite'}));
  }
  shown() {}

  async compare() {
    const files = [...byId('compare-file').files];
    if (!files.length) return this.app.status('Choose a file to compare with first.', 'error');
    await this.against(files);
  }

  // A second model with its data files, or recordings.
  async against(given) {
    const {app} = this, {ferry, model} = app, files = [given].flat();
    const recordings = files.filter((file) => /\.npz$/i.test(file.name)), rest = files.filter((file) => !recordings.includes(file));
    const other = rest.find((file) => /\.(onnx|pt2|pt|pth)$/i.test(file.name)) || rest[0];
    await app.busy('comparing…', async () => {
      const options = {rtol: byId('rtol').value, atol: byId('atol').value, recordings};
      const answer = await ferry.compare(model, other ? {name: other.name, data: other,
        externalData: rest.filter((file) => file !== other).map((file) => ({path: file.name, data: file}))} : {recordings}, options);
      if (app.model === model) this.show(answer);
    }, other?.name);
  }

  show(answer) {
    const {app} = this;
    const {first, layers = []} = answer.trace || {};
    const row = (each) => [each.name, each.type || '', each.within ? el('span', {class: 'good'}, 'within') : el('span', {class: 'bad'}, 'outside'),
      number(each.max_abs ?? 0), number(each.max_rel ?? 0)];
    const link = (layer) => el('button', {class: 'link', onclick: () => { app.choose('see'); app.see.goToName(layer.value) || app.see.goToName(layer.node); }}, layer.node || layer.value);
    if (first) app.see.mark([first.value, first.node].filter(Boolean), `the first layer that differs, by ${number(first.error)}`);
    else app.see.mark([], '');
    const refused = (answer.samples || []).map((sample) => sample.only_one || sample.refused).find(Boolean);
    byId('compare-result').replaceChildren(
      el('p', {class: answer.within ? 'good' : 'bad'}, answer.within ? `Within the tolerance; the largest difference is ${number(answer.max_abs ?? 0)}.` : 'The outputs differ.'),
      !answer.within && refused ? el('p', {}, refused) : '',
      answer.outputs?.length ? table(['output', 'type', '', 'largest difference', 'relative'], answer.outputs.map(row), [3, 4]) : '',
      first ? el('p', {id: 'first-wrong'}, 'The first layer that differs: ', link(first), ` (${first.op}), by ${number(first.error)}. ${(first.differences || []).join('; ')}`) : '',
      layers.length ? el('h3', {}, 'Layer by layer') : '',
      layers.length ? table(['layer', 'operator', 'difference', 'of its inputs'], layers.slice(0, 500).map((layer) => [link(layer), layer.op, number(layer.error), number(layer.input_error)]), [2, 3]) : '');
  }
}
