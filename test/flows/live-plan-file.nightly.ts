import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { generationOf } from '../../shared/plan-file/plan-file.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { createPlanEditor, shownBy, ways } from '../support/plan-file-editor.ts';

const plans = { tested: { requests_per_minute: 100, model_tiers: ['guest'] } };

let stack: Stack;
let keys: KeyClient;
let editor: ReturnType<typeof createPlanEditor>;

test.before(async () => {
  stack = await startStack({ ingresses: 2, workers: 2, plans });
  keys = createKeyClient(stack);
  editor = createPlanEditor(stack);
});

test.after.always(() => stack[Symbol.asyncDispose]());

const processes = () => [...stack.ingresses, ...stack.workers];
const inForce = (generation: string) => editor.until(processes(), (shown) => shown.generation === generation);

function ask(key: string, model = 'small-chat', ingress = 0): Promise<Response> {
  const { url } = stack.ingresses[ingress] ?? { url: '' };
  return chat({ url, key, model, question: 'repeat 3' });
}

test.serial('a change is in force in every process, however the file is written', async (t) => {
  const key = await keys.newKey('ways');
  for (const [index, way] of ways.entries()) {
    const name = `chat-${index}`;
    const edit = editor.change((plan) => {
      plan.models[name] = { tier: 'guest', pool: 'default', backends: ['onprem-a'], output_tokens_max: 100 };
    }, way);
    await inForce(await edit);
    for (const ingress of [0, 1]) t.is((await ask(key, name, ingress)).status, 200, way);
  }
});

test.serial('limits of a plan hold from the next request, at every ingress', async (t) => {
  const key = await keys.newKey('limits');
  await keys.change('user:limits', { plan: 'tested' });
  for (const ingress of [0, 1]) t.is((await ask(key, 'small-chat', ingress)).status, 200);
  const limited = (requests: number) =>
    editor.change(({ plans: { tested } }) => Object.assign(tested ?? {}, { requests_per_minute: requests }));
  await inForce(await limited(2));
  for (const ingress of [0, 1]) t.is((await ask(key, 'small-chat', ingress)).status, 429);
  await inForce(await limited(3));
  t.is((await ask(key)).status, 200);
  t.is((await ask(key, 'small-chat', 1)).status, 429);
});

test.serial('an invalid file changes nothing: every process names each issue, and the earlier one stays', async (t) => {
  const key = await keys.newKey('invalid');
  const text = await readFile(stack.planFile, 'utf8');
  const [before] = await Promise.all(stack.ingresses.map(shownBy));
  await editor.change((plan) => {
    plan.default_plan = 'gold';
    plan.models.broken = { tier: 'guest', pool: 'default', backends: ['nowhere'], output_tokens_max: 0 };
  });
  const shown = await editor.until(processes(), ({ issues }) => issues.length > 0);
  for (const { generation, issues } of shown) {
    t.is(generation, before?.generation ?? '');
    t.regex(issues.join('\n'), /plans\.yaml:\d+:\d+: default_plan: there is no plan "gold"/);
    t.regex(issues.join('\n'), /models\.broken\.backends\[0\]: there is no backend "nowhere"/);
    t.regex(issues.join('\n'), /models\.broken\.output_tokens_max/);
  }
  t.is((await ask(key)).status, 200);
  const metrics = await (await fetch(`${stack.workers[0]?.operationsUrl}/metrics`)).text();
  t.regex(metrics, /^svc_plan_file_issues 3$/m);
  t.regex(metrics, new RegExp(`^svc_plan_file_generation\\{generation="${before?.generation ?? ''}"\\} 1$`, 'm'));

  await editor.write('plans: [');
  await editor.until(processes(), ({ issues }) => issues.some((issue) => issue.includes('plans.yaml:1:')));
  await editor.write(text);
  await editor.until(processes(), ({ issues }) => issues.length === 0);
  t.is((await ask(key)).status, 200);
});

test.serial('an ingress switches once each pool has a worker that has switched', async (t) => {
  const key = await keys.newKey('pools');
  const generation = await editor.change((plan) => {
    plan.models['further-chat'] = { tier: 'guest', pool: 'further', backends: ['onprem-b'], output_tokens_max: 100 };
  });
  // These workers serve all pools of the plan file, so that they serve the new one, too.
  await inForce(generation);
  t.is((await ask(key, 'further-chat')).status, 200);
});

test.serial('a backend whose key a worker lacks is not called from then on, and the others answer', async (t) => {
  const key = await keys.newKey('variables');
  const text = await readFile(stack.planFile, 'utf8');
  const generation = await editor.change((plan) => {
    Object.assign(plan.backends['onprem-a'] ?? {}, { api_key_env: 'A_KEY_THAT_IS_MISSING' });
  });
  await inForce(generation);
  const [keyless] = stack.modelServers;
  const before = keyless.calls().length;
  for (let asked = 0; asked < 10; asked++) t.is((await ask(key)).status, 200);
  t.is(keyless.calls().length, before);
  const warning =
    'backends.onprem-a.api_key_env: the variable A_KEY_THAT_IS_MISSING is not set; a worker without it does not call this backend';
  for (const worker of stack.workers) {
    await worker.process.line(({ level, warnings }) => level === 'warn' && String(warnings) === warning);
    await awaitMetric(worker, /^svc_backend_paused\{backend="onprem-a",kind="account"\} 1$/m);
  }
  await editor.write(text);
  await inForce(generationOf(text));
  while (keyless.calls().length === before) t.is((await ask(key)).status, 200, 'it is called again');
});

test.serial(
  'a file of a key that a worker cannot read makes the plan file invalid there, and no ingress switches',
  async (t) => {
    const key = await keys.newKey('files');
    const text = await readFile(stack.planFile, 'utf8');
    const generation = await editor.change((plan) => {
      Object.assign(plan.backends['onprem-a'] ?? {}, { api_key_file: '/none/key' });
    });
    const [first] = await editor.until(stack.workers, ({ issues }) => issues.length > 0);
    t.regex(first?.issues.join() ?? '', /backends\.onprem-a\.api_key_file: \/none\/key: cannot be read/);
    const waiting = await editor.until(stack.ingresses, ({ next }) => next?.generation === generation);
    t.deepEqual(waiting[0]?.next?.waitsFor.toSorted(), ['default', 'further', 'large']);
    t.is((await ask(key)).status, 200);
    await editor.write(text);
    await editor.until(processes(), ({ issues, next }) => issues.length === 0 && next === undefined);
  },
);

test.serial('a model that has gone is refused by ingresses, and no metric shows it there', async (t) => {
  const key = await keys.newKey('gone');
  t.is((await ask(key, 'chat-0')).status, 200);
  await inForce(await editor.change(({ models }) => Reflect.deleteProperty(models, 'chat-0')));
  t.is((await ask(key, 'chat-0')).status, 400);
  const { operationsUrl } = stack.ingresses[0] ?? { operationsUrl: '' };
  const scrape = async () => (await fetch(`${operationsUrl}/metrics`)).text();
  const metrics = await scrape();
  t.regex(metrics, /^svc_queue_oldest_age_seconds\{.*model="chat-1"/m);
  t.notRegex(metrics, /^svc_queue_(depth|oldest_age_seconds)\{.*model="chat-0"/m);
  t.regex(metrics, /^svc_inference_requests_total\{model="chat-0"/m, 'counters are read twice more');
  await scrape();
  t.notRegex(await scrape(), /model="chat-0"/);
});

test.serial('a worker that stops is not one that an ingress waits for, also while its jobs still run', async (t) => {
  const key = await keys.newKey('stopping');
  const settings = async () => {
    const { body } = await keys.send('GET', '/admin/settings', { bearer: await keys.token('operator', true) });
    return body.processes as { kind: string; id: string }[];
  };
  const workers = async () => (await settings()).filter(({ kind }) => kind === 'worker').map(({ id }) => id);
  const { process, operationsUrl } = await stack.startWorker();
  while ((await workers()).length < 3) await sleep(20);
  const running = async () => ((await (await fetch(`${operationsUrl}/readyz`)).json()) as { running: number }).running;
  for (const server of stack.modelServers) server.fail({ hang: true });
  const leave = new AbortController();
  const asked: Promise<unknown>[] = [];
  const { url } = stack.ingresses[0] ?? { url: '' };
  while ((await running()) === 0) {
    asked.push(chat({ url, key, question: 'repeat 3', signal: leave.signal }).catch(() => {}));
    await sleep(50);
  }
  process.kill('SIGTERM');
  while ((await workers()).length > 2) await sleep(20);
  t.true((await running()) > 0);
  leave.abort();
  for (const server of stack.modelServers) server.heal();
  await Promise.all(asked);
  t.is(await process.exited, 0);
});
