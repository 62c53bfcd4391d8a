// The daemon's status, as it is told while it changes.
import { follow } from './live.js';

let newest = null;
const readers = new Set();

// begin follows the status until signal aborts; state is as of follow.
export function begin(state, signal) {
  follow('v1/status/watch', {}, {
    signal, state,
    on: (name, data) => {
      if (name !== 'status') return;
      newest = data;
      for (const tell of [...readers]) tell(data);
    },
  });
}

export const current = () => newest;

// onStatus calls tell with the status, now where there is one and whenever it
// changes, until signal aborts.
export function onStatus(tell, signal) {
  readers.add(tell);
  signal.addEventListener('abort', () => readers.delete(tell));
  if (newest) tell(newest);
}
