import { readFile } from 'node:fs/promises';
import test from 'ava';
import { type Budget, overBudget } from './budget.ts';
import { measureRedis } from './measure.ts';

const budget = JSON.parse(await readFile(new URL('budget.json', import.meta.url), 'utf8')) as Budget; // our own file

test('100 requests and a stream of 300 chunks cost no more in Redis than the budget', async (t) => {
  t.timeout(480_000); // a measurement takes half a minute, on a busy machine two
  // On a busy machine the requests take longer, and more of what processes do from time to time falls into that time.
  let over: string[] = [];
  for (let times = 0; times < 3 && (times === 0 || over.length > 0); times += 1) {
    const measured = await measureRedis();
    for (const [load, { cost }] of Object.entries(measured)) t.log(load, JSON.stringify(cost));
    over = overBudget(budget, measured);
  }
  t.deepEqual(over, [], 'say in the commit why it must grow, and write it with npm run meter -- --write');
});

test('what is over its budget is named, with the parts that grew', (t) => {
  const { requests, stream } = budget;
  const { cost, parts } = requests;
  t.deepEqual(overBudget(budget, budget), []);
  const perRequest = { ...cost, commands: cost.commands + 1, scripts: cost.scripts + 1 };
  const grown = { cost: perRequest, parts: { ...parts, 'script Does something new': 100 } };
  t.deepEqual(overBudget(budget, { requests: grown, stream }), [
    `requests: commands grew from ${cost.commands} to ${cost.commands + 1}`,
    `requests: scripts grew from ${cost.scripts} to ${cost.scripts + 1}`,
    'requests: script Does something new: 0 → 100',
  ]);
  const keysLeft = stream.cost.keysLeft + 10;
  t.deepEqual(overBudget(budget, { requests, stream: { ...stream, cost: { ...stream.cost, keysLeft } } }), [
    `stream: keysLeft grew from ${stream.cost.keysLeft} to ${keysLeft}`,
  ]);
});
