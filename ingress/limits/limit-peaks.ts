import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { peaksKey } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

/** The most requests and tokens of an account within a minute, and the most requests at once. */
export type LimitPeaks = { requests: number; tokens: number; atOnce: number };

const stepMs = 600_000;
/** An hour before the present step, and it. */
const stepsKept = 7;
const writeEveryMsUsual = 10_000;
/** Further accounts within ten seconds are not noted, to bound memory. */
const accountsMax = 10_000;
const closeMs = 1_000;

const none: LimitPeaks = { requests: 0, tokens: 0, atOnce: 0 };

const script = loadLua(new URL('./note-peaks.lua', import.meta.url), {
  keys: 'peaksKey',
  args: 'step firstStep requests tokens atOnce',
  constants: { lifeMs: stepMs * (stepsKept + 1) },
});

/**
 * Notes how far accounts use their limits, as the admission script answers it, and shows the highest use of about the last hour. A request
 * costs no call of Redis for it: every ten seconds the highest use since then is written for each account.
 */
export function createLimitPeaks({
  redis,
  log,
  now = Date.now,
  writeEveryMs = writeEveryMsUsual,
}: {
  redis: Redis;
  log: Pick<Log, 'debug'>;
  now?: () => number;
  writeEveryMs?: number;
}) {
  const run = loadScript(redis, script);
  let peaks = new Map<string, LimitPeaks>();

  async function write(): Promise<void> {
    const taken = peaks;
    peaks = new Map();
    const step = Math.floor(now() / stepMs);
    const writes = [...taken].map(([account, highest]) =>
      run({ peaksKey: peaksKey(account), step, firstStep: step - stepsKept + 1, ...highest }),
    );
    await Promise.all(writes).catch((error: unknown) =>
      log.debug({ err: error }, 'the highest use of limits was lost'),
    );
  }

  const writing = repeatWhile({
    everyMs: writeEveryMs,
    work: write,
    isNeeded: () => peaks.size > 0,
    onFailure: () => {},
  });

  return {
    note(account: string, use: LimitPeaks): void {
      const known = peaks.get(account);
      if (known === undefined && peaks.size >= accountsMax) return;
      peaks.set(account, known === undefined ? use : highestOf(known, use));
      writing.begin();
    },
    /** Fails as the connection does. */
    async read(account: string): Promise<LimitPeaks> {
      const first = Math.floor(now() / stepMs) - stepsKept + 1;
      const steps = Object.entries(await redis.hgetall(peaksKey(account)));
      const recent = steps.flatMap(([step, text]) => (Number(step) >= first ? [parse(text)] : []));
      return [...recent, peaks.get(account) ?? none].reduce(highestOf, none);
    },
    async [Symbol.asyncDispose]() {
      writing[Symbol.dispose]();
      await within(closeMs, write());
    },
  };
}

export type LimitPeaksOf = ReturnType<typeof createLimitPeaks>;

function highestOf(one: LimitPeaks, other: LimitPeaks): LimitPeaks {
  return {
    requests: Math.max(one.requests, other.requests),
    tokens: Math.max(one.tokens, other.tokens),
    atOnce: Math.max(one.atOnce, other.atOnce),
  };
}

function parse(text: string): LimitPeaks {
  const [requests = 0, tokens = 0, atOnce = 0] = text.split(' ').map(Number);
  return { requests, tokens, atOnce };
}
