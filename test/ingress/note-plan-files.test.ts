import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { notePlanFiles } from '../../ingress/note-plan-files.ts';
import { createPlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import type { AuditStore } from '../../shared/store/records/audit-store.ts';
import { parsedPlan } from '../support/parsed-plan.ts';
import { openRedisDatabase, type RedisDatabase } from '../support/private-redis.ts';
import { recordedLog } from '../support/recorded-log.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});
test.after.always(() => own?.[Symbol.asyncDispose]());

const first = parsedPlan();
const second = parsedPlan(({ plans }) => Object.assign(plans, { more: plans.free }));
const third = parsedPlan(({ plans }) => Object.assign(plans, { most: plans.free }));

/** The store of an ingress, which fails the first `failures` times. */
function start(failures: number) {
  const planFile = createPlanFileInForce(first);
  const noted: [generation: string, known: number | undefined][] = [];
  const { log, lines } = recordedLog();
  let tried = 0;
  const audit: Pick<AuditStore, 'notePlanFile'> = {
    async notePlanFile({ generation, at, contents }, known) {
      tried += 1;
      if (tried <= failures) throw new Error('away');
      if (Math.abs(at.getTime() - Date.now()) > 60_000 || contents.plans.length === 0) throw new Error('wrong');
      noted.push([generation, known]);
      return 10 * noted.length;
    },
  };
  const notes = notePlanFiles({ planFile, store: { audit }, redis: own.redis, log, retryMs: 1 });
  return { planFile, noted, lines, notes, tried: () => tried };
}

test('each plan file is noted once, in order, with the number of the one before it, also after failures', async (t) => {
  const { planFile, noted, lines, notes } = start(2);
  planFile.replace(second);
  while (noted.length < 2) await nextTurn();
  planFile.replace(third);
  planFile.replace(first);
  while (noted.length < 4) await nextTurn();
  await notes[Symbol.asyncDispose]();
  const generations = [first, second, third, first].map(({ generation }) => generation);
  t.deepEqual(
    noted,
    generations.map((generation, index) => [generation, index === 0 ? undefined : 10 * index]),
  );
  t.is(lines.filter(({ level }) => level === 'warn').length, 2);
});

test('nothing is noted once it is closed', async (t) => {
  const { planFile, notes, tried } = start(Number.POSITIVE_INFINITY);
  while (tried() < 3) await nextTurn();
  await notes[Symbol.asyncDispose]();
  const before = tried();
  planFile.replace(second);
  await nextTurn();
  t.is(tried(), before);
});
