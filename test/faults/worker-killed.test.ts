import test from 'ava';
import { Agent } from 'undici';
import { startStack } from '../stack/stack.ts';
import { type Asked, answerTo, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';

const clients = 64;
/** A dead worker is noticed within twenty seconds (shared/queues.ts), by a worker that has the time to look. */
const runAgainWithinMs = 25_000;

test('of 64 clients of a worker that is killed each gets an answer, or is told that its stream broke off', async (t) => {
  t.timeout(120_000);
  await using stack = await startStack({
    ...{ ingresses: 2, workers: 2, env: { CONCURRENCY: '24' } },
    modelServers: { firstTokenMs: 400, tokensPerSecond: 40 },
  });
  await using witnesses = await openWitnesses(stack);
  const { keys, wish } = witnesses;
  const agent = new Agent();
  t.teardown(() => agent.destroy());

  async function askAs(client: number): Promise<Asked> {
    const url = stack.ingresses[client % 2]?.url ?? '';
    const key = keys[client % keys.length] ?? '';
    const stream = client % 4 < 2;
    const question = `Client ${client}, repeat ${1 + (client % 5)}?`;
    return ask({ ...wish(question), url, key, stream, includeUsage: stream }, agent);
  }

  const asking = Array.from({ length: clients }, (_, client) => askAs(client));
  const calls = () => stack.modelServers.flatMap((server) => server.calls());
  while (calls().filter(({ completionTokens }) => completionTokens > 20).length < 20) await new Promise(setImmediate);
  const [killed] = stack.workers.splice(0, 1);
  killed?.process.kill('SIGKILL');
  const killedAt = Date.now();
  const asked = await Promise.all(asking);

  t.deepEqual(
    asked.filter(({ ending }) => ending !== 'answered' && ending !== 'interrupted'),
    [],
  );

  const evidence = await witnesses.agreeOn(t, asked);
  t.is(evidence.records.size, clients);
  const records = asked.map(({ requestId = '' }) => evidence.records.get(requestId));
  const runAgain = records.filter((record) => record?.outcome === 'completed' && record.runs > 1);
  const interrupted = asked.filter((one) => one.ending === 'interrupted');
  const again = new Set(runAgain.map((record) => record?.requestId));
  const begunMs = calls()
    .filter(({ requestId }) => again.has(requestId))
    .map(({ startedAt }) => startedAt - killedAt);
  const lastMs = Math.max(...begunMs);
  t.log(`${runAgain.length} run again, the last ${lastMs} ms after the kill; ${interrupted.length} interrupted`);
  t.true(runAgain.length > 0 && interrupted.length > 0, 'the worker had some of each');
  t.true(lastMs < runAgainWithinMs);

  for (const one of interrupted) {
    t.true(one.stream && one.text !== '', 'what had sent nothing is run again');
    const record = evidence.records.get(one.requestId ?? '');
    t.like(record, { outcome: 'failed', counted: 'estimated' });
    const charged = answerTo(one.question).slice(0, record?.completionTokens).join('');
    t.is(charged, one.text, 'what was delivered is charged');
  }
});
