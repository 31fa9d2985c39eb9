import test from 'ava';
import { priorityMax } from '../../../shared/plan-file/plan-file-schema.ts';
import { bodyFor, createOwnFields } from '../../../workers/backend-client/body-for.ts';
import { batchPlan } from '../../support/batch-plan.ts';

const { plans } = batchPlan();
const pepper = 'p'.repeat(32);
const ownFields = createOwnFields({ plans: () => plans, pepper });
const backend = { url: 'http://127.0.0.1:8000/v1', location: 'on-prem' } as const;
const asked = (account = 'user:alice', plan = 'free', lane: 'interactive' | 'batch' = 'interactive') => ({
  job: { account, plan },
  lane,
});

test('a backend with neither option gets neither field', (t) => {
  t.deepEqual(ownFields(asked(), backend), {});
  t.deepEqual(
    createOwnFields({ plans: () => plans, pepper: undefined })(asked(), {
      ...backend,
      cacheSalt: false,
      priority: false,
    }),
    {},
  );
});

test("an account's salt never changes, differs from other accounts' salts, and does not reveal the account", (t) => {
  const saltOf = (account: string, of = ownFields) =>
    of(asked(account), { ...backend, cacheSalt: true }).cache_salt ?? '';
  const salt = saltOf('user:alice');
  t.regex(salt, /^[\w-]{43}$/);
  t.is(saltOf('user:alice'), salt);
  t.is(saltOf('user:alice', createOwnFields({ plans: () => plans, pepper })), salt, 'in every worker');
  t.not(saltOf('user:bob'), salt);
  t.not(saltOf('user:alice', createOwnFields({ plans: () => plans, pepper: 'q'.repeat(32) })), salt);
});

test("a request has its plan's priority, lower first, and lines of batches come after every request", (t) => {
  const priorityOf = (plan: string, lane?: 'interactive' | 'batch') =>
    ownFields(asked('user:alice', plan, lane), { ...backend, priority: true }).priority ?? Number.NaN;
  t.is(priorityOf('pro'), 5);
  t.is(priorityOf('guest-device'), 100);
  t.is(priorityOf('a plan that no longer exists'), 1_000);
  t.is(priorityOf('pro', 'batch'), 5 + priorityMax);
  t.true(priorityOf('pro', 'batch') > priorityMax && priorityOf('pro', 'batch') < priorityOf('free', 'batch'));
});

test("the service's fields replace the client's, and nothing else changes", (t) => {
  const payload =
    '{"messages":[{"content":"\\"priority\\":1"}],"priority":-9,"seed":9223372036854775807,"cache_salt":"mine"}';
  const job = {
    endpoint: '/v1/chat/completions',
    model: 'small-chat',
    outputTokensMax: 64,
    limitFields: [],
    assembled: false,
    stream: false,
    choices: 1,
    payload,
  };
  const head = '{"model":"small-chat","max_tokens":64,';
  const whole = '"stream":false,';
  const messages = '"messages":[{"content":"\\"priority\\":1"}]';
  t.is(
    bodyFor(job, backend, { own: { cache_salt: 'ours', priority: 7 } }),
    `${head}"cache_salt":"ours","priority":7,${whole}${messages},"seed":9223372036854775807}`,
  );
  t.is(
    bodyFor(job, backend, { own: { priority: 7 } }),
    `${head}"priority":7,${whole}${messages},"seed":9223372036854775807,"cache_salt":"mine"}`,
  );
  t.is(bodyFor(job, backend), head + whole + payload.slice(1));
});
