import { scaleLinear, scaleLog, scalePoint } from 'd3-scale';
import { line, symbol, symbolsFill } from 'd3-shape';
import { block, h } from '../dom.js';
import { digits, seconds } from '../format.js';
import { LINE_COLORS } from '../palette.js';
import { axes, chart, tips } from './chart.js';
import { front } from './front.js';

const QUANTITIES = { seconds: 'iteration', tokens: 'tokens a second', samples: 'samples a second' };
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

function pointLines(part, point) {
  return [
    part.axes.map((a, i) => `${a.name} ${a.values[point.at[i]]}`).join(', '),
    ...(point.seconds === null ? [] : [`iteration ${seconds(point.seconds)}`]),
    ...(point.tokens === null ? [] : [`${digits(point.tokens)} tokens/s`]),
    ...(point.samples === null || point.tokens !== null ? [] : [`${digits(point.samples)} samples/s`]),
    ...(point.cost === null ? [] : [`${digits(point.cost)} an hour`]),
    ...(point.fits ? [] : ['does not fit into memory']),
    ...(point.recipe ? [point.recipe] : []),
  ];
}

function curves(part) {
  const counts = part.axes.map((a) => a.values.length);
  let axis = counts.indexOf(Math.max(...counts));
  const quantities = Object.keys(QUANTITIES).filter((key) => part.points.some((p) => p[key] !== null));
  let quantity = quantities[0] ?? 'seconds';
  const legend = h('ul', { class: 'legend' });
  const { frame, redraw } = chart(340, 'Curves of the study', (svg, box) => {
    const groups = groupsOf(part, axis).map((g) => ({ ...g, points: g.points.filter((p) => p[quantity] !== null) }))
      .filter((g) => g.points.length > 0);
    const values = groups.flatMap((g) => g.points.map((p) => p[quantity]));
    if (values.length === 0) return;
    const of = part.axes[axis];
    const place = scaleOf(of, [box.left + 12, box.right - 12]);
    const x = (i) => place(of.numbers.length ? of.numbers[i] : of.values[i]);
    const low = Math.min(...values);
    const high = Math.max(...values);
    const y = (low > 0 && high / low > 10 ? scaleLog : scaleLinear)([low > 0 && high / low > 10 ? low / 1.2 : 0, high * 1.08], [box.bottom, box.top]);
    axes(svg, box, place, y, {
      xTitle: of.unit ? `${of.name} (${of.unit})` : of.name, yTitle: QUANTITIES[quantity],
      yFormat: quantity === 'seconds' ? seconds : digits, xFormat: (v) => (typeof v === 'number' ? digits(v) : v),
      xTicks: of.numbers.length ? of.numbers : of.values,
    });
    part.crossovers.filter((c) => c.axis === of.name && c.place >= 0).forEach((c) => {
      const before = Math.min(Math.floor(c.place), of.values.length - 1);
      const after = Math.min(before + 1, of.values.length - 1);
      const where = x(before) + (c.place - before) * (x(after) - x(before));
      svg.append('line').attr('class', 'crossover').attr('x1', where).attr('x2', where).attr('y1', box.top).attr('y2', box.bottom);
      tips(svg.append('text').datum(c).attr('class', 'crossover-mark').attr('x', where).attr('y', box.top + 4).attr('text-anchor', 'middle').text('\u2715'),
        () => [`${c.axis} ${c.low === c.high ? c.low : `${c.low} to ${c.high}`}${c.others && `, ${c.others}`}`, `before: ${c.from}`, `from there on: ${c.to}`]);
    });
    groups.forEach((g, i) => {
      svg.append('path').attr('class', 'curve').style('stroke', lineColor(i)).attr('d', line().x((p) => x(p.at[axis])).y((p) => y(p[quantity]))(g.points));
      tips(svg.append('g').selectAll('path').data(g.points).join('path').attr('d', mark(i)).style('fill', lineColor(i))
        .attr('opacity', (p) => (p.fits ? 1 : 0.35)).attr('transform', (p) => `translate(${x(p.at[axis])},${y(p[quantity])})`), (p) => pointLines(part, p));
    });
    legend.replaceChildren(...groups.filter((g) => g.name).map((g, i) => h('li', {}, h('span', { class: 'swatch', style: `background:${lineColor(i)}` }), g.name)));
  });
  const axisChoice = h('select', { onchange: (e) => { axis = Number(e.target.value); redraw(); } },
    part.axes.map((a, i) => h('option', { value: i, selected: i === axis }, a.name)));
  const quantityChoice = h('select', { onchange: (e) => { quantity = e.target.value; redraw(); } },
    quantities.map((key) => h('option', { value: key, selected: key === quantity }, QUANTITIES[key])));
  return block('Curves', h('div', { class: 'controls' }, h('label', {}, 'Of ', quantityChoice), h('label', {}, 'over ', axisChoice)), legend, frame);
}

export const studyPart = (part) => [
  curves(part),
  front('time against cost', part.points.filter((p) => p.fits && p.seconds !== null && p.cost !== null),
    { key: 'cost', title: 'cost an hour', format: digits, lines: (p) => pointLines(part, p) }),
];
