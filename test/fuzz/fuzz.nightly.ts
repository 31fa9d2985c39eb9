import test from 'ava';
import { root } from '../suite/test-files.ts';
import { describeFailure, describeReport, keepInput } from './search/describe-search.ts';
import { searchInThread } from './search/search-in-thread.ts';
import { targets } from './targets.ts';

const seconds = 10;
/** Far fewer than a busy machine tries in that time. */
const triedMin = 50;

for (const name of Object.keys(targets)) {
  test.serial(`${name}: the promise about its inputs holds for some seconds of mutated ones`, async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const targetsUrl = new URL('targets.ts', import.meta.url).href;
    const report = await searchInThread({ targetsUrl, name, seconds, seed });
    t.log(`${describeReport(name, report)}, --seed ${seed}`);
    const { failure } = report;
    if (failure !== undefined) {
      const file = await keepInput(root, name, failure.input);
      t.fail(describeFailure(name, failure, { seed, file }));
    }
    t.true(report.tried >= triedMin, `${report.tried} inputs were tried`);
  });
}
