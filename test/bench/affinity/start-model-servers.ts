import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ModelServerOptions } from '../../stack/model-server.ts';
import { modelName } from '../gateways/gateway.ts';

export type ServersOrder = Pick<
  ModelServerOptions,
  'firstTokenMs' | 'tokensPerSecond' | 'tokensPerWrite' | 'prefixCache' | 'slots'
> & { count: number; models: readonly string[] };

/** One call as a server saw it; `server` counts from 0, `index` is the client's number of the request. */
export interface ServerCall {
  readonly server: number;
  readonly index: number;
  readonly requestId: string;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly state: 'running' | 'completed' | 'aborted' | 'failed';
  /** How many calls the server had when it arrived, including itself and those that wait inside. */
  readonly atOnce: number;
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly endedAt: number;
}

export type ServersReply = { urls: string[] } | { calls: ServerCall[] };

const program = fileURLToPath(new URL('./model-servers.ts', import.meta.url));

/** Starts simulated model servers with empty caches, in one process. The addresses are without `/v1`. */
export async function startModelServers(order: Omit<ServersOrder, 'models'>) {
  const child = fork(program);
  const exited = once(child, 'exit').then(([code]) =>
    Promise.reject(new Error(`the model servers exited with ${code}`)),
  );
  exited.catch(() => {}); // unless a reply is awaited
  async function ask(message: object): Promise<ServersReply> {
    child.send(message);
    const [reply] = await Promise.race([once(child, 'message'), exited]);
    return reply as ServersReply; // from model-servers.ts
  }
  const started = await ask({ ...order, models: [modelName] } satisfies ServersOrder);
  if (!('urls' in started)) throw new Error('the model servers have not said where they are');
  return {
    pid: child.pid ?? 0,
    urls: started.urls.map((url) => url.replace(/\/v1$/, '')),
    async calls(): Promise<ServerCall[]> {
      const reply = await ask({});
      return 'calls' in reply ? reply.calls : [];
    },
    async [Symbol.asyncDispose](): Promise<void> {
      child.kill('SIGKILL'); // it has nothing to end in order
      await exited.catch(() => {});
    },
  };
}
