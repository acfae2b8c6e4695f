// The drawing: a canvas of which only what is seen is drawn, with pan, zoom, choice and a small map.
import {colourOf} from './colours.mjs';
import {fonts, layout, sizes} from './layout.mjs';

export class GraphView {
  constructor(canvas, map, events) {
    this.canvas = canvas;
    this.map = map;
    this.events = events;
    this.view = {x: 0, y: 0, scale: 1};
    this.items = [];
    this.chosen = -1;
    this.marked = new Set();
    this.widths = new Map();
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.listen();
  }

  // items: [{label, detail, colour, strength, group?, mark?}]
  show(items, edges, {keepView = false} = {}) {
    this.items = items;
    const begin = performance.now();
    this.placed = layout(items, edges, (text, font) => this.widthOf(text, font));
    this.layoutTime = performance.now() - begin;
    this.after = items.map(() => []);
    this.before = items.map(() => []);
    this.placed.routes.forEach((route, i) => {
      this.after[route.edge.from].push(i);
      this.before[route.edge.to].push(i);
    });
    if (this.chosen >= items.length) this.chosen = -1;
    if (!keepView) this.fit();
    this.draw();
  }

  // Thousands of nodes have few different texts.
  widthOf(text, font) {
    const key = font + text;
    let width = this.widths.get(key);
    if (width === undefined) {
      const c = this.canvas.getContext('2d');
      c.font = font;
      this.widths.set(key, width = c.measureText(text).width);
    }
    return width;
  }

  size() {
    const ratio = globalThis.devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    return {width, height, ratio};
  }

  fit() {
    if (!this.placed) return;
    const {width, height} = this.size(), {box} = this.placed;
    const across = Math.max(1, box.right - box.left + 60), down = Math.max(1, box.bottom - box.top + 40);
    // Small letters help nobody: what is long is read from its top.
    const scale = Math.min(down * 1.1 <= height ? 1.1 : 1, Math.max(0.8, width / across));
    const first = this.placed.rows[0] || [];
    const middle = across * scale <= width || !first.length ? (box.left + box.right) / 2 : first.reduce((sum, i) => sum + this.placed.x[i], 0) / first.length;
    this.view = {scale, x: width / 2 - middle * scale, y: 20};
    this.draw();
  }
  whole() {
    const {width, height} = this.size(), {box} = this.placed;
    // Below this a node is less than a few points.
    const scale = Math.min(1.1, Math.max(0.03, Math.min(width / (box.right - box.left + 60), height / (box.bottom + 40))));
    this.view = {scale, x: width / 2 - (box.left + box.right) / 2 * scale, y: 20};
    this.draw();
  }

  choose(item, {centre = true} = {}) {
    this.chosen = item;
    if (item >= 0 && centre) {
      const {width, height} = this.size(), {x, y} = this.placed;
      if (this.view.scale < 0.4) this.view.scale = 0.8;
      this.view.x = width / 2 - x[item] * this.view.scale;
      this.view.y = height / 2 - (y[item] + sizes.height / 2) * this.view.scale;
    }
    this.draw();
    this.events.chosen(item);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
      this.paintMap();
    });
  }

  rowsSeen(top, bottom) {
    const step = sizes.height + sizes.rowGap;
    return [Math.max(0, Math.floor(top / step) - 1), Math.min(this.placed.rows.length - 1, Math.ceil(bottom / step))];
  }

  paint() {
    const {width, height, ratio} = this.size();
    const c = this.canvas.getContext('2d');
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue('--ink'), line = style.getPropertyValue('--quiet'), node = style.getPropertyValue('--node'),
      accent = style.getPropertyValue('--accent'), bad = style.getPropertyValue('--bad');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    if (!this.placed) return;
    const {scale, x: dx, y: dy} = this.view;
    c.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * dx, ratio * dy);
    const top = -dy / scale, bottom = (height - dy) / scale, left = -dx / scale, right = (width - dx) / scale;
    const [firstRow, lastRow] = this.rowsSeen(top, bottom);
    const {x, y, width: widths, rows, routes, row} = this.placed;
    // Edges that pass the rows seen: those of nodes seen, and lanes.
    c.lineWidth = Math.min(2, 1.2 / Math.max(0.6, scale));
    const drawn = new Set();
    const near = (i) => i === this.chosen;
    const edge = (number) => {
      if (drawn.has(number)) return;
      drawn.add(number);
      const {edge: {from, to}, lane} = routes[number];
      const strong = near(from) || near(to);
      c.strokeStyle = strong ? accent : line;
      c.globalAlpha = strong ? 1 : this.chosen >= 0 ? 0.35 : 0.6;
      const x0 = x[from], y0 = y[from] + sizes.height, x1 = x[to], y1 = y[to];
      c.beginPath();
      c.moveTo(x0, y0);
      if (lane === undefined) {
        const middle = (y0 + y1) / 2;
        c.bezierCurveTo(x0, middle, x1, middle, x1, y1);
      } else {
        const bend = sizes.rowGap * 0.8;
        c.bezierCurveTo(x0, y0 + bend, lane, y0, lane, y0 + bend);
        c.lineTo(lane, Math.max(y0 + bend, y1 - bend));
        c.bezierCurveTo(lane, y1, x1, y1 - bend, x1, y1);
      }
      c.stroke();
      if (scale > 0.35) {
        c.beginPath();
        c.moveTo(x1 - 4, y1 - 6);
        c.lineTo(x1, y1);
        c.lineTo(x1 + 4, y1 - 6);
        c.stroke();
      }
    };
    for (let r = firstRow; r <= lastRow; ++r)
      for (const i of rows[r]) {
        this.before[i].forEach(edge);
        this.after[i].forEach(edge);
      }
    for (const number of this.lanes()) {
      const {edge: {from, to}} = routes[number];
      if (row[from] < firstRow && row[to] > lastRow) edge(number);
    }
    c.globalAlpha = 1;
    c.font = fonts.label;
    c.textBaseline = 'middle';
    let count = 0;
    for (let r = firstRow; r <= lastRow; ++r)
      for (const i of rows[r]) {
        if (x[i] + widths[i] / 2 < left || x[i] - widths[i] / 2 > right) continue;
        ++count;
        this.paintNode(c, i, {node, ink, line, accent, bad});
      }
    this.seen = count;
  }

  lanes() {
    if (this.lanesOf !== this.placed) {
      this.lanesOf = this.placed;
      this.laneList = [];
      this.placed.routes.forEach((route, i) => { if (route.lane !== undefined) this.laneList.push(i); });
    }
    return this.laneList;
  }

  paintNode(c, i, colours) {
    const item = this.items[i], {x, y, width} = this.placed;
    const left = x[i] - width[i] / 2, top = y[i];
    // From afar a node is a block of its colour.
    if (this.view.scale < 0.3) {
      c.globalAlpha = item.strength === undefined ? 1 : 0.15 + 0.85 * item.strength;
      c.fillStyle = this.marked.has(i) ? colours.bad : i === this.chosen ? colours.accent : item.strength === undefined ? colourOf(item.colour) : '#e0662f';
      c.fillRect(left, top, width[i], sizes.height);
      c.globalAlpha = 1;
      return;
    }
    c.fillStyle = colours.node;
    c.strokeStyle = this.marked.has(i) ? colours.bad : i === this.chosen ? colours.accent : colours.line;
    c.lineWidth = this.marked.has(i) || i === this.chosen ? 3 : 1;
    c.beginPath();
    c.roundRect(left, top, width[i], sizes.height, item.group ? 3 : 8);
    c.fill();
    if (item.strength !== undefined) {
      c.globalAlpha = 0.12 + 0.75 * item.strength;
      c.fillStyle = '#e0662f';
      c.fill();
      c.globalAlpha = 1;
    }
    c.stroke();
    if (item.group) {
      c.beginPath();
      c.roundRect(left + 3, top + 3, width[i] - 6, sizes.height - 6, 2);
      c.stroke();
    }
    if (item.strength === undefined) {
      c.fillStyle = colourOf(item.colour);
      c.fillRect(left, top + 8, 5, sizes.height - 16);
    }
    c.fillStyle = colours.ink;
    c.font = fonts.label;
    this.write(c, item.label, left + 12, top + (item.detail ? 15 : sizes.height / 2), width[i] - 18);
    if (!item.detail) return;
    c.font = fonts.detail;
    c.globalAlpha = 0.8;
    this.write(c, item.detail, left + 12, top + 31, width[i] - 18);
    c.globalAlpha = 1;
  }

  write(c, text, x, y, room) {
    if (c.measureText(text).width > room) {
      while (text.length > 1 && c.measureText(`${text}…`).width > room) text = text.slice(0, Math.max(1, Math.floor(text.length * 0.9) - 1));
      text += '…';
    }
    c.fillText(text, x, y);
  }

  // A graph that is much longer than wide is stretched, and its map is no wider than it needs.
  mapScale() {
    const {box} = this.placed, margin = 8, least = 20;
    const across = Math.max(1, box.right - box.left), down = Math.max(1, box.bottom);
    const most = parseFloat(getComputedStyle(this.map).getPropertyValue('--map-width')) - margin, y = (this.map.clientHeight - margin) / down;
    const x = Math.min(most / across, Math.max(y * 6, least / across));
    return {x, y: Math.min(y, x * 6), width: Math.ceil(across * x + margin)};
  }

  paintMap() {
    if (!this.placed) return;
    const scale = this.mapScale(), ratio = globalThis.devicePixelRatio || 1, {width} = scale, height = this.map.clientHeight;
    this.map.style.width = `${width + 2}px`;
    this.map.width = width * ratio;
    this.map.height = height * ratio;
    const c = this.map.getContext('2d'), {box, x, y, width: widths} = this.placed;
    const style = getComputedStyle(document.documentElement);
    // Where all is seen, a map of it is in the way.
    const {x: across, y: down, scale: size} = this.view;
    const seen = box.left * size + across >= 0 && box.right * size + across <= this.canvas.clientWidth && down >= 0 && box.bottom * size + down <= this.canvas.clientHeight + sizes.rowGap * size;
    this.map.style.visibility = seen ? 'hidden' : '';
    c.setTransform(ratio, 0, 0, ratio, 4 * ratio, 4 * ratio);
    const step = Math.max(1, Math.floor(x.length / 4000));
    for (let i = 0; i < x.length; i += step) {
      c.fillStyle = this.marked.has(i) ? style.getPropertyValue('--bad') : colourOf(this.items[i].colour);
      c.fillRect((x[i] - widths[i] / 2 - box.left) * scale.x, y[i] * scale.y, Math.max(1, widths[i] * scale.x), Math.max(1, sizes.height * scale.y));
    }
    c.strokeStyle = style.getPropertyValue('--accent');
    c.lineWidth = 1.5;
    const {scale: zoom, x: dx, y: dy} = this.view;
    const within = (value, most) => Math.max(-3, Math.min(most - 5, value));
    const left = within((-dx / zoom - box.left) * scale.x, width), right = within((-dx / zoom - box.left + this.canvas.clientWidth / zoom) * scale.x, width);
    const top = within(-dy / zoom * scale.y, height), bottom = within((-dy + this.canvas.clientHeight) / zoom * scale.y, height);
    c.strokeRect(left, top, right - left, bottom - top);
  }

  at(px, py) {
    if (!this.placed) return -1;
    const wx = (px - this.view.x) / this.view.scale, wy = (py - this.view.y) / this.view.scale;
    const row = this.placed.rows[Math.floor(wy / (sizes.height + sizes.rowGap))] || [];
    return row.find((i) => Math.abs(this.placed.x[i] - wx) <= this.placed.width[i] / 2 && wy >= this.placed.y[i] && wy <= this.placed.y[i] + sizes.height) ?? -1;
  }

  zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.01, this.view.scale * factor)), real = scale / this.view.scale;
    this.view = {scale, x: px - (px - this.view.x) * real, y: py - (py - this.view.y) * real};
    this.draw();
  }

  listen() {
    const pointers = new Map();
    let moved = 0, apart = 0;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return {x: event.clientX - box.left, y: event.clientY - box.top};
    };
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, place(event));
      moved = 0;
      if (pointers.size === 2) apart = distance(pointers);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const now = place(event);
      pointers.set(event.pointerId, now);
      if (pointers.size === 2) {
        const next = distance(pointers), [a, b] = [...pointers.values()];
        this.zoom(next / apart, (a.x + b.x) / 2, (a.y + b.y) / 2);
        apart = next;
        moved = 10;
        return;
      }
      this.view.x += now.x - last.x;
      this.view.y += now.y - last.y;
      moved += Math.abs(now.x - last.x) + Math.abs(now.y - last.y);
      this.draw();
    });
    const up = (event) => {
      if (pointers.delete(event.pointerId) && moved < 5 && event.type === 'pointerup') {
        const {x, y} = place(event);
        this.choose(this.at(x, y), {centre: false});
      }
    };
    this.canvas.addEventListener('pointerup', up);
    this.canvas.addEventListener('pointercancel', up);
    this.canvas.addEventListener('dblclick', (event) => {
      const {x, y} = place(event), item = this.at(x, y);
      if (item >= 0) this.events.opened(item);
    });
    this.canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const {x, y} = place(event);
      if (event.ctrlKey || event.metaKey) return this.zoom(Math.exp(-event.deltaY / 120), x, y);
      this.view.x -= event.deltaX;
      this.view.y -= event.deltaY;
      this.draw();
    }, {passive: false});
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    this.map.addEventListener('pointerdown', (event) => {
      const box = this.map.getBoundingClientRect(), scale = this.mapScale();
      const wx = (event.clientX - box.left - 4) / scale.x + this.placed.box.left, wy = (event.clientY - box.top - 4) / scale.y;
      this.view.x = this.canvas.clientWidth / 2 - wx * this.view.scale;
      this.view.y = this.canvas.clientHeight / 2 - wy * this.view.scale;
      this.draw();
    });
  }

  key(event) {
    const step = 60;
    const along = {ArrowDown: () => this.after[this.chosen], ArrowUp: () => this.before[this.chosen]}[event.key];
    if (along && this.chosen >= 0 && !event.shiftKey) {
      const [next] = along();
      if (next !== undefined) this.choose(event.key === 'ArrowDown' ? this.placed.routes[next].edge.to : this.placed.routes[next].edge.from);
    } else if ((event.key === 'ArrowLeft' || event.key === 'ArrowRight') && this.chosen >= 0 && !event.shiftKey) {
      const row = this.placed.rows[this.placed.row[this.chosen]], at = row.indexOf(this.chosen) + (event.key === 'ArrowLeft' ? -1 : 1);
      if (row[at] !== undefined) this.choose(row[at]);
    } else if (event.key.startsWith('Arrow')) {
      this.view.x += event.key === 'ArrowLeft' ? step : event.key === 'ArrowRight' ? -step : 0;
      this.view.y += event.key === 'ArrowUp' ? step : event.key === 'ArrowDown' ? -step : 0;
      this.draw();
    } else if (event.key === '+' || event.key === '=') this.zoom(1.25);
    else if (event.key === '-') this.zoom(0.8);
    else if (event.key === '0') this.fit();
    else if (event.key === 'Enter' && this.chosen >= 0) this.events.opened(this.chosen);
    else if (event.key === 'Escape') this.choose(-1);
    else if (event.key === 'Home' && this.items.length) this.choose(0);
    else return;
    event.preventDefault();
  }
}

function distance(pointers) {
  const [a, b] = [...pointers.values()];
  return Math.max(1, Math.hypot(a.x - b.x, a.y - b.y));
}
