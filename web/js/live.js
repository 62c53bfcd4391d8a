// Server-sent events. EventSource can send no token, so they are read from fetch.
import { ask, Problem } from './api.js';

// follow reads a stream until signal aborts, and comes back when it breaks. on gets
// each event's name and data; state is told "live", "waiting" or a Problem that ends
// it. A page that nobody sees reads nothing: a browser has few connections to spare.
export async function follow(path, query, { on, state, signal }) {
  let last = '';
  let pause = 0;
  while (!signal.aborted) {
    await shown(signal);
    const read = new AbortController();
    const hide = () => { if (document.hidden) read.abort(); };
    const end = () => read.abort();
    document.addEventListener('visibilitychange', hide);
    signal.addEventListener('abort', end);
    try {
      const headers = last ? { 'Last-Event-ID': last } : {};
      const response = await ask('GET', path, { query, signal: read.signal, headers });
      state?.('live');
      pause = 0;
      await events(response.body.getReader(), (name, id, data) => {
        if (id) last = id;
        on(name, data);
      });
    } catch (err) {
      // A client that is held back (429) may come again; what else is refused stays so.
      if (err instanceof Problem && err.status >= 400 && err.status < 500 && err.status !== 429) {
        if (!signal.aborted) state?.(err);
        return;
      }
    } finally {
      document.removeEventListener('visibilitychange', hide);
      signal.removeEventListener('abort', end);
      read.abort();
    }
    if (signal.aborted) return;
    if (!document.hidden) {
      state?.('waiting');
      pause = Math.min(pause * 2 || 500, 10000);
      await delay(pause * (0.75 + Math.random() / 2), signal);
    }
  }
}

function shown(signal) {
  if (!document.hidden) return null;
  return new Promise((resolve) => {
    document.addEventListener('visibilitychange', resolve, { once: true });
    signal.addEventListener('abort', resolve, { once: true });
  });
}

function delay(ms, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
    signal.addEventListener('abort', resolve, { once: true });
  });
}

// events takes a stream apart. Pawl's events have one line of data each.
async function events(reader, on) {
  const text = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + text.decode(value, { stream: true })).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const field = Object.fromEntries(part.split('\n').map((line) => {
        const colon = line.indexOf(': ');
        return [line.slice(0, colon), line.slice(colon + 2)];
      }));
      if (field.event) on(field.event, field.id, field.data ? JSON.parse(field.data) : null);
    }
  }
}
