// Sagas: the list, and one of them with its steps and the operator's decisions.
import { lacks, order as button } from './access.js';
import { get, post } from './api.js';
import { confirm } from './dialog.js';
import { facts, fill, h, table } from './dom.js';
import { clipped, plural, time } from './format.js';
import { sagaMark, stepMark } from './marks.js';
import { onStatus } from './status.js';

const size = 100;
const link = (id) => `#/saga?${new URLSearchParams({ id })}`;

// again calls fetch at once when the status tells that sagas moved, and every two
// seconds while there are open ones.
function again(fetch, open, signal) {
  let counts = null;
  let busy = false;
  const run = async () => {
    if (busy || document.hidden) return;
    busy = true;
    try { await fetch(); } catch { /* the next one tells, and the status says so meanwhile */ }
    busy = false;
  };
  onStatus((st) => {
    const now = JSON.stringify(st.sagas);
    if (counts !== null && counts !== now) run();
    counts = now;
  }, signal);
  const timer = setInterval(() => { if (open()) run(); }, 2000);
  signal.addEventListener('abort', () => clearInterval(timer));
}

export async function sagas(query, signal) {
  const list = h('div');
  const onlyOpen = query.open === 'true';
  let some = false;
  const fetch = async () => {
    const page = await get('v1/sagas', { open: onlyOpen || null, after: query.after, limit: size }, signal);
    some = page.items.some((s) => !s.outcome || s.phase !== 'Ended');
    fill(list, drawList(page, query));
  };
  await fetch();
  again(fetch, () => some, signal);
  const box = h('input', { type: 'checkbox', id: 'open', 'data-key': '/', onchange: () => { location.hash = box.checked ? '#/sagas?open=true' : '#/sagas'; } });
  box.checked = onlyOpen;
  return {
    title: 'Sagas',
    nodes: [h('h1', null, 'Sagas'), h('p', null, h('span', { class: 'chip' }, box, h('label', { for: 'open' }, 'Only those that have not ended'))), list],
  };
}

function drawList(page, query) {
  if (page.items.length === 0) {
    return h('div', { class: 'empty' }, h('p', null, h('strong', null, query.open ? 'No saga is open.' : 'No saga ran in the last seven days.')),
      h('p', null, 'A saga writes to several targets, all of it or none: a role in SpiceDB and its object in Kubernetes, say. Run one with ', h('code', null, 'pawl saga run'), '.'));
  }
  const columns = [{ name: 'Saga', class: 'wide' }, { name: 'State' }, { name: 'Mode' }, { name: 'Steps' }, { name: 'Began' }, { name: 'Why', class: 'wide' }];
  return [table('Sagas', columns, page.items.map((s) => ({
    cells: [h('a', { class: 'key', href: link(s.id) }, s.id), sagaMark(s), s.mode, plural(s.steps.length, 'step'), time(s.began) ?? '–', h('span', { class: 'why' }, clipped(s.stuck || s.cause))],
  }))), h('div', { class: 'pager' }, h('div', { class: 'buttons' },
    query.after && h('button', { type: 'button', 'data-key': 'p', onclick: () => history.back() }, '← Previous'),
    page.next && h('button', { type: 'button', 'data-key': 'n', onclick: () => { location.hash = `#/sagas?${new URLSearchParams({ ...query, after: page.next })}`; } }, 'Next →')))];
}

const decisions = {
  retry: ['Try again', 'What it is stuck at is tried again.'],
  committed: ['It is written', 'You vouch that all of it is written at the targets. Pawl takes your word and keeps it so.'],
  'rolled-back': ['Nothing is written', 'You vouch that nothing of it is written at the targets. Pawl takes your word.'],
};

export async function saga({ id }, signal) {
  const state = h('div');
  const bar = h('div', { class: 'buttons', role: 'group', 'aria-label': 'Decisions' });
  let open = true;
  let barred;
  const fetch = async () => {
    const { text, saga: s } = await get(`v1/sagas/${encodeURIComponent(id)}/explain`, {}, signal);
    open = s.phase !== 'Ended';
    fill(state, drawOne(text, s));
    const undecided = Boolean(s.unresolved || s.stuck);
    if (undecided !== barred) {
      barred = undecided;
      fill(bar, undecided && Object.keys(decisions).map((as) => decide(s, as, fetch)));
    }
  };
  await fetch();
  again(fetch, () => open, signal);
  return { title: `Saga ${id}`, nodes: [h('p', { class: 'crumbs' }, h('a', { href: '#/sagas' }, 'Sagas'), ' /'), h('h1', { class: 'key' }, id), bar, state] };
}

function decide(s, as, fetch) {
  const [title, what] = decisions[as];
  const lack = s.steps.map((st) => lacks('admin', st.sink, st.key)).find(Boolean);
  return button(`${title} …`, lack, {
    class: as === 'retry' ? null : 'danger',
    onclick: async () => {
      const did = await confirm({
        title: `${title}?`, text: [h('code', { class: 'key' }, s.id), what], verb: title, danger: as !== 'retry', word: as === 'retry' ? null : s.id,
        act: () => post(`v1/sagas/${encodeURIComponent(s.id)}/resolve`, {}, { as }), done: 'Decided.',
      });
      if (did) await fetch();
    },
  });
}

function drawOne(text, s) {
  const columns = [{ name: 'Step' }, { name: 'State' }, { name: 'Resource', class: 'wide' }, { name: 'Verb' }, { name: 'The target said', class: 'wide' }];
  const said = (a) => a && [a.status, a.message].filter(Boolean).join(': ');
  return [h('p', { class: 'explain' }, text), facts([
    ['State', sagaMark(s)], ['Phase', s.phase], ['Mode', s.mode], ['Cause', s.cause], ['Stuck', s.stuck],
    ['Began', time(s.began)], ['Deadline', s.phase === 'Ended' ? null : time(s.deadline)], ['Next', time(s.nextAt)], ['Ended', time(s.endedAt)], ['Calls in vain', s.tries || null],
  ]), h('h2', null, 'Steps'), table('Steps', columns, s.steps.map((st, i) => ({
    cells: [i + 1, stepMark(st.state), h('a', { class: 'key', href: `#/resource?${new URLSearchParams({ sink: st.sink, key: st.key })}` }, `${st.sink}/${st.key}`), st.verb,
      clipped(said(st.refusal) || said(st.answer) || '–', 400)],
  })))];
}
