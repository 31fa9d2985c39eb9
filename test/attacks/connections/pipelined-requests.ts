import { head } from '../../support/refusal.ts';
import type { Attack } from '../attack.ts';
import { countAnswers, openSocket, untilClosed } from '../attacker/open-socket.ts';
import { repeat } from '../attacker/repeat.ts';
import { post } from '../attacker/send-bytes.ts';

const chat = JSON.stringify({ model: 'small-chat', messages: [{ role: 'user', content: 'Hi' }] });

export const pipelinedRequests: Attack = {
  id: '9',
  name: 'pipelined-requests',
  does: 'hundreds of requests in one write on one connection, with a key, opened again when it is closed; at most 20 writes a second',
  accounts: 1,
  run: (attacker) =>
    repeat(attacker, { clients: 1, perSecond: 20 }, async (_, index) => {
      const [key = ''] = attacker.target.keys;
      const request =
        index % 2 === 0
          ? post({ path: '/v1/chat/completions', key, body: chat })
          : Buffer.from(head('GET /v1/models HTTP/1.1', `Authorization: Bearer ${key}`));
      const socket = await openSocket(attacker);
      if (socket === undefined) return;
      countAnswers(attacker, socket);
      // Within the limit of waiting requests on a connection, and far beyond it.
      const requests = index % 4 < 2 ? 100 : 500;
      socket.end(Buffer.concat(Array.from({ length: requests }, () => request)));
      await untilClosed(socket);
    }),
};
