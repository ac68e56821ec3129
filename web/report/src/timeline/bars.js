// Looking for bars of a row. Bars of a row follow each other without overlapping.

// The first bar of the row that ends after a moment.
export function firstBarAfter(timeline, row, time) {
  let low = timeline.first[row];
  let high = timeline.first[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeline.barEnd[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The bar at a moment, or the nearest that is at most `near` away; -1: none.
export function barAt(timeline, row, time, near) {
  const bar = firstBarAfter(timeline, row, time);
  let best = -1;
  let distance = near;
  for (const candidate of [bar - 1, bar]) {
    if (candidate < timeline.first[row] || candidate >= timeline.first[row + 1]) continue;
    const away = Math.max(timeline.barBegin[candidate] - time, time - timeline.barEnd[candidate], 0);
    if (away <= distance) {
      best = candidate;
      distance = away;
    }
  }
  return best;
}
