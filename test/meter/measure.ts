import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { openStore } from '../../shared/process/open-store.ts';
import { partitionOf } from '../../shared/redis/keys.ts';
import { startStack } from '../stack/stack.ts';
import { chat, wholeText } from '../support/chat.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { watchRedis } from '../support/watch-redis.ts';
import { startScriptedBackend } from './scripted-backend.ts';

/**
 * What a request, or the whole stream, costs in Redis: commands, also those inside scripts, calls of scripts, bytes of its sockets, and
 * keys that are left. That of a request is a hundredth, rounded: what happens less than once for each depends on time, such as the storing
 * of usage.
 */
export type Cost = { commands: number; scripts: number; bytesIn: number; bytesOut: number; keysLeft: number };

/** `parts`: commands by script, or calls by command, and keys by family, for all requests together. They show what grew. */
export type Measurement = { cost: Cost; parts: Record<string, number> };

export type Load = 'requests' | 'stream';

const requestsCounted = 100;
const chunksCounted = 300;

/** The cheapest of some rounds counts: what happens beside the load only adds. */
const rounds = 2;
const idleMs = 3_000;
/** Loads before the first round, for caches and connections. */
const warmUps = 1;

const account = 'user:alice';
const otherPartitions = new RegExp(`\\{p(?!${String(partitionOf(account)).padStart(2, '0')})\\d\\d\\}`);

/** All limits, none of which is reached. */
const freePlan = {
  requests_per_minute: 100_000,
  tokens_per_minute: 100_000_000,
  tokens_per_month: 1_000_000_000,
  requests_at_once: 64,
  model_tiers: ['guest'],
};

/** Measures both loads on a stack with one ingress and one worker. What an idle stack does in the same time is not counted. */
export async function measureRedis(): Promise<Record<Load, Measurement>> {
  await using parts = new AsyncDisposableStack();
  const backend = parts.use(await startScriptedBackend(chunksCounted));
  const stack = parts.use(
    await startStack({
      models: {
        'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-b'] },
        scripted: { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
      },
      backends: { 'onprem-a': { url: backend.url } },
      plans: { free: freePlan },
    }),
  );
  const redis = parts.adopt(new Redis(stack.redisUrl), (connection) => connection.disconnect());
  const url = stack.ingresses[0]?.url ?? '';
  const key = await stack.mintKey('alice');
  const store = parts.use(await openStore(stack.databaseUrl, recordedLog()));

  let ended = 0;
  async function untilStored(): Promise<void> {
    const month = new Date().toISOString().slice(0, 7);
    while (((await store.usage.findUsageSum(account, month))?.total.requests ?? 0) < ended) await sleep(20);
  }
  const loads: Record<Load, () => Promise<void>> = {
    async requests() {
      for (let number = 0; number < requestsCounted; number++) {
        const text = await wholeText(await chat({ url, key, question: `Question ${number % 10}` }));
        if (text === '' || text.startsWith('no answer')) throw new Error(`request ${number}: ${text}`);
      }
      ended += requestsCounted;
      await untilStored();
    },
    async stream() {
      await backend.readInStep(chat({ url, key, question: 'Count', model: 'scripted', stream: true }));
      ended++;
      await untilStored();
    },
  };

  /** A job is removed from its queue soon after its answer. */
  async function keysAtRest(): Promise<Record<string, number>> {
    while ((await redis.keys('*:active')).length > 0) await sleep(20);
    return keyFamilies(redis);
  }

  async function measure(work: () => Promise<void>, units: number): Promise<Measurement> {
    for (let time = 0; time < warmUps; time++) await work();
    const { bytesIn, bytesOut } = await bytesOf(redis, work);
    const { commands, scripts, parts } = await callsOf({ redis, url: stack.redisUrl, units }, work);
    const before = await keysAtRest();
    await work();
    const keys = added(before, await keysAtRest());
    const keysLeft = sum(Object.values(keys).map((count) => Math.round(count / units)));
    const bytes = { bytesIn: Math.round(bytesIn / units), bytesOut: Math.round(bytesOut / units) };
    return { cost: { commands, scripts, ...bytes, keysLeft }, parts: { ...parts, ...keys } };
  }
  return {
    requests: await measure(loads.requests, requestsCounted),
    stream: await measure(loads.stream, 1),
  };
}

/** The bytes of all sockets of Redis, without those of an idle stack in the same time. */
async function bytesOf(redis: Redis, work: () => Promise<void>): Promise<Pick<Cost, 'bytesIn' | 'bytesOut'>> {
  async function read(): Promise<[atMs: number, bytesIn: number, bytesOut: number]> {
    const text = await redis.info('stats');
    const valueOfLine = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(text)?.[1]);
    return [performance.now(), valueOfLine('total_net_input_bytes'), valueOfLine('total_net_output_bytes')];
  }
  async function during(wait: () => Promise<unknown>) {
    const [fromMs, fromIn, fromOut] = await read();
    await wait();
    const [toMs, toIn, toOut] = await read();
    return { ms: toMs - fromMs, bytesIn: toIn - fromIn, bytesOut: toOut - fromOut };
  }
  const idle = await during(() => sleep(idleMs));
  const all: Pick<Cost, 'bytesIn' | 'bytesOut'>[] = [];
  for (let round = 0; round < rounds; round++) {
    const { ms, bytesIn, bytesOut } = await during(work);
    const without = (bytes: number, idleBytes: number) => Math.round(bytes - (idleBytes * ms) / idle.ms);
    all.push({ bytesIn: without(bytesIn, idle.bytesIn), bytesOut: without(bytesOut, idle.bytesOut) });
  }
  return {
    bytesIn: Math.min(...all.map(({ bytesIn }) => bytesIn)),
    bytesOut: Math.min(...all.map(({ bytesOut }) => bytesOut)),
  };
}

type Calls = Pick<Cost, 'commands' | 'scripts'> & { parts: Record<string, number> };
/** Calls of a script or of a command outside of one, and the commands that they ran. */
type Counted = Record<string, { calls: number; commands: number }>;

/** An ingress counts the jobs of a queue four times a second while requests wait. */
const timed = new Set(['command llen', 'command zcard']);

/**
 * The calls of each script and command for a unit of the load: a request, or the stream. One that an idle stack makes nearly as often is
 * not counted.
 */
async function callsOf(
  { redis, url, units }: { redis: Redis; url: string; units: number },
  work: () => Promise<void>,
): Promise<Calls> {
  await using watch = await watchRedis(url, { inScripts: true });
  const names = new Map<string, string>();
  async function counted(wait: () => Promise<unknown>): Promise<{ ms: number; of: Counted }> {
    await redis.script('FLUSH'); // Redis is sent the text of each script once more, which names it
    const fromMs = performance.now();
    const commands = await watch.during(wait);
    return { ms: performance.now() - fromMs, of: count(commands, names) };
  }
  const idle = await counted(() => sleep(idleMs));
  const all: Calls[] = [];
  for (let round = 0; round < rounds; round++) {
    const { ms, of } = await counted(work);
    const own = Object.entries(of).filter(([name, { calls }]) => {
      const idleCalls = ((idle.of[name]?.calls ?? 0) * ms) / idle.ms;
      return Math.round(calls / units) > 0 && calls > 2 * idleCalls && !timed.has(name);
    });
    const scripts = own.filter(([name]) => name.startsWith('script'));
    all.push({
      commands: sum(own.map(([, { commands }]) => Math.round(commands / units))),
      scripts: sum(scripts.map(([, { calls }]) => Math.round(calls / units))),
      parts: Object.fromEntries(own.map(([name, { commands }]) => [name, commands])),
    });
  }
  return all.reduce((least, each) => (each.commands < least.commands ? each : least));
}

/**
 * Counts what `watchRedis` saw. The commands inside a script follow its call, which is `EVAL` where Redis was sent its text. Upkeep of
 * other accounts' partitions is as frequent as time passes, and is not counted.
 */
function count(seen: readonly string[][], names: Map<string, string>): Counted {
  const counted: Counted = {};
  let last = '';
  let isElsewhere = false;
  for (const [first = '', ...words] of seen) {
    const command = first.toLowerCase();
    if (command === 'eval') {
      const text = unescaped(words[0] ?? '');
      const hash = createHash('sha1').update(text, 'latin1').digest('hex');
      names.set(hash, /^(?:--\[\[|-- )\s*(.{0,70})/m.exec(text)?.[1] ?? hash);
      last = hash;
    } else if (command === 'evalsha') last = words[0] ?? '';
    else if (command !== 'lua') last = command;
    const isInScript = command === 'lua';
    if (!isInScript) isElsewhere = words.slice(0, 4).some((word) => otherPartitions.test(word));
    if (isElsewhere) continue;
    const isRepeated = command === 'eval'; // it was called by its hash just before, without success
    counted[last] ??= { calls: 0, commands: 0 };
    const of = counted[last] as Counted[string]; // it was set a line before
    if (!isInScript && !isRepeated) of.calls++;
    if (!isRepeated) of.commands++;
  }
  return Object.fromEntries(
    Object.entries(counted).map(([name, of]) => {
      const script = names.get(name);
      return [script === undefined ? `command ${name}` : `script ${script}`, of];
    }),
  );
}

/** A string as `MONITOR` writes it, as bytes. */
function unescaped(text: string): string {
  return text.replace(/\\(?:x([0-9a-f]{2})|(.))/g, (_, hex: string | undefined, character: string) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
    return { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' }[character] ?? character;
  });
}

/** How many keys there are of each family: a name without ids and numbers. */
async function keyFamilies(redis: Redis): Promise<Record<string, number>> {
  const families = (await redis.keys('*')).map((key) => key.replace(/[\w-]{16,}/g, '…').replace(/\d+/g, 'N'));
  const groups = Map.groupBy(families, (family) => `key ${family}`);
  return Object.fromEntries([...groups].map(([family, all]) => [family, all.length]));
}

function added(before: Record<string, number>, after: Record<string, number>): Record<string, number> {
  const more = Object.entries(after).map(([family, count]) => [family, count - (before[family] ?? 0)] as const);
  return Object.fromEntries(more.filter(([, count]) => count > 0));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
