import { interruptedLifeMs, leaseGraceMs, startedLifeMs } from '../../shared/limits/admit.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { endedRequestKey, type Lane, leaseKeysOf, leasesKey } from '../../shared/redis/keys.ts';
import { createReadNumbers, loadLua, loadScript, wordsOf } from '../../shared/redis/load-lua.ts';

/**
 * `run`: call a backend; `remainingMs` are left. For every other outcome, call none. `late`: its first start comes too late; `expired`: its
 * deadline is over; both still hold the lease. `interrupted`: text of an earlier run was sent to the client. `settled`: it was charged,
 * and its end was lost. `gone`: it was released, or has expired. `superseded`: another worker has the job, so no reply is needed.
 * The number `run` is in every reply of this taking of the job. A later taking has a higher number (contract.md#n4-runs).
 */
export type Start =
  | { outcome: 'run'; run: number; now: number; remainingMs: number }
  | { outcome: 'late' | 'expired' | 'interrupted'; run: number; now: number }
  | { outcome: 'settled' | 'gone' | 'superseded'; run: number };

/** `taken`: how often the job was taken from its queue, including this time. */
export type StartRun = (job: { account: string; requestId: string; taken: number; lane?: Lane }) => Promise<Start>;

const numbers = { start: 'run now deadline' } as const;
const readNumbers = createReadNumbers(numbers.start);
const script = loadLua(new URL('./start-run.lua', import.meta.url), {
  keys: 'leasesKey leaseEndsKey endedRequestKey',
  args: 'request taken lifeMs graceMs interruptedMs',
  numbers,
});

/** The only round trip before a job's first backend call. Idempotent by `taken`. */
export function createStartRun(redis: Redis): StartRun {
  const call = loadScript(redis, script);
  return async ({ account, requestId, taken, lane = 'interactive' }) => {
    const keys = { ...leaseKeysOf(account, lane), endedRequestKey: endedRequestKey(account, requestId) };
    const times = {
      lifeMs: startedLifeMs[lane],
      graceMs: leaseGraceMs.started[lane],
      interruptedMs: interruptedLifeMs,
    };
    return readAnswer(await call({ ...keys, request: requestId, taken, ...times }));
  };
}

/** Parsed by hand, because a schema would take several times as long for each request. */
function readAnswer(answer: unknown): Start {
  const [outcome, ...words] = wordsOf(answer);
  const { run, now, deadline } = readNumbers(words);
  switch (outcome) {
    case 'run':
      return { outcome, run, now, remainingMs: deadline - now };
    case 'late':
    case 'expired':
    case 'interrupted':
      return { outcome, run, now };
    case 'settled':
    case 'gone':
    case 'superseded':
      return { outcome, run };
    default:
      throw new Error('the script that starts a run returned an unknown answer');
  }
}

const streamingLua = loadLua(new URL('./mark-streaming.lua', import.meta.url), {
  keys: 'leasesKey',
  args: 'request run',
});

export type MarkStreaming = (given: { account: string; requestId: string; run: number }) => Promise<void>;

/** From now on no other run of the request may begin: the client has a part of this run's answer. */
export function createMarkStreaming(redis: Redis): MarkStreaming {
  const call = loadScript(redis, streamingLua);
  return async ({ account, requestId, run }) => {
    await call({ leasesKey: leasesKey(account), request: requestId, run });
  };
}
