import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'undici';
import { z } from 'zod';
import { at } from '../offer.ts';
import type { Figures, Order } from './load.ts';

type Sent = Omit<Figures, 'generatorCpuSeconds'>;

const answerSecondsMax = 60;
const autocannon = createRequire(import.meta.url)('autocannon') as (options: object) => Promise<unknown>; // has no types
const autocannonReport = z.object({
  duration: z.number(),
  latency: z.object({ p50: z.number(), p99: z.number() }),
  errors: z.number(),
  timeouts: z.number(),
  non2xx: z.number(),
  '2xx': z.number(),
  statusCodeStats: z.record(z.string(), z.object({ count: z.number() })),
});

/**
 * Runs many clients, each of which sends its next request when the last is answered. Times are whole milliseconds, as the generator
 * counts them. Requests without an answer at the end are in no figure.
 */
export async function sendMany({ question, clients, seconds }: Order): Promise<Sent> {
  const { urls, headers, bodies } = question;
  const requests = bodies.map((body) => ({ method: 'POST', headers, body }));
  const report = autocannonReport.parse(
    await autocannon({
      ...{ url: urls, requests },
      ...{ connections: clients, duration: seconds, timeout: answerSecondsMax },
    }),
  );
  const statuses = Object.entries(report.statusCodeStats).filter(([status]) => !status.startsWith('2'));
  const { errors, timeouts } = report;
  const failures = { ...Object.fromEntries(statuses.map(([status, { count }]) => [status, count])), errors, timeouts };
  return {
    answered: report['2xx'],
    failed: errors + timeouts + report.non2xx,
    failures: Object.fromEntries(Object.entries(failures).filter(([, count]) => count > 0)),
    seconds: report.duration,
    p50Ms: report.latency.p50,
    p99Ms: report.latency.p99,
  };
}

/** Runs one client on one connection, to the first url, with its own timing: whole milliseconds are too coarse to compare these. */
export async function sendOne({ question, seconds }: Order): Promise<Sent> {
  const { origin, pathname: path } = new URL(question.urls[0] ?? '');
  const client = new Client(origin);
  const timesMs: number[] = [];
  let failed = 0;
  const begunAt = performance.now();
  while (performance.now() < begunAt + 1_000 * seconds) {
    const startedAt = performance.now();
    const { headers, bodies } = question;
    const sent = bodies[timesMs.length % bodies.length] ?? '';
    try {
      const { statusCode, body } = await client.request({ path, method: 'POST', headers, body: sent });
      await body.text();
      if (statusCode === 200) timesMs.push(performance.now() - startedAt);
      else failed += 1;
    } catch {
      failed += 1;
      await sleep(10); // nothing listens, and repeated attempts to connect would be no load
    }
  }
  const tookMs = performance.now() - begunAt;
  await client.close();
  timesMs.sort((one, other) => one - other);
  return {
    answered: timesMs.length,
    failed,
    seconds: tookMs / 1_000,
    p50Ms: at(timesMs, 0.5),
    p99Ms: at(timesMs, 0.99),
  };
}
