import { h } from './dom.js';

const listeners = new Set();
const known = new Map();  // colors of the theme that is shown
const dark = matchMedia('(prefers-color-scheme: dark)');

export const onTheme = (listener) => listeners.add(listener);

// The value of a custom property of the style sheet in the theme that is shown.
export function color(name) {
  let value = known.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    known.set(name, value);
  }
  return value;
}

function set(theme) {
  document.documentElement.dataset.theme = theme;
  known.clear();
  for (const listener of listeners) listener();
}

// The theme of the system until the reader chooses; paper is light.
export function themeButton() {
  let chosen = null;
  const shown = () => chosen ?? (dark.matches ? 'dark' : 'light');
  const label = () => (shown() === 'dark' ? 'Light' : 'Dark');
  const button = h('button', {
    type: 'button',
    class: 'theme',
    title: 'Light or dark (t)',
    onclick: () => {
      chosen = shown() === 'dark' ? 'light' : 'dark';
      apply();
    },
  });
  function apply() {
    set(shown());
    button.textContent = label();
  }
  dark.addEventListener('change', apply);
  addEventListener('beforeprint', () => set('light'));
  addEventListener('afterprint', apply);
  apply();
  return button;
}
