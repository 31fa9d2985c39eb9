import test from 'ava';
import { ask, forms } from './ask.ts';
import { openEngineTests, until } from './open-engine-tests.ts';

const { engineTestAlone, enginesOf, account } = openEngineTests(test, {
  chat: {
    ...{ model: 'chat', count: 2, slots: 4, contextTokens: 4_096 },
    endpoints: ['chat', 'completions', 'responses', 'messages'],
  },
});

const requests = 200;
const clients = 8;

engineTestAlone('the usage of 200 requests is exactly what two engines have counted', async (t) => {
  const service = await account(t);
  let begun = 0;
  async function client(): Promise<void> {
    for (let turn = begun++; turn < requests; turn = begun++) {
      const form = forms[turn % forms.length] ?? 'chat';
      const ending = await ask(service, { form, stream: turn % 8 < 4, model: 'chat', limit: 20 + turn });
      t.true(ending.isComplete, JSON.stringify(ending));
    }
  }
  await Promise.all(Array.from({ length: clients }, client));
  const { promptTokens, completionTokens } = await service.usageWith(requests);
  // Tokens of a prompt that were in the cache of a slot are counted apart.
  const counted = async (...metrics: string[]) => {
    const counts = enginesOf('chat').flatMap((engine) => metrics.map((metric) => engine.count(metric)));
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  };
  await until('the engines have counted the last one', async () => {
    return (await counted('tokens_predicted_total')) >= completionTokens;
  });
  t.is(await counted('tokens_predicted_total'), completionTokens);
  t.is(await counted('prompt_tokens_total', 'prompt_tokens_cached_total'), promptTokens);
});
