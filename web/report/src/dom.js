// h('p', { class: 'note', onclick: f }, 'text', child): an element. Attributes that are null or false are left out.
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, '');
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// A part of the page with a heading.
export function block(title, ...children) {
  return h('section', { class: 'block' }, h('h3', {}, title), ...children);
}

// Calls draw with the width of the element, now and whenever that changes.
export function onWidth(element, draw) {
  let last = 0;
  new ResizeObserver((entries) => {
    const width = Math.floor(entries[entries.length - 1].contentRect.width);
    if (width > 0 && width !== last) draw((last = width));
  }).observe(element);
}

let tip = null;

// Shows text beside the pointer; null hides it.
export function showTip(content, x, y) {
  tip ??= document.body.appendChild(h('div', { class: 'tip', role: 'status' }));
  tip.hidden = content === null;
  if (content === null) return;
  tip.replaceChildren(content);
  const box = tip.getBoundingClientRect();
  const gap = 14;
  const left = x + gap + box.width > innerWidth ? x - gap - box.width : x + gap;
  const top = y + gap + box.height > innerHeight ? y - gap - box.height : y + gap;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}
