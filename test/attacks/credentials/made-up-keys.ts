import { makeKey } from '../../../ingress/api-key.ts';
import type { Attack } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { repeat } from '../attacker/repeat.ts';

const failuresPerMinute = 300;
/** The attack may touch two minutes. */
const failuresMax = 2 * failuresPerMinute;

export const madeUpKeys: Attack = {
  id: '7',
  name: 'made-up-keys',
  does: 'made-up keys with a right checksum on 50 connections; at most 600 a second',
  others: 'newcomers',
  gains({ '401 INVALID_KEY': failures = 0 }) {
    return failures > failuresMax ? [`${failures} keys looked up, more than ${failuresMax}`] : [];
  },
  async run(attacker) {
    const send = openAgent(attacker);
    await repeat(attacker, { clients: 50, perSecond: 600 }, () =>
      send({ method: 'GET', path: '/v1/models', bearer: makeKey() }),
    );
  },
};
