import test, { type ExecutionContext } from 'ava';
import type { Allowance, LookKey } from '../../../shared/limits/admit.ts';
import { countersKey, keyCountersKey } from '../../../shared/redis/keys.ts';
import { type Arrival, type ArrivalPattern, type Attempt, arrivalPatterns } from '../../support/arrival-patterns.ts';
import { type LimitsSide, openLimits } from '../../support/limits-side.ts';
import { noon, openOwnLimits } from '../../support/own-limits.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { sized } from '../../support/size.ts';

const minuteMs = 60_000;
const hours = 2;
/** A pattern with very frequent attempts stops here: by then it has had enough refusals. */
const attemptsMax = sized(220, 450);
/** One of this many refusals has its wait checked, with three calls. */
const checkedEvery = 7;

const keyId = 'key_02';
type Limits = { allowance: Partial<Allowance> } | { key: LookKey };

const { redis, setTime, freshAccount } = openOwnLimits(test);
let simulations = 0;

const limited: { name: 'requests' | 'tokens'; limit: number; limits: Limits; of: string }[] = [
  { name: 'requests', limit: 12, limits: { allowance: { requestsPerMinute: 12 } }, of: 'its account' },
  { name: 'tokens', limit: 60, limits: { allowance: { tokensPerMinute: 60 } }, of: 'its account' },
  { name: 'requests', limit: 12, limits: { key: { id: keyId, limits: { requestsPerMinute: 12 } } }, of: 'its key' },
  { name: 'tokens', limit: 60, limits: { key: { id: keyId, limits: { tokensPerMinute: 60 } } }, of: 'its key' },
];

for (const pattern of arrivalPatterns) {
  for (const { name, limit, limits, of } of limited) {
    for (const isSettled of [false, true]) {
      const title = `no minute exceeds the ${name} of ${of}, arriving ${pattern.name}${isSettled ? ', settled' : ''}`;
      test.serial(title, async (t) => {
        const { charges, peak } = await simulate(t, { pattern, limits, name, isSettled });
        t.true(peak <= limit, `${peak} at once`);
        t.true(mostInAnyMinute(charges, name) <= limit);
        if (!pattern.isGreedy) return;
        t.is(peak, limit);
        if (!isSettled || name === 'requests') t.is(mostInAnyMinute(charges, name), limit);
      });
    }
  }
}

type Given = {
  pattern: ArrivalPattern;
  limits: Limits;
  name: 'requests' | 'tokens';
  isSettled: boolean;
};
/** `tokens` are the reserved ones, and the used ones after the settling. */
type Charge = { requestId: string; at: number; tokens: number; settleAt: number; used: number };

/** Plays a pattern for hours. `peak` is the highest sum in the minute up to an admission, including that admission. */
async function simulate(t: ExecutionContext, { pattern, limits, name, isSettled }: Given) {
  const random = seededRandom(++simulations);
  const side = await freshAccount();
  const shadow = openLimits(redis(), { account: `${side.account} shadow` });
  await shadow.prepare('2030-05');
  const charges: Charge[] = [];
  let [peak, refusals] = [0, 0];
  let last: Attempt = { at: noon - 1, admitted: true, waitMs: 0, tokens: 1, index: 0 };
  while (last.at < noon + hours * 60 * minuteMs && last.index < attemptsMax) {
    const { at, tokens } = pattern.next(last, random);
    if (isSettled) await settleUntil(side, charges, at);
    const requestId = `${last.index}`;
    setTime(at).catch(() => undefined); // in order with the call behind it, which fails as well
    const answer = await side.admit({ requestId, tokens, ...limits });
    if (answer.outcome !== 'admitted' && answer.outcome !== 'refused') throw new Error(`it was ${answer.outcome}`);
    const waitMs = answer.outcome === 'refused' ? answer.waitMs : 0;
    if (answer.outcome === 'admitted') {
      await side.start(requestId); // otherwise it would be lost and refund its charge before its bucket has left the window
      charges.push({ requestId, at, tokens, settleAt: at + random() * 90_000, used: Math.floor(random() * tokens) });
      peak = Math.max(peak, amountOf(inMinuteUpTo(charges, at), name));
    } else if (refusals++ % checkedEvery === 0) {
      await redis().copy(countersKey(side.account), countersKey(shadow.account), 'REPLACE');
      await redis().copy(keyCountersKey(side.account, keyId), keyCountersKey(shadow.account, keyId), 'REPLACE');
      await checkWait(t, shadow, { at, tokens, waitMs, requestId, ...limits });
    }
    last = { at, tokens, waitMs, admitted: answer.outcome === 'admitted', index: last.index + 1 };
  }
  t.true(pattern.isGreedy ? refusals > attemptsMax / 9 : refusals === 0, `${refusals} refusals`);
  return { charges, peak };
}

/** Runs on a copy of the account, so that it does not affect the pattern. */
async function checkWait(
  t: ExecutionContext,
  shadow: LimitsSide,
  { at, waitMs, ...asked }: Arrival & Limits & { waitMs: number; requestId: string },
): Promise<void> {
  t.true(waitMs > 0 && waitMs <= minuteMs, `a wait of ${waitMs}`);
  for (const early of [Math.floor(waitMs * 0.9), waitMs - 1]) {
    await setTime(at + early);
    t.like(await shadow.admit(asked), { outcome: 'refused', waitMs: waitMs - early }, `${early} of ${waitMs}`);
  }
  await setTime(at + waitMs);
  t.like(await shadow.admit(asked), { outcome: 'admitted' }, `${waitMs}`);
  await shadow.release(asked.requestId);
}

/** Settles everything that is due in order of time, at less than was reserved. */
async function settleUntil(side: LimitsSide, charges: readonly Charge[], until: number): Promise<void> {
  const due = charges.filter(({ settleAt }) => settleAt <= until).sort((one, other) => one.settleAt - other.settleAt);
  for (const charge of due) {
    charge.settleAt = Number.POSITIVE_INFINITY;
    const { requestId, used } = charge;
    if (await side.settle(requestId, { tokens: used })) charge.tokens = used;
  }
}

const amountOf = (charges: readonly Charge[], name: 'requests' | 'tokens') =>
  name === 'requests' ? charges.length : charges.reduce((total, { tokens }) => total + tokens, 0);

function inMinuteUpTo(charges: readonly Charge[], at: number): Charge[] {
  const first = charges.findLastIndex((charge) => charge.at <= at - minuteMs) + 1;
  return charges.slice(first);
}

/** The highest sum of all half-open minutes: the fullest one ends with an admission. */
function mostInAnyMinute(charges: readonly Charge[], name: 'requests' | 'tokens'): number {
  const minutes = charges.map(({ at }, index) => inMinuteUpTo(charges.slice(0, index + 1), at));
  return Math.max(...minutes.map((minute) => amountOf(minute, name)));
}
