import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { ask, type EngineAnswer, forms, isHonest } from './ask.ts';
import { openEngineTests, until } from './open-engine-tests.ts';
import type { Engine } from './start-engine.ts';

const { engineTestAlone, enginesOf, account } = openEngineTests(test, {
  slow: {
    ...{ model: 'slow', count: 2, slots: 2, contextTokens: 4_096 },
    endpoints: forms,
  },
});

/** A third of a second of an engine that does nothing else. */
const limit = 100;
/** More than the slots of both engines. */
const clients = 6;
const rounds = 5;

type Answer = EngineAnswer & { stream: boolean };

/** `answers`: all until now. */
type UntilNext = (restarted: Engine, answers: readonly Answer[]) => Promise<void>;

/** Clients ask one request after another while each engine restarts several times. The next one restarts after `untilNext`. */
async function answersUnder(t: ExecutionContext, untilNext: UntilNext): Promise<Answer[]> {
  const service = await account();
  const answers: Answer[] = [];
  let isOver = false;
  async function client(number: number): Promise<void> {
    for (let turn = number; !isOver; turn++) {
      const form = forms[turn % forms.length] ?? 'chat';
      const stream = turn % 8 < 4 || number % 2 === 0;
      answers.push({ stream, ...(await ask(service, { form, stream, model: 'slow', limit })) });
    }
  }
  const asking = Array.from({ length: clients }, (_, number) => client(number));
  await until('all slots work', async () => {
    const busy = await Promise.all(enginesOf('slow').map((engine) => engine.busySlots()));
    return busy.flat().length === 4;
  });
  for (let round = 0; round < rounds; round++) {
    for (const engine of enginesOf('slow')) {
      await engine.restart();
      await untilNext(engine, answers);
    }
  }
  isOver = true;
  await Promise.all(asking);

  const failed = answers.filter(({ isComplete }) => !isComplete);
  t.log(`${rounds * 2} restarts, ${answers.length - failed.length} complete answers, ${failed.length} with an error`);
  for (const [what, some] of Map.groupBy(failed, kindOf)) t.log(`${some.length} ${what}`);
  const wrong = answers.filter((answer) => !isHonest(answer, limit));
  t.deepEqual(wrong, []);
  return answers;
}

engineTestAlone(
  'a rolling restart under load: no answer that says complete is cut, and each other one has its error',
  async (t) => {
    const answers = await answersUnder(t, async (engine, all) => {
      await until('the service uses it again', async () => (await engine.busySlots()).length > 0, 60_000);
      const complete = () => all.filter(({ isComplete }) => isComplete).length;
      const wanted = complete() + clients;
      await until('each client could have an answer', async () => complete() >= wanted, 60_000);
    });
    // A stream is interrupted, or a request has lost both engines.
    const kinds = answers.filter(({ isComplete }) => !isComplete).map(kindOf);
    t.deepEqual(
      kinds.filter((kind) => !/: 200 UPSTREAM_INTERRUPTED$|: 503 UPSTREAMS_EXHAUSTED$/.test(kind)),
      [],
    );
  },
);

engineTestAlone('each engine restarts a second after the other one is ready, which is called at once', async (t) => {
  const answers = await answersUnder(t, () => sleep(1_000));
  // In 503 ends only what both of them have lost.
  t.true(answers.filter(({ status }) => status === 503).length <= rounds);
});

function kindOf({ status, stream, error = '' }: Answer): string {
  const [code = 'without a code'] = /[A-Z]+_[A-Z_]+/.exec(error) ?? [];
  return `${stream ? 'streamed' : 'whole'}: ${status} ${code}`;
}
