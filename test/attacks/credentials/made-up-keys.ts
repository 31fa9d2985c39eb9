import { makeKey } from '../../../ingress/authentication/api-key.ts';
import type { Attack } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { repeat } from '../attacker/repeat.ts';

const failuresPerMinute = 300;
/** The attack may touch two minutes. */
const failuresMax = 2 * failuresPerMinute;

/** More than an ingress looks up at once of keys that it has not seen. */
const atOnce = 250;

export const madeUpKeys: Attack = {
  id: '7',
  name: 'made-up-keys',
  does: 'made-up keys with a valid checksum, 250 at once, at most twice a second',
  others: 'newClients',
  gains({ '401 INVALID_KEY': failures = 0 }) {
    return failures > failuresMax ? [`${failures} keys looked up, more than ${failuresMax}`] : [];
  },
  async run(attacker) {
    const send = openAgent(attacker);
    const sendOne = () => send({ method: 'GET', path: '/v1/models', bearer: makeKey() });
    await repeat(attacker, { clients: 1, perSecond: 2 }, () => Promise.all(Array.from({ length: atOnce }, sendOne)));
  },
};
