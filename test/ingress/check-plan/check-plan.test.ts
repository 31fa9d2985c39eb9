import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import { showPlanFile } from '../../../ingress/api/present-plan-file.ts';
import { checkPlan as checkPlanWith, parseCheckPlanArguments } from '../../../ingress/check-plan/check-plan.ts';
import { generationOf } from '../../../shared/plan-file/plan-file.ts';
import { parsedPlan } from '../../support/parsed-plan.ts';
import { planText } from '../../support/plan-text.ts';
import { serveApp } from '../../support/serve-app.ts';

const variables: Record<string, string> = { GPU_KEY: 'key-of-the-gpu', CLOUD_API_KEY: 'key-of-the-cloud' };
const checkPlan = (given: { file: string; against: URL | undefined; probe?: boolean }) =>
  checkPlanWith({ probe: false, ...given }, (name) => variables[name]);

async function fileWith(t: ExecutionContext, text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'check-plan-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const file = join(folder, 'new.yaml');
  await writeFile(file, text);
  return file;
}

/** The operations listener of an ingress with this plan file in force. */
async function ingressWith(t: ExecutionContext, plan = parsedPlan()): Promise<URL> {
  const app = new Koa();
  app.use(showPlanFile({ current: () => plan.planFile, generation: () => plan.generation }));
  const served = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  return new URL(served.url);
}

test('every issue is printed with its line and column, and how many there are', async (t) => {
  const file = await fileWith(t, 'default_plan: gold\nplans: {}\nmodels: {}\nbackends: {}\n');
  const { lines, isValid } = await checkPlan({ file, against: undefined });
  t.false(isValid);
  t.deepEqual(lines, [
    `${file}:1:1: default_plan: there is no plan "gold"`,
    `${file}:2:1: plans.guest-device: this plan is required: guest keys are minted under it`,
    '2 issues',
  ]);
  t.regex((await checkPlan({ file: `${file}.none`, against: undefined })).lines.join(), /cannot read .*ENOENT/);
});

test('a valid file is printed with its generation', async (t) => {
  const file = await fileWith(t, planText());
  const report = await checkPlan({ file, against: undefined });
  t.deepEqual(report, { lines: [`${file} is valid; its generation is ${generationOf(planText())}`], isValid: true });
});

test('what is probably a mistake is a warning, and the file is valid: tiers without a plan or a model, a model without a backend that takes requests, and a missing key', async (t) => {
  const text = planText(({ plans, models, backends }) => {
    Object.assign(plans.free, { model_tiers: ['guest', 'premium', 'premium'] });
    Object.assign(models['small-chat'], { tier: 'standard' });
    Object.assign(backends.cloud, { api_key_env: 'CLOUD_KEY' });
    for (const backend of Object.values(backends)) Object.assign(backend, { weight: 0 });
  });
  const { lines, isValid } = await checkPlan({ file: await fileWith(t, text), against: undefined });
  t.true(isValid);
  t.deepEqual(lines.slice(1), [
    'warning: models.small-chat.tier: no plan has the tier "standard", so no one can use this model',
    'warning: plans.free.model_tiers: no model has the tier "guest"',
    'warning: plans.free.model_tiers: no model has the tier "premium"',
    'warning: plans.guest-device.model_tiers: no model has the tier "guest"',
    'warning: models.small-chat.backends: all have weight 0, so no request of this model is answered',
    'warning: backends.cloud.api_key_env: the variable CLOUD_KEY is not set; a worker without it does not call this backend',
  ]);
  const many = planText(({ models }) => {
    const others = Array.from({ length: 150 }, (_, index) => [
      `m${index}`,
      { ...structuredClone(models['small-chat']), tier: `t${index}` },
    ]);
    Object.assign(models, Object.fromEntries(others));
  });
  t.is((await checkPlan({ file: await fileWith(t, many), against: undefined })).lines.length, 101, 'a hundred at most');
});

test('the changes against a running ingress, and what follows from them', async (t) => {
  const text = planText(({ plans, models, backends, ...others }) => {
    Object.assign(plans.free, { requests_per_minute: 60, tokens_per_minute: 1_000 });
    Object.assign(models, { 'new-chat': { ...models['small-chat'], pool: 'gpu', backends: ['gpu-a'] } });
    Reflect.deleteProperty(models, 'small-chat');
    Object.assign(backends, { 'gpu-a': { url: 'http://gpu/v1', location: 'on-prem', api_key_env: 'GPU_KEY' } });
    Reflect.deleteProperty(backends, 'onprem-a');
    return others;
  });
  const { lines, isValid } = await checkPlan({ file: await fileWith(t, text), against: await ingressWith(t) });
  t.true(isValid);
  t.deepEqual(lines.slice(1), [
    `In force there is ${parsedPlan().generation}. 6 changes:`,
    '  plans.free.requests_per_minute: 20 → 60',
    '  plans.free.tokens_per_minute: none → 1000',
    '- models.small-chat',
    '+ models.new-chat {"tier":"guest","pool":"gpu","backends":["gpu-a"],"endpoints":["chat"],"output_tokens_max":4096}',
    '- backends.onprem-a',
    '+ backends.gpu-a {"url":"http://gpu/v1","location":"on-prem","api_key_env":"GPU_KEY"}',
    'Ingresses switch once a worker serves the new pool "gpu".',
    'Workers need the variable GPU_KEY, or they do not call the backends that name it.',
    'New requests for "small-chat" are refused. Those that wait or run are ended by the workers.',
  ]);
});

test('a list that has changed is one change, and a file that is in force is none', async (t) => {
  const against = await ingressWith(t);
  const changed = planText(({ models }) => Object.assign(models['small-chat'], { backends: ['cloud'] }));
  const { lines } = await checkPlan({ file: await fileWith(t, changed), against });
  t.deepEqual(lines.slice(2), ['  models.small-chat.backends: ["onprem-a","cloud"] → ["cloud"]']);
  const same = await checkPlan({ file: await fileWith(t, planText()), against });
  t.is(same.lines[1], 'It is in force there.');
  const comment = await checkPlan({ file: await fileWith(t, `# A comment\n${planText()}`), against });
  t.deepEqual(comment.lines.slice(1), [`In force there is ${parsedPlan().generation}. 0 changes:`]);
});

test('passwords in addresses are not compared and not shown', async (t) => {
  const withPassword = (password: string) => (plan: Parameters<NonNullable<Parameters<typeof planText>[0]>>[0]) =>
    Object.assign(plan.backends.cloud, { url: `https://user:${password}@api.example.com/v1` });
  const against = await ingressWith(t, parsedPlan(withPassword('first-secret')));
  const { lines } = await checkPlan({ file: await fileWith(t, planText(withPassword('second-secret'))), against });
  t.is(lines.length, 2);
  t.notRegex(lines.join(), /secret/);
});

test('an ingress that does not answer is reported', async (t) => {
  const file = await fileWith(t, planText());
  const { lines, isValid } = await checkPlan({ file, against: new URL('http://127.0.0.1:1') });
  t.false(isValid);
  t.regex(lines[1] ?? '', /^http:\/\/127\.0\.0\.1:1\/ does not answer: /);
  const app = new Koa();
  const served = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  t.regex((await checkPlan({ file, against: new URL(served.url) })).lines[1] ?? '', /does not answer: status 404/);
});

test('arguments that are not understood are refused', (t) => {
  t.deepEqual(parseCheckPlanArguments(['a.yaml']), { file: 'a.yaml', against: undefined, probe: false });
  t.deepEqual(parseCheckPlanArguments(['--against', 'http://127.0.0.1:8081', 'a.yaml']), {
    file: 'a.yaml',
    against: new URL('http://127.0.0.1:8081'),
    probe: false,
  });
  t.like(parseCheckPlanArguments(['--probe', 'a.yaml']), { probe: true });
  t.is(parseCheckPlanArguments(['--help']), 'help');
  for (const wrong of [[], ['a', 'b'], ['a', '--force'], ['a', '--against'], ['a', '--against', 'ingress']])
    t.is(parseCheckPlanArguments(wrong), undefined, wrong.join(' '));
});

/** A model server that answers these paths with JSON, or with a status. */
async function serverWith(t: ExecutionContext, answers: Record<string, object | number>, wantedKey?: string) {
  const app = new Koa();
  app.use(async (ctx) => {
    const answer =
      wantedKey === undefined || ctx.get('authorization') === `Bearer ${wantedKey}` ? answers[ctx.path] : 401;
    if (typeof answer === 'object') ctx.body = answer;
    else ctx.status = answer ?? 404;
  });
  const served = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  return `${served.url}/v1`;
}

test('a probe prints a line for each backend, and fails if one is not well', async (t) => {
  const list = (...data: object[]) => ({ object: 'list', data });
  const vllm = list({ id: 'small-chat', owned_by: 'vllm', max_model_len: 32_768 });
  const [well, silent, keyless, other, unlisted, dead, poor, full, page] = await Promise.all([
    serverWith(t, { '/v1/models': vllm, '/version': { version: '0.33.0' } }, variables.GPU_KEY),
    serverWith(t, { '/v1/models': 503 }),
    serverWith(t, { '/v1/models': vllm }, 'another-key'),
    serverWith(t, { '/v1/models': list(...['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((id) => ({ id }))) }),
    serverWith(t, { '/health': {} }),
    serverWith(t, { '/v1/models': vllm, '/health': 503 }),
    serverWith(t, { '/v1/models': 402 }),
    serverWith(t, { '/v1/models': 429 }),
    serverWith(t, { '/v1/models': { says: 'hello' } }),
  ]);
  const probed = async (names: readonly string[]) => {
    const location = 'on-prem';
    const all: Record<string, object> = {
      well: { url: well, location, api_key_env: 'GPU_KEY' },
      silent: { url: silent, location },
      keyless: { url: keyless, location, api_key_env: 'GPU_KEY' },
      other: { url: other, location },
      unlisted: { url: unlisted, location, health: 'health' },
      elsewhere: { url: unlisted.replace('/v1', ''), location },
      'unlisted-dead': { url: silent.replace('/v1', ''), location, health: '/v1/models' },
      poor: { url: poor, location },
      full: { url: full, location },
      page: { url: page, location },
      dead: { url: dead, location, health: 'health' },
      away: { url: 'http://127.0.0.1:1/v1', location },
      unset: { url: well, location, api_key_env: 'NO_KEY' },
      unread: { url: well, location, api_key_file: '/none/key' },
    };
    const text = planText((plan) => {
      Object.assign(plan, { backends: Object.fromEntries(names.map((name) => [name, all[name]])) });
      Object.assign(plan.models['small-chat'], { backends: names });
    });
    const { lines, isValid } = await checkPlan({ file: await fileWith(t, text), against: undefined, probe: true });
    return { lines: lines.slice(1).map((line) => line.replace(/\d+ ms/, '9 ms')), isValid };
  };
  const failing = [
    ...['silent', 'elsewhere', 'unlisted-dead', 'poor', 'full', 'page'],
    ...['keyless', 'other', 'dead', 'away', 'unset', 'unread'],
  ];
  const { lines, isValid } = await probed(['well', 'unlisted', ...failing]);
  t.false(isValid);
  t.deepEqual(lines, [
    'well: vLLM 0.33.0, 9 ms, has small-chat, context 32768',
    'unlisted: 404: it does not list its models',
    'silent: 503: it does not answer with a list of models',
    'elsewhere: 404: it does not list its models; check its url, or set its health to a path that it has',
    'unlisted-dead: its health test fails: the backend answered 503',
    'poor: 402: its account is refused',
    'full: 429: it is busy, or its account has no quota left',
    'page: 200: it does not answer with a list of models',
    'keyless: 401: its key is refused',
    'other: does not have small-chat (it has a, b, c, d, e, 2 more)',
    'dead: its health test fails: the backend answered 503',
    'away: no connection (ECONNREFUSED)',
    'unset: backends.unset.api_key_env: the variable NO_KEY is not set; a worker without it does not call this backend',
    'unread: backends.unread.api_key_file: /none/key: cannot be read (ENOENT)',
  ]);
  t.true((await probed(['well', 'unlisted'])).isValid);
  for (const name of failing) t.false((await probed([name])).isValid, name);
});
