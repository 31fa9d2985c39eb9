import { connect, type Socket } from 'node:net';
import { type Attacker, attackerAddress } from '../attack.ts';

/** A connection from the attacker's address, or undefined if it is refused. Its end is counted. It ends with the attack. */
export async function openSocket({ target: { port }, signal, count }: Attacker): Promise<Socket | undefined> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: attackerAddress });
  let failure = 'connections closed';
  socket.on('error', (error: NodeJS.ErrnoException) => {
    failure = `connections ended by ${error.code}`;
  });
  socket.once('close', () => signal.aborted || count(failure));
  const leave = () => socket.destroy();
  signal.addEventListener('abort', leave);
  socket.once('close', () => signal.removeEventListener('abort', leave));
  await until(socket, ['connect', 'close']);
  if (socket.destroyed) return undefined;
  count('connections opened');
  return socket;
}

/** A status line may arrive in two pieces. */
const keptCharacters = 12;

/** Counts the status of each answer on this connection. */
export function countAnswers({ count }: Pick<Attacker, 'count'>, socket: Socket): void {
  let rest = '';
  socket.on('data', (bytes: Buffer) => {
    const text = rest + bytes.toString('latin1');
    let end = 0;
    for (const match of text.matchAll(/HTTP\/1\.1 (\d{3})/g)) {
      count(match[1] ?? '');
      end = match.index + match[0].length;
    }
    rest = text.slice(Math.max(end, text.length - keptCharacters));
  });
}

export async function untilClosed(socket: Socket): Promise<void> {
  if (!socket.closed) await until(socket, ['close']);
}

/** Resolves with the first of these events. An error is followed by the end of the connection. */
function until(socket: Socket, events: readonly ('connect' | 'close')[]): Promise<void> {
  return new Promise((resolve) => {
    for (const event of events) socket.once(event, () => resolve());
  });
}
