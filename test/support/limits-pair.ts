import assert from 'node:assert/strict';
import type { Claim, ClaimEnd } from '../../shared/jobs/idempotency.ts';
import type { Admission, LimitCounters } from '../../shared/limits/admission.ts';
import type { Allowance } from '../../shared/limits/admit.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { claimKey, countersKey, fillKey, versionKey } from '../../shared/redis/keys.ts';
import { createChargeLog } from './charge-log.ts';
import { createLimitsModel } from './limits-model.ts';
import { lostReport, openLimits } from './limits-side.ts';
import type { ChosenClaim, ChosenRequest, Edge, Step } from './limits-steps.ts';
import { monthOf, shiftMonth } from './month-names.ts';

type Deps = {
  redis: Redis;
  setTime: (nowMs: number) => Promise<void>;
  account: string;
  beginning: number;
  allowance: Allowance;
};
const claimOf = ({ key, body }: ChosenClaim): Claim => ({ idempotencyKey: key, bodyMarks: [body], isStream: false });
const answerBytes = 400;
const endOf = (end: ClaimEnd['end']): ClaimEnd =>
  end === 'kept' ? { end, answer: Buffer.alloc(answerBytes) } : { end };
/** Room for one running request and one kept answer. */
const keptBytesMax = 1_048_576 + 2_000;

type StepOf<Kind extends Step['kind']> = Extract<Step, { kind: Kind }>;

/** Applies the same steps to an account in Redis and to its model. Throws if their answers differ. */
export function createLimitsPair({ redis, setTime, account, beginning, ...given }: Deps) {
  const side = openLimits(redis, { account, keptBytesMax });
  const lines = openLimits(redis, { account, lane: 'batch' });
  const model = createLimitsModel(beginning, { keptMax: keptBytesMax });
  const log = createChargeLog();
  const { idOf } = side;
  const admissions = new Map<string, Admission & { tokens: number }>();
  const known: string[] = [];
  /** The claim of each request, undefined if it has none. */
  const claims = new Map<string, ChosenClaim | undefined>();
  let { allowance } = given;
  let [now, latest, version, looks] = [beginning, beginning, 1, 0];
  /**
   * The start of the month in which Redis last lost its counters. With a clock before that, only the previous month would be counted, and
   * this month would count as one without missed records.
   */
  let forgottenIn = 0;

  function nameOf({ from, index }: ChosenRequest): string {
    const live = [...model.leases.keys()].map((requestId) => requestId.slice(idOf('').length));
    const choice = { live, known, new: [] }[from];
    // Every fifth is a line of a batch.
    const name = choice[index % choice.length] ?? `${known.length % 5 === 4 ? 'line' : 'r'}${known.length}`;
    if (!known.includes(name)) known.push(name);
    return name;
  }

  const isLine = (name: string) => name.startsWith('line');
  const sideOf = (name: string) => (isLine(name) ? lines : side);
  /** A line has no limit of the minute or the day. */
  function allowanceOf(name: string): Allowance {
    const { requestsPerMinute: _, tokensPerMinute: _tokens, requestsPerDay: _day, ...ofLines } = allowance;
    return isLine(name) ? ofLines : allowance;
  }

  async function moveTo(nowMs: number): Promise<void> {
    now = Math.max(nowMs, latest - 59_999, forgottenIn);
    latest = Math.max(now, latest);
    model.setTime(now);
    await setTime(now);
    const over = model.claims.expire(now).map((key) => claimKey(account, key));
    if (over.length > 0) await redis.del(over);
  }

  async function seed(month: string): Promise<void> {
    const seeded = await side.seed(month);
    const after = model.tokensOf(month);
    assert.deepEqual(seeded, { before: model.isBegun(month) ? after : undefined, after });
    model.count(month);
  }

  /** Asks as an ingress does: a stale caller is read again, and an uncounted month is seeded. */
  async function admit(
    name: string,
    asking: { tokens: number; version?: number; claim?: ChosenClaim | undefined },
  ): Promise<string[]> {
    const { tokens, version: versionGiven = version } = asking;
    if (!claims.has(name)) claims.set(name, isLine(name) ? undefined : asking.claim);
    const lane = isLine(name) ? 'batch' : 'interactive';
    const answered: string[] = [];
    const requestId = idOf(name);
    const charge = { allowance: allowanceOf(name), reservedTokens: tokens, report: lostReport };
    let [asked, token]: [number, string | undefined] = [versionGiven, undefined];
    for (;;) {
      const reading = token === undefined ? undefined : { token };
      const claim = claims.get(name);
      const repeatsBefore = model.repeatsCounted();
      const expected = model.admit({ ...charge, tokens, request: requestId, lane, version: asked, token, claim });
      const look = { account, requestId, lane, version: asked, reading, claim: claim && claimOf(claim) } as const;
      const answer = await side.admission.admit(look, charge);
      assert.deepEqual(answer, expected);
      if (isLine(name))
        answered.push(`line ${answer.outcome}${answer.outcome === 'refused' ? ` by ${answer.limit}` : ''}`);
      const how = answer.outcome === 'repeated' ? ` as ${answer.how}` : '';
      answered.push(`admit ${answer.outcome}${answer.outcome === 'refused' ? ` by ${answer.limit}` : how}`);
      if (model.repeatsCounted() > repeatsBefore) answered.push('admit repeated and counted');
      if (answer.outcome === 'refused' && answer.limit === 'quota' && allowance.overageEnabled)
        answered.push(`admit refused ${beyondOverage(answer.counters) > 0 ? 'beyond' : 'at the bound of'} overage`);
      if (answer.outcome === 'admitted') {
        if (answer.admission.overage) answered.push('admit admitted as overage');
        admissions.set(name, { ...answer.admission, tokens: model.leases.get(requestId)?.tokens ?? 0 });
        if (!isLine(name)) {
          log.admitted(requestId, { at: answer.admission.admittedAt, tokens, allowance });
          assert.deepEqual(log.excess(model.records), undefined);
        }
      }
      if (answer.outcome === 'stale') [asked, token] = [version, answer.reading.token];
      else if (answer.outcome === 'cold') await seed(answer.month);
      else return answered;
    }
  }

  /** How many tokens of the month are used and reserved beyond its allowance and overage. */
  function beyondOverage({ chargedTokens, reservedTokens, month }: LimitCounters): number {
    const { tokensPerMonth = 0, overageTokensPerMonth = 0, topUp } = allowance;
    return (
      chargedTokens +
      reservedTokens -
      tokensPerMonth -
      overageTokensPerMonth -
      (topUp?.month === month ? topUp.tokens : 0)
    );
  }

  /** Looks for a claim, too, as an ingress does for a request that it refuses. */
  async function findClaim(name: string): Promise<void> {
    const claim = claims.get(name);
    if (claim === undefined) return;
    const requestId = idOf(`look ${looks++}`);
    const expected = model.readCounters({ request: requestId, version, claim });
    const asked = { account, requestId, version, claim: claimOf(claim) };
    assert.deepEqual(await side.admission.readCounters(asked), expected);
  }

  async function look(): Promise<void> {
    const requestId = idOf(`look ${looks++}`);
    let [asked, token]: [number, string | undefined] = [version, undefined];
    for (;;) {
      const reading = token === undefined ? undefined : { token };
      const expected = model.readCounters({ request: requestId, version: asked, token });
      const answer = await side.admission.readCounters({ account, requestId, version: asked, reading });
      assert.deepEqual(answer, expected);
      if (answer.outcome === 'stale') [asked, token] = [version, answer.reading.token];
      else if (answer.outcome === 'cold') await seed(answer.month);
      else return;
    }
  }

  async function settle(request: string, { run: runBy, settler, share, isKept }: StepOf<'settle'>): Promise<string[]> {
    const requestId = idOf(request);
    const {
      tokens: reserved,
      admittedAt,
      overage,
    } = admissions.get(request) ?? {
      ...{ tokens: 100, admittedAt: now, overage: false },
    };
    const run = Math.max(1, (model.leases.get(requestId)?.run ?? 1) + runBy);
    const tokens = Math.round(reserved * share);
    const claim = claims.get(request);
    const end = tokens === 0 ? 'free' : isKept ? 'kept' : 'lost';
    const expected = model.settle({
      ...{ request: requestId, run, settler, tokens, admission: { admittedAt, overage } },
      claim: claim && { ...claim, end, bytes: answerBytes },
    });
    const answer = await sideOf(request).settle(request, {
      ...{ tokens, run, settler, admittedAt, overage },
      claim: claim && { idempotencyKey: claim.key, bodyMark: claim.body, ...endOf(end) },
    });
    assert.equal(answer, expected);
    if (answer) log.settled(requestId, tokens);
    return answer && overage && tokens > 0 ? ['settle true', 'settle overage'] : [`settle ${answer}`];
  }

  async function release(request: string, { by }: StepOf<'release'>): Promise<string[]> {
    const claim = claims.get(request);
    const { run: latest = 0 } = model.leases.get(idOf(request)) ?? {};
    const run = by === 'admission' ? undefined : by === 'any' ? by : Math.max(1, latest + by);
    const answer = await sideOf(request).release(request, { run, claim: claim && claimOf(claim) });
    assert.equal(answer, model.release(idOf(request), { run, claim }));
    if (answer === 'released') log.released(idOf(request));
    return [`release ${answer}${answer === 'released' && latest > 0 ? ' after its start' : ''}`];
  }

  async function start(request: string, { taken }: StepOf<'start'>): Promise<string[]> {
    const answer = await sideOf(request).start(request, taken);
    assert.deepEqual(answer, model.start(idOf(request), taken));
    return [`start ${answer.outcome}`];
  }

  async function markStreaming(request: string, { run: runBy }: StepOf<'mark streaming'>): Promise<string[]> {
    const run = Math.max(1, (model.leases.get(idOf(request))?.run ?? 1) + runBy);
    model.markStreaming(idOf(request), run);
    await side.markStreaming(request, run);
    return [];
  }

  async function renew(request: string, { lifeMs }: StepOf<'renew'>): Promise<string[]> {
    await side.renew(request, lifeMs);
    model.renew(idOf(request), lifeMs);
    return [];
  }

  async function endLeases({ lane }: StepOf<'end leases'>): Promise<string[]> {
    const answer = await (lane === 'batch' ? lines : side).endLeases();
    assert.equal(answer, model.endLeases(lane));
    return [`end ${lane === 'batch' ? 'lines' : 'leases'} ${answer === 0 ? 'none' : 'some'}`];
  }

  async function compare(month: string): Promise<string[]> {
    const compared = await side.seed(month, 'compare');
    const after = model.tokensOf(month);
    assert.deepEqual(compared, { before: model.isBegun(month) ? after : undefined, after });
    return [compared.before === undefined ? 'compare not counted' : 'compare counted'];
  }

  async function burst({ count, tokens, claim }: StepOf<'burst'>): Promise<string[]> {
    const answered: string[] = [];
    for (let index = 0; index < count; index++)
      answered.push(...(await admit(nameOf({ from: 'new', index }), { tokens, claim })));
    return answered;
  }

  async function change(): Promise<string[]> {
    version += 1;
    model.forgetVersion();
    await redis.del(versionKey(account), fillKey(account));
    return [];
  }

  async function forgetMonths(): Promise<string[]> {
    forgottenIn = Date.parse(monthOf(latest));
    await moveTo(now);
    const fields = await redis.hkeys(countersKey(account));
    await redis.hdel(countersKey(account), 'none', ...fields.filter((field) => /^\d{4}-\d{2}:/.test(field)));
    model.forgetMonths();
    return [];
  }

  function edgeAt(edge: Edge): number {
    const leases = [...model.leases.values()];
    const month = monthOf(now);
    const moments: Record<Edge, number[]> = {
      bucket: [Math.ceil((now + 1) / 5_000) * 5_000],
      minute: model.minute.leaves(now),
      day: [new Date(now).setUTCHours(24, 0, 0, 0)],
      month: [Date.parse(shiftMonth(month, 1))],
      'lease end': leases.map(({ endsAt }) => endsAt),
      startBy: leases.map(({ startBy }) => startBy),
      deadline: leases.map(({ deadline }) => deadline),
      forgotten: [now + 4_200_000],
      'answer end': model.claims.expiries(),
    };
    return Math.min(...moments[edge].filter((moment) => moment > now), now + 31 * 86_400_000);
  }

  async function happen(step: Step, name: string): Promise<string[]> {
    switch (step.kind) {
      case 'admit':
        return admit(name, { ...step, version: version + step.version });
      case 'burst':
        return burst(step);
      case 'start':
        return start(name, step);
      case 'renew':
        return renew(name, step);
      case 'mark streaming':
        return markStreaming(name, step);
      case 'settle':
        return settle(name, step);
      case 'release':
        return release(name, step);
      case 'end leases':
        return endLeases(step);
      case 'compare':
        return compare(shiftMonth(monthOf(now), step.months));
      case 'forget months':
        return forgetMonths();
      case 'change':
        allowance = { ...step.allowance, topUp: allowance.topUp };
        return step.isRead ? [] : change();
      case 'top up':
        allowance = { ...allowance, topUp: { month: shiftMonth(monthOf(now), step.months), tokens: step.tokens } };
        return change();
      case 'wait':
        return moveTo(now + step.ms).then(() => []);
      case 'edge':
        return moveTo(Math.max(now, edgeAt(step.edge) + step.by)).then(() => []);
      case 'step back':
        return moveTo(now - step.ms).then(() => []);
    }
  }

  return {
    async prepare(): Promise<void> {
      await moveTo(beginning);
      await look();
    },
    async take(step: Step): Promise<string[]> {
      const answered: string[] = [];
      const times = 'times' in step ? step.times : 1;
      const name = 'request' in step ? nameOf(step.request) : '';
      for (let time = 1; time <= times; time++) answered.push(...(await happen(step, name)));
      // After the clock alone has moved, the next step must be the first to find a month that is not counted.
      if (!['wait', 'edge', 'step back', 'forget months'].includes(step.kind)) {
        await look();
        await findClaim(name);
      }
      return answered;
    },
    /** Compares the records that wait for the store with everything that was settled and lost. */
    async finish(): Promise<void> {
      const outbox = (await side.outbox()).filter((record) => record.account === account);
      const records = outbox.map(({ requestId, month, admittedAt, settledAt, chargedTokens, overage, runs }) => ({
        ...{ request: requestId, month, admittedAt: admittedAt.getTime(), settledAt: settledAt.getTime() },
        ...{ tokens: chargedTokens, overage, runs },
      }));
      assert.deepEqual(records, model.records);
      const [kept, keeping] = await redis.hmget(countersKey(account), 'kept', 'keeping');
      assert.deepEqual([Number(kept), Number(keeping)], [model.claims.bytesKept(), model.keeping()]);
      for (const [index, { request, settledAt }] of records.entries()) {
        const again = records.slice(index + 1).find((other) => other.request === request);
        // It is forgotten an hour after it was lost.
        if (again !== undefined) assert.ok(again.settledAt >= settledAt + 3_600_000, `${request} has two records`);
      }
    },
  };
}
