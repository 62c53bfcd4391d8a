// Keys. All of them can be switched off, for those whose software types letters.
import { h } from './dom.js';
import { tell } from './dialog.js';

const places = { o: '#/', r: '#/resources', s: '#/sagas', f: '#/sources' };
const words = [
  ['g o', 'Go to the overview'], ['g r', 'Go to resources'], ['g s', 'Go to sagas'], ['g f', 'Go to sources and fuses'],
  ['/', 'Go to the filter'], ['j  k', 'Next, previous row'], ['n  p', 'Next, previous page'], ['?', 'Show this'], ['Esc', 'Close a dialog'],
];
const stored = 'pawl.keys';
let leader = 0; // when g was pressed

const off = () => localStorage.getItem(stored) === 'off';

export function help() {
  const box = h('input', { type: 'checkbox', id: 'keys-on' });
  box.checked = !off();
  box.addEventListener('change', () => localStorage.setItem(stored, box.checked ? 'on' : 'off'));
  tell('Keys', h('dl', { class: 'keys' }, words.map(([keys, what]) => h('div', null,
    h('dt', null, keys.split('  ').map((k) => [h('kbd', null, k), ' '])), h('dd', null, what)))),
  h('p', null, box, h('label', { for: 'keys-on' }, ' Single keys do this')));
}

export function listen() {
  document.addEventListener('keydown', (event) => {
    const inField = event.target.closest('input, select, textarea, dialog');
    if (off() || inField || event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event.key)) event.preventDefault();
  });
}

function press(key) {
  const led = Date.now() - leader < 1500;
  leader = 0;
  if (led && places[key]) {
    location.hash = places[key];
    return true;
  }
  switch (key) {
    case 'g': leader = Date.now(); return true;
    case '?': help(); return true;
    case '/': return focus(document.querySelector('[data-key="/"]'));
    case 'j': return move(1);
    case 'k': return move(-1);
    case 'n': return click('[data-key="n"]');
    case 'p': return click('[data-key="p"]');
  }
  return false;
}

function focus(element) {
  element?.focus();
  return Boolean(element);
}

function click(selector) {
  const button = document.querySelector(selector);
  if (!button || button.disabled) return false;
  button.click();
  return true;
}

// move goes from the link of one row to that of another.
function move(step) {
  const links = [...document.querySelectorAll('main tbody th a')];
  const at = links.findIndex((a) => a.closest('tr').contains(document.activeElement));
  return focus(links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step]);
}
