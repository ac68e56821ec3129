import { axisBottom, axisLeft } from 'd3-axis';
import { create } from 'd3-selection';
import { h, onWidth, showTip } from '../dom.js';

export const MARGIN = { top: 14, right: 22, bottom: 42, left: 76 };

// A chart that is drawn anew when its width changes. draw(svg, box) gets an empty picture and the edges of the plot.
export function chart(height, label, draw) {
  const frame = h('div', { class: 'chart' });
  const redraw = (width) => {
    const svg = create('svg').attr('viewBox', `0 0 ${width} ${height}`).attr('width', width).attr('height', height)
      .attr('role', 'img').attr('aria-label', label);
    draw(svg, { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom });
    frame.replaceChildren(svg.node());
  };
  onWidth(frame, redraw);
  return { frame, redraw: () => redraw(frame.clientWidth) };
}

// Of a logarithmic scale 1, 2 and 5 times powers of ten: all that d3 proposes would overlap.
function valuesOf(scale, count) {
  const values = scale.ticks ? scale.ticks(count) : scale.domain();
  if (!scale.base) return values;
  const round = values.filter((v) => [1, 2, 5].includes(Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9))));
  return round.length > 1 ? round : values;
}

// Axes with their titles, and lines across the plot: of the values of y, or of x (`across`).
export function axes(svg, box, x, y, { xTitle, yTitle, xFormat, yFormat, xTicks = 8, yTicks = 6, across = false }) {
  svg.append('g').attr('class', 'axis').attr('transform', `translate(${box.left},0)`)
    .call(axisLeft(y).tickValues(valuesOf(y, yTicks)).tickFormat(yFormat).tickSize(across ? 0 : -(box.right - box.left)).tickPadding(across ? 8 : 3));
  const bottom = axisBottom(x).tickFormat(xFormat).tickSizeInner(across ? -(box.bottom - box.top) : 6).tickPadding(across ? 8 : 3);
  if (Array.isArray(xTicks)) bottom.tickValues(xTicks);
  else bottom.ticks(xTicks);
  svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${box.bottom})`).call(bottom);
  svg.append('text').attr('class', 'title').attr('x', (box.left + box.right) / 2).attr('y', box.bottom + 36)
    .attr('text-anchor', 'middle').text(xTitle);
  svg.append('text').attr('class', 'title').attr('transform', `translate(14,${(box.top + box.bottom) / 2}) rotate(-90)`)
    .attr('text-anchor', 'middle').text(yTitle);
}

// Shows lines of text while the pointer is over an element of the picture, or it has the focus.
export function tips(selection, text) {
  const show = (d, x, y) => showTip(h('div', { class: 'card' }, text(d).map((line, i) => h(i ? 'div' : 'strong', {}, line))), x, y);
  selection.attr('tabindex', 0)
    .on('pointermove', (e, d) => show(d, e.clientX, e.clientY))
    .on('pointerleave blur', () => showTip(null))
    .on('focus', (e, d) => {
      const at = e.currentTarget.getBoundingClientRect();
      show(d, at.right, at.bottom);
    });
}
