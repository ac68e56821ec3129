import { block, h, showTip } from './dom.js';
import { ACTIVITIES } from './palette.js';
import { percent, time } from './format.js';

const CELL = 7;
const ROW_HEIGHT = 18;
const LABEL = 92;
const SVG = 'http://www.w3.org/2000/svg';

const WORDS = {
  '.': 'idle', '-': 'idle while data travel', '~': 'left out', '|': 'what is between two of these comes again',
};

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Equal marks that follow each other.
function runs(marks) {
  const list = [];
  for (const [at, mark] of [...marks].entries()) {
    const last = list[list.length - 1];
    if (last && last.mark === mark) last.length += 1;
    else list.push({ at, mark, length: 1 });
  }
  return list;
}

function run({ at, mark, length }, y, stages) {
  const activity = ACTIVITIES.find((a) => a.mark === mark);
  const group = svg('g', {});
  group.append(svg('rect', {
    x: LABEL + at * CELL, y: y + 1, width: length * CELL, height: ROW_HEIGHT - 2,
    class: activity ? 'busy' : 'free', style: activity ? `fill:var(--${activity.color})` : '',
  }));
  if (activity ? length >= 2 : mark !== '.') {
    const text = svg('text', {
      x: LABEL + (at + length / 2) * CELL, y: y + ROW_HEIGHT / 2 + 4, class: activity ? 'mark' : 'free-mark',
      style: activity ? `fill:var(--on-${activity.color})` : '',
    });
    text.textContent = mark === '-' ? '' : mark;
    group.append(text);
  }
  group.addEventListener('pointermove', (e) =>
    showTip(h('div', { class: 'card' }, `stage ${stages}: ${activity?.label ?? WORDS[mark] ?? mark}`), e.clientX, e.clientY));
  group.addEventListener('pointerleave', () => showTip(null));
  return group;
}

// The pipeline's time from left to right, a row for each group of devices.
export function stripOf(strip) {
  const columns = Math.max(...strip.rows.map((row) => row.marks.length));
  const height = strip.rows.length * ROW_HEIGHT;
  const picture = svg('svg', {
    viewBox: `0 0 ${LABEL + columns * CELL + 4} ${height}`, class: 'strip', role: 'img',
    'aria-label': `Pipeline: ${strip.rows.map((r) => `stage ${r.stages} ${r.marks}`).join(', ')}`,
  });
  strip.rows.forEach((row, i) => {
    const label = svg('text', { x: LABEL - 8, y: i * ROW_HEIGHT + ROW_HEIGHT / 2 + 4, class: 'row-label' });
    label.textContent = `stage ${row.stages}`;
    picture.append(label, ...runs(row.marks).map((r) => run(r, i * ROW_HEIGHT, row.stages)));
  });
  const notes = [`${strip.schedule}, ${strip.microbatches} microbatches, ${percent(strip.idle)} idle; a column is ${time(strip.column)}.`];
  if (strip.left_out.length > 0) {
    notes.push(`At each ~ time is left out: ${strip.left_out.map((out) => `${time(out.end - out.begin)} (${percent(out.idle)} idle)`).join(', ')}.`);
  }
  if (strip.repeats > 0) notes.push(`What is between two bars comes ${strip.repeats + 1} times.`);
  const used = ACTIVITIES.filter((a) => a.mark && strip.rows.some((row) => row.marks.includes(a.mark)));
  return block('Pipeline', h('p', { class: 'note' }, notes.join(' ')),
    h('ul', { class: 'legend' }, used.map((a) =>
      h('li', {}, h('span', { class: 'swatch', style: `background:var(--${a.color})` }), `${a.mark} ${a.label}`))),
    h('div', { class: 'scroll' }, picture));
}
