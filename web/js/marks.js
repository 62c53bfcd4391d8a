// Marks: what tells states apart is their form and their word; colour only helps.
import { h, s } from './dom.js';

// Drawn on 16 × 16.
const forms = {
  check: ['M3.5 8.500 6.800 11.800 12.500 4.800'],
  dots: ['M3 8h.01M8 8h.01M13 8h.01'],
  arrow: ['M2.500 8h10.500M9 4l4 4-4 4'],
  differs: ['M3 6h10M3 10.500h10M11 2.800 5 13.200'],
  pause: ['M5.500 3.500v9M10.500 3.500v9'],
  cross: ['M4 4l8 8M12 4l-8 8'],
  dash: ['M3.500 8h9'],
  bin: ['M3 4.500h10M6.500 4.200V2.800h3v1.400M4.500 4.500l.7 8.700h5.600l.7-8.700'],
  question: ['M5.500 6a2.500 2.500 0 1 1 3.600 2.200c-.8.400-1.100.9-1.100 1.700M8 12.800h.01'],
  bolt: ['M9 2 4 9h3.500L7 14l5-7H8.500z'],
  clock: ['M8 4.500V8l2.500 1.500M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z'],
  back: ['M6 3.500 2.500 7 6 10.500M2.800 7h6.700a3.700 3.700 0 0 1 0 7.300H7'],
};

function icon(form) {
  return s('svg', { viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true', focusable: 'false' },
    forms[form].map((d) => s('path', { d })));
}

// mark is a form with a word, in one of the tones good, busy, warn, bad, odd, none.
export function mark(form, tone, word) {
  return h('span', { class: `mark ${tone}` }, icon(form), h('span', null, word));
}

// phases, in the order in which they are shown.
export const phases = {
  Acked: ['check', 'good', 'The target has confirmed what is desired.'],
  Pending: ['dots', 'none', 'It waits for its turn.'],
  Delivering: ['arrow', 'busy', 'A call to the target is under way.'],
  Stalled: ['pause', 'warn', 'It failed, and is tried again later.'],
  Drifted: ['differs', 'warn', 'Somebody changed the target.'],
  Failed: ['cross', 'bad', 'The target refuses it; it is not tried again by itself.'],
  Deleting: ['bin', 'odd', 'Its deletion is not confirmed yet.'],
  Obsolete: ['dash', 'none', 'The target has something newer.'],
  Orphaned: ['question', 'bad', 'Its sink, or the target it was confirmed by, is not there.'],
};

export function phaseMark(phase) {
  const [form, tone] = phases[phase] ?? ['question', 'none'];
  return mark(form, tone, phase || 'Unknown');
}

// health says how a sink does.
export function health(sink) {
  const failing = sink.lastError && sink.lastErrorStatus;
  if (!sink.configured) return mark('question', 'bad', 'Not configured');
  if (sink.suspended) return mark('pause', 'warn', 'Suspended');
  if (sink.notReady) return mark('clock', 'bad', 'Not ready');
  if (sink.breaker === 'open') return mark('bolt', 'bad', 'Unreachable');
  if (sink.breaker === 'half-open') return mark('bolt', 'warn', 'Probing');
  if (failing) return mark('cross', 'bad', 'Failing');
  if (sink.pausedUntil && new Date(sink.pausedUntil) > Date.now()) return mark('clock', 'warn', 'Asked to wait');
  return mark('check', 'good', 'Healthy');
}

const sourceStates = {
  starting: ['clock', 'busy', 'Starting'], running: ['check', 'good', 'Running'], failing: ['cross', 'bad', 'Failing'],
  declares: ['dash', 'none', 'Declares senders'], 'not-configured': ['question', 'bad', 'Not configured'],
};

export function sourceMark(source) {
  if (source.held > 0) return mark('pause', 'bad', 'Fuse holds');
  return mark(...sourceStates[source.state] ?? ['question', 'none', source.state]);
}

export function sagaMark(saga) {
  if (saga.unresolved || saga.stuck) return mark('question', 'bad', 'Unresolved');
  if (saga.outcome === 'Committed') return mark('check', 'good', 'Committed');
  if (saga.outcome === 'RolledBack') return mark('back', 'warn', 'Rolled back');
  return mark('arrow', 'busy', saga.phase);
}

const stepStates = {
  waiting: ['dots', 'none'], sending: ['arrow', 'busy'], 'in-doubt': ['question', 'warn'], written: ['check', 'good'],
  refused: ['cross', 'bad'], undoing: ['back', 'busy'], undone: ['back', 'warn'], 'not-written': ['dash', 'none'],
};

export function stepMark(state) {
  return mark(...stepStates[state] ?? ['question', 'none'], state);
}

// shares draws how resources are spread over phases; the words stand beside it.
export function shares(counts) {
  const total = Object.values(counts).reduce((a, b) => a + b, 0);
  let x = 0;
  const bars = Object.keys(phases).filter((p) => counts[p] > 0).map((p) => {
    const width = 100 * counts[p] / total;
    const bar = s('rect', { class: phases[p][1], x, y: 0, width, height: 4 });
    x += width;
    return bar;
  });
  return s('svg', { class: 'shares', viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false' }, bars);
}
