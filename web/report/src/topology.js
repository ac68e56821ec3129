import { create } from 'd3-selection';
import { block, h, showTip } from './dom.js';
import { count, percent } from './format.js';
import { shortened } from './timeline/paint.js';

const WIDTH = 54;
const HEIGHT = 26;
const LOADS = [0.001, 0.05, 0.25, 0.5, 0.75];  // from where each color of links begins

const loadClass = (load) => `load load${LOADS.filter((least) => load >= least).length}`;

// The two directions of a link beside each other.
function lanesOf(link, vertices) {
  const a = vertices[link.a];
  const b = vertices[link.b];
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const lanes = link.duplex ? [[link.forward, 1, a, b], [link.backward, -1, b, a]] : [[link.forward, 0, a, b]];
  return lanes.map(([load, side, from, to]) => {
    const dx = (side * 2.2 * (b.y - a.y)) / length;
    const dy = (-side * 2.2 * (b.x - a.x)) / length;
    return {
      load, from, to, link, both: !link.duplex,
      x1: a.x + dx, y1: a.y + dy, x2: b.x + dx, y2: b.y + dy,
    };
  });
}

function laneCard(lane) {
  return h('div', { class: 'card' }, h('strong', {}, `${lane.from.whole} ${lane.both ? '\u2194' : '\u2192'} ${lane.to.whole}`),
    h('div', {}, `busy ${percent(lane.load)} of the iteration`), h('div', {}, `${lane.link.bandwidth}, ${lane.link.latency}`));
}

function vertexCard(v) {
  const lines = [h('strong', {}, v.whole)];
  if (v.kind === 'device') {
    lines.push(h('div', {}, `computes ${percent(v.busy)} of the iteration`));
    if (v.alike > 1) lines.push(h('div', {}, `stands for ${count(v.alike)} devices`));
  } else {
    lines.push(h('div', {}, v.kind));
  }
  return h('div', { class: 'card' }, lines);
}

function withTip(selection, card) {
  selection.on('pointermove', (e, d) => showTip(card(d), e.clientX, e.clientY)).on('pointerleave', () => showTip(null));
}

// Devices below, the network above, links as wide and dark as they are busy.
export function topologyOf(t) {
  const svg = create('svg').attr('viewBox', `0 0 ${t.width} ${t.height}`).attr('class', 'topology')
    .style('max-width', `${Math.round(t.width * 1.4)}px`).attr('role', 'img').attr('aria-label', 'Topology with the load of each link');
  svg.selectAll('.node').data(t.nodes).join('rect').attr('class', 'node').attr('rx', 6)
    .attr('x', (n) => n.x).attr('y', (n) => n.y).attr('width', (n) => n.width).attr('height', (n) => n.height);
  const lanes = t.links.flatMap((link) => lanesOf(link, t.vertices)).sort((a, b) => a.load - b.load);
  const lines = svg.selectAll('.load').data(lanes).join('line').attr('class', (l) => loadClass(l.load))
    .attr('stroke-width', (l) => 1 + 4 * Math.min(1, l.load));
  for (const end of ['x1', 'y1', 'x2', 'y2']) lines.attr(end, (l) => l[end]);
  withTip(lines, laneCard);
  svg.selectAll('.node-name').data(t.nodes).join('text').attr('class', 'node-name')
    .attr('x', (n) => n.x + 10).attr('y', (n) => n.y + 17).text((n) => n.name);
  const vertices = svg.selectAll('.vertex').data(t.vertices).join('g').attr('class', (v) => `vertex ${v.kind}`)
    .attr('transform', (v) => `translate(${v.x},${v.y})`);
  vertices.append('rect').attr('x', -WIDTH / 2).attr('y', -HEIGHT / 2).attr('width', WIDTH).attr('height', HEIGHT)
    .attr('rx', (v) => (v.kind === 'device' ? 3 : HEIGHT / 2));
  vertices.filter((v) => v.kind === 'device').append('rect').attr('class', 'busy-part').attr('x', -WIDTH / 2)
    .attr('y', HEIGHT / 2 - 4).attr('width', (v) => WIDTH * Math.min(1, v.busy)).attr('height', 4);
  vertices.append('text').attr('dy', '0.3em').text((v) => shortened(v.name, 9));
  withTip(vertices, vertexCard);
  const notes = [];
  if (t.nodes_left_out > 0) notes.push(`${count(t.nodes_left_out)} more ${t.nodes_left_out === 1 ? 'node is' : 'nodes are'} not drawn.`);
  if (t.switches_left_out > 0) notes.push(`${count(t.switches_left_out)} more switches are not drawn.`);
  const words = ['idle', 'up to 5 %', '25 %', '50 %', '75 %', '100 % busy'];
  return block('Topology', notes.length ? h('p', { class: 'note' }, notes.join(' ')) : null,
    h('ul', { class: 'legend' }, words.map((word, i) => h('li', {}, h('span', { class: `swatch line load${i}` }), word)),
      h('li', {}, h('span', { class: 'swatch busy-swatch' }), 'share of time in which a device computes')),
    h('div', { class: 'scroll' }, svg.node()));
}
