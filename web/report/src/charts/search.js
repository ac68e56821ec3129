import { scaleLinear } from 'd3-scale';
import { curveStepAfter, line } from 'd3-shape';
import { block, h } from '../dom.js';
import { bytes, count, digits, seconds } from '../format.js';
import { LINE_COLORS } from '../palette.js';
import { factsOf } from '../table.js';
import { axes, chart, tips } from './chart.js';
import { front } from './front.js';

const DASHES = ['', '7 3', '2 3', '9 3 2 3'];

// The best plan over time, of one search or of several.
function courseChart(searches) {
  let by = 'seconds';
  const level = ({ name, value }) => ({ name, value });
  const lines = searches.map((s) => ({
    name: s.name,
    points: s.best.map((best, i) => ({ best, seconds: s.seconds[i], proposals: s.proposals[i], chain: s.chain[i] }))
      .filter((p) => p.best !== null),
  }));
  const levels = searches.length > 1 ? [] : [
    ...searches[0].baselines.map((b) => level({ name: b.name, value: b.seconds })),
    ...(searches[0].lower_bound ? [level({ name: 'lower bound', value: searches[0].lower_bound })] : []),
  ];
  const { frame, redraw } = chart(300, 'The best plan over the course of the search', (svg, box) => {
    const points = lines.flatMap((l) => l.points);
    if (points.length === 0) return svg.append('text').attr('x', box.left).attr('y', 40).text('No plan was found to fit.');
    // Baselines that are far slower would make all else flat.
    const slowest = Math.max(...points.map((p) => p.best));
    const shown = levels.filter((l) => l.value <= 2 * slowest);
    const values = [...points.map((p) => p.best), ...shown.map((l) => l.value)];
    const last = Math.max(...searches.map((s) => s[by][s[by].length - 1]), by === 'seconds' ? 1e-3 : 1);
    const x = scaleLinear([0, last], [box.left, box.right]);
    const low = Math.min(...values);
    const high = Math.max(...values);
    const y = scaleLinear([low - (high - low) * 0.08 - low * 0.005, high + (high - low) * 0.06 + low * 0.005], [box.bottom, box.top]);
    axes(svg, box, x, y, {
      xTitle: by === 'seconds' ? 'wall time' : 'proposals', yTitle: 'best iteration', yFormat: seconds,
      xFormat: by === 'seconds' ? (v) => `${digits(v)} s` : count,
    });
    shown.forEach((l) => {
      svg.append('line').attr('class', 'level').attr('x1', box.left).attr('x2', box.right).attr('y1', y(l.value)).attr('y2', y(l.value));
      svg.append('text').attr('class', 'level-name').attr('x', box.right).attr('y', y(l.value) - 4).attr('text-anchor', 'end').text(`${l.name} ${seconds(l.value)}`);
    });
    lines.forEach((l, i) => {
      if (l.points.length === 0) return;
      const ends = [...l.points, { ...l.points[l.points.length - 1], seconds: searches[i].seconds.at(-1), proposals: searches[i].proposals.at(-1) }];
      svg.append('path').attr('class', 'curve').style('stroke', `var(--${LINE_COLORS[i % LINE_COLORS.length]})`)
        .attr('stroke-dasharray', DASHES[i % DASHES.length])
        .attr('d', line().curve(curveStepAfter).x((p) => x(p[by])).y((p) => y(p.best))(ends));
      const news = l.points.filter((p, at) => at === 0 || p.best < l.points[at - 1].best);
      tips(svg.append('g').selectAll('circle').data(news).join('circle').attr('r', 3.5).attr('cx', (p) => x(p[by])).attr('cy', (p) => y(p.best))
        .style('fill', `var(--${LINE_COLORS[i % LINE_COLORS.length]})`),
      (p) => [seconds(p.best), `after ${digits(p.seconds)} s, ${count(p.proposals)} proposals`, p.chain >= 0 ? `chain ${p.chain}` : 'of no chain']);
    });
    return undefined;
  });
  const choose = h('select', { onchange: (e) => { by = e.target.value; redraw(); } },
    h('option', { value: 'seconds' }, 'wall time'), h('option', { value: 'proposals' }, 'proposals'));
  const names = lines.length < 2 ? null : h('ul', { class: 'legend' }, lines.map((l, i) =>
    h('li', {}, h('span', { class: 'swatch', style: `background:var(--${LINE_COLORS[i % LINE_COLORS.length]})` }), l.name)));
  return block('Search', h('div', { class: 'controls' }, h('label', {}, 'Over ', choose)), names, frame);
}

export function searchPart(part) {
  const end = part.best.length - 1;
  const facts = [...part.facts];
  if (end >= 0) {
    facts.push(['best', part.best[end] === null ? 'none fits' : seconds(part.best[end])],
      ['took', `${digits(part.seconds[end])} s, ${count(part.proposals[end])} proposals`]);
  }
  const elements = [factsOf(facts), end < 0 ? null : courseChart([part]),
    front('time against memory', part.plans, {
      key: 'memory', title: 'memory of the fullest device', format: bytes, label: (p) => p.recipe,
      lines: (p) => [p.recipe, `iteration ${seconds(p.seconds)}`, `memory ${bytes(p.memory)}`],
    })];
  return { elements };
}

export const searchesTogether = (parts) => courseChart(parts);
