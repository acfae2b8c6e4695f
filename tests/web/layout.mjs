// layout.mjs: the workbench's drawing without a browser: nothing lies on anything, every text has room, the main line stays
// straight beside what feeds it, and the time is linear in the nodes.
import {fonts, layout, sizes} from '../../web/js/layout.mjs';
import {colourOf} from '../../web/js/colours.mjs';
import {arrayFrom, fromHalf, numbersOf, toHalf} from '../../web/js/npz.mjs';
import {layoutOf} from '../../web/js/run_page.mjs';
import {readsOf} from '../../web/js/see.mjs';

let failures = 0;
const check = (what, holds, more = '') => {
  if (!holds) ++failures;
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${what} ${more}`);
};
const widthOf = (text, font) => text.length * (font === fonts.label ? 8 : 6);
function overlaps({x, width, rows}) {
  let count = 0;
  for (const row of rows) for (let i = 1; i < row.length; ++i) if (x[row[i]] - width[row[i]] / 2 < x[row[i - 1]] + width[row[i - 1]] / 2) ++count;
  return count;
}

// Convolutions with a weight that is made wider beside each, as quantised networks have them.
{
  const items = [{label: 'input', detail: '1 × 3 × 224 × 224'}], edges = [];
  let last = 0;
  for (let i = 0; i < 200; ++i) {
    const wide = items.push({label: 'DequantizeLinear', detail: '64 × 64 × 3 × 3'}) - 1;
    const data = items.push({label: 'DequantizeLinear', detail: '1 × 64 × 56 × 56'}) - 1;
    const conv = items.push({label: 'Conv', detail: '1 × 64 × 56 × 56'}) - 1;
    edges.push({from: last, to: data}, {from: data, to: conv}, {from: wide, to: conv});
    last = conv;
  }
  const placed = layout(items, edges, widthOf);
  check('the main line is straight', Math.abs(placed.x[last] - placed.x[0]) < 60, `${(placed.x[last] - placed.x[0]).toFixed(0)} points aside after 200 layers`);
  check('nodes do not overlap', overlaps(placed) === 0);
  check('texts have room', items.every((item, i) => placed.width[i] - 18 >= Math.max(widthOf(item.label, fonts.label), widthOf(item.detail, fonts.detail))));
}
// Many nodes, with edges near and far.
{
  const count = 10000, items = Array.from({length: count}, (_, i) => ({label: `Op${i % 17}`, detail: ''})), edges = [];
  for (let i = 1; i < count; ++i) {
    edges.push({from: i - 1 - i % 3 % i, to: i});
    if (i % 5 === 0 && i > 900) edges.push({from: i - 900, to: i});
  }
  const begin = performance.now(), placed = layout(items, edges, widthOf), time = performance.now() - begin;
  check('10,000 nodes are placed within half a second', time < 500, `${time.toFixed(0)} ms`);
  check('they do not overlap', overlaps(placed) === 0);
  check('readers are below what they read', edges.every(({from, to}) => placed.y[to] >= placed.y[from] + sizes.height));
}
check('a circle ends', layout([{label: 'a'}, {label: 'b'}], [{from: 0, to: 1}, {from: 1, to: 0}], widthOf).rows.length > 0);
check('no nodes at all', layout([], [], widthOf).box.right === 0);
check('operators of one kind have one colour', colourOf('Conv') === colourOf('MatMul') && colourOf('QuantizeLinear') === colourOf('DequantizeLinear') && colourOf('Relu') !== colourOf('Conv'));
// Bodies of control flow: what they read of the graph around them, in time that is linear in their nodes.
{
  const body = (count, inner) => ({inputs: [{name: 'i'}], weights: [{name: 'w'}], outputs: [{name: 'passed'}], nodes: Array.from({length: count}, (_, i) =>
    ({inputs: [i ? `v${i - 1}` : 'outer', 'w', 'i', ''], outputs: [`v${i}`], attributes: i === 5 && inner ? {body: {graph: inner}} : {}}))});
  const graph = body(20000, {...body(20000), inputs: [{name: 'outer'}]}), begin = performance.now();
  const reads = readsOf({inputs: ['x', ''], outputs: ['y'], attributes: {body: {graph}, axis: 1}});
  const time = performance.now() - begin;
  check('what a body reads', reads.sort().join() === 'outer,passed,x', reads.join());
  check('40,000 nodes in bodies within half a second', time < 500, `${time.toFixed(0)} ms`);
}

// What people see and write of types that JavaScript may have no array for.
{
  let wrong = 0;
  for (let half = 0; half < 65536; ++half) {
    const value = fromHalf(half);
    if (Number.isNaN(value) ? (toHalf(value) & 0x7fff) !== 0x7e00 : toHalf(value) !== half) ++wrong;
  }
  check('half floats and back', wrong === 0 && toHalf(65520) === 0x7c00 && toHalf(65519) === 0x7bff && toHalf(2 ** -25) === 0, `${wrong} wrong`);
  for (const type of ['float16', 'bfloat16']) {
    const data = arrayFrom(type, ['1.5', '-2', '0.25']), bytes = new Uint8Array(data.buffer);
    check(`${type} as numbers`, [data, bytes].every((each) => [...numbersOf(type, each)].join() === '1.5,-2,0.25'));
  }
  check('whole numbers of 64 bits', arrayFrom('int64', ['9007199254740993', 3]).join() === '9007199254740993,3');
}

// Where the channels of a picture are.
for (const [shape, wanted] of [[[1, 3, 224, 224], 'NCHW'], [['n', 3, 'h', 'w'], 'NCHW'], [[1, 'h', 'w', 3], 'NHWC'], [[1, 224, 224, 1], 'NHWC'], [['n', 'c', 'h', 'w'], 'NCHW'],
  [['n', 'h', 'w', 'channels'], 'NHWC'], [[1, 1, 28, 28], 'NCHW'], [[1, 64, 56, 56], undefined], [[1, 3], undefined]])
  check(`the layout of [${shape}]`, layoutOf({type: 'float32', shape}) === wanted);

process.exit(failures ? 1 : 0);
