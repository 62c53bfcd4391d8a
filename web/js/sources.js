// Sources: where desired state comes from, and the fuse that holds their deletions.
import { lacks, order as button } from './access.js';
import { get, post } from './api.js';
import { confirm, problem } from './dialog.js';
import { facts, fill, h, s, say, table } from './dom.js';
import { clipped, count, plural, time } from './format.js';
import { sourceMark } from './marks.js';
import { onStatus } from './status.js';

const link = (name) => `#/source?${new URLSearchParams({ name })}`;

export async function sources(_, signal) {
  const list = h('div');
  let was = '';
  const draw = async () => {
    const { items } = await get('v1/sources', {}, signal);
    if (!signal.aborted) fill(list, drawList(items));
  };
  await draw();
  onStatus((st) => {
    const now = JSON.stringify(st.sources);
    if (was && now !== was) draw().catch(() => {});
    was = now;
  }, signal);
  return { title: 'Sources', nodes: [h('h1', null, 'Sources'), list] };
}

function drawList(items) {
  if (items.length === 0) {
    return h('div', { class: 'empty' }, h('p', null, h('strong', null, 'No source is configured.')),
      h('p', null, 'A source brings desired state by itself: manifests in a directory, objects of a Kubernetes cluster, another pawl. Name one below ', h('code', null, 'sources'),
        ' in the configuration. What programs put through the API needs none.'));
  }
  const columns = [{ name: 'Source' }, { name: 'State' }, { name: 'Kind' }, { name: 'Resources', class: 'number' }, { name: 'Held', class: 'number' },
    { name: 'Not taken', class: 'number' }, { name: 'Full set' }, { name: 'Trouble', class: 'wide' }];
  return table('Sources', columns, items.map((x) => ({
    cells: [h('a', { href: link(x.name) }, x.name), sourceMark(x), x.kind || '–', count(x.resources), count(x.held), count(x.kept), time(x.fullAt) ?? '–',
      h('span', { class: 'why' }, clipped(x.heldWhy || x.trouble || x.unswept))],
  })));
}

export async function source({ name }, signal) {
  const path = `v1/sources/${encodeURIComponent(name)}`;
  const state = h('div');
  const held = h('div');
  let was = '';
  let heldNow;
  const draw = async () => {
    const x = await get(path, {}, signal);
    fill(state, about(x));
    if (x.held !== heldNow) {
      heldNow = x.held;
      fill(held, x.held > 0 ? await holding(path, x, '', held, signal) : null);
    }
  };
  await draw();
  onStatus((st) => {
    const now = JSON.stringify(st.sources.find((x) => x.name === name));
    if (was && now !== was) draw().catch(() => {});
    was = now;
  }, signal);
  const rescan = button('Read it anew', lacks('admin'), {
    onclick: async () => {
      try {
        await post(`${path}/rescan`);
        say('It is read anew as soon as it can be.');
      } catch (err) {
        fill(held, problem(err));
      }
    },
  });
  return {
    title: `Source ${name}`,
    nodes: [h('p', { class: 'crumbs' }, h('a', { href: '#/sources' }, 'Sources'), ' /'), h('h1', { class: 'key' }, name),
      h('div', { class: 'buttons' }, h('a', { class: 'button', href: `#/resources?${new URLSearchParams({ owner: name })}` }, 'Its resources'), rescan), held, state],
  };
}

function about(x) {
  const columns = [{ name: 'Where', class: 'wide' }, { name: 'Resource' }, { name: 'What is wrong', class: 'wide' }];
  return [facts([
    ['State', sourceMark(x)], ['Kind', x.kind], ['Trouble', x.trouble && [x.trouble, ' (', time(x.troubleAt), ')']],
    ['Directory', x.dir && h('code', null, x.dir.path)], ['Resources', count(x.resources)],
    ['Full set', x.fullAt && [plural(x.fullItems ?? 0, 'item'), ', ', time(x.fullAt)]], ['Last heard of', time(x.contactAt)],
    ['Deletion policy', x.deletionPolicy || 'as the sink says'], ['Nothing is deleted', x.unswept && `until ${x.unswept} is right`],
    ['Declares', x.declares?.join(', ')],
  ]), x.fuse && fuse(x.fuse), x.problems?.length > 0 && [h('h2', null, 'Not taken'), table('What could not be taken', columns, x.problems.map((p) => ({
    cells: [p.place ? h('code', null, p.place) : '–', p.key ? `${p.sink}/${p.key}` : '–', p.message],
  })))]];
}

// fuse shows how much of what may be deleted was, as a bar and in words.
function fuse(f) {
  const share = f.blown || f.allowed === 0 ? 1 : Math.min(1, f.deleted / f.allowed);
  return [h('h2', null, 'Fuse'), s('svg', { class: 'shares', viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false' },
    s('rect', { class: f.blown ? 'bad' : share > 0.7 ? 'warn' : 'good', x: 0, y: 0, width: 100 * share, height: 4 })),
  h('p', null, `Within ${window(f.window)}, ${count(f.deleted)} of ${plural(f.allowed, 'allowed deletion')} happened. `,
    f.blown ? 'It holds: everything further waits until somebody confirms, or the source has it again.' : 'Beyond that, deletions wait for an operator.')];
}

// window is a duration without the zeros at its end: 1h0m0s reads 1h.
const window = (text) => text.replace(/(?<=[hm])0[ms](0s)?$/, '');

// holding is the list of what the fuse holds. What is confirmed is the very list that
// was shown: its digest goes along.
async function holding(path, x, page, root, signal) {
  const list = await get(`${path}/held`, { page, limit: 100 }, signal);
  const columns = [{ name: 'Resource', class: 'wide' }, { name: 'Where the source last had it', class: 'wide' }];
  const sinks = Object.entries(list.bySink).map(([sink, n]) => `${count(n)} at ${sink}`).join(', ');
  const act = button(`Confirm ${plural(list.total, 'deletion')} …`, lacks('admin'), {
    class: 'danger',
    onclick: () => confirm({
      title: `Delete ${plural(list.total, 'resource')}?`, danger: true, word: x.name, verb: 'Delete them',
      text: [`These are ${sinks}. They are deleted at their targets, as their deletion policies say. Where the list has changed by then, nothing is.`],
      act: () => post(`${path}/confirm`, {}, { digest: list.digest }), done: (r) => `${plural(r?.deleted ?? 0, 'resource')} will be deleted.`,
    }),
  });
  return h('section', { class: 'attention', 'aria-labelledby': 'held' }, h('h2', { id: 'held' }, `${plural(list.total, 'deletion')} held`),
    h('p', null, list.why, list.since && [', ', time(list.since)], '. Nothing of it is deleted until somebody confirms.'), h('p', null, act),
    table('Held deletions', columns, list.items.map((i) => ({
      cells: [h('a', { class: 'key', href: `#/resource?${new URLSearchParams({ sink: i.sink, key: i.key })}` }, `${i.sink}/${i.key}`), i.place ? h('code', null, i.place) : '–'],
    }))),
    list.next && h('p', null, h('button', { type: 'button', 'data-key': 'n', onclick: async () => fill(root, await holding(path, x, list.next, root, signal)) }, 'Next →')));
}
