import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { processesOf, redisName } from '../soak/observe.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';
import type { Attack, Tally, Target } from './attack.ts';
import { type ByPhase, exceededLimits, type Observations, type phases, waitsOf } from './judge.ts';
import { measurePhase, type PhaseMeasurement } from './measure-phase.ts';
import { lostOf } from './settled-once.ts';
import { startAttacker } from './start-attacker.ts';
import { type CallersReport, startCallers } from './start-callers.ts';

/** The settings of the image of docker-compose.yml, and about the heap that Node chooses in 512 MiB. */
const containerEnv = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '131072',
  NODE_OPTIONS: '--max-semi-space-size=16 --max-old-space-size=256',
};
const warmUpMs = 4_000;
/** The time that is measured before and after an attack, by what is judged: a percentile of few answers is a chance. */
const besideMs = { p50: 8_000, p99: 20_000 };
const attackMs = 15_000;
const reachedWithinMs = 60_000;
const newClientsMax = 200;
const mayBeCancelled = new Set(['validating', 'in_progress']);
const batchesSchema = z.object({ data: z.array(z.object({ id: z.string(), status: z.string() })) });

export type Result = {
  attack: Attack;
  tally: Tally;
  observed: Observations;
  measured: ByPhase<PhaseMeasurement>;
  exceeded: readonly string[];
};

/** Runs an attack on a new stack: legitimate callers alone, then with the attacker, and alone again. */
export async function runAttack(attack: Attack, beside = besideMs[attack.judgedBy ?? 'p50']): Promise<Result> {
  await using prepared = await attack.prepare?.();
  const env = { ...containerEnv, ...attack.stack?.env, ...prepared?.stack.env };
  await using stack = await startStack({ ...attack.stack, ...prepared?.stack, env });
  if (attack.redisMiBMax !== undefined) await limitRedis(stack, attack.redisMiBMax);
  await using witnesses = await openWitnesses(stack);
  const target = await targetOf(stack, attack);
  const newClients = attack.others === 'newClients' ? await newKeys(stack, 'new-client', newClientsMax) : [];
  await using attacker = await startAttacker(attack.id);
  const services = processesOf(stack);
  const pids = {
    ...Object.fromEntries(Object.entries(services).map(([name, { process }]) => [name, process.pid])),
    [redisName]: stack.redis?.pids[0] ?? 0,
    harness: process.pid,
  };
  await using callers = startCallers({ witnesses, newClients, others: attack.others });
  await sleep(warmUpMs);
  const before = await measurePhase({ pids, services }, beside);
  attacker.begin(target);
  const during = await measurePhase({ pids: { ...pids, attacker: attacker.pid }, services }, attack.forMs ?? attackMs);
  if (attack.reaches !== undefined) await untilReached(attacker, attack.reaches);
  const tally = await attacker.stop();
  await cancelBatches(stack, target.keys);
  const after = await measurePhase({ pids, services }, beside);
  const used = await callers.stop();
  const measured = { before, during, after };
  const keys = [...witnesses.keys, ...newClients];
  const observed: Observations = {
    judgedBy: attack.judgedBy,
    waits: waitsIn(used, measured),
    peakMiB: peaksOf(measured, [...Object.keys(services), redisName]),
    refused: used.uses.flatMap(({ refusal }) => refusal ?? []),
    lost: await lostOf({ stack, witnesses, asked: used.asked, keys }),
    gains: attack.gains?.(tally) ?? [],
    ended: Object.entries(services).flatMap(([name, { process }]) => (isRunning(process.pid) ? [] : [name])),
  };
  return { attack, tally, observed, measured, exceeded: exceededLimits(observed) };
}

async function untilReached(
  attacker: Awaited<ReturnType<typeof startAttacker>>,
  wanted: readonly string[],
): Promise<void> {
  const giveUpAt = performance.now() + reachedWithinMs;
  while (performance.now() < giveUpAt) {
    const tally = await attacker.tally();
    if (wanted.every((outcome) => outcome in tally)) return;
    await sleep(500);
  }
}

/** As docker-compose.yml does. */
async function limitRedis({ redis }: Stack, mib: number): Promise<void> {
  const connection = openRedis(redis?.url ?? '');
  await connection.config('SET', 'maxmemory', `${mib}mb`);
  connection.disconnect();
}

async function targetOf(stack: Stack, { accounts = 0, plan }: Attack): Promise<Target> {
  const keys = await newKeys(stack, 'attacker', accounts);
  const client = createKeyClient(stack);
  if (plan !== undefined) for (const index of keys.keys()) await client.change(`user:attacker-${index}`, { plan });
  const tokens = await Promise.all([...keys.keys()].map((index) => stack.identity.token(`attacker-${index}`)));
  const port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  return { port, issuer: stack.identity.issuer, audience: stack.baseUrl, keys, tokens };
}

/** Batches of the attacker may have days to run. */
async function cancelBatches(stack: Stack, keys: readonly string[]): Promise<void> {
  const client = createKeyClient(stack);
  for (const bearer of keys) {
    const { body } = await client.send('GET', '/v1/batches?limit=100', { bearer });
    const open = batchesSchema.parse(body).data.filter(({ status }) => mayBeCancelled.has(status));
    await Promise.all(open.map(({ id }) => client.send('POST', `/v1/batches/${id}/cancel`, { bearer })));
  }
}

async function newKeys(stack: Stack, name: string, count: number): Promise<string[]> {
  const client = createKeyClient(stack);
  const keys: string[] = [];
  for (let index = 0; index < count; index++) keys.push(await client.newKey(`${name}-${index}`));
  return keys;
}

/** A use belongs to the phase in which it started. */
function waitsIn({ uses }: CallersReport, measured: ByPhase<PhaseMeasurement>): Observations['waits'] {
  const groups = Map.groupBy(uses, ({ who }) => who);
  const waits = [...groups].map(([who, group]) => {
    const ofPhase = ({ from, to }: PhaseMeasurement) =>
      waitsOf(group.filter(({ at, refusal }) => at >= from && at < to && refusal === undefined).map(({ ms }) => ms));
    return [who, byPhase((phase) => ofPhase(measured[phase]))] as const;
  });
  return Object.fromEntries(waits);
}

function peaksOf(measured: ByPhase<PhaseMeasurement>, names: readonly string[]): Observations['peakMiB'] {
  const peaks = names.map((name) => [name, byPhase((phase) => measured[phase].peakMiB[name] ?? Number.NaN)] as const);
  return Object.fromEntries(peaks);
}

export function byPhase<Value>(at: (phase: (typeof phases)[number]) => Value): ByPhase<Value> {
  return { before: at('before'), during: at('during'), after: at('after') };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
