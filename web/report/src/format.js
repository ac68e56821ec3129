// Three significant digits, without an exponent.
export function digits(value) {
  if (value === 0) return '0';
  const whole = Math.floor(Math.log10(Math.abs(value))) + 1;
  return String(Number(value.toFixed(Math.max(0, Math.min(12, 3 - whole)))));
}

const TIMES = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us'], [1, 'ns']];

// Nanoseconds for people.
export function time(ns) {
  if (ns === 0) return '0';
  if (ns >= 120e9) return `${digits(ns / 60e9)} min`;
  const [size, unit] = TIMES.find(([least]) => ns >= least) ?? TIMES[3];
  return `${digits(ns / size)} ${unit}`;
}

// A moment, in the unit and with the digits that tell it from others that are a 1,000th of `span` apart.
export function moment(ns, span) {
  const [size, unit] = TIMES.find(([least]) => ns >= least) ?? TIMES[3];
  const places = Math.max(0, Math.min(9, Math.ceil(-Math.log10(Math.max(1, span / 1000) / size) - 1e-9)));
  return `${(ns / size).toFixed(places)} ${unit}`;
}

export const seconds = (s) => time(s * 1e9);

// Labels of an axis whose ticks are `step` nanoseconds apart: as many digits as tell them apart.
export function timeTick(step) {
  const [size, unit] = TIMES.find(([least]) => step * 5 >= least) ?? TIMES[3];
  const places = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / size) + 1e-9)));
  return (ns) => `${(ns / size).toFixed(places)} ${unit}`;
}

export function bytes(b) {
  for (const [size, unit] of [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']]) {
    if (Math.abs(b) >= size) return `${digits(b / size)} ${unit}`;
  }
  return `${b} B`;
}

export const percent = (share) => `${digits(share * 100)} %`;
export const count = (n) => n.toLocaleString('en');
