import { firstBarAfter } from './bars.js';
import { ACTIVITIES, activityColors } from '../palette.js';
import { color } from '../theme.js';
import { moment, timeTick } from '../format.js';
import { scaleLinear } from 'd3-scale';

export const ROW = 18;
export const AXIS = 24;
export const GUTTER = 210;
const GAP = 2;
const SHADES = 4;  // of columns that are not busy all the time
const COUNT = ACTIVITIES.length;
const FADED = -2;  // what a search does not find

// Rectangles to be filled in one color, reused from frame to frame.
class Rectangles {
  constructor() {
    this.values = new Float32Array(4096);
    this.length = 0;
  }
  add(x, y, width, height) {
    if (this.length + 4 > this.values.length) {
      const more = new Float32Array(this.values.length * 2);
      more.set(this.values);
      this.values = more;
    }
    this.values.set([x, y, width, height], this.length);
    this.length += 4;
  }
  fill(context) {
    const v = this.values;
    for (let i = 0; i < this.length; i += 4) context.fillRect(v[i], v[i + 1], v[i + 2], v[i + 3]);
    this.length = 0;
  }
}

// Columns of a row that narrow tasks share. Neighbours that look the same become one rectangle.
class Columns {
  constructor(painter) {
    this.painter = painter;
    this.spent = new Float64Array(COUNT);
  }
  start(y) {
    this.y = y;
    this.column = this.runBegin = this.runEnd = -1;
    this.run = this.onPath = null;
    this.any = false;
  }
  // A task of activity k (-1: faded) that fills so much of the column.
  add(column, k, part, onPath) {
    if (column !== this.column) this.endColumn();
    this.column = column;
    this.any = true;
    if (k >= 0) this.spent[k] += part;
    if (onPath) this.onPath = true;
  }
  endColumn() {
    if (!this.any) return;
    let most = -1;
    let all = 0;
    for (let k = 0; k < COUNT; ++k) {
      all += this.spent[k];
      if (this.spent[k] > 0 && (most < 0 || this.spent[k] > this.spent[most])) most = k;
    }
    this.spent.fill(0);
    const shade = Math.min(SHADES, Math.max(1, Math.ceil(all * SHADES)));
    const bucket = most < 0 ? FADED : most * (SHADES + 1) + shade;
    if (bucket !== this.run || this.runEnd !== this.column) {
      this.endRun();
      this.run = bucket;
      this.runBegin = this.column;
    }
    this.runEnd = this.column + 1;
    if (this.onPath) this.painter.path.add(this.column, this.y + ROW - GAP - 2, 1, 2);
    this.any = false;
    this.onPath = null;
  }
  endRun() {
    if (this.run === null) return;
    this.painter.bucket(this.run).add(this.runBegin, this.y + GAP, this.runEnd - this.runBegin, ROW - 2 * GAP);
    this.run = null;
  }
  end() {
    this.endColumn();
    this.endRun();
  }
}

// Draws a timeline on a canvas. Tasks narrower than a pixel share columns: each column has the color of the activity
// that takes most of it, the paler the less of it is busy.
export class Painter {
  constructor(context) {
    this.context = context;
    this.buckets = Array.from({ length: COUNT * (SHADES + 1) }, () => new Rectangles());
    this.faded = new Rectangles();
    this.path = new Rectangles();
    this.narrow = new Columns(this);
  }

  // scene: timeline, view, rows (numbers of rows, top to bottom), top (pixels scrolled away), width, height, activity
  // (by kind), matches (by name, or null), showCritical, hovered and selected (tasks, or -1).
  paint(scene) {
    const c = this.context;
    c.clearRect(0, 0, scene.width, scene.height);
    c.fillStyle = color('paper');
    c.fillRect(0, 0, scene.width, scene.height);
    const scale = (scene.width - GUTTER) / (scene.view.end - scene.view.begin);
    this.x = (t) => GUTTER + (t - scene.view.begin) * scale;
    this.scale = scale;
    const from = Math.max(0, Math.floor(scene.top / ROW));
    const until = Math.min(scene.rows.length, Math.ceil((scene.top + scene.height - AXIS) / ROW));
    this.grid(scene);
    c.save();
    c.beginPath();
    c.rect(0, AXIS, scene.width, scene.height - AXIS);
    c.clip();
    this.stripes(scene, from, until);
    c.save();
    c.beginPath();
    c.rect(GUTTER, AXIS, scene.width - GUTTER, scene.height - AXIS);
    c.clip();
    const labels = [];
    for (let i = from; i < until; ++i) this.row(scene, scene.rows[i], AXIS + i * ROW - scene.top, labels);
    this.fill();
    this.labels(scene.timeline, labels);
    this.windows(scene);
    this.wait(scene);
    c.restore();
    this.gutter(scene, from, until);
    c.restore();
    this.cursor(scene);
  }

  grid(scene) {
    const c = this.context;
    const { begin, end } = scene.view;
    const ticks = scaleLinear([begin, end], [GUTTER, scene.width]).ticks(Math.max(2, (scene.width - GUTTER) / 110));
    const label = timeTick(ticks.length > 1 ? ticks[1] - ticks[0] : end);
    c.font = font(11);
    c.textAlign = 'left';
    c.textBaseline = 'middle';
    for (const t of ticks) {
      const x = Math.round(this.x(t)) + 0.5;
      c.fillStyle = color('line');
      c.fillRect(x, 0, 1, scene.height);
      c.fillStyle = color('soft');
      if (x + 4 + c.measureText(label(t)).width < scene.width) c.fillText(label(t), x + 4, AXIS / 2);
    }
  }

  // A line above the first row of each owner.
  stripes(scene, from, until) {
    const c = this.context;
    c.fillStyle = color('line');
    for (let i = from; i < until; ++i) {
      if (startsOwner(scene, i)) c.fillRect(0, Math.round(AXIS + i * ROW - scene.top), scene.width, 1);
    }
  }

  row(scene, row, y, labels) {
    const { timeline, activity, matches, showCritical } = scene;
    const { barTask, barBegin, barEnd, kind, name, critical } = timeline;
    const last = timeline.first[row + 1];
    const narrow = this.narrow;
    narrow.start(y);
    for (let b = firstBarAfter(timeline, row, scene.view.begin); b < last && barBegin[b] < scene.view.end; ++b) {
      const task = barTask[b];
      const x0 = this.x(barBegin[b]);
      const x1 = this.x(barEnd[b]);
      const k = activity[kind[task]];
      const match = matches === null || matches[name[task]] === 1;
      const onPath = showCritical && critical[task] > 0;
      if (x1 - x0 < 1.5) {
        narrow.add(Math.floor(x0), match ? k : -1, (barEnd[b] - barBegin[b]) * this.scale, onPath);
        continue;
      }
      narrow.end();
      const left = Math.max(GUTTER - 2, x0);
      const room = Math.min(scene.width + 2, x1) - left;
      const width = Math.max(1, room > 3 ? room - 0.6 : room);
      this.bucket(match ? k * (SHADES + 1) + SHADES : FADED).add(left, y + GAP, width, ROW - 2 * GAP);
      if (onPath) this.path.add(left, y + ROW - GAP - 2, width, 2);
      if (width > 34) labels.push(task, left, y, width, match ? k : -1);
    }
    narrow.end();
  }

  bucket(id) {
    return id === FADED ? this.faded : this.buckets[id];
  }

  fill() {
    const c = this.context;
    const colors = activityColors();
    c.fillStyle = color('faded');
    this.faded.fill(c);
    for (let k = 0; k < COUNT; ++k) {
      c.fillStyle = colors[k];
      for (let shade = 1; shade <= SHADES; ++shade) {
        c.globalAlpha = 0.45 + (0.55 * shade) / SHADES; // also short tasks must be seen on paper
        this.buckets[k * (SHADES + 1) + shade].fill(c);
      }
    }
    c.globalAlpha = 1;
    c.fillStyle = color('ink');
    this.path.fill(c);
  }

  labels({ names, name }, list) {
    const c = this.context;
    c.font = font(10.5);
    c.textAlign = 'left';
    c.textBaseline = 'middle';
    const inks = ACTIVITIES.map((activity) => color(`on-${activity.color}`) || color('on-bar'));
    for (let i = 0; i < list.length; i += 5) {
      const most = Math.floor((list[i + 3] - 6) / 5.9);
      const text = names[name[list[i]]];
      c.fillStyle = list[i + 4] < 0 ? color('soft') : inks[list[i + 4]];
      c.fillText(text.length > most ? text.slice(0, most) : text, list[i + 1] + 3, list[i + 2] + ROW / 2);
    }
  }

  // Double lines around what comes again.
  windows(scene) {
    const c = this.context;
    c.fillStyle = color('ink');
    for (const w of scene.timeline.windows) {
      for (const t of [w.begin, w.end]) {
        const x = Math.round(this.x(t));
        c.fillRect(x - 1, AXIS, 1, scene.height);
        c.fillRect(x + 1, AXIS, 1, scene.height);
      }
    }
  }

  // Outlines of the selected and the hovered task, and a line to what each waited for.
  wait(scene) {
    for (const [task, width] of [[scene.selected, 2], [scene.hovered, 1.5]]) {
      if (task < 0) continue;
      this.outline(scene, task, width);
      if (scene.timeline.beside?.[task] >= 0) this.outline(scene, scene.timeline.beside[task], width);
      const before = scene.timeline.waitedFor[task];
      const from = before < 0 ? null : this.place(scene, before);
      const to = this.place(scene, task);
      if (!from || !to) continue;
      this.outline(scene, before, 1);
      const c = this.context;
      const x0 = this.x(scene.timeline.begin[before] + scene.timeline.duration[before]);
      const x1 = this.x(scene.timeline.begin[task]);
      c.strokeStyle = color('ink');
      c.lineWidth = 1.5;
      c.beginPath();
      c.moveTo(x0, from + ROW / 2);
      c.bezierCurveTo(x0 + 24, from + ROW / 2, x1 - 24, to + ROW / 2, x1, to + ROW / 2);
      c.stroke();
    }
  }

  outline(scene, task, width) {
    const y = this.place(scene, task);
    if (y === null) return;
    const { begin, duration } = scene.timeline;
    const x0 = Math.max(GUTTER - 4, this.x(begin[task]));
    const x1 = Math.min(scene.width + 4, this.x(begin[task] + duration[task]));
    this.context.strokeStyle = color('ink');
    this.context.lineWidth = width;
    this.context.strokeRect(x0 - 0.5, y + GAP - 0.5, Math.max(3, x1 - x0) + 1, ROW - 2 * GAP + 1);
  }

  // The top of the row of a task; null where its row is not shown.
  place(scene, task) {
    const at = scene.placeOf[scene.timeline.rowOf[task]];
    return at === undefined || at < 0 ? null : AXIS + at * ROW - scene.top;
  }

  gutter(scene, from, until) {
    const c = this.context;
    c.fillStyle = color('paper');
    c.fillRect(0, AXIS, GUTTER - 1, scene.height);
    c.fillStyle = color('line');
    c.fillRect(GUTTER - 1, AXIS, 1, scene.height);
    this.stripes(scene, from, until);
    c.textBaseline = 'middle';
    c.textAlign = 'left';
    for (let i = from; i < until; ++i) {
      const row = scene.timeline.rows[scene.rows[i]];
      const y = AXIS + i * ROW - scene.top + ROW / 2;
      const first = row.computes && row.lane === 'compute';
      c.fillStyle = color(first ? 'ink' : 'soft');
      c.font = font(11, first);
      c.fillText(shortened(rowLabel(row), 33), 8, y);
      if (scene.rows[i] === scene.activeRow) c.fillRect(0, y - ROW / 2 + 2, 3, ROW - 4);
    }
  }

  cursor(scene) {
    if (scene.view.cursor === null) return;
    const x = this.x(scene.view.cursor);
    if (x < GUTTER || x > scene.width) return;
    const c = this.context;
    c.fillStyle = color('accent');
    c.fillRect(Math.round(x), 0, 1, scene.height);
    c.font = font(11, true);
    c.textBaseline = 'middle';
    const text = moment(scene.view.cursor, scene.view.end - scene.view.begin);
    const wide = c.measureText(text).width + 8;
    const left = Math.min(scene.width - wide, x + 1);
    c.fillRect(left, 2, wide, AXIS - 4);
    c.fillStyle = color('paper');
    c.textAlign = 'left';
    c.fillText(text, left + 4, AXIS / 2);
  }
}

export const font = (size, bold = false) => `${bold ? '600 ' : ''}${size}px system-ui, "DejaVu Sans", sans-serif`;

export function rowLabel(row) {
  const alike = row.alike > 1 ? ` \u00d7${row.alike}` : '';
  if (row.source) return `${row.computes ? row.owner : row.lane}, ${row.source}`;
  return row.computes && row.lane === 'compute' ? `${row.owner}${alike}` : row.lane;
}

export const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

function startsOwner(scene, i) {
  return i === 0 || scene.timeline.rows[scene.rows[i]].owner !== scene.timeline.rows[scene.rows[i - 1]].owner;
}
