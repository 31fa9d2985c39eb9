import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';

export type RedisWatch = AsyncDisposable & {
  /** The commands that clients sent to Redis while `work` ran, in order of execution, without those inside scripts. */
  during(work: () => Promise<unknown>): Promise<string[][]>;
};

/**
 * Records every command that a Redis receives, with `MONITOR`, on its own socket: ioredis' monitor takes a line that arrives together with
 * the reply to its command for a reply.
 */
export async function watchRedis(url: string): Promise<RedisWatch> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const lines = createInterface({ input: socket });
  socket.write('MONITOR\r\n');
  await once(lines, 'line');

  const redis = new Redis(url);
  const seen: string[][] = [];
  const waiting = new Map<string, () => void>();
  lines.on('line', (line) => {
    if (/^\+[\d.]+ \[\d+ lua\]/.test(line)) return;
    const command = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, argument = '']) => argument);
    seen.push(command);
    waiting.get(command[1] ?? '')?.();
  });
  let marks = 0;

  /** Appears in the stream of commands where it was sent, and is awaited there. */
  async function mark(): Promise<number> {
    const name = `mark ${++marks}`;
    const arrived = new Promise<void>((resolve) => waiting.set(name, resolve));
    await redis.echo(name);
    await arrived;
    waiting.delete(name);
    return seen.findIndex(([, argument]) => argument === name);
  }

  return {
    async during(work) {
      seen.length = 0;
      const begin = await mark();
      await work();
      const end = await mark();
      return seen.slice(begin + 1, end);
    },
    async [Symbol.asyncDispose]() {
      socket.destroy();
      redis.disconnect();
    },
  };
}
