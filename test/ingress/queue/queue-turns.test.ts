import test from 'ava';
import type { Depths } from '../../../ingress/queue/queue-bounds.ts';
import {
  createQueueTurns,
  createRankOf,
  ranksOf,
  scoreOfPriority,
  scoresOf,
  turnMax,
  turnOf,
} from '../../../ingress/queue/queue-turns.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';

const model = 'small-chat';

function plansOf(priorities: Record<string, number>): PlanFile['plans'] {
  const plans = Object.entries(priorities).map(([name, priority]) => [name, { priority }]);
  return Object.fromEntries(plans); // nothing else of a plan is read
}

const depthsAt = (taken: number | undefined): Depths => ({ begunAt: 0, of: () => 0, takenOf: () => taken });

function turnsAt(taken: number | undefined) {
  const turns = createQueueTurns();
  turns.counted(depthsAt(taken));
  return turns;
}

const plans = plansOf({ free: 1_000 });

const asked = (inFlight: number, latest = { turn: 0 }) => ({ model, plan: 'free', plans, inFlight, latest });

test('the n-th request in flight of an account is n turns behind the latest one that was taken', (t) => {
  t.is(turnsAt(undefined).next(asked(1)), 1, 'a priority of 0 would be none');
  t.is(turnsAt(40).next(asked(1)), 41);
  t.is(turnsAt(40).next(asked(12)), 52);
});

test('turns taken from this ingress count immediately, and the shared count if it is later', (t) => {
  const turns = turnsAt(40);
  const priority = turns.next(asked(9));
  turns.taken(model, priority);
  t.is(turns.next(asked(1)), 50);
  turns.counted(depthsAt(45));
  t.is(turns.next(asked(1)), 50);
  turns.counted(depthsAt(60));
  turns.taken(model, priority);
  t.is(turns.next(asked(1)), 61);
  t.is(turns.next({ ...asked(1), model: 'another' }), 61);
});

test('the requests of an account keep their order while some wait, however few are in flight', (t) => {
  const turns = turnsAt(100);
  const latest = { turn: 0 };
  const ask = (inFlight: number) => turns.next(asked(inFlight, latest));
  t.deepEqual([ask(30), ask(31), ask(2), ask(40)], [130, 131, 131, 140]);
});

test('turns stay in their range, and values from before they were lowered no longer count', (t) => {
  const turns = turnsAt(turnMax - 3);
  const far = turns.next(asked(500));
  t.is(far, turnMax);
  turns.taken(model, far);
  const latest = { turn: far };
  turns.counted(depthsAt(7));
  t.is(turns.next(asked(2, latest)), 9);
  turns.taken(model, far);
  t.is(turns.next(asked(2)), 9);
});

test('a failed count leaves turns unchanged', (t) => {
  const turns = turnsAt(40);
  turns.counted(undefined);
  t.is(turns.next(asked(1)), 41);
});

test('a plan with a lower priority comes first, with any turn', (t) => {
  const plans = plansOf({ late: 1_001, first: 1, usual: 10 });
  const turns = createQueueTurns();
  const ask = (plan: string, inFlight: number) => turns.next({ model, plan, plans, inFlight, latest: { turn: 0 } });
  t.true(ask('first', 30_000) < ask('usual', 1));
  t.true(ask('usual', 30_000) < ask('no such plan', 1), 'which is the usual priority of 1,000');
  t.true(ask('no such plan', 30_000) < ask('late', 1));
});

test('more priorities than ranks share them, in order, and all fit into the range of BullMQ', (t) => {
  const plans = plansOf(Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`plan ${index}`, index * 3 + 1])));
  const rankOf = createRankOf(plans);
  const ranks = Object.values(plans).map(({ priority }) => rankOf(priority));
  t.deepEqual(
    ranks,
    ranks.toSorted((one, other) => one - other),
  );
  t.deepEqual(
    ranksOf(plans),
    Array.from({ length: 16 }, (_, index) => index),
  );
  const turns = createQueueTurns();
  t.true(turns.next({ model, plan: 'plan 39', plans, inFlight: 30_000, latest: { turn: 0 } }) < 2 ** 21);
});

test('the scores of one rank end where those of the next start', (t) => {
  for (let rank = 0; rank < 16; rank++) {
    const [min, max] = scoresOf(rank);
    t.true(Number.isSafeInteger(min) && Number.isSafeInteger(max));
    t.is(max + 1, rank === 15 ? 2 ** 53 : scoresOf(rank + 1)[0]);
    t.deepEqual(
      [min, max].map((score) => turnOf(Math.floor(score / scoreOfPriority))),
      [0, turnMax],
    );
  }
});
