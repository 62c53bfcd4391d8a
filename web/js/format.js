// Numbers and times as people read them.
import { h } from './dom.js';

const number = new Intl.NumberFormat('en');
const clock = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });

export const count = (n) => number.format(n ?? 0);

export function plural(n, what) {
  return `${count(n)} ${what}${n === 1 ? '' : 's'}`;
}

export function bytes(n) {
  if (n < 0) return 'unknown';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

// rough says how long something takes, with its two largest units at most.
export function rough(seconds) {
  const t = Math.floor(seconds);
  if (t >= 2 * 86400) return `${Math.floor(t / 86400)} days`;
  if (t >= 3600) return `${Math.floor(t / 3600)}h ${Math.floor(t % 3600 / 60)}m`;
  if (t >= 60) return `${Math.floor(t / 60)}m ${t % 60}s`;
  return `${t}s`;
}

function relative(at) {
  const seconds = (Date.now() - at) / 1000;
  if (seconds >= 1) return `${rough(seconds)} ago`;
  return seconds > -1 ? 'now' : `in ${rough(-seconds)}`;
}

// time shows an instant as its distance from now, which goes on; null for none.
export function time(text) {
  if (!text) return null;
  const at = new Date(text);
  return h('time', { datetime: text, title: clock.format(at), 'data-at': at.getTime() }, relative(at));
}

setInterval(() => {
  if (document.hidden) return;
  for (const t of document.querySelectorAll('time[data-at]')) {
    const text = relative(Number(t.dataset.at));
    if (t.textContent !== text) t.textContent = text;
  }
}, 1000);

// clipped is the beginning of a text that is too long for a table.
export function clipped(text, most = 160) {
  return text && text.length > most ? `${text.slice(0, most)}…` : text ?? '';
}

// pretty is JSON for reading; what is none stays as it is.
export function pretty(value) {
  return value === undefined ? '' : JSON.stringify(value, null, 2);
}
