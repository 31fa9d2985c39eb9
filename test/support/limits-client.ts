import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import type { AdmitAnswer } from '../../shared/limits/admission.ts';
import type { Allowance } from '../../shared/limits/admit.ts';
import { connectForRequests, type Redis } from '../../shared/redis/connections.ts';
import { waitUntilReady } from '../../shared/redis/wait-for-redis.ts';
import { type LimitsSide, openLimits } from './limits-side.ts';
import { recordedLog } from './recorded-log.ts';
import { replaceClock } from './redis-clock.ts';

/**
 * How a client sends each of its requests. `twice`: every call is made twice, at once or one after the other. `cut`: for every tenth call
 * the connection is closed before the reply, and the call is repeated on another. With `settled` each request is started and settled, a
 * share of `short` with more tokens than reserved.
 */
export const taskSchema = z.object({
  url: z.string(),
  account: z.string(),
  attempts: z.int(),
  delivery: z.enum(['once', 'twice', 'cut']),
  allowance: z.object({ requestsPerMinute: z.int().optional(), tokensPerMonth: z.int().optional() }),
  settled: z.object({ short: z.number() }).optional(),
});

/** `shorts`: the number of tokens missing in each reservation that was too small. `faults`: wrong answers to repeated calls. */
export const reportSchema = z.object({
  admitted: z.int(),
  refused: z.int(),
  answered: z.int(),
  settledTokens: z.int(),
  reservedMax: z.int(),
  shorts: z.array(z.int()),
  faults: z.array(z.string()),
});

export type Task = z.infer<typeof taskSchema>;
export type Report = z.infer<typeof reportSchema>;
export type LimitsClient = Awaited<ReturnType<typeof createLimitsClient>>;

/** More calls fail only if Redis is unavailable, and then the test has failed. */
const triesMax = 50;
const tokensMax = 400;

/** One client with its own connection, as an ingress has. */
export async function createLimitsClient(task: Task, { name, random }: { name: string; random: () => number }) {
  const report: Report = {
    ...{ admitted: 0, refused: 0, answered: 0, settledTokens: 0, reservedMax: 0 },
    ...{ shorts: [], faults: [] },
  };
  let [redis, side] = await connect(task);

  async function cut(): Promise<void> {
    if (random() < 0.5) await nextTurn();
    redis.disconnect();
    [redis, side] = await connect(task);
  }

  /** Repeats a call until it is answered. Whether earlier calls were executed is unknown. */
  async function ask<T>(call: (side: LimitsSide) => Promise<T>): Promise<T> {
    for (let tries = 1; tries <= triesMax; tries++) {
      const answer = call(side);
      if (task.delivery === 'cut' && random() < 0.1) {
        answer.catch(() => undefined); // its result is ignored
        await cut();
        continue;
      }
      try {
        const received = await answer;
        report.answered += 1;
        return received;
      } catch {
        await waitUntilReady(redis, AbortSignal.timeout(30_000));
      }
    }
    throw new Error(`no answer to ${triesMax} calls`);
  }

  async function deliver<T>(call: (side: LimitsSide) => Promise<T>): Promise<T[]> {
    if (task.delivery !== 'twice') return [await ask(call)];
    if (random() < 0.5) return Promise.all([ask(call), ask(call)]);
    return [await ask(call), await ask(call)];
  }

  async function admit(requestId: string, tokens: number): Promise<AdmitAnswer[]> {
    const allowance: Partial<Allowance> = definedOf(task.allowance);
    return deliver((client) => client.admit({ requestId, tokens, allowance }));
  }

  async function settle(requestId: string, reserved: number, short: number): Promise<void> {
    const starts = await deliver((client) => client.start(requestId));
    if (starts.some(({ outcome, run }) => outcome !== 'run' || run !== 1))
      report.faults.push(`${requestId} did not run`);
    const most = random() < short ? reserved * 1.5 : reserved;
    const tokens = Math.round(random() * most);
    const settled = await deliver((client) => client.settle(requestId, { tokens }));
    if (settled.includes(false)) report.faults.push(`${requestId} was not settled`);
    report.settledTokens += tokens;
    if (tokens > reserved) report.shorts.push(tokens - reserved);
    if (task.delivery === 'once') return;
    const late = await admit(requestId, reserved);
    if (late.some(({ outcome }) => outcome !== 'ended')) report.faults.push(`${requestId} was admitted after its end`);
  }

  async function attempt(requestId: string): Promise<void> {
    const tokens = 1 + Math.floor(random() * tokensMax);
    const answers = await admit(requestId, tokens);
    const other = answers.find(({ outcome }) => outcome !== 'admitted' && outcome !== 'refused');
    if (other !== undefined) report.faults.push(`${requestId} was ${other.outcome}`);
    if (!answers.some(({ outcome }) => outcome === 'admitted')) {
      report.refused += 1;
      return;
    }
    if (answers[0]?.outcome === 'admitted' && answers.at(-1)?.outcome !== 'admitted') {
      report.faults.push(`${requestId} was admitted, and then refused`);
    }
    report.admitted += 1;
    report.reservedMax = Math.max(report.reservedMax, tokens);
    if (task.settled !== undefined) await settle(requestId, tokens, task.settled.short);
  }

  return {
    async run(): Promise<Report> {
      for (let index = 0; index < task.attempts; index++) await attempt(`${name} ${index}`);
      return report;
    },
    [Symbol.dispose]: () => redis.disconnect(),
  };
}

async function connect({ url, account }: Task): Promise<[Redis, LimitsSide]> {
  const redis = connectForRequests(url, recordedLog().log);
  replaceClock(redis);
  await waitUntilReady(redis, AbortSignal.timeout(30_000));
  return [redis, openLimits(redis, { account })];
}

function definedOf(allowance: Task['allowance']): Partial<Allowance> {
  return Object.fromEntries(Object.entries(allowance).filter(([, limit]) => limit !== undefined));
}
