// The frame around the views: which one is shown, whether its data is live, and who
// may see it.
import * as access from './access.js';
import { hasToken, Problem, setToken } from './api.js';
import { problem } from './dialog.js';
import { fill, h, say } from './dom.js';
import * as keys from './keys.js';
import { mark } from './marks.js';
import * as status from './status.js';
import { overview } from './overview.js';
import { resources } from './resources.js';
import { resource } from './resource.js';
import { saga, sagas } from './sagas.js';
import { sink } from './sink.js';
import { source, sources } from './sources.js';

// Each view gets its query and a signal that aborts when it is left; it returns its
// title and its nodes.
const views = {
  '': [overview, ''], sink: [sink, ''],
  resources: [resources, 'resources'], resource: [resource, 'resources'],
  sagas: [sagas, 'sagas'], saga: [saga, 'sagas'],
  sources: [sources, 'sources'], source: [source, 'sources'],
};
const pages = [['', 'Overview'], ['resources', 'Resources'], ['sagas', 'Sagas'], ['sources', 'Sources']];

const main = document.getElementById('main');
const nav = document.getElementById('nav');
let leave = new AbortController();
let followed = new AbortController();

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  return [path, Object.fromEntries(new URLSearchParams(query))];
}

// show shows the view of the address. Where the path is another one, the focus goes to
// its heading, so that a screen reader begins there.
let shownPath;
async function show() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const [path, query] = place();
  const [view, page] = views[path] ?? [nowhere, null];
  const there = `${path}?${query.key ?? query.id ?? query.name ?? ''}`;
  fill(nav, pages.map(([to, name]) => h('a', { href: `#/${to}`, 'aria-current': to === page ? 'page' : null }, name)));
  main.setAttribute('aria-busy', 'true');
  try {
    await access.learn();
    const { title, nodes } = await view(query, signal);
    if (signal.aborted) return;
    document.title = title === 'Pawl' ? title : `${title} · Pawl`;
    fill(main, nodes);
  } catch (err) {
    if (signal.aborted) return;
    if (err instanceof Problem && err.status === 401) return signIn(err);
    document.title = 'Problem · Pawl';
    fill(main, h('h1', null, 'This can’t be shown'), problem(err),
      h('p', null, h('button', { type: 'button', onclick: show }, 'Try again')));
  } finally {
    if (!signal.aborted) main.removeAttribute('aria-busy');
  }
  if (shownPath !== undefined && shownPath !== there) {
    const heading = main.querySelector('h1');
    heading?.setAttribute('tabindex', '-1');
    heading?.focus();
    window.scrollTo(0, 0);
  }
  shownPath = there;
}

async function nowhere() {
  return { title: 'Not found', nodes: [h('h1', null, 'There is no such page'), h('p', null, h('a', { href: '#/' }, 'To the overview'))] };
}

function signIn(err) {
  const wasWrong = hasToken();
  setToken('');
  document.title = 'Token needed · Pawl';
  const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true, 'aria-describedby': 'token-how' });
  fill(main, h('form', {
    class: 'sign-in',
    onsubmit: (event) => {
      event.preventDefault();
      setToken(field.value);
      access.forget();
      follow();
      show();
    },
  }, h('h1', null, 'A token is needed'),
  wasWrong && problem(err),
  h('p', { id: 'token-how' }, 'This daemon answers those who have one of its tokens. It is kept in this tab alone, until you close or reload it.'),
  h('label', { for: 'token' }, 'Token'), field,
  h('button', { class: 'main' }, 'Go on')));
  field.focus();
}

// follow keeps the status live, and says how that goes.
function follow() {
  followed.abort();
  followed = new AbortController();
  const live = document.getElementById('live');
  let was = '';
  status.begin((state) => {
    if (state instanceof Problem) {
      fill(live, mark('cross', 'bad', state.status === 401 ? 'No token' : 'Not live'));
      return;
    }
    if (state === was) return;
    fill(live, state === 'live' ? mark('check', 'good', 'Live') : mark('clock', 'warn', 'Reconnecting'));
    if (was === 'waiting') say('Live again.');
    else if (was === 'live') say('The daemon does not answer. Trying again.');
    was = state;
  }, followed.signal);
}

document.getElementById('skip').addEventListener('click', () => main.focus());
document.getElementById('help').addEventListener('click', keys.help);
window.addEventListener('hashchange', show);
keys.listen();
follow();
show();
