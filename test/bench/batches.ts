import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type OpenAI from 'openai';
import { openStore } from '../../shared/process/open-store.ts';
import { monthOf } from '../../shared/store/records/account.ts';
import type { Stack } from '../stack/stack.ts';
import { type BatchLine, linesOf, openBatchClient, tokensIn } from '../support/batch-client.ts';
import { unlimitedKey } from '../support/load.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { serviceTotal } from '../support/service-metric.ts';
import { measureRaw } from './measure-raw.ts';
import { busyShare, cpuSeconds, type Memory, machineTicks, watchMemory } from './processes.ts';
import { type Capacity, models, perSecond, startReplicas } from './replicas.ts';

const account = 'bench';
const progressEveryMs = 5_000;
const drainedWithinMs = 60_000;
/**
 * The heap limit of each process of the service. With the memory of the complete machine V8 does not collect garbage for minutes, which
 * looks like a leak. With so little it must, and a leak would end the process.
 */
const heapMiBMax = 192;

/** Rates are in lines a second. CPU is in milliseconds a line, for what each process used from submission to the end. */
export type BatchRun = {
  lines: number;
  capacityPerSecond: number;
  rawPerSecond: number;
  runPerSecond: number;
  submittedToEndPerSecond: number;
  seconds: Record<'upload' | 'validating' | 'running' | 'finalizing', number>;
  cpuMsPerLine: Record<string, number>;
  /** The share of the machine's time that was not idle, and the share used by other processes than these. */
  cpu: number;
  othersCpu: number;
  memory: Record<string, Memory>;
  outcomes: Record<string, number>;
  callsPerLine: number;
  retries: number;
  tokens: Record<'results' | 'backends' | 'store' | 'quota', number>;
};

/**
 * Measures a batch of one account from submission to its files, with two workers. Before it, sends as many calls directly to the same
 * backends. Fails if a line is missing or duplicated, or if the charged tokens, the results and the backends' counts differ.
 */
export async function measureBatch({ lines, ...capacity }: Capacity & { lines: number }): Promise<BatchRun> {
  const env = { NODE_OPTIONS: `--max-old-space-size=${heapMiBMax}` };
  await using stack = await startReplicas({ ...capacity, env, workers: 2 });
  const user = await openBatchClient(stack, account, await unlimitedKey(stack, account));
  const text = linesOf(lines, { model: models[0] });
  console.error(`batches: ${lines} calls directly to the backends …`);
  const rawPerSecond = await measureRaw(stack, { calls: lines, ...capacity });

  const pids = pidsOf(stack);
  const cpuBefore = await cpuSeconds(pids);
  const ticksBefore = await machineTicks();
  const watching = watchMemory(pids);
  const startedAt = performance.now();
  const { id } = await user.create(text);
  const uploaded = performance.now() - startedAt;
  const phases = await follow(user.client, id, lines);
  const batch = await user.client.batches.retrieve(id);
  const tookMs = performance.now() - startedAt;
  const ticksAfter = await machineTicks();
  const cpuAfter = await cpuSeconds(pids);
  const memory = await watching.stop();

  const results = await user.lines(batch);
  assert.equal(batch.status, 'completed');
  requireEachOnce(results, lines);
  const calls = stack.modelServers
    .flatMap((server) => server.calls())
    .filter(({ requestId }) => requestId !== undefined);
  const backends = calls.reduce((sum, call) => sum + call.promptTokens + call.completionTokens, 0);
  const tokens = { results: tokensIn(results), backends, ...(await chargedTo(stack, user.client, tokensIn(results))) };
  for (const [by, counted] of Object.entries(tokens)) assert.equal(counted, tokens.results, `tokens by ${by}`);

  const used = Object.keys(pids).map((name) => [name, (cpuAfter[name] ?? 0) - (cpuBefore[name] ?? 0)] as const);
  const ownSeconds = used.reduce((sum, [, seconds]) => sum + seconds, 0);
  const cpu = busyShare(ticksBefore, ticksAfter);
  return {
    lines,
    capacityPerSecond: perSecond(capacity),
    rawPerSecond,
    runPerSecond: (1_000 * lines) / phases.in_progress,
    submittedToEndPerSecond: (1_000 * lines) / tookMs,
    seconds: {
      upload: uploaded / 1_000,
      validating: phases.validating / 1_000,
      running: phases.in_progress / 1_000,
      finalizing: phases.finalizing / 1_000,
    },
    cpuMsPerLine: Object.fromEntries(used.map(([name, seconds]) => [name, (1_000 * seconds) / lines])),
    cpu,
    othersCpu: cpu - (1_000 * ownSeconds) / (tookMs * availableParallelism()),
    memory,
    outcomes: outcomesOf(results),
    callsPerLine: calls.length / lines,
    retries: await serviceTotal(stack.workers, 'svc_batch_line_retries_total'),
    tokens,
  };
}

function pidsOf({ ingresses, workers, redis }: Stack): Record<string, number> {
  return {
    ...Object.fromEntries(ingresses.map((each) => ['ingress', each.process.pid])),
    ...Object.fromEntries(workers.map((each, index) => [`worker ${index + 1}`, each.process.pid])),
    ...(redis && { redis: redis.pids[0] ?? 0 }),
    'client and backends': process.pid,
  };
}

/** The time in each state, in milliseconds. */
async function follow(client: OpenAI, id: string, lines: number) {
  const states = { validating: 0, in_progress: 0, finalizing: 0 };
  let since = performance.now();
  let said = { at: since, done: 0 };
  while (true) {
    await sleep(100);
    const { status, request_counts } = await client.batches.retrieve(id);
    const now = performance.now();
    if (!(status in states)) return states;
    states[status as keyof typeof states] += now - since; // checked a line before
    since = now;
    if (now - said.at < progressEveryMs) continue;
    const done = (request_counts?.completed ?? 0) + (request_counts?.failed ?? 0);
    const pace = (1_000 * (done - said.done)) / (now - said.at);
    console.error(`batches: ${status}, ${done} of ${lines} lines, ${pace.toFixed(0)} a second`);
    said = { at: now, done };
  }
}

function requireEachOnce(results: readonly BatchLine[], lines: number): void {
  const names = new Set(results.map(({ custom_id }) => custom_id));
  const missing = Array.from({ length: lines }, (_, index) => `line-${index + 1}`).filter((name) => !names.has(name));
  assert.deepEqual(missing, [], 'lines in neither file');
  assert.equal(results.length, lines, 'each line once');
}

/** The charged tokens by the month's sum in the store and by the account's quota, after nothing is reserved and usage has been drained. */
async function chargedTo(stack: Stack, client: OpenAI, expected: number): Promise<{ store: number; quota: number }> {
  await using store = await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog());
  const giveUpAt = performance.now() + drainedWithinMs;
  while (true) {
    const quota = await client.get<{ used: number; reserved: number }>('/../billing/quota');
    const sum = (await store.usage.findUsageSum(`user:${account}`, monthOf(new Date())))?.total.chargedTokens ?? 0;
    const isDrained = quota.reserved === 0 && sum >= expected;
    if (isDrained || performance.now() > giveUpAt) return { store: sum, quota: quota.used };
    await sleep(200);
  }
}

function outcomesOf(results: readonly BatchLine[]): Record<string, number> {
  const outcomes: Record<string, number> = {};
  for (const { error } of results) {
    const outcome = error?.code ?? 'completed';
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  return outcomes;
}
