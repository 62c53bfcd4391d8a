// One sink: its state, and the two orders that it takes.
import { lacks, order as button } from './access.js';
import { get, post } from './api.js';
import { confirm } from './dialog.js';
import { facts, fill, h } from './dom.js';
import { count, time } from './format.js';
import { health } from './marks.js';
import { spread } from './overview.js';
import { current, onStatus } from './status.js';

export async function sink({ name }, signal) {
  const root = h('div');
  const status = current() ?? await get('v1/status', {}, signal);
  const find = (st) => st.sinks.find((s) => s.name === name);
  if (!find(status)) {
    return { title: name, nodes: [h('h1', null, name), h('p', null, 'There is no sink of that name. ', h('a', { href: '#/' }, 'To the overview'))] };
  }
  const state = h('div');
  const orders = h('div', { class: 'buttons' });
  let suspended;
  const draw = (st) => {
    const s = find(st);
    if (!s) return;
    fill(state, details(s));
    if (s.suspended !== suspended || !orders.firstChild) {
      suspended = s.suspended;
      fill(orders, h('a', { class: 'button', href: `#/resources?${new URLSearchParams({ sink: name })}` }, 'Its resources'), order(s));
    }
  };
  draw(status);
  onStatus(draw, signal);
  fill(root, h('p', { class: 'crumbs' }, h('a', { href: '#/' }, 'Overview'), ' / sink'), h('h1', { class: 'key' }, name), orders, state);
  return { title: name, nodes: [root] };
}

function order(s) {
  const verb = s.suspended ? 'resume' : 'suspend';
  const title = s.suspended ? 'Resume' : 'Suspend';
  return button(`${title} …`, lacks('admin', s.name), {
    disabled: !s.configured,
    onclick: () => confirm({
      title: `${title} sink ${s.name}?`, verb: title,
      text: [s.suspended ? 'Its calls go on: what waits is delivered, deletions included.'
        : 'All its calls are held, deletions included. What is put for it is still taken, and waits.'],
      act: () => post(`v1/sinks/${encodeURIComponent(s.name)}/${verb}`), done: s.suspended ? 'Resumed.' : 'Suspended.',
    }),
  });
}

function details(s) {
  return [facts([
    ['Health', health(s)],
    ['Why suspended', s.suspended ? s.suspendReason : null],
    ['Not ready', s.notReady],
    ['Last error', s.lastError && [s.lastErrorStatus, ': ', s.lastError, ' (', time(s.lastErrorAt), ')']],
    ['Breaker', [s.breaker, s.nextProbe && [', next probe ', time(s.nextProbe)]]],
    ['Paused until', time(s.pausedUntil)],
    ['In flight', count(s.inFlight)],
    ['Waiting', `${count(s.waiting.fresh)} fresh, ${count(s.waiting.retry)} to retry, ${count(s.waiting.check)} checks`],
    ['Oldest unconfirmed', time(s.oldestUnacked)],
    ['Direction', s.direction || 'outbound'],
    ['Plugin', s.plugin],
    ['Module', s.digest && h('code', null, s.digest)],
    ['Target', s.target && h('code', null, s.target)],
  ]), h('h2', null, 'Resources by phase'), spread(s)];
}
