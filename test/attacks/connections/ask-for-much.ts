import type { Socket } from 'node:net';
import type { Attacker } from '../attack.ts';
import { openSocket, untilClosed } from '../attacker/open-socket.ts';
import { repeat } from '../attacker/repeat.ts';
import { post } from '../attacker/send-bytes.ts';

const clients = 60;
const asksPerSecond = 3;
const slowBytesPerSecond = 4_096;

/** Clients that ask for long answers, and read them slowly or never. A disconnected client reconnects. */
export async function askForMuch(attacker: Attacker, { stream }: { stream: boolean }): Promise<void> {
  const body = JSON.stringify({ model: 'long-chat', stream, messages: [{ role: 'user', content: 'Hi' }] });
  await repeat(attacker, { clients, perSecond: asksPerSecond }, async (client) => {
    const socket = await openSocket(attacker);
    if (socket === undefined) return;
    const key = attacker.target.keys[client % attacker.target.keys.length];
    socket.write(post({ path: '/v1/chat/completions', key, body }));
    const reading = setInterval(() => readSome(socket, client), 1_000);
    await untilClosed(socket);
    clearInterval(reading);
  });
}

function readSome(socket: Socket, client: number): void {
  if (client % 2 === 0) socket.read(slowBytesPerSecond);
}
