// The daemon's API. The token is kept in this variable alone: no cookie, no storage,
// so that no other page can use it, and it is gone with the tab.

let token = '';

export function setToken(text) { token = text.trim(); }
export const hasToken = () => token !== '';

// Problem is what the API answers in place of what was asked for.
export class Problem extends Error {
  constructor(status, p) {
    super(p.detail || `the daemon answered with status ${status}`);
    this.status = status;
    this.code = p.code ?? '';
    this.title = p.title ?? '';
    this.hint = p.hint ?? '';
  }
}

const unreachable = () => new Problem(0, {
  title: 'No answer', detail: 'the daemon does not answer', hint: 'is it running? what is shown here may be old',
});

// address is an API path with its query. It is relative, so that a proxy may have put
// something before it.
export function address(path, query = {}) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null && one !== '') q.append(name, one);
    }
  }
  const text = q.toString();
  return `../${path}${text && `?${text}`}`;
}

// ask sends one request and returns its response, which is no problem.
export async function ask(method, path, { query, body, signal, headers } = {}) {
  const init = { method, signal, headers: { ...headers }, credentials: 'same-origin', cache: 'no-store', redirect: 'error' };
  if (token) init.headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers['Content-Type'] = 'application/json';
  }
  let response;
  try {
    response = await fetch(address(path, query), init);
  } catch (err) {
    throw signal?.aborted ? err : unreachable();
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Problem(response.status, problem);
}

export async function get(path, query, signal) {
  const response = await ask('GET', path, { query, signal });
  return response.json();
}

export async function post(path, query, body) {
  const response = await ask('POST', path, { query, body });
  return response.status === 204 ? null : response.json().catch(() => null);
}

// resourcePath is where the API has one resource; its key is in the query.
export const resourcePath = (sink) => `v1/sinks/${encodeURIComponent(sink)}/resource`;
