import AnthropicSdk from '@anthropic-ai/sdk';
import test, { type ExecutionContext } from 'ava';
import OpenAI from 'openai';
import { type Account, openAccount } from '../../support/endpoints/open-account.ts';
import { type EndpointName, endpointNames, sdkCalls } from '../../support/endpoints/sdk-calls.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const plans = {
  'one-request-a-minute': { requests_per_minute: 1, model_tiers: ['guest'] },
  'few-tokens-a-minute': { tokens_per_minute: 400, model_tiers: ['guest'] },
  'one-token-a-month': { tokens_per_month: 1, model_tiers: ['guest'] },
  'other-tiers': { model_tiers: ['premium'] },
};
const models = { ...everyEndpoint, 'chat-only': { tier: 'guest', pool: 'default' } };
const shared = openSharedStack(test, { models, plans });
const requestId = /^req_[0-9A-Z]{26}$/;

/** What each package makes of an error, in the same words. */
type Seen = {
  status: unknown;
  code: unknown;
  type: unknown;
  limit: unknown;
  message: string;
  body: Record<string, unknown>;
};

/** Anthropic's type by status. */
const anthropicTypes: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};

async function errorOf(t: ExecutionContext, call: Promise<unknown>): Promise<Seen> {
  const error = await t.throwsAsync(call);
  if (error instanceof OpenAI.APIError) {
    t.regex(error.requestID ?? '', requestId);
    const { status, code, type, message, error: body } = error;
    t.is(message, `${status} ${(body as { message: string }).message}`);
    t.truthy(type);
    return { status, code, type, limit: type, message, body: body as Seen['body'] };
  }
  if (!(error instanceof AnthropicSdk.APIError)) throw error;
  t.regex(error.requestID ?? '', requestId);
  const body = error.error as { error: Record<string, unknown>; request_id: string }; // the service's own answer
  t.is(error.requestID ?? '', body.request_id);
  t.is<unknown, unknown>(error.type, anthropicTypes[error.status ?? 0]);
  const { code, limit, message } = body.error;
  t.is(message, error.apiMessage ?? undefined);
  return { status: error.status, code, type: error.type, limit, message: String(message), body: body.error };
}

const open = (name: EndpointName, about: string, plan?: keyof typeof plans) =>
  openAccount(shared.stack(), `errors-${name}-${about}`, plan === undefined ? {} : { plan });

for (const name of endpointNames) {
  const ask = sdkCalls[name];

  test(`${name}: the package reports which limit was exceeded, and when to come back`, async (t) => {
    const requests = await open(name, 'requests', 'one-request-a-minute');
    await ask(requests);
    const ofRequests = await errorOf(t, ask(requests));
    t.like(ofRequests, { status: 429, code: 'rate_limit_exceeded', limit: 'requests_limit' });
    const waitMs = Number(ofRequests.body.retry_after_ms);
    t.true(waitMs > 0 && waitMs <= 60_000);

    const tokens = await open(name, 'tokens', 'few-tokens-a-minute');
    const large = { tokens: 250, question: 'repeat 9' };
    await ask(tokens, large);
    t.like(await errorOf(t, ask(tokens, large)), {
      status: 429,
      code: 'rate_limit_exceeded',
      limit: 'tokens_limit',
    });
  });

  test(`${name}: the package reports a request that can never pass, a plan without the model, and a used-up month`, async (t) => {
    const tokens = await open(name, 'too-large', 'few-tokens-a-minute');
    const never = await errorOf(t, ask(tokens, { tokens: 1_000 }));
    t.like(never, { status: 400, code: 'VALIDATION_ERROR', type: 'invalid_request_error' });
    t.regex(never.message, /tokens per minute of the plan/);

    const plan = await errorOf(t, ask(await open(name, 'plan', 'other-tiers')));
    t.like(plan, { status: 429, code: 'rate_limit_exceeded', limit: 'plan_limit', body: { retry_after_ms: 0 } });
    t.regex(plan.message, /"everything" is not available on the plan "other-tiers"/);

    const month = await open(name, 'month', 'one-token-a-month');
    await ask(month);
    await month.usageWith(1);
    const spent = await errorOf(t, ask(month));
    t.like(spent, { status: 402, code: 'quota_exceeded', limit: 'quota_limit', body: { overageEnabled: false } });
    t.regex(String(spent.body.resetDate), /^\d{4}-\d\d-01$/);
  });

  test(`${name}: the package reports an unknown model, one without the endpoint, and a wrong key`, async (t) => {
    const account = await open(name, 'validation');
    const unknown = await errorOf(t, ask(account, { model: 'none' }));
    const isMessages = name === 'messages';
    const [code, type] = isMessages ? ['NOT_FOUND', 'not_found_error'] : ['model_not_found', 'invalid_request_error'];
    t.like(unknown, { status: 404, code, type });
    t.regex(unknown.message, /There is no such model "none"; the plan ".*" has .*everything/);
    const without = await errorOf(t, ask(account, { model: 'chat-only' }));
    t.like(without, { status: 400, code: 'VALIDATION_ERROR' });
    t.regex(without.message, new RegExp(`"chat-only" does not offer ${name} \\(/v1/${name}\\); it offers chat`));
    if (!isMessages) t.like([unknown.body, without.body], [{ param: 'model' }, { param: 'model' }]);
    const plain = await account.post('/v1/chat/completions', {
      model: 'none',
      messages: [{ role: 'user', content: 'Hi' }],
    });
    t.is(plain.status, 400);
    t.like(await plain.json(), { code: 'VALIDATION_ERROR' });

    const wrongKey = 'svc_0000000000000000000000000000000000000A';
    const stranger: Account = {
      ...account,
      openai: account.openai.withOptions({ apiKey: wrongKey }),
      anthropic: account.anthropic.withOptions({ apiKey: wrongKey }),
    };
    t.like(await errorOf(t, ask(stranger)), { status: 401, code: 'INVALID_KEY' });
  });
}

test('a field of a wrong type is named, by param or in the message', async (t) => {
  const { openai, anthropic } = await openAccount(shared.stack(), 'errors-fields');
  const wrong = { model: 'everything', input: [{ role: 'user', content: 'x' }, 5], temperature: 9 };
  const ofResponse = await errorOf(t, openai.responses.create(wrong as never));
  t.like(ofResponse, { status: 400, body: { param: 'input[1]' } });
  t.regex(ofResponse.message, /input\[1\]: .*; temperature: /);
  t.like(await errorOf(t, openai.completions.create({ model: 'everything', prompt: [] })), {
    body: { param: 'prompt' },
  });
  const message = { model: 'everything', max_tokens: 5, messages: [{ role: 'user', content: [{ text: 'x' }] }] };
  t.regex(
    (await errorOf(t, anthropic.messages.create(message as never))).message,
    /^messages\[0\]\.content\[0\]\.type: /,
  );
});

test('an unknown path below the messages answers as the messages do', async (t) => {
  const { post, url } = await openAccount(shared.stack(), 'errors-paths');
  const unknown = await post('/v1/messages/batches', {});
  t.is(unknown.status, 404);
  const body = (await unknown.json()) as object; // the service's own answer
  t.like(body, {
    type: 'error',
    error: { type: 'not_found_error', code: 'NOT_FOUND' },
    request_id: unknown.headers.get('request-id'),
  });
  const wrongMethod = await fetch(`${url}/v1/messages`);
  t.is(wrongMethod.status, 405);
  t.like(await wrongMethod.json(), {
    type: 'error',
    error: { type: 'invalid_request_error', code: 'METHOD_NOT_ALLOWED' },
  });
});
