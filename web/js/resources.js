// The list of resources: filters, pages, and rows that change as they change.
import { get } from './api.js';
import { problem } from './dialog.js';
import { fill, h, row, say, table } from './dom.js';
import { clipped, count, time } from './format.js';
import { follow } from './live.js';
import { phaseMark, phases } from './marks.js';
import { current, onStatus } from './status.js';

const size = 100;
const columns = [
  { name: 'Key', class: 'wide' }, { name: 'Sink' }, { name: 'Phase' }, { name: 'Generation', class: 'number' },
  { name: 'Owner' }, { name: 'Changed' }, { name: 'What is known', class: 'wide' },
];

const trail = new Map(); // of a page's token: the address of the page before

export async function resources(query, signal) {
  const filter = { sink: query.sink ?? '', prefix: query.prefix ?? '', phase: (query.phase ?? '').split(',').filter(Boolean), owner: query.owner ?? '' };
  const list = h('div', { class: 'list' });
  const nodes = [h('h1', null, 'Resources'), filters(filter, signal), list];
  try {
    await fetchPage(list, filter, query.page ?? '', signal);
  } catch (err) {
    if (signal.aborted || err.status === 401) throw err;
    fill(list, problem(err));
  }
  return { title: 'Resources', nodes };
}

// href is the address of a list.
function href(filter, page) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...filter, phase: filter.phase.join(','), page })) {
    if (value) q.set(name, value);
  }
  const text = q.toString();
  return `#/resources${text && `?${text}`}`;
}

function filters(filter, signal) {
  const go = (change) => { location.hash = href({ ...filter, ...change }); };
  const sink = h('select', { id: 'by-sink', onchange: () => go({ sink: sink.value }) });
  const prefix = h('input', { id: 'by-prefix', type: 'search', value: filter.prefix, 'data-key': '/', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', placeholder: 'any', onchange: () => go({ prefix: prefix.value }) });
  const owner = h('input', { id: 'by-owner', type: 'search', value: filter.owner, list: 'owners', autocomplete: 'off', spellcheck: 'false', placeholder: 'any', onchange: () => go({ owner: owner.value }) });
  const owners = h('datalist', { id: 'owners' });
  const chips = h('div', { class: 'chips' });
  const counted = {};
  for (const phase of Object.keys(phases)) {
    const box = h('input', { type: 'checkbox', id: `phase-${phase}` });
    box.checked = filter.phase.includes(phase);
    box.addEventListener('change', () => go({ phase: box.checked ? [...filter.phase, phase] : filter.phase.filter((p) => p !== phase) }));
    counted[phase] = h('span', { class: 'dim' });
    chips.append(h('span', { class: 'chip' }, box, h('label', { for: box.id, title: phases[phase][2] }, phaseMark(phase), counted[phase])));
  }
  const draw = (st) => {
    const names = ['', ...st.sinks.map((s) => s.name)];
    if (filter.sink && !names.includes(filter.sink)) names.push(filter.sink);
    if (names.join('\n') !== [...sink.options].map((o) => o.value).join('\n')) {
      fill(sink, names.map((n) => h('option', { value: n }, n || 'all')));
      sink.value = filter.sink;
      fill(owners, st.sources.filter((s) => !s.senders).map((s) => h('option', { value: s.name })));
    }
    const counts = (filter.sink ? st.sinks.find((s) => s.name === filter.sink)?.counts : st.counts) ?? {};
    for (const [phase, span] of Object.entries(counted)) span.textContent = counts[phase] ? ` ${count(counts[phase])}` : '';
  };
  draw(current() ?? { sinks: [], sources: [], counts: {} });
  onStatus(draw, signal);
  return h('form', { class: 'filters', role: 'search', 'aria-label': 'Filter resources', onsubmit: (e) => { e.preventDefault(); go({ prefix: prefix.value, owner: owner.value }); } },
    h('div', { class: 'field' }, h('label', { for: 'by-sink' }, 'Sink'), sink),
    h('div', { class: 'field grow' }, h('label', { for: 'by-prefix' }, 'Key begins with'), prefix),
    h('div', { class: 'field' }, h('label', { for: 'by-owner' }, 'Owner'), owner, owners),
    h('fieldset', null, h('legend', null, 'Phases'), chips),
    h('button', { class: 'unseen' }, 'Filter'));
}

// fetchPage shows one page and keeps it live. A page of a filter by owner may come in
// parts, since the daemon bounds how far it looks for one answer.
async function fetchPage(list, filter, page, signal) {
  let part = await get('v1/resources', { ...filter, limit: size, page }, signal);
  const { token } = part;
  const items = part.items;
  while (part.next && items.length < size && filter.owner) {
    fill(list, h('p', { class: 'dim', role: 'status' }, 'Looking through the resources …'));
    part = await get('v1/resources', { ...filter, limit: size - items.length, page: part.next }, signal);
    items.push(...part.items);
  }
  const next = part.next ?? '';
  const here = href(filter, page);
  if (next) trail.set(next, here);
  if (items.length === 0) {
    fill(list, nothing(filter, page), pager(filter, page, next));
    return;
  }
  const rows = new Map(items.map((r) => [name(r), row(columns, shown(r))]));
  const shell = table('Resources', columns, []);
  shell.querySelector('tbody').append(...rows.values());
  fill(list, pager(filter, page, next, items.length), shell, pager(filter, page, next));
  keep(rows, filter, { token, page, next }, signal);
}

const name = (r) => `${r.sink}\n${r.key}`;

function shown(r) {
  const st = r.status;
  const why = st.message || st.reason || '';
  return {
    cells: [
      h('a', { class: 'key', href: `#/resource?${new URLSearchParams({ sink: r.sink, key: r.key })}` }, r.key),
      r.sink, [phaseMark(st.phase), st.suspended && h('div', { class: 'why' }, 'suspended')], r.generation, r.owner ?? '–',
      time(st.updatedAt || r.putAt) ?? '–', why && h('span', { class: 'why' }, clipped(why)),
    ],
  };
}

// keep follows what happens to the resources of a page. Rows stay where they are, so
// that nobody hits another one than was meant; what no longer fits is faded.
function keep(rows, filter, { token, page, next }, signal) {
  let changed = new Map();
  const apply = () => {
    for (const [key, event] of changed) {
      const old = rows.get(key);
      const active = old.contains(document.activeElement);
      let fresh = old;
      if (!event.removed) {
        fresh = row(columns, shown(event.resource));
        old.replaceWith(fresh);
        rows.set(key, fresh);
        if (active) fresh.querySelector('a').focus();
      }
      const fits = !event.removed && (filter.phase.length === 0 || filter.phase.includes(event.resource.status.phase));
      fresh.classList.toggle('past', !fits);
      fresh.classList.add('flash');
      if (event.removed) fresh.cells[2].textContent = 'Gone';
    }
    changed = new Map();
  };
  follow('v1/watch', { sink: filter.sink, prefix: filter.prefix, from: token, page, next }, {
    signal,
    on: (kind, event) => {
      const key = event.resource && name(event.resource);
      if (!rows.has(key)) return;
      if (changed.size === 0) setTimeout(() => { if (!signal.aborted) apply(); }, 250);
      changed.set(key, event);
    },
    state: (state) => { if (state.code === 'watch-expired') say('The list is older than what the daemon remembers; load it again.'); },
  });
}

function pager(filter, page, next, n) {
  const back = page && (trail.get(page) ?? href(filter, ''));
  const button = (label, key, to) => h('button', { type: 'button', disabled: !to, 'data-key': key, onclick: () => { location.hash = to; } }, label);
  return h('div', { class: 'pager' },
    n === undefined ? null : h('p', { role: 'status' }, page || next ? `${count(n)} on this page` : `${count(n)} in all`),
    page || next ? h('div', { class: 'buttons' },
      button('← Previous', n === undefined ? null : 'p', back), button('Next →', n === undefined ? null : 'n', next && href(filter, next))) : null);
}

function nothing(filter, page) {
  if (page) return h('p', { class: 'empty' }, 'Nothing follows here.');
  if (filter.sink || filter.prefix || filter.owner || filter.phase.length > 0) {
    return h('div', { class: 'empty' }, h('p', null, h('strong', null, 'Nothing fits these filters.')), h('p', null, h('a', { href: '#/resources' }, 'Take them all off')));
  }
  return h('div', { class: 'empty' }, h('p', null, h('strong', null, 'No resource is kept yet.')),
    h('p', null, 'Put one with ', h('code', null, 'pawl put SINK/KEY -f FILE'), ', or let a source bring them: a directory, a Kubernetes cluster, another pawl.'));
}
