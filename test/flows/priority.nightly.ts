import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';

const plans = {
  first: { priority: 1, model_tiers: ['guest'] },
  second: { priority: 2, model_tiers: ['guest'] },
  // The default is 1,000.
  usual: { model_tiers: ['guest'] },
  last: { priority: 1_001, model_tiers: ['guest'] },
};

test('requests waiting in a pool run by the priority of their plan, lower first, and by age within one', async (t) => {
  await using stack = await startStack({
    plans,
    models: { 'one-server': { tier: 'guest', pool: 'default', backends: ['onprem-a'] } },
    env: { CONCURRENCY: '1' },
  });
  const [ingress] = stack.ingresses;
  if (ingress === undefined) throw new Error('the stack has an ingress');
  const { url } = ingress;
  const keys = createKeyClient(stack);
  const keyOf = async (plan: string) => {
    const key = await keys.newKey(plan);
    await keys.change(`user:${plan}`, { plan });
    return key;
  };
  const keyByPlan = new Map<string, string>();
  for (const plan of Object.keys(plans)) keyByPlan.set(plan, await keyOf(plan));
  const ask = (plan: string, question: string) =>
    chat({ url, key: keyByPlan.get(plan) ?? '', model: 'one-server', question });

  const [server] = stack.modelServers;
  server.fail({ untilHealed: true });
  const answers = [ask('last', 'keeps the worker busy')];
  await server.waitForCall(() => true);
  const order = ['last', 'usual', 'second', 'first', 'usual', 'first', 'second', 'last'];
  for (const [index, plan] of order.entries()) {
    answers.push(ask(plan, `${plan} ${index}`));
    await awaitMetric(
      ingress,
      new RegExp(`^svc_queue_depth\\{pool="default",model="one-server",lane="interactive"\\} ${index + 1}$`, 'm'),
    );
  }
  t.true(server.calls().length === 1, 'all of them wait');
  server.heal();
  for (const answer of answers) t.is((await answer).status, 200);
  const asked = server.calls().map(({ body }) => /"content":"(.*?)"/.exec(JSON.stringify(body))?.[1]);
  t.deepEqual(asked, [
    'keeps the worker busy',
    ...['first 3', 'first 5', 'second 2', 'second 6', 'usual 1', 'usual 4', 'last 0', 'last 7'],
  ]);
});
