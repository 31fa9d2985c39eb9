import { setMaxListeners } from 'node:events';
import { findAttack } from '../all-attacks.ts';
import type { Tally, Target } from '../attack.ts';

/**
 * The process of one attack. It starts the attack when it receives the target, reports its tally on the message `tally`, and ends, with its
 * connections, on `stop`.
 */

const tally: Tally = {};
const stopping = new AbortController();
setMaxListeners(0, stopping.signal);
const count = (what: string) => {
  tally[what] = (tally[what] ?? 0) + 1;
};
const attack = findAttack(process.argv[2] ?? '');

process.on('message', (message: Target | 'tally' | 'stop') => {
  if (message === 'stop') {
    stopping.abort();
    process.send?.(tally, () => process.disconnect());
  } else if (message === 'tally') {
    process.send?.(tally);
  } else {
    // An error of an attack ends this process, and the report shows it.
    void attack.run({ target: message, signal: stopping.signal, count });
  }
});
// Also if the process of the report has ended.
process.on('disconnect', () => process.exit());
process.send?.('ready');
