import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { Agent } from 'undici';
import { startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { type AskedRequest, answerTo, ask } from '../support/truth/ask.ts';
import { type AgreedEvidence, openWitnesses } from '../support/truth/open-witnesses.ts';

const clients = 64;

type Killed = { asked: readonly AskedRequest[]; evidence: AgreedEvidence; killedAt: number };

let killing: Promise<Killed> | undefined;

/** Runs once, for both tests. */
function killOne(t: ExecutionContext): Promise<Killed> {
  killing ??= killUnderLoad(t);
  return killing;
}

async function killUnderLoad(t: ExecutionContext): Promise<Killed> {
  await using stack = await startStack({
    ...{ ingresses: 2, workers: 2, env: { CONCURRENCY: '24' } },
    modelServers: { firstTokenMs: 400, tokensPerSecond: 40 },
  });
  await using witnesses = await openWitnesses(stack);
  const { keys, wish } = witnesses;
  const agent = new Agent();
  t.teardown(() => agent.destroy());

  async function askAs(client: number): Promise<AskedRequest> {
    const url = stack.ingresses[client % 2]?.url ?? '';
    const key = keys[client % keys.length] ?? '';
    const stream = client % 4 < 2;
    const question = `Client ${client}, repeat ${1 + (client % 5)}?`;
    return ask({ ...wish(question), url, key, stream, includeUsage: stream }, agent);
  }

  const asking = Array.from({ length: clients }, (_, client) => askAs(client));
  const calls = () => stack.modelServers.flatMap((server) => server.calls());
  while (calls().filter(({ completionTokens }) => completionTokens > 20).length < 20) await sleep(5);
  const [killed] = stack.workers.splice(0, 1);
  killed?.process.kill('SIGKILL');
  const killedAt = Date.now();
  const asked = await Promise.all(asking);
  const evidence = await witnesses.agreeOn(t, asked);
  t.is(evidence.records.size, clients);
  t.deepEqual(
    asked.filter(({ ending }) => ending !== 'answered' && ending !== 'interrupted'),
    [],
  );
  return { asked, evidence, killedAt };
}

faultTest(
  test.serial,
  {
    id: '1',
    done: 'one of two workers is killed (SIGKILL) under 64 clients, half of them streaming',
    promised: 'requests without output are run by the other within 15 s and answered; all are counted once',
  },
  async (t, see) => {
    t.timeout(120_000);
    const { asked, evidence, killedAt } = await killOne(t);
    const again = [...evidence.records.values()].filter(({ outcome, runs }) => outcome === 'completed' && runs > 1);
    const ids = new Set(again.map(({ requestId }) => requestId));
    const begunMs = evidence.calls
      .filter(({ requestId }) => ids.has(requestId ?? ''))
      .map(({ startedAt }) => startedAt - killedAt);
    const lastMs = Math.max(...begunMs);
    const answered = asked.filter(({ ending }) => ending === 'answered').length;
    see(`${answered} of ${clients} answered; ${again.length} run again, the last ${lastMs} ms after the kill`);
    see(`${evidence.records.size} records, ${evidence.contradictions.length} contradictions`);
    t.true(again.length > 0, 'the worker had requests without output');
  },
);

faultTest(
  test.serial,
  {
    id: '2',
    done: 'a worker is killed (SIGKILL) in the middle of streams',
    promised: 'each ends with an error frame, never with another text; delivered output is charged once',
  },
  async (t, see) => {
    t.timeout(120_000);
    const { asked, evidence } = await killOne(t);
    const interrupted = asked.filter((one) => one.ending === 'interrupted');
    t.true(interrupted.length > 0, 'the worker had streams');
    for (const one of interrupted) {
      t.true(one.stream && one.text !== '', 'requests without output are run again');
      const record = evidence.records.get(one.requestId ?? '');
      t.like(record, { outcome: 'failed', counted: 'estimated' });
      const charged = answerTo(one).slice(0, record?.completionTokens).join('');
      t.is(charged, one.text, 'delivered output is charged');
    }
    see(`${interrupted.length} streams ended with an error frame, each charged the delivered text`);
  },
);
