import { h } from '../dom.js';
import { bytes, moment, time } from '../format.js';

const WHY = ['', 'needed', 'its lane was busy with', 'its step of the schedule came after'];

export function taskName(timeline, task) {
  const microbatch = timeline.microbatch[task];
  return timeline.names[timeline.name[task]] + (microbatch < 0 ? '' : `, microbatch ${microbatch + 1}`);
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
  const before = timeline.waitedFor[task];
  if (before >= 0) facts.push([WHY[timeline.cause[task]], taskName(timeline, before)]);
  else facts.push(['waited for', begin === 0 ? 'nothing' : 'nothing that is drawn']);
  if (timeline.queued[task] > 0) facts.push(['ready', `${time(timeline.queued[task])} earlier`]);
  if (timeline.critical[task] > 0) facts.push(['critical path', `${time(timeline.critical[task])} of it`]);
  return facts;
}

export function taskCard(timeline, task) {
  return h('div', { class: 'card' }, h('strong', {}, taskName(timeline, task)),
    h('dl', {}, taskFacts(timeline, task).map(([label, value]) => h('div', {}, h('dt', {}, label), h('dd', {}, value)))));
}
