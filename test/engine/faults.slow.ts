import test, { type ExecutionContext } from 'ava';
import { someOf } from '../support/size.ts';
import { ask, type EngineAnswer, forms, isHonest } from './ask.ts';
import { openEngineTests, until } from './open-engine-tests.ts';

const slow = { model: 'slow', slots: 2, contextTokens: 4_096, endpoints: forms } as const;
const { engineTestAlone, enginesOf, account } = openEngineTests(
  test,
  {
    ended: { ...slow, count: 2 },
    frozen: { ...slow, count: 2 },
    late: { model: 'late', slots: 2, contextTokens: 2_048, endpoints: ['chat'] },
  },
  // A frozen engine is given up after these.
  { timeouts: { first_token_ms: 5_000, idle_ms: 5_000, connect_ms: 20_000 } },
);

/** A third of a second of an engine that does nothing else. */
const limit = 100;
/** More than the slots of one engine, and no more than those of both. */
const clients = 4;

type Load = { model: 'ended' | 'frozen'; fault: () => Promise<void> };

/**
 * Clients of every endpoint, streamed and whole, ask one request after another. Once both engines are in the middle of an answer, something
 * happens to the first one. As many requests as clients are begun after that.
 */
async function endingsUnder({ model, fault }: Load): Promise<EngineAnswer[]> {
  const service = await account();
  const endings: EngineAnswer[] = [];
  let remaining = Number.POSITIVE_INFINITY;
  async function client(number: number): Promise<void> {
    for (let turn = number; remaining-- > 0; turn++) {
      const form = forms[turn % forms.length] ?? 'chat';
      endings.push(await ask(service, { form, stream: turn % 8 < 4 || number % 2 === 0, model, limit }));
    }
  }
  const asking = Array.from({ length: clients }, (_, number) => client(number));
  try {
    await until(
      'both engines are in the middle of an answer',
      async () => {
        const busy = await Promise.all(enginesOf(model).map((engine) => engine.busySlots()));
        return busy.every((slots) => slots.some((tokens) => tokens > 10 && tokens < 70));
      },
      60_000,
    );
    await fault();
  } finally {
    remaining = clients;
    await Promise.all(asking);
  }
  return endings;
}

function requireHonest(t: ExecutionContext, endings: readonly EngineAnswer[]): void {
  const wrong = endings.filter((ending) => !isHonest(ending, limit));
  t.deepEqual(wrong, []);
  const complete = endings.filter(({ isComplete }) => isComplete);
  t.true(complete.length > 0, `${complete.length} of ${endings.length} are complete`);
  t.log(`${complete.length} complete, ${endings.length - complete.length} with an error`);
  for (const { error } of endings) if (error !== undefined) t.log(error);
}

for (const signal of someOf(['SIGKILL'] as const, ['SIGTERM', 'SIGKILL'] as const)) {
  engineTestAlone(`${signal} of one of two engines under load: no answer that says complete is cut`, async (t) => {
    const [victim] = enginesOf('ended');
    requireHonest(
      t,
      await endingsUnder({
        model: 'ended',
        fault: async () => (signal === 'SIGTERM' ? victim?.stop() : victim?.kill(signal)),
      }),
    );
    await victim?.restart();
  });
}

engineTestAlone('one of two engines is frozen under load: no answer that says complete is cut', async (t) => {
  const [victim] = enginesOf('frozen');
  requireHonest(t, await endingsUnder({ model: 'frozen', fault: async () => victim?.kill('SIGSTOP') }));
  await victim?.kill('SIGCONT');
});

const late = { form: 'chat', model: 'late', limit: 20 } as const;

for (const stream of someOf([true], [true, false])) {
  engineTestAlone(`a ${stream ? 'streamed' : 'whole'} answer waits for an engine that loads its model`, async (t) => {
    const service = await account();
    const [engine] = enginesOf('late');
    await engine?.restart({ isAwaited: false });
    await until('the engine says that it loads', async () => (await engine?.health()) === 503);
    const ending = await ask(service, { ...late, stream });
    t.like(ending, { status: 200, isComplete: true, tokens: late.limit }, JSON.stringify(ending));
  });
}

engineTestAlone('an engine is used once it has loaded its model', async (t) => {
  const service = await account();
  await enginesOf('late')[0]?.untilReady();
  await until('it answers', async () => (await ask(service, { ...late, stream: true })).isComplete, 60_000);
  t.pass();
});
