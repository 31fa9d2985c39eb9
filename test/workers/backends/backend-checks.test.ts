import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { type AskBackend, createAskBackend } from '../../../shared/backends/ask-backend.ts';
import { createBackendAgents } from '../../../shared/backends/backend-agents.ts';
import { type Backend, parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { createBackendChecks } from '../../../workers/backends/backend-checks.ts';
import { startModelServer } from '../../stack/model-server.ts';
import { planFileFor } from '../../stack/plan.ts';

function openAsk(t: ExecutionContext, timeoutMs: number): AskBackend {
  const agents = createBackendAgents({ connectMs: () => 20_000, onUnreadable() {} });
  t.teardown(() => agents[Symbol.asyncDispose]());
  return createAskBackend({ agents, keys: { of: () => undefined, lacks: () => false }, timeoutMs });
}

const onPrem = (url: string): Backend => ({ url, location: 'on-prem' });

test('backends are checked by their names, and one that cannot be reached fails', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const location = 'on-prem' as const;
  const away = { url: 'http://127.0.0.1:1/v1', location };
  const parsed = parsePlanFile(
    planFileFor({
      backends: { 'onprem-a': { url: server.url, location }, 'onprem-b': away },
    }),
  );
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  const { backends } = parsed.planFile;
  const checks = createBackendChecks({ ask: openAsk(t, 30_000), backends: () => backends });
  const named = checks.of(new Map(Object.entries(backends)));
  t.deepEqual(Object.keys(named), ['backend onprem-a', 'backend onprem-b']);
  await t.notThrowsAsync(async () => named['backend onprem-a']?.());
  await t.throwsAsync(async () => named['backend onprem-b']?.(), { message: /ECONNREFUSED/ });
  t.true(await checks.test('onprem-a'));
  t.false(await checks.test('onprem-b'));
});

test('a backend whose key this worker lacks fails its test, and is not asked', async (t) => {
  const agents = { of: () => t.fail('it is asked') as never };
  const ask = createAskBackend({ agents, keys: { of: () => undefined, lacks: () => true } });
  const backends = { a: { ...onPrem('http://a/v1'), apiKeyEnv: 'MISSING' } };
  const checks = createBackendChecks({ ask, backends: () => backends });
  const named = checks.of(new Map(Object.entries(backends)));
  await t.throwsAsync(async () => named['backend a']?.(), { message: /the variable with its API key is not set/ });
  t.false(await checks.test('a'));
});

test('a backend that does not answer in time fails', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1');
  t.teardown(() => silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo; // a TCP server has one
  const backends = { a: onPrem(`http://127.0.0.1:${port}/v1`) };
  const checks = createBackendChecks({ ask: openAsk(t, 50), backends: () => backends });
  const named = checks.of(new Map(Object.entries(backends)));
  await t.throwsAsync(async () => named['backend a']?.(), { name: 'TimeoutError' });
  t.false(await checks.test('a'));
});

test('a test asks what `health` says, and only a status of 500 or more fails', async (t) => {
  const asked: string[] = [];
  let status = 200;
  const backends: Record<string, Backend> = {
    models: onPrem('http://a/v1'),
    health: { ...onPrem('http://a/v1'), health: 'health' },
    ready: { ...onPrem('http://a/v1/'), health: 'ready', query: { 'api-version': '2026-01-01' } },
    path: { ...onPrem('http://a/v1'), health: '/api/ps?x=1', query: { y: '2' } },
  };
  const ask: AskBackend = async (_backend, { origin, path }) => {
    asked.push(origin + path);
    return { status, headers: {}, text: '' };
  };
  const testAll = async () => {
    const checks = createBackendChecks({ ask, backends: () => structuredClone(backends) });
    return new Set(await Promise.all(Object.keys(backends).map(checks.test)));
  };
  t.deepEqual(await testAll(), new Set([true]));
  t.deepEqual(asked, [
    'http://a/v1/models',
    'http://a/health',
    'http://a/ready?api-version=2026-01-01',
    'http://a/api/ps?x=1&y=2',
  ]);
  for (const [answer, isWell] of [
    ...[401, 403, 404, 499].map((code) => [code, true] as const),
    ...[500, 503].map((code) => [code, false] as const),
  ]) {
    status = answer;
    t.deepEqual(await testAll(), new Set([isWell]), String(answer));
  }
});

test('a backend has one test at a time and at most ten a second, whose result all get', async (t) => {
  const answers: PromiseWithResolvers<number>[] = [];
  const startedAt: number[] = [];
  const ask: AskBackend = async () => {
    startedAt.push(performance.now());
    const answer = Promise.withResolvers<number>();
    answers.push(answer);
    return { status: await answer.promise, headers: {}, text: '' };
  };
  const backends = { a: onPrem('http://a/v1'), b: onPrem('http://b/v1') };
  const checks = createBackendChecks({ ask, backends: () => backends });
  const both = [checks.test('a'), checks.test('a')];
  const other = checks.test('b');
  t.is(answers.length, 2, 'one for each backend');
  answers[0]?.resolve(500);
  answers[1]?.resolve(200);
  t.deepEqual(await Promise.all([...both, other]), [false, false, true]);
  t.false(await checks.test('a'), 'within a tenth of a second');
  t.is(answers.length, 2);
  while (answers.length === 2) {
    void checks.test('a');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const betweenMs = (startedAt[2] ?? 0) - (startedAt[0] ?? 0);
  t.true(betweenMs > 95 && betweenMs < 1_000, `${betweenMs} ms`);
  answers[2]?.resolve(200);
  t.true(await checks.test('a'));
  t.true(await checks.test('gone'), 'a backend that has gone cannot fail');
});
