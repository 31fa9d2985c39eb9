import { setTimeout as sleep } from 'node:timers/promises';
import type { Stack } from '../stack/stack.ts';
import { type BatchClient, lineOf, openBatchClient } from '../support/batch-client.ts';
import { unlimitedKey } from '../support/load.ts';
import { seededRandom } from '../support/random.ts';
import type { Target } from './measure.ts';
import { at, offer, sortedMs } from './offer.ts';
import { busyShare, machineTicks } from './processes.ts';
import { models, perSecond, startReplicas } from './replicas.ts';

/** An answer takes `serviceMs` on average: half of it until the first token, the rest token by token, with varying numbers of tokens. */
const capacity = { slots: 32, serviceMs: 400 };
const tokensFrom = 10;
const tokensTo = 30;
const pace = { firstTokenMs: capacity.serviceMs / 2, tokensPerSecond: 100 };
/** Its answer has more tokens than any request asks for. */
const question = 'What would you say if you had to say it in a few words more than there is room for here?';
/** The share of the slots that interactive requests alone use. */
const interactiveShare = 0.5;
/** More lines than the backends answer in a round. */
const linesOver = 1.5;

/** Of the machine's time: above this, requests wait for processors and not for the backends' slots. */
const busyMax = 0.6;
/** Attempts for each pair of rounds that counts. */
const attemptsMax = 4;

/** Interactive requests in one round. `linesPerSecond` ran at the same time, `slots` is the used share of the backends' slots. */
export type Round = {
  p50Ms: number;
  p99Ms: number;
  failed: number;
  linesPerSecond: number;
  slots: number;
  cpu: number;
};

type Options = { rounds: number; seconds: number; workers: number; batchConcurrency: number };

/**
 * Measures interactive requests at random times, in turns without and with as many batch lines as the lane takes. Pairs of rounds on a
 * busy machine are measured again. Fails if the machine is always busy.
 */
export async function measureLanes({ rounds, seconds, workers, batchConcurrency }: Options) {
  const env = { BATCH_CONCURRENCY: String(batchConcurrency) };
  await using stack = await startReplicas({ ...capacity, workers, modelServers: pace, env });
  const user = await openBatchClient(stack, 'batches', await unlimitedKey(stack, 'batches'));
  const target = await interactiveTarget(stack);
  const measure = (seed: number, forSeconds: number) => interactive(stack, target, { seed, seconds: forSeconds });

  await measure(0, 5);
  await withBatch(user, 5, () => measure(0, 5));
  const pairs: { off: Round; on: Round }[] = [];
  for (let round = 1; pairs.length < rounds; round++) {
    if (round > rounds * attemptsMax) throw new Error('the machine is too busy with other work to measure');
    const off = await measure(round, seconds);
    const on = await withBatch(user, seconds, () => measure(round, seconds));
    const counts = Math.max(off.cpu, on.cpu) <= busyMax;
    if (counts) pairs.push({ off, on });
    const said = [off, on].map(({ p50Ms, p99Ms }) => `${p50Ms.toFixed(0)} and ${p99Ms.toFixed(0)} ms`);
    const verdict = counts ? `${pairs.length} of ${rounds}` : 'not counted, because the machine was busy';
    console.error(`lanes: ${verdict}: p50 and p99 ${said.join(' without, ')} with lines of batches`);
  }
  return pairs;
}

async function interactiveTarget(stack: Stack): Promise<Target> {
  const key = await unlimitedKey(stack, 'interactive');
  const max_tokens = (tokensFrom + tokensTo) / 2;
  return {
    url: `${stack.ingresses[0]?.url}/v1/chat/completions`,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: models[0], max_tokens, messages: [{ role: 'user', content: question }] }),
  };
}

async function interactive(
  { modelServers }: Stack,
  target: Target,
  { seed, seconds }: { seed: number; seconds: number },
): Promise<Round> {
  const before = await machineTicks();
  const from = Date.now();
  const { answers } = await offer(target, {
    perSecond: perSecond(capacity) * interactiveShare,
    seconds,
    random: seededRandom(seed),
  });
  const to = Date.now();
  const after = await machineTicks();
  const ms = sortedMs(answers, 200);
  const calls = modelServers
    .flatMap((server) => server.calls())
    .map((call) => ({ ...call, from: Math.max(from, call.startedAt), to: Math.min(to, call.endedAt ?? to) }))
    .filter((call) => call.to > call.from);
  const ended = calls.filter(({ state, to: endedAt }) => state === 'completed' && endedAt < to).length;
  return {
    p50Ms: at(ms, 0.5),
    p99Ms: at(ms, 0.99),
    failed: answers.length - ms.length,
    linesPerSecond: Math.max(0, (1_000 * (ended - ms.length)) / (to - from)),
    slots: calls.reduce((sum, call) => sum + call.to - call.from, 0) / (capacity.slots * (to - from)),
    cpu: busyShare(before, after),
  };
}

/** Measures while a batch runs that does not end before the measurement. */
async function withBatch(user: BatchClient, seconds: number, measure: () => Promise<Round>): Promise<Round> {
  const lines = Math.ceil(perSecond(capacity) * seconds * linesOver) + 500;
  const spread = tokensTo - tokensFrom + 1;
  const text = Array.from({ length: lines }, (_, index) => {
    const maxTokens = tokensFrom + ((index * 7) % spread);
    return `${lineOf(`line-${index + 1}`, { model: models[0], maxTokens, content: question })}\n`;
  }).join('');
  const { id } = await user.create(text);
  await user.until(id, ({ request_counts }) => (request_counts?.completed ?? 0) > 0);
  await sleep(1_000); // until the lane is full
  const measured = await measure();
  if ((await user.client.batches.retrieve(id)).status !== 'in_progress') throw new Error('there were too few lines');
  await user.client.batches.cancel(id);
  await user.ended(id);
  await sleep(1_000); // until its last requests have ended
  return measured;
}
