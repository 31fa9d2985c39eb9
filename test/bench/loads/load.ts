import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** A request to be sent over and over; of several urls each gets as many clients. */
export type Question = { urls: readonly string[]; headers: Record<string, string>; body: string };

export type Load = { name: string; kind: 'one' | 'many' | 'streams'; clients: number; fields: object };

/** What the streams of the backend are: so many tokens at this pace. */
export const streamTokens = 60;
export const streamTokensPerSecond = 20;

/** Each token of these streams is a time as text, and a tokenizer counts more than one: a lower limit would cut the stream. */
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
 * `failed` counts what is not a whole answer of status 200. Of streams: from the request to the first token, between two
 * tokens, and from when the model server sent a token until it was received.
 */
export const figuresSchema = z.object({
  answered: z.number(),
  failed: z.number(),
  /** How many of them by status, or by what broke. */
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

/** Sends the load from a process of its own, whose cost is told with the figures; fails where nothing was answered. */
export async function generate(order: Order): Promise<Figures> {
  const child = fork(generator);
  try {
    child.send(order);
    const [message] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => Promise.reject(new Error(`the generator has ended with ${code}`))),
    ]);
    const figures = message as Figures; // from generate.ts
    if (figures.answered === 0) throw new Error(`of ${figures.failed} requests none was answered`);
    return figures;
  } finally {
    child.kill();
  }
}
