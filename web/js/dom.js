// Elements, without markup in strings: the page's policy forbids that, and what a
// target or a source says can't become code.

const svgSpace = 'http://www.w3.org/2000/svg';

// h makes an element. Properties that begin with "on" are listeners, null and false
// are left out, true is an attribute without a value. Children are nodes, texts,
// lists of them, or nothing.
export function h(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

// s is h for SVG.
export function s(tag, properties, ...children) {
  return filled(document.createElementNS(svgSpace, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== '');
}

// fill replaces what an element holds.
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

// table makes a table that a narrow screen shows as cards: roles are said, since a
// browser forgets them with the layout. columns are {name, class}; each row is
// {cells, ...properties}, and its cell `head` (default the first) names the row.
export function table(caption, columns, rows, head = 0) {
  return h('div', { class: 'scroll' }, h('table', { role: 'table' },
    h('caption', { class: 'unseen' }, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' },
      columns.map((c) => h('th', { scope: 'col', role: 'columnheader', class: c.class }, c.name)))),
    h('tbody', { role: 'rowgroup' }, rows.map((r) => row(columns, r, head)))));
}

// row makes one row of such a table.
export function row(columns, { cells, ...properties }, head = 0) {
  return h('tr', { role: 'row', ...properties }, cells.map((cell, i) => h(i === head ? 'th' : 'td', {
    scope: i === head ? 'row' : null, role: i === head ? 'rowheader' : 'cell', class: columns[i].class, 'data-name': columns[i].name,
  }, cell)));
}

// facts makes a list of names and values; those without a value are left out.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== '')
    .map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

// say tells what happened: to the eye for a while, and to a screen reader.
let unsay;
export function say(text) {
  const said = document.getElementById('said');
  said.textContent = text;
  clearTimeout(unsay);
  unsay = setTimeout(() => { said.textContent = ''; }, 8000);
}
