import { scaleLinear } from 'd3-scale';
import { line, symbol, symbolCircle, symbolSquare } from 'd3-shape';
import { block, h } from '../dom.js';
import { seconds } from '../format.js';
import { shortened } from '../timeline/paint.js';
import { axes, chart, tips } from './chart.js';

// Points that no other beats in both time and what `key` tells.
export function paretoFront(points, key) {
  const sorted = [...points].sort((a, b) => a.seconds - b.seconds || a[key] - b[key]);
  let least = Infinity;
  return sorted.filter((p) => p[key] < least && ((least = p[key]), true));
}

// A scale that has room around values; from 0 where they are not close to each other.
function roomy(values, range) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const edge = (high - low) * 0.08 || high * 0.1 || 1;
  return scaleLinear([low > (high - low) * 2 ? low - edge : 0, high + edge], range);
}

// Names beside the best points, as far as there is room.
function nameBest(svg, best, { x, y, right, label }) {
  const placed = [];
  for (const p of best) {
    const text = shortened(label(p), 44);
    const wide = 12 + text.length * 6.6;
    const fits = x(p) + wide < right;
    const left = fits ? x(p) : x(p) - wide;
    if (placed.some((b) => Math.abs(b.y - y(p)) < 15 && b.left < left + wide && left < b.left + b.wide)) continue;
    placed.push({ left, wide, y: y(p) });
    svg.append('text').attr('class', 'level-name').attr('x', x(p) + (fits ? 10 : -10)).attr('y', y(p) - (fits ? 6 : 9))
      .attr('text-anchor', fits ? 'start' : 'end').text(text);
  }
}

// Time against something else that one wants little of. lines(point) says what the point is, label(point) in short.
export function front(name, points, { key, title, format, lines, label }) {
  if (points.length < 2) return null;
  const best = paretoFront(points, key);
  const { frame } = chart(320, `Pareto front: ${name}`, (svg, box) => {
    const x = roomy(points.map((p) => p[key]), [box.left, box.right]);
    const y = roomy(points.map((p) => p.seconds), [box.bottom, box.top]);
    axes(svg, box, x, y, { xTitle: title, yTitle: 'iteration', xFormat: format, yFormat: seconds });
    svg.append('path').attr('class', 'curve front').attr('d', line().x((p) => x(p[key])).y((p) => y(p.seconds))(best));
    tips(svg.append('g').selectAll('path').data(points).join('path')
      .attr('d', (p) => symbol(best.includes(p) ? symbolCircle : symbolSquare, best.includes(p) ? 90 : 50)())
      .attr('class', (p) => (best.includes(p) ? 'best' : 'beaten')).attr('transform', (p) => `translate(${x(p[key])},${y(p.seconds)})`), lines);
    nameBest(svg, best, { x: (p) => x(p[key]), y: (p) => y(p.seconds), right: box.right, label });
  });
  return block(`Pareto front: ${name}`, h('p', { class: 'note' }, `Round, on the line: no other has both a shorter iteration and less of this: ${title}.`), frame);
}
