import type { Socket } from 'node:net';
import type { StackModel } from '../../stack/plan.ts';
import type { Attacker } from '../attack.ts';
import { openSocket, untilClosed } from '../attacker/open-socket.ts';
import { repeat } from '../attacker/repeat.ts';
import { post } from '../attacker/send-bytes.ts';

/** A model whose answers may be long. */
export const longChat: Record<string, StackModel> = {
  'long-chat': { tier: 'guest', pool: 'default', output_tokens_max: 1_000_000 },
};

const clients = 60;
const asksPerSecond = 4;
const slowBytesPerSecond = 4_096;
/** The model repeats this, and a little beside it, 1,000 times. */
const question = `repeat 1000 ${'lorem ipsum '.repeat(160)}`;

/** Clients that ask for long answers, and read them slowly or never. One that is disconnected comes again. */
export async function askForMuch(attacker: Attacker, { stream }: { stream: boolean }): Promise<void> {
  const body = JSON.stringify({ model: 'long-chat', stream, messages: [{ role: 'user', content: question }] });
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
