import { color } from './theme.js';

// What tasks do, in the order of the legend: the name of its color, what it is called, kinds of tasks, and its letter in
// the pipeline's strip.
export const ACTIVITIES = [
  { color: 'forward', label: 'forward', kinds: ['forward'], mark: 'F' },
  { color: 'backward', label: 'backward', kinds: ['backward-input'], mark: 'B' },
  { color: 'weight', label: 'gradients of weights', kinds: ['backward-weight'], mark: 'W' },
  { color: 'recompute', label: 'recompute', kinds: ['recompute'], mark: 'R' },
  { color: 'update', label: 'update', kinds: ['update'], mark: 'U' },
  { color: 'activations', label: 'moves activations', kinds: ['forward-transfer', 'recompute-transfer'] },
  { color: 'gradients', label: 'moves gradients', kinds: ['backward-transfer'] },
  { color: 'sync', label: 'adds gradients of weights', kinds: ['gradient-sync'] },
  { color: 'gather', label: 'gathers weights', kinds: ['weight-gather'] },
  { color: 'inner', label: 'inside operators', kinds: ['inner-reduce', 'rotation'] },
  { color: 'other', label: 'host, interference', kinds: [] },
];

// By kind of task, the number of its activity.
export function activityOf(kinds) {
  return kinds.map((kind) => {
    const found = ACTIVITIES.findIndex((activity) => activity.kinds.includes(kind));
    return found < 0 ? ACTIVITIES.length - 1 : found;
  });
}

export const activityColors = () => ACTIVITIES.map((activity) => color(activity.color));

// Of memory, in the order of the categories.
export const MEMORY_COLORS = ['forward', 'weight', 'gather', 'activations', 'gradients', 'backward', 'recompute', 'sync'];

// Lines of charts.
export const LINE_COLORS = ['forward', 'weight', 'update', 'recompute', 'activations', 'backward', 'gather', 'inner'];
