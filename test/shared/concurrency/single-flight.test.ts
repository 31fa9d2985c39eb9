import test from 'ava';
import fc from 'fast-check';
import { createSingleFlight } from '../../../shared/concurrency/single-flight.ts';

/** Fetches that end when the test says so. Each returns the version of the world at its start. */
function createSubject() {
  const begun: { name: string; land: () => void; fail: (error: Error) => void }[] = [];
  let world = 0;
  const flights = createSingleFlight<string, number>({
    nameOf: (wanted) => wanted,
    async fetch(name) {
      const ending = Promise.withResolvers<void>();
      begun.push({ name, land: ending.resolve, fail: ending.reject });
      const seen = world;
      await ending.promise;
      return seen;
    },
  });
  return {
    ...flights,
    begun,
    change: () => {
      world++;
    },
  };
}

test('callers of one name share the fetch in progress, and a later caller starts another', async (t) => {
  const { join, begun, change } = createSubject();
  const [first, second] = [join('a'), join('a')];
  t.is(begun.length, 1);
  begun[0]?.land();
  t.deepEqual(await Promise.all([first, second]), [0, 0]);
  change();
  const third = join('a');
  t.is(begun.length, 2);
  begun[1]?.land();
  t.is(await third, 1);
});

test('different names are fetched at the same time', async (t) => {
  const { join, joinNext, begun } = createSubject();
  const fetched = Promise.all([join('a'), join('b'), joinNext('c')]);
  t.deepEqual(
    begun.map(({ name }) => name),
    ['a', 'b', 'c'],
  );
  for (const { land } of begun) land();
  t.deepEqual(await fetched, [0, 0, 0]);
});

test('callers that need a fresh value wait for the next fetch, which they share', async (t) => {
  const { join, joinNext, begun, change } = createSubject();
  const early = join('a');
  change();
  const late = [joinNext('a'), joinNext('a'), joinNext('a')];
  t.is(begun.length, 1, 'one at a time');
  begun[0]?.land();
  t.is(await early, 0);
  await new Promise(setImmediate);
  t.is(begun.length, 2);
  begun[1]?.land();
  t.deepEqual(await Promise.all(late), [1, 1, 1]);
});

test('while the next fetch is in progress, new callers wait for the one after it', async (t) => {
  const { joinNext, begun, change } = createSubject();
  const first = joinNext('a');
  const second = joinNext('a');
  begun[0]?.land();
  await first;
  await new Promise(setImmediate);
  change();
  const third = joinNext('a');
  begun[1]?.land();
  t.is(await second, 0);
  await new Promise(setImmediate);
  begun[2]?.land();
  t.is(await third, 1);
  t.is(begun.length, 3);
});

test('a failure reaches every caller that shares the fetch or waits for the next, and no later caller', async (t) => {
  const { join, joinNext, begun } = createSubject();
  const shared = Promise.allSettled([join('a'), join('a'), joinNext('a'), joinNext('a')]);
  begun[0]?.fail(new Error('unavailable'));
  t.deepEqual(
    (await shared).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected', 'rejected'],
  );
  t.is(begun.length, 1);
  const after = join('a');
  begun[1]?.land();
  t.is(await after, 0);
  const later = joinNext('a');
  begun[2]?.land();
  t.is(await later, 0);
});

test('in any order, joinNext never returns a value older than its call, and one fetch per name runs at a time', async (t) => {
  const wishes = fc.array(fc.constantFrom('join', 'joinNext', 'change'), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), wishes, async (turns, acts) => {
      let world = 0;
      let running = 0;
      const { join, joinNext } = createSingleFlight<string, number>({
        nameOf: (wanted) => wanted,
        async fetch() {
          t.is(++running, 1);
          const seen = world;
          await turns.schedule(Promise.resolve());
          running--;
          return seen;
        },
      });
      const act = async (wish: string) => {
        await turns.schedule(Promise.resolve());
        const came = world;
        if (wish === 'change') world++;
        else if (wish === 'join') await join('a');
        else t.true((await joinNext('a')) >= came);
      };
      await turns.waitFor(Promise.all(acts.map(act)));
    }),
  );
});
