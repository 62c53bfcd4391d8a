// The overview: what needs somebody, the sinks, and figures of the daemon.
import { get } from './api.js';
import { fill, h, table } from './dom.js';
import { bytes, clipped, count, plural, time } from './format.js';
import { health, mark, phases, shares } from './marks.js';
import { current, onStatus } from './status.js';

const columns = [
  { name: 'Sink' }, { name: 'Health' }, { name: 'Resources', class: 'number' }, { name: 'Phases', class: 'wide' },
  { name: 'In flight', class: 'number' }, { name: 'Waiting', class: 'number' }, { name: 'Oldest unconfirmed' },
];

export async function overview(_, signal) {
  const root = h('div');
  const first = current() ?? await get('v1/status', {}, signal);
  draw(root, first);
  onStatus((st) => draw(root, st), signal);
  return { title: 'Overview', nodes: [root] };
}

function draw(root, st) {
  const focused = root.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
  fill(root, h('h1', { tabindex: '-1' }, 'Overview'), attention(st), figures(st), h('h2', null, 'Sinks'), sinks(st));
  if (focused) root.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

function attention(st) {
  if (st.headlines.length === 0) {
    return h('p', { class: 'calm' }, mark('check', 'good', 'Nothing needs your attention.'));
  }
  return h('section', { class: 'attention', 'aria-labelledby': 'attention' },
    h('h2', { id: 'attention' }, 'Needs attention'), h('ul', null, st.headlines.map((line) => h('li', null, line))));
}

function figures(st) {
  const behind = Object.entries(st.counts).filter(([p]) => p !== 'Acked').reduce((a, [, n]) => a + n, 0);
  return h('dl', { class: 'figures' }, [
    ['Resources', count(st.resources)], ['Not confirmed', count(behind)],
    ['Open sagas', `${count(st.sagas.running)}${st.sagas.unresolved ? `, ${count(st.sagas.unresolved)} unresolved` : ''}`],
    ['Store', bytes(st.store.bytes)], ['Disk free', bytes(st.store.freeBytes)],
    ['Version', st.version], ['Started', time(st.startedAt)],
  ].map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

function sinks(st) {
  if (st.sinks.length === 0) {
    return h('div', { class: 'empty' }, h('p', null, h('strong', null, 'No sink is configured yet.')),
      h('p', null, 'A sink is a target that Pawl keeps in sync: a plugin, and the upstreams that it may reach. Name one below ',
        h('code', null, 'sinks'), ' in the configuration, then put something with ', h('code', null, 'pawl put SINK/KEY -f FILE'), '.'));
  }
  return table('Sinks and how they do', columns, st.sinks.map((sink) => ({
    cells: [
      h('a', { href: `#/sink?${new URLSearchParams({ name: sink.name })}` }, sink.name),
      [health(sink), sink.lastError && h('div', { class: 'why' }, clipped(sink.lastError, 120))],
      count(Object.values(sink.counts).reduce((a, b) => a + b, 0)),
      spread(sink), count(sink.inFlight),
      count(sink.waiting.fresh + sink.waiting.retry), time(sink.oldestUnacked) ?? '–',
    ],
  })));
}

// spread is a sink's resources by phase: a bar, and links to each.
export function spread(sink) {
  const some = Object.keys(phases).filter((p) => sink.counts[p] > 0);
  if (some.length === 0) return h('span', { class: 'dim' }, 'nothing put yet');
  return [shares(sink.counts), h('ul', { class: 'counts' }, some.map((p) => h('li', null,
    h('a', { href: `#/resources?${new URLSearchParams({ sink: sink.name, phase: p })}`, title: plural(sink.counts[p], 'resource') },
      `${count(sink.counts[p])} ${p}`))))];
}
