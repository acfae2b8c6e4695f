// What is wrong with a model by the standard, what will hurt in deployment, and the mended file.
import {byId, el, save} from './dom.mjs';

export class CheckPage {
  constructor(app) { this.app = app; }
  reset() { this.done = null; byId('check-page').replaceChildren(); }
  // Once for a model; what failed is tried again when the page is looked at again.
  shown() { return this.done === this.app.model ? undefined : this.look(); }

  async look() {
    const {app} = this, {ferry, model} = app, page = byId('check-page');
    this.done = model;
    await app.busy('examining…', async () => {
      const [check, doctor] = await Promise.allSettled([ferry.check(model), ferry.doctor(model)]);
      // Another model came meanwhile: these findings are not its own.
      if (app.model !== model) return;
      const {problems = [], valid} = check.value || {}, findings = doctor.value?.findings || [];
      const failed = ({reason}) => el('p', {class: 'bad'}, `This could not be looked at: ${reason?.message || reason}`);
      page.replaceChildren(
        el('h2', {}, 'By the ONNX standard'),
        check.reason ? failed(check) : valid ? el('p', {class: 'good'}, 'The model is valid.') : el('p', {class: 'bad'}, `The model is not valid: ${problems.length} problems.`),
        ...problems.map((problem) => this.finding({severity: problem.severity || 'error', message: problem.message || problem.text || String(problem), node: problem.node})),
        el('h2', {}, 'In deployment'),
        doctor.reason ? failed(doctor) : findings.length ? '' : el('p', {class: 'good'}, 'The doctor finds nothing.'),
        ...findings.map((finding) => this.finding(finding)),
        findings.length ? el('div', {class: 'row'}, el('button', {class: 'main', id: 'fix', disabled: !findings.some((finding) => finding.fixable), onclick: () => this.fix()}, 'Fix what can be fixed')) : '',
        el('div', {id: 'fixed', ariaLive: 'polite'}));
      const wrong = check.reason || doctor.reason;
      if (!wrong) return;
      this.done = null;
      throw wrong;
    });
  }

  finding(finding) {
    const place = finding.node || finding.value;
    return el('div', {class: `finding ${finding.severity}`},
      el('strong', {}, `${finding.severity}${finding.lint ? ` · ${finding.lint}` : ''}`), el('p', {}, finding.message),
      finding.remedy ? el('p', {class: 'quiet'}, finding.remedy.replace(/'ferry doctor --fix'/g, "'Fix what can be fixed'")) : null,
      place && this.app.see.find(place) !== undefined ?
        el('button', {class: 'link', onclick: () => { this.app.choose('see'); this.app.see.goToName(place); }}, `show '${place}' in the graph`) : null);
  }

  async fix() {
    const {app} = this, {ferry, model} = app;
    await app.busy('mending, and proving that nothing else changed…', async () => {
      const report = await ferry.doctor(model, {fix: true});
      if (app.model !== model) return;
      const name = model.name.replace(/(\.[^.]*)?$/, '.fixed.onnx');
      const fixed = byId('fixed');
      if (!report.fixed) {
        fixed.replaceChildren(el('p', {}, 'Nothing could be mended.'));
        return;
      }
      // Beside the model, by the name under which it asks for them.
      const saveAll = () => {
        save(name, report.fixed);
        for (const {path, data} of report.externalData || []) save(path, data);
      };
      app.fixed = report.fixed;
      const mendings = report.mendings || [];
      fixed.replaceChildren(el('h3', {}, 'Mended'),
        ...mendings.map((each) => el('div', {class: `finding ${each.applied === false ? 'warning' : 'mended'}`}, el('strong', {}, each.lint), el('ul', {}, (each.changes || []).map((change) => el('li', {}, change))),
          ...(each.refusals || []).map((why) => el('p', {class: 'warn'}, String(why.message || why))),
          el('p', {class: 'quiet'}, 'Proof:'),
          el('ul', {}, (each.proof || []).map((proof) => el('li', {class: proof.holds ? 'good' : 'bad'}, `${proof.what}${proof.max_abs !== undefined && proof.max_abs !== null ? ` (largest difference ${proof.max_abs})` : ''}`))))),
        el('div', {class: 'row'}, el('button', {class: 'main', id: 'save-fixed', onclick: saveAll}, `Save ${[name, ...(report.externalData || []).map(({path}) => path)].join(' and ')}`),
          el('button', {id: 'open-fixed', onclick: () => app.open(report.fixed, name, report.externalData)}, 'Go on with the mended model')));
    });
  }
}
