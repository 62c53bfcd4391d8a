// One resource: why it is where it is, its history, how the target differs, and the
// orders that an operator may give.
import { lacks, order as button } from './access.js';
import { get, post, Problem, resourcePath } from './api.js';
import { confirm, problem } from './dialog.js';
import { facts, fill, h, table } from './dom.js';
import { clipped, pretty, time } from './format.js';
import { follow } from './live.js';
import { mark, phaseMark } from './marks.js';

const orders = {
  retry: ['Retry', 'It is delivered at once, with its attempts counted anew.', 'Its turn comes at once.'],
  suspend: ['Suspend', 'Its calls are held until somebody resumes it, a deletion excepted. What is put is still taken.', 'Suspended.'],
  resume: ['Resume', 'Its calls go on.', 'Resumed.'],
  accept: ['Accept', 'What the target has now counts as confirmed, although it is not what is desired. The next change is delivered as ever.', 'Accepted: the target is looked at once more.'],
  force: ['Force', 'What is desired is applied once, whatever the conflict policy. What somebody changed at the target is overwritten.', 'Forced: it is delivered now.'],
  forget: ['Forget', 'Pawl forgets the resource and leaves the target as it is. A deletion that is not confirmed is given up. A source that still has it puts it again.', 'Forgotten.'],
};

export async function resource({ sink, key }, signal) {
  const path = resourcePath(sink);
  const state = h('div');
  const bar = h('div', { class: 'buttons', role: 'group', 'aria-label': 'Orders' });
  const past = h('div');
  let barred = '';
  const draw = ({ text, resource: r }) => {
    fill(state, h('p', { class: 'explain' }, text), facts(about(r)));
    const offered = fitting(r);
    if (offered.join() !== barred) {
      barred = offered.join();
      fill(bar, offered.map((verb) => order(verb, sink, key)));
    }
    fill(past, h('h2', null, 'History'), history(r), conditions(r));
  };
  draw(await get(`${path}/explain`, { key }, signal));
  keep(path, sink, key, draw, state, signal);
  return {
    title: key,
    nodes: [h('p', { class: 'crumbs' }, h('a', { href: '#/resources' }, 'Resources'), ' / ', h('a', { href: `#/resources?${new URLSearchParams({ sink })}` }, sink)),
      h('h1', { class: 'key' }, key), bar, state, comparison(path, key, signal), payload(path, key, signal), past],
  };
}

// keep draws it anew when something about it is committed.
function keep(path, sink, key, draw, state, signal) {
  let due = false;
  const again = async () => {
    due = false;
    try {
      const it = await get(`${path}/explain`, { key }, signal);
      if (!signal.aborted) draw(it);
    } catch (err) {
      if (signal.aborted) return;
      if (err instanceof Problem && err.status === 404) gone(state);
      else fill(state, problem(err));
    }
  };
  follow('v1/watch', { sink, prefix: key }, {
    signal,
    on: (kind, event) => {
      if (event.resource?.key !== key) return;
      if (kind === 'removed') gone(state);
      else if (!due) {
        due = true;
        setTimeout(again, 200);
      }
    },
  });
}

function gone(state) {
  fill(state, h('p', { class: 'explain', role: 'status' }, mark('dash', 'none', 'Gone'), ' It was deleted and the target confirmed that, or it was forgotten.'));
}

function about(r) {
  const st = r.status;
  return [
    ['Phase', [phaseMark(st.phase), st.reason && h('span', { class: 'dim' }, ` ${st.reason}`)]],
    ['Message', st.message && h('span', { class: 'target-words' }, st.message)],
    ['Desired', ['generation ', r.generation, r.tombstone && ', to be deleted', r.putAt && [', put ', time(r.putAt)]]],
    ['Confirmed', st.acked ? ['generation ', st.acked.generation, st.acked.at && [', ', time(st.acked.at)], st.acked.missing && ', as missing'] : 'never'],
    ['At the target', st.acked?.ref && h('code', null, st.acked.ref)],
    ['Attempts', st.attempts || null],
    ['Next', time(st.nextAt)],
    ['Looked at', time(st.lookedAt)],
    ['Differs at', st.driftPaths?.length > 0 ? st.driftPaths.map((p) => [h('code', null, p), ' ']) : null],
    ['Held', [st.suspended && 'by an operator', r.suspend && ' by its source', r.heldBy && [' by saga ', h('a', { href: `#/saga?${new URLSearchParams({ id: r.heldBy })}` }, r.heldBy)]].filter(Boolean).length > 0
      ? [st.suspended && 'by an operator', r.suspend && ' by its source', r.heldBy && [' by saga ', h('a', { href: `#/saga?${new URLSearchParams({ id: r.heldBy })}` }, r.heldBy)]] : null],
    ['Owner', r.owner && h('a', { href: `#/source?${new URLSearchParams({ name: r.owner })}` }, r.owner)],
    ['Policies', [r.conflictPolicy, r.deletionPolicy, r.direction].filter(Boolean).join(', ') || 'as the sink says'],
  ];
}

// fitting are the orders that make sense now; the daemon has the last word.
function fitting(r) {
  const st = r.status;
  return Object.keys(orders).filter((verb) => ({
    suspend: !st.suspended, resume: Boolean(st.suspended),
    accept: st.phase === 'Drifted' || st.reason === 'NotOurs',
    force: !r.tombstone && r.direction !== 'inbound' && st.phase !== 'Acked',
  })[verb] ?? true);
}

function order(verb, sink, key) {
  const [title, what, done] = orders[verb];
  const forget = verb === 'forget';
  return button(`${title} …`, lacks(forget ? 'admin' : 'write', sink, key), {
    class: forget ? 'danger' : null,
    onclick: async () => {
      const did = await confirm({
        title: `${title} this resource?`, text: [h('code', { class: 'key' }, `${sink}/${key}`), what], verb: title,
        danger: forget, word: forget ? key : null, act: () => post(`${resourcePath(sink)}/${verb}`, { key }), done,
      });
      if (did && forget) location.hash = `#/resources?${new URLSearchParams({ sink })}`;
    },
  });
}

// comparison asks the target once, when somebody wants to know: a look costs a call.
function comparison(path, key, signal) {
  const result = h('div', { role: 'status' });
  const button = h('button', {
    type: 'button',
    onclick: async () => {
      button.disabled = true;
      fill(result, h('p', { class: 'dim' }, 'Looking at the target …'));
      try {
        const d = await get(`${path}/diff`, { key, values: true }, signal);
        fill(result, difference(d));
      } catch (err) {
        if (!signal.aborted) fill(result, problem(err));
      }
      button.disabled = false;
    },
  }, 'Compare now');
  return h('section', null, h('h2', null, 'Desired against observed'),
    h('p', { class: 'dim' }, 'Looks at the target once and changes nothing there.'), h('p', null, button), result);
}

const verdicts = {
  none: ['check', 'good', 'Nothing would be done'], create: ['arrow', 'busy', 'It would be created'], update: ['arrow', 'busy', 'It would be updated'],
  delete: ['bin', 'odd', 'It would be deleted'], refused: ['cross', 'bad', 'The target would refuse it'], unknown: ['question', 'warn', 'It can’t be told'],
};
const signs = { add: '+ add', remove: '− remove', update: '± change' };

function difference(d) {
  const columns = [{ name: 'Where' }, { name: 'A delivery would' }, { name: 'Desired', class: 'wide' }, { name: 'Observed', class: 'wide' }];
  const value = (v) => (v === undefined ? '–' : h('pre', null, pretty(v)));
  return [h('p', null, mark(...verdicts[d.action] ?? verdicts.unknown), d.drift && [' ', mark('differs', 'warn', 'Somebody else changed it')]),
    d.why && h('p', null, d.why),
    d.paths?.length > 0 ? table('Where the target differs', columns, d.paths.map((p) => ({
      cells: [h('code', null, p.path), signs[p.change] ?? '–', value(p.desired), value(p.observed)],
    }))) : h('p', { class: 'dim' }, d.same ? 'The target is as desired.' : d.looked ? 'The adapter tells that it differs, and not where.' : 'The target was not looked at.')];
}

function payload(path, key, signal) {
  const shown = h('div');
  const button = h('button', {
    type: 'button', 'aria-expanded': 'false',
    onclick: async () => {
      try {
        const r = await get(path, { key, payload: true }, signal);
        const text = r.payloadHidden ? 'It is hidden: its sink has sensitive paths, and they can’t be found in it.' : r.tombstone ? 'It is to be deleted.'
          : r.payload !== undefined ? pretty(r.payload) : r.payloadBase64 ? `${r.payloadBase64} (base64)` : 'It is empty.';
        fill(shown, h('pre', { tabindex: '0', 'aria-label': 'Payload' }, text));
        button.setAttribute('aria-expanded', 'true');
      } catch (err) {
        if (!signal.aborted) fill(shown, problem(err));
      }
    },
  }, 'Show the payload');
  return h('section', null, h('h2', null, 'Payload'), h('p', null, button), shown);
}

function history(r) {
  const lines = [...r.status.history ?? []].reverse();
  if (lines.length === 0) return h('p', { class: 'dim' }, 'Nothing has happened to it yet.');
  return table('History, the newest first', [{ name: 'When' }, { name: 'Phase' }, { name: 'Generation', class: 'number' }, { name: 'Took', class: 'number' }, { name: 'Why', class: 'wide' }],
    lines.map((t) => ({
      cells: [time(t.at), phaseMark(t.phase), t.generation, t.tookSeconds ? `${t.tookSeconds.toFixed(3)} s` : '–', [t.reason, t.message].filter(Boolean).map((x) => clipped(x, 400)).join(': ')],
    })));
}

function conditions(r) {
  const list = r.status.conditions ?? [];
  if (list.length === 0) return null;
  return [h('h2', null, 'Conditions'), table('Conditions', [{ name: 'Condition' }, { name: 'Is' }, { name: 'Since' }, { name: 'Why', class: 'wide' }],
    list.map((c) => ({ cells: [c.type, c.status, time(c.lastTransitionTime) ?? '–', [c.reason, c.message].filter(Boolean).join(': ')] })))];
}
