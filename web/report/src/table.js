import { h } from './dom.js';

const MOST_SHOWN = 12;

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages from files may not be allowed to: the old way.
    const area = document.body.appendChild(h('textarea', {}));
    area.value = text;
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  const label = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => (button.textContent = label), 1200);
}

// Whether it needs more than half of a page, by the longest texts of its columns.
function isWide(columns, rows) {
  const letters = columns.map((c, i) => Math.min(36, Math.max(c.name.length, ...rows.slice(0, MOST_SHOWN).map((row) => row[i].length))));
  return letters.reduce((sum, n) => sum + n * 7.2 + 14, 0) > 660;
}

// A table with a button that copies it, tabs between columns. Long ones show their first rows.
export function tableOf({ title, note, columns, rows }) {
  // Long texts, as recipes, may go on in the next line behind a comma.
  const cell = (tag, text, column) => h(tag, { class: column.number ? 'number' : null },
    column.number ? text : text.split(/(?<=,)/).flatMap((part, i) => (i ? [h('wbr'), part] : [part])));
  const body = h('tbody', {});
  const row = (values) => h('tr', {}, values.map((value, i) => cell('td', value, columns[i])));
  body.append(...rows.slice(0, MOST_SHOWN).map(row));
  const text = () => [columns.map((c) => c.name), ...rows].map((values) => values.join('\t')).join('\n');
  const copyButton = h('button', { type: 'button', onclick: (e) => copy(text(), e.currentTarget) }, 'Copy');
  const all = rows.length > MOST_SHOWN
    ? h('button', {
        type: 'button',
        onclick: (e) => {
          body.append(...rows.slice(MOST_SHOWN).map(row));
          e.currentTarget.remove();
        },
      }, `All ${rows.length} rows`)
    : null;
  return h('section', { class: `block table${isWide(columns, rows) ? ' wide' : ''}` },
    h('header', {}, h('h3', {}, title), copyButton, all),
    note ? h('p', { class: 'note' }, note) : null,
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title },
      h('table', {}, h('thead', {}, h('tr', {}, columns.map((c) => cell('th', c.name, c)))), body)));
}

export function factsOf(facts) {
  return h('dl', { class: 'facts' }, facts.map(([label, value]) =>
    h('div', { class: value.length > 90 ? 'long' : null }, h('dt', {}, label), h('dd', {}, value))));
}
