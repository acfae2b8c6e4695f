// Nodes by module: names and scopes that PyTorch's exporters write become a tree of groups, which can be closed.

function scopeOf(node) {
  if (node.scope) {
    const text = node.scope.replace(/[[\]']/g, '');
    const parts = text.includes('/') && !text.includes(', ') ? text.split('/') : text.split(/,\s*/);
    const names = parts.map((part) => part.split(':')[0].trim()).filter(Boolean);
    const list = names.slice(0, -1);
    // 'layer1.0.conv1': each is a path from the root.
    const last = list.at(-1) || '';
    return last.split('.').filter(Boolean);
  }
  const name = node.name || '';
  if (name.includes('/')) return name.split('/').filter(Boolean).slice(0, -1).flatMap((part) => part.split('.').slice(-1));
  return [];
}

// Where names say nothing, those of weights do: 'layer1.0.conv1.weight' lies in layer1.0. What has no weights goes with what
// was done before it.
function scopesByWeights(nodes, weights) {
  let last = [];
  return nodes.map((node) => {
    const name = node.inputs.find((input) => weights.has(input) && /^[\w]+(\.[\w]+)+$/.test(input));
    if (name) last = name.split('.').slice(0, -2);
    return last;
  });
}

// Runs of nodes that repeat, in graphs whose names say nothing: the same operators again and again become groups.
function repeatedBlocks(nodes) {
  const ops = nodes.map((node) => node.op);
  const scopes = nodes.map(() => []);
  for (const length of [64, 48, 40, 32, 24, 20, 16, 12, 10, 8, 6]) {
    for (let at = 0, block = 0; at + 2 * length <= ops.length;) {
      let count = 1;
      const same = (a, b) => { for (let i = 0; i < length; ++i) if (ops[a + i] !== ops[b + i] || scopes[b + i].length) return false; return true; };
      while (at + (count + 1) * length <= ops.length && !scopes[at].length && same(at, at + count * length)) ++count;
      if (count < 3) { ++at; continue; }
      for (let i = 0; i < count * length; ++i) scopes[at + i] = [`block ${length}`, `${++block && Math.floor(i / length)}`];
      at += count * length;
    }
  }
  return scopes;
}

export class Groups {
  constructor(nodes, weights = new Map()) {
    this.nodes = nodes;
    let scopes = nodes.map(scopeOf);
    if (!scopes.some((scope) => scope.length)) scopes = scopesByWeights(nodes, weights);
    if (nodes.length > 200 && scopes.filter((scope) => scope.length).length < nodes.length / 2) scopes = repeatedBlocks(nodes);
    this.scopes = scopes.map((scope) => scope.slice(0, 8));
    this.closed = new Set();
    this.sizes = new Map();
    for (const scope of this.scopes)
      for (let depth = 1; depth <= scope.length; ++depth) {
        const path = scope.slice(0, depth).join('/');
        this.sizes.set(path, (this.sizes.get(path) || 0) + 1);
      }
  }
  // The outermost closed group of a node; '' when it is seen itself.
  closedOf(i) {
    const scope = this.scopes[i];
    let path = '';
    for (const part of scope) {
      path = path ? `${path}/${part}` : part;
      if (this.closed.has(path)) return path;
    }
    return '';
  }
  toggle(path) { this.closed.has(path) ? this.closed.delete(path) : this.closed.add(path); }
  openAll() { this.closed.clear(); }
  closeAtDepth(depth) {
    this.closed.clear();
    for (const path of this.sizes.keys()) if (path.split('/').length === depth && this.sizes.get(path) > 1) this.closed.add(path);
  }
  // As deep as leaves no more than `most` to draw.
  closeFor(most) {
    if (this.nodes.length <= most) return;
    for (let depth = 6; depth >= 1; --depth) {
      this.closeAtDepth(depth);
      if (this.visible().items.length <= most) return;
    }
  }
  // What is drawn: nodes and closed groups, and the edges among them.
  visible() {
    const items = [], itemOf = new Int32Array(this.nodes.length), byGroup = new Map();
    this.nodes.forEach((node, i) => {
      const group = this.closedOf(i);
      if (!group) {
        itemOf[i] = items.push({node: i}) - 1;
      } else {
        if (!byGroup.has(group)) byGroup.set(group, items.push({group, members: []}) - 1);
        itemOf[i] = byGroup.get(group);
        items[itemOf[i]].members.push(i);
      }
    });
    return {items, itemOf};
  }
}
