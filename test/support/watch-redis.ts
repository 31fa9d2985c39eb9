import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import type { Redis } from 'ioredis';
import { nodesOf, openRedis } from './open-redis.ts';

export type RedisWatch = AsyncDisposable & {
  /**
   * The commands that clients sent to Redis while `work` ran, in order of execution. Those inside scripts begin with `lua`, if they are
   * wanted.
   */
  during(work: () => Promise<unknown>): Promise<string[][]>;
};

/** `at`: Unix time in seconds. All nodes are on this machine, so their times can be compared. */
type Seen = { at: number; command: string[] };
type NodeWatch = { during(work: () => Promise<unknown>): Promise<Seen[]>; end(): void };

/** Records every command that a Redis receives, or that any node of a cluster receives. */
export async function watchRedis(url: string, { inScripts = false } = {}): Promise<RedisWatch> {
  const redis = openRedis(url);
  const watches = await Promise.all((await nodesOf(redis)).map((node) => watchNode(node, inScripts)));
  return {
    async during(work) {
      const seen: Seen[] = [];
      const all = watches.reduce(
        (inner, watch) => async () => void seen.push(...(await watch.during(inner))),
        work as () => Promise<unknown>,
      );
      await all();
      return seen.sort((one, other) => one.at - other.at).map(({ command }) => command);
    },
    async [Symbol.asyncDispose]() {
      for (const watch of watches) watch.end();
      redis.disconnect();
    },
  };
}

/** With `MONITOR`, on its own socket: ioredis' monitor takes a line that arrives together with the reply to its command for a reply. */
async function watchNode(redis: Redis, inScripts: boolean): Promise<NodeWatch> {
  await redis.ping(); // connects, if nothing has used it yet
  const { host = '127.0.0.1', port = 0 } = redis.options;
  const socket = connect(port, host);
  const lines = createInterface({ input: socket });
  socket.write('MONITOR\r\n');
  await once(lines, 'line');

  const seen: Seen[] = [];
  const waiting = new Map<string, () => void>();
  lines.on('line', (line) => {
    const [, at, client] = /^\+([\d.]+) \[\d+ (\S+)\]/.exec(line) ?? [];
    const isInScript = client === 'lua';
    if (at === undefined || (isInScript && !inScripts)) return;
    const command = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, argument = '']) => argument);
    seen.push({ at: Number(at), command: isInScript ? ['lua', ...command] : command });
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
    return seen.findIndex(({ command: [, argument] }) => argument === name);
  }

  return {
    async during(work) {
      seen.length = 0;
      const begin = await mark();
      await work();
      const end = await mark();
      return seen.slice(begin + 1, end);
    },
    end: () => void socket.destroy(),
  };
}
