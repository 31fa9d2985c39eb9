import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startModelServer } from '../stack/model-server.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';
import { createPlanEditor, type EditedPlan, ways } from '../support/plan-file-editor.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { sized } from '../support/size.ts';

const changes = sized(20, 200);
const clients = 6;
/** Models that are always there, whatever changes. */
const stable = ['small-chat', 'medium-chat'];
/** One that comes and goes. */
const passing = 'passing-chat';
const plans = { tested: { model_tiers: ['guest', 'standard'] } };

type Asked = { status: number; model: string; body: string };

/** Asks until it is stopped, whole and streamed, at each ingress in turn. Returns what was not answered. */
async function load(stack: Stack, key: string, stop: AbortSignal): Promise<{ asked: number; others: Asked[] }> {
  const others: Asked[] = [];
  let asked = 0;
  async function client(number: number): Promise<void> {
    for (let turn = number; !stop.aborted; turn++) {
      const model = turn % 3 === 2 ? passing : (stable[turn % stable.length] ?? '');
      const { url } = stack.ingresses[turn % 2] ?? { url: '' };
      const response = await chat({ url, key, model, question: 'repeat 3', stream: turn % 4 === 0 });
      const body = await response.text();
      asked++;
      if (response.status !== 200 || body.includes('"error"')) others.push({ status: response.status, model, body });
      await sleep(10);
    }
  }
  await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return { asked, others };
}

test('changes of the plan file under load: no request fails, and limits are those of the file', async (t) => {
  t.timeout(1_800_000);
  await using further = await startModelServer({ name: 'further' });
  await using stack = await startStack({ ingresses: 2, workers: 2, plans });
  const keys = createKeyClient(stack);
  const editor = createPlanEditor(stack);
  const key = await keys.newKey('load');
  await keys.change('user:load', { plan: 'tested' });
  const limitedKey = await keys.newKey('limited');
  const processes = [...stack.ingresses, ...stack.workers];
  const random = seededRandom(27);
  const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)] as Value;
  const stop = new AbortController();
  const loading = load(stack, key, stop.signal);
  const tookMs: number[] = [];

  /** Backends of stable models are added, removed and changed. One that answers always stays. */
  const edits: ((plan: EditedPlan) => void)[] = [
    ({ backends, models }) => {
      Object.assign(backends, { further: { url: further.url, location: 'on-prem', requests_at_once: 8 } });
      for (const name of stable) models[name]?.backends.push('further');
    },
    ({ backends, models }) => {
      for (const model of Object.values(models)) model.backends = model.backends.filter((name) => name !== 'further');
      Reflect.deleteProperty(backends, 'further');
    },
    ({ models }) => {
      models[passing] = {
        tier: 'guest',
        pool: pick(['default', 'large']),
        backends: ['onprem-b'],
        output_tokens_max: 50,
      };
    },
    ({ models }) => void Reflect.deleteProperty(models, passing),
    ({ backends }) => void Object.assign(backends['onprem-a'] ?? {}, { requests_at_once: pick([4, 16, 64]) }),
    ({ timeouts }) => void Object.assign(timeouts, { queue_ms: pick([10_000, 20_000, 30_000]) }),
    ({ models }) => void Object.assign(models['medium-chat'] ?? {}, { pool: pick(['default', 'large', 'other']) }),
    (plan) =>
      void Object.assign(plan, {
        plans: { ...plan.plans, extra: { model_tiers: ['guest'], priority: pick([1, 2, 3]) } },
      }),
  ];
  const invalid: ((plan: EditedPlan) => void)[] = [
    (plan) => void Object.assign(plan, { default_plan: 'gold' }),
    ({ models }) => void Object.assign(models['small-chat'] ?? {}, { backends: ['nowhere'] }),
    ({ backends }) => void Object.assign(backends['onprem-a'] ?? {}, { url: 'not an address' }),
  ];

  for (let change = 0; change < changes; change++) {
    const begunAt = performance.now();
    if (change % 5 === 4) {
      const text = await editor.text();
      await editor.change(pick(invalid), pick(ways));
      await editor.until(processes, ({ issues }) => issues.length > 0);
      await editor.write(text, pick(ways));
      await editor.until(processes, ({ issues }) => issues.length === 0);
      continue;
    }
    const limit = 1 + change;
    const generation = await editor.change((plan) => {
      pick(edits)(plan);
      Object.assign(plan.plans.free ?? {}, { requests_at_once: limit });
    }, pick(ways));
    await editor.until(processes, (shown) => shown.generation === generation);
    tookMs.push(performance.now() - begunAt);
    const { body } = await keys.send('GET', '/billing/plan', { bearer: limitedKey });
    t.is(body.requestsAtOnce, limit, 'the next request is limited by the new file');
  }
  stop.abort();
  const { asked, others } = await loading;
  const failed = others.filter(({ status, model }) => model !== passing || status !== 400);
  const warnings = processes.flatMap(({ process }) => process.logs.filter(({ level }) => level !== 'info'));
  t.deepEqual(failed, [], JSON.stringify(warnings.slice(-40)));
  t.true(asked > changes);
  t.true(others.length < asked, 'the passing model was there for a while');
  const sorted = tookMs.toSorted((one, other) => one - other);
  const [median, longest] = [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)];
  t.log(
    `${asked} requests; a change is in force everywhere after ${Math.round(median ?? 0)} ms, at most ${Math.round(longest ?? 0)} ms`,
  );
});
