// The data of the page: base64 of JSON that is compressed by DEFLATE (docs/reports.md).
export async function readData(element) {
  const text = atob(element.textContent.trim());
  element.textContent = '';  // the memory is needed for better things
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const data = await new Response(stream).json();
  if (data.pipesim_report !== 1) throw new Error(`this page shows reports of version 1, not ${data.pipesim_report}`);
  return data;
}

// Running sums of a column of differences.
function summed(steps, Kind) {
  const values = new Kind(steps.length);
  let sum = 0;
  for (let i = 0; i < steps.length; ++i) values[i] = sum += steps[i];
  return values;
}

// The columns of a timeline as typed arrays, and the bars of each row: `first[r]` to `first[r + 1]` in `bar*`.
export function openTimeline(t) {
  const tasks = t.tasks;
  const count = tasks.duration.length;
  const waitedFor = new Int32Array(count).fill(-1);
  for (let i = 0; i < count; ++i) if (tasks.waited_for_back[i] !== 0) waitedFor[i] = i - tasks.waited_for_back[i];
  const opened = {
    end: t.end,
    windows: t.windows,
    rows: t.rows,
    names: t.names,
    kinds: t.kinds,
    count,
    begin: summed(tasks.begin_steps, Float64Array),
    duration: Float64Array.from(tasks.duration),
    kind: Uint8Array.from(tasks.kind),
    name: Int32Array.from(tasks.name),
    microbatch: Int32Array.from(tasks.microbatch),
    bytes: Float64Array.from(tasks.bytes),
    waitedFor,
    cause: Uint8Array.from(tasks.cause),
    queued: Float64Array.from(tasks.queued),
    critical: Float64Array.from(tasks.critical),
    beside: tasks.beside ? Int32Array.from(tasks.beside) : null,
  };
  return Object.assign(opened, barsByRow(opened, t.bars));
}

function barsByRow(opened, bars) {
  const task = summed(bars.task_steps, Int32Array);
  const first = new Int32Array(opened.rows.length + 1);
  for (const row of bars.row) ++first[row + 1];
  for (let r = 0; r < opened.rows.length; ++r) first[r + 1] += first[r];
  const next = first.slice();
  const barTask = new Int32Array(task.length);
  const barBegin = new Float64Array(task.length);
  const barEnd = new Float64Array(task.length);
  const firstBarOf = new Int32Array(opened.count).fill(-1);
  const rowOf = new Int32Array(opened.count).fill(-1);
  for (let i = 0; i < task.length; ++i) {
    const at = next[bars.row[i]]++;
    const t = task[i];
    barTask[at] = t;
    barBegin[at] = opened.begin[t];
    barEnd[at] = opened.begin[t] + (bars.hold[i] < 0 ? opened.duration[t] : bars.hold[i]);
    if (rowOf[t] < 0) {
      rowOf[t] = bars.row[i];
      firstBarOf[t] = at;
    }
  }
  return { first, barTask, barBegin, barEnd, firstBarOf, rowOf };
}

// Steps of a device's memory: times, and for each category a number or a list.
export function openMemory(device) {
  return { ...device, time: summed(device.time_steps, Float64Array) };
}
