// Time by node, on the graph as well, and as a trace for chrome://tracing.
import {byId, el, number, save, table} from './dom.mjs';

export class ProfilePage {
  constructor(app) { this.app = app; }
  reset() {
    byId('profile-page').replaceChildren(el('h2', {}, 'Profile'), el('p', {class: 'quiet'}, 'Runs the model with the inputs of the Run page, and measures each step.'),
      el('div', {class: 'row'}, el('button', {class: 'main', id: 'profile-run', onclick: () => this.measure()}, 'Measure')), el('div', {id: 'profile-result', ariaLive: 'polite'}));
  }
  shown() {}

  async measure() {
    const {app} = this, {model} = app;
    await app.busy('running…', async () => {
      const session = await app.theSession();
      const feeds = await app.pages.run.feeds();
      for (let i = 0; i < 3; ++i) await session.run(feeds);
      session.startProfiling();
      const begin = performance.now();
      await session.run(feeds);
      const whole = performance.now() - begin;
      const text = session.endProfiling();
      if (app.model === model) this.show(text, whole);
    });
  }

  show(text, whole) {
    const {app} = this;
    const trace = JSON.parse(text);
    // Steps, without what is about the whole run.
    const events = (trace.traceEvents || trace).filter((event) => event.ph === 'X' && event.dur !== undefined && event.cat !== 'Session');
    const byName = new Map();
    app.graph.nodes.forEach((node, i) => {
      if (node.name) byName.set(node.name, i);
      for (const output of node.outputs) byName.set(output, i);
    });
    const nodeOf = (event) => [event.name, event.args?.node, event.args?.name, event.args?.output].map((name) => byName.get(name)).find((i) => i !== undefined);
    const times = new Map();
    for (const event of events) {
      const i = nodeOf(event);
      if (i !== undefined) times.set(i, (times.get(i) || 0) + event.dur / 1000);
    }
    app.see.times = times;
    byId('colour').value = 'time';
    app.see.redraw(true);
    const rows = events.map((event) => [event, event.dur / 1000]).sort((a, b) => b[1] - a[1]);
    const most = rows.length ? rows[0][1] : 1, sum = rows.reduce((all, [, time]) => all + time, 0) || 1;
    const step = (event) => nodeOf(event) === undefined ? event.name :
      el('button', {class: 'link', onclick: () => { app.choose('see'); app.see.goTo(nodeOf(event)); }}, event.name);
    const share = (time) => {
      const bar = el('span', {class: 'bar', role: 'img', ariaLabel: `${number(time)} ms`});
      bar.style.width = `${Math.max(1, 160 * time / most)}px`;
      return bar;
    };
    byId('profile-result').replaceChildren(
      el('p', {}, `${number(Number(whole.toPrecision(3)))} ms from call to answer, ${number(Number(sum.toPrecision(3)))} ms of them in ${events.length} steps.`),
      el('div', {class: 'row'}, el('button', {onclick: () => app.choose('see')}, 'Show times on the graph'),
        el('button', {id: 'save-trace', onclick: () => save(`${app.model.name}.trace.json`, text, 'application/json')}, 'Save as a trace')),
      table(['step', 'operator', 'ms', 'share', ''], rows.slice(0, 60).map(([event, time]) =>
        [step(event), event.args?.op_name || '', number(Number(time.toPrecision(3))), `${(100 * time / sum).toFixed(1)} %`, share(time)]), [2, 3]));
  }
}
