import { area, curveStepAfter, line } from 'd3-shape';
import { scaleLinear } from 'd3-scale';
import { block, h, onWidth } from './dom.js';
import { MEMORY_COLORS } from './palette.js';
import { bytes, percent, time, timeTick } from './format.js';
import { color, onTheme } from './theme.js';
import { openMemory } from './data.js';
import { GUTTER, font } from './timeline/paint.js';

const HEIGHT = 230;
const BOTTOM = 24;
const TOP = 10;

// Memory of one device over time, under the timeline and with its scale.
export class MemoryChart {
  constructor({ categories, devices }, view) {
    this.categories = categories;
    this.devices = devices.map(openMemory);
    this.view = view;
    this.canvas = h('canvas', { role: 'img', 'aria-label': 'Memory over time' });
    this.held = h('div', { class: 'held', 'aria-live': 'off' });
    const fullest = this.devices.reduce((best, d, i) => (d.peak > this.devices[best].peak ? i : best), 0);
    this.device = this.devices[fullest];
    const choose = h('select', { onchange: (e) => { this.device = this.devices[e.target.value]; this.draw(); } },
      this.devices.map((d, i) => h('option', { value: i, selected: i === fullest },
        `${d.device}${d.alike > 1 ? ` \u00d7${d.alike}` : ''}: ${bytes(d.peak)} of ${bytes(d.usable)}`)));
    this.frame = h('div', { class: 'memory' }, this.canvas);
    this.element = block('Memory', h('div', { class: 'controls' }, h('label', {}, 'Device ', choose)), this.frame, this.held);
    onWidth(this.frame, (width) => this.resize(width));
    onTheme(() => this.draw());
    view.listen(() => this.draw());
    this.canvas.addEventListener('pointermove', (e) => {
      const part = (e.offsetX - GUTTER) / (this.width - GUTTER);
      view.point(part < 0 ? null : view.begin + part * (view.end - view.begin));
    });
    this.canvas.addEventListener('pointerleave', () => view.point(null));
  }

  resize(width) {
    this.width = width;
    this.canvas.width = width * devicePixelRatio;
    this.canvas.height = HEIGHT * devicePixelRatio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${HEIGHT}px`;
    this.canvas.getContext('2d').setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    this.draw();
  }

  // The number of the step at a moment.
  stepAt(moment) {
    const times = this.device.time;
    let low = 0;
    let high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= moment) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  bytesOf(category, step) {
    const values = this.device.bytes[category];
    return typeof values === 'number' ? values : values[step];
  }

  total(step) {
    return this.categories.reduce((sum, _, c) => sum + this.bytesOf(c, step), 0);
  }

  draw() {
    if (!this.width) return;
    const c = this.canvas.getContext('2d');
    c.clearRect(0, 0, this.width, HEIGHT);
    const x = scaleLinear([this.view.begin, this.view.end], [GUTTER, this.width]);
    const most = Math.max(this.device.peak, this.device.usable, 1);
    const y = scaleLinear([0, most * 1.06], [HEIGHT - BOTTOM, TOP]);
    this.axes(c, x, y);
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, this.width - GUTTER, HEIGHT - BOTTOM);
    c.clip();
    this.areas(c, x, y);
    c.restore();
    this.level(c, y(this.device.usable), `usable ${bytes(this.device.usable)}`, []);
    if (this.device.peak > this.heldMost() * 1.001) this.level(c, y(this.device.peak), `peak of the iteration ${bytes(this.device.peak)}`, [2, 3]);
    this.cursor(c, x, y);
    this.legend();
  }

  // Steps that are shown, at most about two a pixel, each of these the fullest.
  shownSteps() {
    const first = this.stepAt(this.view.begin);
    const last = this.stepAt(this.view.end);
    const every = Math.max(1, (last - first) / (2 * this.width));
    const steps = [];
    for (let i = first; i <= last; i += every) {
      let fullest = Math.floor(i);
      for (let s = fullest + 1; s < i + every && s <= last; ++s) if (this.total(s) > this.total(fullest)) fullest = s;
      steps.push(fullest);
    }
    return steps;
  }

  areas(c, x, y) {
    const steps = this.shownSteps();
    const below = new Float64Array(steps.length + 1);
    const above = new Float64Array(steps.length + 1);
    const at = (i) => x(i < steps.length ? this.device.time[steps[i]] : this.view.whole);
    const points = Array.from({ length: steps.length + 1 }, (_, i) => i);
    const shape = area().curve(curveStepAfter).x(at).y0((i) => y(below[i])).y1((i) => y(above[i])).context(c);
    const edge = line().curve(curveStepAfter).x(at).y((i) => y(above[i])).context(c);
    for (let k = 0; k < this.categories.length; ++k) {
      for (const i of points) above[i] = below[i] + this.bytesOf(k, steps[Math.min(i, steps.length - 1)]);
      c.fillStyle = color(MEMORY_COLORS[k]);
      c.beginPath();
      shape(points);
      c.fill();
      c.strokeStyle = color('paper');
      c.lineWidth = 0.5;
      c.beginPath();
      edge(points);
      c.stroke();
      below.set(above);
    }
  }

  axes(c, x, y) {
    c.font = font(11);
    c.textBaseline = 'middle';
    c.textAlign = 'right';
    for (const value of y.ticks(5)) {
      c.fillStyle = color('line');
      c.fillRect(GUTTER, Math.round(y(value)), this.width - GUTTER, 1);
      c.fillStyle = color('soft');
      c.fillText(bytes(value), GUTTER - 8, y(value));
    }
    c.textAlign = 'left';
    const ticks = x.ticks(Math.max(2, (this.width - GUTTER) / 110));
    const label = timeTick(ticks.length > 1 ? ticks[1] - ticks[0] : this.view.whole);
    for (const t of ticks) {
      if (x(t) + c.measureText(label(t)).width < this.width) c.fillText(label(t), x(t) + 2, HEIGHT - BOTTOM / 2);
    }
  }

  level(c, y, text, dashes) {
    c.strokeStyle = color('ink');
    c.lineWidth = 1.5;
    c.setLineDash(dashes.length ? dashes : [6, 4]);
    c.beginPath();
    c.moveTo(GUTTER, y);
    c.lineTo(this.width, y);
    c.stroke();
    c.setLineDash([]);
    c.font = font(11, true);
    c.textAlign = 'right';
    c.fillStyle = color('ink');
    c.fillText(text, this.width - 6, y + 10);
  }

  cursor(c, x) {
    if (this.view.cursor === null) return;
    c.fillStyle = color('accent');
    c.fillRect(Math.round(x(this.view.cursor)), 0, 1, HEIGHT - BOTTOM);
  }

  // What the device holds at the cursor, else at its fullest drawn moment.
  legend() {
    const pointed = this.view.cursor !== null;
    const step = pointed ? this.stepAt(this.view.cursor) : this.fullestStep();
    const shown = `${this.device.device} ${pointed} ${step}`;
    if (shown === this.shown) return;
    this.shown = shown;
    const total = this.total(step);
    const when = time(this.device.time[step]);
    const items = this.categories.map((name, k) => [name, this.bytesOf(k, step), MEMORY_COLORS[k]]).filter(([, b]) => b > 0);
    this.held.replaceChildren(
      h('strong', {}, `${pointed ? 'From' : 'Fullest from'} ${when} on: ${bytes(total)} (${percent(total / this.device.usable)} of what is usable)`),
      h('ul', { class: 'legend' }, items.map(([name, b, swatch]) =>
        h('li', {}, h('span', { class: 'swatch', style: `background:var(--${swatch})` }), `${name} ${bytes(b)}`))));
  }

  heldMost() {
    return this.total(this.fullestStep());
  }

  fullestStep() {
    if (this.device.fullest === undefined) {
      let best = 0;
      for (let s = 1; s < this.device.time.length; ++s) if (this.total(s) > this.total(best)) best = s;
      this.device.fullest = best;
    }
    return this.device.fullest;
  }
}
