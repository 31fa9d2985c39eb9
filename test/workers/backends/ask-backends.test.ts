import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { type AskBackend, createAskBackend } from '../../../shared/fleet/ask-backend.ts';
import { createBackendAgents } from '../../../shared/fleet/backend-agents.ts';
import { type Backend, parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { createBackendChecks, followFacts } from '../../../workers/backends/ask-backends.ts';
import { startModelServer } from '../../stack/model-server.ts';
import { planFileFor } from '../../stack/plan.ts';
import { parsedPlan } from '../../support/parsed-plan.ts';
import { recordedLog } from '../../support/recorded-log.ts';

function open(answer: () => object | undefined) {
  let time = 0;
  let status = 200;
  let { planFile } = parsedPlan(({ backends }) => Object.assign(backends.cloud, { context_tokens_max: 777 }));
  const asked: string[] = [];
  const ask: AskBackend = async (_backend, { origin, path }) => {
    asked.push(origin + path);
    const body = answer();
    if (body === undefined) throw new Error('no connection');
    return { status, headers: {}, text: JSON.stringify(body) };
  };
  const { log, lines } = recordedLog();
  const called = () => new Map(Object.entries(planFile.backends).filter(([name]) => name === 'onprem-a'));
  const facts = followFacts({ ask, currentPlanFile: () => planFile, called, log, now: () => time });
  return {
    ...{ facts, asked, lines },
    replace(next: typeof planFile) {
      planFile = next;
    },
    answerWith(next: number) {
      status = next;
    },
    pass(ms: number) {
      time += ms;
    },
  };
}

const models = (context: number) => ({ data: [{ id: 'small-chat', owned_by: 'vllm', max_model_len: context }] });

test('the context is that of the plan file, else what the backend reports, else unknown', async (t) => {
  using parts = open(() => models(4_096)).facts;
  t.is(parts.contextOf('onprem-a'), undefined);
  await parts.look();
  t.is(parts.contextOf('onprem-a'), 4_096);
  t.is(parts.contextOf('cloud'), 777);
  t.is(parts.contextOf('none'), undefined);
});

test('a backend is asked every five minutes, and at the next look if it has not answered; meanwhile it has what it said', async (t) => {
  let answer: object | undefined;
  const { facts, asked, pass } = open(() => answer);
  using _facts = facts;
  await facts.look();
  t.is(facts.contextOf('onprem-a'), undefined);
  await facts.look();
  t.is(asked.length, 1);
  answer = models(100);
  pass(30_000);
  await facts.look();
  t.is(facts.contextOf('onprem-a'), 100);
  answer = models(200);
  pass(270_000);
  await facts.look();
  t.is(facts.contextOf('onprem-a'), 100);
  answer = undefined;
  pass(30_000);
  await facts.look();
  t.is(facts.contextOf('onprem-a'), 100);
  answer = models(200);
  pass(30_000);
  await facts.look();
  t.is(facts.contextOf('onprem-a'), 200);
});

for (const status of [429, 500, 503]) {
  test(`what a backend said stays while it answers ${status}, and it is asked at the next look`, async (t) => {
    const { facts, asked, pass, answerWith } = open(() => models(100));
    using _facts = facts;
    await facts.look();
    pass(300_000);
    answerWith(status);
    await facts.look();
    t.is(facts.contextOf('onprem-a'), 100);
    pass(30_000);
    asked.length = 0;
    await facts.look();
    t.regex(asked[0] ?? '', /\/v1\/models$/);
  });
}

test('what a backend said is forgotten when it no longer lists its models', async (t) => {
  const { facts, asked, pass, answerWith } = open(() => models(100));
  using _facts = facts;
  await facts.look();
  pass(300_000);
  answerWith(404);
  await facts.look();
  t.is(facts.contextOf('onprem-a'), undefined);
  pass(30_000);
  asked.length = 0;
  await facts.look();
  t.deepEqual(asked, []);
});

test('after the plan file has changed it is asked at once', async (t) => {
  const { facts, asked, replace } = open(() => models(100));
  using _facts = facts;
  await facts.look();
  asked.length = 0;
  replace(parsedPlan(({ backends }) => Object.assign(backends['onprem-a'], { url: 'http://other/v1' })).planFile);
  t.is(facts.contextOf('onprem-a'), undefined);
  await facts.look();
  t.deepEqual(asked, ['http://other/v1/models', 'http://other/version']);
});

test('a backend without a limit is named once, with what it says of itself', async (t) => {
  const llama = { data: [{ id: 'x', owned_by: 'llamacpp' }], total_slots: 4, build_info: 'b1' };
  const { facts, lines, pass } = open(() => llama);
  using _facts = facts;
  await facts.look();
  pass(300_000);
  await facts.look();
  const warnings = lines.filter(({ level }) => level === 'warn');
  t.is(warnings.length, 1);
  t.deepEqual(warnings[0]?.fields, { backend: 'onprem-a', engine: 'llama.cpp b1', slots: 4 });
  t.regex(warnings[0]?.message ?? '', /no requests_at_once/);
});

test('one that has said nothing is named as well, and one with a limit is not', async (t) => {
  const silent = open(() => undefined);
  using _silent = silent.facts;
  await silent.facts.look();
  t.deepEqual(
    silent.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields),
    [{ backend: 'onprem-a' }],
  );
  const limited = open(() => models(100));
  using _limited = limited.facts;
  limited.replace(parsedPlan(({ backends }) => Object.assign(backends['onprem-a'], { requests_at_once: 8 })).planFile);
  await limited.facts.look();
  t.deepEqual(limited.lines, []);
});

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
