// Where the nodes of a graph are drawn: rows by longest path, one sweep down and one up to bring neighbours together, and
// values that skip rows on a lane beside what they pass, one lane for all readers of a value. Time grows with the number
// of nodes and edges (and the logarithm of the rows), so that ten thousand nodes take well below a second.

export const sizes = {height: 44, rowGap: 34, columnGap: 26, lane: 9, least: 84, most: 260};
export const fonts = {label: '600 13px system-ui, sans-serif', detail: '11px system-ui, sans-serif'};

// items: [{label, detail}] in an order where makers come before readers; edges: [{from, to, name}] of item numbers;
// widthOf(text, font) says how much room letters take.
export function layout(items, edges, widthOf) {
  const n = items.length;
  const row = new Int32Array(n);
  const before = Array.from({length: n}, () => []), after = Array.from({length: n}, () => []);
  for (const edge of edges) {
    if (edge.from === edge.to) continue;
    before[edge.to].push(edge.from);
    after[edge.from].push(edge.to);
  }
  for (const at of order(n, before, after)) for (const next of after[at]) row[next] = Math.max(row[next], row[at] + 1);
  // What only feeds something far below is drawn right above it.
  for (let i = n - 1; i >= 0; --i)
    if (before[i].length === 0 && after[i].length > 0) row[i] = Math.max(0, after[i].reduce((least, next) => Math.min(least, row[next]), Infinity) - 1);
  const rows = [];
  for (let i = 0; i < n; ++i) (rows[row[i]] ||= []).push(i);
  for (let r = 0; r < rows.length; ++r) rows[r] ||= [];

  const width = Float64Array.from(items, (item) =>
    Math.min(sizes.most, Math.max(sizes.least, 24 + Math.ceil(Math.max(widthOf(item.label, fonts.label), widthOf(item.detail || '', fonts.detail))))));
  const x = new Float64Array(n);
  // What comes from nowhere, as weights that are made wider, stands aside of the line that it feeds.
  const weight = Float64Array.from(before, (list) => list.length ? 1 : 1e-4);
  place(rows, before, x, width, weight, false);
  place([...rows].reverse(), after, x, width, weight, true);
  place(rows, before, x, width, weight, true);
  const y = Float64Array.from(row, (r) => r * (sizes.height + sizes.rowGap));
  const routes = route(edges, rows, row, x, width, y);
  let left = Infinity, right = -Infinity;
  for (let i = 0; i < n; ++i) {
    left = Math.min(left, x[i] - width[i] / 2);
    right = Math.max(right, x[i] + width[i] / 2);
  }
  for (const each of routes) if (each.lane !== undefined) right = Math.max(right, each.lane);
  return {x, y, width, row, rows, routes, box: {left: n ? left : 0, right: n ? right : 0, top: 0, bottom: rows.length * (sizes.height + sizes.rowGap)}};
}

// Makers before readers, also where a file is not in order; what is left of a circle comes last.
function order(n, before, after) {
  const open = Int32Array.from(before, (list) => list.length);
  const ready = [];
  for (let i = 0; i < n; ++i) if (open[i] === 0) ready.push(i);
  for (let at = 0; at < ready.length; ++at) for (const next of after[ready[at]]) if (--open[next] === 0) ready.push(next);
  return ready;
}

// Each row in the order of what its nodes hang on, as near to it as their widths allow.
function place(rows, neighbours, x, width, weight, placed) {
  for (const row of rows) {
    if (row.length === 0) continue;
    const wish = new Map();
    row.forEach((i, at) => {
      const near = neighbours[i];
      let sum = 0, all = 0;
      for (const other of near) {
        sum += weight[other] * x[other];
        all += weight[other];
      }
      wish.set(i, near.length ? sum / all : placed ? x[i] : at * 1e-3);
    });
    row.sort((a, b) => wish.get(a) - wish.get(b));
    // From left to right without overlap, then moved so that wishes are met on the average.
    let edge = -Infinity, drift = 0, all = 0;
    for (const i of row) {
      x[i] = Math.max(wish.get(i), edge + width[i] / 2);
      edge = x[i] + width[i] / 2 + sizes.columnGap;
      drift += weight[i] * (x[i] - wish.get(i));
      all += weight[i];
    }
    drift /= all;
    for (const i of row) x[i] -= drift;
  }
}

// The largest of a range of rows, for any range in constant time.
class Ranges {
  constructor(values) {
    this.levels = [Float64Array.from(values)];
    for (let step = 1; 2 * step <= values.length; step *= 2) {
      const last = this.levels.at(-1), next = new Float64Array(values.length - 2 * step + 1);
      for (let i = 0; i < next.length; ++i) next[i] = Math.max(last[i], last[i + step]);
      this.levels.push(next);
    }
  }
  largest(from, to) {
    if (to < from) return -Infinity;
    const level = 31 - Math.clz32(to - from + 1);
    return Math.max(this.levels[level][from], this.levels[level][to + 1 - (1 << level)]);
  }
}

function route(edges, rows, row, x, width, y) {
  const reach = new Ranges(rows.map((list) => list.reduce((most, i) => Math.max(most, x[i] + width[i] / 2), -1e9)));
  const trunks = new Map();  // by maker: the rows that its lane passes
  edges.forEach((edge, number) => {
    if (row[edge.to] - row[edge.from] <= 1) return;
    const trunk = trunks.get(edge.from) || {from: edge.from, first: row[edge.from] + 1, last: 0, edges: []};
    trunk.last = Math.max(trunk.last, row[edge.to] - 1);
    trunk.edges.push(number);
    trunks.set(edge.from, trunk);
  });
  // Long lanes first take what is left beside the others; lanes that do not meet share a place.
  const sorted = [...trunks.values()].sort((a, b) => a.first - b.first || a.last - b.last);
  const lastOf = [];
  const lanes = new Map();
  for (const trunk of sorted) {
    let slot = 0;
    while (slot < lastOf.length && lastOf[slot] >= trunk.first) ++slot;
    lastOf[slot] = trunk.last;
    lanes.set(trunk.from, reach.largest(trunk.first, trunk.last) + 14 + slot * sizes.lane);
  }
  return edges.map((edge) => row[edge.to] - row[edge.from] > 1 ? {edge, lane: lanes.get(edge.from)} : {edge});
}
