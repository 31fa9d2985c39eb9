import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { leaseLifeMs } from '../../shared/limits/admit.ts';
import { openStore } from '../../shared/process/open-store.ts';
import { answerFor } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat, streamedText } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { recordedLog } from '../support/recorded-log.ts';

const atOnce = 4;
const lookEveryMs = 500;

/** A service whose answers take minutes, and an account with as many open streams as its plan allows. */
async function openSlowStreams(t: ExecutionContext) {
  const plan = { requests_at_once: atOnce, tokens_per_month: 10_000_000, model_tiers: ['guest'] };
  const stack = await startStack({ workers: 2, plans: { free: plan }, modelServers: { tokensPerSecond: 2 } });
  const key = await stack.mintKey('alice');
  const ask = (question: string) => chat({ url: stack.ingresses[0]?.url ?? '', key, question, stream: true });
  const streams = await Promise.all(Array.from({ length: atOnce }, (_, index) => ask(`Stream ${index}, repeat 6?`)));
  const calls = () => stack.modelServers.flatMap((server) => server.calls());
  while (calls().filter(({ completionTokens }) => completionTokens > 2).length < atOnce) await sleep(50);
  t.is((await ask('One too many?')).status, 429);
  return { stack, ask, streams };
}

function recordsOf(stack: Stack, streams: readonly Response[]) {
  const ids = streams.map(({ headers }) => headers.get('x-request-id') ?? '');
  return async () => {
    await using store = await openStore(stack.databaseUrl, recordedLog());
    return Promise.all(ids.map((id) => store.usage.findUsageRecord(id)));
  };
}

faultTest(
  test.serial,
  {
    id: '25a',
    done: 'every ingress and every worker is killed (SIGKILL) with streams open, and started again',
    promised:
      'slots of the account are free within 75 s, in a cluster within 90 s, nothing is charged, and each record has the outcome lost',
  },
  async (t, see) => {
    t.timeout(240_000);
    const { stack, ask, streams } = await openSlowStreams(t);
    await using _stack = stack;
    const killed = [...stack.ingresses.splice(0), ...stack.workers.splice(0)];
    for (const { process } of killed) process.kill('SIGKILL');
    const killedAt = performance.now();
    const texts = streams.map((stream) => stream.text().catch(() => 'broken'));
    t.deepEqual(new Set(await Promise.all(texts)), new Set(['broken']));
    await Promise.all([stack.startIngress(), stack.startWorker(), stack.startWorker()]);
    let refused = 0;
    let next = await ask('Free?');
    for (; next.status === 429; next = await ask('Free?')) {
      refused += 1;
      await sleep(lookEveryMs);
    }
    const freeAfterMs = performance.now() - killedAt;
    see(`slots free after ${(freeAfterMs / 1_000).toFixed(1)} s, ${refused} requests refused until then`);
    t.is(next.status, 200);
    t.true(refused > 0);
    await next.body?.cancel();

    const records = recordsOf(stack, streams);
    while ((await records()).some((record) => record === undefined)) await sleep(lookEveryMs);
    for (const record of await records()) t.like(record, { outcome: 'lost', chargedTokens: 0 });
  },
);

faultTest(
  test.serial,
  {
    id: '25b',
    done: 'streams run longer than a lease lives without renewal',
    promised: 'they keep their slots until they end, and are charged once',
  },
  async (t, see) => {
    t.timeout(240_000);
    const { stack, ask, streams } = await openSlowStreams(t);
    await using _stack = stack;
    const texts = Promise.all(streams.map(async (stream) => streamedText(await stream.text())));
    let ended = false;
    void texts.finally(() => {
      ended = true;
    });
    const openedAt = performance.now();
    let refused = 0;
    for (; !ended; await sleep(lookEveryMs)) {
      const asked = await ask('One too many?');
      if (asked.status === 429) refused += 1;
      else await asked.body?.cancel();
    }
    const lastedMs = performance.now() - openedAt;
    see(`they ran for ${(lastedMs / 1_000).toFixed(0)} s`);
    t.true(lastedMs > leaseLifeMs + 10_000);
    t.true(refused > (leaseLifeMs + 5_000) / (2 * lookEveryMs));
    const answers = streams.map((_, index) => answerFor([{ role: 'user', content: `Stream ${index}, repeat 6?` }]));
    t.deepEqual(await texts, answers);
    const records = recordsOf(stack, streams);
    while ((await records()).some((record) => record === undefined)) await sleep(lookEveryMs);
    for (const record of await records()) t.like(record, { outcome: 'completed', runs: 1 });
  },
);
