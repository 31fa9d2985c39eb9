import test from 'ava';
import type { AskBackend } from '../../../shared/backends/ask-backend.ts';
import { followFacts } from '../../../workers/backends/follow-facts.ts';
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
