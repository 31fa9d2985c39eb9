import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** A request that is sent repeatedly; of several bodies, each client sends one after another. Each of several urls gets as many clients. */
export type Question = { urls: readonly string[]; headers: Record<string, string>; bodies: readonly string[] };

export type Load = {
  name: string;
  kind: 'one' | 'many' | 'streams';
  clients: number;
  fields: object;
  models?: readonly string[];
};

/** The streams of the backend: this many tokens at this pace. */
export const streamTokens = 60;
export const streamTokensPerSecond = 20;

/** Each token of these streams is a time as text, which a tokenizer counts as several: a lower limit would cut the stream. */
const tokensOfATime = 10;

export const loads: readonly Load[] = [
  { name: '1 client', kind: 'one', clients: 1, fields: {} },
  { name: '64 clients', kind: 'many', clients: 64, fields: {} },
  { name: '256 clients', kind: 'many', clients: 256, fields: {} },
  ...[64, 256, 512].map(streamsOf),
];

function streamsOf(clients: number): Load {
  return {
    name: `${clients} streams`,
    kind: 'streams',
    clients,
    fields: {
      stream: true,
      max_tokens: streamTokens * tokensOfATime,
      messages: [{ role: 'user', content: `Say ${streamTokens} tokens, ${streamTokensPerSecond} a second.` }],
    },
  };
}

export const streamFiguresSchema = z.object({
  firstTokenP50Ms: z.number(),
  firstTokenP99Ms: z.number(),
  betweenP50Ms: z.number(),
  betweenP99Ms: z.number(),
  lateP50Ms: z.number(),
  lateP99Ms: z.number(),
  chunksPerSecond: z.number(),
});

/**
 * `failed` counts everything except complete answers of status 200. For streams: the time from the request to the first token, between
 * two tokens, and from the sending of a token by the model server to its arrival.
 */
export const figuresSchema = z.object({
  answered: z.number(),
  failed: z.number(),
  /** The failures by status, or by error. */
  failures: z.record(z.string(), z.number()).optional(),
  seconds: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  generatorCpuSeconds: z.number(),
  stream: streamFiguresSchema.optional(),
});
export type Figures = z.infer<typeof figuresSchema>;

export type Order = { kind: Load['kind']; clients: number; seconds: number; question: Question };

const generator = fileURLToPath(new URL('./generate.ts', import.meta.url));

/** Sends the load from a separate process, whose cost is in the figures. Fails if nothing was answered. */
export async function generate(order: Order): Promise<Figures> {
  const child = fork(generator);
  try {
    child.send(order);
    const [message] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => Promise.reject(new Error(`the generator exited with ${code}`))),
    ]);
    const figures = message as Figures; // from generate.ts
    if (figures.answered === 0) throw new Error(`of ${figures.failed} requests none was answered`);
    return figures;
  } finally {
    child.kill();
  }
}
