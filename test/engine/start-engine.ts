import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { freePort } from '../stack/free-port.ts';
import { guardProcess } from '../stack/guard-process.ts';
import { type EngineFiles, type EngineModel, modelFile } from './provide-engine.ts';

const script = fileURLToPath(new URL('serve.py', import.meta.url));
/** On a busy machine. */
const startWithinMs = 60_000;
/** After SIGTERM it does not listen any more, but stays while an answer is under way that is no stream. */
const stopWithinMs = 2_000;
const pollMs = 20;
const kinds = { embed: 'embed', rank: 'rank' } as const;
const slotsSchema = z.array(
  z.object({ is_processing: z.boolean(), next_token: z.array(z.object({ n_decoded: z.number() })).default([]) }),
);

export interface Engine extends AsyncDisposable {
  /** Without `/v1`. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** A part of its command line. */
  readonly command: string;
  /** The status of its health: 503 while it loads its model. Undefined while it does not listen. */
  health(): Promise<number | undefined>;
  untilReady(): Promise<void>;
  /** The tokens that each of its slots that work has generated so far. */
  busySlots(): Promise<number[]>;
  /** Its own count, as `prompt_tokens_total`. */
  count(metric: string): Promise<number>;
  /** Sends a signal. Waits for the end if the signal ends a process. */
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Ends it as a supervisor does: SIGKILL soon after SIGTERM. */
  stop(): Promise<void>;
  /** Stops it if it runs, and starts it on the same port. Resolves when it is ready, unless that is not to be awaited. */
  restart(wishes?: { isAwaited: boolean }): Promise<void>;
  /** What it wrote last. */
  log(): string;
}

type Options = {
  files: EngineFiles;
  model: EngineModel;
  /** How many requests it works on at once. */
  slots: number;
  /** Of each slot. */
  contextTokens: number;
  /** Default: a free one. */
  port?: number;
};

/**
 * Starts llama.cpp's server with one of the models that were made for it. Resolves when it is ready. It ends with this process, even if
 * that is killed.
 */
export async function startEngine(options: Options): Promise<Engine> {
  const { port = await freePort() } = options;
  const url = `http://127.0.0.1:${port}`;
  let running = spawnEngine({ ...options, port });

  const get = (path: string) => fetch(`${url}${path}`, { signal: AbortSignal.timeout(startWithinMs) });
  const health = () =>
    get('/health').then(
      ({ status }) => status,
      () => undefined,
    );
  async function untilReady(): Promise<void> {
    for (const giveUpAt = Date.now() + startWithinMs; (await health()) !== 200; await sleep(pollMs)) {
      const { exitCode, signalCode } = running.child;
      if (exitCode === null && signalCode === null && Date.now() < giveUpAt) continue;
      running.child.kill('SIGKILL');
      throw new Error(`the engine did not start: ${running.log().slice(-2_000)}`);
    }
  }
  async function stop(): Promise<void> {
    running.child.kill('SIGCONT'); // a frozen process handles no other signal
    running.child.kill('SIGTERM');
    const late = setTimeout(() => running.child.kill('SIGKILL'), stopWithinMs);
    await running.ended;
    clearTimeout(late);
  }
  await untilReady();
  return {
    url,
    port,
    command: basename(script),
    get pid() {
      return running.child.pid ?? 0; // a spawned child has one
    },
    health,
    untilReady,
    async busySlots() {
      const slots = slotsSchema.parse(await (await get('/slots')).json());
      const busy = slots.filter(({ is_processing }) => is_processing);
      return busy.map(({ next_token: [generated] }) => generated?.n_decoded ?? 0);
    },
    async count(metric) {
      const [, value] = new RegExp(`^llamacpp:${metric} (\\S+)$`, 'm').exec(await (await get('/metrics')).text()) ?? [];
      if (value === undefined) throw new Error(`the engine has no ${metric}`);
      return Number(value);
    },
    async kill(signal) {
      running.child.kill(signal);
      if (!['SIGSTOP', 'SIGCONT'].includes(signal)) await running.ended;
    },
    stop,
    async restart({ isAwaited } = { isAwaited: true }) {
      await stop();
      running = spawnEngine({ ...options, port });
      if (isAwaited) await untilReady();
    },
    log: () => running.log(),
    [Symbol.asyncDispose]: stop,
  };
}

type Running = { child: ChildProcess; ended: Promise<unknown>; log: () => string };

function spawnEngine({ files, model, slots, contextTokens, port }: Options): Running {
  const kind = kinds[model as keyof typeof kinds] ?? 'generate';
  const settings = { file: modelFile(files, model), port, name: model, kind, slots, context: slots * contextTokens };
  const child = spawn(files.python, [script, JSON.stringify(settings)], {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true, // Ctrl-C does not reach it: it is stopped after everything that still needs it
  });
  guardProcess(child, 'kill -KILL "$1"');
  let log = '';
  child.stderr?.on('data', (bytes: Buffer) => {
    log = (log + bytes.toString()).slice(-100_000);
  });
  return { child, ended: once(child, 'exit'), log: () => log };
}
