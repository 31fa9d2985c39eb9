import type { Attack } from '../attack.ts';
import { openSocket, untilClosed } from '../attacker/open-socket.ts';
import { repeat } from '../attacker/repeat.ts';

export const idleConnections: Attack = {
  id: '10a',
  name: 'idle-connections',
  does: '2,500 connections without data, opened again when they are closed; at most 500 a second',
  run: (attacker) =>
    repeat(attacker, { clients: 2_500, perSecond: 500 }, async () => {
      const socket = await openSocket(attacker);
      if (socket === undefined) return;
      socket.resume();
      await untilClosed(socket);
    }),
};
