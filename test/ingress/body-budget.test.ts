import test from 'ava';
import fc from 'fast-check';
import { createBodyBudget } from '../../ingress/body-budget.ts';

const piece = 65_536;
const bytesMax = 16 * piece;

/** A body that arrives piece by piece unless it is paused. */
function createSource() {
  let paused = false;
  return {
    isPaused: () => paused,
    pause() {
      paused = true;
    },
    resume() {
      paused = false;
    },
  };
}

function begin(budget: ReturnType<typeof createBodyBudget>, holder: string) {
  const source = createSource();
  const share = budget.enter(holder, source);
  if (share === undefined) throw new Error('the budget is used up');
  return { ...share, source };
}

test('a body takes what has arrived of it, until it leaves, and leaving twice gives nothing more back', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const [one, other] = [begin(budget, 'a'), begin(budget, 'b')];
  t.is(budget.bytesHeld(), 0, 'what is only announced takes nothing');
  one.add(100);
  other.add(50);
  t.is(budget.bytesHeld(), 150);
  one.arrived();
  t.is(budget.bytesHeld(), 150, 'it waits to be queued');
  one.leave();
  one.leave();
  t.is(budget.bytesHeld(), 50);
});

test('no body begins while the budget is used up, and one does as soon as there is room', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const one = begin(budget, 'a');
  one.add(bytesMax - 1);
  const other = budget.enter('b', createSource());
  t.truthy(other);
  other?.add(1);
  t.is(budget.enter('c', createSource()), undefined);
  other?.leave();
  t.truthy(budget.enter('c', createSource()));
});

test('while the budget is used up only the oldest body goes on, and the next one when that has arrived', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const bodies = ['a', 'b', 'c', 'd', 'e'].map((holder) => begin(budget, holder));
  for (const { add } of bodies) add(bytesMax / 4);
  const paused = () => bodies.map(({ source }) => source.isPaused());
  t.deepEqual(paused(), [false, false, false, true, true], 'those before the last saw room');
  for (const { add } of bodies) add(1);
  t.deepEqual(paused(), [false, true, true, true, true]);
  bodies[0]?.arrived();
  t.deepEqual(paused(), [false, false, true, true, true]);
  bodies[0]?.leave();
  t.is(budget.bytesHeld(), bytesMax + 4);
  bodies[1]?.arrived();
  bodies[1]?.leave();
  t.deepEqual(paused(), [false, false, false, false, false], 'there is room for the next piece of each');
});

test("one holder's bodies wait beyond a quarter of the budget, and those of others go on", (t) => {
  const budget = createBodyBudget({ bytesMax });
  const mine = [1, 2, 3].map(() => begin(budget, 'mine'));
  for (const { add } of mine) add(bytesMax / 8);
  const other = begin(budget, 'other');
  other.add(piece);
  t.deepEqual(
    mine.map(({ source }) => source.isPaused()),
    [false, true, true],
  );
  t.false(other.source.isPaused());
  mine[0]?.leave();
  t.false(mine[1]?.source.isPaused());
  t.deepEqual(
    [mine[0], mine[1], other].map((body) => body?.hadToWait()),
    [false, true, false],
  );
});

test('in any order of arrivals the bound holds, at least one body is read on, and no byte stays counted', (t) => {
  const step = fc.record({
    kind: fc.constantFrom('begin', 'add', 'add', 'add', 'arrived', 'leave'),
    pick: fc.nat(),
    holder: fc.nat(3),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 50, maxLength: 300 }), (steps) => {
      const budget = createBodyBudget({ bytesMax });
      const open: (ReturnType<typeof begin> & { bytes: number; isArriving: boolean })[] = [];
      const bodyMax = 8 * piece;
      let most = 0;
      for (const { kind, pick, holder } of steps) {
        if (kind === 'begin' && budget.bytesHeld() < bytesMax) {
          open.push({ ...begin(budget, `${holder}`), bytes: 0, isArriving: true });
        }
        const body = open[pick % open.length];
        if (body === undefined) continue;
        if (kind === 'add' && body.isArriving && !body.source.isPaused() && body.bytes < bodyMax) {
          body.add(piece);
          body.bytes += piece;
        }
        if (kind === 'arrived' && body.isArriving) {
          body.arrived();
          body.isArriving = false;
        }
        if (kind === 'leave') {
          body.leave();
          open.splice(open.indexOf(body), 1);
        }
        const arriving = open.filter(({ isArriving }) => isArriving);
        if (arriving.length > 0 && arriving[0]?.source.isPaused() !== false) return false;
        most = Math.max(most, budget.bytesHeld() - arriving.length * piece);
      }
      for (const { leave } of open) leave();
      return most <= bytesMax + bodyMax && budget.bytesHeld() === 0;
    }),
  );
  t.pass();
});
