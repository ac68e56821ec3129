import { create } from 'd3-selection';
import { scaleLinear, scaleLog, scalePoint } from 'd3-scale';
import { line, symbol, symbolsFill } from 'd3-shape';
import { block, h } from '../dom.js';
import { bytes, count, digits, percent, seconds } from '../format.js';
import { LINE_COLORS } from '../palette.js';
import { factsOf } from '../table.js';
import { axes, chart, tips } from './chart.js';
import { front } from './front.js';

const lineColor = (i) => `var(--${LINE_COLORS[i % LINE_COLORS.length]})`;
const mark = (i) => symbol(symbolsFill[i % symbolsFill.length], 64)();

// Points in groups that differ in one axis only.
function groupsOf(part, axis) {
  const groups = new Map();
  for (const point of part.points) {
    const others = part.axes.map((a, i) => (i === axis ? null : `${a.name} ${a.values[point.at[i]]}`)).filter(Boolean);
    const name = others.join(', ');
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(point);
  }
  return [...groups].map(([name, points]) => ({ name, points: points.sort((a, b) => a.at[axis] - b.at[axis]) }));
}

// Numbers that grow by factors get a logarithmic scale.
function scaleOf(axis, range) {
  const n = axis.numbers;
  if (n.length === 0) return scalePoint(axis.values, range).padding(0.2);
  const sorted = [...n].sort((a, b) => a - b);
  const byFactors = sorted[0] > 0 && sorted.at(-1) / sorted[0] >= 8;
  return (byFactors ? scaleLog : scaleLinear)([sorted[0], sorted.at(-1)], range);
}

const placeOf = (part, point) => part.axes.map((a, i) => `${a.name} ${a.values[point.at[i]]}`).join(', ');

function pointLines(part, point) {
  const has = (key) => point[key] !== null && point[key] !== undefined;
  return [
    placeOf(part, point),
    `iteration ${seconds(point.seconds)}`,
    ...(has('objective') ? [`${part.objective} ${seconds(point.objective)}`] : []),
    has('tokens') ? `${digits(point.tokens)} tokens/s` : `${digits(point.samples)} samples/s`,
    ...(has('scaling') ? [`scaling ${percent(point.scaling)}`] : []),
    `${count(point.devices)} devices, ${bytes(point.memory)} on the fullest`,
    ...(has('cost') ? [`${part.work} cost ${digits(point.cost)}, an hour ${digits(point.price)}`] : []),
    ...(point.fits ? [] : ['does not fit into memory']),
    point.recipe,
  ].filter(Boolean);
}

const quantities = (part) => [
  { key: 'seconds', title: 'iteration', format: seconds },
  { key: 'objective', title: `${part.objective} of the iteration`, format: seconds },
  { key: 'tokens', title: 'tokens a second', format: digits },
  { key: 'samples', title: 'samples a second', format: digits },
  { key: 'scaling', title: 'scaling efficiency', format: percent },
  { key: 'mfu', title: 'MFU', format: percent },
  { key: 'cost', title: `cost of ${part.work}`, format: digits },
  { key: 'memory', title: 'memory of the fullest device', format: bytes },
].filter(({ key }) => part.points.some((p) => p[key] !== null && p[key] !== undefined));

const NOTES = {
  scaling: 'Samples a second and device, by those of the first point along nodes or devices.',
  cost: 'In the currency of the topology\'s prices.',
};

// Where a curve is at a place between two of its points; null outside of it.
function heightAt(points, at, x, y, where) {
  for (let i = 0; i + 1 < points.length; ++i) {
    const [a, b] = [points[i], points[i + 1]];
    const [xa, xb] = [x(a.at[at]), x(b.at[at])];
    if (Math.min(xa, xb) <= where && where <= Math.max(xa, xb)) return y(a) + ((y(b) - y(a)) * (where - xa)) / (xb - xa || 1);
  }
  return null;
}

function drawCrossovers(svg, part, { axis, x, y, groups }) {
  const of = part.axes[axis];
  const marks = part.crossovers.filter((c) => c.axis === axis && c.place >= 0).map((c) => {
    const group = groups.find((g) => g.name === c.others);
    const before = Math.min(Math.floor(c.place), of.values.length - 1);
    const after = Math.min(before + 1, of.values.length - 1);
    const where = x(before) + (c.place - before) * (x(after) - x(before));
    return { c, where, height: group ? heightAt(group.points, axis, x, y, where) : null };
  }).filter((m) => m.height !== null);
  tips(svg.append('g').selectAll('path').data(marks).join('path').attr('class', 'crossover-mark')
    .attr('d', 'M-5,-5L5,5M-5,5L5,-5').attr('transform', (m) => `translate(${m.where},${m.height})`),
  ({ c }) => [`${of.name} ${c.low === c.high ? c.low : `${c.low} to ${c.high}`}${c.others && `, ${c.others}`}`, `before: ${c.from}`, `from there on: ${c.to}`]);
  return marks.length > 0;
}

// Values that are nearer to each other than their labels are wide lose some labels.
function tickValues(of, place, width) {
  const values = of.numbers.length ? of.numbers : of.values;
  const text = (v) => (typeof v === 'number' ? digits(v) : v);
  let last = -Infinity;
  return [...values].sort((a, b) => place(a) - place(b)).filter((v) => {
    const half = text(v).length * 3.6 + 4;
    if (place(v) - half < last || place(v) > width) return false;
    last = place(v) + half;
    return true;
  });
}

function curves(part) {
  const counts = part.axes.map((a) => a.values.length);
  let axis = counts.indexOf(Math.max(...counts));
  const known = quantities(part);
  if (known.length === 0) return null;
  let quantity = known[0];
  const legend = h('ul', { class: 'legend' });
  const note = h('p', { class: 'note' });
  const { frame, redraw } = chart(360, 'Curves of the study', (svg, box) => {
    const { key, title, format } = quantity;
    const groups = groupsOf(part, axis).map((g) => ({ ...g, points: g.points.filter((p) => p[key] !== null && p[key] !== undefined) }))
      .filter((g) => g.points.length > 0);
    const values = groups.flatMap((g) => g.points.map((p) => p[key]));
    const of = part.axes[axis];
    const place = scaleOf(of, [box.left + 12, box.right - 12]);
    const x = (i) => place(of.numbers.length ? of.numbers[i] : of.values[i]);
    const low = Math.min(...values);
    const high = Math.max(...values);
    const byFactors = low > 0 && high / low > 10;
    const scale = (byFactors ? scaleLog : scaleLinear)([byFactors ? low / 1.2 : 0, high * 1.08], [box.bottom, box.top]);
    axes(svg, box, place, scale, {
      xTitle: of.unit ? `${of.name} (${of.unit === 'x' ? 'times' : of.unit})` : of.name, yTitle: title, yFormat: format,
      xFormat: (v) => (typeof v === 'number' ? digits(v) : v), xTicks: tickValues(of, place, box.right),
    });
    note.textContent = NOTES[key] ?? '';
    const y = (p) => scale(p[key]);
    groups.forEach((g, i) => {
      svg.append('path').attr('class', 'curve').style('stroke', lineColor(i)).attr('d', line().x((p) => x(p.at[axis])).y(y)(g.points));
      tips(svg.append('g').selectAll('path').data(g.points).join('path').attr('d', mark(i)).style('fill', lineColor(i))
        .attr('opacity', (p) => (p.fits ? 1 : 0.35)).attr('transform', (p) => `translate(${x(p.at[axis])},${y(p)})`), (p) => pointLines(part, p));
    });
    const crossed = drawCrossovers(svg, part, { axis, x, y, groups });
    const unfit = groups.some((g) => g.points.some((p) => !p.fits));
    legend.replaceChildren(...groups.map((g, i) => g.name && h('li', {}, swatchOf(i), g.name)).filter(Boolean),
      crossed ? h('li', {}, h('span', { class: 'cross' }, '\u2715'), 'another kind of plan becomes the fastest') : '',
      unfit ? h('li', {}, 'pale: does not fit into memory') : '');
  });
  const axisChoice = h('select', { onchange: (e) => { axis = Number(e.target.value); redraw(); } },
    part.axes.map((a, i) => h('option', { value: i, selected: i === axis }, a.name)));
  const quantityChoice = h('select', { onchange: (e) => { quantity = known[e.target.value]; redraw(); } },
    known.map(({ title }, i) => h('option', { value: i }, title)));
  return block('Curves', h('div', { class: 'controls' }, h('label', {}, 'Of ', quantityChoice),
    part.axes.length > 1 ? h('label', {}, 'over ', axisChoice) : null), note, legend, frame);
}

// The mark of a curve as it stands in the picture.
function swatchOf(i) {
  const svg = create('svg').attr('class', 'mark-swatch').attr('viewBox', '-8 -8 16 16').attr('width', 16).attr('height', 16);
  svg.append('path').attr('d', mark(i)).style('fill', lineColor(i));
  return svg.node();
}

// Of two axes: which kind of plan is the fastest where.
function mapOf(part) {
  if (part.axes.length !== 2) return null;
  const kinds = [...new Set(part.points.map((p) => p.plan).filter(Boolean))];
  if (kinds.length < 2) return null;
  const across = part.axes[1].values.length >= part.axes[0].values.length ? 1 : 0;
  const down = 1 - across;
  const cell = (i, j) => {
    const p = part.points.find((q) => q.at[down] === i && q.at[across] === j);
    if (!p) return h('td', {}, '');
    if (p.error) return h('td', { class: 'none', title: p.error }, 'no plan');
    const color = `var(--${LINE_COLORS[kinds.indexOf(p.plan) % LINE_COLORS.length]})`;
    return h('td', { title: p.recipe, style: `border-left-color:${color}` }, h('strong', {}, p.plan), h('span', {}, `${seconds(p.seconds)}${p.fits ? '' : ', does not fit'}`));
  };
  return block('Which kind of plan is the fastest', h('p', { class: 'note' }, `Across: ${part.axes[across].name}. Down: ${part.axes[down].name}.`),
    h('div', { class: 'scroll' }, h('table', { class: 'map' },
      h('thead', {}, h('tr', {}, h('th', {}, ''), part.axes[across].values.map((v) => h('th', {}, v)))),
      h('tbody', {}, part.axes[down].values.map((v, i) => h('tr', {}, h('th', {}, v), part.axes[across].values.map((_, j) => cell(i, j))))))));
}

export function studyPart(part) {
  const fits = part.points.filter((p) => p.fits && p.seconds);
  const lines = (p) => pointLines(part, p);
  const label = (p) => placeOf(part, p);
  const several = new Set(fits.map((p) => p.devices)).size > 1;
  return {
    elements: [
      factsOf(part.facts),
      curves(part),
      mapOf(part),
      front('time against cost', fits.filter((p) => p.cost !== null), { key: 'cost', title: `cost of ${part.work}`, format: digits, lines, label }),
      several ? front('time against devices', fits, { key: 'devices', title: 'devices', format: count, lines, label }) : null,
    ],
  };
}
