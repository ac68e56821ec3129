import { h } from './dom.js';
import { openTimeline } from './data.js';
import { count, percent, time } from './format.js';
import { MemoryChart } from './memory.js';
import { stripOf } from './strip.js';
import { factsOf } from './table.js';
import { TimeView } from './timeline/view.js';
import { Timeline } from './timeline/timeline.js';
import { topologyOf } from './topology.js';

// How often an iteration does what begins at a moment.
function timesOf(windows, moment) {
  return windows.reduce((times, w) => times + (moment >= w.begin && moment < w.end ? w.repeats : 0), 1);
}

// Names of tasks by what they add up to.
function byName(t, amount) {
  const sums = new Map();
  for (let i = 0; i < t.count; ++i) {
    const value = amount(i);
    if (value === 0) continue;
    const sum = sums.get(t.name[i]) ?? { time: 0, tasks: 0 };
    const times = timesOf(t.windows, t.begin[i]);
    sum.time += value * times;
    sum.tasks += times;
    sums.set(t.name[i], sum);
  }
  return [...sums].sort((a, b) => b[1].time - a[1].time);
}

function longestTable(title, note, t, amount, whole) {
  const columns = [{ name: 'time', number: true }, { name: 'share', number: true }, { name: 'tasks', number: true }, { name: 'what' }];
  const rows = byName(t, amount).slice(0, 200).map(([name, sum]) => [time(sum.time), percent(sum.time / whole), count(sum.tasks), t.names[name]]);
  return { title, note, columns, rows };
}

// The parts of the page for one plan; `view` is its time.
export function planPart(part) {
  const t = openTimeline(part.timeline);
  const view = new TimeView(t.end);
  const timeline = new Timeline(t, view);
  const whole = Math.max(1, t.windows.reduce((sum, w) => sum + w.repeats * (w.end - w.begin), t.end));
  const tables = [
    ...part.tables,
    longestTable('Longest parts of the critical path', '', t, (i) => t.critical[i], whole),
    longestTable('Longest tasks', 'All microbatches added up; share of the iteration.', t, (i) => t.duration[i], whole),
  ].filter((table) => table.rows.length > 0);
  const notes = [`${count(t.count)} tasks.`, ...part.notes];
  return {
    view,
    timeline,
    tables,
    elements: [
      factsOf(part.facts),
      h('div', { class: 'notes' }, notes.map((note) => h('p', { class: 'note' }, note))),
      timeline.element,
      part.memory.devices.length ? new MemoryChart(part.memory, view).element : null,
      part.strip ? stripOf(part.strip) : null,
      topologyOf(part.topology),
    ],
  };
}
