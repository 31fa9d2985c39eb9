import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { Agent } from 'undici';
import type { Stack } from '../../stack/stack.ts';
import { type AskedRequest, ask } from '../truth/ask.ts';
import type { AgreedEvidence, Witnesses } from '../truth/open-witnesses.ts';
import type { See } from './fault-test.ts';

/** As long as any test waits: a hang, and no bound for the speed of a machine. */
const neverAHangMs = 30_000;

/** For an outage that all requests in flight outlast: a response takes twice as long. */
export const shortOutage = { clients: 24, forMs: 5_000 };

type Outage = {
  stack: Stack;
  witnesses: Witnesses;
  /** Requests in flight when it begins. Half of them are streams. */
  clients: number;
  forMs: number;
  begin(): unknown;
  end(): unknown;
};

export type OutageReport = {
  evidence: AgreedEvidence;
  inFlight: readonly AskedRequest[];
  refused: readonly AskedRequest[];
};

/**
 * Causes an outage with requests in flight, each of which has called a backend. New requests get 503 in time during the outage, and are
 * answered soon after it. In the end all counts agree.
 */
export async function weather(t: ExecutionContext, see: See, outage: Outage): Promise<OutageReport> {
  const { stack, witnesses, clients, forMs } = outage;
  const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  t.teardown(() => agent.destroy());
  const { wish, keys } = witnesses;
  const as = (client: number, question: string) => {
    const stream = client % 2 === 0;
    return ask({ ...wish(question), key: keys[client % keys.length] ?? '', stream, includeUsage: stream }, agent);
  };
  const calls = () => stack.modelServers.flatMap((server) => server.calls());

  const begun = () => calls().filter(({ completionTokens }) => completionTokens > 5).length;
  const before = begun();
  const asking = Array.from({ length: clients }, (_, client) => as(client, `In flight ${client}, repeat 8?`));
  while (begun() < before + clients) await sleep(20);
  await outage.begin();
  const until = performance.now() + forMs;
  const refused: AskedRequest[] = [];
  const tookMs: number[] = [];
  while (performance.now() < until) {
    const askedAt = performance.now();
    refused.push(await as(refused.length, `Meanwhile ${refused.length}?`));
    tookMs.push(performance.now() - askedAt);
    await sleep(200);
  }
  await outage.end();
  const endedAt = performance.now();
  const after: AskedRequest[] = [];
  do {
    after.push(await as(1, `Afterwards ${after.length}?`));
    await sleep(20);
  } while (after.at(-1)?.ending !== 'answered');
  const recoveredMs = performance.now() - endedAt;
  const inFlight = await Promise.all(asking);
  const evidence = await witnesses.agreeOn(t, [...inFlight, ...refused, ...after]);

  t.deepEqual([...new Set(refused.map((one) => ('status' in one ? one.status : one.ending)))], [503]);
  const slowestMs = Math.max(...tookMs);
  t.true(slowestMs < neverAHangMs, `a new request waited ${slowestMs} ms`);
  t.true(recoveredMs < neverAHangMs, `it took ${recoveredMs} ms to recover`);
  const answered = inFlight.filter(({ ending }) => ending === 'answered').length;
  const again = [...evidence.records.values()].filter(({ runs }) => runs > 1).length;
  see(`${answered} of ${clients} in flight answered; ${again} run again`);
  const unavailable = refused.filter((one) => 'status' in one && one.status === 503).length;
  see(`${unavailable} of ${refused.length} new requests 503, the slowest after ${Math.round(slowestMs)} ms`);
  see(`answered again ${Math.round(recoveredMs)} ms after its end`);
  see(`${evidence.records.size} records, ${evidence.contradictions.length} contradictions`);
  return { evidence, inFlight, refused };
}

/** Requires that all requests in flight are answered, and none cost its backend a second call. */
export function tookNoHarm(t: ExecutionContext, { evidence, inFlight }: OutageReport): void {
  t.deepEqual(
    inFlight.filter(({ ending }) => ending !== 'answered'),
    [],
  );
  t.deepEqual(
    [...evidence.records.values()].filter(({ runs }) => runs !== 1),
    [],
    'none is run again',
  );
}
