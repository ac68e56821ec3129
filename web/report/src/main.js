import { h } from './dom.js';
import { readData } from './data.js';
import { planPart } from './plan.js';
import { measuredPart } from './charts/measured.js';
import { searchPart, searchesTogether } from './charts/search.js';
import { studyPart } from './charts/study.js';
import { tableOf } from './table.js';
import { themeButton } from './theme.js';

const KINDS = { plan: 'plan', search: 'search', measured: 'execution', study: 'study' };
const base = (name) => name.slice(name.lastIndexOf('/') + 1);

// Parts are made when they are first shown.
class Page {
  constructor(parts) {
    this.parts = parts;
    this.made = parts.map(() => null);
    this.sections = parts.map((part, i) => h('article', { id: `part${i}`, role: 'tabpanel', 'aria-label': part.name, hidden: true }));
    this.tabs = parts.map((part, i) => h('button', {
      type: 'button', role: 'tab', 'aria-controls': `part${i}`, title: part.name, onclick: () => this.show(i),
    }, base(part.name), h('small', {}, KINDS[part.kind] ?? part.kind)));
    this.together = h('div', { class: 'together' });
  }

  make(i) {
    if (this.made[i]) return this.made[i];
    const part = this.parts[i];
    const made = { plan: planPart, search: searchPart, measured: measuredPart, study: studyPart }[part.kind](part);
    const tables = (made.tables ?? part.tables ?? []).map(tableOf);
    this.sections[i].append(h('h2', {}, base(part.name)), ...made.elements.filter(Boolean), h('div', { class: 'tables' }, tables));
    this.made[i] = made;
    return made;
  }

  show(chosen) {
    this.chosen = chosen;
    document.body.classList.remove('side-by-side');
    this.sections.forEach((section, i) => (section.hidden = i !== chosen));
    this.tabs.forEach((tab, i) => tab.setAttribute('aria-selected', i === chosen));
    this.beside?.setAttribute('aria-pressed', false);
    this.together.hidden = true;
    this.make(chosen);
    this.scale();
    document.title = `${base(this.parts[chosen].name)} - pipesim report`;
  }

  // All parts beside each other; plans with the same scale of time, and executions.
  showAll() {
    document.body.classList.add('side-by-side');
    this.sections.forEach((section, i) => {
      this.make(i);
      section.hidden = false;
    });
    this.tabs.forEach((tab) => tab.setAttribute('aria-selected', false));
    this.beside.setAttribute('aria-pressed', true);
    const searches = this.parts.filter((part) => part.kind === 'search' && part.best.length > 0);
    if (searches.length > 1 && this.together.childElementCount === 0) this.together.append(searchesTogether(searches));
    this.together.hidden = searches.length < 2;
    this.scale();
    document.title = 'pipesim report';
  }

  scale() {
    const all = document.body.classList.contains('side-by-side');
    for (const kind of ['plan', 'measured']) {
      const made = this.made.filter((m, i) => m?.view && this.parts[i].kind === kind);
      const longest = Math.max(...made.map((m) => m.timeline.timeline.end));
      for (const { view, timeline } of made) {
        const whole = all ? longest : timeline.timeline.end;
        if (view.whole !== Math.max(1, whole)) view.extend(whole);
      }
    }
  }

  header() {
    const several = this.parts.length > 1;
    this.beside = several
      ? h('button', { type: 'button', 'aria-pressed': false, title: 'Side by side (s)', onclick: () => this.showAll() }, 'Side by side')
      : null;
    return h('header', { class: 'top' }, h('h1', {}, 'pipesim'),
      several ? h('div', { role: 'tablist', class: 'tabs', onkeydown: (e) => this.tabKey(e) }, this.tabs) : null,
      this.beside, h('span', { class: 'gap' }), themeButton());
  }

  tabKey(e) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!by) return;
    const next = (this.tabs.indexOf(document.activeElement) + by + this.tabs.length) % this.tabs.length;
    this.show(next);
    this.tabs[next].focus();
  }

  keys() {
    addEventListener('keydown', (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
      const timeline = this.made[this.chosen]?.timeline;
      if (e.key === '/' && timeline) {
        e.preventDefault();
        timeline.search.focus();
      } else if (e.key === 't') {
        document.querySelector('.theme').click();
      } else if (e.key === 's' && this.beside) {
        if (document.body.classList.contains('side-by-side')) this.show(this.chosen);
        else this.showAll();
      } else if (timeline && e.target !== timeline.canvas && (e.target === document.body || e.target === null)) {
        timeline.key(e);
      }
    });
  }
}

async function start() {
  const main = document.getElementById('page');
  try {
    const data = await readData(document.getElementById('data'));
    const page = new Page(data.parts);
    main.replaceChildren(page.header(), h('div', { class: 'parts' }, page.together, page.sections));
    page.keys();
    page.show(0);
    requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.dataset.ready = performance.now())));
  } catch (error) {
    main.replaceChildren(h('p', { class: 'failed', role: 'alert' },
      `This page can't be shown: ${error.message}. It needs a browser of 2023 or later.`));
    throw error;
  }
}

start();
