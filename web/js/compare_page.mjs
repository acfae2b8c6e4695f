// The model against recorded outputs or another model, layer by layer.
import {byId, el, number, table} from './dom.mjs';

export class ComparePage {
  constructor(app) { this.app = app; }
  reset() {
    byId('compare-page').replaceChildren(el('h2', {}, 'Compare'),
      el('div', {class: 'field'}, el('label', {htmlFor: 'compare-file'}, 'A second model (.onnx, .pt2), or recorded inputs and outputs (.npz)'),
        el('div', {class: 'row'}, el('input', {type: 'file', id: 'compare-file', accept: '.onnx,.npz,.pt2,.pt'}))),
      el('div', {class: 'row'}, el('label', {class: 'inline'}, 'rtol ', el('input', {type: 'text', id: 'rtol', value: '1e-3', size: 7})),
        el('label', {class: 'inline'}, 'atol ', el('input', {type: 'text', id: 'atol', value: '1e-5', size: 7})),
        el('button', {class: 'main', id: 'compare-run', onclick: () => this.compare()}, 'Compare')),
      el('div', {id: 'compare-result', ariaLive: 'polite'}));
  }
  shown() {}

  async compare() {
    const [file] = byId('compare-file').files;
    if (!file) return this.app.status('choose a file to compare with');
    await this.against(file);
  }

  async against(file) {
    const {app} = this, {ferry, model} = app;
    await app.busy('comparing…', async () => {
      const options = {rtol: byId('rtol').value, atol: byId('atol').value};
      const recorded = /\.npz$/i.test(file.name);
      let answer;
      if (recorded) {
        answer = await ferry.compare(model, {recordings: [file]}, options);
      } else {
        const other = await ferry.ModelFile.open(file, {name: file.name});
        try {
          answer = await ferry.compare(model, other, options);
        } finally {
          await other.release();
        }
      }
      this.show(answer);
    });
  }

  show(answer) {
    const {app} = this;
    const layers = answer.layers || answer.values || [];
    const first = answer.first_divergence || answer.first_outside || layers.find((layer) => layer.within === false);
    const firstName = first && (first.name || first.actual || first.value || first);
    const row = (each) => [each.name, each.type || '', each.within ? el('span', {class: 'good'}, 'within') : el('span', {class: 'bad'}, 'outside'),
      number(each.max_abs ?? 0), number(each.max_rel ?? 0)];
    const heads = ['value', 'type', '', 'largest difference', 'relative'];
    if (typeof firstName === 'string') app.see.mark([firstName], 'the first layer that differs');
    byId('compare-result').replaceChildren(
      el('p', {class: answer.within ? 'good' : 'bad'}, answer.within ? `Within the tolerance; the largest difference is ${number(answer.max_abs ?? 0)}.` : 'The outputs differ.'),
      table(heads, (answer.outputs || []).map(row), [3, 4]),
      typeof firstName === 'string' ? el('p', {}, 'The first that differs: ', el('button', {class: 'link', id: 'show-first', onclick: () => { app.choose('see'); app.see.goToName(firstName); }}, firstName)) : '',
      layers.length ? el('h3', {}, 'Layer by layer') : '', layers.length ? table(heads, layers.slice(0, 500).map(row), [3, 4]) : '');
  }
}
