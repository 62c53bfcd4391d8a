// Dialogs: the browser's own, which keep the focus and end with Escape.
import { Problem } from './api.js';
import { fill, h, say } from './dom.js';

// problem shows an error as the API says it: what is wrong, then what to do.
export function problem(err) {
  if (!(err instanceof Problem)) {
    console.error(err);
    err = { title: 'This page failed', message: String(err), hint: 'load it again; if that does not help, it is a bug in pawl' };
  }
  const kind = [err.title, err.status || null, err.code].filter(Boolean).join(' · ');
  return h('div', { class: 'problem', role: 'alert' },
    h('p', null, h('strong', null, sentence(err.message))),
    err.hint && h('p', null, sentence(err.hint)), kind && h('p', { class: 'dim' }, kind));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? '' : '.');

function open(title, content, buttons) {
  const heading = h('h2', { id: 'dialog-title' }, title);
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' },
    h('form', { method: 'dialog' }, heading, content, h('div', { class: 'buttons' }, buttons)));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// tell shows something until it is closed.
export function tell(title, ...content) {
  open(title, content, [h('button', { value: 'close' }, 'Close')]);
}

// confirm asks before something is done, does it, and says how it went. With word, that
// has to be typed. It returns whether it was done. The dialog stays when it fails, with
// the reason.
export function confirm({ title, text, verb, danger, word, act, done }) {
  return new Promise((resolve) => {
    let succeeded = false;
    const typed = word && h('input', { id: 'typed', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
    const failure = h('div');
    const go = h('button', { type: 'submit', class: danger ? 'danger' : 'main', value: 'go' }, verb);
    const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
    const dialog = open(title, [
      text.map((t) => h('p', null, t)),
      word && h('p', null, h('label', { for: 'typed' }, 'Type ', h('code', null, word), ' to go on'), typed),
      failure,
    ], [cancel, go]);
    const check = () => { go.disabled = Boolean(word) && typed.value !== word; };
    check();
    typed?.addEventListener('input', check);
    (typed || cancel).focus();
    dialog.querySelector('form').addEventListener('submit', async (event) => {
      event.preventDefault();
      if (go.disabled) return;
      go.disabled = true;
      fill(failure);
      try {
        const answer = await act();
        succeeded = true;
        say(typeof done === 'function' ? done(answer) : done);
        dialog.close();
      } catch (err) {
        fill(failure, problem(err));
        check();
      }
    });
    dialog.addEventListener('close', () => resolve(succeeded));
  });
}
