import { select } from 'd3-selection';
import { zoom, zoomIdentity } from 'd3-zoom';
import { block, h, onWidth, showTip } from '../dom.js';
import { ACTIVITIES, activityOf } from '../palette.js';
import { onTheme } from '../theme.js';
import { count, percent } from '../format.js';
import { barAt } from './bars.js';
import { taskCard, taskFacts, taskTitle } from './describe.js';
import { AXIS, GUTTER, Painter, ROW } from './paint.js';

const MOST_HEIGHT = 560;

// The timeline of one plan: a row for each device and link.
export class Timeline {
  constructor(timeline, view, { title = 'Timeline', note = null } = {}) {
    this.timeline = timeline;
    this.view = view;
    this.scene = {
      timeline, view, rows: [], placeOf: [], top: 0, width: 0, height: 0,
      activity: activityOf(timeline.kinds), matches: null, showCritical: false, hovered: -1, selected: -1, activeRow: -1,
    };
    this.canvas = h('canvas', {
      tabindex: 0, role: 'application',
      'aria-label': 'Timeline. Left and right move, plus and minus zoom, up and down choose a row, n and p step '
        + 'through its tasks, w goes to what a task waited for, slash searches.',
    });
    this.painter = new Painter(this.canvas.getContext('2d'));
    this.spacer = h('div', { class: 'spacer' }, this.canvas);
    this.scroller = h('div', { class: 'timeline' }, this.spacer);
    this.details = h('div', { class: 'details', 'aria-live': 'polite' });
    this.found = h('span', { class: 'found', 'aria-live': 'polite' });
    this.element = block(title, note ? h('p', { class: 'note' }, note) : null, this.controls(), this.legend(), this.scroller, this.details);
    this.chooseRows('all');
    this.follow();
  }

  controls() {
    this.search = h('input', {
      type: 'search', placeholder: 'Search tasks ( / )', 'aria-label': 'Search tasks',
      oninput: () => this.look(), onkeydown: (e) => this.searchKey(e),
    });
    const button = (label, title, act) => h('button', { type: 'button', title, onclick: act }, label);
    return h('div', { class: 'controls' },
      button('+', 'Zoom in (+)', () => this.view.zoom(0.5)),
      button('\u2212', 'Zoom out (\u2212)', () => this.view.zoom(2)),
      button('Whole', 'Show all of it (0)', () => this.view.show(0, this.view.whole)),
      h('label', {}, 'Rows ', h('select', { onchange: (e) => this.chooseRows(e.target.value) },
        this.rowChoices().map(([value, label]) =>
          h('option', { value }, label)))),
      this.timeline.critical.some((t) => t > 0) ? h('label', {}, h('input', {
        type: 'checkbox',
        onchange: (e) => { this.scene.showCritical = e.target.checked; this.draw(); },
      }), ' critical path') : null,
      this.search, this.found,
      h('span', { class: 'hint' }, 'Drag or arrow keys move, Ctrl+wheel or + and \u2212 zoom'));
  }

  // Of an execution also one of its two timelines.
  rowChoices() {
    const sources = [...new Set(this.timeline.rows.map((row) => row.source).filter(Boolean))];
    return [['all', 'devices and links'], ['devices', 'devices'], ['links', 'links'], ...sources.map((s) => [s, s])];
  }

  legend() {
    const used = new Set(this.scene.timeline.kind);
    const shown = ACTIVITIES.filter((_, i) => [...used].some((kind) => this.scene.activity[kind] === i));
    return h('ul', { class: 'legend' }, shown.map((a) =>
      h('li', {}, h('span', { class: 'swatch', style: `background:var(--${a.color})` }), a.label)));
  }

  chooseRows(which) {
    const { rows } = this.timeline;
    this.scene.rows = rows.map((_, i) => i).filter((i) =>
      which === 'all' || which === rows[i].source || (/devices|links/.test(which) && (which === 'devices') === rows[i].computes));
    this.scene.placeOf = rows.map(() => -1);
    this.scene.rows.forEach((row, place) => (this.scene.placeOf[row] = place));
    this.forgetPointer();
    this.layout();
  }

  layout() {
    const whole = AXIS + this.scene.rows.length * ROW + 2;
    this.scene.height = Math.min(whole, MOST_HEIGHT);
    this.scroller.style.height = `${this.scene.height}px`;
    this.spacer.style.height = `${whole}px`;
    this.resize();
  }

  resize() {
    if (this.scene.width === 0) return;
    const ratio = devicePixelRatio;
    this.canvas.width = this.scene.width * ratio;
    this.canvas.height = this.scene.height * ratio;
    this.canvas.style.width = `${this.scene.width}px`;
    this.canvas.style.height = `${this.scene.height}px`;
    this.painter.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.moveZoom();
    this.draw();
  }

  draw() {
    if (this.scene.width > 0) this.painter.paint(this.scene);
  }

  follow() {
    onWidth(this.scroller, (width) => {
      this.scene.width = width;
      this.resize();
    });
    onTheme(() => this.draw());
    this.view.listen(() => { this.moveZoom(); this.draw(); });
    this.scroller.addEventListener('scroll', () => {
      this.scene.top = this.scroller.scrollTop;
      this.draw();
    });
    this.canvas.addEventListener('pointermove', (e) => this.hover(e));
    this.canvas.addEventListener('pointerleave', () => this.leave());
    this.canvas.addEventListener('click', (e) => this.choose(this.taskUnder(e)));
    this.canvas.addEventListener('keydown', (e) => this.key(e));
    this.canvas.addEventListener('wheel', (e) => {
      if (e.ctrlKey || e.metaKey || (!e.shiftKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY))) return;
      e.preventDefault();
      this.view.pan((e.shiftKey ? e.deltaY || e.deltaX : e.deltaX) / this.scene.width);
    }, { passive: false });
    this.zoom = zoom()
      .filter((e) => (e.type === 'wheel' ? e.ctrlKey || e.metaKey : !e.button))
      .on('zoom', (e) => e.sourceEvent && this.zoomed(e.transform));
    select(this.canvas).call(this.zoom);
  }

  // d3-zoom knows the view as a scale and an offset in pixels.
  transform() {
    const k = this.view.whole / (this.view.end - this.view.begin);
    return zoomIdentity.translate(-GUTTER * (k - 1) - (this.view.begin / this.view.whole) * this.plot() * k, 0).scale(k);
  }

  plot() {
    return Math.max(1, this.scene.width - GUTTER);
  }

  moveZoom() {
    if (!this.zoom) return;
    this.zoom.scaleExtent([1, Math.max(1, this.view.whole / 20)]);
    this.canvas.__zoom = this.transform();
  }

  zoomed({ k, x }) {
    const begin = ((-x - GUTTER * (k - 1)) / (this.plot() * k)) * this.view.whole;
    this.view.show(begin, begin + this.view.whole / k);
  }

  timeAt(x) {
    return this.view.begin + ((x - GUTTER) / this.plot()) * (this.view.end - this.view.begin);
  }

  rowAt(y) {
    return this.scene.rows[Math.floor((y - AXIS + this.scene.top) / ROW)] ?? -1;
  }

  taskUnder(e) {
    const row = e.offsetY < AXIS ? -1 : this.rowAt(e.offsetY);
    if (row < 0 || e.offsetX < GUTTER) return -1;
    const near = (2 * (this.view.end - this.view.begin)) / this.plot();
    const bar = barAt(this.timeline, row, this.timeAt(e.offsetX), near);
    return bar < 0 ? -1 : this.timeline.barTask[bar];
  }

  hover(e) {
    this.view.point(e.offsetX >= GUTTER ? Math.max(0, this.timeAt(e.offsetX)) : null);
    const task = e.buttons === 0 ? this.taskUnder(e) : -1;
    if (task !== this.scene.hovered) {
      this.scene.hovered = task;
      this.draw();
    }
    const row = e.offsetX < GUTTER && e.offsetY > AXIS ? this.rowAt(e.offsetY) : -1;
    if (task >= 0) showTip(taskCard(this.timeline, task), e.clientX, e.clientY);
    else showTip(row >= 0 ? this.rowCard(this.timeline.rows[row]) : null, e.clientX, e.clientY);
  }

  rowCard(row) {
    const alike = row.alike > 1 ? `stands for ${count(row.alike)} devices, ` : '';
    const length = this.timeline.windows.reduce((sum, w) => sum + w.repeats * (w.end - w.begin), this.timeline.end);
    return h('div', { class: 'card' }, h('strong', {}, `${row.owner}: ${row.lane}${row.source ? `, ${row.source}` : ''}`), h('div', {}, `${alike}busy ${percent(row.busy / length)}`));
  }

  leave() {
    this.view.point(null);
    this.scene.hovered = -1;
    showTip(null);
    this.draw();
  }

  // Shows a task below the timeline, and in it.
  choose(task, reveal = false) {
    this.scene.selected = task;
    if (task < 0) {
      this.details.replaceChildren();
      this.draw();
      return;
    }
    const t = this.timeline;
    this.scene.activeRow = t.rowOf[task];
    const before = t.waitedFor[task];
    this.details.replaceChildren(
      h('strong', {}, taskTitle(t, task)),
      h('dl', {}, taskFacts(t, task).map(([label, value]) => h('div', {}, h('dt', {}, label), h('dd', {}, value)))),
      before < 0 ? '' : h('button', { type: 'button', onclick: () => this.choose(before, true) }, 'Go to what it waited for (w)'));
    if (reveal) {
      this.scrollTo(this.scene.placeOf[t.rowOf[task]]);
      this.view.reveal(t.begin[task], t.begin[task] + t.duration[task]);
    }
    this.draw();
  }

  scrollTo(place) {
    if (place === undefined || place < 0) return;
    const y = place * ROW;
    const room = this.scene.height - AXIS - ROW;
    // In the middle: the neighbours of what one looks for help to understand it.
    if (y < this.scroller.scrollTop || y > this.scroller.scrollTop + room) this.scroller.scrollTop = y - room / 2;
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act = {
      ArrowLeft: () => this.view.pan(-0.15),
      ArrowRight: () => this.view.pan(0.15),
      ArrowUp: () => this.moveRow(-1),
      ArrowDown: () => this.moveRow(1),
      PageUp: () => this.view.pan(-0.9),
      PageDown: () => this.view.pan(0.9),
      Home: () => this.view.show(0, this.view.end - this.view.begin),
      End: () => this.view.show(this.view.whole, this.view.whole + this.view.end - this.view.begin),
      '+': () => this.zoomByKey(0.6),
      '=': () => this.zoomByKey(0.6),
      '-': () => this.zoomByKey(1 / 0.6),
      0: () => this.view.show(0, this.view.whole),
      n: () => this.step(1),
      p: () => this.step(-1),
      w: () => this.scene.selected >= 0 && this.choose(this.timeline.waitedFor[this.scene.selected], true),
      Escape: () => this.choose(-1),
    }[e.key];
    if (!act) return;
    e.preventDefault();
    this.forgetPointer();
    act();
  }

  // What the pointer was on has moved away under it.
  forgetPointer() {
    this.scene.hovered = -1;
    showTip(null);
  }

  // Around the selected task where it can be seen.
  zoomByKey(factor) {
    const t = this.scene.selected;
    const middle = t < 0 ? NaN : this.timeline.begin[t] + this.timeline.duration[t] / 2;
    this.view.zoom(factor, middle >= this.view.begin && middle <= this.view.end ? middle : undefined);
  }

  moveRow(by) {
    const { rows, placeOf, activeRow } = this.scene;
    const place = activeRow < 0 || placeOf[activeRow] < 0 ? (by > 0 ? 0 : rows.length - 1) : placeOf[activeRow] + by;
    this.scene.activeRow = rows[Math.max(0, Math.min(rows.length - 1, place))];
    this.scrollTo(placeOf[this.scene.activeRow]);
    this.draw();
  }

  // To the next task of the row, or the one before.
  step(by) {
    const t = this.timeline;
    const { activeRow, selected } = this.scene;
    if (activeRow < 0) return this.moveRow(1);
    let bar = -1;
    for (let b = t.first[activeRow]; b < t.first[activeRow + 1] && selected >= 0; ++b) if (t.barTask[b] === selected) bar = b;
    if (bar < 0) {
      bar = t.first[activeRow];
      while (bar + 1 < t.first[activeRow + 1] && t.barEnd[bar] <= this.view.begin) ++bar;
    } else {
      bar = Math.max(t.first[activeRow], Math.min(t.first[activeRow + 1] - 1, bar + by));
    }
    this.choose(t.barTask[bar], true);
    this.scene.activeRow = activeRow;
    return undefined;
  }

  // Marks the tasks whose names have all words of the search.
  look() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const t = this.timeline;
    if (words.length === 0) {
      this.scene.matches = null;
      this.found.textContent = '';
      return this.draw();
    }
    const fits = t.names.map((name) => words.every((word) => name.toLowerCase().includes(word)));
    this.scene.matches = Uint8Array.from(fits, Number);
    let tasks = 0;
    for (let i = 0; i < t.count; ++i) tasks += this.scene.matches[t.name[i]];
    this.found.textContent = tasks === 0 ? 'nothing found' : `${count(tasks)} ${tasks === 1 ? 'task' : 'tasks'}, Enter goes to the next`;
    return this.draw();
  }

  searchKey(e) {
    this.forgetPointer();
    if (e.key === 'Escape') {
      this.search.value = '';
      this.look();
      this.canvas.focus();
    }
    if (e.key !== 'Enter' || this.scene.matches === null) return;
    e.preventDefault();
    const t = this.timeline;
    const by = e.shiftKey ? t.count - 1 : 1;
    for (let i = 1; i <= t.count; ++i) {
      const task = (this.scene.selected + i * by + t.count * i) % t.count;
      if (task >= 0 && this.scene.matches[t.name[task]] === 1 && t.rowOf[task] >= 0 && this.scene.placeOf[t.rowOf[task]] >= 0)
        return this.choose(task, true);
    }
  }
}
