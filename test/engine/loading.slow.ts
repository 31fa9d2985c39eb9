import test from 'ava';
import { ask } from './ask.ts';
import { openEngineTests, until } from './open-engine-tests.ts';

const { failingEngineTest, engineTestAlone, enginesOf, account } = openEngineTests(test, {
  late: { model: 'late', slots: 2, contextTokens: 2_048, endpoints: ['chat'] },
});

const asked = { form: 'chat', model: 'late', limit: 20 } as const;

for (const stream of [true, false]) {
  failingEngineTest(`a ${stream ? 'streamed' : 'whole'} answer waits for an engine that loads its model`, async (t) => {
    const service = await account(t);
    const [engine] = enginesOf('late');
    await engine?.restart({ isAwaited: false });
    await until('the engine says that it loads', async () => (await engine?.health()) === 503);
    const ending = await ask(service, { ...asked, stream });
    t.like(ending, { status: 200, isComplete: true, tokens: 20 }, JSON.stringify(ending));
  });
}

engineTestAlone('the engine is used once it has loaded its model', async (t) => {
  const service = await account(t);
  const [engine] = enginesOf('late');
  await engine?.untilReady();
  await until('it answers', async () => (await ask(service, { ...asked, stream: true })).isComplete, 60_000);
  t.pass();
});
