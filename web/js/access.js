// What the caller may do. The daemon decides each time; this is so that nobody is
// offered what would be denied.
import { get } from './api.js';
import { h, say } from './dom.js';

const levels = { read: 1, write: 2, admin: 3 };
let asked = null;
let grants = [];

// learn asks the daemon once who the caller is; forget makes it ask again.
export function learn(signal) {
  asked ??= get('v1/whoami', {}, signal).then((who) => { grants = who.grants; });
  return asked.catch((err) => { forget(); throw err; });
}
export function forget() { asked = null; }

// lacks says which scope the caller lacks for a resource; without key for a whole sink,
// without sink for everything. null: none.
export function lacks(scope, sink, key) {
  const held = grants.some((g) => levels[g.scope] >= levels[scope]
    && (!g.sinks?.length || g.sinks.includes(sink)) && (!g.prefix || (key ?? '').startsWith(g.prefix)));
  return held ? null : `Denied to you: it needs the scope ${scope} ${sink ? `at ${sink}` : 'for everything'}.`;
}

// order is a button; one for which a scope is lacking says so, and does nothing else.
export function order(label, lack, properties) {
  if (!lack) return h('button', { type: 'button', ...properties }, label);
  return h('button', { type: 'button', class: properties.class, 'aria-disabled': 'true', title: lack, onclick: () => say(lack) }, label);
}
