import { readdirSync } from 'node:fs';
import test from 'ava';
import { keptSeeds, seedsFolder } from './search/kept-seeds.ts';
import { targets } from './targets.ts';

for (const [name, target] of Object.entries(targets)) {
  test(`${name}: every kept seed satisfies the promise unchanged, and a valid one is accepted`, async (t) => {
    const seeds = keptSeeds(name);
    for (const { name: seed, bytes } of seeds) {
      try {
        const outcome = await target.check(bytes);
        if (seed.startsWith('valid-')) t.regex(outcome, /^accepted/, seed);
      } catch (error) {
        t.fail(`${seed}: ${error}`);
      }
    }
    t.true(seeds.some(({ name }) => name.startsWith('valid-')));
    t.true(seeds.some(({ name }) => name.startsWith('hostile-')));
    t.deepEqual(
      seeds.map(({ name }) => name).filter((name) => !/^(valid|hostile)-[\w.-]+\.txt$/.test(name)),
      [],
    );
  });
}

test('each folder of seeds belongs to a target', (t) => {
  const folders = readdirSync(seedsFolder).filter((name) => !name.startsWith('.'));
  t.deepEqual(folders.toSorted(), Object.keys(targets).toSorted());
});
