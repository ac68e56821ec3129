import { h } from '../dom.js';
import { bytes, moment, percent, time } from '../format.js';

const WHY = ['', 'needed', 'its lane was busy with', 'its step of the schedule came after'];

export function taskName(timeline, task) {
  const microbatch = timeline.microbatch[task];
  return timeline.names[timeline.name[task]] + (microbatch < 0 ? '' : `, microbatch ${microbatch + 1}`);
}

const isMeasured = (timeline, task) => timeline.rows[timeline.rowOf[task]].source === 'measured';

// Of an execution: the same task as it was predicted, or measured.
function besideFact(timeline, task) {
  const measured = isMeasured(timeline, task);
  const other = timeline.beside[task];
  if (other < 0) return [measured ? 'predicted' : 'measured', 'not at all'];
  const [was, said] = measured ? [task, other] : [other, task];
  const by = timeline.duration[was] - timeline.duration[said];
  const part = timeline.duration[said] > 0 ? ` (${percent(Math.abs(by) / timeline.duration[said])})` : '';
  const difference = by === 0 ? 'the same' : `measured ${time(Math.abs(by))}${part} ${by > 0 ? 'longer' : 'shorter'} than predicted`;
  const begin = timeline.begin[other];
  return [measured ? 'predicted' : 'measured',
    `${time(timeline.duration[other])}, from ${moment(begin, timeline.duration[other])}; ${difference}`];
}

// Of an execution, which of both it is.
export function taskTitle(timeline, task) {
  const row = timeline.rows[timeline.rowOf[task]];
  return `${taskName(timeline, task)}${row?.source ? ` on ${row.owner}, ${row.source}` : ''}`;
}

// What a task is, how long it took, and what it waited for: pairs of words.
export function taskFacts(timeline, task) {
  const begin = timeline.begin[task];
  const duration = timeline.duration[task];
  const facts = [
    ['takes', `${time(duration)}, from ${moment(begin, duration)} to ${moment(begin + duration, duration)}`],
    ['kind', timeline.kinds[timeline.kind[task]]],
  ];
  if (timeline.bytes[task] > 0) facts.push(['moves', bytes(timeline.bytes[task])]);
  if (timeline.beside) return [...facts, besideFact(timeline, task)];
  const before = timeline.waitedFor[task];
  if (before >= 0) facts.push([WHY[timeline.cause[task]], taskName(timeline, before)]);
  else facts.push(['waited for', begin === 0 ? 'nothing' : 'nothing that is drawn']);
  if (timeline.queued[task] > 0) facts.push(['ready', `${time(timeline.queued[task])} earlier`]);
  if (timeline.critical[task] > 0) facts.push(['critical path', `${time(timeline.critical[task])} of it`]);
  return facts;
}

export function taskCard(timeline, task) {
  return h('div', { class: 'card' }, h('strong', {}, taskTitle(timeline, task)),
    h('dl', {}, taskFacts(timeline, task).map(([label, value]) => h('div', {}, h('dt', {}, label), h('dd', {}, value)))));
}
