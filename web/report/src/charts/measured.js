import { scaleBand, scaleLinear } from 'd3-scale';
import { openTimeline } from '../data.js';
import { block, h } from '../dom.js';
import { percent, seconds } from '../format.js';
import { factsOf } from '../table.js';
import { shortened } from '../timeline/paint.js';
import { Timeline } from '../timeline/timeline.js';
import { TimeView } from '../timeline/view.js';
import { axes, chart, tips } from './chart.js';

const MOST = 12;

function pairLines(p) {
  return [p.name, `predicted ${seconds(p.predicted)}`,
    `measured ${seconds(p.measured)}${p.low === undefined ? '' : ` (${seconds(p.low)} to ${seconds(p.high)})`}`,
    p.measured > 0 ? `off by ${p.predicted < p.measured ? '\u2212' : '+'}${percent(Math.abs(p.predicted - p.measured) / p.measured)}` : ''];
}

// Two bars for each name: predicted above measured.
function pairs(title, list, xTitle) {
  if (list.length === 0) return null;
  const shown = list.slice(0, MOST);
  const { frame } = chart(70 + shown.length * 40, `${title}: predicted beside measured`, (svg, box) => {
    const left = Math.min(340, box.right * 0.38);
    const y = scaleBand(shown.map((_, i) => i), [box.top, box.bottom]).padding(0.25);
    const most = Math.max(...shown.map((p) => Math.max(p.predicted, p.measured, p.high ?? 0)));
    const x = scaleLinear([0, most * 1.05], [left, box.right]);
    axes(svg, { ...box, left }, x, y, { xTitle, yTitle: '', across: true, xFormat: seconds, yFormat: (i) => shortened(shown[i].name, Math.floor(left / 6.6)), xTicks: 6 });
    const half = y.bandwidth() / 2;
    const groups = svg.append('g').selectAll('g').data(shown).join('g').attr('transform', (_, i) => `translate(0,${y(i)})`);
    groups.append('rect').attr('class', 'predicted').attr('x', left).attr('width', (p) => x(p.predicted) - left).attr('height', half - 1);
    groups.append('rect').attr('class', 'measured').attr('x', left).attr('y', half).attr('width', (p) => x(p.measured) - left).attr('height', half - 1);
    groups.filter((p) => p.low !== undefined).append('path').attr('class', 'whisker')
      .attr('d', (p) => `M${x(p.low)},${half * 1.5}H${x(p.high)}M${x(p.low)},${half * 1.2}v${half * 0.6}M${x(p.high)},${half * 1.2}v${half * 0.6}`);
    tips(groups, pairLines);
  });
  const rest = list.length > MOST ? h('p', { class: 'note' }, `The ${MOST} that differ most of ${list.length}.`) : null;
  return block(title, h('ul', { class: 'legend' }, h('li', {}, h('span', { class: 'swatch predicted-swatch' }), 'predicted'),
    h('li', {}, h('span', { class: 'swatch measured-swatch' }), 'measured')), rest, frame);
}

const TIMELINE = {
  title: 'Timeline: predicted and measured',
  note: 'One iteration. Of each device what was predicted stands above what was measured. A measured transfer begins '
    + 'when the device comes to it, so it shows the wait for others, too.',
};

export function measuredPart(part) {
  const opened = part.timeline ? openTimeline(part.timeline) : null;
  const view = opened && new TimeView(opened.end);
  const timeline = opened && new Timeline(opened, view, TIMELINE);
  return {
    view,
    timeline,
    elements: [factsOf(part.facts), timeline?.element, pairs(part.iterations.length > 1 ? 'Plans' : 'Iteration', part.iterations, 'time of an iteration'),
      pairs('Operators that differ most', part.operators, 'time, all devices together'),
      pairs('Transfers that differ most', part.links, 'time, all devices together')],
  };
}
