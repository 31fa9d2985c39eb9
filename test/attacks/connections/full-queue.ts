import type { Attack } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { repeat } from '../attacker/repeat.ts';

const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hi' }] };

export const fullQueue: Attack = {
  id: '13',
  name: 'full-queue',
  does: 'chat requests of one account without limits, 400 at once, where 100 may wait; at most 600 a second',
  accounts: 1,
  isUnlimited: true,
  stack: { env: { QUEUE_DEPTH_MAX: '100' } },
  async run(attacker) {
    const send = openAgent(attacker);
    const [bearer = ''] = attacker.target.keys;
    await repeat(attacker, { clients: 400, perSecond: 600 }, () =>
      send({ path: '/v1/chat/completions', bearer, body }),
    );
  },
};
